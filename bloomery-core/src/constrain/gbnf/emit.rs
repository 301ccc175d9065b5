//! Writes a grammar over terminals in the engine's own notation.

use std::fmt::Write;

use super::lower::{Lowered, Symbol};
use super::node::Tokens;

/// The grammar as text; `every` lists the tokens of a literal, ascending.
pub(super) fn lark(grammar: &Lowered, every: impl Fn(&Tokens) -> Vec<u32>) -> String {
    let mut out = "start: n0\n".to_owned();
    for (index, alternatives) in grammar.rules.iter().enumerate() {
        let _ = write!(out, "n{index}: ");
        for (number, alternative) in alternatives.iter().enumerate() {
            out.push_str(if number == 0 { "" } else { " | " });
            if alternative.is_empty() {
                out.push_str("\"\"");
            }
            alternative.iter().for_each(|symbol| write_symbol(*symbol, &every, &mut out));
        }
        out.push('\n');
    }
    for (index, terminal) in grammar.terminals.iter().enumerate() {
        let regex = &terminal.regex;
        let whole = if terminal.empty { " & /(?s:.)+/" } else { "" };
        let _ = writeln!(out, "T{index}: /{regex}/{whole}");
    }
    out
}

fn write_symbol(symbol: Symbol, every: &impl Fn(&Tokens) -> Vec<u32>, out: &mut String) {
    let _ = match symbol {
        Symbol::Terminal { index, optional: false } => write!(out, "T{index} "),
        Symbol::Terminal { index, optional: true } => write!(out, "T{index}? "),
        Symbol::Rule(rule) => write!(out, "n{rule} "),
        Symbol::Repeat(_, _, Some(0)) => write!(out, "\"\" "),
        Symbol::Repeat(rule, 0, None) => write!(out, "n{rule}* "),
        Symbol::Repeat(rule, 1, None) => write!(out, "n{rule}+ "),
        Symbol::Repeat(rule, least, None) => write!(out, "n{rule}{{{least},}} "),
        Symbol::Repeat(rule, least, Some(most)) => write!(out, "n{rule}{{{least},{most}}} "),
        Symbol::Tokens(tokens) => write!(out, "<[{}]> ", ranges(&every(&tokens))),
    };
}

fn ranges(ids: &[u32]) -> String {
    let runs = ids.chunk_by(|a, b| a + 1 == *b);
    let texts = runs.filter_map(|run| match run {
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
        [] => None,
    });
    texts.collect::<Vec<_>>().join(",")
}
