//! Messages laid out for the templates of real models.

use std::fs;
use std::path::PathBuf;

use bloomery_core::chat::{ChatRequest, ChatTemplate};
use bloomery_server::chat::{
    Markup, Prefill, ReplyStart, TemplateCaps, ThinkTags, Tool, normalise, template_tools,
};
use serde_json::{Map, Value, json};

fn template(name: &str) -> ChatTemplate {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../bloomery-core/tests/data/chat/templates");
    let source = fs::read_to_string(folder.join(format!("{name}.jinja"))).expect(name);
    ChatTemplate::new(&source, "<s>", "</s>").expect(name)
}

fn caps(name: &str) -> TemplateCaps {
    TemplateCaps::detect(&template(name))
}

const QWEN3: &str = "Qwen-Qwen3-0.6B";
const QWEN25: &str = "Qwen-Qwen2.5-7B-Instruct";
const CODER: &str = "Qwen3-Coder";
const R1: &str = "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B";
const V31: &str = "deepseek-ai-DeepSeek-V3.1";
const GPT: &str = "openai-gpt-oss-120b";
const GRANITE: &str = "ibm-granite-granite-3.3-2B-Instruct";
const DEMO: &str = "bloomery-demo";

/// The words for what a template can do.
fn words(caps: &TemplateCaps) -> String {
    let flags = [
        (caps.system, "system"),
        (caps.late_system, "late"),
        (caps.developer, "developer"),
        (caps.consecutive_users, "users"),
        (caps.string_content, "text"),
        (caps.typed_content, "parts"),
        (caps.tools, "tools"),
        (caps.tool_description, "described"),
        (caps.tool_calls, "calls"),
        (caps.parallel_calls, "parallel"),
        (caps.object_arguments, "objects"),
        (caps.absent_content, "absent"),
        (!caps.content_and_reasoning, "exclusive"),
        (caps.tool_results, "results"),
        (caps.short_ids, "short"),
        (caps.reasoning_effort, "effort"),
        (caps.reasoning_history, "history"),
    ];
    let mut words: Vec<&str> = vec![caps.markup.name()];
    words.extend(caps.think.iter().map(|think| think.start.as_str()));
    words.extend(flags.iter().filter(|(has, _)| *has).map(|(_, word)| *word));
    words.extend(caps.thinking_switches.iter().copied());
    words.join(" ")
}

#[test]
fn templates_are_known_by_what_they_render() {
    for (name, wanted) in [
        (
            "GLM-4.6",
            "glm <think> system late users text parts tools calls parallel objects absent results history enable_thinking",
        ),
        ("HuggingFaceTB-SmolLM3-3B", "generic <think> system users text results enable_thinking"),
        (QWEN25, "hermes system late users text tools calls parallel objects absent results"),
        (
            QWEN3,
            "hermes <think> system late users text tools calls parallel objects results history enable_thinking",
        ),
        (CODER, "qwen-xml system late users text tools calls parallel objects absent results"),
        (DEMO, "generic system late users text results"),
        (R1, "deepseek-r1 <think> system users text calls parallel objects results enable_thinking"),
        (
            V31,
            "deepseek-v3.1 <think> system late users text calls parallel objects absent results enable_thinking thinking",
        ),
        (GRANITE, "granite <think> system late users text tools results thinking"),
        ("microsoft-Phi-3.5-mini-instruct", "generic system late users text"),
        (
            GPT,
            "harmony <|channel|>analysis<|message|> system developer users text tools described calls objects absent exclusive results effort history",
        ),
    ] {
        assert_eq!(words(&caps(name)), wanted, "{name}");
    }
}

/// Templates that stand for families without a file here.
#[test]
fn made_up_templates_show_the_other_capabilities() {
    let strict = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}\
        {% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}[{{ m.content }}]{% endfor %}";
    let strict = TemplateCaps::detect(&ChatTemplate::new(strict, "", "").expect("a template"));
    assert_eq!(words(&strict), "generic text results");
    let parts = "{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endfor %}";
    let parts = TemplateCaps::detect(&ChatTemplate::new(parts, "", "").expect("a template"));
    assert_eq!((parts.string_content, parts.typed_content), (false, true));
    let text = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{% if c.id|length != 9 %}\
        {{ raise_exception('id') }}{% endif %}[TOOL_CALLS]{{ c.function.name ~ '[ARGS]' ~ c.function.arguments }}{% endfor %}{% endfor %}";
    let text = TemplateCaps::detect(&ChatTemplate::new(text, "", "").expect("a template"));
    assert_eq!((text.object_arguments, text.tool_calls, text.short_ids), (false, true, true));
    assert_eq!(text.markup, Markup::MistralArgs);
}

#[test]
fn families_are_told_by_the_text_of_the_template() {
    for (text, wanted) in [
        ("'<｜DSML｜function_calls>'", "dsml-v3.2"),
        ("dsml_token = '｜DSML｜' '<' + dsml_token + 'tool_calls>'", "dsml-v4"),
        ("'<｜DSML｜ calls>'", "dsml-v4.1"),
        ("<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>", "kimi"),
        ("[TOOL_CALLS][", "mistral-array"),
        ("[TOOL_CALLS]' + name + '[ARGS]", "mistral-args"),
        ("<|python_tag|> {\"name\": f, \"parameters\": {}}", "llama3"),
        ("<|start_header_id|> {\"name\": f, \"parameters\": {}}", "llama3"),
        ("<minimax:tool_call> <invoke name=", "minimax"),
        ("<seed:tool_call> <function= <parameter=", "seed-xml"),
        ("<tool_call><function=f><parameter=p>", "qwen-xml"),
        ("<tool_call>{\"name\": f, \"arguments\": {}}", "hermes"),
        ("{{ messages }}", "generic"),
        ("", "generic"),
    ] {
        assert_eq!(Markup::detect(text).name(), wanted, "{text}");
    }
    assert_eq!(ThinkTags::detect("no tags"), None);
}

#[test]
fn props_have_the_names_of_llama_server() {
    // Recorded from llama-server with the same templates.
    let recorded = |flags: [bool; 9]| {
        let names = [
            "object_arguments",
            "parallel_tool_calls",
            "preserve_reasoning",
            "reasoning_effort",
            "string_content",
            "system_role",
            "tool_calls",
            "tools",
            "typed_content",
        ];
        let fields = names.iter().zip(flags).map(|(name, flag)| (format!("supports_{name}"), json!(flag)));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    assert_eq!(caps(DEMO).to_json(), recorded([false, false, false, false, true, true, false, false, false]));
    assert_eq!(caps(QWEN25).to_json(), recorded([true, true, false, false, true, true, true, true, false]));
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[test]
fn messages_that_are_none_are_refused() {
    let caps = caps(QWEN3);
    for (messages, wanted) in [
        (json!([123]), "message 0: expected an object, got a number"),
        (json!([{}]), "message 0: 'role' is required and must be a string"),
        (json!([{"role": 123}]), "message 0: 'role' is required and must be a string"),
        (json!([user("a"), {}]), "message 1: 'role' is required and must be a string"),
        (
            json!([{"role": "system", "content": 123}]),
            "message 0: expected 'content' to be a string or an array, got a number",
        ),
        (
            json!([{"role": "user"}]),
            "All non-assistant messages must contain 'content' (message 0, role 'user')",
        ),
        (
            json!([{"role": "assistant"}]),
            "Assistant message must contain either 'content' or 'tool_calls'! (message 0)",
        ),
        (
            json!([{"role": "assistant", "tool_calls": []}]),
            "Assistant message must contain either 'content' or 'tool_calls'! (message 0)",
        ),
        (
            json!([{"role": "assistant", "tool_calls": null}]),
            "Assistant message must contain either 'content' or 'tool_calls'! (message 0)",
        ),
        (
            json!([{"role": "user", "content": [{"type": "smell"}]}]),
            "unsupported content[].type: \"smell\" (message 0)",
        ),
        (json!([{"role": "user", "content": ["a"]}]), "unsupported content[].type: \"\" (message 0)"),
        (
            json!([{"role": "user", "content": [{"type": "text"}]}]),
            "unsupported content[].type: \"text\" (message 0)",
        ),
        (
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
            "image input is not supported",
        ),
        (json!([{"role": "user", "content": [{"type": "input_audio"}]}]), "audio input is not supported"),
        (json!([{"role": "user", "content": [{"type": "video_url"}]}]), "video input is not supported"),
        (
            json!([{"role": "assistant", "tool_calls": [{"type": "custom"}]}]),
            "message 0: tool call 0: 'type' must be \"function\"",
        ),
        (
            json!([{"role": "assistant", "tool_calls": [{"type": "function"}]}]),
            "message 0: tool call 0: 'function' is required",
        ),
        (
            json!([{"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}]),
            "message 0: tool call 0: 'function.name' is required",
        ),
    ] {
        let error = normalise(messages.as_array().expect("a list"), &[], &caps).expect_err("refused");
        assert_eq!(error.to_string(), wanted, "{messages}");
        assert_eq!(error.status(), if wanted.contains("not supported") { 500 } else { 400 });
    }
}

/// The messages as the template sees them.
fn laid_out(name: &str, messages: Value) -> Value {
    json!(normalise(messages.as_array().expect("a list"), &[], &caps(name)).expect("messages"))
}

#[test]
fn contents_become_what_the_template_takes() {
    let parts =
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]);
    assert_eq!(laid_out(QWEN3, parts.clone())[0]["content"], "a\nb");
    assert_eq!(laid_out("GLM-4.6", parts.clone())[0]["content"], parts[0]["content"]);
    assert_eq!(laid_out(QWEN3, json!([{"role": "user", "content": null}]))[0]["content"], "");
    let mut typed = caps(QWEN3);
    (typed.string_content, typed.typed_content) = (false, true);
    let wrapped = normalise(&[user("a")], &[], &typed).expect("messages");
    assert_eq!(wrapped[0]["content"], json!([{"type": "text", "text": "a"}]));
}

#[test]
fn calls_become_what_the_template_takes() {
    let call = |arguments: Value| {
        json!([user("a"), {"role": "assistant", "tool_calls": [
        {"id": null, "type": "function", "function": {"name": "f", "arguments": arguments}}]}])
    };
    let arguments = |name: &str, given: Value| {
        laid_out(name, call(given))[1]["tool_calls"][0]["function"]["arguments"].clone()
    };
    for (given, wanted) in [
        (json!("{\"a\": 1}"), json!({"a": 1})),
        (json!({"a": 1}), json!({"a": 1})),
        (json!(""), json!({})),
        (Value::Null, json!({})),
        (json!("oops"), json!({"arguments": "oops"})),
    ] {
        assert_eq!(arguments(QWEN3, given), wanted);
    }
    let out = laid_out(QWEN3, call(json!({})));
    assert_eq!(out[1]["tool_calls"][0].get("id"), None);
    assert_eq!(out[1]["content"], "", "Qwen3 needs a content");
    assert_eq!(laid_out(QWEN25, call(json!({})))[1].get("content"), None);
    let mut text = caps(QWEN3);
    (text.object_arguments, text.short_ids) = (false, true);
    let messages = json!([
        {"role": "assistant", "tool_calls": [{"id": "call_0123456789", "function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_call_id": "call_0123456789", "content": "r"},
    ]);
    let out = normalise(messages.as_array().expect("a list"), &[], &text).expect("messages");
    assert_eq!(out[0]["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
    let id = out[0]["tool_calls"][0]["id"].as_str().expect("an id");
    assert!(id.len() == 9 && out[1]["tool_call_id"] == id);
}

#[test]
fn results_follow_the_order_of_the_calls() {
    let call = |id: &str| json!({"id": id, "function": {"name": "f", "arguments": {}}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
    let order = |results: &[&str]| {
        let mut messages =
            vec![json!({"role": "assistant", "tool_calls": [call("a"), call("b"), call("c")]})];
        messages.extend(results.iter().map(|id| result(id)));
        let out = laid_out(QWEN3, json!(messages));
        let ids = out.as_array().expect("a list")[1..]
            .iter()
            .map(|message| message["content"].as_str().expect("text").to_owned());
        ids.collect::<Vec<_>>().concat()
    };
    assert_eq!(order(&["c", "a", "b"]), "abc");
    assert_eq!(order(&["c", "a"]), "ac");
    assert_eq!(order(&["c", "a", "c"]), "cac");
    assert_eq!(order(&["c", "x", "a"]), "cxa");
}

fn render(name: &str, messages: Value, tools: &[Tool]) -> String {
    let template = template(name);
    let caps = TemplateCaps::detect(&template);
    let messages = normalise(messages.as_array().expect("a list"), tools, &caps).expect("messages");
    let request = ChatRequest {
        messages,
        tools: template_tools(tools, &caps),
        add_generation_prompt: true,
        ..ChatRequest::default()
    };
    template.render(&request).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn weather() -> Tool {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    Tool { name: "get_weather".to_owned(), description: None, parameters }
}

const ALL: [&str; 11] = [
    QWEN3,
    QWEN25,
    CODER,
    R1,
    V31,
    GPT,
    GRANITE,
    DEMO,
    "GLM-4.6",
    "HuggingFaceTB-SmolLM3-3B",
    "microsoft-Phi-3.5-mini-instruct",
];

/// What agents send, on every template: nothing is refused, nothing gets lost.
#[test]
fn histories_of_agents_render_everywhere() {
    let call = json!({"id": null, "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"CITY\"}"}});
    let history = json!([
        {"role": "developer", "content": "RULES"},
        {"role": "system", "content": [{"type": "text", "text": "MORE"}]},
        {"role": "user", "content": [{"type": "text", "text": "QUESTION"}]},
        {"role": "assistant", "content": null, "reasoning": "THOUGHT", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": null, "content": [{"type": "text", "text": "RESULT"}]},
        {"role": "assistant", "content": "ANSWER"},
        {"role": "system", "content": "LATE"},
        {"role": "user", "content": "AGAIN", "name": null},
    ]);
    for name in ALL {
        for tools in [vec![], vec![weather()]] {
            let text = render(name, history.clone(), &tools);
            let mut wanted =
                vec!["RULES", "MORE", "QUESTION", "RESULT", "ANSWER", "LATE", "AGAIN", "get_weather", "CITY"];
            if name == "microsoft-Phi-3.5-mini-instruct" && tools.is_empty() {
                assert!(text.contains("<tool_response>\nRESULT\n</tool_response>"));
            }
            if !tools.is_empty() {
                wanted.push("city");
            }
            for word in wanted {
                assert!(text.contains(word), "{name}: {word} is missing in {text}");
            }
        }
    }
}

#[test]
fn reasoning_of_the_last_turns_is_kept() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}});
    let turn = |thought: &str, key: &str| json!({"role": "assistant", "content": "", key: thought, "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "1"});
    for key in ["reasoning_content", "reasoning", "thinking"] {
        let text =
            render(QWEN3, json!([user("x"), turn("FIRST", key), result, turn("SECOND", key), result]), &[]);
        assert!(
            text.contains("<think>\nFIRST\n</think>") && text.contains("<think>\nSECOND\n</think>"),
            "{text}"
        );
    }
}

#[test]
fn templates_without_tools_are_told_about_them() {
    for (name, example) in [
        (
            DEMO,
            "<tool_call>\n{\"name\": \"function name\", \"arguments\": {\"argument name\": \"value\"}}\n</tool_call>",
        ),
        (R1, "<｜tool▁call▁begin｜>function<｜tool▁sep｜>function name"),
        (V31, "<｜tool▁call▁begin｜>function name<｜tool▁sep｜>"),
    ] {
        let text = render(name, json!([user("x")]), &[weather()]);
        assert!(text.contains(example) && text.contains("\"get_weather\""), "{text}");
        assert!(!render(name, json!([user("x")]), &[]).contains("function name"));
    }
    let history = json!([user("x"), {"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "a", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "content": "r"}]);
    let text = render(DEMO, history, &[]);
    assert!(
        text.contains("I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"),
        "{text}"
    );
    assert!(text.contains("<|im_start|>user\n<tool_response>\nr\n</tool_response>"), "{text}");
}

#[test]
fn strict_templates_get_turns_that_alternate() {
    let mut strict = caps(DEMO);
    (strict.system, strict.late_system, strict.consecutive_users) = (false, false, false);
    let messages = json!([{"role": "system", "content": "S1"}, {"role": "developer", "content": "S2"}, user("U1"),
        {"role": "assistant", "content": "A"}, {"role": "system", "content": "S3"}, user("U2")]);
    let out = normalise(messages.as_array().expect("a list"), &[], &strict).expect("messages");
    assert_eq!(
        json!(out),
        json!([user("S1\n\nS2\nU1"), {"role": "assistant", "content": "A"}, user("S3\n\nU2")])
    );
    let alone = normalise(&[json!({"role": "system", "content": "S"})], &[], &strict).expect("messages");
    assert_eq!(json!(alone), json!([user("S")]));
}

#[test]
fn ordinary_conversations_pass_unchanged() {
    let messages = json!([{"role": "system", "content": "s"}, user("a"), {"role": "assistant", "content": "b"}, user("c")]);
    for name in ALL {
        assert_eq!(laid_out(name, messages.clone()), messages, "{name}");
    }
    assert_eq!(
        laid_out(GPT, json!([{"role": "developer", "content": "d"}])),
        json!([{"role": "developer", "content": "d"}])
    );
}

#[test]
fn a_begun_reply_goes_on_behind_the_prompt() {
    let think = ThinkTags::detect("</think>");
    let inside = ReplyStart::of("<|im_start|>assistant\n<think>\n", think.as_ref());
    assert_eq!(inside, ReplyStart::Thinking { opened: "<think>\n".to_owned() });
    let closed = ReplyStart::of("assistant\n<think>\n\n</think>\n\n", think.as_ref());
    assert_eq!(closed, ReplyStart::Answering);
    assert_eq!(ReplyStart::of("assistant\n", think.as_ref()), ReplyStart::Fresh);
    let begun = |reasoning: &str, content: Option<&str>| Prefill {
        reasoning: reasoning.to_owned(),
        content: content.map(str::to_owned),
    };
    for (prefill, start, wanted) in [
        (begun("", Some("Whill")), &ReplyStart::Fresh, "Whill"),
        (begun("", Some("Whill")), &closed, "Whill"),
        (begun("", Some("Whill")), &inside, "</think>\n\nWhill"),
        (begun("Hm", Some("Whill")), &inside, "Hm\n</think>\n\nWhill"),
        (begun("Hm", Some("Whill")), &ReplyStart::Fresh, "<think>\nHm\n</think>\n\nWhill"),
        (begun("Hm", None), &inside, "Hm"),
        (begun("Hm", None), &ReplyStart::Fresh, "<think>\nHm"),
    ] {
        assert_eq!(prefill.text(Markup::Hermes, start, think.as_ref()), wanted);
    }
    let fresh = &ReplyStart::Fresh;
    assert_eq!(begun("", Some("a")).text(Markup::Generic, fresh, None), "a");
    let harmony = |prefill: Prefill| prefill.text(Markup::Harmony, fresh, None);
    assert_eq!(harmony(begun("", Some("a"))), "<|channel|>final<|message|>a");
    assert_eq!(harmony(begun("t", None)), "<|channel|>analysis<|message|>t");
    assert_eq!(
        harmony(begun("t", Some("a"))),
        "<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>final<|message|>a"
    );
}
