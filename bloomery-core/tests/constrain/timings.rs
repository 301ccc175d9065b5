//! Time for a mask on the demo model: `cargo test --release --test constrain -- --ignored --nocapture`.

use std::time::Instant;

use bloomery_core::constrain::{Grammar, Next, Thinking};
use serde_json::json;

use crate::support::{allowed, constraint, engine};

#[test]
#[ignore = "measures; asserts nothing"]
fn masks() {
    let fox = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "kind": {"enum": ["fox", "bear", "owl"]}},
        "required": ["name", "age", "kind"],
    });
    let long = json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 10000}}, "required": ["text"]});
    let pattern = json!({"type": "string", "pattern": "^(\\([0-9]{3}\\))?[0-9]{3}-[0-9]{4}( [a-z]+)*$"});
    let uri = json!({"type": "array", "items": {"type": "string", "format": "uri"}});
    let arithmetic = "root ::= (expr \"=\" term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num | \"(\" ws expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*";
    let cases = [
        ("object of 3 fields", Grammar::json_schema(&fox)),
        ("any object", Grammar::json_object()),
        ("text of 10000", Grammar::json_schema(&long)),
        ("pattern", Grammar::json_schema(&pattern)),
        ("addresses", Grammar::json_schema(&uri)),
        ("arithmetic in GBNF", Grammar::gbnf(arithmetic)),
        ("every character alone", Grammar::gbnf("root ::= [a-z ] root? | [A-Z] root [A-Z]")),
    ];
    for (name, grammar) in cases {
        let start = Instant::now();
        drop(engine().constraint(&grammar));
        let compiled = start.elapsed();
        let (mut masks, mut accepts, mut begins) = (Vec::new(), Vec::new(), Vec::new());
        let mut random = 1_u64;
        for _ in 0..200 {
            let start = Instant::now();
            let mut constraint = constraint(&grammar);
            begins.push(start.elapsed());
            for _ in 0..60 {
                let start = Instant::now();
                let next = constraint.next();
                masks.push(start.elapsed());
                let id = match next {
                    Ok(Next::Among(mask)) => {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let set: Vec<u32> = (0..3328).filter(|&id| allowed(mask, id)).collect();
                        set[(random >> 33) as usize % set.len()]
                    }
                    Ok(Next::Only(id)) => id,
                    _ => break,
                };
                let start = Instant::now();
                let accepted = constraint.accept(id);
                accepts.push(start.elapsed());
                if accepted.is_err() {
                    break;
                }
            }
        }
        for times in [&mut masks, &mut accepts, &mut begins] {
            times.sort_unstable();
        }
        println!(
            "{name}: compiled in {compiled:?}, again in {:?}; mask median {:?}, 99 % {:?}; accept median {:?}, 99 % {:?}; {} masks",
            begins[begins.len() / 2],
            masks[masks.len() / 2],
            masks[masks.len() * 99 / 100],
            accepts[accepts.len() / 2],
            accepts[accepts.len() * 99 / 100],
            masks.len()
        );
    }
    let then = Some(constraint(&Grammar::json_object()));
    let thinking =
        Thinking { start: None, end: "</think>".to_owned(), budget: None, message: String::new(), then };
    let mut thinking = engine().thinking(thinking).expect("a constraint");
    let mut times: Vec<_> = (0..1000)
        .map(|round| {
            let start = Instant::now();
            let _ = thinking.next();
            let time = start.elapsed();
            thinking.accept(300 + round % 100).expect("a thought");
            time
        })
        .collect();
    times.sort_unstable();
    println!("thinking: median {:?}, 99 % {:?}", times[500], times[990]);
}
