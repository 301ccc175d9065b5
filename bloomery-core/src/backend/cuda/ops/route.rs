//! A norm, if there is one, the router's logits and the experts of every row.

use bloomery_gguf::Format;
use bloomery_kernels::cpu::{RouterScore, RouterSpec};
use bloomery_kernels::cuda::{ByToken, CudaError, Launch, Route, RouteNorm, Scores as CardScores, Share};

use crate::backend::cuda::frame::Frame;
use crate::backend::cuda::support::without;
use crate::def::{Groups, Scores};
use crate::program::{Buffer, Gain, Routing, Rows};
use crate::weights::{Packed, VectorId};

/// Experts of a layer, and of a row, that the kernels choose from and choose.
const MOST: (usize, usize) = (512, 16);

/// Groups of experts, at most.
const MOST_GROUPS: usize = 32;

/// Why there is no kernel for a router, if there is none.
pub(in crate::backend::cuda) fn unsupported(
    routing: &Routing,
    matrices: &[Packed<'_>],
    used: usize,
) -> Option<String> {
    let router = &matrices[routing.weight.index()];
    if !matches!(router.format, Format::F32 | Format::F16 | Format::BF16) || !router.cols.is_multiple_of(4) {
        return Some(without(router, "router"));
    }
    if let Some(Groups { count, used: open }) = routing.spec.groups {
        let (experts, whole) = (router.rows, count > 0 && router.rows.is_multiple_of(count));
        if !whole
            || count > MOST_GROUPS
            || experts / count < 2
            || open > count
            || open * (experts / count) < used
        {
            return Some(format!("{used} of {experts} experts in {open} of {count} groups"));
        }
    }
    if routing.by_token.is_some() && (routing.bias.is_some() || routing.spec.groups.is_some()) {
        return Some("experts by token, with a bias or groups".to_owned());
    }
    let too_many = router.rows > MOST.0 || used > MOST.1;
    too_many.then(|| format!("{used} of {} experts are more than {} of {}", router.rows, MOST.1, MOST.0))
}

/// Words that the routers work with.
pub(in crate::backend::cuda) fn scratch_len(rows: usize, experts: usize) -> usize {
    Route::scratch_len(rows, experts)
}

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    [x, normed]: [Buffer; 2],
    norm: Option<Gain>,
    (router, share): (Routing, Option<VectorId>),
    used: usize,
) -> Result<Vec<Launch>, CudaError> {
    let mut spec = RouterSpec::softmax(used);
    (spec.renormalize, spec.scale) = (router.spec.renormalize, router.spec.scale);
    let rows = frame.rows_of(x.rows);
    let share = match share {
        None => None,
        Some(gate) => {
            let out = frame.memory.shares.slice(0..rows)?;
            Some(Share { gate: frame.model.vector(gate), out })
        }
    };
    let norm = match norm {
        None => None,
        Some(norm) => {
            let (gain, eps) = frame.model.norm(norm);
            Some(RouteNorm { gain, eps, normed: frame.span(normed)? })
        }
    };
    let by_token = match router.by_token {
        None => None,
        Some(table) => {
            let inputs = frame.inputs;
            let picks = x.rows == Rows::Outputs && !frame.takes_all();
            let picked = picks.then(|| inputs.outputs(frame.outputs)).transpose()?;
            Some(ByToken { table: frame.model.numbers(table), tokens: inputs.tokens(frame.rows)?, picked })
        }
    };
    let route = Route {
        x: frame.span(x)?,
        norm,
        router: frame.model.matrix(router.weight).clone(),
        spec,
        scores: CardScores {
            score: match router.spec.scores {
                Scores::Softmax => RouterScore::Softmax,
                Scores::Sigmoid => RouterScore::Sigmoid,
                Scores::SqrtSoftplus => RouterScore::SqrtSoftplus,
            },
            bias: router.bias.map(|id| frame.model.vector(id)),
            groups: router.spec.groups.map(|groups| (groups.count, groups.used)),
            by_token,
        },
        share,
        experts: frame.memory.experts.slice(0..rows * used)?,
        weights: frame.memory.expert_weights.slice(0..rows * used)?,
        live: None,
        scratch: frame.memory.route.span(),
    };
    route.launches(frame.info)
}
