//! A gated delta net between its projections.

use bloomery_kernels::cuda::{CudaError, Delta, DeltaShape, Launch};

use crate::backend::cuda::frame::Frame;
use crate::def::{Decay, DeltaNet, OutGate};
use crate::program::{Buffer, DeltaId, Qkv};

/// The heads of a layer.
pub(in crate::backend::cuda) fn shape(net: &DeltaNet) -> DeltaShape {
    DeltaShape {
        key_heads: net.key_heads,
        value_heads: net.value_heads,
        key_dim: net.head_dim,
        value_dim: net.head_dim,
        taps: net.taps,
    }
}

/// Why there is no kernel for a layer, if there is none.
pub(in crate::backend::cuda) fn unsupported(net: &DeltaNet) -> Option<String> {
    match (net.decay, net.gate) {
        (Decay::Head, OutGate::Silu) => shape(net).check().err().map(|error| error.to_string()),
        (Decay::Channel { .. }, _) => Some("a delta net whose channels decay by themselves".to_owned()),
        (_, OutGate::Sigmoid) => Some("a delta net behind a sigmoid".to_owned()),
    }
}

/// Floats of scratch memory for `rows` rows, and words for `sequences` sequences.
pub(in crate::backend::cuda) fn scratch_len(net: &DeltaNet, rows: usize, sequences: usize) -> (usize, usize) {
    (Delta::scratch_len(&shape(net), rows), sequences * net.key_heads)
}

/// Of `qkv` and `[z, beta, alpha]`.
pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    qkv: Qkv,
    [z, beta, alpha]: [Buffer; 3],
    id: DeltaId,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let (model, inputs) = (frame.model, frame.inputs);
    let layer = &model.program.deltas[id.0];
    let (Qkv::Joined(qkv), &[conv]) = (qkv, &layer.conv[..]) else { return Ok(Vec::new()) };
    let [from, starts, saves] = inputs.states(frame.rows)?;
    let delta = Delta {
        shape: shape(&layer.net),
        qkv: frame.span(qkv)?,
        z: frame.span(z)?,
        beta: frame.span(beta)?,
        alpha: frame.span(alpha)?,
        conv: model.vector(conv),
        a: model.vector(layer.decay),
        dt: model.vector(layer.dt),
        norm: model.norm(layer.norm),
        out: frame.span(out)?,
        states: frame.states.layer(id),
        from,
        starts,
        saves,
        scratch: frame.memory.delta.span(),
        readers: frame.memory.readers.span(),
    };
    delta.launches(frame.info)
}
