//! Angles: from a model's parameters to the cosines and sines of a step's rows.

use crate::cpu::KernelError;

/// Which two values of a head a rotation turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pairs {
    /// `m` and `m + rotary / 2` (halves).
    Neox,
    /// `2 m` and `2 m + 1` (neighbours).
    Norm,
}

/// YaRN: low frequencies are interpolated by `freq_scale`, high ones are kept, with a ramp between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yarn {
    /// Weight of the ramp; 1 is YaRN, 0 scales all frequencies alike.
    pub ext_factor: f32,
    /// Rotations over the original context above which a frequency is kept (customarily 32).
    pub beta_fast: f32,
    /// Rotations below which it is interpolated (customarily 1).
    pub beta_slow: f32,
    /// Context length of the training before the extension.
    pub original_context: u32,
}

/// The angles of a model: pair `m` of position `p` turns by `p * frequency(m)`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RopeSpec {
    /// Which values form a pair.
    pub pairs: Pairs,
    /// Leading values of a head that turn (even); the rest stay as they are.
    pub rotary: usize,
    /// Frequency of pair `m` is `base^(-2 m / rotary)`.
    pub base: f32,
    /// All frequencies (with [`Yarn`]: the low ones) are multiplied by this: 1 / the factor of linear scaling.
    pub freq_scale: f32,
    /// Frequency `m` is divided by `factors[m]`; empty means 1 (`rope_freqs.weight`).
    pub factors: Vec<f32>,
    /// Ramp between scaled and unscaled frequencies.
    pub yarn: Option<Yarn>,
    /// Multiplies cosines and sines: 1, or what the model wants of [`RopeSpec::yarn_magnitude`].
    pub attn_factor: f32,
}

impl RopeSpec {
    /// Unscaled frequencies.
    #[must_use]
    pub fn new(pairs: Pairs, rotary: usize, base: f32) -> Self {
        Self { pairs, rotary, base, freq_scale: 1.0, factors: Vec::new(), yarn: None, attn_factor: 1.0 }
    }

    /// `1 + 0.1 ln factor`, by which YaRN as published magnifies queries and keys of a context extended by `factor`.
    #[must_use]
    pub fn yarn_magnitude(factor: f32) -> f32 {
        (1.0 + 0.1 * f64::from(factor).ln()) as f32
    }

    /// Angle of each pair per position, in double precision.
    pub(super) fn frequencies(&self) -> Result<Vec<f64>, KernelError> {
        if !self.rotary.is_multiple_of(2) {
            return Err(KernelError::Shape { what: "rotary width", value: self.rotary, rule: "even" });
        }
        let half = self.rotary / 2;
        if !self.factors.is_empty() {
            KernelError::length("rope frequency factors", half, self.factors.len())?;
        }
        let (rotary, base, scale) = (self.rotary as f64, f64::from(self.base), f64::from(self.freq_scale));
        let ramp = self.yarn.map(|yarn| {
            let pair_of = |rotations: f32| {
                let turns = std::f64::consts::TAU * f64::from(rotations);
                rotary * (f64::from(yarn.original_context) / turns).ln() / (2.0 * base.ln())
            };
            let low = pair_of(yarn.beta_fast).floor().max(0.0);
            let high = pair_of(yarn.beta_slow).ceil().min(rotary - 1.0);
            (low, (high - low).max(0.001), f64::from(yarn.ext_factor))
        });
        let frequency = |m: usize| {
            let kept =
                base.powf(-2.0 * m as f64 / rotary) / self.factors.get(m).map_or(1.0, |&f| f64::from(f));
            let keep = ramp.map_or(0.0, |(low, width, weight)| {
                (1.0 - ((m as f64 - low) / width).clamp(0.0, 1.0)) * weight
            });
            kept * scale * (1.0 - keep) + kept * keep
        };
        Ok((0..half).map(frequency).collect())
    }
}

/// Cosines and sines of the rows of a step, shared by all heads and by all layers with the same [`RopeSpec`].
///
/// Angles are formed in double precision and rounded once, so positions of a million and more are exact to an f32.
#[derive(Debug, Clone)]
pub struct RopeTable {
    pairs: Pairs,
    /// Pairs of a head.
    pub(super) half: usize,
    /// `[row][cosines of half pairs, then sines]`
    turns: Vec<f32>,
}

impl RopeTable {
    /// The table of rows at `positions`.
    ///
    /// # Errors
    /// [`KernelError::Shape`] for an odd rotary width, [`KernelError::Length`] for a wrong number of factors.
    pub fn new(spec: &RopeSpec, positions: &[u32]) -> Result<Self, KernelError> {
        let frequencies = spec.frequencies()?;
        let half = frequencies.len();
        let magnitude = f64::from(spec.attn_factor);
        let mut turns = vec![0.0; positions.len() * 2 * half];
        for (row, &position) in turns.chunks_exact_mut((2 * half).max(1)).zip(positions) {
            let (cosines, sines) = row.split_at_mut(half);
            for ((cosine, sine), frequency) in cosines.iter_mut().zip(sines).zip(&frequencies) {
                let (s, c) = (f64::from(position) * frequency).sin_cos();
                (*cosine, *sine) = ((c * magnitude) as f32, (s * magnitude) as f32);
            }
        }
        Ok(Self { pairs: spec.pairs, half, turns })
    }

    /// The same rotations the other way round.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut back = self.clone();
        for row in back.turns.chunks_exact_mut((2 * self.half).max(1)) {
            row[self.half..].iter_mut().for_each(|sine| *sine = -*sine);
        }
        back
    }

    /// Rows of the table.
    pub(super) fn rows(&self) -> usize {
        self.turns.len().checked_div(2 * self.half).unwrap_or(usize::MAX)
    }

    /// Cosines and sines of the pairs of row `row`.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "cards are given tables"))]
    pub(crate) fn turns(&self, row: usize) -> (&[f32], &[f32]) {
        self.turns[row * 2 * self.half..(row + 1) * 2 * self.half].split_at(self.half)
    }

    /// Turns one head of row `row`. Plain loops: one rounding an operation, so the compiler may vectorise freely.
    #[inline(always)]
    pub(in crate::cpu) fn turn(&self, row: usize, head: &mut [f32]) {
        let turns = &self.turns[row * 2 * self.half..(row + 1) * 2 * self.half];
        let (cosines, sines) = turns.split_at(self.half);
        match self.pairs {
            Pairs::Neox => {
                let (low, high) = head[..2 * self.half].split_at_mut(self.half);
                for ((a, b), (c, s)) in low.iter_mut().zip(high).zip(cosines.iter().zip(sines)) {
                    (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
                }
            }
            Pairs::Norm => {
                let pairs = head[..2 * self.half].as_chunks_mut::<2>().0;
                for ([a, b], (c, s)) in pairs.iter_mut().zip(cosines.iter().zip(sines)) {
                    (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
                }
            }
        }
    }
}
