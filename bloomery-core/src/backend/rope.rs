//! Rotary embeddings as kernels take them.

use bloomery_kernels::cpu::{RopeSpec, Yarn};

use crate::def::{self, Scaling};

/// `factors` divide the angles of the pairs; without any, they stay as they are.
pub(super) fn rope_spec(rope: &def::Rope, factors: Vec<f32>) -> RopeSpec {
    let pairs = match rope.pairs {
        def::Pairs::Halves => bloomery_kernels::cpu::Pairs::Neox,
        def::Pairs::Adjacent => bloomery_kernels::cpu::Pairs::Norm,
    };
    let mut spec = RopeSpec::new(pairs, rope.dims, rope.base);
    spec.factors = factors;
    match rope.scaling {
        Scaling::None => {}
        Scaling::Linear { factor } => spec.freq_scale = 1.0 / factor,
        Scaling::Yarn { factor, original_context, beta_fast, beta_slow, attention_factor } => {
            spec.freq_scale = 1.0 / factor;
            let original_context = u32::try_from(original_context).unwrap_or(u32::MAX);
            spec.yarn = Some(Yarn { ext_factor: 1.0, beta_fast, beta_slow, original_context });
            spec.attn_factor = attention_factor * RopeSpec::yarn_magnitude(factor);
        }
    }
    spec
}
