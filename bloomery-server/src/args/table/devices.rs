use std::num::NonZeroUsize;

use super::CPU;
use crate::args::flag::{Flag, bare, integer, text, unused, unused_number, unused_optional, unused_word};
use crate::args::setters::place;

const LOADING: &str = "the file is always mapped and read once at the start";
const MLOCK: &str = "replaced by --load-mode; the file is always mapped and read once at the start";
const WORKERS: &str = "the engine pins one thread to each core it uses";
const FIT: &str =
    "the context is fitted to memory where -c is not given; a plan that does not fit is refused";
const FORMAT: &str = "weights are computed in the format of the file";

pub(super) static FLAGS: &[Flag] = &[
    text("--place", "cpu|auto", place)
        .doc("what computes: auto is the fastest this build has, the CPU (default: auto)"),
    integer("-t --threads", "N", (i32::MIN as i64, 4096), |draft, n| {
        draft.engine.threads = usize::try_from(n).ok().and_then(NonZeroUsize::new);
    })
    .env("LLAMA_ARG_THREADS")
    .doc("CPU threads; 0 or less: the physical cores (default: -1)"),
    unused_number("-tb --threads-batch", "N").ignored("prompts and answers run on the same threads, see -t"),
    unused("-ngl --gpu-layers --n-gpu-layers", "N|auto|all").env("LLAMA_ARG_N_GPU_LAYERS").ignored(CPU),
    unused("-dev --device", "LIST").env("LLAMA_ARG_DEVICE").ignored(CPU),
    unused_word("-sm --split-mode", &["none", "layer", "row", "tensor"])
        .env("LLAMA_ARG_SPLIT_MODE")
        .ignored(CPU),
    unused("-ts --tensor-split", "N,N,…").env("LLAMA_ARG_TENSOR_SPLIT").ignored(CPU),
    unused_number("-mg --main-gpu", "N").env("LLAMA_ARG_MAIN_GPU").ignored(CPU),
    bare("-cmoe --cpu-moe").env("LLAMA_ARG_CPU_MOE").ignored(CPU),
    unused_number("-ncmoe --n-cpu-moe", "N").env("LLAMA_ARG_N_CPU_MOE").ignored(CPU),
    unused_number("-ncffn --n-cpu-ffn", "N").env("LLAMA_ARG_N_CPU_FFN").ignored(CPU),
    unused_number("--moe-cache-mib", "N").env("LLAMA_ARG_MOE_CACHE_MIB").ignored(CPU),
    unused("-ot --override-tensor", "PATTERN=BUFFER[,…]").env("LLAMA_ARG_OVERRIDE_TENSOR").ignored(CPU),
    bare("-kvo --kv-offload").off("-nkvo --no-kv-offload").env("LLAMA_ARG_KV_OFFLOAD").ignored(CPU),
    bare("--op-offload").off("--no-op-offload").ignored(CPU),
    bare("--no-host").env("LLAMA_ARG_NO_HOST").ignored(CPU),
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
    bare("-bs --backend-sampling").env("LLAMA_ARG_BACKEND_SAMPLING").ignored(CPU),
    unused("--head --head-config", "FILE").refused("decision models are not in this release"),
];
