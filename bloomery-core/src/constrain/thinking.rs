//! Thoughts before the answer: how long they may be, and what governs the answer.

use std::collections::VecDeque;
use std::sync::Arc;

use super::compiler::{Compiler, Shared};
use super::vocabulary::mask;
use super::watch::{Place, Watch};
use super::{Constraint, ConstraintError, GrammarError, Next};
use crate::tokenizer::{Specials, Tokenizer};

/// A reply that begins inside of thoughts, or may begin with them.
/// [`Engine::thinking`](crate::Engine::thinking) makes a constraint of it.
///
/// With something in `then`, the generation cannot end inside of the thoughts, and no token goes beyond the end of the
/// end text, so the answer begins with a token of its own.
#[derive(Debug)]
pub struct Thinking {
    /// What begins the thoughts, if the reply may open with it; `None` if the prompt ended with it. A reply that
    /// begins with anything else has no thoughts; before free text, space does not count.
    pub start: Option<String>,
    /// What ends them, such as `</think>`.
    pub end: String,
    /// Tokens of thoughts before their end is forced; `None` for any number. 0 forces it at once. A character whose
    /// bytes are spread over tokens is finished first.
    pub budget: Option<usize>,
    /// What is forced before the end text when the budget is used up.
    pub message: String,
    /// What governs the text after the end text; `None` for free text.
    pub then: Option<Box<dyn Constraint>>,
}

impl Thinking {
    pub(super) fn build(self, compiler: &Compiler) -> Result<Box<dyn Constraint>, GrammarError> {
        let watch = compiler.watch(std::slice::from_ref(&self.end), self.then.is_some())?;
        let tokenizer = compiler.tokenizer();
        let encoded = |text: &str, what| {
            tokenizer.encode(text, Specials::Parse).map_err(|error| GrammarError::Text {
                what,
                text: text.to_owned(),
                message: error.to_string(),
            })
        };
        let forced =
            [encoded(&self.message, "the message")?, encoded(&self.end, "the end of thoughts")?].concat();
        let start = self.start.filter(|start| !start.is_empty()).map(String::into_bytes);
        let mut thought = Thought {
            stage: Stage::Inside,
            place: watch.start(),
            watch,
            used: 0,
            owing: 0,
            budget: self.budget,
            forced: forced.into(),
            start: start.unwrap_or_default().into(),
            then: self.then,
            mask: Vec::new(),
            within: None,
            tokenizer: tokenizer.clone(),
            shared: Arc::clone(compiler.shared()),
        };
        if thought.start.is_empty() {
            thought.think();
        } else {
            thought.stage = Stage::Opening { matched: 0, otherwise: None };
        }
        Ok(Box::new(thought))
    }
}

#[derive(Debug)]
enum Stage {
    /// The first bytes of the start text were written. `otherwise` is the answer, if what was written may be its
    /// beginning just as well.
    Opening { matched: usize, otherwise: Option<Box<dyn Constraint>> },
    /// In the thoughts.
    Inside,
    /// Ending the thoughts.
    Forcing(VecDeque<u32>),
    /// In the answer.
    Answer,
}

/// Thoughts at some place.
#[derive(Debug)]
struct Thought {
    stage: Stage,
    watch: Arc<Watch>,
    place: Place,
    used: usize,
    /// Bytes that the last character still needs.
    owing: u8,
    budget: Option<usize>,
    /// The message and the end text.
    forced: Arc<[u32]>,
    start: Arc<[u8]>,
    then: Option<Box<dyn Constraint>>,
    mask: Vec<u32>,
    within: Option<Arc<[u32]>>,
    tokenizer: Tokenizer,
    shared: Arc<Shared>,
}

impl Thought {
    /// Begins the thoughts.
    fn think(&mut self) {
        self.place = self.watch.start();
        self.stage = if self.budget == Some(0) { self.forcing() } else { Stage::Inside };
    }

    fn forcing(&self) -> Stage {
        Stage::Forcing(self.forced.iter().copied().collect())
    }

    fn inside(&mut self, token: u32) {
        /// Tokens that the end text or a character which began before may take beyond the budget.
        const PATIENCE: usize = 8;
        self.used += 1;
        for byte in self.tokenizer.token_bytes(token, true) {
            self.owing = match byte {
                0x80..=0xBF => self.owing.saturating_sub(1),
                0xC2..=0xDF => 1,
                0xE0..=0xEF => 2,
                0xF0..=0xF4 => 3,
                _ => 0,
            };
        }
        if self.watch.step(&mut self.place, token).is_some() {
            self.stage = Stage::Answer;
            return;
        }
        let busy = self.owing > 0 || self.watch.begun(self.place);
        let over = self.budget.and_then(|budget| self.used.checked_sub(budget));
        if over.is_some_and(|over| !busy || over >= PATIENCE) {
            self.stage = self.forcing();
        }
    }

    /// The next token where it goes on with the start text, or the answer begins.
    fn opening(&mut self, matched: usize) -> Result<Next<'_>, ConstraintError> {
        let Some(then) = &mut self.then else { return Ok(Next::Any) };
        let rest = &self.start[matched..];
        let fits = |id: &u32| {
            let bytes = self.tokenizer.token_bytes(*id, true);
            !bytes.is_empty() && rest.starts_with(bytes)
        };
        let begun = rest.first().map_or(&[][..], |&first| &self.shared.by_first[usize::from(first)]);
        self.mask = mask(self.shared.vocab, begun.iter().copied().filter(fits));
        let answer = match &mut self.stage {
            _ if matched == 0 => Some(then),
            Stage::Opening { otherwise, .. } => otherwise.as_mut(),
            _ => None,
        };
        match answer.map(|answer| answer.next()).transpose()? {
            None => {}
            Some(Next::Any) => return Ok(Next::Any),
            Some(Next::Only(id)) => add(&mut self.mask, &mask(self.shared.vocab, std::iter::once(id))),
            Some(Next::Among(words)) => add(&mut self.mask, words),
            Some(Next::End) => add(&mut self.mask, &self.shared.ends),
        }
        Ok(Next::Among(&self.mask))
    }

    fn open(&mut self, token: u32, matched: usize) -> Result<(), ConstraintError> {
        let otherwise = match std::mem::replace(&mut self.stage, Stage::Answer) {
            Stage::Opening { otherwise, .. } => otherwise,
            _ => None,
        };
        let mut bytes = self.tokenizer.token_bytes(token, true);
        if self.then.is_none() && matched == 0 {
            bytes = bytes.trim_ascii_start();
            if bytes.is_empty() {
                self.opened(0, None);
                return Ok(());
            }
        }
        let thinks = !bytes.is_empty() && self.start[matched..].starts_with(bytes);
        let Some(then) = &mut self.then else {
            if thinks {
                let matched = matched + bytes.len();
                self.opened(matched, None);
            }
            return Ok(());
        };
        if !thinks && matched == 0 {
            return then.accept(token);
        }
        let mut answer = if matched == 0 { then.fork() } else { otherwise };
        if let Some(begun) = &mut answer {
            if allows(begun.as_mut(), token)? {
                begun.accept(token)?;
            } else {
                answer = None;
            }
        }
        if thinks {
            let matched = matched + bytes.len();
            self.opened(matched, answer);
            return Ok(());
        }
        *then = answer.ok_or_else(|| ConstraintError {
            message: format!("token {token} belongs neither to thoughts nor to an answer"),
        })?;
        Ok(())
    }

    fn opened(&mut self, matched: usize, otherwise: Option<Box<dyn Constraint>>) {
        if matched == self.start.len() {
            self.think();
        } else {
            self.stage = Stage::Opening { matched, otherwise };
        }
    }
}

impl Constraint for Thought {
    fn next(&mut self) -> Result<Next<'_>, ConstraintError> {
        match &self.stage {
            Stage::Opening { matched, .. } => {
                let matched = *matched;
                self.opening(matched)
            }
            Stage::Forcing(ids) if !ids.is_empty() => Ok(Next::Only(ids[0])),
            Stage::Inside if self.then.is_some() => {
                self.within = self.watch.within(self.place);
                Ok(self.within.as_deref().map_or(Next::Any, Next::Among))
            }
            Stage::Inside => Ok(Next::Any),
            Stage::Forcing(_) | Stage::Answer => self.then.as_mut().map_or(Ok(Next::Any), |then| then.next()),
        }
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        match &mut self.stage {
            Stage::Opening { matched, .. } => {
                let matched = *matched;
                self.open(token, matched)
            }
            Stage::Inside => {
                self.inside(token);
                Ok(())
            }
            Stage::Forcing(ids) => {
                let forced = ids.pop_front();
                if ids.is_empty() {
                    self.stage = Stage::Answer;
                }
                match forced {
                    Some(id) if id != token => Err(ConstraintError {
                        message: format!("token {token} came where token {id} ends the thoughts"),
                    }),
                    _ => Ok(()),
                }
            }
            Stage::Answer => self.then.as_mut().map_or(Ok(()), |then| then.accept(token)),
        }
    }

    fn fork(&self) -> Option<Box<dyn Constraint>> {
        let fork = |then: &Option<Box<dyn Constraint>>| match then {
            Some(then) => then.fork().map(Some),
            None => Some(None),
        };
        let stage = match &self.stage {
            Stage::Opening { matched, otherwise } => {
                Stage::Opening { matched: *matched, otherwise: fork(otherwise)? }
            }
            Stage::Inside => Stage::Inside,
            Stage::Forcing(ids) => Stage::Forcing(ids.clone()),
            Stage::Answer => Stage::Answer,
        };
        Some(Box::new(Thought {
            stage,
            watch: Arc::clone(&self.watch),
            place: self.place,
            used: self.used,
            owing: self.owing,
            budget: self.budget,
            forced: Arc::clone(&self.forced),
            start: Arc::clone(&self.start),
            then: fork(&self.then)?,
            mask: Vec::new(),
            within: None,
            tokenizer: self.tokenizer.clone(),
            shared: Arc::clone(&self.shared),
        }))
    }
}

fn allows(constraint: &mut dyn Constraint, token: u32) -> Result<bool, ConstraintError> {
    Ok(match constraint.next()? {
        Next::Any => true,
        Next::Among(words) => {
            words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
        }
        Next::Only(id) => id == token,
        Next::End => false,
    })
}

fn add(mask: &mut [u32], more: &[u32]) {
    mask.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
}
