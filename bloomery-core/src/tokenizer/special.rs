//! Tokens that are matched in the text before anything else, and the tokens that end a generation.

use aho_corasick::{AhoCorasick, MatchKind};

use super::tokens::Tokens;
use super::vocabulary::{TokenKind, Vocabulary};

/// Texts that end a generation wherever a vocabulary has them as special tokens.
const ENDS: &[&str] = &[
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "</s>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
];

/// GLM ends a turn by starting the next one; many conversions do not say so.
const GLM_ENDS: &[&str] = &["<|user|>", "<|observation|>"];

/// Corrects kinds that conversions are known to get wrong and returns the ids that end a generation.
pub(super) fn classify(tokens: &mut Tokens, vocabulary: &Vocabulary<'_>) -> Vec<u32> {
    let mut ends: Vec<u32> = [vocabulary.eos, vocabulary.eot, vocabulary.eom].into_iter().flatten().collect();
    let glm = matches!(vocabulary.pre, Some("glm4" | "glm5" | "chatglm-bpe"));
    for text in ENDS.iter().chain(if glm { GLM_ENDS } else { &[] }) {
        let Some(id) = tokens.id(text) else { continue };
        // An ordinary `</s>` is HTML's end of strike-through (Qwen has it), unless a key names it.
        if *text == "</s>" && tokens.kind(id) == Some(TokenKind::Normal) && !ends.contains(&id) {
            continue;
        }
        // As user-defined or normal text it could be written by a user to end the model's turn.
        tokens.set_kind(id, TokenKind::Control);
        ends.push(id);
    }
    let has = |ends: &[u32], text| tokens.id(text).is_some_and(|id| ends.contains(&id));
    // In these formats `<|end|>` closes a message, not the answer.
    let messages = (has(&ends, "<|return|>") && has(&ends, "<|call|>"))
        || (has(&ends, "<|flush|>") && (has(&ends, "<|call|>") || has(&ends, "<|calls|>")));
    if messages && vocabulary.eos != tokens.id("<|end|>") {
        ends.retain(|&id| tokens.text(id) != Some("<|end|>"));
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// A piece of text, or a token that was found in it.
pub(super) enum Segment<'t> {
    /// To be encoded.
    Text(&'t str),
    /// Already a token.
    Token(u32),
}

/// Finds a set of tokens in a text: at each place the longest, from left to right.
pub(super) struct Matcher {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl Matcher {
    /// A matcher for these tokens; `None` if there are none.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (u32, std::borrow::Cow<'a, str>)>) -> Option<Matcher> {
        let (ids, texts): (Vec<u32>, Vec<_>) = tokens.filter(|(_, text)| !text.is_empty()).unzip();
        if ids.is_empty() {
            return None;
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts.iter().map(|text| text.as_bytes()))
            .expect("a vocabulary's texts are far below the automaton's 2^31 states");
        Some(Matcher { automaton, ids })
    }

    /// Cuts a text at every token found. No text segment is empty.
    pub(super) fn segments<'t>(
        matcher: Option<&'t Matcher>,
        text: &'t str,
    ) -> impl Iterator<Item = Segment<'t>> {
        let mut found = matcher.map(|matcher| (matcher.automaton.find_iter(text), &matcher.ids));
        let mut at = 0;
        let mut waiting = None;
        std::iter::from_fn(move || {
            loop {
                if let Some(token) = waiting.take() {
                    return Some(Segment::Token(token));
                }
                let before = at;
                let end = match found.as_mut().and_then(|(matches, ids)| Some((matches.next()?, ids))) {
                    Some((next, ids)) => {
                        waiting = Some(ids[next.pattern().as_usize()]);
                        at = next.end();
                        next.start()
                    }
                    None => {
                        at = text.len();
                        text.len()
                    }
                };
                if end > before {
                    return Some(Segment::Text(&text[before..end]));
                }
                waiting?;
            }
        })
    }
}
