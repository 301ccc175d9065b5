use std::path::PathBuf;

use bloomery_core::Drafts;

use super::DRAFTS;
use crate::args::flag::{Flag, bare, integer, switch, text, unused, unused_number, unused_word};
use crate::args::setters::{draft_least, draft_most, draft_size, spec_type, text_most};

const ONE_INDEX: &str = "there is one index of what a text repeats; --spec-ngram-simple-size-n and -m set it";
const HITS: &str = "what came once before may come again; how often that is right is measured";
const FILES: &str = "guesses come from the text itself, not from files";

const MAX: i64 = i32::MAX as i64;

/// Drafts change the speed and not the answers, so all of it is accepted.
pub(super) static FLAGS: &[Flag] = &[
    text("--spec-type", "NAME[,NAME]", spec_type)
        .env("LLAMA_ARG_SPEC_TYPE")
        .many()
        .params()
        .doc("where guesses of the next tokens come from: ngram-simple (what the text repeats), draft-mtp or draft-dspark (the model's own block), or none (default: both)"),
    text("-md --model-draft --spec-draft-model", "FILE", |draft, value| {
        draft.engine.block = Some(PathBuf::from(value));
        Ok(())
    })
    .env("LLAMA_ARG_SPEC_DRAFT_MODEL")
    .doc("the model's own block for the next tokens, where it is a file of its own (mtp-*.gguf, dspark-*.gguf); no other model"),
    integer("--spec-draft-n-max", "N", (0, MAX), draft_most)
        .env("LLAMA_ARG_SPEC_DRAFT_N_MAX")
        .params()
        .doc("most tokens guessed at once, at most 16; 0: none (default: 16)"),
    integer("--draft --draft-n --draft-max", "N", (0, MAX), draft_most)
        .env("LLAMA_ARG_DRAFT_MAX")
        .params()
        .doc("as --spec-draft-n-max"),
    integer("--spec-ngram-simple-size-m --spec-ngram-size-m", "N", (0, MAX), text_most)
        .params()
        .doc("most tokens guessed at once from what the text repeats, at most 16 (default: 16)"),
    integer("--spec-draft-n-min", "N", (0, MAX), draft_least)
        .env("LLAMA_ARG_SPEC_DRAFT_N_MIN")
        .params()
        .doc("fewest tokens worth a check (default: 1)"),
    integer("--draft-min --draft-n-min", "N", (0, MAX), draft_least)
        .env("LLAMA_ARG_DRAFT_MIN")
        .params()
        .doc("as --spec-draft-n-min"),
    integer("--spec-ngram-simple-size-n --spec-ngram-size-n", "N", (1, MAX), draft_size)
        .params()
        .doc("tokens at the end of the text that must have come before, at most 16 (default: 4, else 3, else 2)"),
    switch("--spec-default", |draft, on| {
        if on {
            draft.params.drafts = Drafts::default();
        }
    })
    .params()
    .doc("guess with the defaults of all of these"),
    unused("-hfd -hfrd --hf-repo-draft --spec-draft-hf", "REPO[:QUANT]")
        .env("LLAMA_ARG_SPEC_DRAFT_HF_REPO")
        .ignored(DRAFTS),
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
    unused_number("--spec-ngram-mod-n-min", "N").ignored(ONE_INDEX),
    unused_number("--spec-ngram-mod-n-max", "N").ignored(ONE_INDEX),
    unused_number("--spec-ngram-mod-n-match", "N").ignored(ONE_INDEX),
    unused_number("--spec-ngram-simple-min-hits --spec-ngram-min-hits", "N").ignored(HITS),
    unused_number("--spec-ngram-map-k-size-n", "N").ignored(ONE_INDEX),
    unused_number("--spec-ngram-map-k-size-m", "N").ignored(ONE_INDEX),
    unused_number("--spec-ngram-map-k-min-hits", "N").ignored(ONE_INDEX),
    unused_number("--spec-ngram-map-k4v-size-n", "N").ignored(ONE_INDEX),
    unused_number("--spec-ngram-map-k4v-size-m", "N").ignored(ONE_INDEX),
    unused_number("--spec-ngram-map-k4v-min-hits", "N").ignored(ONE_INDEX),
    unused_number("--spec-synth-len", "L").env("LLAMA_ARG_SPEC_SYNTH_LEN").ignored(DRAFTS),
    unused("--spec-synth-rates", "P,P,…").env("LLAMA_ARG_SPEC_SYNTH_RATES").ignored(DRAFTS),
    unused("-lcs --lookup-cache-static", "FILE").ignored(FILES),
    unused("-lcd --lookup-cache-dynamic", "FILE").ignored(FILES),
];
