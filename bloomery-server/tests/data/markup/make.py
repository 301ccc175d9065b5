"""Writes replies.json: what models write, and what it means. The cases are written by hand, here.

    python make.py
"""
import json
import pathlib

HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich", "days": 2}}\n</tool_call>'
WEATHER = ["get_weather", {"city": "Zürich", "days": 2}]
R1 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Z\"}\n```<｜tool▁call▁end｜>"
CODE = 'def f():\n    return "<b>&amp;</b>\\n"\n'
cases = []


def case(markup, text, content="", calls=(), reasoning="", **options):
    """calls: [name, arguments] of a complete call; [name, text] of an incomplete one."""
    cases.append({"markup": markup, "text": text, "content": content, "reasoning": reasoning,
                  "calls": [list(call) for call in calls], **options})


# Plain text passes unchanged in every family.
for markup in ["hermes", "qwen-xml", "glm", "dsml-v4", "deepseek-v3.1", "llama3", "mistral-args", "kimi", "generic"]:
    case(markup, "  Hello <b> & </tool_call> 1 < 2, [TOOL] {x} \n", "  Hello <b> & </tool_call> 1 < 2, [TOOL] {x} \n")
    case(markup, "", "")
    case(markup, " \n", " \n")

# JSON in tags.
case("hermes", HERMES, "", [WEATHER])
case("hermes", "I look.\n\n" + HERMES + "\n", "I look.", [WEATHER])
case("hermes", HERMES + "\n" + HERMES, "", [WEATHER, WEATHER])
case("hermes", "a\n" + HERMES + "\nb\n" + HERMES + " c", "a\nb c", [WEATHER, WEATHER])
case("hermes", '<tool_call>{"name":"noop"}</tool_call>', "", [["noop", {}]])
case("hermes", '<tool_call>{"name":"noop","arguments":null}</tool_call>', "", [["noop", {}]])
case("hermes", '<tool_call>{"name":"noop","arguments":{}}</tool_call>', "", [["noop", {}]])
case("hermes", '<tool_call>{"name":"noop","arguments":""}</tool_call>', "", [["noop", {}]])
case("hermes", '<tool_call>{"arguments": {"city": "A"}, "name": "get_weather"}</tool_call>', "", [["get_weather", {"city": "A"}]])
case("hermes", '<tool_call>{"name": "get_weather", "parameters": {"city": "A"}}</tool_call>', "", [["get_weather", {"city": "A"}]])
case("hermes", '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"A\\\\n\\u00e9\\"}"}</tool_call>', "", [["get_weather", {"city": "A\né"}]])
case("hermes", '<tool_call>{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "A"}}}</tool_call>', "", [["get_weather", {"city": "A"}]])
case("hermes", '<tool_call>{"id": "call_7", "name": "noop", "arguments": {}}</tool_call>', "", [["noop", {}]], ids=["call_7"])
case("hermes", '<tool_call>[{"name": "noop", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "A"}}]</tool_call>', "", [["noop", {}], ["get_weather", {"city": "A"}]])
case("hermes", '<tool_call>{"name": "noop", "arguments": {}}\n{"name": "noop", "arguments": {}}</tool_call>', "", [["noop", {}], ["noop", {}]])
case("hermes", '<tool_call>{"name": "noop", "arguments": {}} and more', "and more", [["noop", {}]])
case("hermes", '<tool_call>{"name": "unknown_tool", "arguments": {"a": [1, {"b": "}</tool_call>"}]}}</tool_call>', "", [["unknown_tool", {"a": [1, {"b": "}</tool_call>"}]}]])
case("hermes", '<tool_call>{"name": "get_weather", "arguments": {"city": "a\nb\\d"}}</tool_call>', "", [["get_weather", {"city": "a\nb\\d"}]])
case("hermes", '{"name": "get_weather", "arguments": {"city": "A"}}', "", [["get_weather", {"city": "A"}]])
case("hermes", '<tool_call>\n<function=get_weather>\n<parameter=city>\nA\n</parameter>\n</function>\n</tool_call>', "", [["get_weather", {"city": "A"}]])
case("generic", HERMES, "", [WEATHER])
# What is no call stays content.
case("hermes", 'Use <tool_call> like this', "Use <tool_call> like this")
case("hermes", '<tool_call>\n{"city": 1}</tool_call>', '<tool_call>\n{"city": 1}</tool_call>')
case("hermes", '<tool_call>{"name": 5}</tool_call>!', '<tool_call>{"name": 5}</tool_call>!')
case("hermes", '<tool_call>{"name": "a", "arguments": [1]}', '<tool_call>{"name": "a", "arguments": [1]}')
case("hermes", 'x <tool_call> y ' + HERMES, "x <tool_call> y", [WEATHER])
case("hermes", '{"name": "Bob", "age": 5}', '{"name": "Bob", "age": 5}')
case("hermes", '{"name": "Bob", "arguments": {}}', '{"name": "Bob", "arguments": {}}')
case("hermes", '{"type": "object", "name": "noop"} ok', '{"type": "object", "name": "noop"} ok')
case("hermes", ' {"temperature": 5}\n', ' {"temperature": 5}\n')
case("hermes", 'text {"name": "noop", "arguments": {}}', 'text {"name": "noop", "arguments": {}}')
# A call that cannot go on is content in a whole reply.
case("hermes", '<tool_call>{"name": "get_weather", "arguments": {"city": oops}}</tool_call>', '<tool_call>{"name": "get_weather", "arguments": {"city": oops}}</tool_call>')
# Cut replies: what came stays, nothing is added.
case("hermes", '<tool_call>{"name": "get_weather", "arguments": {"city": "Zü', "", [["get_weather", '{"city": "Zü']])
case("hermes", '<tool_call>{"name": "get_weather", "arguments": {"city": "A"}', "", [["get_weather", '{"city": "A"}']])
case("hermes", '<tool_call>{"name": "get_wea', '<tool_call>{"name": "get_wea')
case("hermes", HERMES[:-5], "", [WEATHER])
case("hermes", "abc <tool", "abc <tool")
# No calls where none are wanted.
case("hermes", HERMES + " \n", HERMES + " \n", choice="none")
case("hermes", HERMES, HERMES, tools="none")
case("hermes", HERMES + "\n" + HERMES, HERMES, [WEATHER], parallel=False)

# Llama 3, Mistral, Granite.
case("llama3", '{"name": "get_weather", "parameters": {"city": "A"}}', "", [["get_weather", {"city": "A"}]])
case("llama3", '<|python_tag|>{"name": "get_weather", "parameters": {"city": "A"}}', "", [["get_weather", {"city": "A"}]])
case("llama3", '{"type": "function", "name": "get_weather", "parameters": {"city": "A"}}', "", [["get_weather", {"city": "A"}]])
case("llama3", '{"name": "noop", "parameters": {}}; {"name": "noop", "parameters": {}}', "", [["noop", {}], ["noop", {}]])
case("llama3", '<|python_tag|>print(1)', "<|python_tag|>print(1)")
case("mistral-array", '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "A"}, "id": "abcdefghi"}]', "", [["get_weather", {"city": "A"}]])
case("mistral-array", 'Hm.[TOOL_CALLS] [{"name": "noop", "arguments": {}}, {"name": "noop", "arguments": {}}]', "Hm.", [["noop", {}], ["noop", {}]])
case("mistral-array", '[TOOL_CALLS][{"id": "abcdefghi", "name": "noop", "arguments": {}}]', "", [["noop", {}]], ids=["abcdefghi"])
case("mistral-array", '[TOOL_CALLS]noop[ARGS]{}', "", [["noop", {}]])
case("mistral-args", '[TOOL_CALLS]get_weather[ARGS]{"city": "A"}', "", [["get_weather", {"city": "A"}]])
case("mistral-args", 'Ok\n[TOOL_CALLS]noop[ARGS]{}[TOOL_CALLS]noop[CALL_ID]abcdefghi[ARGS]{"x": 1}', "Ok", [["noop", {}], ["noop", {"x": 1}]])
case("mistral-args", '[TOOL_CALLS]noop{"x": 1}', "", [["noop", {"x": 1}]])
case("mistral-args", '[TOOL_CALLS][{"name": "noop", "arguments": {}}]', "", [["noop", {}]])
case("mistral-args", '[TOOL_CALLS]is a token {', "[TOOL_CALLS]is a token {")
case("mistral-args", '[TOOL_CALLS]noop[ARGS]{"x": ', "", [["noop", '{"x": ']])
case("mistral-args", '[TOOL_CALLS]noop[AR', "[TOOL_CALLS]noop[AR")
case("granite", '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "A"}}]', "", [["get_weather", {"city": "A"}]])
case("granite", '<tool_call>[{"name": "noop", "arguments": {}}]', "", [["noop", {}]])

# DeepSeek and Kimi.
case("deepseek-r1", R1 + "\n" + R1[len("<｜tool▁calls▁begin｜>"):] + "<｜tool▁calls▁end｜>", "", [["get_weather", {"city": "Z"}]] * 2)
case("deepseek-r1", "Ok" + R1, "Ok", [["get_weather", {"city": "Z"}]])
case("deepseek-v3.1", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Z"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>noop<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>', "", [["get_weather", {"city": "Z"}], ["noop", {}]])
case("deepseek-v3.1", R1 + "<｜tool▁calls▁end｜>bye", "bye", [["get_weather", {"city": "Z"}]])
case("deepseek-v3.1", '<｜tool▁call▁begin｜>noop<｜tool▁sep｜>{}', "", [["noop", {}]])
case("deepseek-v3.1", 'the <｜tool▁calls▁begin｜> token', "the <｜tool▁calls▁begin｜> token")
case("kimi", '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Z"}<|tool_call_end|><|tool_call_begin|>functions.noop:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>', "", [["get_weather", {"city": "Z"}], ["noop", {}]], ids=["functions.get_weather:0", "functions.noop:1"])


# Tags of arguments.
def qwen(name, *args, end="\n</function>\n</tool_call>", start="<tool_call>\n<function="):
    return start + name + ">" + "".join(f"\n<parameter={k}>\n{v}\n</parameter>" for k, v in args) + end


def glm(name, *args, line="\n"):
    body = "".join(f"{line}<arg_key>{k}</arg_key>{line}<arg_value>{v}</arg_value>" for k, v in args)
    return f"<tool_call>{name}{body}{line}</tool_call>"


def dsml(space, block, name, *args):
    d = "｜DSML｜" + space
    body = "".join(f'<{d}parameter name="{k}" string="{"true" if s else "false"}">{v}</{d}parameter>\n' for k, v, s in args)
    return f'<{d}{block}>\n<{d}invoke name="{name}">\n{body}</{d}invoke>\n</{d}{block}>'


VALUES = [  # parameter, text, JSON
    ("city", "Zürich", "Zürich"), ("city", "5", "5"), ("city", "true", "true"), ("city", '{"a": 1}', '{"a": 1}'),
    ("city", '"quoted"', '"quoted"'), ("city", "", ""), ("city", " a ", " a "), ("city", CODE, CODE),
    ("city", "a\n\nb\n", "a\n\nb\n"), ("city", "</parameter> </arg_value> </｜DSML｜parameter> x", "</parameter> </arg_value> </｜DSML｜parameter> x"),
    ("city", "emoji 😀 \\ \t", "emoji 😀 \\ \t"),
    ("days", "5", 5), ("days", " 5 ", 5), ("days", "-1.5e3", -1.5e3), ("days", "many", "many"),
    ("flag", "true", True), ("flag", "False", False), ("flag", "maybe", "maybe"),
    ("maybe", "null", None), ("maybe", "nothing", "nothing"), ("maybe", "5", "5"),
    ("scalar", "5", 5), ("scalar", "5 apples", "5 apples"), ("scalar", "true", True), ("scalar", "truely", "truely"), ("scalar", "[1]", "[1]"),
    ("mode", "fast", "fast"), ("mode", '"slow"', "slow"), ("mode", "other", "other"),
    ("list", '[1, "a\\n", {"b": null}]', [1, "a\n", {"b": None}]), ("list", "[]", []),
    ("object", '{"x": {"y": "</parameter>"}}', {"x": {"y": "</parameter>"}}), ("object", "\n{ }\n", {}),
    ("free", "5", 5), ("free", "[1,2]", [1, 2]), ("free", "words", "words"), ("free", '"w"', "w"), ("free", "{not json", "{not json"),
    ("undeclared", "7", 7), ("undeclared", "x", "x"),
]
for key, text, value in VALUES:
    case("qwen-xml", qwen("typed", (key, text)), "", [["typed", {key: value}]])
    case("glm", glm("typed", (key, text)), "", [["typed", {key: value}]])
    case("minimax", f'<minimax:tool_call>\n<invoke name="typed">\n<parameter name="{key}">{text}</parameter>\n</invoke>\n</minimax:tool_call>', "", [["typed", {key: value}]])
    case("seed-xml", f"<seed:tool_call>\n<function=typed>\n<parameter={key}>{text}</parameter>\n</function>\n</seed:tool_call>", "", [["typed", {key: value}]])
for key, text, string, value in [
    ("city", "5", True, "5"), ("city", "5", False, "5"), ("city", '"q"', False, "q"), ("city", "a\n<b>", True, "a\n<b>"),
    ("days", "5", False, 5), ("days", "5", True, 5), ("scalar", "5", True, "5"), ("scalar", "5", False, 5),
    ("free", "5", True, "5"), ("free", '{"a":"b"}', False, {"a": "b"}), ("free", '"s"', False, "s"), ("free", "oops", False, "oops"),
    ("list", "[1]", False, [1]), ("mode", "fast", True, "fast"), ("maybe", "null", False, None),
]:
    for markup, space, block in [("dsml-v3.2", "", "function_calls"), ("dsml-v4", "", "tool_calls"), ("dsml-v4.1", " ", "calls")]:
        case(markup, "Ok.\n\n" + dsml(space, block, "typed", (key, text, string)), "Ok.", [["typed", {key: value}]])
case("dsml-v4", dsml(" ", "calls", "noop"), "", [["noop", {}]])
case("dsml-v4", '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="noop">\n</｜DSML｜invoke>\n<｜DSML｜invoke name="typed">\n<｜DSML｜parameter name="city">A</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>', "", [["noop", {}], ["typed", {"city": "A"}]])

case("qwen-xml", "Look:\n" + qwen("noop") + "\n" + qwen("typed", ("city", "a"), ("days", "2"), ("list", "[1]")), "Look:", [["noop", {}], ["typed", {"city": "a", "days": 2, "list": [1]}]])
case("qwen-xml", qwen("noop", start="<function="), "", [["noop", {}]])
case("qwen-xml", qwen("typed", ("city", "a"), start="<function=", end="\n</function>"), "", [["typed", {"city": "a"}]])
case("qwen-xml", "#include <functional> <function=x>", "#include <functional> <function=x>")
case("qwen-xml", qwen("typed", ("city", "a"), end="\n</tool_call>"), "", [["typed", {"city": "a"}]])
case("qwen-xml", "<tool_call>\n<function=typed>\n<parameter=city>a</parameter>\n</function>\n</tool_call>", "", [["typed", {"city": "a"}]])
case("qwen-xml", "<tool_call><function=typed>{\"city\": \"a\"}</function></tool_call>", "", [["typed", {"city": "a"}]])
case("qwen-xml", HERMES, "", [WEATHER])
case("qwen-xml", "<tool_call>\n<function=typed>\n<parameter=city>\nab", "", [["typed", '{"city":"ab']])
case("qwen-xml", "<tool_call>\n<function=typed>\n<parameter=city>\nab\n</para", "", [["typed", '{"city":"ab']])
case("qwen-xml", "<tool_call>\n<function=typed>\n<parameter=city>\nab\n</parameter>\n<param", "", [["typed", '{"city":"ab"']])
case("qwen-xml", "<tool_call>\n<function=typed>\n<parameter=days>\n12", "", [["typed", ""]])
case("qwen-xml", "<tool_call>\n<function=typed>\n<parameter=list>\n[1, 2", "", [["typed", '{"list":[1, 2']])
case("qwen-xml", "<tool_call>\n<function=ty", "<tool_call>\n<function=ty")
case("qwen-xml", "<tool_call>\n<function=typed>\noops</function>", "<tool_call>\n<function=typed>\noops</function>")
case("qwen-xml", "<tool_call>\n<function=typed>\n<parameter=list>\n[1, x]\n</parameter>\n</function>", "<tool_call>\n<function=typed>\n<parameter=list>\n[1, x]\n</parameter>\n</function>")
case("qwen-xml", "<tool_call> is a tag", "<tool_call> is a tag")
case("glm", "Sure.\n" + glm("typed", ("city", "a"), ("days", "2")) + "\n" + glm("noop"), "Sure.", [["typed", {"city": "a", "days": 2}], ["noop", {}]])
case("glm", glm("typed", ("city", "a"), ("days", "2"), line="") + glm("noop", line=""), "", [["typed", {"city": "a", "days": 2}], ["noop", {}]])
case("glm", "the <tool_call> tag, `<tool_call>`", "the <tool_call> tag, `<tool_call>`")
case("qwen-xml", qwen("typed", ("", "x")), "", [["typed", {"": "x"}]])
case("glm", "<tool_call>typed\n<arg_key>ci", "", [["typed", ""]])
case("minimax", '<minimax:tool_call>\n<invoke name="noop">\n</invoke>\n<invoke name="noop">\n</invoke>\n</minimax:tool_call>', "", [["noop", {}], ["noop", {}]])

# Reasoning.
THINK = "<think>\nLet me see.\n</think>\n\n"
case("hermes", THINK + "Hi", "Hi", reasoning="Let me see.", think=True)
case("hermes", THINK + "Hi " + HERMES, "Hi", [WEATHER], "Let me see.", think=True)
case("hermes", "\n" + THINK + HERMES, "", [WEATHER], "Let me see.", think=True)
case("hermes", "<think></think>Hi", "Hi", think=True)
case("hermes", "  Hi <think>x</think>", "  Hi <think>x</think>", think=True)
case("hermes", "a\n\n b\n</think>\n\nHi\n", "Hi\n", reasoning="a\n\n b", think=True, start="<think>\n")
case("hermes", "<think>\na</think>Hi", "Hi", reasoning="a", think=True, start="<think>\n")
case("hermes", "a </thin> b <tool_call> c", "", reasoning="a </thin> b <tool_call> c", think=True, start="<think>\n")
case("hermes", "a</think>b<think>c</think>d", "b<think>c</think>d", reasoning="a", think=True, start="<think>\n")
case("hermes", "<think>x</think>", "<think>x</think>", think=True, start="closed")
case("hermes", "all of it is thought  ", "", reasoning="all of it is thought", think=True, start="<think>\n")
case("hermes", HERMES + "</think>" + HERMES, "", [WEATHER], HERMES, think=True, start="<think>\n")
case("hermes", THINK + "Hi", THINK + "Hi", think=True, reasoning_format="none")
case("hermes", "a\n</think>\n\nHi", "<think>\na\n</think>\n\nHi", think=True, start="<think>\n", reasoning_format="none")
case("hermes", "a\n</think>\n\n" + HERMES, "<think>\na\n</think>", [WEATHER], think=True, start="<think>\n", reasoning_format="none")
case("hermes", THINK + "Hi", THINK + "Hi", reasoning="Let me see.", think=True, reasoning_format="deepseek-legacy")
case("hermes", THINK + "Hi", "Hi", reasoning="Let me see.", think=True, tools="none")
case("qwen-xml", "I call it.\n" + qwen("noop"), "", [["noop", {}]], "I call it.", think=True, start="<think>\n")
case("dsml-v4", "I call it.\n\n" + dsml("", "tool_calls", "noop"), "", [["noop", {}]], "I call it.", think=True, start="<think>")
case("mistral-args", "[THINK]hm[/THINK]Hi[TOOL_CALLS]noop[ARGS]{}", "Hi", [["noop", {}]], "hm", think="[THINK]")
case("hermes", " world", " world", prefix="Hello \n")
case("hermes", "more\n</think>\nHi", "Hi", reasoning="more", think=True, start="<think>\n", prefix="some ")

# Harmony.
case("harmony", "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hi\n there<|return|>", "Hi\n there", reasoning="Think.")
case("harmony", "<|channel|>final<|message|>Hi", "Hi")
case("harmony", "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>analysis<|message|>B<|end|><|start|>assistant<|channel|>final<|message|>C", "C", reasoning="AB")
case("harmony", "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"A\"}<|call|>", "", [["get_weather", {"city": "A"}]])
case("harmony", " to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{\"city\": \"A\"}<|call|>", "", [["get_weather", {"city": "A"}]])
case("harmony", "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant to=functions.noop<|channel|>commentary json<|message|>{}<|call|>", "I will look.", [["noop", {}]], "A")
case("harmony", "<|channel|>commentary to=functions.noop<|message|><|call|>", "", [["noop", {}]])
case("harmony", "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"", "", [["get_weather", '{"city": "']])
case("harmony", "<|channel|>commentary to=functions.noop json<|message|>oops<|call|>", "<|channel|>commentary to=functions.noop json<|message|>oops")
case("harmony", "plain text", "plain text")
case("harmony", "<|channel|>commentary to=functions.noop<|message|>{}<|call|>", "<|channel|>commentary to=functions.noop<|message|>{}", choice="none")
case("harmony", "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>final<|message|>B", "<|channel|>analysis<|message|>A<|end|>B", reasoning_format="none")

lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
(pathlib.Path(__file__).parent / "replies.json").write_text(f"[\n{lines}\n]\n")
