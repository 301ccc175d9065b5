//! Constraints on what an engine's model writes.

use super::Engine;
use crate::constrain::{Compiler, Constraint, Grammar, GrammarError, Lazy, Thinking};

impl Engine {
    /// A constraint that keeps a text within `grammar`. What was compiled is kept for the next that asks.
    ///
    /// # Errors
    /// [`GrammarError`] says what is wrong with the description, and where.
    pub fn constraint(&self, grammar: &Grammar) -> Result<Box<dyn Constraint>, GrammarError> {
        self.compiler()?.constraint(grammar)
    }

    /// A constraint that waits for a text before its grammar counts.
    ///
    /// ```
    /// use bloomery_core::constrain::{Grammar, Lazy, Next};
    /// use bloomery_core::{Engine, ModelSource};
    ///
    /// let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
    /// let call = Grammar::lark("start: %json {\"type\": \"object\"} \"</tool_call>\"");
    /// let triggers = vec!["<tool_call>".to_owned()];
    /// let mut constraint = engine.lazy(Lazy { triggers, grammar: call, after: true, then_free: true })?;
    /// assert_eq!(constraint.next()?, Next::Any);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`constraint`](Self::constraint), and if there is no trigger or an empty one.
    pub fn lazy(&self, lazy: Lazy) -> Result<Box<dyn Constraint>, GrammarError> {
        self.compiler()?.lazy(lazy)
    }

    /// A constraint that bounds thoughts and governs what follows them.
    ///
    /// ```
    /// use bloomery_core::constrain::{Grammar, Next, Thinking};
    /// use bloomery_core::{Engine, ModelSource};
    ///
    /// let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
    /// let then = Some(engine.constraint(&Grammar::json_object())?);
    /// let (start, end, message) = (None, "</think>".to_owned(), String::new());
    /// let mut constraint = engine.thinking(Thinking { start, end, budget: Some(0), message, then })?;
    /// assert!(matches!(constraint.next()?, Next::Only(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the end text is empty, or the vocabulary cannot express it or the message.
    pub fn thinking(&self, thinking: Thinking) -> Result<Box<dyn Constraint>, GrammarError> {
        self.compiler()?.thinking(thinking)
    }

    fn compiler(&self) -> Result<&Compiler, GrammarError> {
        let inner = &self.inner;
        let make = || Compiler::new(&inner.tokenizer, inner.model.vocab);
        inner.compiler.get_or_init(make).as_ref().map_err(Clone::clone)
    }
}
