//! What random logits write under a grammar always fits it, and the demo model's own answers do.

use bloomery_core::constrain::{Constraint, Grammar, Next};
use bloomery_core::sampling::{Sampler, SamplingParams, Seed};
use bloomery_core::{Logits, Turn};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::support::{accepts, constraint, engine, may_end};

type Check = fn(&str) -> bool;

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::from("no JSON"))
}

/// Grammars, each with what its texts have to be.
fn grammars() -> Vec<(Grammar, Check)> {
    let fox = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130}, "kind": {"enum": ["fox", "bear"]}},
        "required": ["name", "age", "kind"],
    });
    let list = json!({"type": "array", "items": {"type": ["integer", "null"]}, "minItems": 1, "maxItems": 4});
    let code = json!({"type": "object", "properties": {"code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$", "maxLength": 6}}, "required": ["code"]});
    let tuple =
        json!({"prefixItems": [{"type": "boolean"}, {"type": "string", "maxLength": 5}, {"format": "date"}]});
    vec![
        (Grammar::json_schema(&fox), |text| {
            let value = json_of(text);
            value.as_object().is_some_and(|map| map.len() == 3)
                && value["name"].is_string()
                && value["age"].as_u64().is_some_and(|age| age <= 130)
                && ["fox", "bear"].iter().any(|kind| value["kind"] == **kind)
        }),
        (Grammar::json_schema(&list), |text| {
            let value = json_of(text);
            value.as_array().is_some_and(|list| {
                (1..=4).contains(&list.len())
                    && list
                        .iter()
                        .all(|item| item.as_f64().is_some_and(|n| n.fract() == 0.0) || item.is_null())
            })
        }),
        (Grammar::lenient(&code), |text| {
            let value = json_of(text);
            value["code"].as_str().is_some_and(|code| {
                (3..=6).contains(&code.len())
                    && code.chars().take(2).all(|c| c.is_ascii_uppercase())
                    && code.chars().skip(2).all(|c| c.is_ascii_digit())
            })
        }),
        (Grammar::json_schema(&tuple), |text| {
            let value = json_of(text);
            value.as_array().is_some_and(|list| list.len() == 3)
                && value[0].is_boolean()
                && value[1].as_str().is_some_and(|text| text.chars().count() <= 5)
                && value[2].as_str().is_some_and(|date| date.len() == 10)
        }),
        (Grammar::json_object(), |text| json_of(text).is_object()),
        (Grammar::gbnf("root ::= \"(\" root? \")\" | [a-z]+ | \"é\" root"), |text| {
            let text = text.trim_start_matches('é');
            text.chars().all(|c| "()é".contains(c) || c.is_ascii_lowercase())
        }),
        (Grammar::regex("[0-9]{2,4}(-[a-c]+)?"), |text| {
            let digits = text.chars().take_while(char::is_ascii_digit).count();
            let rest = &text[digits..];
            (2..=4).contains(&digits)
                && (rest.is_empty() || rest.len() > 1 && rest[1..].chars().all(|c| ('a'..='c').contains(&c)))
        }),
        (
            Grammar::lark(
                "start: \"call \" NAME \"(\" %json {\"type\": \"integer\", \"minimum\": 1} \")\"\nNAME: /[a-z]{1,8}/",
            ),
            |text| text.starts_with("call ") && text.ends_with(')') && text.contains('('),
        ),
    ]
}

/// Writes until the text is complete; `None` if that takes too long.
fn write(constraint: &mut dyn Constraint, seed: u32, most: usize) -> Option<String> {
    let tokenizer = engine().tokenizer();
    let params = SamplingParams { temperature: 1.0, seed: Seed::Fixed(seed), ..SamplingParams::default() };
    let mut sampler = Sampler::new(&params, 4096).expect("a sampler");
    let mut random = u64::from(seed);
    let mut ids = Vec::new();
    for _ in 0..most {
        let logits: Vec<f32> = (0..tokenizer.vocab_size() as u32)
            .map(|id| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // What closes something is likelier, so that texts come to an end.
                let closes = tokenizer.is_end_of_generation(id)
                    || tokenizer.token_bytes(id, true).iter().any(|byte| b"\"}])".contains(byte));
                (random >> 40) as f32 / (1 << 22) as f32 + if closes { 2.0 } else { 0.0 }
            })
            .collect();
        let id = match constraint.next().expect("a next token") {
            Next::End => return Some(tokenizer.decode(&ids, true)),
            Next::Only(id) => id,
            Next::Any => sampler.sample(&logits, None).expect("a token").id,
            Next::Among(mask) => sampler.sample(&logits, Some(mask)).expect("a token").id,
        };
        constraint.accept(id).unwrap_or_else(|error| panic!("{error}: {id} after {ids:?}"));
        if tokenizer.is_end_of_generation(id) {
            assert_eq!(constraint.next(), Ok(Next::End));
            return Some(tokenizer.decode(&ids, true));
        }
        ids.push(id);
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn random_logits_write_what_fits(seed in any::<u32>()) {
        for (grammar, check) in grammars() {
            if let Some(text) = write(constraint(&grammar).as_mut(), seed, 200) {
                prop_assert!(check(&text), "{text:?} under {grammar:?}");
                prop_assert!(accepts(&grammar, &text), "{text:?} under {grammar:?}");
            }
        }
    }
}

#[test]
fn most_texts_come_to_an_end() {
    for (grammar, _) in grammars() {
        let ended = (0..20).filter(|&seed| write(constraint(&grammar).as_mut(), seed, 200).is_some()).count();
        assert!(ended >= 10, "{ended} of 20 under {grammar:?}");
    }
}

#[test]
fn the_demo_model_answers_in_json() {
    let engine = engine();
    let (grammar, check) = grammars().swap_remove(0);
    let mut constraint = constraint(&grammar);
    let mut session = engine.session().expect("a session");
    let mut sampler = Sampler::new(&SamplingParams { temperature: 0.0, ..SamplingParams::default() }, 4096)
        .expect("a sampler");
    let mut ids = engine
        .tokenizer()
        .encode_prompt("The fox was called", bloomery_core::tokenizer::Specials::Parse)
        .expect("a prompt");
    let mut written = Vec::new();
    for _ in 0..100 {
        let mut turns = [Turn::new(&mut session, &ids, Logits::Last)];
        engine.step(&mut turns).expect("a step");
        let id = match constraint.next().expect("a next token") {
            Next::End => break,
            Next::Only(id) => id,
            Next::Any => panic!("anything goes"),
            Next::Among(mask) => sampler.sample(turns[0].logits(), Some(mask)).expect("a token").id,
        };
        constraint.accept(id).expect("an allowed token");
        written.push(id);
        ids = vec![id];
    }
    let text = engine.tokenizer().decode(&written, false);
    assert!(check(&text), "{text}");
}

#[test]
fn masks_say_what_is_taken() {
    let tokenizer = engine().tokenizer();
    for (grammar, _) in grammars() {
        let mut constraint = constraint(&grammar);
        for step in 0..6 {
            let next = constraint.next().expect("a next token");
            let allowed: Vec<bool> = (0..tokenizer.vocab_size() as u32)
                .map(|id| match next {
                    Next::Any => true,
                    Next::Only(only) => id == only,
                    Next::Among(mask) => crate::support::allowed(mask, id),
                    Next::End => tokenizer.is_end_of_generation(id),
                })
                .collect();
            if next == Next::End {
                break;
            }
            for (id, &allowed) in (0..).zip(&allowed).filter(|(id, _)| !tokenizer.is_end_of_generation(*id)) {
                let mut fork = constraint.fork().expect("a fork");
                assert_eq!(
                    fork.accept(id).is_ok(),
                    allowed,
                    "{:?} in step {step} of {grammar:?}",
                    tokenizer.piece(id)
                );
            }
            let Some(id) =
                (0..).zip(&allowed).filter(|(_, allowed)| **allowed).nth(step * 3).map(|(id, _)| id)
            else {
                break;
            };
            if tokenizer.is_end_of_generation(id) {
                assert!(may_end(constraint.as_mut()));
                break;
            }
            constraint.accept(id).expect("an allowed token");
        }
    }
}
