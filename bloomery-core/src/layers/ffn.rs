//! Gated feed-forward networks: dense, and routed to experts with or without a shared one.

use super::{Builder, Scope};
use crate::def::{Dense, Moe};
use crate::error::LoadError;
use crate::program::{Buffer, ExpertStacks, Gain, Gated, Op, Routing};
use crate::weights::StackId;

/// `x += network(norm(x))`.
pub(super) fn dense(
    builder: &mut Builder<'_>,
    scope: &Scope,
    dense: &Dense,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<(), LoadError> {
    let (out, accumulate) = builder.branch(scope, x);
    let gated = Gated { accumulate, ..gated(builder, scope, dense, "")? };
    let normed = match norm {
        None => x,
        Some(norm) => {
            let normed = builder.buffer("normed", scope.hidden, x.rows);
            builder.push(Op::Norm { x, norm, out: normed });
            normed
        }
    };
    builder.push(Op::Gated { normed, gated, out });
    builder.rejoin(scope, "post_ffw_norm.weight", out, x)
}

/// `x += experts(norm(x))`, plus the shared network where there is one.
pub(super) fn routed(
    builder: &mut Builder<'_>,
    scope: &Scope,
    moe: &Moe,
    norm: Option<Gain>,
    x: Buffer,
) -> Result<(), LoadError> {
    let normed = if norm.is_some() { builder.buffer("normed", scope.hidden, x.rows) } else { x };
    let weight = builder.bind.matrix(&scope.tensor("ffn_gate_inp.weight"), moe.experts, scope.hidden)?;
    let bias = builder.bind.bias(moe.router.bias, &scope.tensor("exp_probs_b.bias"), moe.experts)?;
    let by_token = match moe.router.by_token {
        true => Some(builder.bind.numbers(&scope.tensor("ffn_gate_tid2eid.weight"), moe.used)?),
        false => None,
    };
    let router = Routing { weight, bias, by_token, spec: moe.router };
    builder.push(Op::Route { x, norm, normed, router, used: moe.used });
    let (gate, up) = gate_and_up(builder, scope, moe)?;
    let down_name = scope.tensor("ffn_down_exps.weight");
    let down =
        builder.bind.stack_rows(&down_name, (moe.experts, scope.hidden, moe.width), 0, scope.hidden)?;
    let experts = ExpertStacks { gate, up, down, act: moe.act };
    let (out, accumulate) = builder.branch(scope, x);
    let shared = match &moe.shared {
        None => None,
        Some(shared) => {
            let share = match shared.gate {
                true => Some(builder.bind.vector(&scope.tensor("ffn_gate_inp_shexp.weight"), scope.hidden)?),
                false => None,
            };
            let gated = Gated { share, accumulate, ..gated(builder, scope, &shared.network, "_shexp")? };
            Some(Op::Gated { normed, gated, out })
        }
    };
    let experts = Op::Experts { normed, experts, out };
    match (shared, accumulate) {
        (shared, true) => [Some(experts), shared].into_iter().flatten().for_each(|op| builder.push(op)),
        // Experts add: the first to write is the network beside them.
        (Some(shared), false) => [shared, experts].into_iter().for_each(|op| builder.push(op)),
        (None, false) => {
            let key = scope.tensor("ffn_up_shexp.weight");
            let supported = "a network beside routed experts";
            return Err(LoadError::UnsupportedConfig { key, value: "none".to_owned(), supported });
        }
    }
    builder.rejoin(scope, "post_ffw_norm.weight", out, x)
}

fn gated(builder: &mut Builder<'_>, scope: &Scope, dense: &Dense, suffix: &str) -> Result<Gated, LoadError> {
    let mut matrix = |name: &str, rows, cols| {
        builder.bind.matrix(&scope.tensor(&format!("{name}{suffix}.weight")), rows, cols)
    };
    Ok(Gated {
        gate: matrix("ffn_gate", dense.width, scope.hidden)?,
        up: matrix("ffn_up", dense.width, scope.hidden)?,
        down: matrix("ffn_down", scope.hidden, dense.width)?,
        act: dense.act,
        share: None,
        accumulate: true,
    })
}

/// Two stacks, or one whose matrices hold the gate's rows before the up projection's.
fn gate_and_up(builder: &mut Builder<'_>, scope: &Scope, moe: &Moe) -> Result<(StackId, StackId), LoadError> {
    let merged = scope.tensor("ffn_gate_up_exps.weight");
    let (experts, width, hidden) = (moe.experts, moe.width, scope.hidden);
    if builder.bind.has(&merged) {
        let shape = (experts, 2 * width, hidden);
        let gate = builder.bind.stack_rows(&merged, shape, 0, width)?;
        return Ok((gate, builder.bind.stack_rows(&merged, shape, width, width)?));
    }
    let shape = (experts, width, hidden);
    let gate = builder.bind.stack_rows(&scope.tensor("ffn_gate_exps.weight"), shape, 0, width)?;
    Ok((gate, builder.bind.stack_rows(&scope.tensor("ffn_up_exps.weight"), shape, 0, width)?))
}
