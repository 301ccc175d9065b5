#!/usr/bin/env python3
"""Records what llama.cpp's samplers keep of random logits.

    python3 make_vectors.py LIBDIR COUNT OUT.json

LIBDIR holds libllama.so (b11434). No model is needed: the samplers work on plain arrays. Logits are
multiples of 1/64 without repetition, so that JSON keeps them exactly and no order is left to a sort.
Survivors are the tokens above -inf with the softmax of their logits.
"""
import ctypes as C
import json
import math
import os
import random
import sys

libdir, count, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
for name in ("libggml-base.so", "libggml-cpu.so", "libggml.so"):
    C.CDLL(os.path.join(libdir, name), mode=C.RTLD_GLOBAL)
lib = C.CDLL(os.path.join(libdir, "libllama.so"))


class Data(C.Structure):
    _fields_ = [("id", C.c_int32), ("logit", C.c_float), ("p", C.c_float)]


class Array(C.Structure):
    _fields_ = [("data", C.POINTER(Data)), ("size", C.c_size_t), ("selected", C.c_int64), ("sorted", C.c_bool)]


class Bias(C.Structure):
    _fields_ = [("token", C.c_int32), ("bias", C.c_float)]


class Vector(C.Structure):
    """std::vector of libstdc++."""
    _fields_ = [("begin", C.c_void_p), ("end", C.c_void_p), ("cap", C.c_void_p)]


F, I, Z, U = C.c_float, C.c_int32, C.c_size_t, C.c_uint32
DRY = "_Z30llama_sampler_init_dry_testingffiiRKSt6vectorIS_IiSaIiEESaIS1_EE"
SIGNATURES = {
    "llama_sampler_init_top_k": [I], "llama_sampler_init_top_p": [F, Z], "llama_sampler_init_min_p": [F, Z],
    "llama_sampler_init_typical": [F, Z], "llama_sampler_init_temp": [F],
    "llama_sampler_init_temp_ext": [F, F, F], "llama_sampler_init_xtc": [F, F, Z, U],
    "llama_sampler_init_top_n_sigma": [F], "llama_sampler_init_penalties": [I, I, F, F, F],
    "llama_sampler_init_mirostat": [I, U, F, F, I], "llama_sampler_init_mirostat_v2": [U, F, F],
    "llama_sampler_init_adaptive_p": [F, F, U], "llama_sampler_init_logit_bias": [I, I, C.POINTER(Bias)],
    DRY: [F, F, I, I, C.POINTER(Vector)],
}
for name, types in SIGNATURES.items():
    getattr(lib, name).argtypes, getattr(lib, name).restype = types, C.c_void_p
lib.llama_sampler_apply.argtypes = [C.c_void_p, C.POINTER(Array)]
lib.llama_sampler_accept.argtypes = [C.c_void_p, I]
lib.llama_sampler_free.argtypes = [C.c_void_p]


def vector(buffer, size):
    base = C.addressof(buffer)
    return Vector(base, base + size, base + size)


def dry(p):
    rows = [(I * len(b))(*b) for b in p["breakers"]]
    inner = (Vector * max(1, len(rows)))(*[vector(r, C.sizeof(r)) for r in rows])
    outer = vector(inner, C.sizeof(Vector) * len(rows))
    return getattr(lib, DRY)(p["dry_multiplier"], p["dry_base"], p["dry_allowed_length"],
                             p["dry_penalty_last_n"], C.byref(outer))


def make(kind, p, n):
    keep = p.get("min_keep", 0)
    if kind == "logit_bias":
        b = (Bias * len(p["logit_bias"]))(*[Bias(*x) for x in p["logit_bias"]])
        return lib.llama_sampler_init_logit_bias(n, len(b), b)
    return {
        "penalties": lambda: lib.llama_sampler_init_penalties(
            n, p["repeat_last_n"], p["repeat_penalty"], p["frequency_penalty"], p["presence_penalty"]),
        "dry": lambda: dry(p),
        "top_n_sigma": lambda: lib.llama_sampler_init_top_n_sigma(p["top_n_sigma"]),
        "top_k": lambda: lib.llama_sampler_init_top_k(p["top_k"]),
        "typ_p": lambda: lib.llama_sampler_init_typical(p["typical_p"], keep),
        "top_p": lambda: lib.llama_sampler_init_top_p(p["top_p"], keep),
        "min_p": lambda: lib.llama_sampler_init_min_p(p["min_p"], keep),
        "xtc": lambda: lib.llama_sampler_init_xtc(p["xtc_probability"], p["xtc_threshold"], keep, 1),
        "temperature": lambda: lib.llama_sampler_init_temp_ext(
            p["temperature"], p.get("dynatemp_range", 0.0), p.get("dynatemp_exponent", 1.0)),
        "temp": lambda: lib.llama_sampler_init_temp(p["temperature"]),
        "mirostat1": lambda: lib.llama_sampler_init_mirostat(n, 1, p["mirostat_tau"], p["mirostat_eta"], 100),
        "mirostat2": lambda: lib.llama_sampler_init_mirostat_v2(1, p["mirostat_tau"], p["mirostat_eta"]),
        "adaptive_p": lambda: lib.llama_sampler_init_adaptive_p(p["adaptive_target"], p["adaptive_decay"], 1),
    }[kind]()


def run(kinds, p, logits, history):
    data = (Data * len(logits))(*[Data(i, l, 0) for i, l in enumerate(logits)])
    array = Array(data, len(logits), -1, False)
    for kind in kinds:
        sampler = make(kind, p, len(logits))
        for token in history:
            lib.llama_sampler_accept(sampler, token)
        lib.llama_sampler_apply(sampler, C.byref(array))
        lib.llama_sampler_free(sampler)
    kept = [(array.data[i].id, array.data[i].logit) for i in range(array.size)]
    kept = [(i, l) for i, l in kept if l > -math.inf]
    if any(math.isnan(l) for _, l in kept) or not kept:
        return None
    top = max(l for _, l in kept)
    total = sum(math.exp(l - top) for _, l in kept)
    return sorted(([i, float(f"{math.exp(l - top) / total:.7g}")] for i, l in kept), key=lambda x: (-x[1], x[0]))


rng = random.Random(20261129)


def number(low, high):
    return round(rng.uniform(low, high), 4)


def overflows(p, logits):
    """Whether Mirostat 1 estimates a k beyond an int, where a conversion there ends in k = 1."""
    best = sorted((l / p["temperature"] for l in logits), reverse=True)[:100]
    t = [math.log((i + 2) / (i + 1)) for i in range(len(best) - 1)]
    slope = sum(t[i] * (best[i] - best[i + 1]) for i in range(len(t))) / sum(x * x for x in t)
    excess = slope - 1
    log_k = math.log(excess * 2 ** (2 * p["mirostat_tau"]) / (1 - len(logits) ** -excess)) / slope
    return log_k > math.log(2 ** 31)


def params(kind):
    keep = {"min_keep": rng.choice([0, 0, 0, 1, 3])}
    return {
        "logit_bias": lambda: {"logit_bias": [[rng.randrange(40), number(-5, 5)] for _ in range(3)]},
        "penalties": lambda: {"repeat_last_n": rng.choice([0, 1, 5, 64]), "repeat_penalty": number(0.7, 1.9),
                              "frequency_penalty": number(-1, 2), "presence_penalty": number(-1, 2)},
        "dry": lambda: {"dry_multiplier": number(0.2, 3), "dry_base": rng.choice([1.0, 1.75, number(1, 3)]),
                        "dry_allowed_length": rng.randrange(0, 5), "dry_penalty_last_n": rng.choice([5, 20, 64]),
                        "breakers": [[rng.randrange(6) for _ in range(rng.randrange(1, 4))]
                                     for _ in range(rng.randrange(0, 4))]},
        "top_n_sigma": lambda: {"top_n_sigma": rng.choice([-1, 0, number(0.2, 3)])},
        "top_k": lambda: {"top_k": rng.choice([-3, 0, 1, 2, 7, 40, 1000])},
        "typ_p": lambda: {"typical_p": rng.choice([0, 1, number(0.05, 1)]), **keep},
        "top_p": lambda: {"top_p": rng.choice([-0.5, 0, 1, 2, number(0.05, 1)]), **keep},
        "min_p": lambda: {"min_p": rng.choice([-1, 0, 1, 2, number(0.001, 0.5)]), **keep},
        "xtc": lambda: {"xtc_probability": 1.0, "xtc_threshold": rng.choice([0.0, 0.6, number(0.01, 0.5)]), **keep},
        "temperature": lambda: {"temperature": rng.choice([-1, 0, 1, number(0.1, 3)])},
        "dynatemp": lambda: {"temperature": number(0, 2), "dynatemp_range": number(0.1, 2),
                             "dynatemp_exponent": number(0.2, 3)},
        "mirostat1": lambda: {"temperature": number(0.5, 1.5), "mirostat_tau": number(0.5, 6), "mirostat_eta": 0.1},
        "mirostat2": lambda: {"temperature": number(0.5, 1.5), "mirostat_tau": number(0.1, 3), "mirostat_eta": 0.1},
        "adaptive_p": lambda: {"adaptive_target": rng.choice([-1, number(0, 1)]), "adaptive_decay": number(0, 0.99)},
    }[kind]()


ORDER = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
SINGLE = ["logit_bias"] + ORDER + ["dynatemp", "mirostat1", "mirostat2", "adaptive_p", "chain"]
cases = []
for kind in SINGLE:
    for number_of_case in range(count):
        n = rng.choice([3, 20, 60]) if count < 20 else rng.choice([2, 10, 60, 300, 1500])
        scale = rng.choice([1, 3, 8])
        # beyond 103 of distance a probability is 0 in f32 and typical_p there NaN: no further apart than
        # 80, and 48 where penalties come first
        span = min(40 * scale + 2 * n, (48 if kind == "chain" else 80) * 32)
        logits = [x / 64 for x in rng.sample(range(-span, span), n)]
        history = [rng.randrange(min(n, 6)) for _ in range(rng.choice([0, 3, 12, 50]))]
        if kind == "chain":
            p, kinds = {}, ["logit_bias"] + ORDER
            for k in kinds:
                p.update(params(k))
            # top_n_sigma leaves tokens at -inf there, of which typical_p makes an entropy of NaN
            if p["top_n_sigma"] > 0:
                p["typical_p"] = 1.0
        elif kind.startswith("mirostat"):
            p, kinds = params(kind), ["temp", kind]
        elif kind == "dynatemp":
            p, kinds = params(kind), ["temperature"]
        else:
            p, kinds = params(kind), [kind]
        # where nothing reads the history it is left out
        if not {"penalties", "dry"} & set(kinds):
            history = []
        if "logit_bias" in p:
            p["logit_bias"] = [list(x) for x in {t % n: [t % n, b] for t, b in p["logit_bias"]}.values()]
        if kind == "mirostat1" and overflows(p, logits):
            continue
        kept = run(kinds, p, logits, history)
        # a few combinations leave NaN or nothing there; they are no example to follow
        if kept is None:
            print("no survivors:", kind, p, file=sys.stderr)
            continue
        cases.append({"kind": kind, "params": p, "history": history, "logits": logits, "kept": kept})
with open(out, "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
