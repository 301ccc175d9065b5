//! The knobs, with llama.cpp's names, defaults and "off" values.

use super::{SamplerKind, SamplingError};

/// Where the random numbers start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Seed {
    /// A fresh seed for every sampler; `Sampler::seed` says which.
    #[default]
    Random,
    /// This one.
    Fixed(u32),
}

impl From<u32> for Seed {
    /// 0xFFFFFFFF (a -1 on the wire) is `Random`.
    fn from(seed: u32) -> Self {
        if seed == u32::MAX { Self::Random } else { Self::Fixed(seed) }
    }
}

/// Perplexity control that takes the place of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mirostat {
    /// The chain of `SamplingParams::samplers`.
    #[default]
    Off,
    /// Logit bias, temperature, then the k that the target surprise asks for.
    V1,
    /// Logit bias, temperature, then a cut at the current surprise limit.
    V2,
}

/// How the next token is chosen. Plain data: `SamplingParams { top_k: 20, ..Default::default() }`.
///
/// The struct is open to functional update, so it is not `#[non_exhaustive]`: that attribute would
/// forbid the line above outside this crate. A new field breaks only exhaustive literals.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 or less is greedy. Default 0.8.
    pub temperature: f32,
    /// Tokens kept; 0 or less is all. Default 40.
    pub top_k: i32,
    /// Probability mass kept; 1 or more is off. Default 0.95.
    pub top_p: f32,
    /// Least probability, relative to the best token; 0 or less is off. Default 0.05.
    pub min_p: f32,
    /// Mass of locally typical tokens kept; 1 or more is off. Default 1.
    pub typical_p: f32,
    /// Standard deviations below the largest logit; 0 or less is off. Default -1.
    pub top_n_sigma: f32,
    /// Chance that XTC acts on a token; 0 or less is off. Default 0.
    pub xtc_probability: f32,
    /// Probability from which a token counts as a top choice; above 0.5 is off. Default 0.1.
    pub xtc_threshold: f32,
    /// Half width of the dynamic temperature around `temperature`; 0 or less is off. Default 0.
    pub dynatemp_range: f32,
    /// Exponent of the normalised entropy in dynamic temperature. Default 1.
    pub dynatemp_exponent: f32,
    /// Tokens of history that penalties look at; 0 is off, -1 is the context. Default 64.
    pub repeat_last_n: i32,
    /// Divides positive and multiplies other logits of tokens seen; 1 is off. Default 1.
    pub repeat_penalty: f32,
    /// Subtracted once for each occurrence. Default 0.
    pub frequency_penalty: f32,
    /// Subtracted once if the token occurred. Default 0.
    pub presence_penalty: f32,
    /// Scale of the DRY penalty; 0 is off. Default 0.
    pub dry_multiplier: f32,
    /// Growth of the DRY penalty for each token of repetition; below 1 is off. Default 1.75.
    pub dry_base: f32,
    /// Longest repetition that DRY leaves alone, in tokens. Default 2.
    pub dry_allowed_length: u32,
    /// Tokens of history that DRY scans; 0 is off, -1 is the context. Default 64.
    pub dry_penalty_last_n: i32,
    /// Texts that a repetition does not reach across; see `Breakers::from_texts`. Default `\n : " *`.
    pub dry_sequence_breakers: Vec<String>,
    /// Mirostat in place of the chain. Default off.
    pub mirostat: Mirostat,
    /// Target surprise in bits. Default 5.
    pub mirostat_tau: f32,
    /// Learning rate. Default 0.1.
    pub mirostat_eta: f32,
    /// Target probability of `SamplerKind::AdaptiveP`; below 0 is off. Default -1.
    pub adaptive_target: f32,
    /// Memory of `SamplerKind::AdaptiveP`, 0 to 0.99. Default 0.9.
    pub adaptive_decay: f32,
    /// Fewest tokens that top_p, typical_p, min_p and XTC leave. Default 0.
    pub min_keep: u32,
    /// The chain, in order; a kind listed twice acts twice. Default `SamplerKind::DEFAULT_ORDER`.
    pub samplers: Vec<SamplerKind>,
    /// Added to logits before everything else; repeated tokens add up, ids outside the vocabulary are
    /// skipped. Default empty.
    pub logit_bias: Vec<(u32, f32)>,
    /// Start of the random numbers. Default random.
    pub seed: Seed,
    /// Alternatives to report with each token; 0 reports no probability at all. Default 0.
    pub n_probs: usize,
    /// Reported probabilities are those after the chain, not those of the raw logits. Default false.
    pub post_sampling_probs: bool,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            top_n_sigma: -1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            repeat_last_n: 64,
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_penalty_last_n: 64,
            dry_sequence_breakers: ["\n", ":", "\"", "*"].map(String::from).to_vec(),
            mirostat: Mirostat::Off,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            adaptive_target: -1.0,
            adaptive_decay: 0.9,
            min_keep: 0,
            samplers: SamplerKind::DEFAULT_ORDER.to_vec(),
            logit_bias: Vec::new(),
            seed: Seed::Random,
            n_probs: 0,
            post_sampling_probs: false,
        }
    }
}

impl SamplingParams {
    /// The defaults with temperature 0.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Whether DRY acts, so that its sequence breakers are worth computing.
    pub fn dry_active(&self) -> bool {
        self.mirostat == Mirostat::Off
            && self.samplers.contains(&SamplerKind::Dry)
            && self.dry_multiplier != 0.0
            && self.dry_base >= 1.0
            && self.dry_penalty_last_n != 0
    }

    /// Whether penalties act.
    pub(super) fn penalties_active(&self) -> bool {
        self.mirostat == Mirostat::Off
            && self.samplers.contains(&SamplerKind::Penalties)
            && self.repeat_last_n != 0
            && (self.repeat_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0)
    }

    /// Refuses values that mean nothing: NaN and infinities, a repeat penalty of 0 or less, windows
    /// below -1, a decay outside 0..=0.99. Values past an end of a range (top_p of 2, a negative
    /// temperature or top_k) keep the meaning that llama.cpp gives them.
    pub fn validate(&self) -> Result<(), SamplingError> {
        let finite = [
            ("temperature", self.temperature),
            ("top_p", self.top_p),
            ("min_p", self.min_p),
            ("typical_p", self.typical_p),
            ("top_n_sigma", self.top_n_sigma),
            ("xtc_probability", self.xtc_probability),
            ("xtc_threshold", self.xtc_threshold),
            ("dynatemp_range", self.dynatemp_range),
            ("dynatemp_exponent", self.dynatemp_exponent),
            ("repeat_penalty", self.repeat_penalty),
            ("frequency_penalty", self.frequency_penalty),
            ("presence_penalty", self.presence_penalty),
            ("dry_multiplier", self.dry_multiplier),
            ("dry_base", self.dry_base),
            ("mirostat_tau", self.mirostat_tau),
            ("mirostat_eta", self.mirostat_eta),
            ("adaptive_target", self.adaptive_target),
            ("adaptive_decay", self.adaptive_decay),
        ];
        let refuse = |name, value, expected| Err(SamplingError::Parameter { name, value, expected });
        for (name, value) in finite {
            if !value.is_finite() {
                return refuse(name, value.into(), "expected a finite number");
            }
        }
        if self.repeat_penalty <= 0.0 || !self.repeat_penalty.recip().is_finite() {
            return refuse(
                "repeat_penalty",
                self.repeat_penalty.into(),
                "expected more than 0, with a finite inverse",
            );
        }
        if !(0.0..=0.99).contains(&self.adaptive_decay) {
            return refuse("adaptive_decay", self.adaptive_decay.into(), "expected 0 to 0.99");
        }
        for (name, value) in
            [("repeat_last_n", self.repeat_last_n), ("dry_penalty_last_n", self.dry_penalty_last_n)]
        {
            if value < -1 {
                return refuse(name, value.into(), "expected -1 for the context, 0 for off, or a count");
            }
        }
        match self.logit_bias.iter().find(|(_, bias)| bias.is_nan() || *bias == f32::INFINITY) {
            Some(&(token, value)) => Err(SamplingError::Bias { token, value }),
            None => Ok(()),
        }
    }
}
