//! The grammars of calls, run by llguidance on a vocabulary of bytes, of pieces and of control tokens.

use std::sync::Arc;

use bloomery_server::chat::{
    Call, Markup, OutputParser, ParserOptions, Reply, Tool, ToolChoice, ToolGrammar,
};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

/// Tokens of several bytes that cross the borders of rules.
const PIECES: [&str; 16] = [
    "}}",
    "\"}",
    "\"}}",
    "}\n",
    "\n</",
    "</parameter>\n",
    ">\n",
    "\": ",
    ", \"",
    "{\"",
    "</",
    "tool",
    "get_",
    "\"name",
    "name\": \"",
    "\n<",
];

struct Vocabulary {
    factory: ParserFactory,
    words: Vec<Vec<u8>>,
    controls: Vec<(String, u32)>,
}

impl Vocabulary {
    /// `controls`: markers that are control tokens.
    fn new(controls: &[&str]) -> Vocabulary {
        let mut words: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        words.extend(PIECES.iter().map(|piece| piece.as_bytes().to_vec()));
        let mut ids = Vec::new();
        for control in controls.iter().chain(&["<eos>"]) {
            ids.push(((*control).to_owned(), words.len() as u32));
            words.push([b"\xFF", control.as_bytes()].concat());
        }
        let info = TokRxInfo::new(words.len() as u32, words.len() as u32 - 1);
        let env = Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words)));
        let mut factory = ParserFactory::new_simple(&(env as _)).expect("a factory");
        factory.quiet();
        Vocabulary { factory, words, controls: ids }
    }

    fn of(markup: Markup, controls: bool) -> Vocabulary {
        Vocabulary::new(if controls { markup.markers() } else { Vec::new() }.as_slice())
    }

    fn control(&self, text: &str) -> Option<u32> {
        self.controls.iter().find(|(control, _)| control == text).map(|(_, id)| *id)
    }

    /// Ids of a text; control tokens first, then the longest piece.
    fn encode(&self, text: &str, pieces: bool) -> Vec<u32> {
        let (mut ids, mut rest) = (Vec::new(), text.as_bytes());
        while !rest.is_empty() {
            let control = self.controls.iter().filter(|(control, _)| rest.starts_with(control.as_bytes()));
            if let Some((control, id)) = control.max_by_key(|(control, _)| control.len()) {
                ids.push(*id);
                rest = &rest[control.len()..];
                continue;
            }
            // Control tokens are found before the text between them is cut.
            let next = self.controls.iter().filter_map(|(control, _)| find(rest, control.as_bytes())).min();
            let most = if pieces { next.unwrap_or(64) } else { 1 };
            let words = self.words.iter().enumerate();
            let fits = words.filter(|(_, word)| word.len() <= most && rest.starts_with(word));
            let (id, word) = fits.max_by_key(|(_, word)| word.len()).expect("a byte");
            ids.push(id as u32);
            rest = &rest[word.len()..];
        }
        ids
    }

    fn matcher(&self, grammar: &ToolGrammar) -> Matcher {
        let matcher =
            Matcher::new(self.factory.create_parser(TopLevelGrammar::from_lark(grammar.lark.clone())));
        assert_eq!(matcher.get_error(), None, "{}", grammar.lark);
        matcher
    }

    /// Bytes of `text` that the grammar takes, and whether the reply may end there.
    fn run(&self, grammar: &ToolGrammar, text: &str, pieces: bool) -> (usize, bool) {
        let mut matcher = self.matcher(grammar);
        let ids = self.encode(text, pieces);
        let taken = matcher.try_consume_tokens(&ids).expect("a count");
        assert_eq!(matcher.get_error(), None);
        let bytes = ids[..taken]
            .iter()
            .map(|id| self.words[*id as usize].iter().filter(|byte| **byte != 0xFF).count());
        (bytes.sum(), matcher.is_accepting().expect("a state"))
    }

    fn accepts(&self, grammar: &ToolGrammar, text: &str) -> bool {
        let results = [true, false].map(|pieces| self.run(grammar, text, pieces) == (text.len(), true));
        assert_eq!(results[0], results[1], "pieces matter: {text}\n{}", grammar.lark);
        results[0]
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn tools() -> Vec<Tool> {
    let tool = |name: &str, parameters| Tool { name: name.to_owned(), description: None, parameters };
    vec![
        tool(
            "get_weather",
            json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"], "additionalProperties": false}),
        ),
        tool("get", json!({"type": "object", "properties": {}, "additionalProperties": false})),
        tool(
            "edit",
            json!({"type": "object", "properties": {
                "path": {"type": "string"}, "text": {"type": "string"}, "mode": {"enum": ["fast", "slow"]},
                "edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}},
                "flag": {"type": "boolean"}, "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            }, "required": ["path", "edits"], "additionalProperties": false,
            "$defs": {"edit": {"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"],
                "additionalProperties": false}}}),
        ),
    ]
}

fn call(name: &str, arguments: Value) -> Call {
    Call { name: name.to_owned(), arguments: arguments.as_object().cloned().expect("an object") }
}

fn grammar(markup: Markup, choice: &ToolChoice, parallel: bool, vocabulary: &Vocabulary) -> ToolGrammar {
    ToolGrammar::new(markup, &tools(), choice, parallel, &|text| vocabulary.control(text)).expect("tools")
}

/// Calls that fit their schemas.
fn good() -> Vec<Call> {
    vec![
        call("get_weather", json!({"city": "Zürich"})),
        call("get_weather", json!({"city": "a \"b\"\n\n<c> }} \\", "days": -5})),
        call("get", json!({})),
        call("edit", json!({"path": "", "edits": []})),
        call(
            "edit",
            json!({"path": "/x", "text": "fn main() {\n}\n", "edits": [{"at": 1}, {"at": 20}], "flag": true}),
        ),
        call("edit", json!({"path": "p", "mode": "slow", "edits": [], "either": "5 apples"})),
    ]
}

/// Calls that do not.
fn bad() -> Vec<Call> {
    vec![
        call("get_weathe", json!({"city": "A"})),
        call("get_weather2", json!({"city": "A"})),
        call("get_weather", json!({})),
        call("get_weather", json!({"days": 5})),
        call("get_weather", json!({"city": "A", "days": "x"})),
        call("get_weather", json!({"city": "A", "extra": 1})),
        call("get", json!({"a": 1})),
        call("edit", json!({"path": "x", "edits": [{"at": "1"}]})),
        call("edit", json!({"path": "x", "edits": [], "mode": "other"})),
        call("edit", json!({"path": "x", "edits": [], "flag": 1})),
    ]
}

#[test]
fn calls_that_fit_are_accepted_and_others_are_not() {
    for markup in Markup::ALL {
        for controls in [true, false] {
            let vocabulary = Vocabulary::of(markup, controls);
            let forced = grammar(markup, &ToolChoice::Required, true, &vocabulary);
            assert!(forced.forced && forced.triggers.is_empty());
            for call in good() {
                let text = markup.write(&[call]);
                let text = text.strip_suffix("<|call|>").unwrap_or(&text);
                assert!(vocabulary.accepts(&forced, text), "{markup:?} {controls}: {text}\n{}", forced.lark);
                assert!(!vocabulary.accepts(&forced, &format!("Sure. {text}")), "{markup:?}: {text}");
                assert!(!vocabulary.accepts(&forced, &text[..text.len() - 1]), "{markup:?}: {text}");
            }
            for call in bad() {
                let text = markup.write(&[call]);
                assert!(
                    !vocabulary.accepts(&forced, &text),
                    "{markup:?} {controls}: {text}\n{}",
                    forced.lark
                );
            }
            assert!(!vocabulary.accepts(&forced, ""));
        }
    }
}

#[test]
fn several_calls_only_where_they_are_allowed() {
    for markup in Markup::ALL.into_iter().filter(|markup| *markup != Markup::Harmony) {
        let vocabulary = Vocabulary::of(markup, true);
        let text = markup.write(&good());
        let two = markup.write(&good()[..2]);
        let many = grammar(markup, &ToolChoice::Required, true, &vocabulary);
        let single = grammar(markup, &ToolChoice::Required, false, &vocabulary);
        assert!(vocabulary.accepts(&many, &text), "{markup:?}: {text}\n{}", many.lark);
        assert!(!vocabulary.accepts(&single, &two), "{markup:?}: {two}\n{}", single.lark);
        assert!(vocabulary.accepts(&single, &markup.write(&good()[..1])));
    }
}

#[test]
fn a_named_tool_is_the_only_one() {
    for markup in Markup::ALL {
        let vocabulary = Vocabulary::of(markup, true);
        let named = grammar(markup, &ToolChoice::Named("get".to_owned()), true, &vocabulary);
        let write = |call: &Call| markup.write(std::slice::from_ref(call)).replace("<|call|>", "");
        assert!(vocabulary.accepts(&named, &write(&good()[2])), "{markup:?}");
        assert!(!vocabulary.accepts(&named, &write(&good()[0])), "{markup:?}");
        let unknown = ToolChoice::Named("nothing".to_owned());
        assert_eq!(ToolGrammar::new(markup, &tools(), &unknown, true, &|_| None), None);
        assert_eq!(ToolGrammar::new(markup, &tools(), &ToolChoice::None, true, &|_| None), None);
        assert_eq!(ToolGrammar::new(markup, &[], &ToolChoice::Required, true, &|_| None), None);
    }
}

#[test]
fn a_trigger_is_the_first_text_of_its_grammar() {
    for markup in Markup::ALL {
        let vocabulary = Vocabulary::of(markup, true);
        let lazy = grammar(markup, &ToolChoice::Auto, true, &vocabulary);
        assert!(!lazy.forced && !lazy.triggers.is_empty());
        for trigger in &lazy.triggers {
            let (taken, _) = vocabulary.run(&lazy, trigger, false);
            assert_eq!(taken, trigger.len(), "{markup:?} {trigger}\n{}", lazy.lark);
        }
        // The text of a call, from its first trigger on.
        let text = match markup {
            Markup::Llama3 => format!("<|python_tag|>{}", markup.write(&good()[..1])),
            _ => markup.write(&good()[..1]).replace("<|call|>", ""),
        };
        let at =
            lazy.triggers.iter().filter_map(|trigger| text.find(trigger.as_str())).min().expect("a trigger");
        assert!(vocabulary.accepts(&lazy, &text[at..]), "{markup:?}: {}\n{}", &text[at..], lazy.lark);
    }
}

#[test]
fn what_models_write_otherwise_is_accepted_too() {
    let accepts = |markup, text: &str| {
        let vocabulary = Vocabulary::of(markup, true);
        let grammar = grammar(markup, &ToolChoice::Required, true, &vocabulary);
        assert!(vocabulary.accepts(&grammar, text), "{markup:?}: {text}\n{}", grammar.lark);
    };
    accepts(Markup::Harmony, " to=functions.get<|channel|>commentary <|constrain|>json<|message|>{}");
    accepts(Markup::Harmony, "<|start|>assistant<|channel|>commentary to=functions.get json<|message|>{}");
    accepts(Markup::Glm, "<tool_call>get_weather<arg_key>city</arg_key><arg_value>A</arg_value></tool_call>");
    accepts(Markup::QwenXml, "<function=get>\n</function>\n</tool_call>");
    accepts(
        Markup::QwenXml,
        "<tool_call>\n<function=edit>\n<parameter=edits>\n[]\n</parameter>\n<parameter=path>\nx\n</parameter>\n</function>\n</tool_call>",
    );
    accepts(Markup::MistralArray, r#"[TOOL_CALLS][{"name": "get", "arguments": {}, "id": "abcdefghi"}]"#);
    accepts(Markup::DeepSeekV31, "<｜tool▁call▁begin｜>get<｜tool▁sep｜>{}<｜tool▁call▁end｜>");
    accepts(
        Markup::Dsml(bloomery_server::chat::DsmlStyle::V4),
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"edit\">\n<｜DSML｜parameter name=\"path\" string=\"true\">x</｜DSML｜parameter>\n\
         <｜DSML｜parameter name=\"edits\" string=\"false\">[]</｜DSML｜parameter>\n<｜DSML｜parameter name=\"either\" \
         string=\"false\">5</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    );
}

#[test]
fn a_parameter_comes_once() {
    let vocabulary = Vocabulary::of(Markup::QwenXml, true);
    let grammar = grammar(Markup::QwenXml, &ToolChoice::Required, true, &vocabulary);
    let city = "<parameter=city>\nA\n</parameter>\n";
    let text = |body: &str| format!("<tool_call>\n<function=get_weather>\n{body}</function>\n</tool_call>");
    assert!(vocabulary.accepts(&grammar, &text(city)));
    assert!(!vocabulary.accepts(&grammar, &text(&city.repeat(2))));
}

/// Names and texts that need care in a grammar, and tools with very many parameters.
#[test]
fn odd_tools_do_not_break_the_grammar() {
    let many: serde_json::Map<String, Value> =
        (0..80).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let odd = vec![
        Tool { name: "a\"b\\c".to_owned(), description: None, parameters: json!({}) },
        Tool {
            name: "ns::tool/x.y".to_owned(),
            description: None,
            parameters: json!({"type": "object", "properties": {
            "a b\"c": {"type": "string"}, "ü｜": {"enum": ["\"", "\\n", "", "<tool_call>"]}, "": {"type": "integer"},
            "new\nline": {"type": "integer"}, "r": {"$ref": "#/properties/s"}, "s": {"type": "integer"},
        }, "additionalProperties": false}),
        },
        Tool {
            name: "many".to_owned(),
            description: None,
            parameters: json!({"type": "object", "properties": many}),
        },
    ];
    for markup in Markup::ALL {
        for controls in [true, false] {
            let vocabulary = Vocabulary::of(markup, controls);
            let grammar =
                ToolGrammar::new(markup, &odd, &ToolChoice::Required, true, &|text| vocabulary.control(text));
            let grammar = grammar.expect("tools");
            let text = markup.write(&[call("ns::tool/x.y", json!({"a b\"c": "v"}))]).replace("<|call|>", "");
            let tags = matches!(markup, Markup::Dsml(_));
            // A quote ends the name of a parameter there: it cannot be written.
            assert_eq!(vocabulary.accepts(&grammar, &text), !tags, "{markup:?}: {text}\n{}", grammar.lark);
            let text = markup.write(&[call("many", json!({"p79": "v", "p0": "w"}))]).replace("<|call|>", "");
            let ordered =
                markup.write(&[call("many", json!({"p0": "w", "p79": "v"}))]).replace("<|call|>", "");
            assert!([text, ordered].iter().any(|text| vocabulary.accepts(&grammar, text)), "{markup:?}");
        }
    }
}

/// Whatever a grammar lets through is read back as calls that fit their schemas.
#[test]
fn random_walks_are_read_as_calls() {
    let mut seed = 1_u64;
    let mut random = move |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % bound
    };
    for markup in Markup::ALL {
        let vocabulary = Vocabulary::of(markup, true);
        let grammar = grammar(markup, &ToolChoice::Required, true, &vocabulary);
        for _ in 0..3 {
            let mut matcher = vocabulary.matcher(&grammar);
            let mut bytes = Vec::new();
            for step in 0..1500 {
                if matcher.is_accepting().expect("a state") && step > 5 {
                    break;
                }
                let mask = matcher.compute_mask().expect("a mask");
                let allowed: Vec<u32> =
                    (0..vocabulary.words.len() as u32 - 1).filter(|id| mask.is_allowed(*id)).collect();
                // Closing marks are preferred, or texts would go on and on; control characters are left out.
                let closing = allowed.iter().copied().find(|id| {
                    let word = &vocabulary.words[*id as usize];
                    word.starts_with(b"<") || word.starts_with(b"\xFF") || word == b"\"" || word == b"\n"
                });
                let plain: Vec<u32> =
                    allowed.iter().copied().filter(|id| (32..127).contains(id) || *id > 255).collect();
                let id = match closing {
                    Some(id) if random(3) > 0 || plain.is_empty() => id,
                    _ if plain.is_empty() => allowed[random(allowed.len())],
                    _ => plain[random(plain.len())],
                };
                matcher.consume_token(id).expect("allowed");
                bytes.extend(vocabulary.words[id as usize].iter().filter(|byte| **byte != 0xFF));
            }
            if !matcher.is_accepting().expect("a state") {
                continue;
            }
            let text = String::from_utf8(bytes).expect("text");
            let mut parser =
                OutputParser::new(ParserOptions { markup, tools: tools(), ..ParserOptions::default() });
            let mut reply = Reply::default();
            reply.extend(parser.push(&text));
            reply.extend(parser.finish());
            assert!(
                !reply.calls.is_empty() && reply.calls.iter().all(|call| call.complete),
                "{markup:?}: {text} {reply:?}"
            );
            assert_eq!(reply.content, "", "{markup:?}: {text}");
            for call in &reply.calls {
                let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
                let tools = tools();
                let tool = tools.iter().find(|tool| tool.name == call.name).expect("a known tool");
                let required = tool.parameters["required"].as_array().cloned().unwrap_or_default();
                assert!(
                    required.iter().all(|key| arguments.get(key.as_str().expect("a key")).is_some()),
                    "{text}"
                );
            }
        }
    }
}
