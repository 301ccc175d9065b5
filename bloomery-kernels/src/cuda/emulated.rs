//! The kernels on the host, thread by thread: what tests run where there is no card, with the card's bits.

use bloomery_gguf::blocks;

use super::{DeviceInfo, Launch};
use crate::abi;

macro_rules! device {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[path = $path]
            #[expect(unsafe_op_in_unsafe_fn, reason = "as in the kernels' own package")]
            mod $name;
        )*
    };
}

device! {
    absorb: "../../device/src/absorb.rs",
    activations: "../../device/src/activations.rs",
    candidates: "../../device/src/candidates/mod.rs",
    attention: "../../device/src/attention/mod.rs",
    blend: "../../device/src/blend.rs",
    class: "../../device/src/class.rs",
    delta: "../../device/src/delta/mod.rs",
    dots: "../../device/src/dots/mod.rs",
    draft: "../../device/src/draft.rs",
    embed: "../../device/src/embed.rs",
    experts: "../../device/src/experts/mod.rs",
    few: "../../device/src/few/mod.rs",
    fold: "../../device/src/fold.rs",
    gate: "../../device/src/gate.rs",
    groups: "../../device/src/groups.rs",
    heads: "../../device/src/heads/mod.rs",
    index: "../../device/src/index/mod.rs",
    latent: "../../device/src/latent.rs",
    many: "../../device/src/many/mod.rs",
    many_float: "../../device/src/many_float/mod.rs",
    math: "../../device/src/math.rs",
    ngrams: "../../device/src/ngrams.rs",
    norm: "../../device/src/norm.rs",
    pack: "../../device/src/pack.rs",
    project: "../../device/src/project.rs",
    project_both: "../../device/src/project_both.rs",
    ring: "../../device/src/ring.rs",
    rounded: "../../device/src/rounded.rs",
    rounding: "../../device/src/rounding.rs",
    shared: "../../device/src/shared.rs",
    stages: "../../device/src/stages.rs",
    streams: "../../device/src/streams/mod.rs",
    summaries: "../../device/src/summaries.rs",
    tiles: "../../device/src/tiles/mod.rs",
    route: "../../device/src/route/mod.rs",
    seats: "../../device/src/seats/mod.rs",
    take: "../../device/src/take.rs",
    rope: "../../device/src/rope.rs",
}

#[path = "../../device/src/simt/mod.rs"]
#[expect(unsafe_op_in_unsafe_fn, reason = "as in the kernels' own package")]
#[expect(dead_code, reason = "all that a kernel may want")]
mod simt;

/// Runs a launch whose buffers are host memory.
pub(super) fn run(info: &DeviceInfo, launch: &Launch) {
    let (bulk, grid) = (info.overlaps(), launch.grid());
    macro_rules! kernels {
        ($($name:literal: $kernel:expr,)*) => {
            match launch.name() {
                $($name => {
                    let args = launch.arguments();
                    simt::run(bulk, grid, &|| {
                        // SAFETY: the launcher checked the kernel's contract; the buffers are host memory.
                        unsafe { $kernel(args) }
                    });
                })*
                name => panic!("{name} is not among the emulated kernels"),
            }
        };
    }
    kernels! {
        "attend_float": attention::float::attend::<8, false>,
        "attend_float_wide": attention::float::attend::<16, false>,
        "decode_f16_64": attention::decode::decode::<attention::kind::Half, 2, 2, 1, 1, 8, { attention::ALL }>,
        "decode_f16_128": attention::decode::decode::<attention::kind::Half, 4, 1, 1, 1, 8, { attention::ALL }>,
        "decode_f16_256": attention::decode::decode::<attention::kind::Half, 8, 1, 2, 1, 8, { attention::ALL }>,
        "decode_q8_64": attention::decode::decode::<attention::kind::Rounded, 2, 2, 1, 1, 8, { attention::ALL }>,
        "decode_q8_128": attention::decode::decode::<attention::kind::Rounded, 4, 1, 1, 1, 8, { attention::ALL }>,
        "decode_q8_256": attention::decode::decode::<attention::kind::Rounded, 8, 1, 2, 1, 8, { attention::ALL }>,
        "decode_f16_576": attention::decode::decode::<attention::kind::Half, 18, 1, 2, 2, 16, { attention::ALL }>,
        "decode_q8_576": attention::decode::decode::<attention::kind::Rounded, 18, 1, 2, 2, 8, { attention::ALL }>,
        "chosen_f16_256": attention::decode::decode::<attention::kind::Half, 8, 1, 2, 1, 8, { attention::BLOCKS }>,
        "chosen_q8_256": attention::decode::decode::<attention::kind::Rounded, 8, 1, 2, 1, 8, { attention::BLOCKS }>,
        "chosen_f16_512": attention::decode::decode::<attention::kind::Half, 16, 1, 2, 2, 16, { attention::BLOCKS }>,
        "chosen_q8_512": attention::decode::decode::<attention::kind::Rounded, 16, 1, 2, 2, 8, { attention::BLOCKS }>,
        "chosen_many_f16": attention::broad::prefill::<attention::kind::Half, { attention::BLOCKS }>,
        "chosen_many_q8": attention::broad::prefill::<attention::kind::Rounded, { attention::BLOCKS }>,
        "part_f16_512": attention::decode::decode::<attention::kind::Half, 16, 1, 2, 2, 8, { attention::PART }>,
        "part_q8_512": attention::decode::decode::<attention::kind::Rounded, 16, 1, 2, 2, 8, { attention::PART }>,
        "ends_f16_512": attention::decode::decode::<attention::kind::Half, 16, 1, 2, 2, 8, { attention::ENDS }>,
        "ends_many_f16": attention::broad::prefill::<attention::kind::Half, { attention::ENDS }>,
        "ends_many_q8": attention::broad::prefill::<attention::kind::Rounded, { attention::ENDS }>,
        "chosen_float": attention::float::attend::<8, true>,
        "chosen_float_wide": attention::float::attend::<16, true>,
        "prefill_f16_64": attention::prefill::prefill::<attention::kind::Half, 2, 4>,
        "prefill_f16_128": attention::prefill::prefill::<attention::kind::Half, 4, 4>,
        "prefill_f16_256": attention::prefill::prefill::<attention::kind::Half, 8, 2>,
        "prefill_q8_64": attention::prefill::prefill::<attention::kind::Rounded, 2, 4>,
        "prefill_q8_128": attention::prefill::prefill::<attention::kind::Rounded, 4, 4>,
        "prefill_q8_256": attention::prefill::prefill::<attention::kind::Rounded, 8, 2>,
        "prefill_f16_576": attention::broad::prefill::<attention::kind::Half, { attention::ALL }>,
        "prefill_q8_576": attention::broad::prefill::<attention::kind::Rounded, { attention::ALL }>,
        "delta_convolve": delta::convolve::convolve::<false>,
        "delta_scan": delta::scan::scan::<false>,
        "delta_finish": delta::finish::finish,
        "delta_few": delta::few::few::<false>,
        "delta_channels_convolve": delta::convolve::convolve::<true>,
        "delta_channels_scan": delta::scan::scan::<true>,
        "delta_channels_finish": delta::finish::finish,
        "delta_channels_few": delta::few::few::<true>,
        "carry": draft::carry,
        "pair": draft::pair,
        "embed": embed::embed,
        "few_project": few::project::project,
        "few_gate_up": few::gate_up::gate_up::<false>,
        "few_down": few::down::down::<false>,
        "few_gate_up_beside": few::gate_up::gate_up::<true>,
        "few_down_beside": few::down::down::<true>,
        "many_round": many::round::round,
        "many_products": many::gemm::products,
        "many_combine": many::combine::combine,
        "many_float_split": many_float::split::split,
        "many_half_64": many_float::gemm::products::<many_float::operands::Half, 2, 2, 1>,
        "many_half_128": many_float::gemm::products::<many_float::operands::Half, 4, 4, 2>,
        "many_bfloat_64": many_float::gemm::products::<many_float::operands::Bfloat, 2, 2, 1>,
        "many_bfloat_128": many_float::gemm::products::<many_float::operands::Bfloat, 4, 4, 2>,
        "many_single_64": many_float::gemm::products::<many_float::operands::Single, 2, 2, 1>,
        "many_heads_64": many_float::gemm::products::<many_float::operands::Packed, 2, 2, 1>,
        "many_heads_128": many_float::gemm::products::<many_float::operands::Packed, 4, 4, 2>,
        "pack": pack::pack,
        "gate_up_float_1": experts::gate_up::gate_up::<class::Float, 1>,
        "down_float_1": experts::down::down::<class::Float, 1>,
        "gate_up_float_4": experts::gate_up::gate_up::<class::Float, 4>,
        "down_float_4": experts::down::down::<class::Float, 4>,
        "gate_up_float_8": experts::gate_up::gate_up::<class::Float, 8>,
        "down_float_8": experts::down::down::<class::Float, 8>,
        "project_float_1": project::project::<class::Float, 1>,
        "project_float_2": project::project::<class::Float, 2>,
        "project_float_4": project::project::<class::Float, 4>,
        "project_float_8": project::project::<class::Float, 8>,
        "project_both": project_both::project_both,
        "rope_append": rope::rope_append,
        "latent_append": latent::latent_append,
        "gate": gate::gate,
        "per_head": heads::per_head::<true>,
        "per_head_wide": heads::wide::per_head::<1, 1, 8>,
        "per_head_wide_many": heads::wide::per_head::<4, 2, 1>,
        "absorb_append": absorb::absorb_append,
        "ngram_share": ngrams::ngram_share::<true>,
        "ngram_add": ngrams::ngram_share::<false>,
        "ngram_mix": ngrams::ngram_mix,
        "ngram_save": ngrams::ngram_save,
        "index_append": index::index_append,
        "index_score_8": index::index_score::<8, 1, 4>,
        "index_score_32": index::index_score::<32, 2, 1>,
        "index_choose": index::index_choose,
        "index_made": index::index_made,
        "index_spans": index::index_spans,
        "index_limit": index::index_limit,
        "shared_append": shared::shared_append,
        "blend": blend::blend,
        "norm_add": norm::norm_add,
        "norm_quantize_wide": norm::norm_quantize::<256>,
        "norm_quantize_narrow": norm::norm_quantize::<32>,
        "route_1": route::few::route::<1, false>,
        "route_2": route::few::route::<2, false>,
        "route_4": route::few::route::<4, false>,
        "route_raw_1": route::few::route::<1, true>,
        "route_raw_2": route::few::route::<2, true>,
        "route_raw_4": route::few::route::<4, true>,
        "route_gate": route::many::route_gate,
        "route_raw_logits_2": route::many::route_logits::<2, false, true>,
        "route_raw_logits_4": route::many::route_logits::<4, false, true>,
        "route_norm": route::many::route_norm,
        "route_logits_2": route::many::route_logits::<2, false, false>,
        "route_logits_4": route::many::route_logits::<4, false, false>,
        "route_plain_2": route::many::route_logits::<2, true, false>,
        "route_plain_4": route::many::route_logits::<4, true, false>,
        "route_choose": route::choose::route_choose,
        "group_count": route::group::group_count,
        "group_place": route::group::group_place,
        "seats_offer": seats::offer::offer,
        "seats_collect": seats::collect::collect,
        "seats_fetch": seats::fetch::fetch,
        "seats_arrive": seats::fetch::arrive,
        "stream_norm": streams::gated::stream_norm,
        "gated_mean": streams::gated::mean::<true>,
        "stream_mean": streams::gated::mean::<false>,
        "hyper_pass": streams::hyper::hyper_pass,
        "hyper_read": streams::hyper::hyper_read,
        "summarise": summaries::summarise,
        "summary_append": summaries::summary_append,
        "take": take::take,
        "candidates_find": candidates::candidates_find,
        "candidates_merge": candidates::candidates_merge,
    }
}
