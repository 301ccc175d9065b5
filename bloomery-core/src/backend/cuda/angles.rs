//! Rotations of all attention layers, once for those that turn alike.

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::RopeSpec;
use bloomery_kernels::cuda::{Rope, RopeAngles, Stream};

use crate::backend::rope::rope_spec;
use crate::error::LoadError;
use crate::program::Program;
use crate::weights::Weights;

/// The tables on the card, for positions below `context`.
pub(super) fn ropes(
    stream: &mut Stream,
    program: &Program,
    weights: &Weights,
    gguf: &Gguf,
    context: usize,
) -> Result<Vec<Rope>, LoadError> {
    let mut known: Vec<(RopeSpec, Rope)> = Vec::new();
    let mut ropes = Vec::with_capacity(program.attentions.len());
    for attention in &program.attentions {
        let factors = attention.factors.map(|id| weights.vector(gguf, id)).transpose()?;
        let spec = rope_spec(&attention.rope, factors.unwrap_or_default());
        let rope = match known.iter().find(|(other, _)| *other == spec) {
            Some((_, rope)) => rope.clone(),
            None => {
                let rope = rope(stream, &spec, context)?;
                known.push((spec, rope.clone()));
                rope
            }
        };
        ropes.push(rope);
    }
    Ok(ropes)
}

fn rope(stream: &mut Stream, spec: &RopeSpec, context: usize) -> Result<Rope, LoadError> {
    let RopeAngles { pairs, half, low, high } =
        RopeAngles::new(spec, u32::try_from(context).unwrap_or(u32::MAX))?;
    let mut table = |values: &[f32]| {
        let memory = stream.device().alloc(values.len())?;
        stream.upload(values, &memory.span())?;
        Ok::<_, LoadError>(memory.span())
    };
    Ok(Rope { pairs, half, low: table(&low)?, high: table(&high)? })
}
