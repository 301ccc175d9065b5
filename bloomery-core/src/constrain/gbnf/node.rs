//! A grammar as it is written, and what can be said about its rules.

use std::collections::HashMap;

use super::class::Class;
use super::tail;
use crate::constrain::GrammarError;

/// Most positions that a rule may stand for once its repetitions are written out.
const MOST: u64 = 1_000_000;
/// Rules that refer to no cycle are written out in place up to this many characters...
const LONGEST: u64 = 100_000;
/// ... and this many levels: expressions of the engine have at most 250, and a level here may be four there.
const DEEPEST: u32 = 40;

/// A set of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tokens {
    One(u32),
    AllBut(u32),
}

/// The right side of a rule, or a part of it.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Class(Class),
    Tokens(Tokens),
    Rule(usize),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
}

/// A rule of a grammar.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) body: Node,
    facts: Facts,
}

/// What counts about a rule or a part.
#[derive(Debug, Clone, Copy)]
struct Facts {
    /// Refers to no cycle and to no token, and is short enough to be written out.
    regular: bool,
    /// Characters, each repetition counted once.
    length: u64,
    /// Characters, repetitions written out.
    positions: u64,
    depth: u32,
}

/// A whole grammar.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    pub(super) root: usize,
}

impl Rules {
    pub(super) fn new(bodies: Vec<(String, Node)>, root: usize) -> Rules {
        let unknown = Facts { regular: false, length: 0, positions: 0, depth: 0 };
        let rules = bodies
            .into_iter()
            .enumerate()
            .map(|(index, (name, body))| Rule { name, body: tail::repeated(index, body), facts: unknown })
            .collect();
        let mut rules = Rules { rules, root };
        for index in rules.acyclic() {
            rules.rules[index].facts = rules.facts(&rules.rules[index].body);
        }
        rules
    }

    /// Whether a rule can be written out as a regular expression.
    pub(super) fn is_regular(&self, rule: usize) -> bool {
        self.rules[rule].facts.regular
    }

    /// Whether a part can be written out as a regular expression.
    pub(super) fn regular(&self, node: &Node) -> bool {
        self.facts(node).regular
    }

    /// Refuses what has no end and what is repeated too often.
    pub(super) fn check(&self) -> Result<(), GrammarError> {
        let over = self.rules.iter().find(|rule| rule.facts.positions > MOST);
        if let Some(rule) = over {
            let (rule, count) = (rule.name.clone(), rule.facts.positions);
            return Err(GrammarError::Repetition { rule, count, limit: MOST });
        }
        let mut ends = vec![false; self.rules.len()];
        loop {
            let more: Vec<usize> = (0..ends.len())
                .filter(|&rule| !ends[rule] && ends_with(&self.rules[rule].body, &ends))
                .collect();
            if more.is_empty() {
                break;
            }
            more.into_iter().for_each(|rule| ends[rule] = true);
        }
        match ends[self.root] {
            true => Ok(()),
            false => Err(GrammarError::Endless { name: self.rules[self.root].name.clone() }),
        }
    }

    /// The rules that lead to no cycle, those first that others refer to.
    fn acyclic(&self) -> Vec<usize> {
        let mut waiting: Vec<usize> = Vec::with_capacity(self.rules.len());
        let mut users: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let mut used = Vec::new();
            references(&rule.body, &mut used);
            used.sort_unstable();
            used.dedup();
            waiting.push(used.len());
            used.into_iter().for_each(|target| users.entry(target).or_default().push(index));
        }
        let mut order: Vec<usize> = (0..waiting.len()).filter(|&rule| waiting[rule] == 0).collect();
        let mut next = 0;
        while let Some(&done) = order.get(next) {
            next += 1;
            for &user in users.get(&done).into_iter().flatten() {
                waiting[user] -= 1;
                if waiting[user] == 0 {
                    order.push(user);
                }
            }
        }
        order
    }

    fn facts(&self, node: &Node) -> Facts {
        let mut facts = match node {
            Node::Class(_) => Facts { regular: true, length: 1, positions: 1, depth: 0 },
            Node::Tokens(_) => Facts { regular: false, length: 1, positions: 1, depth: 0 },
            Node::Rule(rule) => self.rules[*rule].facts,
            Node::Sequence(parts) | Node::Choice(parts) => {
                let none = Facts { regular: true, length: 0, positions: 0, depth: 0 };
                parts.iter().map(|part| self.facts(part)).fold(none, |sum, part| Facts {
                    regular: sum.regular && part.regular,
                    length: sum.length.saturating_add(part.length),
                    positions: sum.positions.saturating_add(part.positions),
                    depth: sum.depth.max(part.depth + 1),
                })
            }
            Node::Repeat(inner, least, most) => {
                let inner = self.facts(inner);
                let count = u64::from(most.unwrap_or((*least).max(1)));
                let positions = inner.positions.saturating_mul(count);
                Facts { positions, depth: inner.depth + 1, ..inner }
            }
        };
        facts.regular &= facts.length <= LONGEST && facts.depth <= DEEPEST;
        facts
    }
}

fn references(node: &Node, used: &mut Vec<usize>) {
    match node {
        Node::Class(_) | Node::Tokens(_) => {}
        Node::Rule(rule) => used.push(*rule),
        Node::Sequence(parts) | Node::Choice(parts) => parts.iter().for_each(|part| references(part, used)),
        Node::Repeat(inner, ..) => references(inner, used),
    }
}

/// Whether a part can come to an end if these rules can.
fn ends_with(node: &Node, ends: &[bool]) -> bool {
    match node {
        Node::Class(_) | Node::Tokens(_) => true,
        Node::Rule(rule) => ends[*rule],
        Node::Sequence(parts) => parts.iter().all(|part| ends_with(part, ends)),
        Node::Choice(parts) => parts.iter().any(|part| ends_with(part, ends)),
        Node::Repeat(inner, least, _) => *least == 0 || ends_with(inner, ends),
    }
}
