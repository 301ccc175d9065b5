//! llama.cpp's grammar notation, translated for the grammar engine.
//!
//! GBNF has no lexer: every character is a terminal. The engine is fast because its terminals are long, but it always
//! takes the longest one that fits, and never a shorter. So [`lower`] makes terminals as long as it can, [`clash`]
//! finds those where the longest is not the only choice, and these are taken apart until none is left. Single
//! characters never clash, so what comes out means what the grammar says, and most of it is fast.

mod automaton;
mod clash;
mod class;
mod cursor;
mod emit;
mod lower;
mod node;
mod parse;
mod tail;

use llguidance::api::TopLevelGrammar;

use super::GrammarError;
use crate::tokenizer::{TokenKind, Tokenizer};
use lower::Lowered;
use node::Tokens;

/// The engine's grammar for a GBNF text.
pub(super) fn compile(text: &str, tokenizer: &Tokenizer) -> Result<TopLevelGrammar, GrammarError> {
    let rules = parse::parse(text, tokenizer)?;
    rules.check()?;
    let lowered =
        if rules.is_regular(rules.root) { Lowered::whole(&rules) } else { clash::separate(&rules)? };
    let every = |tokens: &Tokens| allowed(tokens, tokenizer);
    Ok(TopLevelGrammar::from_lark(emit::lark(&lowered, every)))
}

/// The tokens that a literal stands for. A negated one stands for no end of generation and no hole in the numbering.
fn allowed(tokens: &Tokens, tokenizer: &Tokenizer) -> Vec<u32> {
    match tokens {
        Tokens::One(id) => vec![*id],
        Tokens::AllBut(id) => (0..tokenizer.vocab_size() as u32)
            .filter(|other| other != id && !tokenizer.is_end_of_generation(*other))
            .filter(|other| tokenizer.kind(*other) != Some(TokenKind::Unused))
            .collect(),
    }
}
