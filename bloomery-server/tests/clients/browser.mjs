// Headless Chromium over its debugging pipe: Node alone is enough.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** The path of an installed Chromium, or undefined. */
export function findChromium() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** One browser with one page. */
export class Browser {
  #calls = new Map();
  #next = 1;
  #rest = "";

  constructor(path) {
    this.profile = mkdtempSync(join(tmpdir(), "bloomery-ui-"));
    this.urls = [];
    this.bodies = [];
    this.errors = [];
    const flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--disable-extensions",
      "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
      `--user-data-dir=${this.profile}`, "about:blank"];
    if (process.getuid?.() === 0) flags.unshift("--no-sandbox");
    this.process = spawn(path, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.process.stdio[4].setEncoding("utf8").on("data", (text) => this.#read(text));
  }

  async open() {
    const { targetInfos } = await this.#send("Target.getTargets");
    const { targetId } = targetInfos.find((target) => target.type === "page");
    this.session = (await this.#send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await this.send(`${domain}.enable`);
  }

  #read(text) {
    const messages = (this.#rest + text).split("\0");
    this.#rest = messages.pop();
    for (const message of messages) this.#take(JSON.parse(message));
  }

  #take({ id, result, error, method, params }) {
    if (id) {
      const { done, fail, what } = this.#calls.get(id);
      this.#calls.delete(id);
      return error ? fail(new Error(`${what}: ${error.message}`)) : done(result);
    }
    if (method === "Network.requestWillBeSent") {
      this.urls.push(params.request.url);
      if (params.request.postData) this.bodies.push(JSON.parse(params.request.postData));
    }
    if (method === "Runtime.exceptionThrown") this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Runtime.consoleAPICalled" && params.type === "error") this.errors.push(params.args.map((arg) => arg.value).join(" "));
    // Refused requests are reported as network errors by the browser itself; tests that provoke them look at the page.
    if (method === "Log.entryAdded" && params.entry.level === "error" && params.entry.source !== "network") this.errors.push(params.entry.text);
  }

  #send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((done, fail) => this.#calls.set(id, { done, fail, what: method }));
  }

  send(method, params) {
    return this.#send(method, params, this.session);
  }

  /** The value of an expression in the page. */
  async eval(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Waits until an expression is true. */
  async until(expression, what = expression, seconds = 20) {
    const end = Date.now() + seconds * 1000;
    while (!(await this.eval(`Boolean(${expression})`))) {
      if (Date.now() > end) throw new Error(`never seen: ${what}`);
      await pause(15);
    }
  }

  async goto(url) {
    await this.send("Page.navigate", { url });
    await this.until(`location.href === ${JSON.stringify(url)} && document.readyState === "complete"`);
  }

  async reload() {
    await this.eval("window.stale = true");
    await this.send("Page.reload");
    await this.until("!window.stale && document.readyState === 'complete'");
  }

  type(text) {
    return this.send("Input.insertText", { text });
  }

  async press(key, modifiers = 0) {
    const text = key === "Enter" ? "\r" : undefined;
    const code = { Enter: 13, Escape: 27 }[key];
    const event = { key, code: key, text, modifiers, windowsVirtualKeyCode: code };
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
  }

  /** Clicks with the mouse in the middle of an element. */
  async click(selector) {
    await this.until(`document.querySelector(${JSON.stringify(selector)})`, selector);
    const [x, y] = await this.eval(`(() => {
      const node = document.querySelector(${JSON.stringify(selector)});
      node.scrollIntoView({ block: "nearest" });
      const box = node.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    })()`);
    for (const type of ["mouseMoved", "mousePressed", "mouseReleased"]) {
      await this.send("Input.dispatchMouseEvent", { type, x, y, button: type === "mouseMoved" ? "none" : "left", clickCount: 1 });
    }
  }

  /** A window of another size, colour scheme and kind. */
  async look({ width, height, dark = false, mobile = false }) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, mobile, deviceScaleFactor: mobile ? 2 : 1 });
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
  }

  async screenshot() {
    return Buffer.from((await this.send("Page.captureScreenshot", { format: "png" })).data, "base64");
  }

  async close() {
    const gone = new Promise((done) => this.process.once("exit", done));
    this.#send("Browser.close").catch(() => {});
    await gone;
    // Helpers of the browser may write for a moment longer.
    for (let tries = 0; tries < 20; tries++) {
      try { return rmSync(this.profile, { recursive: true, force: true }); } catch { await pause(100); }
    }
  }
}
