//! Grammars that wait for a text.

use bloomery_core::constrain::{Constraint, ConstraintError, Grammar, Lazy, Next};

use crate::support::{engine, ids, may_end};

fn lazy(triggers: &[&str], grammar: &Grammar, after: bool, then_free: bool) -> Box<dyn Constraint> {
    let triggers = triggers.iter().map(|&text| text.to_owned()).collect();
    let lazy = Lazy { triggers, grammar: grammar.clone(), after, then_free };
    engine().lazy(lazy).expect("a constraint")
}

fn write(constraint: &mut dyn Constraint, text: &str) -> Result<(), ConstraintError> {
    ids(text).into_iter().try_for_each(|id| constraint.accept(id))
}

fn tool() -> Grammar {
    Grammar::lark(
        "start: %json {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]} \"</call>\"",
    )
}

fn tool_with_trigger() -> Grammar {
    Grammar::lark(
        "start: \"<call>\" %json {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]} \"</call>\"",
    )
}

#[test]
fn text_is_free_until_the_trigger() {
    for (grammar, after) in [(tool(), true), (tool_with_trigger(), false)] {
        for then_free in [false, true] {
            let build = || lazy(&["<call>"], &grammar, after, then_free);
            let mut constraint = build();
            write(constraint.as_mut(), "Let me <cal see. ").expect("free text");
            assert_eq!(constraint.next(), Ok(Next::Any));
            assert!(may_end(constraint.as_mut()));
            write(constraint.as_mut(), "<call>").expect("the trigger");
            assert_eq!(constraint.next(), Ok(Next::Only(ids("{")[0])));
            assert!(!may_end(constraint.as_mut()));
            write(constraint.as_mut(), "{\"n\": 12}</call>").expect("a call");
            if then_free {
                assert_eq!(constraint.next(), Ok(Next::Any));
                write(constraint.as_mut(), " and more\n<call>{\"n\":3}</call>").expect("another call");
                assert_eq!(constraint.next(), Ok(Next::Any));
                write(constraint.as_mut(), "<call>").expect("the trigger");
                assert!(write(constraint.as_mut(), "x").is_err());
            } else {
                assert_eq!(constraint.next(), Ok(Next::End));
            }
            let mut constraint = build();
            assert!(write(constraint.as_mut(), "<call>{\"n\": \"12\"}").is_err());
        }
    }
}

#[test]
fn the_first_of_several_triggers_counts() {
    let grammar = Grammar::lark("start: (\"<a>\" | \"[b\") /[0-9]+/ \".\"");
    let mut constraint = lazy(&["<a>", "[b"], &grammar, false, true);
    write(constraint.as_mut(), "x <a [b12. then <a>3.").expect("two calls");
    write(constraint.as_mut(), "<a>").expect("the trigger");
    assert!(write(constraint.as_mut(), ".").is_err());
}

#[test]
fn a_trigger_may_begin_inside_of_a_token() {
    let tokenizer = engine().tokenizer();
    // A token with a space before a word: the word alone is the trigger.
    let token = (0..tokenizer.vocab_size() as u32)
        .find(|&id| {
            let bytes = tokenizer.token_bytes(id, false);
            bytes.len() > 3 && bytes[0] == b' ' && bytes[1..].iter().all(u8::is_ascii_lowercase)
        })
        .expect("a word");
    let word = String::from_utf8(tokenizer.token_bytes(token, false)[1..].to_vec()).expect("text");
    let grammar = Grammar::gbnf(format!("root ::= \"{word}\" \"!\""));
    let mut constraint = lazy(&[&word], &grammar, false, false);
    constraint.accept(token).expect("free text");
    let [mark] = ids("!")[..] else { panic!("not one token") };
    assert_eq!(constraint.next(), Ok(Next::Only(mark)));
    constraint.accept(mark).expect("the only token");
    assert_eq!(constraint.next(), Ok(Next::End));
}

#[test]
fn control_tokens_trigger() {
    let tokenizer = engine().tokenizer();
    let id = tokenizer.id("<|im_start|>").expect("a control token");
    for grammar in [format!("start: <[{id}]> \"x\""), "start: \"<|im_start|>x\"".to_owned()] {
        let mut constraint = lazy(&["<|im_start|>"], &Grammar::lark(grammar), false, false);
        write(constraint.as_mut(), "some text ").expect("free text");
        constraint.accept(id).expect("the trigger");
        assert_eq!(constraint.next(), Ok(Next::Only(ids("x")[0])));
    }
    let mut constraint = lazy(&["<|im_start|>"], &Grammar::gbnf("root ::= \"y\""), false, false);
    let error = constraint.accept(id).expect_err("another beginning").to_string();
    assert!(error.contains("doesn't satisfy the grammar"), "{error}");
}

#[test]
fn there_has_to_be_a_trigger() {
    let lazy = |triggers| Lazy { triggers, grammar: Grammar::json_object(), after: true, then_free: true };
    assert!(engine().lazy(lazy(vec![])).is_err());
    assert!(engine().lazy(lazy(vec![String::new()])).is_err());
}
