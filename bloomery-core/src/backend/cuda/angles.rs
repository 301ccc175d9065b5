//! Rotations of all attention layers and indexes, once for those that turn alike.

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::RopeSpec;
use bloomery_kernels::cuda::{Rope, RopeAngles, Stream};

use crate::backend::rope::rope_spec;
use crate::error::LoadError;
use crate::program::{Pooling, Program};
use crate::weights::Weights;

/// Of every attention layer, and of every index that has one.
#[derive(Debug)]
pub(super) struct Ropes {
    pub(super) attentions: Vec<Rope>,
    pub(super) indexes: Vec<Option<Rope>>,
}

/// The tables on the card, for positions below `context`.
pub(super) fn ropes(
    stream: &mut Stream,
    program: &Program,
    weights: &Weights,
    gguf: &Gguf,
    context: usize,
) -> Result<Ropes, LoadError> {
    let mut known: Vec<(RopeSpec, Rope)> = Vec::new();
    let mut find = |spec: RopeSpec| -> Result<Rope, LoadError> {
        if let Some((_, rope)) = known.iter().find(|(other, _)| *other == spec) {
            return Ok(rope.clone());
        }
        let rope = rope(stream, &spec, context)?;
        known.push((spec, rope.clone()));
        Ok(rope)
    };
    let mut attentions = Vec::with_capacity(program.attentions.len());
    for attention in &program.attentions {
        let factors = attention.factors.map(|id| weights.vector(gguf, id)).transpose()?;
        let rope = find(rope_spec(&attention.rope, factors.unwrap_or_default()))?;
        attentions.push(Rope { first: attention.rope_first, ..rope });
    }
    let indexes = program.indexes.iter().map(|index| match &index.pooling {
        Pooling::Mean { rope, .. } => find(rope_spec(rope, Vec::new())).map(Some),
        Pooling::Made { rope, rope_first, .. } => {
            let rope = find(rope_spec(rope, Vec::new()))?;
            Ok(Some(Rope { first: *rope_first, ..rope }))
        }
        Pooling::Softmax { .. } => Ok(None),
    });
    Ok(Ropes { indexes: indexes.collect::<Result<_, LoadError>>()?, attentions })
}

fn rope(stream: &mut Stream, spec: &RopeSpec, context: usize) -> Result<Rope, LoadError> {
    let RopeAngles { pairs, half, low, high } =
        RopeAngles::new(spec, u32::try_from(context).unwrap_or(u32::MAX))?;
    let mut table = |values: &[f32]| {
        let memory = stream.device().alloc(values.len())?;
        // Where nothing turns, there is nothing to copy.
        if !values.is_empty() {
            stream.upload(values, &memory.span())?;
        }
        Ok::<_, LoadError>(memory.span())
    };
    Ok(Rope { pairs, half, first: 0, low: table(&low)?, high: table(&high)? })
}
