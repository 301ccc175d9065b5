//! What a plan comes to in tokens a second, from bytes and rates alone.

use std::fmt;

use super::{Placement, Plan, Split, rates};
use crate::def::Ffn;
use crate::program::Op;
use crate::units::{Bytes, Rate};

/// What copies to a card reach where nobody has measured it: a PCIe 4 link of 16 lanes.
pub(crate) const LINK: Rate = Rate(22_000_000_000);
/// What a layer's kernels take on a card beside its bytes, at one row (an H200: 1,444 us for 48 layers).
const LAYER_SECONDS: f64 = 30e-6;
/// What it takes to hand a row to the host and to get its sum back (an H200: 3.5 us).
const HAND_OVER_SECONDS: f64 = 5e-6;

/// Tokens a second that a plan comes to: estimates, of one stream at the beginning of a context. Where experts are split they
/// take every expert to be chosen as often as any other, which no model does: experts that move to the card make it faster.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Predicted {
    /// Where it is.
    pub placement: Placement,
    /// Of decoding.
    pub decode: f64,
    /// What decoding cannot exceed: memory at its full rate, and of a split every chosen expert on the card that has a slot.
    pub decode_bound: f64,
    /// What prompts cannot exceed, where the link to the card limits them: steps of all rows, whose missing experts come over it
    /// once.
    pub prompt_bound: Option<f64>,
    /// The rate of that link, and whether it was measured.
    pub link: Option<(Rate, bool)>,
}

/// What a token reads.
#[derive(Debug, Clone, PartialEq)]
struct Traffic {
    /// Everything but experts.
    dense: Bytes,
    layers: usize,
    routed: Vec<RoutedTraffic>,
}

/// Of a routed layer.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RoutedTraffic {
    /// The experts of one row.
    chosen: Bytes,
    /// All experts.
    all: Bytes,
    /// Part of the layer's experts that are on the card.
    share: f64,
    /// Part of a row's experts that may be on the card, at best.
    best: f64,
    /// Whether the card can compute those that are not.
    streams: bool,
}

impl Traffic {
    fn split(&self, card: Rate, host: Rate, best: bool) -> f64 {
        let experts = |layer: &RoutedTraffic| {
            let share = if best { layer.best } else { layer.share };
            let on_card = card.seconds(layer.chosen) * share;
            let hand_over = if share < 1.0 && !best { HAND_OVER_SECONDS } else { 0.0 };
            on_card.max(host.seconds(layer.chosen) * (1.0 - share) + hand_over)
        };
        let launches = if best { 0.0 } else { LAYER_SECONDS * self.layers as f64 };
        card.seconds(self.dense) + launches + self.routed.iter().map(experts).sum::<f64>()
    }

    fn whole(&self, rate: Rate) -> f64 {
        rate.seconds(self.dense + self.routed.iter().map(|layer| layer.chosen).sum())
    }

    /// Seconds of the link for one step of many rows.
    fn streamed(&self, link: Rate) -> Option<f64> {
        let layer = |layer: &RoutedTraffic| {
            (layer.streams || layer.share >= 1.0).then_some(link.seconds(layer.all) * (1.0 - layer.share))
        };
        self.routed.iter().map(layer).sum()
    }
}

impl Plan {
    /// What this comes to in tokens a second, as far as the rates of memory and links are known; see [`measure`](Self::measure).
    #[must_use]
    pub fn predicted(&self) -> Option<Predicted> {
        let traffic = self.traffic();
        let placement = self.placement;
        let card = self.card.as_ref().and_then(|card| card.facts.read_rate);
        let whole = |rate| 1.0 / traffic.whole(rate);
        Some(match placement {
            Placement::Split(_) => {
                let (card, host) = (card?, self.host.read_rate?);
                let measured = self.card.as_ref().and_then(|card| card.facts.link_rate);
                let link = measured.unwrap_or(LINK);
                let seconds = traffic.streamed(link).filter(|&seconds| seconds > 0.0);
                Predicted {
                    placement,
                    decode: 1.0 / traffic.split(card, host, false),
                    decode_bound: 1.0 / traffic.split(card, host, true),
                    prompt_bound: seconds.map(|seconds| self.step_rows as f64 / seconds),
                    link: Some((link, measured.is_some())),
                }
            }
            Placement::Card(_) => {
                let seconds = traffic.whole(card?) + LAYER_SECONDS * traffic.layers as f64;
                let (decode, decode_bound) = (1.0 / seconds, whole(card?));
                Predicted { placement, decode, decode_bound, prompt_bound: None, link: None }
            }
            _ => {
                let decode = whole(self.host.read_rate?);
                Predicted { placement, decode, decode_bound: decode, prompt_bound: None, link: None }
            }
        })
    }

    /// Measures what a prediction lacks and this machine can say in a fraction of a second: how fast its cores read memory,
    /// where they are to compute something. That takes memory, 256 MiB or 32 for each thread, so it is left out where the plan
    /// leaves less than twice as much. A plan for another machine has no use for it.
    pub fn measure(&mut self) {
        let computes = !matches!(self.placement, Placement::Card(_));
        let left = self.host.available.saturating_sub(self.host_need());
        let room = left.0 / 2 >= rates::memory(self.threads).0;
        if computes && room && self.host.read_rate.is_none() {
            self.host.read_rate = Some(rates::read_rate(self.threads));
        }
    }

    fn traffic(&self) -> Traffic {
        let counts = self.def.layers.iter().filter_map(|layer| match &layer.ffn {
            Ffn::Moe(moe) => Some((moe.experts, moe.used)),
            Ffn::Dense(_) => None,
        });
        let stacks = self.program.ops.iter().filter_map(|op| match op {
            Op::Experts { experts, .. } => Some(experts),
            _ => None,
        });
        let mut routed = Vec::new();
        for (experts, (count, used)) in stacks.zip(counts) {
            let ids = [experts.gate, experts.up, experts.down];
            let one: Bytes = ids.map(|id| self.weights.expert_bytes(id)).into_iter().sum();
            let (share, best, streams) = match &self.split {
                Some(split) => split.shares(routed.len(), count, used),
                None => (0.0, 0.0, false),
            };
            let times = |times: usize| Bytes(one.0.saturating_mul(times as u64));
            routed.push(RoutedTraffic { chosen: times(used), all: times(count), share, best, streams });
        }
        let chosen = routed.iter().map(|layer| layer.chosen).sum();
        let dense = self.bytes_per_token().saturating_sub(chosen);
        Traffic { dense, layers: self.def.layers.len(), routed }
    }
}

impl Split {
    /// Of routed layer `layer`: the part of its experts in slots, the part of a row's experts that may be in slots at best, and
    /// whether the card computes those that are not when there are many rows.
    fn shares(&self, layer: usize, experts: usize, used: usize) -> (f64, f64, bool) {
        let Some(layer) = self.layers.get(layer) else { return (0.0, 0.0, false) };
        let Some(pool) = layer.pool else { return (0.0, 0.0, false) };
        if !layer.resident {
            return (0.0, 0.0, true);
        }
        let sharing = self.layers.iter().filter(|other| other.resident && other.pool == Some(pool)).count();
        let seats = self.pools[pool].slots as f64 / sharing.max(1) as f64;
        ((seats / experts as f64).min(1.0), (seats / used as f64).min(1.0), true)
    }
}

impl fmt::Display for Predicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { placement, decode, decode_bound, prompt_bound, link } = *self;
        match placement {
            Placement::Split(_) => {
                write!(f, "decode at least {} tokens/s if experts were chosen evenly, ", round(decode))?;
                write!(f, "at most {}", round(decode_bound))?;
            }
            Placement::Card(_) => {
                write!(f, "decode about {} tokens/s, at most {}", round(decode), round(decode_bound))?;
            }
            _ => write!(f, "decode at most {} tokens/s", round(decode))?,
        }
        let Some((bound, (link, measured))) = prompt_bound.zip(link) else { return Ok(()) };
        let word = if measured { "" } else { ", assumed" };
        write!(f, ", prompts at most {} (a link of {link}{word})", round(bound))
    }
}

/// Two digits are all that an estimate has.
fn round(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}
