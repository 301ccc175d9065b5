use std::num::NonZeroUsize;

use bloomery_core::ResidencyMode;

use super::ONE;
use crate::args::flag::{
    Flag, bare, integer, optional, switch, text, unused, unused_number, unused_word, word,
};
use crate::args::placement::{
    card_budget, cpu_moe, device, fit, fit_target, gpu_layers, main_card, n_cpu_moe, override_tensor, place,
};

const LOADING: &str = "the file is always mapped and read once at the start";
const MLOCK: &str = "replaced by --load-mode; the file is always mapped and read once at the start";
const WORKERS: &str = "the engine pins one thread to each core it uses";
const CACHE: &str = "experts have what a card has left, see --card-budget";
const SAMPLING: &str = "a card selects candidates wherever that changes no result";
const FORMAT: &str = "weights are computed in the format of the file";

pub(super) static FLAGS: &[Flag] = &[
    text("--place", "auto|a|gate|N|cudaN|cudaN+cpu|cpu", place)
        .doc("where the model is, whatever -ngl and -dev say; auto: on the first card that it fits, else with as many experts as fit on the card with most free memory, else on the CPU; a, gate, N: as much as fits on the largest card, the smallest, card N; cudaN: all of it on card N; cudaN+cpu: with experts on both (default: auto)"),
    text("--card-budget", "SIZE", card_budget)
        .doc("most memory of a card to use, such as 12G (default: what is free)"),
    word("--residency", &["adaptive", "off"], |draft, word| {
        draft.engine.residency = match word {
            "off" => ResidencyMode::Off,
            _ => ResidencyMode::Adaptive,
        };
    })
    .doc("whether experts that are chosen often move to the card; off: the same text always gives the same bits (default: adaptive)"),
    text("--heat", "FILE", |draft, path| {
        draft.engine.heat = Some(path.into());
        Ok(())
    })
    .doc("where counts of chosen experts are kept from one start to the next (default: nowhere)"),
    integer("-t --threads", "N", (i32::MIN as i64, 4096), |draft, n| {
        draft.engine.threads = usize::try_from(n).ok().and_then(NonZeroUsize::new);
    })
    .env("LLAMA_ARG_THREADS")
    .doc("CPU threads; 0 or less: the physical cores (default: -1)"),
    unused_number("-tb --threads-batch", "N").ignored("prompts and answers run on the same threads, see -t"),
    text("-ngl --gpu-layers --n-gpu-layers", "N|auto|all", gpu_layers)
        .env("LLAMA_ARG_N_GPU_LAYERS")
        .doc("0: the CPU; else a card, and what experts it has no room for the CPU (default: auto)"),
    text("-dev --device", "none|CUDAN", device)
        .env("LLAMA_ARG_DEVICE")
        .doc("the card that as much as fits is on, by its name in --list-devices; none: the CPU"),
    unused_word("-sm --split-mode", &["none", "layer", "row", "tensor"])
        .env("LLAMA_ARG_SPLIT_MODE")
        .ignored(ONE),
    unused("-ts --tensor-split", "N,N,…").env("LLAMA_ARG_TENSOR_SPLIT").ignored(ONE),
    integer("-mg --main-gpu", "N", (0, 1023), main_card)
        .env("LLAMA_ARG_MAIN_GPU")
        .doc("the same by its number"),
    switch("-cmoe --cpu-moe", cpu_moe)
        .env("LLAMA_ARG_CPU_MOE")
        .doc("keep all experts in host memory; long prompts still bring them to the card"),
    integer("-ncmoe --n-cpu-moe", "N", (0, i32::MAX as i64), n_cpu_moe)
        .env("LLAMA_ARG_N_CPU_MOE")
        .doc("keep the experts of the first N layers in host memory"),
    unused_number("-ncffn --n-cpu-ffn", "N").env("LLAMA_ARG_N_CPU_FFN").ignored(ONE),
    unused_number("--moe-cache-mib", "N").env("LLAMA_ARG_MOE_CACHE_MIB").ignored(CACHE),
    text("-ot --override-tensor", "PATTERN=CPU|CUDAN[,…]", override_tensor)
        .many()
        .env("LLAMA_ARG_OVERRIDE_TENSOR")
        .doc("keep the experts of layers in host memory whose tensors the pattern is found in, such as exps=CPU; the first that is found counts"),
    bare("-kvo --kv-offload").off("-nkvo --no-kv-offload").env("LLAMA_ARG_KV_OFFLOAD").ignored(ONE),
    bare("--op-offload").off("--no-op-offload").ignored(ONE),
    bare("--no-host").env("LLAMA_ARG_NO_HOST").ignored(ONE),
    optional("-fit --fit", &["on", "off"], fit)
        .env("LLAMA_ARG_FIT")
        .doc("whether a context that is not given is cut to memory; off: as long as the model was trained for, or a refusal (default: on)"),
    text("-fitt --fit-target", "MIB[,…]", fit_target)
        .env("LLAMA_ARG_FIT_TARGET")
        .doc("memory of a card that stays free (default: a hundredth of it, at least 256)"),
    integer("-fitc --fit-ctx", "N", (1, i32::MAX as i64), |draft, n| draft.engine.fit_floor = n as usize)
        .env("LLAMA_ARG_FIT_CTX")
        .doc("shortest context that one that is not given is cut to (default: 4096)"),
    unused_word("-lm --load-mode", &["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"])
        .env("LLAMA_ARG_LOAD_MODE")
        .ignored(LOADING),
    unused_word("-lzm --lazy-mode", &["auto", "on", "off"]).env("LLAMA_ARG_LAZY_MODE").ignored(LOADING),
    bare("--mlock").off("--no-mlock").env("LLAMA_ARG_MLOCK").ignored(MLOCK),
    bare("--mmap").off("--no-mmap").env("LLAMA_ARG_MMAP").ignored(MLOCK),
    bare("-dio --direct-io").off("-ndio --no-direct-io").env("LLAMA_ARG_DIO").ignored(MLOCK),
    bare("--repack").off("-nr --no-repack").env("LLAMA_ARG_REPACK").ignored(FORMAT),
    unused("--rpc", "HOST:PORT[,…]")
        .env("LLAMA_ARG_RPC")
        .refused("computing on other machines is not in this release"),
    unused_word("--numa", &["distribute", "isolate", "numactl"]).env("LLAMA_ARG_NUMA").ignored(WORKERS),
    unused("-C --cpu-mask", "MASK").ignored(WORKERS),
    unused("-Cr --cpu-range", "LOW-HIGH").ignored(WORKERS),
    unused_number("--cpu-strict", "0|1").ignored(WORKERS),
    unused_number("--prio", "N").ignored(WORKERS),
    unused_number("--poll", "0…100").ignored(WORKERS),
    unused("-Cb --cpu-mask-batch", "MASK").ignored(WORKERS),
    unused("-Crb --cpu-range-batch", "LOW-HIGH").ignored(WORKERS),
    unused_number("--cpu-strict-batch", "0|1").ignored(WORKERS),
    unused_number("--prio-batch", "N").ignored(WORKERS),
    unused_number("--poll-batch", "0|1").ignored(WORKERS),
    bare("--warmup").off("--no-warmup").ignored("the file is always read once before the first request"),
    bare("--perf").off("--no-perf").env("LLAMA_ARG_PERF").ignored("timings are in every answer"),
    bare("-bs --backend-sampling").env("LLAMA_ARG_BACKEND_SAMPLING").ignored(SAMPLING),
];
