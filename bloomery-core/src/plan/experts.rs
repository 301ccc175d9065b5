//! Which layers' experts are kept out of the card.

use std::fmt;

use regex::Regex;

use crate::error::PlanError;

/// Layers whose experts stay in host memory. Long prompts still bring them to the card for the time of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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

/// Rules of the form `PATTERN=CPU` or `PATTERN=CUDA0`, divided by commas: a tensor is where the first pattern says that is
/// found in its name. What has whole stacks of experts of a layer on the CPU can be planned, and nothing else.
///
/// ```
/// use bloomery_core::TensorRules;
///
/// assert!(TensorRules::parse(r"blk\.[0-3]\.ffn_.*_exps=CUDA0,exps=CPU").is_ok());
/// assert!(TensorRules::parse("exps=DISK").is_err());
/// ```
#[derive(Debug, Clone)]
pub struct TensorRules {
    #[cfg_attr(
        not(any(feature = "cuda", test)),
        expect(dead_code, reason = "without kernels nothing is on a card")
    )]
    rules: Vec<(Regex, Side)>,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Host,
    Card(usize),
}

/// The three stacks of a routed layer and the layer's number in the model.
#[cfg_attr(
    not(any(feature = "cuda", test)),
    expect(dead_code, reason = "without kernels nothing is on a card")
)]
#[derive(Debug, Clone, Copy)]
pub(super) struct RoutedLayer<'a> {
    pub(super) layer: usize,
    pub(super) stacks: [&'a str; 3],
}

#[cfg(any(feature = "cuda", test))]
impl HostExperts {
    /// For each routed layer, whether its experts stay in host memory where everything else is on card `number`. `tensors`
    /// are the names of all tensors.
    pub(super) fn layers<'a>(
        &self,
        number: usize,
        routed: &[RoutedLayer<'_>],
        tensors: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<bool>, PlanError> {
        Ok(match self {
            Self::AsNeeded => vec![false; routed.len()],
            Self::All => vec![true; routed.len()],
            Self::FirstLayers(count) => routed.iter().map(|routed| routed.layer < *count).collect(),
            Self::Rules(rules) => rules.layers(number, routed, tensors)?,
        })
    }
}

impl TensorRules {
    /// Reads the rules.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] naming the part that is not a rule.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let invalid = |rule: &str, why: String| PlanError::Invalid {
            option: "tensor rule",
            value: rule.to_owned(),
            why,
        };
        let rule = |rule: &str| {
            let Some((pattern, side)) = rule.rsplit_once('=').filter(|(pattern, _)| !pattern.is_empty())
            else {
                return Err(invalid(rule, "expected PATTERN=CPU or PATTERN=CUDA0".to_owned()));
            };
            let upper = side.to_ascii_uppercase();
            let side = match (upper.as_str(), upper.strip_prefix("CUDA").map(str::parse)) {
                ("CPU" | "CUDA_HOST", _) => Side::Host,
                (_, Some(Ok(number))) => Side::Card(number),
                _ => return Err(invalid(rule, format!("`{side}` is neither CPU nor CUDA with a number"))),
            };
            let pattern = Regex::new(pattern).map_err(|error| {
                invalid(rule, format!("the pattern is not a regular expression: {error}"))
            })?;
            Ok((pattern, side))
        };
        let rules = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let rules = rules.map(rule).collect::<Result<Vec<_>, _>>()?;
        if rules.is_empty() {
            return Err(invalid(text, "there is no rule in it".to_owned()));
        }
        Ok(Self { rules, text: text.to_owned() })
    }
}

#[cfg(any(feature = "cuda", test))]
impl TensorRules {
    fn side(&self, tensor: &str) -> Option<Side> {
        self.rules.iter().find_map(|(pattern, side)| pattern.is_match(tensor).then_some(*side))
    }

    fn layers<'a>(
        &self,
        number: usize,
        routed: &[RoutedLayer<'_>],
        tensors: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<bool>, PlanError> {
        let refuse = |why: String| PlanError::Invalid {
            option: "tensor rules",
            value: self.text.clone(),
            why: format!("{why}; rules can put the experts of whole layers on the CPU, such as exps=CPU"),
        };
        for tensor in tensors {
            match self.side(tensor) {
                Some(Side::Card(card)) if card != number => {
                    return Err(refuse(format!(
                        "`{tensor}` would be on CUDA{card}, the model is on CUDA{number}"
                    )));
                }
                Some(Side::Host) if !routed.iter().any(|routed| routed.stacks.contains(&tensor)) => {
                    return Err(refuse(format!("`{tensor}` would be on the CPU and is no stack of experts")));
                }
                _ => {}
            }
        }
        let layer = |routed: &RoutedLayer<'_>| {
            let host = routed.stacks.map(|stack| self.side(stack) == Some(Side::Host));
            match host.iter().filter(|host| **host).count() {
                0 => Ok(false),
                3 => Ok(true),
                count => {
                    Err(refuse(format!("{count} of 3 stacks of layer {} would be on the CPU", routed.layer)))
                }
            }
        };
        routed.iter().map(layer).collect()
    }
}

impl fmt::Display for TensorRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for TensorRules {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for TensorRules {}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [[&str; 3]; 2] = [
        ["blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"],
        ["blk.2.ffn_gate_exps.weight", "blk.2.ffn_up_exps.weight", "blk.2.ffn_down_exps.weight"],
    ];

    fn layers(experts: &HostExperts) -> Result<Vec<bool>, PlanError> {
        let routed = [0, 1].map(|index| RoutedLayer { layer: index + 1, stacks: NAMES[index] });
        let tensors = NAMES.iter().flatten().copied().chain(["token_embd.weight", "blk.1.attn_q.weight"]);
        experts.layers(0, &routed, tensors)
    }

    fn rules(text: &str) -> Result<Vec<bool>, PlanError> {
        layers(&HostExperts::Rules(TensorRules::parse(text)?))
    }

    #[test]
    fn layers_are_counted_in_the_model_and_not_among_the_routed() {
        assert_eq!(layers(&HostExperts::AsNeeded).unwrap(), [false, false]);
        assert_eq!(layers(&HostExperts::All).unwrap(), [true, true]);
        assert_eq!(layers(&HostExperts::FirstLayers(1)).unwrap(), [false, false]);
        assert_eq!(layers(&HostExperts::FirstLayers(2)).unwrap(), [true, false]);
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        assert_eq!(rules("exps=CPU").unwrap(), [true, true]);
        assert_eq!(rules(r"blk\.1\..*exps=CUDA0, exps=cpu").unwrap(), [false, true]);
        assert_eq!(rules("exps=CPU,exps=CUDA0").unwrap(), [true, true]);
        assert_eq!(rules("nothing=CPU").unwrap(), [false, false]);
        assert_eq!(rules("token_embd=CUDA0").unwrap(), [false, false], "where it is anyway");
    }

    #[test]
    fn what_cannot_be_planned_is_named() {
        for (text, word) in [
            ("", "no rule"),
            ("exps", "expected PATTERN=CPU"),
            ("=CPU", "expected PATTERN=CPU"),
            ("exps=DISK", "`DISK` is neither"),
            ("exps=CUDA", "`CUDA` is neither"),
            ("(=CPU", "regular expression"),
            ("attn_q=CPU", "`blk.1.attn_q.weight` would be on the CPU"),
            (".*=CPU", "`token_embd.weight` would be on the CPU"),
            ("ffn_(up|down)_exps=CPU", "2 of 3 stacks of layer 1"),
            ("exps=CUDA1", "on CUDA1, the model is on CUDA0"),
        ] {
            let error = rules(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
