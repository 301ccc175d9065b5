#!/usr/bin/env python3
"""Layers of random weights that guess for the small DeepSeek-V4.1, in a file of their own, and what they guess.

    spark.py GROUND_TRUTH REFERENCE OUT

REFERENCE holds deepseek41.py, the architecture in float64; GROUND_TRUTH/deepseek41 the small model and its tokens. The guesses follow the
description of the published layers; there is no second program that they were compared with. Wants the packages gguf and numpy.
"""
import json, pathlib, sys
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

from mtp import add

LAYERS, EXPERTS, WIDTH, RANK, MASK, SOURCES = 2, 8, 5, 32, 7, [4, 5, 6]
LIKE = "blk.0."  # a layer with a window alone

def write(source, out):
    reader, writer = GGUFReader(source), GGUFWriter(out, "dflash")
    changed = {"block_count": LAYERS, "expert_count": EXPERTS, "attention.compress_ratios": [0] * LAYERS,
               "swiglu_clamp_exp": [2.0, 1.5], "swiglu_clamp_shexp": [2.0, 1.5]}
    for field in reader.fields.values():
        key, value, kind = field.name.removeprefix("deepseek41."), field.contents(), field.types[0]
        if key == field.name or key.startswith(("engram.", "attention.indexer.", "vocab_size")):
            continue
        value = changed.get(key, value)
        sub = {"sub_type": field.types[-1]} if kind == GGUFValueType.ARRAY else {}
        writer.add_key_value("dflash." + key, value, kind, **sub)
    writer.add_uint32("dflash.block_size", WIDTH)
    writer.add_array("dflash.target_layers", SOURCES)
    writer.add_uint32("tokenizer.ggml.mask_token_id", MASK)
    rng = np.random.default_rng(11)
    def noise(name, shape, as_bf16=True):
        values = rng.standard_normal(shape)
        values = 1 + 0.1 * values if "norm" in name else values / np.sqrt(shape[-1])
        add(writer, name, values, as_bf16)
    for layer in range(LAYERS):
        for tensor in reader.tensors:
            if tensor.name.startswith(LIKE):
                shape = [int(n) for n in reversed(tensor.shape)]
                if "_exps" in tensor.name or "ffn_gate_inp" in tensor.name or "exp_probs_b" in tensor.name:
                    shape[0] = EXPERTS
                bf16 = tensor.tensor_type == GGMLQuantizationType.BF16
                noise(tensor.name.replace(LIKE, f"blk.{layer}."), shape, bf16)
    vocab, hidden = 1024, 96
    noise("fc.weight", [hidden, len(SOURCES) * hidden])
    noise("enc.output_norm.weight", [hidden], False)
    noise("output_norm.weight", [hidden], False)
    noise("markov_w1.weight", [vocab, RANK])
    noise("markov_w2.weight", [vocab, RANK])
    noise("conf_proj.weight", [1, hidden + RANK])
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()

def features(d, model, ids):
    """Means over streams of what goes into the sources, side by side: (T, sources * D)."""
    w, hp, pos, found = model.w, model.hp, np.arange(len(ids)), {}
    model.history = list(ids)
    h = np.repeat(w.rows("token_embd.weight", np.array(ids))[:, None, :], hp.streams, axis=1)
    pre, shared = np.eye(1, hp.streams).repeat(len(ids), axis=0), {"selected": None, "cand": None}
    for l in range(hp.layers):
        found[l] = h.mean(axis=1)
        if model.engram and l in model.engram.layers:
            h = model.engram.add(l, h, model.history, pos)
        h, pre = layer(d, model, l, h, pre, ids, lambda x: model.attention(l, x, pos, shared))
    return np.concatenate([found[l] for l in SOURCES], axis=1)

def layer(d, model, l, h, pre, ids, attention):
    w, hp, blk = model.w, model.hp, f"blk.{l}."
    mixer = lambda kind: d.hc_mix(h, *(w[f"{blk}hc_{kind}_{n}.weight"] for n in ("fn", "base", "scale")), hp)
    for kind, part in ("attn", attention), ("ffn", lambda x: model.moe(l, x, ids)):
        next_pre, post, comb = mixer(kind)
        h = d.hc_apply(h, part(d.rms(d.hc_read(h, pre), hp.eps) * w[f"{blk}{kind}_norm.weight"]), post, comb)
        pre = next_pre
    return h, pre

def guess(d, model, block, ids, token):
    """Tokens after `token`, which follows `ids`; and by how much each leads."""
    w, hp, start = block.w, block.hp, len(ids)
    freq = block.freq[0]
    model.reset()
    m = d.rms(features(d, model, ids) @ w["fc.weight"].T, hp.eps) * w["enc.output_norm.weight"]
    key = lambda l, x, pos: d.rope(d.rms(x @ w[f"blk.{l}.attn_kv.weight"].T, hp.eps)
                                   * w[f"blk.{l}.attn_kv_a_norm.weight"], pos, freq)
    old, pos = np.arange(max(0, start - hp.window), start), np.arange(start, start + WIDTH)
    own = [token] + [MASK] * (WIDTH - 1)
    h = np.repeat(model.w.rows("token_embd.weight", np.array(own))[:, None, :], hp.streams, axis=1)
    pre = np.eye(1, hp.streams).repeat(WIDTH, axis=0)
    for l in range(hp.layers):
        def attention(x):
            blk = f"blk.{l}."
            q = d.rms(x @ w[blk + "attn_q_a.weight"].T, hp.eps) * w[blk + "attn_q_a_norm.weight"]
            q = d.rope((q @ w[blk + "attn_q_b.weight"].T).reshape(WIDTH, hp.heads, hp.dh), pos, freq)
            K = np.concatenate([key(l, m[old], old), key(l, x, pos)])
            return d.attend(w, blk, hp, q, K, np.ones((WIDTH, len(K)), bool), pos, freq)
        h, pre = layer(d, block, l, h, pre, own, attention)
    hidden = d.rms(d.hc_read(h, pre), hp.eps) * w["output_norm.weight"]
    logits, tokens, leads = hidden @ model.w["output.weight"].T, [], []
    for row in logits:
        row = row + w["markov_w2.weight"] @ w["markov_w1.weight"][token]
        best = np.sort(row)[::-1]
        token = int(row.argmax())
        tokens.append(token), leads.append(round(float(best[0] - best[1]), 4))
    return {"after": start, "tokens": tokens, "margins": leads}

def main():
    truth, reference, out = map(pathlib.Path, sys.argv[1:])
    sys.path.insert(0, str(reference))
    import deepseek41
    source = str(truth / "deepseek41" / "model-small-bf16.gguf")
    file = str(out / "dspark-deepseek41-bf16.gguf")
    write(source, file)
    class Block(deepseek41.Model):
        def roles(self):
            pass
    class Keys(deepseek41.Weights):
        """With keys of the model that layers with a window alone do not have."""
        def key(self, name, default=None):
            return super().key(name, 0 if name.startswith("attention.indexer.") else default)
    model, weights = deepseek41.Model(source), deepseek41.Weights
    deepseek41.Weights = Keys
    block = Block(file)
    deepseek41.Weights = weights
    ids = json.load(open(truth / "deepseek41" / "tokens.json"))["small"]["ids"]
    cases = [guess(deepseek41, model, block, ids[:after], ids[after]) for after in (1, 5, 23, 24, 30, 64, 70)]
    json.dump({"ids": ids, "guesses": cases}, open(out / "dspark-deepseek41-bf16.json", "w"))
    print(*(case["margins"] for case in cases), sep="\n")

if __name__ == "__main__":
    main()
