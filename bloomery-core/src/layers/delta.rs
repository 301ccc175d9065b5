//! Gated delta net: projections, the recurrence with all that belongs to it, output projection.

use super::{Builder, Scope};
use crate::def::DeltaNet;
use crate::error::LoadError;
use crate::program::{Buffer, Delta, Gain, Op, Projection, Qkv, Rows};

/// Emits the mixer and returns the residual to go on with.
pub(super) fn emit(
    builder: &mut Builder<'_>,
    scope: &Scope,
    net: &DeltaNet,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<Buffer, LoadError> {
    let heads = net.value_heads;
    let qkv = builder.buffer("qkv", net.channels(), Rows::All);
    let z = builder.buffer("z", net.inner(), Rows::All);
    let beta = builder.buffer("beta", heads, Rows::All);
    let alpha = builder.buffer("alpha", heads, Rows::All);
    let mut parts = Vec::with_capacity(4);
    for (out, name) in [(qkv, "attn_qkv.weight"), (z, "attn_gate.weight")] {
        let weight = builder.bind.matrix(&scope.tensor(name), out.cols, scope.hidden)?;
        parts.push(Projection { weight, bias: None, out, accumulate: false });
    }
    for (out, name) in [(beta, "ssm_beta.weight"), (alpha, "ssm_alpha.weight")] {
        // Errors of these compound over the whole sequence.
        let weight = builder.bind.matrix_floats(&scope.tensor(name), heads, scope.hidden)?;
        parts.push(Projection { weight, bias: None, out, accumulate: false });
    }
    builder.push(Op::Project { x, norm, parts });

    let conv = builder.bind.values(&scope.tensor("ssm_conv1d.weight"), &[net.taps, net.channels()])?;
    let decay = builder.bind.vector(&scope.tensor("ssm_a"), heads)?;
    let dt = builder.bind.vector(&scope.tensor("ssm_dt.bias"), heads)?;
    let norm = builder.gain(&scope.tensor("ssm_norm.weight"), net.norm, net.head_dim)?;
    let delta = builder.delta(Delta { net: *net, conv: vec![conv], decay, dt, norm });
    let out = builder.buffer("heads", net.inner(), Rows::All);
    builder.push(Op::Delta { qkv: Qkv::Joined(qkv), z, beta, alpha, delta, out });
    let weight = builder.bind.matrix(&scope.tensor("ssm_out.weight"), scope.hidden, net.inner())?;
    builder.mixed(scope, (out, "heads"), (weight, None), x)
}
