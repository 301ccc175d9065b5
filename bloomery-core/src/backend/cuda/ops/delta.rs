//! A gated delta net between its projections.

use bloomery_kernels::cuda::{CudaError, Delta, DeltaShape, Launch};

use crate::backend::cuda::frame::Frame;
use crate::def::DeltaNet;
use crate::program::{Buffer, DeltaId};

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
    shape(net).check().err().map(|error| error.to_string())
}

/// Floats of scratch memory for `rows` rows, and words for `sequences` sequences.
pub(in crate::backend::cuda) fn scratch_len(net: &DeltaNet, rows: usize, sequences: usize) -> (usize, usize) {
    (Delta::scratch_len(&shape(net), rows), sequences * net.key_heads)
}

/// Of `[qkv, z, beta, alpha]`.
pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    [qkv, z, beta, alpha]: [Buffer; 4],
    id: DeltaId,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let (model, inputs) = (frame.model, frame.inputs);
    let layer = &model.program.deltas[id.0];
    let [from, starts, saves] = inputs.states(frame.rows)?;
    let delta = Delta {
        shape: shape(&layer.net),
        qkv: frame.span(qkv)?,
        z: frame.span(z)?,
        beta: frame.span(beta)?,
        alpha: frame.span(alpha)?,
        conv: model.vector(layer.conv),
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
