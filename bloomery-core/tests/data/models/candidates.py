#!/usr/bin/env python3
"""Logits of the small DeepSeek-V4.1 with candidates that bind: what no other reference output reaches.

    candidates.py REFERENCE GROUND_TRUTH OUT

REFERENCE holds deepseek41.py, the architecture in float64; GROUND_TRUTH/deepseek41 the small model and its tokens. Layer 4 makes
candidates, layer 6 chooses among them: 7 spans of 2 rows, of which the last may have one row, hold the 12 that are wanted. Every
fourth row is kept, and the last.
"""
import json, pathlib, sys

reference, truth, out = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(reference))
import deepseek41  # noqa: E402

tokens = json.load(open(truth / "deepseek41" / "tokens.json"))["small"]["ids"]
model = deepseek41.Model(truth / "deepseek41" / "model-small-bf16.gguf")
plain = model.forward(tokens)
model.reset()
model.cand = (4, 2, 7)
logits = model.forward(tokens)
print("the candidates move logits by", abs(logits - plain).max())
rows = sorted({*range(0, len(tokens), 4), len(tokens) - 1})
logits[rows].astype("<f4").tofile(out / "deepseek41-candidates.logits.f32")
