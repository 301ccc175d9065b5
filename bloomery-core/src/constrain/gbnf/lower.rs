//! From rules to terminals, and rules over terminals.

use std::collections::{HashMap, HashSet};

use super::class::Class;
use super::node::{Node, Rules, Tokens};

/// A grammar over terminals.
#[derive(Debug)]
pub(super) struct Lowered {
    /// Of every rule its alternatives. Rule 0 is the beginning.
    pub(super) rules: Vec<Vec<Vec<Symbol>>>,
    pub(super) terminals: Vec<Terminal>,
}

/// A step of an alternative.
#[derive(Debug, Clone, Copy)]
pub(super) enum Symbol {
    Terminal { index: usize, optional: bool },
    Rule(usize),
    Repeat(usize, u32, Option<u32>),
    Tokens(Tokens),
}

/// Text that is matched as a whole. The empty text is never matched: symbols are optional instead.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) regex: String,
    pub(super) node: Node,
    /// Whether the expression matches the empty text.
    pub(super) empty: bool,
}

impl Lowered {
    /// The grammar of a root that is one terminal.
    pub(super) fn whole(rules: &Rules) -> Lowered {
        Lowered::new(rules, &HashSet::new())
    }

    /// The grammar in which the terminals of these expressions are taken apart.
    pub(super) fn new(rules: &Rules, apart: &HashSet<String>) -> Lowered {
        let mut lowering = Lowering {
            source: rules,
            apart,
            out: Lowered { rules: vec![Vec::new()], terminals: Vec::new() },
            known: HashMap::from([(rules.root, 0)]),
            terminals: HashMap::new(),
            waiting: vec![(0, rules.root)],
        };
        while let Some((place, rule)) = lowering.waiting.pop() {
            lowering.out.rules[place] = lowering.alternatives(&rules.rules[rule].body);
        }
        lowering.out
    }
}

struct Lowering<'a> {
    source: &'a Rules,
    apart: &'a HashSet<String>,
    out: Lowered,
    known: HashMap<usize, usize>,
    terminals: HashMap<String, usize>,
    waiting: Vec<(usize, usize)>,
}

impl Lowering<'_> {
    /// A part as alternatives. Those that are regular become one.
    fn alternatives(&mut self, node: &Node) -> Vec<Vec<Symbol>> {
        let Node::Choice(parts) = node else { return vec![self.sequence(node)] };
        if self.source.regular(node) {
            return vec![self.text(node)];
        }
        let (regular, others): (Vec<&Node>, Vec<&Node>) =
            parts.iter().partition(|part| self.source.regular(part));
        let mut alternatives: Vec<_> = others.into_iter().map(|part| self.sequence(part)).collect();
        match regular.as_slice() {
            [] => {}
            [part] => alternatives.push(self.text(part)),
            parts => {
                let fused = Node::Choice(parts.iter().copied().cloned().collect());
                alternatives.push(self.text(&fused));
            }
        }
        alternatives
    }

    /// A part as one sequence. Neighbours that are regular become one.
    fn sequence(&mut self, node: &Node) -> Vec<Symbol> {
        if self.source.regular(node) {
            return self.text(node);
        }
        match node {
            Node::Class(_) => self.text(node),
            Node::Tokens(tokens) => vec![Symbol::Tokens(*tokens)],
            Node::Rule(rule) => vec![Symbol::Rule(self.rule(*rule))],
            Node::Choice(_) => {
                let alternatives = self.alternatives(node);
                vec![Symbol::Rule(self.fresh(alternatives))]
            }
            Node::Repeat(inner, least, most) => {
                let alternatives = self.alternatives(inner);
                vec![Symbol::Repeat(self.fresh(alternatives), *least, *most)]
            }
            Node::Sequence(parts) => {
                let mut symbols = Vec::new();
                for run in parts.chunk_by(|a, b| self.source.regular(a) && self.source.regular(b)) {
                    symbols.extend(match run {
                        [part] => self.sequence(part),
                        run => self.text(&Node::Sequence(run.to_vec())),
                    });
                }
                symbols
            }
        }
    }

    /// A regular part as one terminal, or taken apart by one level.
    fn text(&mut self, node: &Node) -> Vec<Symbol> {
        let mut regex = String::new();
        write(node, self.source, &mut regex);
        if regex.is_empty() {
            return Vec::new();
        }
        if !self.apart.contains(&regex) || matches!(node, Node::Class(_)) {
            let optional = matches_empty(node, self.source);
            return vec![Symbol::Terminal { index: self.terminal(regex, node, optional), optional }];
        }
        match node {
            Node::Class(_) | Node::Tokens(_) => Vec::new(),
            Node::Rule(rule) => self.text(&self.source.rules[*rule].body),
            Node::Sequence(parts) => parts.iter().flat_map(|part| self.text(part)).collect(),
            Node::Choice(parts) => {
                let alternatives = parts.iter().map(|part| self.text(part)).collect();
                vec![Symbol::Rule(self.fresh(alternatives))]
            }
            Node::Repeat(inner, least, most) => {
                let inner = self.text(inner);
                vec![Symbol::Repeat(self.fresh(vec![inner]), *least, *most)]
            }
        }
    }

    fn terminal(&mut self, regex: String, node: &Node, empty: bool) -> usize {
        let terminals = &mut self.out.terminals;
        *self.terminals.entry(regex).or_insert_with_key(|regex| {
            terminals.push(Terminal { regex: regex.clone(), node: node.clone(), empty });
            terminals.len() - 1
        })
    }

    fn rule(&mut self, rule: usize) -> usize {
        if let Some(&place) = self.known.get(&rule) {
            return place;
        }
        let place = self.fresh(Vec::new());
        self.known.insert(rule, place);
        self.waiting.push((place, rule));
        place
    }

    fn fresh(&mut self, alternatives: Vec<Vec<Symbol>>) -> usize {
        self.out.rules.push(alternatives);
        self.out.rules.len() - 1
    }
}

/// A regular part as an expression.
fn write(node: &Node, rules: &Rules, out: &mut String) {
    match node {
        Node::Class(class) => class.write(out),
        Node::Tokens(_) => {}
        Node::Rule(rule) => write(&rules.rules[*rule].body, rules, out),
        Node::Sequence(parts) => parts.iter().for_each(|part| write(part, rules, out)),
        Node::Choice(parts) => {
            for (index, part) in parts.iter().enumerate() {
                out.push_str(if index == 0 { "(?:" } else { "|" });
                write(part, rules, out);
            }
            out.push(')');
        }
        Node::Repeat(inner, least, most) => {
            let start = out.len();
            out.push_str("(?:");
            write(inner, rules, out);
            // What repeats nothing is nothing.
            if out.len() == start + 3 {
                out.truncate(start);
                return;
            }
            out.push(')');
            match (least, most) {
                (0, None) => out.push('*'),
                (1, None) => out.push('+'),
                (0, Some(1)) => out.push('?'),
                (least, None) => out.push_str(&format!("{{{least},}}")),
                (least, Some(most)) => out.push_str(&format!("{{{least},{most}}}")),
            }
        }
    }
}

fn matches_empty(node: &Node, rules: &Rules) -> bool {
    match node {
        Node::Class(_) | Node::Tokens(_) => false,
        Node::Rule(rule) => matches_empty(&rules.rules[*rule].body, rules),
        Node::Sequence(parts) => parts.iter().all(|part| matches_empty(part, rules)),
        Node::Choice(parts) => parts.iter().any(|part| matches_empty(part, rules)),
        Node::Repeat(inner, least, _) => *least == 0 || matches_empty(inner, rules),
    }
}

impl Terminal {
    /// Whether the terminal is a single character, which clashes with nothing.
    pub(super) fn single(&self) -> Option<&Class> {
        match &self.node {
            Node::Class(class) => Some(class),
            _ => None,
        }
    }
}
