//! Products in double precision of the activations that the CPU's rounding gives, and how far off a kernel may be.

use bloomery_gguf::{Format, blocks, blocks::Block, dequantize};

use crate::abi::shape::{self, Class};
use crate::cpu::{Activation, Form, Isa, Quantized};

/// Formats that have products on a card.
pub(super) const FORMATS: [Format; 10] = [
    Format::Q4_K,
    Format::Q5_K,
    Format::Q6_K,
    Format::Q3_K,
    Format::IQ4_XS,
    Format::Q8_0,
    Format::Q5_1,
    Format::BF16,
    Format::F16,
    Format::F32,
];

pub(super) fn class(format: Format) -> Class {
    shape::class(format.id()).unwrap()
}

/// What products with `format` see of a row.
pub(super) fn rounded(format: Format, x: &[f32]) -> Vec<f64> {
    let form = match class(format) {
        Class::Wide => Form::Q8x256,
        Class::Narrow => Form::Q8x32,
        Class::Float => return x.iter().copied().map(f64::from).collect(),
    };
    let mut quantized = Quantized::default();
    quantized.fill(Isa::detect(), x, 1, x.len(), form);
    let scales = quantized.scales(0);
    let value = |(i, q): (usize, &i8)| f64::from(*q) * f64::from(scales[i / form.block_len()]);
    quantized.values(0).iter().enumerate().map(value).collect()
}

/// Rows of weights in double precision, and the magnitudes of what each is a difference of.
pub(super) struct Rows {
    pub(super) cols: usize,
    pub(super) values: Vec<f64>,
    magnitudes: Vec<f64>,
}

impl Rows {
    pub(super) fn new(format: Format, cols: usize, data: &[u8]) -> Self {
        let mut values = vec![0.0; data.len() / format.block_bytes() * format.block_len()];
        dequantize(format, data, &mut values).unwrap();
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let mut magnitudes: Vec<f64> = values.iter().map(|v| v.abs()).collect();
        match format {
            Format::Q4_K => add_offsets::<blocks::BlockQ4K>(data, &mut magnitudes),
            Format::Q5_K => add_offsets::<blocks::BlockQ5K>(data, &mut magnitudes),
            Format::Q5_1 => add_offsets::<blocks::BlockQ5_1>(data, &mut magnitudes),
            _ => {}
        }
        Self { cols, values, magnitudes }
    }

    pub(super) fn count(&self) -> usize {
        self.values.len() / self.cols
    }

    /// The product of row `r`, and how far off one in f32 may be.
    ///
    /// A lane adds its units in f32, two roundings each (the factor and the sum, and as many for minimums; floats: 8 sums), and
    /// a tree of 5 adds the lanes; no partial sum is larger than the magnitudes' sum. The CPU's order has no more steps
    /// than units of a block of 256, or 1/16 of the values.
    pub(super) fn product(&self, r: usize, x: &[f64]) -> (f64, f64) {
        let row = r * self.cols..(r + 1) * self.cols;
        let exact = self.values[row.clone()].iter().zip(x).map(|(w, x)| w * x).sum();
        let magnitude: f64 = self.magnitudes[row].iter().zip(x).map(|(w, x)| w * x.abs()).sum();
        let steps = (self.cols as f64 / 16.0 + 12.0) * f64::from(f32::EPSILON);
        (exact, magnitude * steps + 1e-30)
    }

    /// The same where floats of many rows are multiplied on tensor cores: what is lost when factors are cut in two, what tensor cores cut
    /// off in a piece, and half a bit for every piece. Of normalised values a kernel's and those of `x` are 14 halves of a bit off each:
    /// two for a value's own roundings, a square root's half of 20 for the sum of squares, two for the root and its inverse.
    pub(super) fn product_of_many(&self, r: usize, x: &[f64], format: Format, normed: bool) -> (f64, f64) {
        let row = r * self.cols..(r + 1) * self.cols;
        let exact = self.values[row.clone()].iter().zip(x).map(|(w, x)| w * x).sum();
        let magnitude: f64 = self.magnitudes[row.clone()].iter().zip(x).map(|(w, x)| w * x.abs()).sum();
        let weights: f64 = self.magnitudes[row].iter().sum();
        let largest = x.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        let (cut, piece, columns) = match format {
            Format::F16 => (2.0_f64.powi(-22), 2.0_f64.powi(-21), 32),
            Format::BF16 => (2.0_f64.powi(-18), 2.0_f64.powi(-21), 32),
            _ => (3.0 * 2.0_f64.powi(-20), 2.0_f64.powi(-20), 16),
        };
        let halves = (self.cols.div_ceil(columns) + if normed { 28 } else { 0 }) as f64 * 2.0_f64.powi(-24);
        (exact, magnitude * (cut + piece + halves) + weights * largest * 2.0_f64.powi(-40) + 1e-30)
    }
}

/// A value with a minimum is the difference of two that may be larger.
fn add_offsets<B: Block>(data: &[u8], magnitudes: &mut [f64]) {
    for (block, out) in data.chunks(B::BYTES).filter_map(B::read).zip(magnitudes.chunks_mut(B::LEN)) {
        for (i, out) in out.iter_mut().enumerate() {
            *out += 2.0 * f64::from(block.offset(i / 16).abs());
        }
    }
}

/// A gate after its activation, times `up`; what its sigmoid was taken of; and the two factors.
pub(super) fn activated(activation: Activation, z: f64, up: f64) -> (f64, f64, [f64; 2]) {
    let limit = match activation {
        Activation::ClampedSilu { limit } => f64::from(limit),
        _ => f64::INFINITY,
    };
    let (z, up) = (z.min(limit), up.clamp(-limit, limit));
    let inner = match activation {
        Activation::GeluTanh => (8.0 / std::f64::consts::PI).sqrt() * (z + 0.044_715 * z.powi(3)),
        _ => z,
    };
    let active = z / (1.0 + (-inner).exp());
    (active * up, inner, [active, up])
}
