//! Adaptive-p: reshapes the distribution around a target probability, and moves the target so that the
//! average of the chosen tokens' probabilities stays near it.

use super::candidates::Candidates;
use super::draw::{Draw, draw};

const WIDTH: f32 = 0.3;
const PEAK: f32 = 5.0;
const SHARPNESS: f32 = 10.0;

/// The target and the running average.
#[derive(Debug, Clone)]
pub(super) struct Adaptive {
    target: f32,
    decay: f32,
    weighted: f32,
    weight: f32,
    /// The token drawn last and its probability, until it is accepted.
    pending: Option<(u32, f32)>,
}

impl Adaptive {
    pub(super) fn new(target: f32, decay: f32) -> Self {
        let weight = 1.0 / (1.0 - decay);
        Self { target, decay, weighted: target * weight, weight, pending: None }
    }

    pub(super) fn draw(&mut self, c: &mut Candidates<'_>, u: f64) -> Option<Draw> {
        if self.target < 0.0 {
            return draw(c, u);
        }
        let aim = (2.0 * self.target.min(1.0) - self.weighted / self.weight).clamp(0.0, 1.0);
        c.softmax();
        for t in c.reorder() {
            // quadratic near the aim, linear far from it
            let distance = ((t.p - aim) / WIDTH).abs();
            t.logit = PEAK - SHARPNESS * distance * distance / (1.0 + distance);
        }
        let drawn = draw(c, u)?;
        let p = c.listed().get(drawn.index).map_or(0.0, |t| t.p);
        self.pending = Some((drawn.id, p));
        Some(drawn)
    }

    pub(super) fn accept(&mut self, id: u32) {
        if let Some((_, p)) = self.pending.take().filter(|pending| pending.0 == id) {
            self.weighted = p + self.decay * self.weighted;
            self.weight = 1.0 + self.decay * self.weight;
        }
    }
}
