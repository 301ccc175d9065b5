//! Descriptions made to be dear: each is compiled or refused soon, on the stack of a small thread.

use std::fmt::Write;
use std::time::{Duration, Instant};

use bloomery_core::constrain::{Constraint, Grammar, GrammarError, Next};
use serde_json::{Value, json};

use crate::support::engine;

fn compile(name: &str, grammar: &Grammar) -> Result<Box<dyn Constraint>, GrammarError> {
    engine();
    let begin = Instant::now();
    let compiled = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        let handle = thread.spawn_scoped(scope, || {
            let mut compiled = engine().constraint(grammar)?;
            // The first mask is part of the price.
            let _ = compiled.next();
            Ok(compiled)
        });
        handle.expect("a thread").join().expect("no panic")
    });
    let took = begin.elapsed();
    // Each takes half a second at most. More is allowed for a machine that has other work.
    assert!(took < Duration::from_secs(5), "{name} took {took:?}");
    compiled
}

/// Either outcome is fine, time and stack are not.
fn survives(name: &str, grammar: &Grammar) {
    let _ = compile(name, grammar);
}

fn refused(name: &str, grammar: &Grammar) {
    assert!(compile(name, grammar).is_err(), "{name} was compiled");
}

fn repeated(text: &str, times: usize, between: &str) -> String {
    vec![text; times].join(between)
}

#[test]
fn grammars() {
    let words: Vec<String> = (0..10_000).map(|n| format!("\"word{n}\"")).collect();
    survives("10000 words", &Grammar::gbnf(format!("root ::= {}", words.join(" | "))));
    survives("10000 words in a cycle", &Grammar::gbnf(format!("root ::= ({}) root?", words.join(" | "))));
    let rules: String = (0..3_999).map(|n| format!("r{n} ::= \"word{n}\"\n")).collect();
    let names: Vec<String> = (0..3_999).map(|n| format!("r{n}")).collect();
    survives("4000 rules", &Grammar::gbnf(format!("root ::= {}\n{rules}", names.join(" | "))));
    survives(
        "4000 rules in a cycle",
        &Grammar::gbnf(format!("root ::= ({}) root?\n{rules}", names.join(" | "))),
    );
    let deep = format!("root ::= {}\"a\"{}", repeated("(", 10_000, ""), repeated(")", 10_000, ""));
    refused("10000 groups", &Grammar::gbnf(deep));
    let deep = format!("root ::= {}\"a\"{}", repeated("(\"x\" ", 90, ""), repeated(")*", 90, ""));
    survives("90 repeated groups", &Grammar::gbnf(deep));
    let mut chain: String = (0..3_998).fold("root ::= r0\n".to_owned(), |mut chain, n| {
        let _ = writeln!(chain, "r{n} ::= \"a\" r{} | root \"b\"", n + 1);
        chain
    });
    chain += "r3998 ::= \"c\"\n";
    survives("a chain of 4000 rules", &Grammar::gbnf(chain));
    let mut double = "root ::= r0\n".to_owned();
    (0..100).for_each(|n| writeln!(double, "r{n} ::= r{0} r{0}", n + 1).expect("a string"));
    double += "r100 ::= \"a\"\n";
    refused("2 to the 100 letters", &Grammar::gbnf(double));
    refused("repetition", &Grammar::gbnf("root ::= [a-z]{0,1000000}"));
    refused("nested repetition", &Grammar::gbnf("root ::= (([a-z]{0,2000}){0,2000}){0,2000}"));
    survives("repetition of 1000s", &Grammar::gbnf("root ::= ([a-z]{1,1000} \" \"){1,900}"));
    survives(
        "repetition of rules",
        &Grammar::gbnf("root ::= x{0,2000}\nx ::= \"a\" | \"(\" x{0,2000} \")\""),
    );
    survives("empty repetition", &Grammar::gbnf("root ::= ((\"a\"*)*)* (\"\"*)+ root?"));
    survives("ambiguous", &Grammar::gbnf("root ::= root root | \"a\" | \"a\" root \"a\" | \"\""));
    refused("endless", &Grammar::gbnf("root ::= \"a\" root"));
    refused("long", &Grammar::gbnf(repeated("# nothing\n", 300_000, "")));
}

#[test]
fn schemas() {
    let schema = |value: &Value| Grammar::json_schema(value);
    let words: Vec<String> = (0..10_000).map(|n| format!("word {n}")).collect();
    survives("10000 values", &schema(&json!({"enum": words})));
    let consts: Vec<Value> = words.iter().map(|word| json!({"const": word})).collect();
    survives("10000 branches", &schema(&json!({"oneOf": consts})));
    let objects: Vec<Value> = words
        .iter()
        .map(|word| json!({"properties": {"kind": {"const": word}}, "required": ["kind"]}))
        .collect();
    survives("10000 objects", &schema(&json!({"anyOf": objects})));
    survives("10000 parts", &schema(&json!({"allOf": objects})));
    let properties: serde_json::Map<String, Value> =
        words.iter().map(|word| (word.clone(), json!({"type": "string"}))).collect();
    survives("10000 properties", &schema(&json!({"properties": properties})));
    survives(
        "10000 open properties",
        &schema(&json!({"properties": properties, "additionalProperties": true})),
    );
    let deep = (0..90).fold(json!({}), |inner, _| json!({"items": inner}));
    survives("90 levels", &schema(&deep));
    let mut definitions = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"anyOf": [next, next], "type": "object"}));
    }
    definitions.insert("d60".to_owned(), json!({"type": "object"}));
    survives("2 to the 60 branches", &schema(&json!({"$ref": "#/$defs/d0", "$defs": definitions})));
    let mut definitions = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("d60".to_owned(), json!({"type": "object", "minProperties": 1}));
    survives("2 to the 60 parts", &schema(&json!({"$ref": "#/$defs/d0", "$defs": definitions})));
    refused("itself", &schema(&json!({"$ref": "#"})));
    survives("itself in parts", &schema(&json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]})));
    survives(
        "long text",
        &schema(&json!({"type": "string", "minLength": 1_000_000, "maxLength": 1_000_000})),
    );
    survives(
        "many items",
        &schema(
            &json!({"type": "array", "minItems": 1_000_000, "items": {"type": "string", "maxLength": 1000}}),
        ),
    );
    survives(
        "pattern",
        &schema(&json!({"type": "string", "pattern": "^(([a-z]{1,1000}){1,1000}){1,1000}$"})),
    );
    survives(
        "pattern of choices",
        &schema(&json!({"type": "string", "pattern": "(a|b|c|ab|bc|abc)*d{1000}[^e]{1000}f"})),
    );
    survives(
        "pattern and format",
        &schema(&json!({"type": "string", "format": "uri", "pattern": "^.*x.{500}$", "maxLength": 2000})),
    );
    survives(
        "nested pattern",
        &schema(
            &json!({"type": "string", "pattern": format!("{}a{}", repeated("(", 10_000, ""), repeated(")*", 10_000, ""))}),
        ),
    );
    survives("multiples", &schema(&json!({"type": "number", "multipleOf": 1e-300, "maximum": 1e300})));
}

#[test]
fn schemas_that_are_softened() {
    let bad = |n: usize| json!({"type": "string", "pattern": format!("(?={n})")});
    let properties: serde_json::Map<String, Value> = (0..3000).map(|n| (format!("p{n}"), bad(n))).collect();
    assert!(compile("3000 bad patterns", &Grammar::lenient(&json!({"properties": properties}))).is_ok());
    let unsatisfiable: Vec<Value> =
        (0..1000).map(|n| json!({"type": "integer", "minimum": n + 1, "maximum": n})).collect();
    assert!(compile("1000 bad parts", &Grammar::lenient(&json!({"prefixItems": unsatisfiable}))).is_ok());
    let heavy = json!({"type": "string", "pattern": "^.*x.{5000}y.{5000}$"});
    let properties: serde_json::Map<String, Value> =
        (0..100).map(|n| (format!("p{n}"), heavy.clone())).collect();
    assert!(compile("heavy patterns", &Grammar::lenient(&json!({"properties": properties}))).is_ok());
}

#[test]
fn too_deep_to_be_written_out() {
    let builder = std::thread::Builder::new().stack_size(64 << 20);
    let handle = builder.spawn(|| {
        let deep = (0..10_000)
            .fold(json!({}), |inner, _| Value::Object([("items".to_owned(), inner)].into_iter().collect()));
        refused("10000 levels", &Grammar::json_schema(&deep));
        assert!(compile("10000 lenient levels", &Grammar::lenient(&deep)).is_ok());
    });
    handle.expect("a thread").join().expect("no overflow");
}

#[test]
fn expressions_and_lark() {
    survives("long expression", &Grammar::regex(repeated("(a|b)*", 10_000, "c")));
    survives(
        "nested expression",
        &Grammar::regex(format!("{}a{}", repeated("(", 10_000, ""), repeated(")*", 10_000, ""))),
    );
    survives("big expression", &Grammar::regex("((a{1000}){1000}){1000}"));
    survives("states", &Grammar::regex(".*a.{2000}b.*"));
    refused("unbalanced", &Grammar::regex("(a"));
    refused("lookahead", &Grammar::regex("(?=a)b"));
    let mut chain: String = (0..9_900).fold("start: r0\n".to_owned(), |mut chain, n| {
        let _ = writeln!(chain, "r{n}: \"a\" r{}", n + 1);
        chain
    });
    chain += "r9900: \"b\"\n";
    survives("a chain of 9900 rules", &Grammar::lark(chain));
    let mut chain: String = (0..9_900).fold("start: T0\n".to_owned(), |mut chain, n| {
        let _ = writeln!(chain, "T{n}: \"a\" T{}", n + 1);
        chain
    });
    chain += "T9900: \"b\"\n";
    survives("a chain of 9900 terminals", &Grammar::lark(chain));
    refused("nothing", &Grammar::lark(""));
    refused("no schema", &Grammar::lark("start: %json {"));
    refused("no token", &Grammar::lark("start: <|nothing|>"));
    refused("many rules", &Grammar::lark(repeated("a: \"b\"\n", 15_000, "")));
}

#[test]
fn masks_of_dear_grammars_end() {
    let grammar = Grammar::gbnf("root ::= root root | [a-z ] | [a-z ] root [a-z ]");
    let mut constraint = compile("ambiguous", &grammar).expect("a small grammar");
    let begin = Instant::now();
    for _ in 0..64 {
        let id = match constraint.next() {
            Ok(Next::Among(mask)) => (0..).find(|&id| crate::support::allowed(mask, id)).expect("a token"),
            _ => break,
        };
        if constraint.accept(id).is_err() {
            break;
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}
