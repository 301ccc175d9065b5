//! The parameters compiled into the steps that do something.

use super::candidates::Candidates;
use super::dry::{Breakers, Dry};
use super::history::History;
use super::rng::Rng;
use super::{Mirostat, SamplerKind, SamplingParams, temperature, truncate};

/// What the penalties subtract and divide by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Penalties {
    repeat: f32,
    frequency: f32,
    presence: f32,
}

/// One active step, its parameters checked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Penalties(Penalties),
    Dry(Dry),
    TopNSigma(f32),
    TopK(usize),
    Typical(f32, usize),
    TopP(f32, usize),
    MinP(f32, usize),
    Xtc { probability: f32, threshold: f32, min_keep: usize },
    Temperature(f32),
    Dynamic { centre: f32, range: f32, exponent: f32 },
}

/// The steps of `params` that change anything, in order. `context` stands for a window of -1.
pub(super) fn compile(params: &SamplingParams, context: usize) -> Vec<Step> {
    if params.mirostat != Mirostat::Off {
        return vec![Step::Temperature(params.temperature)];
    }
    let mut steps = Vec::new();
    for &kind in &params.samplers {
        let Some(step) = step(kind, params, context) else { continue };
        if matches!(step, Step::Temperature(t) if t <= 0.0) {
            // these keep the best token, and greedy keeps nothing else
            while steps.last().is_some_and(keeps_best) {
                steps.pop();
            }
        }
        steps.push(step);
    }
    steps
}

fn keeps_best(step: &Step) -> bool {
    matches!(step, Step::TopNSigma(_) | Step::TopK(_) | Step::TopP(..) | Step::MinP(..))
}

/// The step that a kind stands for, None if its parameters switch it off.
fn step(kind: SamplerKind, p: &SamplingParams, context: usize) -> Option<Step> {
    let min_keep = p.min_keep as usize;
    match kind {
        SamplerKind::Penalties => p.penalties_active().then_some(Step::Penalties(Penalties {
            repeat: p.repeat_penalty,
            frequency: p.frequency_penalty,
            presence: p.presence_penalty,
        })),
        SamplerKind::Dry => p.dry_active().then(|| {
            Step::Dry(Dry {
                multiplier: p.dry_multiplier,
                base: p.dry_base,
                allowed: p.dry_allowed_length as usize,
                window: window(p.dry_penalty_last_n, context),
            })
        }),
        SamplerKind::TopNSigma => (p.top_n_sigma > 0.0).then_some(Step::TopNSigma(p.top_n_sigma)),
        SamplerKind::TopK => usize::try_from(p.top_k).ok().filter(|&k| k > 0).map(Step::TopK),
        SamplerKind::TypicalP => (p.typical_p < 1.0).then_some(Step::Typical(p.typical_p, min_keep)),
        SamplerKind::TopP => (p.top_p < 1.0).then_some(Step::TopP(p.top_p, min_keep)),
        SamplerKind::MinP => (p.min_p > 0.0).then_some(Step::MinP(p.min_p, min_keep)),
        SamplerKind::Xtc => (p.xtc_probability > 0.0 && p.xtc_threshold <= 0.5).then_some(Step::Xtc {
            probability: p.xtc_probability,
            threshold: p.xtc_threshold,
            min_keep,
        }),
        SamplerKind::Temperature if p.dynatemp_range > 0.0 => Some(Step::Dynamic {
            centre: p.temperature,
            range: p.dynatemp_range,
            exponent: p.dynatemp_exponent,
        }),
        SamplerKind::Temperature => Some(Step::Temperature(p.temperature)),
        // it takes the place of the draw
        SamplerKind::AdaptiveP => None,
    }
}

/// Tokens of a window parameter.
pub(super) fn window(last_n: i32, context: usize) -> usize {
    usize::try_from(last_n).unwrap_or(context)
}

impl Step {
    pub(super) fn apply(
        &self,
        c: &mut Candidates<'_>,
        history: &History,
        breakers: &Breakers,
        rng: &mut Rng,
    ) {
        match *self {
            Self::Penalties(p) => c.adjust(history.counts(), |logit, &count| p.apply(logit, count)),
            Self::Dry(dry) => {
                let recent: Vec<u32> = history.recent(dry.window).collect();
                c.adjust(&dry.penalties(&recent, breakers), |logit, penalty| logit - penalty);
            }
            Self::TopNSigma(n) => truncate::top_n_sigma(c, n),
            Self::TopK(k) => c.keep_top(k),
            Self::Typical(p, min_keep) => truncate::typical_p(c, p, min_keep),
            Self::TopP(p, min_keep) => truncate::top_p(c, p, min_keep),
            Self::MinP(p, min_keep) => truncate::min_p(c, p, min_keep),
            Self::Xtc { probability, threshold, min_keep } => {
                if c.len() > 1 && rng.uniform() <= f64::from(probability) {
                    truncate::xtc(c, threshold, min_keep);
                }
            }
            Self::Temperature(t) => temperature::fixed(c, t),
            Self::Dynamic { centre, range, exponent } => temperature::dynamic(c, centre, range, exponent),
        }
    }
}

impl Penalties {
    /// Multiplying where the logit is not positive: dividing there would make the token likelier.
    fn apply(self, logit: f32, count: u32) -> f32 {
        let repeated = if logit <= 0.0 { logit * self.repeat } else { logit / self.repeat };
        repeated - (count as f32 * self.frequency + self.presence)
    }
}
