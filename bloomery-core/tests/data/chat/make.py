"""Renders the templates and snippets of this folder with transformers, and writes what it says as expected texts.

    pip install transformers==5.24.0 jinja2==3.1.6
    python make.py

`requests.json` and the `template` fields of `snippets.json` are written by hand; `expected.json` and the other fields
of `snippets.json` are written here. A snippet with a field `ours` is a known difference: what this project does
instead, checked too; that field is kept."""
import datetime
import json
import pathlib

import transformers.utils.chat_template_utils as chat

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2026, 3, 7, 4, 5, 6, 78)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
# (tools, kwargs, add_generation_prompt) for every conversation, and more for some.
EVERY = [("none", "off", True)]
SOME = [("one", "off", True), ("many", "think_off", False), ("none", "think_on", True), ("none", "effort", False)]
SOME_OF = ["multi", "tool_history", "reasoning_tool"]


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat.datetime = Frozen


def render(source, messages, tools, kwargs, generation):
    try:
        messages = chat._normalize_chat_messages(messages)
        texts, _ = chat.render_jinja_template(
            [messages], tools=tools, chat_template=source, add_generation_prompt=generation, **TOKENS | kwargs)
        return {"ok": texts[0]}
    except Exception as error:
        if type(error).__name__ == "TemplateError":
            return {"raised": str(error)}
        return {"error": type(error).__name__}


def write(name, data):
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in data)
    (HERE / name).write_text(f"[\n{lines}\n]\n")


requests = json.loads((HERE / "requests.json").read_text())
cases = []
for path in sorted((HERE / "templates").glob("*.jinja")):
    with open(path, newline="") as file:
        source = file.read()
    for name, messages in requests["conversations"].items():
        for tools, kwargs, generation in EVERY + (SOME if name in SOME_OF else []):
            result = render(source, messages, requests["tools"].get(tools), requests["kwargs"][kwargs], generation)
            cases.append({"template": path.name, "conversation": name, "tools": tools, "kwargs": kwargs,
                          "generation": generation, **result})
write("expected.json", cases)

snippets = json.loads((HERE / "snippets.json").read_text())
messages = requests["conversations"]["end_assistant"]
write("snippets.json", [
    {"template": old["template"], **render(old["template"], messages, requests["tools"]["one"], {}, True),
     **({"ours": old["ours"]} if "ours" in old else {})} for old in snippets])
