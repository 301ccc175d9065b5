//! `Sampler`: one sequence's chain, history and random numbers.

use super::adaptive::Adaptive;
use super::candidates::{Buffers, Candidates, by_rank};
use super::chain::{Step, compile, window};
use super::draw::{Draw, draw};
use super::history::History;
use super::mirostat::Surprise;
use super::needs::{Needs, TopLogits, needs};
use super::rng::Rng;
use super::top::select_top;
use super::{Breakers, Mirostat, SamplerKind, SamplingError, SamplingParams, math};
use std::collections::HashMap;
use std::sync::Arc;

/// A token and its log-probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenProb {
    /// The token.
    pub id: u32,
    /// Natural logarithm of its probability; `f32::MIN` for a probability of 0.
    pub logprob: f32,
}

impl TokenProb {
    /// The probability itself.
    pub fn prob(self) -> f32 {
        self.logprob.exp()
    }
}

/// What `Sampler::sample` drew.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The token.
    pub id: u32,
    /// Its log-probability; None with `n_probs` 0. Of the raw logits (before mask, bias and chain), or
    /// after the chain with `post_sampling_probs`.
    pub logprob: Option<f32>,
    /// The `n_probs` most probable tokens, best first; after the chain, those that survived it.
    pub top: Vec<TokenProb>,
}

/// How the token is drawn from what the steps leave.
#[derive(Debug, Clone)]
enum Finish {
    Draw,
    MirostatV1(Surprise),
    MirostatV2(Surprise),
    Adaptive(Adaptive),
}

/// Draws tokens for one sequence. A clone is a fork: it continues with the same history and numbers.
///
/// Memory: 4 bytes a logit where something edits the logits, 12 bytes a candidate, kept between calls.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: Arc<SamplingParams>,
    steps: Arc<[Step]>,
    bias: Arc<HashMap<u32, f32>>,
    breakers: Breakers,
    seed: u32,
    rng: Rng,
    history: History,
    finish: Finish,
    buffers: Buffers,
}

impl Sampler {
    /// A sampler with an empty history. `context` is what a window of -1 stands for, in tokens.
    ///
    /// Errors: those of `SamplingParams::validate`.
    pub fn new(params: &SamplingParams, context: usize) -> Result<Self, SamplingError> {
        params.validate()?;
        let mut bias: HashMap<u32, f32> = HashMap::new();
        for &(id, value) in &params.logit_bias {
            *bias.entry(id).or_insert(0.0) += value;
        }
        let counted = if params.penalties_active() { window(params.repeat_last_n, context) } else { 0 };
        let remembered = if params.dry_active() { window(params.dry_penalty_last_n, context) } else { 0 };
        let seed = params.seed.resolve();
        Ok(Self {
            steps: compile(params, context).into(),
            bias: Arc::new(bias),
            breakers: Breakers::default(),
            seed,
            rng: Rng::new(seed),
            history: History::new(counted, remembered),
            finish: finish(params),
            buffers: Buffers::default(),
            params: Arc::new(params.clone()),
        })
    }

    /// The same sampler with sequence breakers for DRY, which has none without this call.
    #[must_use]
    pub fn with_breakers(mut self, breakers: Breakers) -> Self {
        self.breakers = breakers;
        self
    }

    /// The seed in use, also where `Seed::Random` chose it.
    pub fn seed(&self) -> u32 {
        self.seed
    }

    /// The parameters it was built from.
    pub fn params(&self) -> &SamplingParams {
        &self.params
    }

    /// How much of a row of logits a draw without a mask looks at. Where that is [`Needs::Top`],
    /// [`sample_top`](Self::sample_top) draws the same token as [`sample`](Self::sample) from so many.
    pub fn needs(&self) -> Needs {
        needs(&self.params, &self.steps)
    }

    /// Takes a token into the history: one that was sampled and kept, or one of the prompt.
    pub fn accept(&mut self, id: u32) {
        self.history.push(id);
        if let Finish::Adaptive(adaptive) = &mut self.finish {
            adaptive.accept(id);
        }
    }

    /// Back to an empty history and the first random number.
    pub fn reset(&mut self) {
        self.rng = Rng::new(self.seed);
        self.history.clear();
        self.finish = finish(&self.params);
    }

    /// Draws a token from a row of logits. The history does not change: `accept` the token to keep it.
    ///
    /// `mask` allows token `i` where bit `i % 32` of word `i / 32` is set. Bits past the vocabulary are
    /// ignored. Errors: a logit that is NaN or +inf, a mask that is too short, nothing left to draw.
    pub fn sample(&mut self, logits: &[f32], mask: Option<&[u32]>) -> Result<Sampled, SamplingError> {
        let vocab = logits.len();
        let (max, bad) = math::scan(logits);
        if bad && let Some((token, &value)) = (0u32..).zip(logits).find(|(_, l)| !math::drawable(**l)) {
            return Err(SamplingError::Logit { token, value, vocab });
        }
        if let Some(mask) = mask.filter(|m| m.len() < vocab.div_ceil(32)) {
            return Err(SamplingError::MaskLength { words: mask.len(), needed: vocab.div_ceil(32), vocab });
        }
        let mut c = Candidates::new(logits, std::mem::take(&mut self.buffers));
        let drawn = self.draw(&mut c, mask, vocab);
        let sampled = drawn.map(|drawn| match (self.params.n_probs, self.params.post_sampling_probs) {
            (0, _) => Sampled { id: drawn.id, logprob: None, top: Vec::new() },
            (n, true) => after_chain(&c, drawn, n),
            (n, false) => of_logits(logits, max, drawn.id, n),
        });
        self.buffers = c.into_buffers();
        sampled.ok_or_else(|| SamplingError::NoCandidate { allowed: allowed(mask, vocab), vocab })
    }

    /// Draws a token from at least as many of a row's largest logits as the sampler [`needs`](Self::needs).
    ///
    /// Errors: a logit that is NaN or +inf, nothing left to draw, less than is needed.
    pub fn sample_top(&mut self, top: &TopLogits) -> Result<Sampled, SamplingError> {
        let found = top.ids.len();
        if let Some((&token, &value)) = top.ids.iter().zip(&top.logits).find(|(_, l)| !math::drawable(**l)) {
            return Err(SamplingError::Logit { token, value, vocab: found });
        }
        if self.needs() == Needs::All {
            return Err(SamplingError::Candidates { found });
        }
        let mut c = Candidates::of_best(&top.ids, &top.logits, std::mem::take(&mut self.buffers));
        let drawn = self.draw(&mut c, None, found);
        self.buffers = c.into_buffers();
        drawn
            .map(|drawn| Sampled { id: drawn.id, logprob: None, top: Vec::new() })
            .ok_or(SamplingError::NoCandidate { allowed: found, vocab: found })
    }

    /// What `sample` returns when `id` is the only token allowed, without the work. A random number is used up, so that
    /// later draws do not depend on how a token came to be the only one.
    pub fn forced(&mut self, logits: &[f32], id: u32) -> Result<Sampled, SamplingError> {
        let vocab = logits.len();
        if id as usize >= vocab {
            return Err(SamplingError::NoCandidate { allowed: 0, vocab });
        }
        self.rng.uniform();
        let certain = TokenProb { id, logprob: 0.0 };
        Ok(match (self.params.n_probs, self.params.post_sampling_probs) {
            (0, _) => Sampled { id, logprob: None, top: Vec::new() },
            (_, true) => Sampled { id, logprob: Some(0.0), top: vec![certain] },
            (n, false) => of_logits(logits, math::scan(logits).0, id, n),
        })
    }

    fn draw(&mut self, c: &mut Candidates<'_>, mask: Option<&[u32]>, vocab: usize) -> Option<Draw> {
        if let Some(mask) = mask
            && let Some(logits) = c.vocabulary_mut()
        {
            apply_mask(logits, mask);
        }
        c.adjust(&self.bias, |logit, bias| logit + bias);
        for step in self.steps.iter() {
            step.apply(c, &self.history, &self.breakers, &mut self.rng);
        }
        // one number for each token, even where one candidate is left: a fork that is masked for a
        // while stays in step
        let u = self.rng.uniform();
        match &mut self.finish {
            Finish::Draw => draw(c, u),
            Finish::MirostatV1(surprise) => surprise.draw_v1(c, vocab, u),
            Finish::MirostatV2(surprise) => surprise.draw_v2(c, u),
            Finish::Adaptive(adaptive) => adaptive.draw(c, u),
        }
    }
}

fn finish(params: &SamplingParams) -> Finish {
    let surprise = || Surprise::new(params.mirostat_tau, params.mirostat_eta);
    match params.mirostat {
        Mirostat::V1 => Finish::MirostatV1(surprise()),
        Mirostat::V2 => Finish::MirostatV2(surprise()),
        Mirostat::Off if params.samplers.contains(&SamplerKind::AdaptiveP) => {
            Finish::Adaptive(Adaptive::new(params.adaptive_target, params.adaptive_decay))
        }
        Mirostat::Off => Finish::Draw,
    }
}

fn apply_mask(logits: &mut [f32], mask: &[u32]) {
    for (block, &word) in logits.chunks_mut(32).zip(mask).filter(|(_, word)| **word != u32::MAX) {
        for (i, l) in block.iter_mut().enumerate() {
            *l = if word >> i & 1 == 1 { *l } else { f32::NEG_INFINITY };
        }
    }
}

/// Tokens of the vocabulary that a mask allows.
fn allowed(mask: Option<&[u32]>, vocab: usize) -> usize {
    let bit = |mask: &[u32], i: usize| mask.get(i / 32).is_some_and(|word| word >> (i % 32) & 1 == 1);
    mask.map_or(vocab, |mask| (0..vocab).filter(|&i| bit(mask, i)).count())
}

/// Log-softmax of the raw logits.
fn of_logits(logits: &[f32], max: f32, id: u32, n: usize) -> Sampled {
    let norm = f64::from(max) + math::sum_exp(logits, max).ln();
    let logprob = |l: f32| ((f64::from(l) - norm) as f32).max(f32::MIN);
    let mut top = Vec::new();
    select_top(logits, n, &mut top);
    top.sort_unstable_by(by_rank);
    Sampled {
        id,
        logprob: logits.get(id as usize).map(|&l| logprob(l)),
        top: top.into_iter().map(|t| TokenProb { id: t.id, logprob: logprob(t.logit) }).collect(),
    }
}

/// The distribution that the token was drawn from; tokens whose probability is 0 are left out.
fn after_chain(c: &Candidates<'_>, drawn: Draw, n: usize) -> Sampled {
    let (max, sum) = c.normalizer();
    let prob = |logit: f32| math::exp(logit - max) / sum;
    let best = c.best(n).into_iter().map(|t| (t.id, prob(t.logit))).filter(|t| t.1 > 0.0);
    Sampled {
        id: drawn.id,
        logprob: Some(drawn.p.ln().max(f32::MIN)),
        top: best.map(|(id, p)| TokenProb { id, logprob: p.ln() }).collect(),
    }
}
