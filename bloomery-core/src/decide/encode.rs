//! From a state and questions to tokens.
//!
//! Every piece of the prompt is tokenised by itself: the same text in one piece has other tokens where pieces meet.

use std::collections::HashSet;
use std::ops::Range;

use super::error::{DecideError, QuestionError};
use super::json::Json;
use super::question::Question;
use super::render::render;
use crate::tokenizer::{Specials, Tokenizer, TokenizerError};

// The model was trained with these words.
const BEFORE: &str = "<|im_start|>system\nRead the complete state and schema. Decide every field jointly. Each answer must be \
    exactly one of that field's allowed options.<|im_end|>\n<|im_start|>user\nSTATE:\n";
const FIELDS: &str = "\n\nSCHEMA FIELDS:\n";
const AFTER: &str = "\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:";

/// A prompt, and where in it the questions and their options are.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Prompt {
    /// Its tokens, to be run from position 0.
    pub tokens: Vec<u32>,
    /// In the order of the questions.
    pub fields: Vec<Field>,
    /// Tokens at the end of the state that had no room.
    pub cut: usize,
}

/// Where a question is in a prompt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// The question.
    pub question: Question,
    /// Positions of what it asks.
    pub span: Range<usize>,
    /// Its options in the order of the prompt, in which they are also scored: a choice's by their names.
    pub options: Vec<FieldOption>,
}

/// Where an option is in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldOption {
    /// Its name: of a noul `true` or `false`, of a score the level's number.
    pub id: String,
    /// Its number in the question.
    pub index: usize,
    /// Its positions.
    pub span: Range<usize>,
}

/// Makes a prompt of at most `limit` tokens. Where that takes it, the state loses its end.
pub(super) fn encode(
    tokenizer: &Tokenizer,
    state: &Json,
    questions: &[Question],
    limit: usize,
) -> Result<Prompt, DecideError> {
    check(questions)?;
    let before = tokenizer.encode(BEFORE, Specials::Parse)?;
    let mut schema = Schema { tokenizer, tokens: Vec::new() };
    let mut fields = schema.fields(questions)?;
    let needed = before.len() + schema.tokens.len();
    if needed > limit {
        return Err(QuestionError::TooLong { needed, limit }.into());
    }
    let mut state = tokenizer.encode(&render(state), Specials::Parse)?;
    let kept = state.len().min(limit - needed);
    let cut = state.len() - kept;
    state.truncate(kept);
    let shift = before.len() + kept;
    for field in &mut fields {
        let spans = field.options.iter_mut().map(|option| &mut option.span);
        for span in spans.chain([&mut field.span]) {
            *span = span.start + shift..span.end + shift;
        }
    }
    Ok(Prompt { tokens: [before, state, schema.tokens].concat(), fields, cut })
}

fn check(questions: &[Question]) -> Result<(), QuestionError> {
    if questions.is_empty() {
        return Err(QuestionError::None);
    }
    let mut ids = HashSet::new();
    for question in questions {
        question.check()?;
        if !ids.insert(question.id.as_str()) {
            return Err(QuestionError::Twice { id: question.id.clone() });
        }
    }
    Ok(())
}

/// What follows the state.
struct Schema<'a> {
    tokenizer: &'a Tokenizer,
    tokens: Vec<u32>,
}

impl Schema<'_> {
    /// Appends a piece and returns where it is.
    fn piece(&mut self, text: &str) -> Result<Range<usize>, TokenizerError> {
        let start = self.tokens.len();
        self.tokens.extend(self.tokenizer.encode(text, Specials::Parse)?);
        Ok(start..self.tokens.len())
    }

    /// As [`piece`](Self::piece), of something that has to be there.
    fn span(&mut self, text: &str, question: &Question, what: &str) -> Result<Range<usize>, DecideError> {
        let span = self.piece(text)?;
        if span.is_empty() {
            let (id, what) = (question.id.clone(), what.to_owned());
            return Err(QuestionError::Empty { id, what }.into());
        }
        Ok(span)
    }

    fn fields(&mut self, questions: &[Question]) -> Result<Vec<Field>, DecideError> {
        self.piece(FIELDS)?;
        let mut fields = Vec::with_capacity(questions.len());
        for (index, question) in questions.iter().enumerate() {
            let (number, id, kind) = (index + 1, &question.id, question.criteria.name());
            self.piece(&format!("\nFIELD {number}\nID: {id}\nTYPE: {kind}\nINSTRUCTION: "))?;
            let span = self.span(&question.asked(), question, "the instructions")?;
            self.piece("\nALLOWED OPTIONS:\n")?;
            let listed = question.criteria.listed();
            let mut options = Vec::with_capacity(listed.len());
            for (place, (index, id, description)) in listed.into_iter().enumerate() {
                self.piece(&format!("OPTION {}: ", place + 1))?;
                let mut pairs = vec![("option_id".to_owned(), Json::Text(id.clone()))];
                if *description != Json::Null {
                    pairs.push(("description".to_owned(), description.clone()));
                }
                let span = self.span(&render(&Json::Object(pairs)), question, "an option")?;
                self.piece("\n")?;
                options.push(FieldOption { id, index, span });
            }
            self.piece("END FIELD\n")?;
            fields.push(Field { question: question.clone(), span, options });
        }
        self.piece(AFTER)?;
        Ok(fields)
    }
}
