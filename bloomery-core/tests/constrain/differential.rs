//! Random grammars against a recogniser that tries every way to read a text.

use std::collections::{BTreeSet, HashMap};

use bloomery_core::constrain::{Grammar, Next};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::support::{accepts, constraint, engine};

/// Part of a grammar over the letters a, b and c.
#[derive(Debug, Clone)]
enum Part {
    Literal(String),
    Class { letters: String, negated: bool },
    Rule(usize),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Repeat(Box<Part>, u32, Option<u32>),
}

fn part() -> impl Strategy<Value = Part> {
    let letters = || prop::sample::subsequence(vec!['a', 'b', 'c'], 1..3);
    let leaf = prop_oneof![
        2 => "[abc]{1,3}".prop_map(Part::Literal),
        2 => (letters(), prop::bool::weighted(0.2))
            .prop_map(|(letters, negated)| Part::Class { letters: letters.into_iter().collect(), negated }),
        2 => (0..4_usize).prop_map(Part::Rule),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let count = prop_oneof![
            Just((0, None)),
            Just((1, None)),
            Just((0, Some(1))),
            Just((2, Some(2))),
            Just((1, Some(3))),
            Just((2, None)),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Part::Sequence),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Part::Choice),
            (inner, count).prop_map(|(part, (least, most))| Part::Repeat(Box::new(part), least, most)),
        ]
    })
}

fn write(part: &Part, out: &mut String) {
    match part {
        Part::Literal(text) => *out += &format!("\"{text}\" "),
        Part::Class { letters, negated } => {
            *out += &format!("[{}{letters}] ", if *negated { "^" } else { "" })
        }
        Part::Rule(rule) => *out += &name(*rule),
        Part::Sequence(parts) => {
            *out += "( ";
            parts.iter().for_each(|part| write(part, out));
            *out += ") ";
        }
        Part::Choice(parts) => {
            for (index, part) in parts.iter().enumerate() {
                *out += if index == 0 { "( " } else { "| " };
                write(part, out);
            }
            *out += ") ";
        }
        Part::Repeat(part, least, most) => {
            *out += "( ";
            write(part, out);
            *out += &match (least, most) {
                (0, None) => ")* ".to_owned(),
                (1, None) => ")+ ".to_owned(),
                (0, Some(1)) => ")? ".to_owned(),
                (least, None) => format!("){{{least},}} "),
                (least, Some(most)) => format!("){{{least},{most}}} "),
            };
        }
    }
}

fn name(rule: usize) -> String {
    if rule == 0 { "root ".to_owned() } else { format!("r{rule} ") }
}

/// Where each rule can end if it begins at each place. Grows until nothing new is found, so cycles end.
struct Reader<'a> {
    rules: &'a [Part],
    text: &'a [char],
    ends: HashMap<(usize, usize), BTreeSet<usize>>,
}

impl Reader<'_> {
    fn fits(&mut self) -> bool {
        loop {
            let before: usize = self.ends.values().map(BTreeSet::len).sum();
            for rule in 0..self.rules.len() {
                for at in 0..=self.text.len() {
                    let found = self.read(&self.rules[rule], at);
                    self.ends.entry((rule, at)).or_default().extend(found);
                }
            }
            if self.ends.values().map(BTreeSet::len).sum::<usize>() == before {
                return self.ends[&(0, 0)].contains(&self.text.len());
            }
        }
    }

    fn read(&self, part: &Part, at: usize) -> BTreeSet<usize> {
        match part {
            Part::Literal(text) => {
                let text: Vec<char> = text.chars().collect();
                let fits = self.text[at..].starts_with(&text);
                fits.then_some(at + text.len()).into_iter().collect()
            }
            Part::Class { letters, negated } => {
                let fits = self.text.get(at).is_some_and(|&c| letters.contains(c) != *negated);
                fits.then_some(at + 1).into_iter().collect()
            }
            Part::Rule(rule) => self.ends.get(&(*rule, at)).cloned().unwrap_or_default(),
            Part::Choice(parts) => parts.iter().flat_map(|part| self.read(part, at)).collect(),
            Part::Sequence(parts) => {
                parts.iter().fold(BTreeSet::from([at]), |from, part| self.all(part, &from))
            }
            Part::Repeat(part, least, most) => {
                let mut from = BTreeSet::from([at]);
                for _ in 0..*least {
                    from = self.all(part, &from);
                }
                let mut ends = from.clone();
                // More rounds than characters find nothing new: each has to take one.
                let rounds = most.map_or(self.text.len() as u32, |most| most - least);
                for _ in 0..rounds {
                    from = self.all(part, &from);
                    ends.extend(&from);
                }
                ends
            }
        }
    }

    fn all(&self, part: &Part, from: &BTreeSet<usize>) -> BTreeSet<usize> {
        from.iter().flat_map(|&at| self.read(part, at)).collect()
    }
}

fn fits(rules: &[Part], text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    Reader { rules, text: &chars, ends: HashMap::new() }.fits()
}

/// What a walk along the masks writes, if it comes to an end.
fn written(grammar: &Grammar, seed: u64) -> Option<String> {
    let mut constraint = constraint(grammar);
    let tokenizer = engine().tokenizer();
    let (mut ids, mut random) = (Vec::new(), seed);
    for _ in 0..12 {
        let id = match constraint.next().ok()? {
            Next::End => return Some(tokenizer.decode(&ids, false)),
            Next::Only(id) => id,
            Next::Any => return None,
            Next::Among(mask) => {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let set: Vec<u32> = (0..tokenizer.vocab_size() as u32)
                    .filter(|&id| crate::support::allowed(mask, id))
                    .collect();
                set[(random >> 33) as usize % set.len()]
            }
        };
        constraint.accept(id).unwrap_or_else(|error| panic!("{error} after {ids:?}: {id}"));
        if tokenizer.is_end_of_generation(id) {
            return Some(tokenizer.decode(&ids, false));
        }
        ids.push(id);
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_text_is_read_as_the_grammar_says(
        rules in prop::collection::vec(part(), 4),
        texts in prop::collection::vec("[abc]{0,7}", 12),
        seeds in prop::collection::vec(any::<u64>(), 6),
    ) {
        let mut text = String::new();
        for (index, rule) in rules.iter().enumerate() {
            text += &format!("{}::= ", name(index));
            write(rule, &mut text);
            text += "\n";
        }
        let grammar = Grammar::gbnf(&text);
        if let Err(error) = engine().constraint(&grammar) {
            prop_assert!(error.to_string().contains("no finite text"), "{error}: {text}");
            return Ok(());
        }
        for sample in texts {
            prop_assert_eq!(accepts(&grammar, &sample), fits(&rules, &sample), "{:?} under\n{}", sample, text);
        }
        for sample in seeds.into_iter().filter_map(|seed| written(&grammar, seed)) {
            prop_assert!(fits(&rules, &sample), "{:?} was written under\n{}", sample, text);
        }
    }
}
