//! The choices of a plan.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::error::PlanError;

/// Where weights and caches may live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Placement {
    /// The first card that has kernels for the model and room for it. Without one, a model with experts is split between the
    /// card with most free memory and the CPU, and any other is on the CPU.
    #[default]
    Auto,
    /// Everything in host memory, computed by the CPU.
    Cpu,
    /// Everything in the memory of the card of this number.
    Card(usize),
    /// All but experts on the card of this number, and as many experts as fit; the others are computed by the CPU.
    Split(usize),
    /// Everything on one card if it fits, else [`Split`](Self::Split) with it.
    Fill(CardPick),
    /// Spread over so many cards: not in this release, so that plans are refused.
    Several(usize),
}

/// One of the cards of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CardPick {
    /// The one with most memory, of equal ones the first.
    Largest,
    /// The one with least memory, of equal ones the first.
    Smallest,
    /// The one of this number.
    Number(usize),
}

impl Placement {
    /// The fastest placement of this machine.
    #[must_use]
    pub fn auto() -> Self {
        Self::Auto
    }

    /// Everything on the CPU.
    #[must_use]
    pub fn cpu() -> Self {
        Self::Cpu
    }

    /// Everything on one card. The driver numbers those that `CUDA_VISIBLE_DEVICES` leaves visible from 0.
    #[must_use]
    pub fn card(number: usize) -> Self {
        Self::Card(number)
    }

    /// All but experts on one card, and as many of them as fit; the CPU computes the others.
    #[must_use]
    pub fn split(number: usize) -> Self {
        Self::Split(number)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Card(number) => write!(f, "cuda{number}"),
            Self::Split(number) => write!(f, "cuda{number}+cpu"),
            Self::Fill(CardPick::Largest) => f.write_str("a"),
            Self::Fill(CardPick::Smallest) => f.write_str("gate"),
            Self::Fill(CardPick::Number(number)) => write!(f, "{number}"),
            Self::Several(count) => {
                let numbers: Vec<String> = (0..*count).map(|number| number.to_string()).collect();
                f.write_str(&numbers.join("+"))
            }
        }
    }
}

/// In any case:
///
/// | word | |
/// |---|---|
/// | `auto`, `cpu` | |
/// | `cuda`, `cuda1` | everything on the first card, or on card 1 |
/// | `cuda1+cpu` | [`Split`](Placement::Split) |
/// | `a`, `gate`, `1` | as much as fits on the largest card, on the smallest, on card 1 |
/// | `b`, `bp`, `0+1` | several cards |
impl FromStr for Placement {
    type Err = PlanError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let lower = word.to_ascii_lowercase();
        let place = match lower.as_str() {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Card(0)),
            "a" => Some(Self::Fill(CardPick::Largest)),
            "gate" => Some(Self::Fill(CardPick::Smallest)),
            "b" | "bp" => Some(Self::Several(2)),
            lower => match lower.strip_prefix("cuda") {
                Some(rest) => match rest.strip_suffix("+cpu") {
                    Some(card) => number(card).map(Self::Split),
                    None => number(rest).map(Self::Card),
                },
                None => numbers(lower),
            },
        };
        place.ok_or_else(|| PlanError::Invalid {
            option: "placement",
            value: word.to_owned(),
            why: WORDS.to_owned(),
        })
    }
}

const WORDS: &str = "expected auto, cpu, cuda or cuda with a number; a, gate or the number of a card for as much as fits \
                     there; b, bp or numbers with + between for several cards";

/// Digits alone: `parse` would take a sign.
fn number(word: &str) -> Option<usize> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}

/// `1`, or `0+1`.
fn numbers(word: &str) -> Option<Placement> {
    let cards: Vec<usize> = word.split('+').map(number).collect::<Option<_>>()?;
    let distinct: HashSet<usize> = cards.iter().copied().collect();
    match cards.as_slice() {
        [card] => Some(Placement::Fill(CardPick::Number(*card))),
        _ => (distinct.len() == cards.len()).then_some(Placement::Several(cards.len())),
    }
}

/// How many positions a session may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Context {
    /// The model's trained context, shortened to what fits in memory but not below
    /// [`EngineBuilder::context_floor`](crate::EngineBuilder::context_floor).
    #[default]
    Auto,
    /// The model's trained context, or a refusal.
    Trained,
    /// Exactly this many.
    Tokens(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_placements_and_print_back() {
        for (word, placement) in [
            ("auto", Placement::Auto),
            ("cpu", Placement::Cpu),
            ("cuda0", Placement::Card(0)),
            ("cuda12", Placement::Card(12)),
            ("cuda3+cpu", Placement::Split(3)),
            ("a", Placement::Fill(CardPick::Largest)),
            ("gate", Placement::Fill(CardPick::Smallest)),
            ("1", Placement::Fill(CardPick::Number(1))),
            ("0+1+2", Placement::Several(3)),
        ] {
            assert_eq!(word.parse::<Placement>().unwrap(), placement);
            assert_eq!(placement.to_string(), word);
        }
        assert_eq!("CUDA1".parse::<Placement>().unwrap(), Placement::Card(1));
        assert_eq!("cuda".parse::<Placement>().unwrap(), Placement::Card(0));
        for two in ["b", "bp", "BP", "3+1"] {
            assert_eq!(two.parse::<Placement>().unwrap(), Placement::Several(2), "{two}");
        }
        for wrong in [
            "",
            "gpu",
            "0+0",
            "0+",
            "+1",
            "0+cpu",
            "cuda+cpu",
            "-1",
            "cuda-1",
            "cuda+1",
            "cuda99999999999999999999",
            "cuda 0",
        ] {
            assert!(wrong.parse::<Placement>().is_err(), "{wrong}");
        }
    }
}
