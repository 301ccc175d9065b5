//! The choices of a plan.

use std::str::FromStr;

use crate::error::PlanError;

/// Where weights and caches may live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Placement {
    /// The fastest that this build and this machine have: for the time being, the CPU.
    #[default]
    Auto,
    /// Everything in host memory, computed by the CPU.
    Cpu,
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
}

impl FromStr for Placement {
    type Err = PlanError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            _ => Err(PlanError::Invalid {
                option: "placement",
                value: word.to_owned(),
                why: "this build knows auto and cpu".to_owned(),
            }),
        }
    }
}

/// How many positions a session may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Context {
    /// The model's trained context, shortened to what fits in memory but not below 4096.
    #[default]
    Auto,
    /// Exactly this many.
    Tokens(usize),
}
