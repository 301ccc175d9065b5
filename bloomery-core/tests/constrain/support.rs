//! Texts under constraints.

use std::sync::OnceLock;

use bloomery_core::constrain::{Constraint, Grammar, Next};
use bloomery_core::tokenizer::Specials;
use bloomery_core::{Engine, ModelSource};

/// The demo model, loaded once.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        Engine::builder(ModelSource::demo()).plan().expect("a plan").load(|_| {}).expect("the demo model")
    })
}

pub(crate) fn constraint(grammar: &Grammar) -> Box<dyn Constraint> {
    engine().constraint(grammar).unwrap_or_else(|error| panic!("{error}"))
}

/// Why a grammar is refused.
pub(crate) fn refusal(grammar: &Grammar) -> String {
    match engine().constraint(grammar) {
        Ok(_) => panic!("compiled: {grammar:?}"),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn ids(text: &str) -> Vec<u32> {
    engine().tokenizer().encode(text, Specials::AsText).expect("every byte has a token")
}

/// Whether a text may end.
pub(crate) fn may_end(constraint: &mut dyn Constraint) -> bool {
    let ends = engine().tokenizer().end_of_generation();
    match constraint.next().expect("a next token") {
        Next::End | Next::Any => true,
        Next::Only(id) => ends.contains(&id),
        Next::Among(mask) => ends.iter().all(|&id| allowed(mask, id)),
    }
}

pub(crate) fn allowed(mask: &[u32], id: u32) -> bool {
    mask[id as usize / 32] >> (id % 32) & 1 == 1
}

/// Whether a whole text fits, however it is cut into tokens.
pub(crate) fn accepts(grammar: &Grammar, text: &str) -> bool {
    let whole = fits(constraint(grammar), &ids(text));
    let singles: Vec<u32> = text.chars().flat_map(|c| ids(c.encode_utf8(&mut [0; 4]))).collect();
    assert_eq!(fits(constraint(grammar), &singles), whole, "{text:?} depends on its tokens");
    whole
}

fn fits(mut constraint: Box<dyn Constraint>, ids: &[u32]) -> bool {
    ids.iter().all(|&id| constraint.accept(id).is_ok()) && may_end(constraint.as_mut())
}

/// Checks texts that fit and texts that do not.
pub(crate) fn check(grammar: &Grammar, fitting: &[&str], others: &[&str]) {
    for text in fitting {
        assert!(accepts(grammar, text), "{text:?} does not fit: {:?}", longest(grammar, text));
    }
    for text in others {
        assert!(!accepts(grammar, text), "{text:?} fits {grammar:?}");
    }
}

/// How far a text fits, for messages.
fn longest(grammar: &Grammar, text: &str) -> String {
    let mut constraint = constraint(grammar);
    let good: Vec<u32> = ids(text).into_iter().take_while(|&id| constraint.accept(id).is_ok()).collect();
    engine().tokenizer().decode(&good, false)
}
