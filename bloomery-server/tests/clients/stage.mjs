// A server that plays what a small model never does on its own: markup, thinking, tool calls, slow prompts, failures.
// It serves the page it is given and answers a chat by the last word of its last message.

import { createServer } from "node:http";

const MARKDOWN = `## A short answer

Here is **bold**, *italic*, \`code\` and a [link](https://example.org/page). This stays as it is: 2 * 3 * 4 and snake_case_name.

1. First, heat the furnace:
   - charcoal at the bottom,
   - ore on top of it.
2. Then wait.

\`\`\`rust
fn main() {
    let heat = (1..=3).map(|step| step * 400).sum::<u32>();
    println!("{heat} <b>degrees</b>");
}
\`\`\`

> Iron from a bloomery is never molten.

| metal | melts at |
|:------|---------:|
| tin   | 232 °C   |
| iron  | 1538 °C  |

<img src=x onerror="window.hacked = 1"><script>window.hacked = 2</script>
[click](javascript:window.hacked=3) ![picture](https://example.org/x.png)`;

const SCRIPTS = {
  markdown: () => words(MARKDOWN),
  think: () => [...words("The user wants a number. Seven is a good one.", "reasoning_content"), ...words("The number is **7**.")],
  tool: () => [
    { delta: { content: "Let me look." } },
    { delta: { tool_calls: [{ index: 0, id: "c1", type: "function", function: { name: "get_weather", arguments: "" } }] } },
    ...['{"city":', '"Paris",', '"days":[1,2]}'].map((text) => ({ delta: { tool_calls: [{ index: 0, function: { arguments: text } }] } })),
    { finish: "tool_calls" },
  ],
  slow: () => [
    ...[128, 512, 1024, 1536, 2048].map((processed) => ({ progress: { total: 2048, cache: 128, processed, time_ms: processed }, wait: 250 })),
    ...words("It was long."),
  ],
  drop: () => [...words("This sentence ends in the"), { wait: 200 }, { drop: true }],
  silent: () => [...words("No end"), { silent: true }],
  broken: () => [...words("Half an answer"), { error: { code: 500, message: "the card fell out", type: "server_error" } }],
  cut: () => [...words("A long story that"), { finish: "length" }],
  overflow: () => ({ status: 400, error: { code: 400, message: "request (9013 tokens) exceeds the available context size (4096 tokens)", type: "exceed_context_size_error", n_prompt_tokens: 9013, n_ctx: 4096 } }),
  busy: () => ({ status: 503, error: { code: 503, message: "64 requests are waiting already", type: "unavailable_error" } }),
  loading: () => ({ status: 503, error: { code: 503, message: "Loading model", type: "unavailable_error" } }),
  story: (most) => [...words("once upon a time ".repeat(most)).slice(0, most), { finish: "length" }],
  endless: () => words("on and ".repeat(2000), "content", 20),
};

function words(text, key = "content", wait = 2) {
  return text.match(/\s*\S+\s*/g).map((word) => ({ delta: { [key]: word }, wait }));
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function chunkOf(step, sent) {
  const timings = { cache_n: 12, prompt_n: 18, prompt_ms: 9, prompt_per_second: 2000, predicted_n: sent, predicted_ms: sent * 20, predicted_per_second: sent > 1 ? 50 : 0 };
  const chunk = { id: "chatcmpl-stage", object: "chat.completion.chunk", created: 1, model: "stage", choices: [{ index: 0, finish_reason: step.finish ?? null, delta: step.delta ?? {} }] };
  if (step.progress) return { ...chunk, prompt_progress: step.progress };
  return { ...chunk, timings };
}

async function play(steps, reply, counters) {
  reply.writeHead(200, { "Content-Type": "text/event-stream" });
  reply.on("close", () => { if (!reply.writableEnded) counters.aborted += 1; });
  const put = (value) => reply.write(`data: ${JSON.stringify(value)}\n\n`);
  let sent = 0, finish = "stop";
  put(chunkOf({ delta: { role: "assistant", content: null } }, 0));
  for (const step of steps) {
    if (reply.destroyed) return;
    if (step.drop) return reply.destroy();
    if (step.silent) return reply.end();
    if (step.error) return reply.end(`data: ${JSON.stringify({ error: step.error })}\n\n`);
    if (step.finish) { finish = step.finish; continue; }
    if (step.delta) sent += 1;
    if (step.delta || step.progress) put(chunkOf(step, sent));
    await pause(step.wait ?? 2);
  }
  put(chunkOf({ finish }, sent));
  const usage = { prompt_tokens: 30, completion_tokens: sent, total_tokens: 30 + sent, prompt_tokens_details: { cached_tokens: 12 } };
  put({ ...chunkOf({}, sent), choices: [], usage });
  reply.end("data: [DONE]\n\n");
}

async function bodyOf(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return JSON.parse(Buffer.concat(pieces).toString("utf8") || "{}");
}

/** Serves `page` (its text and its headers) below `prefix`; `state` can be changed while it runs. */
export async function startStage({ page, headers = {}, prefix = "" }) {
  const state = { key: "", loading: false, aborted: 0, bodies: [] };
  const server = createServer(async (request, reply) => {
    const json = (status, value) => { reply.writeHead(status, { "Content-Type": "application/json" }); reply.end(JSON.stringify(value)); };
    const refuse = (error) => json(error.code, { error });
    const path = request.url.startsWith(prefix) ? request.url.slice(prefix.length) : "?";
    if (["", "/", "/index.html"].includes(path)) { reply.writeHead(200, { ...headers, "Content-Type": "text/html; charset=utf-8" }); return reply.end(page); }
    if (state.loading) return refuse({ code: 503, message: "Loading model", type: "unavailable_error" });
    if (path === "/health") return json(200, { status: "ok" });
    if (state.key && request.headers.authorization !== `Bearer ${state.key}`) return refuse({ code: 401, message: "Invalid API Key", type: "authentication_error" });
    if (path === "/props") return json(200, { model_alias: "stage-7b", default_generation_settings: { n_ctx: 4096, params: { temperature: 0.8, top_p: 0.949999988, top_k: 40, min_p: 0.05, max_tokens: -1 } } });
    if (path !== "/v1/chat/completions") return refuse({ code: 404, message: "File Not Found", type: "not_found_error" });
    const body = await bodyOf(request);
    state.bodies.push(body);
    const asked = body.messages.at(-1).content;
    const script = asked.length > 100_000 ? SCRIPTS.overflow : SCRIPTS[asked.split(/\s+/).at(-1)] ?? SCRIPTS.story;
    const steps = script(body.max_tokens ?? 2000);
    return steps.error ? json(steps.status, { error: steps.error }) : play(steps, reply, state);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${server.address().port}${prefix}/`;
  return { url, state, close: () => { server.closeAllConnections(); server.close(); } };
}
