use std::num::NonZeroUsize;

use super::WHOLE;
use crate::args::flag::{Flag, bare, integer, text, unused, unused_number, unused_optional, unused_word};
use crate::args::setters::{device, gpu_layers, place};

const LOADING: &str = "the file is always mapped and read once at the start";
const MLOCK: &str = "replaced by --load-mode; the file is always mapped and read once at the start";
const WORKERS: &str = "the engine pins one thread to each core it uses";
const FIT: &str =
    "the context is fitted to memory where -c is not given; a plan that does not fit is refused";
const SAMPLING: &str = "a card selects candidates wherever that changes no result";
const FORMAT: &str = "weights are computed in the format of the file";

pub(super) static FLAGS: &[Flag] = &[
    text("--place", "auto|cpu|cudaN", place)
        .doc("where the model is, whatever -ngl and -dev say; auto: on the first card that it fits, else the CPU (default: auto)"),
    integer("-t --threads", "N", (i32::MIN as i64, 4096), |draft, n| {
        draft.engine.threads = usize::try_from(n).ok().and_then(NonZeroUsize::new);
    })
    .env("LLAMA_ARG_THREADS")
    .doc("CPU threads; 0 or less: the physical cores (default: -1)"),
    unused_number("-tb --threads-batch", "N").ignored("prompts and answers run on the same threads, see -t"),
    text("-ngl --gpu-layers --n-gpu-layers", "N|auto|all", gpu_layers)
        .env("LLAMA_ARG_N_GPU_LAYERS")
        .doc("0: the CPU; else as a whole on a card, if it fits one (default: auto)"),
    text("-dev --device", "none|CUDAN", device)
        .env("LLAMA_ARG_DEVICE")
        .doc("the card that the model is on, by its name in --list-devices; none: the CPU"),
    unused_word("-sm --split-mode", &["none", "layer", "row", "tensor"])
        .env("LLAMA_ARG_SPLIT_MODE")
        .ignored(WHOLE),
    unused("-ts --tensor-split", "N,N,…").env("LLAMA_ARG_TENSOR_SPLIT").ignored(WHOLE),
    integer("-mg --main-gpu", "N", (0, 1023), |draft, n| draft.main_card = usize::try_from(n).ok())
        .env("LLAMA_ARG_MAIN_GPU")
        .doc("the card that the model is on, by its number"),
    bare("-cmoe --cpu-moe").env("LLAMA_ARG_CPU_MOE").ignored(WHOLE),
    unused_number("-ncmoe --n-cpu-moe", "N").env("LLAMA_ARG_N_CPU_MOE").ignored(WHOLE),
    unused_number("-ncffn --n-cpu-ffn", "N").env("LLAMA_ARG_N_CPU_FFN").ignored(WHOLE),
    unused_number("--moe-cache-mib", "N").env("LLAMA_ARG_MOE_CACHE_MIB").ignored(WHOLE),
    unused("-ot --override-tensor", "PATTERN=BUFFER[,…]").env("LLAMA_ARG_OVERRIDE_TENSOR").ignored(WHOLE),
    bare("-kvo --kv-offload").off("-nkvo --no-kv-offload").env("LLAMA_ARG_KV_OFFLOAD").ignored(WHOLE),
    bare("--op-offload").off("--no-op-offload").ignored(WHOLE),
    bare("--no-host").env("LLAMA_ARG_NO_HOST").ignored(WHOLE),
    unused_optional("-fit --fit", &["on", "off"]).env("LLAMA_ARG_FIT").ignored(FIT),
    unused("-fitt --fit-target", "MIB[,…]").env("LLAMA_ARG_FIT_TARGET").ignored(FIT),
    unused_number("-fitc --fit-ctx", "N").env("LLAMA_ARG_FIT_CTX").ignored(FIT),
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
    unused("--head --head-config", "FILE").refused("decision models are not in this release"),
];
