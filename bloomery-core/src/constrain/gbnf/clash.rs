//! Finds terminals of which the longest match is not the only one that the grammar allows.
//!
//! The engine reads the longest text that fits any terminal that may stand at a place. This loses a text where terminal
//! `a` could end, a character that may follow `a` comes next, and some terminal `b` that may stand at the same place
//! could go on with that character. Then `b` is taken apart: it must not swallow what may belong to others.

use std::collections::{HashSet, VecDeque};

use super::automaton::Automaton;
use super::class::Class;
use super::lower::{Lowered, Symbol};
use super::node::Rules;
use crate::constrain::GrammarError;

/// Terminals of one grammar.
const TERMINALS: usize = 512;
/// Comparisons of characters for one grammar: a quarter of a second.
const STEPS: usize = 20_000_000;

/// The grammar with terminals as long as they can be.
pub(super) fn separate(rules: &Rules) -> Result<Lowered, GrammarError> {
    let mut apart = HashSet::new();
    let mut steps = 0;
    loop {
        let lowered = Lowered::new(rules, &apart);
        let size = lowered.terminals.len();
        if size > TERMINALS {
            return Err(GrammarError::TooLarge { what: "terminals of the grammar", size, limit: TERMINALS });
        }
        let clashing = clashing(&lowered, rules, &mut steps)?;
        let before = apart.len();
        apart.extend(clashing.into_iter().map(|terminal| lowered.terminals[terminal].regex.clone()));
        if apart.len() == before {
            return Ok(lowered);
        }
    }
}

fn clashing(grammar: &Lowered, rules: &Rules, steps: &mut usize) -> Result<HashSet<usize>, GrammarError> {
    let automata: Vec<_> = grammar.terminals.iter().map(|it| Automaton::new(&it.node, rules)).collect();
    let too_big: HashSet<usize> = (0..automata.len()).filter(|&it| automata[it].is_none()).collect();
    if !too_big.is_empty() {
        return Ok(too_big);
    }
    let automata: Vec<Automaton> = automata.into_iter().flatten().collect();
    let sets = Sets::new(grammar);
    let follow: Vec<Class> = sets
        .after
        .iter()
        .map(|after| {
            after.iter().fold(Class::new(Vec::new()), |mut all, &terminal| {
                all.join(&automata[terminal].first());
                all
            })
        })
        .collect();
    let mut clashing = HashSet::new();
    let mut seen = HashSet::new();
    let mut places: VecDeque<(usize, usize)> = VecDeque::new();
    let mut stand = |xs: &HashSet<usize>, ys: &HashSet<usize>, places: &mut VecDeque<_>| {
        for &x in xs {
            for &y in ys {
                let pair = (x.min(y), x.max(y));
                if seen.insert(pair) {
                    places.push_back(pair);
                }
            }
        }
    };
    stand(&sets.first, &sets.first, &mut places);
    stand(&sets.after_tokens, &sets.after_tokens, &mut places);
    while let Some((a, b)) = places.pop_front() {
        let met = Meeting::of((&automata[a], &follow[a]), (&automata[b], &follow[b]), steps)?;
        if met.a_cut_by_b && grammar.terminals[b].single().is_none() {
            clashing.insert(b);
        }
        if met.b_cut_by_a && grammar.terminals[a].single().is_none() {
            clashing.insert(a);
        }
        if met.common {
            stand(&sets.after[a], &sets.after[b], &mut places);
        }
    }
    Ok(clashing)
}

/// What two terminals that stand at the same place have in common.
#[derive(Default)]
struct Meeting {
    /// Some text is matched by both.
    common: bool,
    /// Where `a` could end and go on with what follows it, `b` could go on as well.
    a_cut_by_b: bool,
    b_cut_by_a: bool,
}

impl Meeting {
    fn of(
        (a, after_a): (&Automaton, &Class),
        (b, after_b): (&Automaton, &Class),
        steps: &mut usize,
    ) -> Result<Meeting, GrammarError> {
        let mut met = Meeting::default();
        let mut seen = HashSet::from([(0, 0)]);
        let mut open = vec![(0_u32, 0_u32)];
        while let Some((p, q)) = open.pop() {
            let (from_p, from_q) = (&a.next[p as usize], &b.next[q as usize]);
            let goes_on = |automaton: &Automaton, to: &[u32], with: &Class| {
                to.iter().any(|&state| automaton.classes[state as usize].meets(with))
            };
            let (a_ends, b_ends) = (a.ends[p as usize], b.ends[q as usize]);
            met.common |= a_ends && b_ends;
            met.a_cut_by_b |= a_ends && goes_on(b, from_q, after_a);
            met.b_cut_by_a |= b_ends && goes_on(a, from_p, after_b);
            *steps += from_p.len() * from_q.len() + from_p.len() + from_q.len();
            if *steps > STEPS {
                return Err(GrammarError::TooLarge {
                    what: "comparisons to tell the terminals of the grammar apart",
                    size: *steps,
                    limit: STEPS,
                });
            }
            for &x in from_p {
                for &y in from_q {
                    if a.classes[x as usize].meets(&b.classes[y as usize]) && seen.insert((x, y)) {
                        open.push((x, y));
                    }
                }
            }
        }
        Ok(met)
    }
}

/// Which terminals stand where.
struct Sets {
    /// At the beginning.
    first: HashSet<usize>,
    /// After each terminal.
    after: Vec<HashSet<usize>>,
    /// After any token literal.
    after_tokens: HashSet<usize>,
}

impl Sets {
    fn new(grammar: &Lowered) -> Sets {
        let count = grammar.rules.len();
        let mut facts = Facts { empty: vec![false; count], first: vec![HashSet::new(); count] };
        while facts.grow(grammar) {}
        let mut follow: Vec<HashSet<usize>> = vec![HashSet::new(); count];
        let mut sets = Sets {
            first: facts.first[0].clone(),
            after: vec![HashSet::new(); grammar.terminals.len()],
            after_tokens: HashSet::new(),
        };
        let mut waiting: VecDeque<usize> = (0..count).collect();
        let mut queued = vec![true; count];
        while let Some(rule) = waiting.pop_front() {
            queued[rule] = false;
            for alternative in &grammar.rules[rule] {
                let mut behind = follow[rule].clone();
                for symbol in alternative.iter().rev() {
                    let grown = match *symbol {
                        Symbol::Terminal { index, .. } => {
                            sets.after[index].extend(&behind);
                            None
                        }
                        Symbol::Tokens(_) => {
                            sets.after_tokens.extend(&behind);
                            None
                        }
                        Symbol::Rule(inner) => Some(inner),
                        Symbol::Repeat(inner, ..) => {
                            behind.extend(&facts.first[inner]);
                            Some(inner)
                        }
                    };
                    if let Some(inner) = grown {
                        let before = follow[inner].len();
                        follow[inner].extend(&behind);
                        if follow[inner].len() > before && !queued[inner] {
                            queued[inner] = true;
                            waiting.push_back(inner);
                        }
                    }
                    let (empty, first) = facts.symbol(*symbol);
                    if !empty {
                        behind.clear();
                    }
                    behind.extend(first);
                }
            }
        }
        sets
    }
}

struct Facts {
    empty: Vec<bool>,
    first: Vec<HashSet<usize>>,
}

impl Facts {
    /// Whether a symbol may be nothing, and what it begins with.
    fn symbol(&self, symbol: Symbol) -> (bool, HashSet<usize>) {
        match symbol {
            Symbol::Terminal { index, optional } => (optional, HashSet::from([index])),
            Symbol::Rule(rule) => (self.empty[rule], self.first[rule].clone()),
            Symbol::Repeat(rule, least, _) => (least == 0 || self.empty[rule], self.first[rule].clone()),
            Symbol::Tokens(_) => (false, HashSet::new()),
        }
    }

    /// Looks at every rule once; whether anything was learnt.
    fn grow(&mut self, grammar: &Lowered) -> bool {
        let mut grown = false;
        for (rule, alternatives) in grammar.rules.iter().enumerate() {
            for alternative in alternatives {
                let mut all_empty = true;
                for symbol in alternative {
                    let (empty, first) = self.symbol(*symbol);
                    let before = self.first[rule].len();
                    self.first[rule].extend(first);
                    grown |= self.first[rule].len() > before;
                    if !empty {
                        all_empty = false;
                        break;
                    }
                }
                grown |= all_empty && !self.empty[rule];
                self.empty[rule] |= all_empty;
            }
        }
        grown
    }
}
