use super::DRAFTS;
use crate::args::flag::{Flag, bare, unused, unused_number, unused_word};

const N_MAX: &str = "replaced by --spec-draft-n-max; speculative decoding is not in this release";
const N_MIN: &str = "replaced by --spec-draft-n-min; speculative decoding is not in this release";
const NGRAM: &str = "replaced by the flags of one kind, such as --spec-ngram-simple-size-n; \
                     speculative decoding is not in this release";

/// Drafting changes the speed and not the answers, so all of it is accepted.
pub(super) static FLAGS: &[Flag] = &[
    unused("-md --model-draft --spec-draft-model", "FILE").env("LLAMA_ARG_SPEC_DRAFT_MODEL").ignored(DRAFTS),
    unused("-hfd -hfrd --hf-repo-draft --spec-draft-hf", "REPO[:QUANT]")
        .env("LLAMA_ARG_SPEC_DRAFT_HF_REPO")
        .ignored(DRAFTS),
    unused("--spec-type", "NAME[,NAME]").env("LLAMA_ARG_SPEC_TYPE").many().ignored(DRAFTS),
    unused_number("--spec-draft-n-max", "N").env("LLAMA_ARG_SPEC_DRAFT_N_MAX").ignored(DRAFTS),
    unused_number("--spec-draft-n-min", "N").env("LLAMA_ARG_SPEC_DRAFT_N_MIN").ignored(DRAFTS),
    unused_number("--spec-draft-p-min --draft-p-min", "P").env("LLAMA_ARG_SPEC_DRAFT_P_MIN").ignored(DRAFTS),
    unused_number("--spec-draft-p-split --draft-p-split", "P")
        .env("LLAMA_ARG_SPEC_DRAFT_P_SPLIT")
        .ignored(DRAFTS),
    unused_word("--spec-draft-sampling", &["greedy", "probabilistic"])
        .env("LLAMA_ARG_SPEC_DRAFT_SAMPLING")
        .ignored(DRAFTS),
    bare("--spec-draft-backend-sampling")
        .off("--no-spec-draft-backend-sampling")
        .env("LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING")
        .ignored(DRAFTS),
    unused("-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl", "N|auto|all")
        .env("LLAMA_ARG_N_GPU_LAYERS_DRAFT")
        .ignored(DRAFTS),
    unused("-devd --device-draft --spec-draft-device", "LIST").ignored(DRAFTS),
    unused("-ctkd --cache-type-k-draft --spec-draft-type-k", "TYPE")
        .env("LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K")
        .ignored(DRAFTS),
    unused("-ctvd --cache-type-v-draft --spec-draft-type-v", "TYPE")
        .env("LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V")
        .ignored(DRAFTS),
    bare("-cmoed --cpu-moe-draft --spec-draft-cpu-moe").env("LLAMA_ARG_SPEC_DRAFT_CPU_MOE").ignored(DRAFTS),
    unused_number("-ncmoed --n-cpu-moe-draft --spec-draft-n-cpu-moe --spec-draft-ncmoe", "N")
        .env("LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE")
        .ignored(DRAFTS),
    unused("-otd --override-tensor-draft --spec-draft-override-tensor", "PATTERN=BUFFER[,…]").ignored(DRAFTS),
    unused_number("-td --threads-draft --spec-draft-threads", "N").ignored(DRAFTS),
    unused_number("-tbd --threads-batch-draft --spec-draft-threads-batch", "N").ignored(DRAFTS),
    unused("-Cd --cpu-mask-draft --spec-draft-cpu-mask", "MASK").ignored(DRAFTS),
    unused("-Crd --cpu-range-draft --spec-draft-cpu-range", "LOW-HIGH").ignored(DRAFTS),
    unused_number("--cpu-strict-draft --spec-draft-cpu-strict", "0|1").ignored(DRAFTS),
    unused_number("--prio-draft --spec-draft-prio", "N").ignored(DRAFTS),
    unused_number("--poll-draft --spec-draft-poll", "0|1").ignored(DRAFTS),
    unused("-Cbd --cpu-mask-batch-draft --spec-draft-cpu-mask-batch", "MASK").ignored(DRAFTS),
    unused("-Crbd --cpu-range-batch-draft --spec-draft-cpu-range-batch", "LOW-HIGH").ignored(DRAFTS),
    unused_number("--cpu-strict-batch-draft --spec-draft-cpu-strict-batch", "0|1").ignored(DRAFTS),
    unused_number("--prio-batch-draft --spec-draft-prio-batch", "N").ignored(DRAFTS),
    unused_number("--poll-batch-draft --spec-draft-poll-batch", "0|1").ignored(DRAFTS),
    unused_number("--spec-ngram-mod-n-min", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-mod-n-max", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-mod-n-match", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-simple-size-n", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-simple-size-m", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-simple-min-hits", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-map-k-size-n", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-map-k-size-m", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-map-k-min-hits", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-map-k4v-size-n", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-map-k4v-size-m", "N").ignored(DRAFTS),
    unused_number("--spec-ngram-map-k4v-min-hits", "N").ignored(DRAFTS),
    unused_number("--spec-synth-len", "L").env("LLAMA_ARG_SPEC_SYNTH_LEN").ignored(DRAFTS),
    unused("--spec-synth-rates", "P,P,…").env("LLAMA_ARG_SPEC_SYNTH_RATES").ignored(DRAFTS),
    bare("--spec-default").ignored(DRAFTS),
    unused("-lcs --lookup-cache-static", "FILE").ignored(DRAFTS),
    unused("-lcd --lookup-cache-dynamic", "FILE").ignored(DRAFTS),
    unused_number("--draft --draft-n --draft-max", "N").env("LLAMA_ARG_DRAFT_MAX").ignored(N_MAX),
    unused_number("--draft-min --draft-n-min", "N").env("LLAMA_ARG_DRAFT_MIN").ignored(N_MIN),
    unused_number("--spec-ngram-size-n", "N").ignored(NGRAM),
    unused_number("--spec-ngram-size-m", "N").ignored(NGRAM),
    unused_number("--spec-ngram-min-hits", "N").ignored(NGRAM),
];
