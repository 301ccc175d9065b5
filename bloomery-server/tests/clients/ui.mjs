// The chat page in a real browser: `node ui.mjs BASE_URL SCREENSHOT_FOLDER [API_KEY]`.
// First against the server at BASE_URL, then against a stage that plays what a small model does not do by itself.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Browser, findChromium, pause } from "./browser.mjs";
import { assert, equal, runCases } from "./check.mjs";
import { startStage } from "./stage.mjs";

const DESKTOP = { width: 1280, height: 800 };
const MOBILE = { width: 390, height: 844, mobile: true };
const SHIFT = 8;
const STORY = "Tell me a story about a fox.";

const [base, shots, key = ""] = process.argv.slice(2);
if (!base || !shots) {
  console.error("usage: node ui.mjs BASE_URL SCREENSHOT_FOLDER [API_KEY]");
  process.exit(2);
}
const root = new URL(base.endsWith("/") ? base : `${base}/`);
const chromium = findChromium();
if (!chromium) {
  console.log("SKIPPED ui: no Chromium is installed (Debian: apt-get install chromium)");
  process.exit(0);
}
mkdirSync(shots, { recursive: true });

const browser = new Browser(chromium);
await browser.open();
await browser.look(DESKTOP);

// ---- What the page shows --------------------------------------------------------------------------------------------

const answerText = "[...document.querySelectorAll('.assistant')].at(-1)?.querySelector('.markdown')?.textContent ?? ''";
const answers = () => browser.eval("document.querySelectorAll('.assistant').length");
const lastAnswer = () => browser.eval(answerText);
const lastStats = () => browser.eval("[...document.querySelectorAll('.assistant .stats')].at(-1)?.textContent ?? ''");
const idle = "!document.querySelector('#send').classList.contains('running')";
const trouble = () => browser.eval("[...document.querySelectorAll('.trouble')].at(-1)?.innerText ?? ''");

async function shoot(name) {
  await pause(120);
  writeFileSync(join(shots, `${name}.png`), await browser.screenshot());
}

async function say(text) {
  await browser.eval("document.querySelector('#prompt').focus()");
  await browser.type(text);
  await browser.press("Enter");
}

async function ask(text) {
  await say(text);
  await browser.until(idle, `the end of the answer to ${text}`);
}

/** Fills fields of the settings dialog as a person would. */
async function configure(fields) {
  await browser.click("#open");
  for (const [id, value] of Object.entries(fields)) {
    await browser.eval(`(() => { const field = document.querySelector("#${id}"); field.focus(); field.select?.(); })()`);
    if (id === "thinking") {
      await browser.eval(`(() => { const field = document.querySelector("#thinking"); field.value = ${JSON.stringify(value)};
        field.dispatchEvent(new Event("input", { bubbles: true })); })()`);
    } else if (value === "") await browser.eval(`document.execCommand("delete")`);
    else await browser.type(value);
  }
  await browser.click("#close");
}

/** The page without conversation and settings. */
async function fresh(url) {
  await browser.goto(url);
  await browser.eval("document.querySelector('#new').click(), localStorage.clear()");
  await browser.reload();
}

/** Asks, and stops as soon as there is some text. */
async function stopEarly() {
  await browser.eval(`new MutationObserver((_, observer) => {
    if ((${answerText}).length < 20) return;
    observer.disconnect();
    document.querySelector("#send").click();
  }).observe(document.querySelector("#log"), { subtree: true, childList: true, characterData: true })`);
  await ask(STORY);
}

const slotsIdle = async () => {
  const reply = await fetch(new URL("slots", root), { headers: key ? { Authorization: `Bearer ${key}` } : {} });
  return !reply.ok || (await reply.json()).every((slot) => !slot.is_processing);
};

// ---- Against the server ---------------------------------------------------------------------------------------------

const served = {
  "the page loads": async () => {
    await fresh(root.href);
    equal(await browser.eval("document.title"), "bloomery", "title");
    if (key) {
      await browser.until("document.querySelector('#notice').innerText.includes('API key')", "the question for a key");
      await configure({ key });
    }
    await browser.until("document.querySelector('#model').textContent", "the name of the model");
    await browser.until("document.querySelector('#temperature').placeholder !== 'default'", "the server's defaults");
    assert(await browser.eval("document.querySelector('#send').disabled"), "an empty message can be sent");
    await shoot("empty");
  },
  "an answer streams": async () => {
    // Of 60 tokens a busy machine may show two frames.
    await configure({ max_tokens: "240", temperature: "0" });
    await browser.eval(`window.lengths = new Set();
      new MutationObserver(() => lengths.add((${answerText}).length)).observe(document.querySelector("#log"), { subtree: true, childList: true, characterData: true })`);
    await ask(STORY);
    assert((await lastAnswer()).length > 40, `too short: ${await lastAnswer()}`);
    assert((await browser.eval("lengths.size")) > 2, "all at once");
    assert(/tok\/s · 240 tokens · prompt \d+/.test(await lastStats()), await lastStats());
    assert((await lastStats()).includes("Cut at the limit"), "a limit that was reached is said");
    assert(/^\d[\d,]* of [\d,]+ tokens of context$/.test(await browser.eval("document.querySelector('#context').textContent")), "context");
    equal(await browser.eval("document.querySelector('#prompt').value"), "", "the message is gone from the field");
  },
  "answering again replaces the answer": async () => {
    const before = await lastAnswer();
    await configure({ max_tokens: "20" });
    await browser.click(".assistant button[title='Answer again']");
    await browser.until(idle);
    equal(await answers(), 1, "answers");
    const after = await lastAnswer();
    assert(after.length > 10 && after.length < before.length, `${after} after ${before}`);
    assert((await lastStats()).includes("cached"), "a known prompt comes from the cache");
  },
  "a second turn carries the first": async () => {
    await ask("And then?");
    equal(await answers(), 2, "answers");
    const { messages } = browser.bodies.at(-1);
    equal(messages.map((message) => message.role).join(), "user,assistant,user", "roles");
  },
  "an edited message starts from there": async () => {
    await browser.click(".user button[title='Edit']");
    await browser.eval("document.querySelector('.editor textarea').select()");
    await browser.type("Tell me about a wolf.");
    await browser.press("Enter");
    await browser.until(idle);
    equal(await answers(), 1, "answers");
    equal(browser.bodies.at(-1).messages.length, 1, "messages");
    equal(browser.bodies.at(-1).messages[0].content, "Tell me about a wolf.", "message");
  },
  "Shift+Enter breaks the line": async () => {
    await browser.eval("document.querySelector('#prompt').focus()");
    await browser.type("one");
    await browser.press("Enter", SHIFT);
    await browser.eval("document.execCommand('insertText', false, '\\ntwo')");
    assert((await browser.eval("document.querySelector('#prompt').value")).includes("\n"), "no line break");
    equal(await answers(), 1, "answers");
    await browser.eval("(() => { const field = document.querySelector('#prompt'); field.value = ''; field.dispatchEvent(new Event('input')); })()");
  },
  "stopping keeps what is written and frees the slot": async () => {
    await browser.click("#new");
    equal(await answers(), 0, "answers of a new chat");
    await configure({ max_tokens: "100000", temperature: "1.5" });
    // A small model may end its story before it can be stopped.
    for (let tries = 0; tries < 10 && !(await lastStats()).startsWith("Stopped"); tries++) await stopEarly();
    assert((await lastStats()).startsWith("Stopped"), await lastStats());
    assert((await lastAnswer()).length >= 20, "the text is gone");
    equal(await trouble(), "", "trouble");
    const end = Date.now() + 2000;
    while (!(await slotsIdle())) { assert(Date.now() < end, "the slot is busy after 2 s"); await pause(50); }
  },
  "a reload keeps settings and conversation": async () => {
    await configure({ top_p: "0.9", top_k: "20", min_p: "0.02", max_tokens: "8", system: "You are brief.", thinking: "off" });
    const before = await lastAnswer();
    await browser.reload();
    equal(await lastAnswer(), before, "the conversation");
    await ask("Go on.");
    const body = browser.bodies.at(-1);
    equal(JSON.stringify([body.temperature, body.top_p, body.top_k, body.min_p, body.max_tokens]), "[1.5,0.9,20,0.02,8]", "settings");
    equal(JSON.stringify(body.chat_template_kwargs), '{"enable_thinking":false}', "thinking");
    equal(body.messages[0].content, "You are brief.", "system prompt");
    await browser.click("#open");
    await browser.until("document.querySelector('#settings').open");
    equal(await browser.eval("document.querySelector('#top_k').value"), "20", "field");
    await shoot("settings");
    await browser.click("#reset");
    await browser.click("#close");
    equal(await browser.eval("localStorage.getItem('bloomery.settings')"), "{}", "after a reset");
    if (key) await configure({ key });
  },
  "a conversation that is too long is refused readably": async () => {
    await browser.click("#new");
    await browser.eval(`(() => { const field = document.querySelector("#prompt"); field.value = "word ".repeat(200000); field.dispatchEvent(new Event("input")); })()`);
    await browser.click("#send");
    await browser.until(idle, "the refusal", 60);
    assert((await trouble()).includes("does not fit into the context"), await trouble());
    await browser.click("#new");
  },
  ...(key && {
    "a wrong key is refused readably": async () => {
      await configure({ key: "wrong" });
      await browser.until("document.querySelector('#notice').innerText.includes('does not accept')", "the notice");
      await ask("Hi");
      assert((await trouble()).includes("wants an API key"), await trouble());
      await configure({ key });
      await browser.until("document.querySelector('#notice').hidden", "the end of the notice");
      await browser.click(".trouble .button:nth-child(2)");
      await browser.until(idle);
      equal(await trouble(), "", "trouble with the right key");
    },
  }),
};

// ---- On the stage ---------------------------------------------------------------------------------------------------

async function openStage() {
  const reply = await fetch(root);
  const policy = reply.headers.get("content-security-policy");
  return startStage({ page: await reply.text(), headers: policy ? { "Content-Security-Policy": policy } : {}, prefix: "/llm" });
}

const stage = await openStage();

const staged = {
  "markup becomes elements and never runs": async () => {
    await fresh(stage.url);
    await browser.until("document.querySelector('#model').textContent === 'stage-7b'");
    await ask("Show me some markdown");
    equal(await browser.eval("window.hacked"), undefined, "window.hacked");
    const found = async (selector) => browser.eval(`document.querySelectorAll('.assistant ${selector}').length`);
    for (const [selector, wanted] of Object.entries({ h4: 1, strong: 1, em: 1, "ol > li": 2, "ul > li": 2, "figure pre": 1, blockquote: 1, "tbody tr": 2, img: 0, script: 0 })) {
      equal(await found(selector), wanted, selector);
    }
    equal(await browser.eval("[...document.querySelectorAll('.assistant a')].map((a) => a.protocol).join()"), "https:,https:", "links");
    const text = await lastAnswer();
    for (const kept of ["<img src=x", "<b>degrees</b>", "2 * 3 * 4", "snake_case_name", "javascript:window"]) assert(text.includes(kept), `lost: ${kept}`);
    await shoot("markdown-light");
  },
  "thinking is folded": async () => {
    await ask("A number, please think");
    equal(await browser.eval("[...document.querySelectorAll('details')].at(-1).open"), false, "open");
    assert((await browser.eval("[...document.querySelectorAll('details')].at(-1).textContent")).includes("Seven is a good one."), "the thoughts");
    equal(await lastAnswer(), "The number is 7.", "answer");
    await ask("again markdown");
    assert(stage.state.bodies.at(-1).messages.some((message) => message.reasoning_content), "thoughts go back to the server");
  },
  "a tool call is shown": async () => {
    await browser.click("#new");
    await ask("Weather? Use the tool");
    const call = await browser.eval("[...document.querySelectorAll('.assistant figure')].at(-1).innerText");
    assert(call.includes("Tool call: get_weather") && call.includes('"city": "Paris"'), call);
    await shoot("tool");
  },
  "the prompt's progress is shown": async () => {
    await browser.click("#new");
    await say("Read this, it is slow");
    await browser.until("document.querySelector('.progress progress')?.value === 1024", "half of the prompt");
    equal(await browser.eval("document.querySelector('.progress span').textContent"), "Reading the prompt: 1,024 of 2,048 tokens, 128 from the cache", "text");
    await shoot("progress");
    await browser.until(idle);
    equal(await browser.eval("document.querySelectorAll('.progress').length"), 0, "bars at the end");
  },
  "Escape stops": async () => {
    await browser.click("#new");
    await say("Be endless");
    await browser.until(`(${answerText}).length > 30`);
    const aborted = stage.state.aborted;
    await browser.press("Escape");
    await browser.until(idle);
    assert((await lastStats()).startsWith("Stopped"), await lastStats());
    for (let tries = 0; stage.state.aborted === aborted; tries++) { assert(tries < 100, "the connection is still open"); await pause(20); }
  },
  "a new chat in mid-stream starts clean": async () => {
    await browser.click("#new");
    await say("Be endless");
    await browser.until(`(${answerText}).length > 30`);
    await browser.click("#new");
    await ask("think");
    equal(await answers(), 1, "answers");
    equal(await lastAnswer(), "The number is 7.", "answer");
  },
  "lost connections and failures are told from ends": async () => {
    for (const [word, said, kept] of [["drop", "connection was lost", "ends in the"], ["silent", "connection was lost", "No end"], ["broken", "the card fell out", "Half an answer"], ["busy", "server is busy", ""], ["loading", "still being loaded", ""]]) {
      await browser.click("#new");
      await ask(word);
      assert((await trouble()).includes(said), `${word}: ${await trouble()}`);
      assert((await lastAnswer()).includes(kept), `${word}: ${await lastAnswer()}`);
    }
    await browser.click("#new");
    await ask("cut");
    equal(await trouble(), "", "trouble");
    assert((await lastStats()).startsWith("Cut at the limit"), await lastStats());
  },
  "a message after a failed one joins it": async () => {
    await browser.click("#new");
    await ask("overflow");
    assert((await trouble()).includes("It has 9,013 tokens; the model can take 4,096."), await trouble());
    await shoot("error");
    await ask("think");
    equal(JSON.stringify(stage.state.bodies.at(-1).messages), '[{"role":"user","content":"overflow\\n\\nthink"}]', "messages");
  },
  "a wrong key is told, and the right one helps": async () => {
    await browser.click("#new");
    stage.state.key = "secret";
    await browser.reload();
    await browser.until("document.querySelector('#notice').innerText.includes('needs an API key')", "the notice");
    await configure({ key: "wrong" });
    await ask("think");
    assert((await trouble()).includes("It does not accept the one in the settings."), await trouble());
    await configure({ key: "secret" });
    await browser.until("document.querySelector('#notice').hidden");
    stage.state.key = "";
  },
  "a model that is being loaded is waited for": async () => {
    stage.state.loading = true;
    await browser.reload();
    await browser.until("document.querySelector('#notice').innerText.includes('being loaded')", "the notice");
    stage.state.loading = false;
    await browser.until("document.querySelector('#notice').hidden", "the end of loading");
  },
  "without a slash at the end of the prefix it works too": async () => {
    await fresh(stage.url.replace(/\/$/, ""));
    await ask("think");
    equal(await lastAnswer(), "The number is 7.", "answer");
  },
  "it looks right in the dark and on a phone": async () => {
    await fresh(stage.url);
    await ask("A number, please think");
    await ask("Show me some markdown");
    await browser.look({ ...DESKTOP, dark: true });
    await shoot("markdown-dark");
    await browser.look(MOBILE);
    equal(await browser.eval("document.documentElement.scrollWidth"), MOBILE.width, "width of the page");
    await browser.eval("document.querySelector('main').scrollTop = 0");
    await shoot("mobile");
    await browser.look({ ...MOBILE, dark: true });
    await browser.click("#open");
    await shoot("mobile-settings");
    await browser.click("#close");
    await browser.look(DESKTOP);
  },
  "every control has a name": async () => {
    const nameless = await browser.eval(`[...document.querySelectorAll("button, input, select, textarea")].filter((node) =>
      !(node.ariaLabel || node.textContent.trim() || node.labels?.length)).map((node) => node.outerHTML).join()`);
    equal(nameless, "", "without a name");
  },
};

const tidy = {
  "nothing was asked of anyone else": () => {
    const own = [root.origin, new URL(stage.url).origin];
    const foreign = browser.urls.filter((url) => !/^(data|about|blob):/.test(url) && !own.includes(new URL(url).origin));
    equal(foreign.join(), "", "other addresses");
  },
  "the console has no error": () => equal(browser.errors.join("\n"), "", "errors"),
};

let failed = 1;
try {
  failed = await runCases("ui", { ...served, ...staged, ...tidy });
} finally {
  await browser.close();
  stage.close();
}
process.exitCode = failed ? 1 : 0;
