//! Delta nets whose channels decay by themselves: projections, the recurrence with all that belongs to it, output projection.

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
    let (heads, dim, inner) = (net.value_heads, net.head_dim, net.inner());
    let mut parts = Vec::with_capacity(6);
    let mut project = |builder: &mut Builder<'_>, buffer, name: &str, cols: usize| {
        let out = builder.buffer(buffer, cols, Rows::All);
        let weight = builder.bind.matrix(&scope.tensor(name), cols, scope.hidden)?;
        parts.push(Projection { weight, bias: None, out, accumulate: false });
        Ok::<Buffer, LoadError>(out)
    };
    let q = project(builder, "q", "attn_q.weight", inner)?;
    let k = project(builder, "k", "attn_k.weight", inner)?;
    let v = project(builder, "v", "attn_v.weight", inner)?;
    // Both gates have the width of a head between their two matrices.
    let decays = project(builder, "low decays", "ssm_f_a.weight", dim)?;
    let gates = project(builder, "low gates", "ssm_g_a.weight", dim)?;
    let beta = project(builder, "beta", "ssm_beta.weight", heads)?;
    builder.push(Op::Project { x, norm, parts });
    let alpha = builder.buffer("alpha", inner, Rows::All);
    let z = builder.buffer("z", inner, Rows::All);
    for (x, out, name) in [(decays, alpha, "ssm_f_b.weight"), (gates, z, "ssm_g_b.weight")] {
        let weight = builder.bind.matrix(&scope.tensor(name), inner, dim)?;
        let part = Projection { weight, bias: None, out, accumulate: false };
        builder.push(Op::Project { x, norm: None, parts: vec![part] });
    }
    let conv = ["q", "k", "v"]
        .map(|kind| scope.tensor(&format!("ssm_conv1d_{kind}.weight")))
        .iter()
        .map(|name| builder.bind.squeezed(name, &[net.taps, inner]))
        .collect::<Result<Vec<_>, LoadError>>()?;
    let decay = builder.bind.squeezed(&scope.tensor("ssm_a"), &[heads])?;
    let dt = builder.bind.vector(&scope.tensor("ssm_dt.bias"), inner)?;
    let norm = builder.gain(&scope.tensor("ssm_norm.weight"), net.norm, dim)?;
    let delta = builder.delta(Delta { net: *net, conv, decay, dt, norm });
    let out = builder.buffer("heads", inner, Rows::All);
    builder.push(Op::Delta { qkv: Qkv::Apart([q, k, v]), z, beta, alpha, delta, out });
    let weight = builder.bind.matrix(&scope.tensor("attn_output.weight"), scope.hidden, inner)?;
    builder.mixed(scope, (out, "heads"), (weight, None), x)
}
