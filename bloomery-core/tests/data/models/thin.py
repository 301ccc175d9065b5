#!/usr/bin/env python3
"""Cuts the project's ground-truth folder down to what the tests keep: a model, every fourth row of its logits.

    thin.py GROUND_TRUTH OUT

GROUND_TRUTH holds ARCH/{golden.json, tokens.json, model-*.gguf, *.logits.f32}: random tiny models with the logits of
transformers in float64 (`small`) or llama.cpp in float32 on dequantised weights (`k-*-exact`).
"""
import json, pathlib, shutil, sys

KEEP = [("llama", "small-bf16"), ("llama", "k-q8_0"), ("qwen2", "k-q4_k_m"), ("qwen3", "small-bf16"),
        ("qwen3moe", "small-bf16"), ("qwen3moe", "k-q3_k_m"), ("qwen3moe", "k-q4_k_m"),
        ("gemma3", "small-bf16"), ("gemma3", "k-q4_k_m"), ("qwen35moe", "small-bf16"), ("qwen35moe", "k-q4_k_m"),
        ("deepseek2", "small-bf16"), ("deepseek2", "k-q8_0"), ("deepseek2", "k-q4_k_m"),
        ("qwen4exp", "small-bf16"), ("qwen4exp", "k-q4_k_m"), ("glm5next", "small-bf16"), ("glm5next", "k-q4_k_m"),
        ("deepseek4", "small-bf16"), ("deepseek4", "k-q4_k_m"), ("deepseek41", "small-bf16"), ("deepseek41", "k-q4_k")]

def main():
    source, out = map(pathlib.Path, sys.argv[1:])
    for arch, file in KEEP:
        variant = file.split("-")[0]
        key = "small" if variant == "small" else file + "-exact"
        golden = json.load(open(source / arch / "golden.json"))["goldens"][key]
        tokens = json.load(open(source / arch / "tokens.json"))[variant]
        ids, vocab = tokens["ids"], tokens["n_vocab"]
        rows = sorted({*range(0, len(ids), 4), len(ids) - 1})
        data = (source / arch / golden["logits"]).read_bytes()
        name = f"{arch}-{file}"
        shutil.copyfile(source / arch / f"model-{file}.gguf", out / f"{name}.gguf")
        (out / f"{name}.logits.f32").write_bytes(b"".join(data[r * vocab * 4:(r + 1) * vocab * 4] for r in rows))
        routes = {layer: [sorted(e) for e in chosen] for layer, chosen in golden.get("routes", {}).items()}
        expected = {"ids": ids, "vocab": vocab, "rows": rows, "greedy": golden["greedy"],
                    "greedy_margin": golden["greedy_margin"], "routes": routes}
        (out / f"{name}.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")

main()
