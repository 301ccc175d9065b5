//! What models write, in every family, cut into pieces in every way.

use std::fs;
use std::path::PathBuf;

use bloomery_server::chat::{
    Call, Delta, Markup, OutputParser, ParserOptions, ReasoningFormat, Reply, ReplyStart, ThinkTags, Tool,
    ToolChoice,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn cases() -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/markup/replies.json");
    let text = fs::read_to_string(&path).expect("replies.json");
    serde_json::from_str::<Vec<Value>>(&text).expect("JSON")
}

fn markup(name: &str) -> Markup {
    Markup::ALL.into_iter().find(|markup| markup.name() == name).expect(name)
}

fn tools() -> Vec<Tool> {
    let tool = |name: &str, parameters| Tool { name: name.to_owned(), description: None, parameters };
    vec![
        tool(
            "get_weather",
            json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"]}),
        ),
        tool("noop", json!({})),
        tool(
            "typed",
            json!({"type": "object", "properties": {
                "city": {"type": "string"}, "days": {"type": "number"}, "flag": {"type": "boolean"},
                "maybe": {"type": ["string", "null"]},
                "scalar": {"anyOf": [{"type": "integer"}, {"type": "boolean"}, {"type": "string"}]},
                "mode": {"enum": ["fast", "slow"]}, "list": {"type": "array"}, "object": {"$ref": "#/$defs/o"},
                "free": {},
            }, "$defs": {"o": {"type": "object"}}}),
        ),
    ]
}

fn options(case: &Value) -> ParserOptions {
    let think = match &case["think"] {
        Value::Bool(true) => ThinkTags::detect("</think>"),
        Value::String(tag) => ThinkTags::detect(tag),
        _ => None,
    };
    let start = match case["start"].as_str() {
        None => ReplyStart::Fresh,
        Some("closed") => ReplyStart::Answering,
        Some(opened) => ReplyStart::Thinking { opened: opened.to_owned() },
    };
    ParserOptions {
        markup: markup(case["markup"].as_str().expect("a name")),
        tools: if case["tools"] == "none" { Vec::new() } else { tools() },
        choice: if case["choice"] == "none" { ToolChoice::None } else { ToolChoice::Auto },
        parallel: case["parallel"] != false,
        reasoning: ReasoningFormat::from_name(case["reasoning_format"].as_str().unwrap_or("auto"))
            .expect("a format"),
        think,
        start,
        prefix: case["prefix"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Everything sent, as a client that reads a stream puts it together.
#[derive(Debug, Default, Clone, PartialEq)]
struct Stream {
    reasoning: String,
    content: String,
    calls: Vec<(String, String, bool)>,
}

impl Stream {
    /// Adds deltas and checks their order.
    fn extend(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => {
                    assert!(!text.is_empty());
                    self.reasoning.push_str(text);
                }
                Delta::Content(text) => {
                    assert!(!text.is_empty());
                    self.content.push_str(text);
                }
                Delta::ToolStart { index, id, name } => {
                    assert_eq!(*index, self.calls.len());
                    assert!(!id.is_empty() && !name.is_empty());
                    self.calls.push((name.clone(), String::new(), false));
                }
                Delta::ToolArguments { index, fragment } => {
                    assert_eq!(*index, self.calls.len() - 1);
                    assert!(!fragment.is_empty() && !self.calls[*index].2);
                    self.calls[*index].1.push_str(fragment);
                }
                Delta::ToolEnd { index } => {
                    let call = &mut self.calls[*index];
                    assert!(!call.2);
                    call.2 = true;
                    let value: Value =
                        serde_json::from_str(&call.1).unwrap_or_else(|error| panic!("{error}: {call:?}"));
                    assert!(value.is_object());
                }
                Delta::ToolBroken { index, .. } => assert!(!self.calls[*index].2),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Whether `self` was sent on the way to `whole`.
    fn leads_to(&self, whole: &Stream) -> bool {
        whole.reasoning.starts_with(&self.reasoning)
            && whole.content.starts_with(&self.content)
            && self.calls.len() <= whole.calls.len()
            && self.calls.iter().zip(&whole.calls).all(|(a, b)| a.0 == b.0 && b.1.starts_with(&a.1))
    }
}

/// Parses pieces; also what was sent before the end was known.
fn parse(options: &ParserOptions, pieces: &[&str]) -> (Stream, Stream, Reply) {
    let mut parser = OutputParser::new(options.clone());
    let (mut stream, mut reply) = (Stream::default(), Reply::default());
    for piece in pieces {
        let deltas = parser.push(piece);
        stream.extend(&deltas);
        reply.extend(deltas);
    }
    let early = stream.clone();
    let deltas = parser.finish();
    stream.extend(&deltas);
    reply.extend(deltas);
    assert_eq!(parser.calls(), stream.calls.iter().filter(|call| call.2).count());
    assert_eq!(parser.started(), stream.calls.len());
    assert_eq!(parser.in_call(), stream.calls.last().is_some_and(|call| !call.2) && stream_is_cut(&reply));
    assert!(parser.finish().is_empty());
    (early, stream, reply)
}

fn stream_is_cut(reply: &Reply) -> bool {
    reply.calls.last().is_some_and(|call| !call.complete)
}

fn chars(text: &str) -> Vec<&str> {
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect()
}

#[test]
fn replies_mean_what_the_table_says() {
    for case in cases() {
        let text = case["text"].as_str().expect("a text");
        println!("{case}");
        let (_, _, reply) = parse(&options(&case), &[text]);
        let calls: Vec<Value> = reply
            .calls
            .iter()
            .map(|call| {
                let arguments = match call.complete {
                    true => serde_json::from_str(&call.arguments).expect("JSON"),
                    false => json!(call.arguments),
                };
                json!([call.name, arguments])
            })
            .collect();
        let found = json!({"content": reply.content, "reasoning": reply.reasoning, "calls": calls});
        let wanted =
            json!({"content": case["content"], "reasoning": case["reasoning"], "calls": case["calls"]});
        assert_eq!(found, wanted, "{case}");
        if let Some(ids) = case["ids"].as_array() {
            let found: Vec<Value> = reply.calls.iter().map(|call| json!(call.id)).collect();
            assert_eq!(&found, ids);
        }
    }
}

#[test]
fn pieces_do_not_matter() {
    for case in cases() {
        let text = case["text"].as_str().expect("a text");
        println!("{case}");
        let options = options(&case);
        let whole = parse(&options, &[text]);
        assert_eq!(parse(&options, &chars(text)).1, whole.1, "{case}");
        for (at, _) in text.char_indices() {
            let (first, second) = text.split_at(at);
            let split = parse(&options, &[first, "", second]);
            assert_eq!((&split.1, &split.2.content), (&whole.1, &whole.2.content), "{at} in {case}");
        }
    }
}

#[test]
fn what_is_sent_early_is_never_taken_back() {
    for case in cases() {
        let text = case["text"].as_str().expect("a text");
        println!("{case}");
        let options = options(&case);
        let (_, whole, _) = parse(&options, &[text]);
        for (at, _) in text.char_indices() {
            let (early, cut, _) = parse(&options, &[&text[..at]]);
            assert!(early.leads_to(&whole), "{at} in {case}: {early:?}");
            assert!(early.leads_to(&cut), "{at} in {case}: {early:?} {cut:?}");
            assert_eq!(parse(&options, &chars(&text[..at])).1, cut, "{at} in {case}");
        }
    }
}

/// Bytes of a long argument that are still withheld at some point of it.
fn withheld(markup: Markup) -> usize {
    let long = "word ".repeat(50);
    let arguments = json!({ "city": long }).as_object().cloned().expect("an object");
    let text = markup.write(&[Call { name: "typed".to_owned(), arguments }]);
    let options = ParserOptions { markup, tools: tools(), ..ParserOptions::default() };
    let start = text.find("word ").expect("the argument");
    let mut worst = 0;
    for at in start + 30..start + 240 {
        let (early, ..) = parse(&options, &[&text[..at]]);
        let sent = early.calls[0].1.matches(['w', 'o', 'r', 'd', ' ']).count();
        worst = worst.max((at - start).saturating_sub(sent));
    }
    worst
}

#[test]
fn arguments_stream_as_they_come() {
    for markup in Markup::ALL {
        assert!(withheld(markup) <= 1, "{markup:?}");
    }
}

#[test]
fn calls_written_are_calls_read() {
    let arguments = json!({"city": "a \"b\"\n<c>", "days": 2, "list": [1, {"x": "y"}], "flag": false});
    let call = |name: &str, arguments: &Value| Call {
        name: name.to_owned(),
        arguments: arguments.as_object().cloned().expect("an object"),
    };
    let calls = [call("typed", &arguments), call("noop", &json!({})), call("typed", &json!({"city": ""}))];
    for markup in Markup::ALL {
        let text = markup.write(&calls);
        let options = ParserOptions { markup, tools: tools(), ..ParserOptions::default() };
        let (_, _, reply) = parse(&options, &chars(&text));
        let read: Vec<Call> = reply
            .calls
            .iter()
            .map(|call| Call {
                name: call.name.clone(),
                arguments: serde_json::from_str::<Map<String, Value>>(&call.arguments).expect("an object"),
            })
            .collect();
        assert_eq!(read, calls, "{markup:?}: {text}");
        assert_eq!(reply.content, "", "{markup:?}: {text}");
    }
}

#[test]
fn ids_have_the_length_that_templates_want() {
    for (markup, len) in [(Markup::Hermes, 32), (Markup::MistralArgs, 9), (Markup::MistralArray, 9)] {
        let text = markup.write(&[Call { name: "noop".to_owned(), arguments: Map::new() }]);
        let options = ParserOptions { markup, tools: tools(), ..ParserOptions::default() };
        let id = parse(&options, &[&text]).2.calls[0].id.clone();
        assert!(id.len() == len && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    }
}

/// Texts made of the pieces of markup, which ordinary random texts never hit.
fn soup() -> impl Strategy<Value = Vec<String>> {
    let mut words: Vec<String> = [
        "{",
        "}",
        "[",
        "]",
        "\"name\"",
        ": ",
        ", ",
        "\"noop\"",
        "\"arguments\"",
        "\n",
        " ",
        "typed",
        "city",
        "5",
        "true",
        "\"",
        "\\",
        "\\u12",
        "<",
        ">",
        "</",
        "é😀",
        "<think>",
        "</think>",
        "```json\n",
        "```",
        "<parameter=",
        "</parameter>",
        "<function=",
        "</function>",
        "\">",
        "function",
        " to=functions.noop",
        "analysis",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "invoke name=\"",
        "parameter name=\"",
        "final",
        "\" string=\"true\">",
        "</｜DSML｜invoke>",
        "</｜DSML｜parameter>",
        ";",
        "{\"name\": \"noop\", \"arguments\": {",
    ]
    .map(str::to_owned)
    .to_vec();
    words.extend(Markup::ALL.iter().flat_map(|markup| markup.markers()).map(str::to_owned));
    prop::collection::vec(prop::sample::select(words), 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn any_text_in_any_pieces(words in soup(), family in 0..Markup::ALL.len(), think in any::<bool>(), start in any::<bool>(),
        format in prop::sample::select(vec!["none", "auto", "deepseek-legacy"]), parallel in any::<bool>()) {
        let text = words.concat();
        let options = ParserOptions {
            markup: Markup::ALL[family],
            tools: tools(),
            parallel,
            reasoning: ReasoningFormat::from_name(format).expect("a format"),
            think: if think { ThinkTags::detect("</think>") } else { None },
            start: if think && start { ReplyStart::Thinking { opened: "<think>".to_owned() } } else { ReplyStart::Fresh },
            ..ParserOptions::default()
        };
        let whole = parse(&options, &[&text]);
        let pieces: Vec<&str> = words.iter().map(String::as_str).collect();
        prop_assert_eq!(&parse(&options, &pieces).1, &whole.1);
        prop_assert_eq!(&parse(&options, &chars(&text)).1, &whole.1);
    }

    #[test]
    fn text_without_markup_is_content(text in "[a-z <>{}\\[\\]\n|/\"é]{0,60}", family in 0..Markup::ALL.len()) {
        let options = ParserOptions { markup: Markup::ALL[family], tools: tools(), ..ParserOptions::default() };
        let (_, _, reply) = parse(&options, &[&text]);
        prop_assert_eq!(reply.content, text);
    }
}
