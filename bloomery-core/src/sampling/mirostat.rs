//! Mirostat 1 and 2: cut the distribution so that the surprise of the tokens stays near a target.

use super::candidates::Candidates;
use super::draw::{Draw, draw};

/// Tokens that Mirostat 1 fits the slope of the distribution to.
const FITTED: usize = 100;

/// The surprise limit and what steers it.
#[derive(Debug, Clone)]
pub(super) struct Surprise {
    /// Limit in bits; begins at twice the target.
    mu: f32,
    tau: f32,
    eta: f32,
}

impl Surprise {
    pub(super) fn new(tau: f32, eta: f32) -> Self {
        Self { mu: 2.0 * tau, tau, eta }
    }

    /// Estimates the Zipf exponent from the best tokens, keeps the k it implies, draws.
    pub(super) fn draw_v1(&mut self, c: &mut Candidates<'_>, vocab: usize, u: f64) -> Option<Draw> {
        let best = c.best(FITTED);
        let (mut tb, mut tt) = (0f32, 0f32);
        for (pair, rank) in best.windows(2).zip(1u8..) {
            let t = (f32::from(rank + 1) / f32::from(rank)).ln();
            tb += t * (pair[0].logit - pair[1].logit);
            tt += t * t;
        }
        let slope = tb / tt;
        let excess = slope - 1.0;
        let k = ((excess * self.mu.exp2()) / (1.0 - (vocab as f32).powf(-excess))).powf(1.0 / slope);
        // a NaN (one candidate, or an exponent of exactly 1) becomes 0, an overflow everything
        c.keep_top((k as usize).max(1));
        self.finish(c, u)
    }

    /// Keeps the tokens whose surprise is within the limit, draws.
    pub(super) fn draw_v2(&mut self, c: &mut Candidates<'_>, u: f64) -> Option<Draw> {
        let (max, sum) = c.normalizer();
        c.keep_from(max + sum.ln() - self.mu * std::f32::consts::LN_2, 1);
        self.finish(c, u)
    }

    fn finish(&mut self, c: &Candidates<'_>, u: f64) -> Option<Draw> {
        let drawn = draw(c, u)?;
        self.mu -= self.eta * (-drawn.p.log2() - self.tau);
        Some(drawn)
    }
}
