//! Chat templates against what transformers renders, and against hostile templates.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bloomery_core::chat::{ChatRequest, ChatTemplate, DateTime, FUEL, MAX_OUTPUT, TemplateError};
use bloomery_gguf::{Array, Metadata, Value as Meta};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn data(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/chat").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parsed(name: &str) -> Value {
    serde_json::from_str(&data(name)).expect(name)
}

/// The moment that the expected texts were rendered at.
fn now() -> DateTime {
    "2026-03-07T04:05:06.000078".parse().expect("a date and a time")
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, "<s>", "</s>").expect(source)
}

fn user(content: &str) -> ChatRequest {
    ChatRequest { messages: vec![json!({"role": "user", "content": content})], ..ChatRequest::default() }
}

fn outcome(source: &str, request: &ChatRequest) -> Value {
    match ChatTemplate::new(source, "<s>", "</s>").and_then(|template| template.render(request)) {
        Ok(text) => json!({ "ok": text }),
        Err(TemplateError::Raised { message, .. }) => json!({ "raised": message }),
        Err(_) => json!({ "error": true }),
    }
}

/// What transformers did, without the class of a Python error.
fn expectation(case: &Value) -> Value {
    match (&case["ok"], &case["raised"]) {
        (Value::String(text), _) => json!({ "ok": text }),
        (_, Value::String(message)) => json!({ "raised": message }),
        _ => json!({ "error": true }),
    }
}

#[test]
fn templates_of_models_render_as_transformers_renders_them() {
    let requests = parsed("requests.json");
    let cases = list(&parsed("expected.json"));
    assert!(cases.len() > 500);
    for case in cases {
        let text = |key: &str| case[key].as_str().unwrap();
        let request = ChatRequest {
            messages: list(&requests["conversations"][text("conversation")]),
            tools: list(&requests["tools"][text("tools")]),
            add_generation_prompt: case["generation"] == true,
            kwargs: requests["kwargs"][text("kwargs")].as_object().cloned().unwrap(),
            now: Some(now()),
            ..ChatRequest::default()
        };
        let source = data(&format!("templates/{}", text("template")));
        let place =
            format!("{} {} {} {}", text("template"), text("conversation"), text("tools"), text("kwargs"));
        assert_eq!(outcome(&source, &request), expectation(&case), "{place}");
    }
}

#[test]
fn every_construct_renders_as_transformers_renders_it() {
    let requests = parsed("requests.json");
    let request = ChatRequest {
        messages: list(&requests["conversations"]["end_assistant"]),
        tools: list(&requests["tools"]["one"]),
        add_generation_prompt: true,
        kwargs: Map::new(),
        now: Some(now()),
        ..ChatRequest::default()
    };
    for snippet in list(&parsed("snippets.json")) {
        let source = snippet["template"].as_str().unwrap();
        let ours = outcome(source, &request);
        match snippet.get("ours") {
            None => assert_eq!(ours, expectation(&snippet), "{source}"),
            Some(known) => {
                assert_eq!(&ours, known, "{source}: a known difference has changed");
                assert_ne!(ours, expectation(&snippet), "{source}: no difference any more");
            }
        }
    }
}

#[test]
fn refusals_carry_line_and_message_of_the_template() {
    let source = "{% for m in messages %}\n{% if m.role != 'user' %}\n{{ raise_exception('no ' + m.role) }}{% endif %}{% endfor %}";
    let mut request = user("x");
    request.messages.push(json!({"role": "critic"}));
    match template(source).render(&request) {
        Err(TemplateError::Raised { line: 3, message, template }) => {
            assert_eq!((message.as_str(), template.as_str()), ("no critic", "default"));
        }
        other => panic!("{other:?}"),
    }
    match template("\n\n{{ messages[9].role }}").render(&request) {
        Err(error @ TemplateError::Render { line: 3, .. }) => {
            assert!(error.to_string().contains("line 3"), "{error}")
        }
        other => panic!("{other:?}"),
    }
    match ChatTemplate::new("a\n{% if %}", "", "") {
        Err(TemplateError::Syntax { line: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_that_are_no_conversation_are_refused() {
    let template = template("{{ messages }}");
    let render = |messages: Vec<Value>| template.render(&ChatRequest { messages, ..ChatRequest::default() });
    assert!(matches!(render(vec![]), Err(TemplateError::NoMessages)));
    let empty = ChatRequest { allow_empty: true, ..ChatRequest::default() };
    assert_eq!(template.render(&empty).unwrap(), "[]");
    let error = render(vec![json!({}), json!("hi")]);
    assert!(
        matches!(error, Err(TemplateError::MessageNotObject { index: 1, found: "a string" })),
        "{error:?}"
    );
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let error = render(vec![json!({ "content": deep })]);
    assert!(
        matches!(error, Err(TemplateError::RequestTooDeep { place: "messages", limit: 128 })),
        "{error:?}"
    );
}

#[test]
fn absent_tokens_are_undefined_and_kwargs_win() {
    let source = "{{ bos_token is defined }}{{ eos_token }}{{ x|default('-') }}{{ tools is none }}{{ documents is none }}";
    assert_eq!(ChatTemplate::new(source, "", "E").unwrap().render(&user("")).unwrap(), "FalseE-TrueTrue");
    let mut request = user("");
    request.kwargs = json!({"eos_token": "K", "x": 1, "documents": []}).as_object().cloned().unwrap();
    assert_eq!(template(source).render(&request).unwrap(), "TrueK1TrueFalse");
}

#[test]
fn messages_are_cleaned_up_before_the_template_sees_them() {
    // Printed by transformers 5.24.0.
    for (message, wanted) in [
        (json!({"content": null, "role": "a"}), "{'role': 'a'}"),
        (
            json!({"role": "a", "reasoning": "r"}),
            "{'thinking': 'r', 'role': 'a', 'reasoning': 'r', 'reasoning_content': 'r'}",
        ),
        (
            json!({"reasoning_content": "c", "role": "a"}),
            "{'thinking': 'c', 'reasoning_content': 'c', 'role': 'a'}",
        ),
        (
            json!({"role": "a", "thinking": "t", "reasoning_content": "c"}),
            "{'thinking': 't', 'role': 'a', 'reasoning_content': 'c'}",
        ),
    ] {
        let request = ChatRequest { messages: vec![message], ..ChatRequest::default() };
        assert_eq!(template("{{ messages[0] }}").render(&request).unwrap(), wanted);
    }
}

#[test]
fn the_clock_is_injected_or_the_systems() {
    let template = template("{{ strftime_now('%Y-%m-%d %H:%M') }}");
    assert_eq!(template.render(&ChatRequest { now: Some(now()), ..user("") }).unwrap(), "2026-03-07 04:05");
    assert!(template.render(&user("")).unwrap().as_str() > "2025");
}

fn metadata(pairs: &[(&str, Meta)]) -> Metadata {
    Metadata::from_pairs(pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())))
        .expect("no key twice")
}

#[test]
fn a_file_gives_its_default_template_and_its_variants() {
    let text = |text: &str| Meta::String(text.to_owned());
    let names =
        |names: &[&str]| Meta::Array(Array::String(names.iter().map(|name| (*name).to_owned()).collect()));
    assert!(ChatTemplate::from_metadata(&metadata(&[]), "", "").unwrap().is_none());

    let both = metadata(&[
        ("tokenizer.chat_template", text("D")),
        ("tokenizer.chat_templates", names(&["default", "tool_use"])),
        ("tokenizer.chat_template.tool_use", text("T{{ tools|length }}")),
        ("tokenizer.chat_template.rag", text("R")),
    ]);
    let template = ChatTemplate::from_metadata(&both, "", "").unwrap().unwrap();
    assert_eq!(template.names(), ["default", "tool_use", "rag"]);
    assert_eq!(template.render(&user("")).unwrap(), "D");
    assert_eq!(template.render(&ChatRequest { tools: vec![json!({})], ..user("") }).unwrap(), "T1");

    let only = metadata(&[("tokenizer.chat_template.special", text("S"))]);
    let template = ChatTemplate::from_metadata(&only, "", "").unwrap().unwrap();
    match template.render(&user("")) {
        Err(TemplateError::NoDefault { names }) => assert_eq!(names, ["special"]),
        other => panic!("{other:?}"),
    }

    for broken in [
        metadata(&[("tokenizer.chat_template", Meta::U32(1))]),
        metadata(&[("tokenizer.chat_templates", names(&["tool_use"]))]),
    ] {
        assert!(matches!(ChatTemplate::from_metadata(&broken, "", ""), Err(TemplateError::Metadata(_))));
    }
}

/// Renders on a thread with the stack of a test, and fails when it takes long.
fn hostile(source: &str) -> TemplateError {
    let start = Instant::now();
    let result = ChatTemplate::new(source, "", "").and_then(|template| template.render(&user("x")));
    let error = result.expect_err(source);
    // A budget takes one to five seconds of an optimised build; this is for a machine under load.
    assert!(start.elapsed() < Duration::from_secs(120), "{source}: {:?}", start.elapsed());
    error
}

#[test]
fn endless_work_runs_out_of_fuel() {
    for source in [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{{ 'a' * 100000000000 }}",
        "{{ ('a' * 1000000).replace('', 'b' * 1000000) }}",
        "{{ '1'.zfill(100000000000) }}",
        "{{ '1\n2'|indent(100000000000) }}",
    ] {
        let error = hostile(source);
        assert!(
            matches!(error, TemplateError::OutOfFuel { limit, .. } if limit >= FUEL),
            "{source}: {error:?}"
        );
    }
}

#[test]
fn output_is_capped() {
    let error = hostile("{% set s = 'x' * 10000000 %}{{ s }}{{ s }}{{ s }}{{ s }}{{ s }}{{ s }}{{ s }}");
    assert!(matches!(error, TemplateError::OutputTooLong { limit: MAX_OUTPUT, .. }), "{error:?}");
}

#[test]
fn recursion_is_limited() {
    for source in [
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% include 'default' %}",
        "{% block a %}{{ self.a() }}{% endblock %}",
    ] {
        let error = hostile(source);
        assert!(matches!(error, TemplateError::TooDeep { limit: 500, .. }), "{source}: {error:?}");
    }
}

#[test]
fn values_that_nest_or_double_without_end_are_refused() {
    for (body, uses) in [
        ("[ns.x]", "{{ ns.x }}"),
        ("{'a': ns.x}", "{{ ns.x|tojson }}"),
        ("(ns.x, 1)", "{{ ns.x ~ '' }}"),
        ("[ns.x, ns.x]", "{{ ns.x ~ '' }}"),
        ("[ns.x, ns.x]", "{{ ns.x == ns.x }}"),
        ("ns", "{{ ns ~ '' }}"),
        ("[ns]", "{{ ns == namespace() }}"),
    ] {
        let source = format!(
            "{{% set ns = namespace(x=[1]) %}}{{% for i in range(90000) %}}{{% set ns.x = {body} %}}{{% endfor %}}{uses}"
        );
        match hostile(&source) {
            TemplateError::Render { message, .. } => {
                assert!(message.contains("cannot keep"), "{source}: {message}")
            }
            TemplateError::OutOfFuel { .. } => {}
            other => panic!("{source}: {other:?}"),
        }
    }
}

#[test]
fn expressions_without_end_do_not_overflow_the_stack() {
    for (start, again, end) in [
        ("{{ ", "not ", "1 }}"),
        ("{{ ", "-", "1 }}"),
        ("{{ 1", " + 1", " }}"),
        ("{{ 1", " ~ 1", " }}"),
        ("{{ x", ".a", " }}"),
        ("{{ 1", "|string", " }}"),
        ("{{ 1", " if 1 else 1", " }}"),
        ("{{ ", "(", "1 }}"),
        ("{% if 0 %}", "{% elif 0 %}", "{% endif %}"),
        ("", "{% if 1 %}", ""),
        ("", "{% for i in [1] %}", ""),
    ] {
        let error = hostile(&format!("{start}{}{end}", again.repeat(20_000)));
        assert!(
            matches!(error, TemplateError::TooLarge { .. } | TemplateError::Syntax { .. }),
            "{again}: {error:?}"
        );
    }
}

#[test]
fn no_namespace_contains_itself() {
    for source in [
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns ~ '' }}",
        "{% set ns = namespace() %}{% set ns.a = [{'b': ns}] %}{{ ns == namespace(a=1) }}",
        "{% set ns = namespace() %}{% set n = namespace(b=ns) %}{% set ns.a = n %}{{ {ns: 1} }}",
    ] {
        match hostile(source) {
            TemplateError::Render { message, .. } => {
                assert!(message.contains("namespace inside"), "{message}")
            }
            other => panic!("{source}: {other:?}"),
        }
    }
}

/// Pieces that put together make templates, some of them valid.
const PIECES: [&str; 56] = [
    "{% for m in messages %}",
    "{% for i in range(9) %}",
    "{% for k, v in tools %}",
    "{% for x in none %}",
    "{% endfor %}",
    "{% if m.role == 'user' %}",
    "{% if x %}",
    "{% elif y is defined %}",
    "{% else %}",
    "{% endif %}",
    "{% set x = 1 %}",
    "{% set x %}",
    "{% endset %}",
    "{% set ns = namespace(a=[]) %}",
    "{% set ns.a = ns.a + [ns.a] %}",
    "{% set ns.a = ns %}",
    "{% set x = [x, x] %}",
    "{% macro f(a, b=2) %}",
    "{% endmacro %}",
    "{{ f(1) }}",
    "{{ f(x) }}",
    "{% call f(1) %}",
    "{% endcall %}",
    "{% generation %}",
    "{% endgeneration %}",
    "{% break %}",
    "{% continue %}",
    "{% raw %}",
    "{% endraw %}",
    "{% with a = x %}",
    "{% endwith %}",
    "{{ m.content }}",
    "{{ m['content'][::-1] }}",
    "{{ messages|tojson(indent=2) }}",
    "{{ x|tojson }}",
    "{{ messages[0].content.split('a', 1)[-1].strip() }}",
    "{{ messages[-1].items()|list }}",
    "{{ m.get('role', {}) }}",
    "{{ raise_exception(m) }}",
    "{{ strftime_now('%Y%') }}",
    "{{ x ~ m ~ ns }}",
    "{{ 1 // 0 }}",
    "{{ 'é'.center(9).title()[1:-1] }}",
    "{{ '%s'|format(x) }}",
    "{{ loop.index }}",
    "{{ ",
    " }}",
    "{% ",
    " %}",
    "{#",
    "#}",
    "{%-",
    "-%}",
    "\n  ",
    "'",
    "é\u{2028}\0",
];

fn arbitrary_template() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..24).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
        1 => "[{}%# a-z0-9'\"()\\[\\]|.,~=+*-]{0,60}",
    ]
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            Just("role".to_owned()),
            Just("content".to_owned()),
            Just("items".to_owned()),
            any::<String>()
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key, inner), 0..4)
                .prop_map(|fields| Value::from(Map::from_iter(fields))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_everything_ends(
        source in arbitrary_template(),
        messages in proptest::collection::vec(arbitrary_json(), 0..5),
        tools in proptest::collection::vec(arbitrary_json(), 0..3),
        add_generation_prompt in any::<bool>(),
    ) {
        let request = ChatRequest { messages, tools, add_generation_prompt, now: Some(now()), kwargs: Map::new(), allow_empty: false };
        let start = Instant::now();
        if let Ok(template) = ChatTemplate::new(&source, "<s>", "</s>") {
            let _ = template.render(&request);
        }
        prop_assert!(start.elapsed() < Duration::from_secs(60));
    }
}
