//! Thoughts: where they end, how long they may be, and what follows.

use bloomery_core::constrain::{Constraint, Grammar, Next, Thinking};

use crate::support::{allowed, constraint, engine, ids, may_end};

fn thinking(
    start: Option<&str>,
    budget: Option<usize>,
    message: &str,
    then: Option<&Grammar>,
) -> Box<dyn Constraint> {
    let thinking = Thinking {
        start: start.map(str::to_owned),
        end: "</think>".to_owned(),
        budget,
        message: message.to_owned(),
        then: then.map(constraint),
    };
    engine().thinking(thinking).expect("a constraint")
}

/// Writes a text, and only what is allowed.
fn write(constraint: &mut dyn Constraint, text: &str) {
    for id in ids(text) {
        let next = constraint.next().expect("a next token");
        let fits = match next {
            Next::Any => true,
            Next::Among(mask) => allowed(mask, id),
            Next::Only(only) => only == id,
            Next::End => false,
        };
        assert!(fits, "{:?} of {text:?} is not among {next:?}", engine().tokenizer().piece(id));
        constraint.accept(id).expect("an allowed token");
    }
}

/// What is forced from here on, up to the end text.
fn forced(constraint: &mut dyn Constraint) -> String {
    let mut text = String::new();
    while !text.ends_with("</think>")
        && let Ok(Next::Only(id)) = constraint.next()
    {
        constraint.accept(id).expect("the only token");
        text += &engine().tokenizer().decode(&[id], true);
    }
    text
}

#[test]
fn the_end_text_hands_over() {
    let grammar = Grammar::json_object();
    let mut constraint = thinking(None, None, "", Some(&grammar));
    write(constraint.as_mut(), "It may < be </thin or so.");
    assert!(!may_end(constraint.as_mut()), "the answer is missing");
    write(constraint.as_mut(), "</think>");
    write(constraint.as_mut(), "{\"a\": 1}");
    assert_eq!(constraint.next(), Ok(Next::End));

    let mut free = thinking(None, None, "", None);
    write(free.as_mut(), "a thought</think> an answer");
    assert_eq!(free.next(), Ok(Next::Any));
}

#[test]
fn no_token_crosses_the_end_text() {
    let tokenizer = engine().tokenizer();
    let end = "ood";
    // The demo model has tokens that go on after this.
    let crossing: Vec<u32> = (0..tokenizer.vocab_size() as u32)
        .filter(|&id| {
            tokenizer
                .token_bytes(id, false)
                .windows(3)
                .position(|part| part == b"ood")
                .is_some_and(|at| at + 3 < tokenizer.token_bytes(id, false).len())
        })
        .collect();
    assert!(!crossing.is_empty());
    let build = |then: Option<&Grammar>| {
        let then = then.map(constraint);
        engine()
            .thinking(Thinking {
                start: None,
                end: end.to_owned(),
                budget: None,
                message: String::new(),
                then,
            })
            .expect("a constraint")
    };
    let grammar = Grammar::gbnf("root ::= \"x\"");
    let mut governed = build(Some(&grammar));
    let Ok(Next::Among(mask)) = governed.next() else { panic!("no mask") };
    assert!(crossing.iter().all(|&id| !allowed(mask, id)));
    // `o` may be followed by `od`, and not by what begins with that and goes on.
    let [o] = ids("o")[..] else { panic!("not one token") };
    governed.accept(o).expect("an allowed token");
    let Ok(Next::Among(mask)) = governed.next() else { panic!("no mask") };
    for id in 0..tokenizer.vocab_size() as u32 {
        let bytes = tokenizer.token_bytes(id, false);
        if bytes.starts_with(b"od") {
            assert_eq!(allowed(mask, id), bytes == b"od", "{:?}", tokenizer.piece(id));
        }
    }
    assert_eq!(build(None).next(), Ok(Next::Any));
}

#[test]
fn budgets() {
    let grammar = Grammar::gbnf("root ::= \"yes\" | \"no\"");
    for then in [None, Some(&grammar)] {
        let mut constraint = thinking(None, Some(0), " Enough.\n", then);
        assert_eq!(forced(constraint.as_mut()), " Enough.\n</think>");
        if then.is_some() {
            write(constraint.as_mut(), "yes");
        }
        assert!(may_end(constraint.as_mut()));
    }
    let text = "One two three four five";
    let tokens = ids(text).len();
    let mut constraint = thinking(None, Some(tokens), "", Some(&grammar));
    write(constraint.as_mut(), text);
    assert_eq!(forced(constraint.as_mut()), "</think>");
    write(constraint.as_mut(), "no");
    let mut constraint = thinking(None, Some(tokens + 1), "", None);
    write(constraint.as_mut(), text);
    assert_eq!(constraint.next(), Ok(Next::Any));
    // A character is finished, and so is an end text that has begun.
    let bytes = ids("漢");
    assert!(bytes.len() > 1, "the demo model has no token for it");
    let mut constraint = thinking(None, Some(1), "", None);
    for &id in &bytes {
        assert_eq!(constraint.next(), Ok(Next::Any));
        constraint.accept(id).expect("anything");
    }
    assert_eq!(forced(constraint.as_mut()), "</think>");
    let mut constraint = thinking(None, Some(tokens + 1), "", Some(&grammar));
    write(constraint.as_mut(), &format!("{text}</think>yes"));
    assert!(may_end(constraint.as_mut()));
}

#[test]
fn thoughts_may_be_opened_or_not() {
    let call = Grammar::lark("start: \"<tool>\" /[a-z]+/ \"</tool>\"");
    let mut constraint = thinking(Some("<think>"), Some(1), "", Some(&call));
    write(constraint.as_mut(), "<think>");
    write(constraint.as_mut(), "a");
    assert_eq!(forced(constraint.as_mut()), "</think>");
    write(constraint.as_mut(), "<tool>fox</tool>");
    assert_eq!(constraint.next(), Ok(Next::End));

    let mut constraint = thinking(Some("<think>"), Some(0), "", Some(&call));
    write(constraint.as_mut(), "<tool>fox</tool>");
    assert_eq!(constraint.next(), Ok(Next::End));

    let mut constraint = thinking(Some("<think>"), Some(0), "", Some(&Grammar::json_object()));
    let Ok(Next::Among(mask)) = constraint.next() else { panic!("no mask") };
    assert!(allowed(mask, ids("<")[0]) && allowed(mask, ids("{")[0]) && !allowed(mask, ids("a")[0]));
    write(constraint.as_mut(), "<think>");
    assert_eq!(forced(constraint.as_mut()), "</think>");
    write(constraint.as_mut(), "{}");

    let mut free = thinking(Some("<think>"), Some(0), "", None);
    write(free.as_mut(), "An answer <think> without");
    assert_eq!(free.next(), Ok(Next::Any));
    let mut free = thinking(Some("<think>"), Some(0), "", None);
    write(free.as_mut(), "\n\n");
    write(free.as_mut(), "<think>");
    assert_eq!(forced(free.as_mut()), "</think>");
}

#[test]
fn a_fork_goes_its_own_way() {
    let mut constraint = thinking(Some("<think>"), Some(3), "", Some(&Grammar::json_object()));
    write(constraint.as_mut(), "<th");
    let mut fork = constraint.fork().expect("a fork");
    write(constraint.as_mut(), "ink>");
    write(constraint.as_mut(), "a</think>{}");
    write(fork.as_mut(), "ink>");
    write(fork.as_mut(), "b");
    assert!(!may_end(fork.as_mut()));
    assert_eq!(constraint.next(), Ok(Next::End));
}

#[test]
fn texts_that_cannot_be_used() {
    let thinking =
        Thinking { start: None, end: String::new(), budget: None, message: String::new(), then: None };
    let error = engine().thinking(thinking).expect_err("an error").to_string();
    assert_eq!(error, "the text to look for \"\" cannot be used: it is empty");
}
