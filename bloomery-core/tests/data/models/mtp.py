#!/usr/bin/env python3
"""Blocks for the next tokens of random weights that belong to small models, and what they guess.

    mtp.py GROUND_TRUTH REFERENCE OUT [ARCH..]

GROUND_TRUTH as for thin.py; REFERENCE holds float64 NumPy programs of the architectures. The guesses of those of qwen35moe and
qwen4exp agree with llama.cpp's on such files; what the blocks of GLM and of DeepSeek-V4 do before and after their layers has no
second program to agree with. Wants the packages gguf and numpy.
"""
import importlib, json, pathlib, sys, tempfile
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

class Arch:
    """A model of `block` layers; its block for the next tokens has the shapes of layer `like`. Guesses are `also` those after so many
    tokens."""
    def __init__(self, name, block, like, prefix=None, also=()):
        self.name, self.block, self.like, self.prefix, self.also = name, block, like, prefix or name, also

BY_LAYER = ("attention.recurrent_layers", "attention.compress_ratios", "attention.head_count_kv", "swiglu_clamp_exp",
            "swiglu_clamp_shexp")
ARCHS = [Arch("qwen35moe", 4, 3), Arch("qwen4exp", 4, 3), Arch("glm5next", 8, 7, "glm5-next"),
         # After 8 and 284 tokens guesses are others where streams are normed together.
         Arch("deepseek4", 4, 3, also=(8, 284))]

def add(writer, name, values, as_bf16):
    values = np.ascontiguousarray(values, dtype=np.float32)
    if not as_bf16:
        return writer.add_tensor(name, values)
    bits = values.view(np.uint32)
    halves = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    shape = (*values.shape[:-1], 2 * values.shape[-1])
    writer.add_tensor(name, halves.view(np.uint8).reshape(shape), raw_dtype=GGMLQuantizationType.BF16)

def model(arch, source, out, trunk):
    """Writes the block, with the keys that it changes; with `trunk` all of the model."""
    reader, writer = GGUFReader(source), GGUFWriter(out, arch.prefix)
    for field in reader.fields.values():
        key, value, kind = field.name, field.contents(), field.types[0]
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        changed = {f"{arch.prefix}.block_count": arch.block + 1}
        if key.removeprefix(arch.prefix + ".") in BY_LAYER and kind == GGUFValueType.ARRAY:
            # DeepSeek's block has a window alone.
            alone = arch.name == "deepseek4" and key.endswith("compress_ratios")
            changed[key] = [*value, 0 if alone else value[arch.like]]
        if not trunk and key not in changed:
            continue
        value = changed.get(key, value)
        sub = {"sub_type": field.types[-1]} if kind == GGUFValueType.ARRAY else {}
        writer.add_key_value(key, value, kind, **sub)
    writer.add_uint32(f"{arch.prefix}.nextn_predict_layers", 1)
    for tensor in reader.tensors if trunk else []:
        f32 = tensor.tensor_type == GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=None if f32 else tensor.tensor_type)
    rng = np.random.default_rng(7)
    shapes = {t.name: [int(n) for n in reversed(t.shape)] for t in reader.tensors}
    for tensor in reader.tensors:
        # GLM's block has one stream.
        connected = arch.name == "glm5next" and ".hc_" in tensor.name
        grouped = arch.name == "deepseek4" and ("compressor" in tensor.name or ".indexer." in tensor.name)
        if tensor.name.startswith(f"blk.{arch.like}.") and not connected and not grouped:
            shape = shapes[tensor.name]
            noise = rng.standard_normal(shape)
            values = 1 + 0.1 * noise if "norm" in tensor.name else noise / np.sqrt(shape[-1])
            name = tensor.name.replace(f"blk.{arch.like}.", f"blk.{arch.block}.")
            add(writer, name, values, tensor.tensor_type == GGMLQuantizationType.BF16)
    width, own = shapes["token_embd.weight"][1], f"blk.{arch.block}.nextn."
    add(writer, own + "eh_proj.weight", rng.standard_normal((width, 2 * width)) / np.sqrt(2 * width), True)
    norms = {"enorm": width, "hnorm": width, "shared_head_norm": width}
    if "output_hc_norm.weight" in shapes:
        wide, low = shapes["output_hc_norm.weight"][0], shapes["output_hc_down.weight"][0]
        norms = {"enorm": width, "hnorm": wide, "hc_head_norm": wide}
        add(writer, own + "hc_head_down.weight", rng.standard_normal((low, wide)) / np.sqrt(wide), True)
        add(writer, own + "hc_head_up.weight", rng.standard_normal((wide, low)) / np.sqrt(low), True)
    for name, size in norms.items():
        add(writer, f"{own}{name}.weight", 1 + 0.1 * rng.standard_normal(size), False)
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()

def streams(program, m, ids, wide, pos):
    """DeepSeek-V4's block for the tokens `ids` at `pos`, from the streams of the rows before: logits, and its own streams."""
    w, hp, own = m.w, m.hp, f"blk.{m.hp.layers}."
    e = program.rms(w.rows("token_embd.weight", np.array(ids)), hp.eps) * w[own + "nextn.enorm.weight"]
    n = program.rms(wide, hp.eps) * w[own + "nextn.hnorm.weight"]
    e = np.repeat(e[:, None], hp.streams, axis=1)
    h = np.concatenate([e, n], axis=-1) @ w[own + "nextn.eh_proj.weight"].T
    parts = {"attn": lambda x: m.attention(hp.layers, x, np.array(pos), None), "ffn": lambda x: m.moe(hp.layers, x, ids)}
    for kind, part in parts.items():
        pre, post, comb = program.hc_mix(h, *(w[f"{own}hc_{kind}_{n}.weight"] for n in ("fn", "base", "scale")), hp)
        x = program.rms(program.v41.hc_read(h, pre), hp.eps) * w[f"{own}{kind}_norm.weight"]
        h = program.hc_apply(h, part(x), post, comb)
    z = program.rms(h.reshape(len(h), -1), hp.eps) @ w["output_hc_fn.weight"].T
    pre = program.sigmoid(z * w["output_hc_scale.weight"] + w["output_hc_base.weight"]) + hp.hc_eps
    x = program.rms(program.v41.hc_read(h, pre), hp.eps) * w[own + "nextn.shared_head_norm.weight"]
    return x @ w["output.weight"].T, h

def connected(program, m, ids, after, count):
    # The program takes the block for a layer; what its head reads are the last layer's streams.
    m.hp.layers -= 1
    seen = []
    program.hc_read = lambda h, pre: (seen.append(h), program.v41.hc_read(h, pre))[1]
    m.forward(ids[:after])
    wide = seen[-1]
    before = np.concatenate([np.zeros_like(wide[:1]), wide[:-1]])
    streams(program, m, ids[:after], before, range(after))
    token, row, found = ids[after], wide[-1:], []
    for at in range(after, after + count):
        logits, row = streams(program, m, [token], row, [at])
        token = int(logits[-1].argmax())
        found.append(logits[-1])
    return found

def block(arch, program, weights, ids, after, count):
    """Logits of the block after `after` tokens of a prompt and the next one, guess upon guess."""
    if arch.name == "glm5next":
        hidden = program.forward(weights, np.array(ids[:after]), {})
        before = np.concatenate([np.zeros_like(hidden[:1]), hidden])
        logits, _ = program.draft_logits(weights, before, ids[:after + 1], {}, count)
        return logits[-count:]
    if arch.name == "deepseek4":
        return connected(program, weights, ids, after, count)
    draft = [weights] if arch.name == "qwen4exp" else []
    cache, found = {}, []
    _, hidden = program.forward(weights, ids[:after], program.new_cache(weights))
    before = np.concatenate([np.zeros_like(hidden[:1]), hidden[:-1]])
    program.mtp_draft(weights, *draft, ids[:after], before, range(after), cache)
    token, row = ids[after], hidden[-1:]
    for i in range(count):
        logits, row = program.mtp_draft(weights, *draft, [token], row, range(after + i, after + i + 1), cache)
        token = int(logits[-1].argmax())
        found.append(logits[-1])
    return found

def guesses(arch, program, file, ids, after, count=4):
    logits = block(arch, program, program.Model(file), ids, after, count)
    best = [np.sort(row)[::-1] for row in logits]
    leads = [round(float(row[0] - row[1]), 4) for row in best]
    return {"after": after, "tokens": [int(row.argmax()) for row in logits], "margins": leads}

def main():
    truth, reference, out = map(pathlib.Path, sys.argv[1:4])
    sys.path.insert(0, str(reference))
    for arch in ARCHS:
        if sys.argv[4:] and arch.name not in sys.argv[4:]:
            continue
        program = importlib.import_module(arch.name)
        source = str(truth / arch.name / "model-small-bf16.gguf")
        model(arch, source, str(out / f"mtp-{arch.name}-bf16.gguf"), trunk=False)
        ids = json.load(open(truth / arch.name / "tokens.json"))["small"]["ids"]
        with tempfile.NamedTemporaryFile(suffix=".gguf") as whole:
            model(arch, source, whole.name, trunk=True)
            cases = [guesses(arch, program, whole.name, ids, after) for after in (1, 5, 64, 70, len(ids) - 1, *arch.also)]
        json.dump({"ids": ids, "guesses": cases}, open(out / f"mtp-{arch.name}-bf16.json", "w"))

if __name__ == "__main__":
    main()
