// The OpenAI SDK for JavaScript against a running server: `node openai_sdk.mjs BASE_URL API_KEY MODULES_FOLDER`.

import { createRequire } from "node:module";

import { assert, equal, runCases } from "./check.mjs";

const [base, key, modules] = process.argv.slice(2);
const { OpenAI } = createRequire(`${modules}/`)("openai");

const STORY = [{ role: "user", content: "Tell me a story about a fox." }];
const GREEDY = { model: "any", temperature: 0, seed: 7 };
const WEATHER = {
  type: "object",
  properties: { city: { enum: ["Paris", "Rome", "Oslo"] }, unit: { enum: ["c", "f"] } },
  required: ["city", "unit"],
  additionalProperties: false,
};

const client = (options = {}) => new OpenAI({ baseURL: `${base}/v1`, apiKey: key, maxRetries: 0, ...options });

async function collect(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

async function raised(kind, action) {
  try {
    await action();
  } catch (error) {
    assert(error instanceof kind, `${error.constructor.name} instead of ${kind.name}: ${error.message}`);
    return error;
  }
  throw new Error(`no ${kind.name}`);
}

async function slotsIdle(seconds = 2) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const slots = await (await fetch(`${base}/slots`, { headers: { Authorization: `Bearer ${key}` } })).json();
    if (slots.every((slot) => !slot.is_processing)) return;
    assert(Date.now() < end, `a slot is busy after ${seconds} s`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** Where a call is forced a model calls for ever: once there is a result this client asks for one sentence instead. */
function forcedOnce(url, init) {
  const body = JSON.parse(init.body);
  if (body.messages.some((message) => message.role === "tool")) Object.assign(body, { tool_choice: "none", stop: "." });
  return fetch(url, { ...init, body: JSON.stringify(body) });
}

function runTools(stream) {
  const seen = [];
  const tool = {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather of a city",
      parameters: WEATHER,
      parse: JSON.parse,
      function: (input) => { seen.push(input); return { celsius: 21 }; },
    },
  };
  const runner = client({ fetch: forcedOnce }).chat.completions.runTools({
    messages: STORY, tools: [tool], tool_choice: "required", parallel_tool_calls: false, max_tokens: 200, stream, ...GREEDY,
  });
  return { runner, seen };
}

async function toolConversation(stream) {
  const { runner, seen } = runTools(stream);
  const final = await runner.finalContent();
  equal(seen.length, 1, "calls");
  assert(WEATHER.properties.city.enum.includes(seen[0].city), JSON.stringify(seen));
  assert(final.length > 0, "no answer after the result");
  equal(runner.messages.map((message) => message.role).join(), "user,assistant,tool,assistant", "roles");
  equal(JSON.parse(runner.messages[2].content).celsius, 21, "result");
}

const cases = {
  "models.list": async () => {
    const models = await collect(client().models.list());
    equal(models.length, 1, "models");
    equal(models[0].object, "model", "object");
  },
  "chat create": async () => {
    const answer = await client().chat.completions.create({ messages: STORY, max_tokens: 8, ...GREEDY });
    equal(answer.choices[0].finish_reason, "length", "finish reason");
    equal(answer.usage.completion_tokens, 8, "tokens");
  },
  "chat stream": async () => {
    const whole = await client().chat.completions.create({ messages: STORY, max_tokens: 24, ...GREEDY });
    const chunks = await collect(await client().chat.completions.create({ messages: STORY, max_tokens: 24, stream: true, ...GREEDY }));
    equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join(""), whole.choices[0].message.content, "text");
    equal(chunks.at(-1).choices[0].finish_reason, "length", "finish reason");
  },
  "stream helper": async () => {
    const stream = client().chat.completions.stream({ messages: STORY, max_tokens: 12, stream_options: { include_usage: true }, ...GREEDY });
    let text = "";
    stream.on("content", (delta) => { text += delta; });
    equal(await stream.finalContent(), text, "text");
    equal((await stream.totalUsage()).completion_tokens, 12, "tokens");
  },
  "tool runner, forced call carried to its end": () => toolConversation(false),
  "tool runner, streamed": () => toolConversation(true),
  "structured answer": async () => {
    const answer = await client().chat.completions.parse({
      messages: STORY, max_tokens: 200, ...GREEDY,
      response_format: { type: "json_schema", json_schema: { name: "weather", strict: true, schema: WEATHER } },
    });
    assert(WEATHER.properties.unit.enum.includes(JSON.parse(answer.choices[0].message.content).unit), "unit");
  },
  "responses": async () => {
    const answer = await client().responses.create({ model: "any", input: "Tell me a story.", max_output_tokens: 8, temperature: 0 });
    assert(answer.id.startsWith("resp_") && answer.output_text.length > 0, JSON.stringify(answer));
    const events = await collect(await client().responses.create({ model: "any", input: "Tell me a story.", max_output_tokens: 8, temperature: 0, stream: true }));
    const deltas = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta);
    equal(deltas.join(""), answer.output_text, "text");
    equal(new Set(events.flatMap((event) => event.item_id ?? event.item?.id ?? [])).size, 1, "ids of items");
  },
  "abort frees the slot": async () => {
    await slotsIdle();
    const stream = await client().chat.completions.create({ messages: STORY, max_tokens: 1900, ignore_eos: true, stream: true, ...GREEDY });
    let chunks = 0;
    for await (const _chunk of stream) if (++chunks === 5) stream.controller.abort();
    assert(chunks < 1900, `${chunks} chunks`);
    await slotsIdle();
  },
  "embeddings of a server without them": async () => {
    const error = await raised(OpenAI.APIError, () => client().embeddings.create({ model: "any", input: "hello" }));
    equal(error.status, 501, "status");
  },
  "errors become the SDK's classes": async () => {
    await raised(OpenAI.AuthenticationError, () => client({ apiKey: "wrong" }).models.list());
    const error = await raised(OpenAI.BadRequestError, () => client().chat.completions.create({ messages: [{ role: "user", content: "word ".repeat(20000) }], ...GREEDY }));
    assert(error.message.includes("exceeds the available context size"), error.message);
  },
};

process.exitCode = (await runCases("openai js", cases)) ? 1 : 0;
