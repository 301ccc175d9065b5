//! A gated delta net between its projections.

use bloomery_kernels::cuda::{CudaError, Delta, DeltaForm, DeltaShape, Launch};

use crate::backend::cuda::frame::Frame;
use crate::def::{Decay, DeltaNet, OutGate};
use crate::program::{self, Buffer, DeltaId, Qkv};

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
pub(in crate::backend::cuda) fn unsupported(layer: &program::Delta) -> Option<String> {
    let program::Delta { net, conv, .. } = layer;
    match (net.decay, net.gate, conv.len()) {
        (Decay::Head, _, 1) | (Decay::Channel { .. }, OutGate::Sigmoid, 3) => {
            shape(net).check().err().map(|error| error.to_string())
        }
        (Decay::Channel { .. }, OutGate::Silu, _) => {
            Some("a delta net whose channels decay by themselves behind a SiLU".to_owned())
        }
        (.., convs) => Some(format!("{convs} convolutions of a delta net")),
    }
}

/// Floats of scratch memory for `rows` rows, and words for `sequences` sequences.
pub(in crate::backend::cuda) fn scratch_len(net: &DeltaNet, rows: usize, sequences: usize) -> (usize, usize) {
    let channels = matches!(net.decay, Decay::Channel { .. });
    (Delta::scratch_len(&shape(net), rows, channels), sequences * net.key_heads)
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
    let form = match (qkv, &layer.conv[..], layer.net.decay) {
        (Qkv::Joined(qkv), &[conv], Decay::Head) => {
            let sigmoid = layer.net.gate == OutGate::Sigmoid;
            DeltaForm::Heads { qkv: frame.span(qkv)?, conv: model.vector(conv), sigmoid }
        }
        (Qkv::Apart([q, k, v]), &[conv_q, conv_k, conv_v], Decay::Channel { bound }) => {
            let qkv = [frame.span(q)?, frame.span(k)?, frame.span(v)?];
            let conv = [conv_q, conv_k, conv_v].map(|id| model.vector(id));
            DeltaForm::Channels { qkv, conv, bound }
        }
        // There are no kernels for these: such layers are refused.
        _ => return Ok(Vec::new()),
    };
    let [from, starts, saves] = inputs.states(frame.rows)?;
    let delta = Delta {
        shape: shape(&layer.net),
        form,
        z: frame.span(z)?,
        beta: frame.span(beta)?,
        alpha: frame.span(alpha)?,
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
