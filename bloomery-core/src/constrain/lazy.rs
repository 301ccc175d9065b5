//! Free text until a marker appears, then a grammar.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::compiler::Compiler;
use super::matching::Matching;
use super::watch::{Place, Watch};
use super::{Constraint, ConstraintError, Grammar, GrammarError, Next};
use crate::tokenizer::Tokenizer;

/// Free text until one of some texts appears in it, then a grammar: for tools that a model may call or not.
/// [`Engine::lazy`](crate::Engine::lazy) makes a constraint of it.
///
/// Until then no token is allowed that goes beyond the end of a trigger, so the grammar begins with a token of its
/// own. Control tokens count as the text they are spelled as.
#[derive(Debug, Clone)]
pub struct Lazy {
    /// The texts to wait for; the one that ends first counts.
    pub triggers: Vec<String>,
    /// What follows.
    pub grammar: Grammar,
    /// Whether the grammar begins after the trigger; else the trigger is its first text.
    pub after: bool,
    /// Whether free text follows as soon as the grammar may end, in which the next trigger counts again. Else the
    /// reply ends there.
    pub then_free: bool,
}

impl Lazy {
    pub(super) fn build(self, compiler: &Compiler) -> Result<Box<dyn Constraint>, GrammarError> {
        if self.triggers.is_empty() {
            return Err(GrammarError::Text {
                what: "the text to look for",
                text: String::new(),
                message: "there is none".to_owned(),
            });
        }
        let watch = compiler.watch(&self.triggers, false)?;
        let begin = compiler.matching(&self.grammar)?;
        Ok(Box::new(Waiting {
            place: watch.start(),
            within: None,
            watch,
            begin,
            inside: None,
            tail: VecDeque::new(),
            longest: self.triggers.iter().map(String::len).max().unwrap_or_default(),
            tokenizer: compiler.tokenizer().clone(),
            triggers: self.triggers.into(),
            after: self.after,
            then_free: self.then_free,
        }))
    }
}

/// A lazy grammar at some place of a text.
#[derive(Clone)]
struct Waiting {
    watch: Arc<Watch>,
    place: Place,
    within: Option<Arc<[u32]>>,
    begin: Matching,
    inside: Option<Matching>,
    /// The last tokens, enough for the longest trigger.
    tail: VecDeque<u32>,
    longest: usize,
    tokenizer: Tokenizer,
    triggers: Arc<[String]>,
    after: bool,
    then_free: bool,
}

impl Waiting {
    /// The grammar, with the trigger behind it if it begins with the trigger.
    fn armed(&self, trigger: &str) -> Result<Matching, ConstraintError> {
        if self.after {
            return Ok(self.begin.clone());
        }
        // Some grammars spell a control token as a text, others name the token.
        let by_tokens = self.by_tokens(trigger.len());
        by_tokens.or_else(|_| {
            let mut matching = self.begin.clone();
            matching.begin(trigger.as_bytes()).map(|()| matching)
        })
    }

    /// Takes the tokens of the last `length` bytes. The first of them may begin before.
    fn by_tokens(&self, length: usize) -> Result<Matching, ConstraintError> {
        let size = |id: u32| self.tokenizer.token_bytes(id, true).len();
        let mut matching = self.begin.clone();
        let mut behind = 0;
        let mut first = self.tail.len();
        while behind < length && first > 0 {
            first -= 1;
            behind += size(self.tail[first]);
        }
        for (index, &id) in self.tail.range(first..).enumerate() {
            if index == 0 && behind > length {
                matching.begin(&self.tokenizer.token_bytes(id, true)[behind - length..])?;
            } else {
                matching.accept(id)?;
            }
        }
        Ok(matching)
    }

    fn remember(&mut self, token: u32) {
        self.tail.push_back(token);
        // A token has at least one byte, but for those that render as nothing.
        while self.tail.len() > self.longest {
            self.tail.pop_front();
        }
    }
}

impl Constraint for Waiting {
    fn next(&mut self) -> Result<Next<'_>, ConstraintError> {
        match &mut self.inside {
            Some(matching) => matching.next(),
            None => {
                self.within = self.watch.within(self.place);
                Ok(self.within.as_deref().map_or(Next::Any, Next::Among))
            }
        }
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        if let Some(matching) = &mut self.inside {
            matching.accept(token)?;
            if self.then_free && matching.may_end()? {
                self.inside = None;
                self.place = self.watch.start();
                self.tail.clear();
            }
            return Ok(());
        }
        if !self.tokenizer.token_bytes(token, true).is_empty() {
            self.remember(token);
        }
        if let Some(found) = self.watch.step(&mut self.place, token) {
            let trigger = Arc::clone(&self.triggers);
            self.inside = Some(self.armed(&trigger[found.text])?);
        }
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn Constraint>> {
        Some(Box::new(self.clone()))
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy")
            .field("triggers", &self.triggers)
            .field("inside", &self.inside)
            .finish_non_exhaustive()
    }
}
