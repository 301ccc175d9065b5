#!/usr/bin/env python3
"""Compare two recordings of record_api.py by structure: status, content type, keys, JSON types, SSE event sequence.

compare_api.py REFERENCE.json OURS.json [--allow FILE]
Values are not compared (texts, timings and ids differ); a number may be int or float; null in one place may be any type.
FILE lists deliberate differences, one a line: 'exchange-name path reason'; path '*' is everything of the exchange.  Prints a
line per difference that is not allowed, and per line of FILE that allows nothing; exit 1 if any.
"""
import json, sys

ref, our = (json.load(open(p)) for p in sys.argv[1:3])
allow, used = set(), set()
if "--allow" in sys.argv:
    for l in open(sys.argv[sys.argv.index("--allow") + 1]):
        p = l.split()
        if len(p) >= 2 and not l.startswith("#"): allow.add((p[0], p[1]))
num = lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)
kind = lambda v: "number" if num(v) else type(v).__name__
bad = 0
def say(name, path, text):
    global bad
    key = next((k for k in ((name, path or "."), (name, "*")) if k in allow), None)
    if key: used.add(key)
    else: bad += 1; print(f"{name} {path or '.'}: {text}")
def walk(name, path, a, b):
    if a is None or b is None: return
    if kind(a) != kind(b): say(name, path, f"{kind(a)} in the reference, {kind(b)} here"); return
    if isinstance(a, dict):
        for k in a:
            if k not in b: say(name, f"{path}.{k}", "missing")
            else: walk(name, f"{path}.{k}", a[k], b[k])
        for k in b:
            if k not in a: say(name, f"{path}.{k}", "not in the reference")
    elif isinstance(a, list) and a and b: walk(name, path + "[0]", a[0], b[0]); walk(name, path + "[-1]", a[-1], b[-1])
def events(lines):
    """[(event name or '', parsed data or text)] of an SSE stream."""
    out, ev = [], ""
    for l in lines:
        if l.startswith("event:"): ev = l[6:].strip()
        elif l.startswith("data:"):
            d = l[5:].strip()
            try: d = json.loads(d)
            except ValueError: pass
            out.append((ev, d)); ev = ""
    return out
def squeeze(seq): return [x for i, x in enumerate(seq) if i == 0 or x != seq[i - 1]]
theirs = {e["name"]: e["answer"] for e in our["exchanges"]}
for e in ref["exchanges"]:
    n, a = e["name"], e["answer"]; b = theirs.get(n)
    if b is None: say(n, "*", "not sent"); continue
    if "error" in b: say(n, "*", b["error"]); continue
    if a["status"] != b["status"]: say(n, "status", f"{a['status']} in the reference, {b['status']} here"); continue
    if a["content_type"].split(";")[0] != b["content_type"].split(";")[0]: say(n, "content_type", f"{a['content_type']} / {b['content_type']}")
    if "json" in a: walk(n, "", a["json"], b.get("json"))
    elif "stream" in a:
        x, y = events(a["stream"]), events(b.get("stream", []))
        if not y: say(n, "stream", "no events"); continue
        form = lambda s: squeeze([(ev, tuple(sorted(d)) if isinstance(d, dict) else d) for ev, d in s])
        if {f for f in form(x)} != {f for f in form(y)}: say(n, "stream", f"event forms differ: only in the reference {sorted(set(map(str, form(x))) - set(map(str, form(y))))[:2]}, only here {sorted(set(map(str, form(y))) - set(map(str, form(x))))[:2]}")
        walk(n, "first", x[0][1], y[0][1]); walk(n, "last", x[-1][1], y[-1][1])
for key in sorted(allow - used): bad += 1; print(f"{key[0]} {key[1]}: allowed, but there is no such difference")
print(f"{len(ref['exchanges'])} exchanges, {bad} differences"); sys.exit(bad > 0)
