//! What a terminal matches, as an automaton with one state for each of its characters.

use super::class::Class;
use super::node::{Node, Rules};

/// States of one terminal.
const STATES: usize = 20_000;
/// Steps from state to state of one terminal.
const STEPS: usize = 200_000;
/// Bounded repetitions above this are taken for endless ones. That only makes terminals look less apart than they are.
const WRITTEN_OUT: u32 = 12;

/// State 0 is the beginning. The empty text is not matched, whatever the terminal says.
#[derive(Debug)]
pub(super) struct Automaton {
    /// What leads into each state.
    pub(super) classes: Vec<Class>,
    /// Where each state leads.
    pub(super) next: Vec<Vec<u32>>,
    /// Whether a text may end in each state.
    pub(super) ends: Vec<bool>,
    steps: usize,
}

/// A part of an automaton.
struct Part {
    empty: bool,
    first: Vec<u32>,
    last: Vec<u32>,
}

impl Automaton {
    /// The automaton of a regular part, if it is not too big.
    pub(super) fn new(node: &Node, rules: &Rules) -> Option<Automaton> {
        let mut automaton = Automaton {
            classes: vec![Class::new(Vec::new())],
            next: vec![Vec::new()],
            ends: vec![false],
            steps: 0,
        };
        let whole = automaton.part(node, rules)?;
        whole.last.iter().for_each(|&state| automaton.ends[state as usize] = true);
        automaton.connect(&[0], &whole.first)?;
        Some(automaton)
    }

    /// Characters that a text can begin with.
    pub(super) fn first(&self) -> Class {
        self.next[0].iter().fold(Class::new(Vec::new()), |mut all, &state| {
            all.join(&self.classes[state as usize]);
            all
        })
    }

    fn part(&mut self, node: &Node, rules: &Rules) -> Option<Part> {
        match node {
            Node::Class(class) => {
                let state = self.classes.len() as u32;
                if self.classes.len() > STATES {
                    return None;
                }
                self.classes.push(class.clone());
                self.next.push(Vec::new());
                self.ends.push(false);
                Some(Part { empty: false, first: vec![state], last: vec![state] })
            }
            Node::Tokens(_) => None,
            Node::Rule(rule) => self.part(&rules.rules[*rule].body, rules),
            Node::Sequence(parts) => {
                let mut whole = Part { empty: true, first: Vec::new(), last: Vec::new() };
                for part in parts {
                    let part = self.part(part, rules)?;
                    whole = self.chain(whole, part)?;
                }
                Some(whole)
            }
            Node::Choice(parts) => {
                let mut whole = Part { empty: false, first: Vec::new(), last: Vec::new() };
                for part in parts {
                    let part = self.part(part, rules)?;
                    whole.empty |= part.empty;
                    whole.first.extend(part.first);
                    whole.last.extend(part.last);
                }
                Some(whole)
            }
            Node::Repeat(inner, least, most) => self.repeat(inner, *least, *most, rules),
        }
    }

    fn repeat(&mut self, inner: &Node, least: u32, most: Option<u32>, rules: &Rules) -> Option<Part> {
        let most = most.filter(|&most| most <= WRITTEN_OUT);
        let copies = least.min(WRITTEN_OUT);
        let mut whole = Part { empty: true, first: Vec::new(), last: Vec::new() };
        for _ in 0..copies {
            let part = self.part(inner, rules)?;
            whole = self.chain(whole, part)?;
        }
        let optional = most.map_or(1, |most| most - copies);
        for _ in 0..optional {
            let mut part = self.part(inner, rules)?;
            part.empty = true;
            if most.is_none() {
                self.connect(&part.last, &part.first)?;
            }
            whole = self.chain(whole, part)?;
        }
        Some(whole)
    }

    fn chain(&mut self, mut before: Part, after: Part) -> Option<Part> {
        self.connect(&before.last, &after.first)?;
        if before.empty {
            before.first.extend_from_slice(&after.first);
        }
        if after.empty {
            before.last.extend(after.last);
        } else {
            before.last = after.last;
        }
        before.empty &= after.empty;
        Some(before)
    }

    fn connect(&mut self, from: &[u32], to: &[u32]) -> Option<()> {
        self.steps += from.len() * to.len();
        if self.steps > STEPS {
            return None;
        }
        from.iter().for_each(|&state| self.next[state as usize].extend_from_slice(to));
        Some(())
    }
}
