use super::INTERNALS;
use crate::args::flag::{
    Flag, bare, integer, switch, text, unused, unused_number, unused_optional, unused_word,
};
use crate::args::setters::{directory, kv_k, kv_v, parallel};

const MAX: i64 = i32::MAX as i64;
const SHIFT: &str = "a full context ends the generation: context shift is not in this release";
const TREE: &str =
    "all slots share one prefix cache, which keeps what was computed until the memory is needed";
const SPACING: &str =
    "checkpoints are where an edit at some distance from the end costs about that distance again";
const WINDOWS: &str = "the cache of layers with a window holds all positions";
const ROPE: &str =
    "positions are scaled as the file says; other scaling would change answers and is not in this release";

pub(super) static FLAGS: &[Flag] = &[
    integer("-c --ctx-size --ctx", "N", (0, MAX), |draft, n| draft.engine.context = n as usize)
        .env("LLAMA_ARG_CTX_SIZE")
        .doc("positions of all slots together, rounded up to 256 a slot; 0: what the model was trained for, as memory allows (default: 0)"),
    text("-np --parallel", "N", parallel)
        .env("LLAMA_ARG_N_PARALLEL")
        .doc("requests that run at the same time; auto or -1: 4 that share the context (default: auto)"),
    switch("-kvu --kv-unified", |draft, on| draft.engine.unified = Some(on))
        .off("-no-kvu --no-kv-unified")
        .env("LLAMA_ARG_KV_UNIFIED")
        .doc("each slot may use the whole context; off: the slots divide it (default: on with -np auto)"),
    integer("--kv-unified-per-slot", "N", (0, MAX), |draft, n| {
        draft.engine.per_slot = usize::try_from(n).ok().filter(|&n| n > 0);
    })
    .env("LLAMA_ARG_KV_UNIFIED_PER_SLOT")
    .doc("most positions of one slot; without -c the context is that many for each (default: unset)"),
    integer("-n --predict --n-predict", "N", (-2, MAX), |draft, n| {
        draft.params.max_tokens = usize::try_from(n).ok();
    })
    .env("LLAMA_ARG_N_PREDICT")
    .params()
    .doc("most tokens of an answer where the request does not say; -1: until the model ends or the context is full (default: -1)"),
    integer("-b --batch-size", "N", (0, MAX), |draft, n| draft.engine.batch = n as usize)
        .env("LLAMA_ARG_BATCH")
        .doc("as --ubatch-size; the smaller of the two counts (default: 2048)"),
    integer("-ub --ubatch-size", "N", (0, MAX), |draft, n| draft.engine.ubatch = Some(n as usize))
        .env("LLAMA_ARG_UBATCH")
        .doc("most tokens of one step (default: 512; on a card with room 2048)"),
    integer("--queue-depth", "N", (0, MAX), |draft, n| draft.engine.queue_depth = Some(n as usize))
        .doc("requests that may wait for a slot; the next one gets 503 (default: 64 less the slots)"),
    integer("-cram --cache-ram", "MIB", (-1, MAX), |draft, n| draft.engine.cache_ram = Some(n))
        .env("LLAMA_ARG_CACHE_RAM")
        .doc("memory for prompts that no slot holds any more; 0: none, -1: no limit (default: 8192, or half of what is free)"),
    integer("-ctxcp --ctx-checkpoints --swa-checkpoints", "N", (0, MAX), |draft, n| {
        draft.engine.checkpoints = Some(n as usize);
    })
    .env("LLAMA_ARG_CTX_CHECKPOINTS")
    .doc("states of recurrent layers that each slot can come back to, beside those in --cache-ram (default: 8, or as many as a 16th of the free memory holds)"),
    switch("--cache-prompt", |draft, on| draft.serve.cache_prompt = on)
        .off("--no-cache-prompt")
        .env("LLAMA_ARG_CACHE_PROMPT")
        .doc("use what is known of a prompt where the request does not say (default: on)"),
    text("--slot-save-path", "DIR", |draft, value| {
        draft.serve.slot_save_path = Some(directory(value)?);
        Ok(())
    })
    .env("LLAMA_ARG_SLOT_SAVE_PATH")
    .doc("allow slots to be saved to and restored from files in this directory (default: off)"),
    text("-ctk --cache-type-k", "TYPE", kv_k)
        .env("LLAMA_ARG_CACHE_TYPE_K")
        .doc("type of cached keys: f16, q8_0 or f32 (default: f16)"),
    text("-ctv --cache-type-v", "TYPE", kv_v)
        .env("LLAMA_ARG_CACHE_TYPE_V")
        .doc("type of cached values; must be that of the keys (default: that of the keys)"),
    unused_number("--keep", "N").ignored(SHIFT),
    bare("--context-shift").off("--no-context-shift").env("LLAMA_ARG_CONTEXT_SHIFT").refused(SHIFT),
    bare("--cache-idle-slots").off("--no-cache-idle-slots").env("LLAMA_ARG_CACHE_IDLE_SLOTS").ignored(TREE),
    unused_number("--cache-reuse", "N").env("LLAMA_ARG_CACHE_REUSE").ignored(SHIFT),
    unused_number("-cms --checkpoint-min-step", "N")
        .env("LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT")
        .ignored(SPACING),
    unused_number("-sps --slot-prompt-similarity", "X").ignored(TREE),
    bare("--swa-full").env("LLAMA_ARG_SWA_FULL").ignored(WINDOWS),
    bare("-cb --cont-batching")
        .off("-nocb --no-cont-batching")
        .env("LLAMA_ARG_CONT_BATCHING")
        .ignored("requests always share steps"),
    unused_optional("-fa --flash-attn", &["on", "off", "auto"])
        .env("LLAMA_ARG_FLASH_ATTN")
        .ignored("there is one attention kernel"),
    unused_number("--sleep-idle-seconds", "S").ignored("the model stays loaded"),
    unused("--park-ram", "MIB").ignored("slots stay resident"),
    unused_word("--prefill", &["batch", "steps"]).ignored("prompts always run in parts between the steps of others"),
    unused_number("-dt --defrag-thold", "X").env("LLAMA_ARG_DEFRAG_THOLD").ignored(INTERNALS),
    unused("--rope-scaling", "TYPE").env("LLAMA_ARG_ROPE_SCALING_TYPE").refused(ROPE),
    unused_number("--rope-scale", "X").env("LLAMA_ARG_ROPE_SCALE").refused(ROPE),
    unused_number("--rope-freq-base", "X").env("LLAMA_ARG_ROPE_FREQ_BASE").refused(ROPE),
    unused_number("--rope-freq-scale", "X").env("LLAMA_ARG_ROPE_FREQ_SCALE").refused(ROPE),
    unused_number("--yarn-orig-ctx", "N").env("LLAMA_ARG_YARN_ORIG_CTX").refused(ROPE),
    unused_number("--yarn-ext-factor", "X").env("LLAMA_ARG_YARN_EXT_FACTOR").refused(ROPE),
    unused_number("--yarn-attn-factor", "X").env("LLAMA_ARG_YARN_ATTN_FACTOR").refused(ROPE),
    unused_number("--yarn-beta-slow", "X").env("LLAMA_ARG_YARN_BETA_SLOW").refused(ROPE),
    unused_number("--yarn-beta-fast", "X").env("LLAMA_ARG_YARN_BETA_FAST").refused(ROPE),
];
