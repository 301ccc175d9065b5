//! The choices of a plan.

use std::fmt;
use std::str::FromStr;

use crate::error::PlanError;

/// Where weights and caches may live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Placement {
    /// The first card that has kernels for the model and room for it; without one, the CPU.
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
            Self::Several(count) => write!(f, "{count} cards"),
        }
    }
}

/// `auto`, `cpu`, `cuda` (the first card) or `cuda` with a number, in any case.
impl FromStr for Placement {
    type Err = PlanError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let lower = word.to_ascii_lowercase();
        match (lower.as_str(), lower.strip_prefix("cuda")) {
            ("auto", _) => return Ok(Self::Auto),
            ("cpu", _) => return Ok(Self::Cpu),
            (_, Some("")) => return Ok(Self::Card(0)),
            (_, Some(number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                if let Ok(number) = number.parse() {
                    return Ok(Self::Card(number));
                }
            }
            _ => {}
        }
        Err(PlanError::Invalid {
            option: "placement",
            value: word.to_owned(),
            why: "expected auto, cpu, cuda or cuda with a number".to_owned(),
        })
    }
}

/// How many positions a session may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Context {
    /// The model's trained context, shortened to what fits in memory but not below 4096.
    #[default]
    Auto,
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
        ] {
            assert_eq!(word.parse::<Placement>().unwrap(), placement);
            assert_eq!(placement.to_string(), word);
        }
        assert_eq!("CUDA1".parse::<Placement>().unwrap(), Placement::Card(1));
        assert_eq!("cuda".parse::<Placement>().unwrap(), Placement::Card(0));
        for wrong in ["", "gpu", "cuda-1", "cuda+1", "cuda99999999999999999999", "cuda 0"] {
            assert!(wrong.parse::<Placement>().is_err(), "{wrong}");
        }
    }
}
