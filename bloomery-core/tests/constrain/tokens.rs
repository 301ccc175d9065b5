//! Control tokens and token literals.

use bloomery_core::constrain::{Grammar, Next};
use bloomery_core::tokenizer::TokenKind;

use crate::support::{allowed, constraint, engine, ids, may_end};

#[test]
fn grammars_write_no_control_tokens() {
    let tokenizer = engine().tokenizer();
    for grammar in [
        Grammar::gbnf("root ::= .*"),
        Grammar::regex("(?s:.)*"),
        Grammar::json_schema(&serde_json::json!({"type": "string"})),
    ] {
        let mut constraint = constraint(&grammar);
        constraint.accept(ids("\"")[0]).expect("a quote");
        let end = may_end(constraint.as_mut());
        let Ok(Next::Among(mask)) = constraint.next() else { panic!("no mask") };
        for id in 0..tokenizer.vocab_size() as u32 {
            let is_end = tokenizer.is_end_of_generation(id);
            if tokenizer.kind(id) == Some(TokenKind::Control) || is_end {
                assert_eq!(allowed(mask, id), is_end && end, "{:?} under {grammar:?}", tokenizer.piece(id));
            }
        }
    }
}

#[test]
fn literals_name_tokens() {
    let tokenizer = engine().tokenizer();
    let id = tokenizer.id("<|im_start|>").expect("a control token");
    let mut named = constraint(&Grammar::gbnf("root ::= \"a\" <|im_start|> \"b\""));
    named.accept(ids("a")[0]).expect("a letter");
    assert_eq!(named.next(), Ok(Next::Only(id)));
    named.accept(id).expect("the token");
    assert_eq!(named.next(), Ok(Next::Only(ids("b")[0])));

    let [letter] = ids("e")[..] else { panic!("not one token") };
    let mut others = constraint(&Grammar::gbnf(format!("root ::= !<[{letter}]>* <[{letter}]> \"!\"")));
    let Ok(Next::Among(mask)) = others.next() else { panic!("no mask") };
    let end = tokenizer.end_of_generation()[0];
    assert!(allowed(mask, letter) && allowed(mask, id) && allowed(mask, ids("a")[0]) && !allowed(mask, end));
    for token in [ids("a")[0], ids("!")[0], letter] {
        others.accept(token).expect("an allowed token");
    }
    assert_eq!(others.next(), Ok(Next::Only(ids("!")[0])));
    assert!(others.accept(letter).is_err());
}

#[test]
fn the_end_is_allowed_where_the_text_may_end() {
    let end = engine().tokenizer().end_of_generation()[0];
    let mut constraint = constraint(&Grammar::gbnf("root ::= \"a\"+"));
    assert!(!may_end(constraint.as_mut()));
    assert!(constraint.accept(end).is_err());
    let mut constraint = crate::support::constraint(&Grammar::gbnf("root ::= \"a\"+"));
    constraint.accept(ids("a")[0]).expect("a letter");
    assert!(may_end(constraint.as_mut()));
    constraint.accept(end).expect("the end");
    assert_eq!(constraint.next(), Ok(Next::End));
}

#[test]
fn a_complete_value_ends_without_space() {
    let mut object = constraint(&Grammar::json_object());
    ids("{}").into_iter().for_each(|id| object.accept(id).expect("an object"));
    assert_eq!(object.next(), Ok(Next::End));
    let mut number = constraint(&Grammar::json_schema(&serde_json::json!({"type": "integer"})));
    number.accept(ids("1")[0]).expect("a digit");
    assert!(may_end(number.as_mut()) && matches!(number.next(), Ok(Next::Among(_))));
}
