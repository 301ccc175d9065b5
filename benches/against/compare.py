#!/usr/bin/env python3
"""bloomery-serve beside llama-server: the same file, threads, slots and requests, in turn, in one run.

    benches/against/compare.py -m MODEL --theirs LLAMA_SERVER [--ours BLOOMERY_SERVE] [options]

Both servers are started with the same flags and stay loaded; only one is asked at a time. A wave is S requests sent at
the same moment, each with another prompt of L tokens, to /completion as a stream, greedy, without the prompt cache,
for exactly N tokens. Every round runs every wave on both servers, and turns their order around. What is printed:

    prompt      tokens of all prompts of a wave / time until the last stream has its first token
    decode      tokens after the first / their time, of one stream; the median of the streams
    first       time to the first token of a stream, 50th and 99th percentile over all rounds
    requests    requests of a wave / time until the last has ended

Of prompt, decode and requests the median of the rounds is shown. A ratio is the median of the rounds' own ratios, above
1 where bloomery is faster, with the least and the greatest behind it. Python 3.9 or newer, nothing else.
"""

import argparse
import http.client
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PROSE = (
    "Once upon a time there was a small town at the foot of a hill. In the morning the baker lit his oven, and the "
    "smell of bread went down the street to the river, where the ferryman was counting the planks of his boat. He had "
    "counted them every day for thirty years, and every day there was one more than the day before. Nobody believed "
    "him but the miller's daughter, who had once seen a plank grow. She told it to the schoolmaster; he wrote it down "
    "in a book with a green cover, and put the book on the highest shelf, between a map of the moon and a list of all "
    "the bells that had ever been cast. When winter came, the river froze, and the boat stood still in the ice. "
)
CHECK = "Once upon a time there was a little girl who lived in"


class Failed(Exception):
    """Why there is no result."""


class Server:
    """A started server."""

    def __init__(self, name, program, flags, log):
        self.name, self.log = name, log
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.command = [program, *flags, "--host", "127.0.0.1", "--port", str(self.port)]
        try:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise Failed(f"{program}: {error}") from error

    def ready(self, seconds=300):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise Failed(f"{self.name} ended with {self.process.returncode}:\n{self.log.read()[-2000:]}")
            try:
                if self.get("/health").get("status") == "ok":
                    return
            except (OSError, Failed, http.client.HTTPException):
                pass
            time.sleep(0.1)
        raise Failed(f"{self.name} was not ready in {seconds} s")

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)

    def get(self, path):
        return self.ask("GET", path, None)

    def post(self, path, body):
        return self.ask("POST", path, json.dumps(body))

    def ask(self, method, path, body):
        connection = self.connection()
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise Failed(f"{self.name}: {method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()


def stream(server, ids, count, start, result):
    """One request. `result` gets the times of its first and last token, or an error."""
    try:
        body = {
            "prompt": ids, "n_predict": count, "stream": True, "temperature": 0, "ignore_eos": True,
            "cache_prompt": False,
        }
        connection = server.connection()
        connection.connect()
        text = json.dumps(body)
        start.wait()
        connection.request("POST", "/completion", text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise Failed(f"{server.name}: {answer.status} {answer.read()[:300]!r}")
        first, last = None, None
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            now = time.perf_counter()
            event = json.loads(line[6:])
            if "error" in event:
                raise Failed(f"{server.name}: {event['error']}")
            if event.get("stop"):
                last = now
                timings = event["timings"]
                break
            # Both send an event for each token; one that ends in the middle of a character has no text.
            first = first or now
        connection.close()
        if first is None or last is None:
            raise Failed(f"{server.name}: the stream ended without an answer")
        if (timings["prompt_n"], timings["predicted_n"]) != (len(ids), count):
            raise Failed(f"{server.name}: {timings['prompt_n']} prompt and {timings['predicted_n']} new tokens "
                         f"instead of {len(ids)} and {count}: not the same work")
        result.update(first=first, last=last)
    except (OSError, Failed, http.client.HTTPException, ValueError, KeyError) as error:
        result["error"] = error


def wave(server, prompts, count):
    """Requests that begin together. Returns what was measured."""
    start = threading.Barrier(len(prompts) + 1)
    results = [{} for _ in prompts]
    threads = [threading.Thread(target=stream, args=(server, ids, count, start, result), daemon=True)
               for ids, result in zip(prompts, results)]
    for thread in threads:
        thread.start()
    start.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    for result in results:
        if "error" in result:
            raise Failed(str(result["error"]))
    firsts = [result["first"] - begun for result in results]
    lasts = [result["last"] - begun for result in results]
    rates = [(count - 1) / max(last - first, 1e-9) for first, last in zip(firsts, lasts)]
    return {
        "prompt": sum(map(len, prompts)) / max(firsts),
        "decode": statistics.median(rates),
        "requests": len(prompts) / max(lasts),
        "firsts": firsts,
    }


def check(servers):
    """Both must say something, and each must think the other's next token likely."""
    tops = []
    for server in servers:
        answer = server.post("/completion", {"prompt": CHECK, "n_predict": 24, "temperature": 0, "n_probs": 8,
                                             "ignore_eos": True})
        text = answer["content"]
        print(f"{server.name}: {CHECK!r} -> {text!r}")
        letters = sum(c.isalnum() or c.isspace() or c in ".,;:'\"!?()-_*#=<>/" for c in text)
        if "\ufffd" in text or letters < 0.8 * max(len(text), 1) or len(set(text.split())) < 3:
            raise Failed(f"{server.name}: that is no text; --no-check measures all the same")
        first = answer["completion_probabilities"][0]
        tops.append((first["id"], {entry["id"] for entry in first["top_logprobs"]}))
    if tops[0][0] not in tops[1][1] or tops[1][0] not in tops[0][1]:
        raise Failed("the servers do not agree on the first token: one of them computes something else")


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, round(share * (len(values) - 1)))]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(ratios):
    return f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"


def table(cells):
    """Markdown, a row for each engine and cell, and one of ratios."""
    head = ["streams", "prompt", "engine", "prompt tok/s", "decode tok/s a stream", "first token p50 ms", "p99 ms",
            "requests/s"]
    print("| " + " | ".join(head) + " |\n|---:|---:|---|---:|---:|---:|---:|---:|")
    for (streams, length), runs in cells.items():
        for name in ("bloomery", "llama.cpp"):
            waves = runs[name]
            firsts = [1000 * first for wave in waves for first in wave["firsts"]]
            medians = [number(statistics.median(wave[key] for wave in waves)) for key in ("prompt", "decode")]
            medians += [number(percentile(firsts, 0.5)), number(percentile(firsts, 0.99))]
            medians.append(number(statistics.median(wave["requests"] for wave in waves)))
            print(f"| {streams} | {length} | {name} | " + " | ".join(medians) + " |")
        pairs = list(zip(runs["bloomery"], runs["llama.cpp"]))
        ratio = {key: spread([a[key] / b[key] for a, b in pairs]) for key in ("prompt", "decode", "requests")}
        first = spread([percentile(b["firsts"], 0.5) / percentile(a["firsts"], 0.5) for a, b in pairs])
        print(f"| {streams} | {length} | ratio | {ratio['prompt']} | {ratio['decode']} | {first} | | "
              f"{ratio['requests']} |")


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def numbers(text):
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers") from error
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: numbers from 1")
    return values


def arguments():
    top = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    top.add_argument("-m", "--model", required=True, help="GGUF file")
    top.add_argument("--theirs", required=True, help="llama-server")
    top.add_argument("--ours", default="target/release/bloomery-serve", help="bloomery-serve (%(default)s)")
    top.add_argument("-t", "--threads", type=int, default=os.cpu_count(), help="threads of each (%(default)s)")
    top.add_argument("-ngl", "--gpu-layers", type=int, default=0, help="0: on the CPU; 99: on a card (%(default)s)")
    top.add_argument("--streams", type=numbers, default=[1, 2, 8], help="requests of a wave (1,2,8)")
    top.add_argument("--prompts", type=numbers, default=[16, 512, 2048], help="tokens of a prompt (16,512,2048)")
    top.add_argument("-n", "--predict", type=int, default=64, help="tokens of an answer (%(default)s)")
    top.add_argument("-r", "--rounds", type=int, default=3, help="rounds (%(default)s)")
    top.add_argument("--most", type=int, default=16384, help="prompt tokens of a wave; larger ones are left out (%(default)s)")
    top.add_argument("--ours-args", default="", help="further flags of bloomery-serve, separated by spaces")
    top.add_argument("--theirs-args", default="", help="further flags of llama-server")
    top.add_argument("--json", help="file for everything that was measured")
    top.add_argument("--no-check", action="store_true", help="do not look at what the servers say (models of noise)")
    options = top.parse_args()
    if options.predict < 2 or options.rounds < 1:
        top.error("--predict is at least 2, --rounds at least 1")
    return options


def compare(options, servers):
    for server in servers:
        server.ready()
    ours, theirs = servers
    rooms = [server.get("/props")["default_generation_settings"]["n_ctx"] for server in servers]
    trained = [server.get("/v1/models")["data"][0].get("meta", {}).get("n_ctx_train") for server in servers]
    room = min(rooms + [length for length in trained if length])
    if not options.no_check:
        check(servers)
    # The ids of one server for both: tokenising is not measured.
    ids = ours.post("/tokenize", {"content": PROSE, "add_special": False})["tokens"]
    cells = {}
    for length in options.prompts:
        for streams in options.streams:
            if length + options.predict > room:
                print(f"left out: prompts of {length} tokens; a slot of this model has {room} positions")
            elif length * streams > options.most:
                print(f"left out: {streams} prompts of {length} tokens; --most is {options.most}")
            else:
                cells[streams, length] = {"bloomery": [], "llama.cpp": []}
    seed = 0
    for turn in range(options.rounds + 1):
        for (streams, length), runs in cells.items():
            # No two prompts begin alike. Both engines get the same ones.
            prompts = []
            for _ in range(streams):
                seed += 1
                at = seed * 7919 % len(ids)
                text = ids[at:] + ids[:at]
                prompts.append(([ids[seed % len(ids)]] + text * (length // len(text) + 1))[:length])
            for server in (ours, theirs) if turn % 2 else (theirs, ours):
                done = wave(server, prompts, options.predict)
                # The first round faults the file in and is not counted.
                if turn > 0:
                    runs[server.name].append(done)
            if turn > 0:
                a, b = runs["bloomery"][-1], runs["llama.cpp"][-1]
                print(f"round {turn}: {streams} x {length}: prompt {a['prompt'] / b['prompt']:.2f}, "
                      f"decode {a['decode'] / b['decode']:.2f}, requests {a['requests'] / b['requests']:.2f}", flush=True)
    return cells


def main():
    options = arguments()
    slots = max(options.streams)
    # A slot's positions, in whole steps of 256 as both servers count them.
    slot = -(-(max(options.prompts) + options.predict + 16) // 256) * 256
    flags = ["-m", options.model, "-t", str(options.threads), "-ngl", str(options.gpu_layers), "-np", str(slots),
             "-c", str(slots * slot)]
    print(f"{processor()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before")
    # A run that is told to end stops its servers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    servers = []
    with tempfile.TemporaryFile("w+") as one, tempfile.TemporaryFile("w+") as two:
        try:
            # Answers are long enough to run in circles, which guesses from the text would make fast.
            ours = [*flags, "--spec-type", "none", *options.ours_args.split()]
            servers.append(Server("bloomery", options.ours, ours, one))
            servers.append(Server("llama.cpp", options.theirs, flags + options.theirs_args.split(), two))
            for server in servers:
                print(f"{server.name}: {' '.join(server.command)}")
            cells = compare(options, servers)
        except Failed as error:
            print(f"compare: {error}", file=sys.stderr)
            return 1
        finally:
            for server in servers:
                server.stop()
    print(f"load {os.getloadavg()[0]:.1f} after; {options.rounds} rounds, {options.predict} tokens an answer\n")
    table(cells)
    if options.json:
        rows = [{"streams": key[0], "prompt": key[1], **runs} for key, runs in cells.items()]
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"processor": processor(), "flags": flags, "cells": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
