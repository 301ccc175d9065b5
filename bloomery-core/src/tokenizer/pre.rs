//! Splitting text into words before merging, one rule for each `tokenizer.ggml.pre`.
//!
//! A rule is a list of passes. Each pass splits every piece that the pass before left: its matches become
//! pieces, and so does the text between them.
//!
//! The published rules end in `\s+(?!\S)|\s+`: a run of white space leaves its last character to the word
//! that follows. That look-ahead is the only thing in them that is not regular, so it is done by hand
//! ([`Ending`]) and the rest runs on the `regex` crate, which is linear in the text. The backtracking engine
//! of the `tokenizers` crate is not: on a megabyte of spaces it reaches its limit and leaves the text whole
//! without a word, and on English it took four times as long to split as this takes to split and merge.

use regex::Regex;

use super::error::TokenizerError;
use super::rules::{Ending, Pass, RULES};

/// A compiled splitting rule.
pub(super) struct PreTokenizer {
    passes: Vec<(Regex, Ending)>,
    pub(super) ignore_merges: bool,
    pub(super) add_bos: bool,
}

impl PreTokenizer {
    /// The rule of a name; unknown names are an error that lists the known ones.
    pub(super) fn new(pre: Option<&str>) -> Result<PreTokenizer, TokenizerError> {
        let pre = pre.ok_or_else(|| TokenizerError::MissingPre { supported: supported() })?;
        let rule = RULES
            .iter()
            .find(|rule| rule.names.contains(&pre))
            .ok_or_else(|| TokenizerError::UnknownPre { pre: pre.to_owned(), supported: supported() })?;
        let compile = |pass: &Pass| {
            (
                Regex::new(pass.pattern).expect("the test `every_rule_compiles` compiles all patterns"),
                pass.ending,
            )
        };
        Ok(PreTokenizer {
            passes: rule.passes.iter().map(compile).collect(),
            ignore_merges: rule.ignore_merges,
            add_bos: rule.add_bos,
        })
    }

    /// The ends of the pieces in ascending order. A piece starts where the one before ends; none is empty.
    pub(super) fn split(&self, text: &str) -> Vec<usize> {
        let mut ends = if text.is_empty() { Vec::new() } else { vec![text.len()] };
        for (regex, ending) in &self.passes {
            let mut finer = Vec::with_capacity(ends.len());
            let mut start = 0;
            for end in ends {
                split_piece(regex, *ending, &text[start..end], start, &mut finer);
                start = end;
            }
            ends = finer;
        }
        ends
    }
}

/// Splits `piece`, which starts at `offset` of the text, and appends the ends of its parts.
fn split_piece(regex: &Regex, ending: Ending, piece: &str, offset: usize, ends: &mut Vec<usize>) {
    let mut at = 0;
    while at < piece.len() {
        let Some(found) = regex.find_at(piece, at).filter(|found| !found.is_empty()) else {
            break;
        };
        if found.start() > at {
            ends.push(offset + found.start());
        }
        at = found.end();
        if at < piece.len() {
            at -= given_back(found.as_str(), ending);
        }
        ends.push(offset + at);
    }
    if at < piece.len() {
        ends.push(offset + piece.len());
    }
}

/// How many bytes a match leaves to the word that follows it.
fn given_back(found: &str, ending: Ending) -> usize {
    let Some(last) = found.chars().next_back().filter(|last| last.is_whitespace()) else {
        return 0;
    };
    let spaces = match ending {
        Ending::Kept => false,
        Ending::Spaces => true,
        Ending::SpacesNotLines => !matches!(last, '\r' | '\n'),
    };
    if spaces && last.len_utf8() < found.len() { last.len_utf8() } else { 0 }
}

fn supported() -> String {
    let names: Vec<&str> = RULES.iter().flat_map(|rule| rule.names).copied().collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pre: &str, text: &str) -> Vec<String> {
        let mut start = 0;
        let ends = PreTokenizer::new(Some(pre)).unwrap().split(text);
        ends.into_iter().map(|end| text[std::mem::replace(&mut start, end)..end].to_owned()).collect()
    }

    #[test]
    fn every_rule_compiles() {
        let mut names: Vec<&str> = RULES.iter().flat_map(|rule| rule.names).copied().collect();
        assert!(names.iter().all(|name| PreTokenizer::new(Some(name)).is_ok()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name belongs to two rules");
    }

    #[test]
    fn white_space_leaves_its_last_character_to_the_next_word() {
        assert_eq!(pieces("qwen2", "a   b  "), ["a", "  ", " b", "  "]);
        assert_eq!(pieces("qwen2", "a \n  b\n\n c"), ["a", " \n", " ", " b", "\n\n", " c"]);
        assert_eq!(pieces("qwen2", "  !x\n\n"), [" ", " !", "x", "\n\n"]);
        assert_eq!(pieces("gpt-2", "a\n\nb\n 1"), ["a", "\n", "\n", "b", "\n", " 1"]);
    }

    #[test]
    fn digits_and_marks() {
        assert_eq!(pieces("qwen2", "12345"), ["1", "2", "3", "4", "5"]);
        assert_eq!(pieces("glm4", "12345"), ["123", "45"]);
        assert_eq!(pieces("qwen2", "e\u{301}x"), ["e", "\u{301}x"]);
        assert_eq!(pieces("qwen35", "e\u{301}x"), ["e\u{301}x"]);
        assert_eq!(pieces("deepseek-llm", "naïve 12x"), ["na", "ï", "ve", " ", "12", "x"]);
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let error = PreTokenizer::new(Some("qwen9")).err().unwrap().to_string();
        assert!(error.contains("'qwen9'") && error.contains("qwen2, ") && error.contains("glm4"), "{error}");
        assert!(matches!(PreTokenizer::new(None), Err(TokenizerError::MissingPre { .. })));
    }
}
