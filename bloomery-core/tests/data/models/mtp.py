#!/usr/bin/env python3
"""A block for the next tokens of random weights that belongs to the small Qwen3.5 model, and what it guesses.

    mtp.py GROUND_TRUTH REFERENCE OUT

GROUND_TRUTH as for thin.py; REFERENCE holds qwen35moe.py, a float64 NumPy program of the architecture whose guesses agree with
llama.cpp's on such files. Wants the packages gguf and numpy.
"""
import json, pathlib, sys, tempfile
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

BLOCK, LIKE = 4, 3

def add(writer, name, values, as_bf16):
    values = np.ascontiguousarray(values, dtype=np.float32)
    if not as_bf16:
        return writer.add_tensor(name, values)
    bits = values.view(np.uint32)
    halves = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    shape = (*values.shape[:-1], 2 * values.shape[-1])
    writer.add_tensor(name, halves.view(np.uint8).reshape(shape), raw_dtype=GGMLQuantizationType.BF16)

def model(source, out, trunk):
    """Writes the block, with the keys that it changes; with `trunk` all of the model."""
    reader, writer = GGUFReader(source), GGUFWriter(out, "qwen35moe")
    for field in reader.fields.values():
        key, value, kind = field.name, field.contents(), field.types[0]
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        changed = {"qwen35moe.block_count": BLOCK + 1}
        if key == "qwen35moe.attention.recurrent_layers":
            changed[key] = [*value, False]
        if not trunk and key not in changed:
            continue
        value = changed.get(key, value)
        sub = {"sub_type": field.types[-1]} if kind == GGUFValueType.ARRAY else {}
        writer.add_key_value(key, value, kind, **sub)
    writer.add_uint32("qwen35moe.nextn_predict_layers", 1)
    for tensor in reader.tensors if trunk else []:
        f32 = tensor.tensor_type == GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=None if f32 else tensor.tensor_type)
    rng = np.random.default_rng(7)
    # The block has the shapes of a layer with attention.
    for tensor in reader.tensors:
        if tensor.name.startswith(f"blk.{LIKE}."):
            shape = [int(n) for n in reversed(tensor.shape)]
            noise = rng.standard_normal(shape)
            values = 1 + 0.1 * noise if "norm" in tensor.name else noise / np.sqrt(shape[-1])
            name = tensor.name.replace(f"blk.{LIKE}.", f"blk.{BLOCK}.")
            add(writer, name, values, tensor.tensor_type == GGMLQuantizationType.BF16)
    width = next(int(t.shape[0]) for t in reader.tensors if t.name == "output_norm.weight")
    add(writer, f"blk.{BLOCK}.nextn.eh_proj.weight", rng.standard_normal((width, 2 * width)) / np.sqrt(2 * width), True)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        add(writer, f"blk.{BLOCK}.nextn.{name}.weight", 1 + 0.1 * rng.standard_normal(width), False)
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()

def guesses(program, file, ids, after, count=4):
    """What the block says after `after` tokens of a prompt and the next one, guess upon guess."""
    weights, cache = program.Model(file), {}
    _, hidden = program.forward(weights, ids[:after], program.new_cache(weights))
    before = np.concatenate([np.zeros_like(hidden[:1]), hidden[:-1]])
    program.mtp_draft(weights, ids[:after], before, range(after), cache)
    token, row, found, leads = ids[after], hidden[-1:], [], []
    for i in range(count):
        logits, row = program.mtp_draft(weights, [token], row, range(after + i, after + i + 1), cache)
        best = np.sort(logits[-1])[::-1]
        token = int(logits[-1].argmax())
        found.append(token), leads.append(round(float(best[0] - best[1]), 4))
    return {"after": after, "tokens": found, "margins": leads}

def main():
    truth, reference, out = map(pathlib.Path, sys.argv[1:])
    sys.path.insert(0, str(reference))
    import qwen35moe as program
    source = str(truth / "qwen35moe" / "model-small-bf16.gguf")
    model(source, str(out / "mtp-qwen35moe-bf16.gguf"), trunk=False)
    ids = json.load(open(truth / "qwen35moe" / "tokens.json"))["small"]["ids"]
    with tempfile.NamedTemporaryFile(suffix=".gguf") as whole:
        model(source, whole.name, trunk=True)
        cases = [guesses(program, whole.name, ids, after) for after in (1, 5, 64, 70, len(ids) - 1)]
    json.dump({"ids": ids, "guesses": cases}, open(out / "mtp-qwen35moe-bf16.json", "w"))

if __name__ == "__main__":
    main()
