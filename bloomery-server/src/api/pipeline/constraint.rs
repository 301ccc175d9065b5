//! What holds a reply to its form: schemas, grammars, calls of tools, and the budget of thinking.

use bloomery_core::Engine;
use bloomery_core::constrain::{self, Constraint, GrammarError, Lazy, Thinking};
use serde_json::json;

use super::model::ChatModel;
use crate::api::constraint::Grammar;
use crate::api::turn::{ChatTurn, Tools};
use crate::chat::{Markup, ReplyStart, ThinkTags, Tool, ToolGrammar};
use crate::error::ApiError;

/// The form of a reply, from which any number of constraints can be made.
#[derive(Debug)]
pub(super) struct Form<'a> {
    pub(super) engine: &'a Engine,
    pub(super) model: &'a ChatModel,
    pub(super) turn: &'a ChatTurn,
    /// How the reply begins.
    pub(super) start: &'a ReplyStart,
    /// The part of it that stands in the prompt already.
    pub(super) prefix: &'a str,
}

/// Where the answer begins in a reply of [`Markup::Harmony`].
const FINAL: &str = "<|channel|>final<|message|>";

/// Begins another message of such a reply.
const NEXT: &str = "<|start|>assistant";

impl Form<'_> {
    /// A constraint for one reply; `None` is a free one.
    pub(super) fn build(&self) -> Result<Option<Box<dyn Constraint>>, ApiError> {
        let then = self.answer()?;
        let budget = self.turn.reasoning.budget;
        let (Some((start, think)), true) = (self.thinking(), then.is_some() || budget.is_some()) else {
            return Ok(then);
        };
        let message = self.turn.reasoning.message.clone().unwrap_or_default();
        let mut end = think.end.clone();
        if self.model.caps.markup == Markup::Harmony && self.turn.format.is_some() {
            // The answer is the next message.
            end.push_str(NEXT);
        }
        let thinking = Thinking { start, end, budget, message, then };
        self.engine.thinking(thinking).map(Some).map_err(samplers)
    }

    /// The tags, where the reply may think, and the first of them where it has to open with it.
    fn thinking(&self) -> Option<(Option<String>, &ThinkTags)> {
        let think = self.model.caps.think.as_ref()?;
        match self.start {
            _ if !self.prefix.is_empty() => {
                let inside = self.model.parser(self.turn, self.start, self.prefix).in_reasoning();
                inside.then_some((None, think))
            }
            ReplyStart::Answering => None,
            ReplyStart::Fresh => Some((Some(think.start.clone()), think)),
            ReplyStart::Thinking { .. } => Some((None, think)),
        }
    }

    /// What governs the text after the thoughts.
    fn answer(&self) -> Result<Option<Box<dyn Constraint>>, ApiError> {
        let calls = self.calls()?;
        let Some(format) = &self.turn.format else { return Ok(calls) };
        if self.turn.tools.choice.forces() && calls.is_some() {
            return Ok(calls);
        }
        let grammar = match format {
            Grammar::Gbnf(text) => constrain::Grammar::gbnf(text),
            Grammar::Schema(schema) => constrain::Grammar::json_schema(schema),
        };
        let wrong = |error: GrammarError| match format {
            Grammar::Gbnf(_) => samplers(error),
            Grammar::Schema(_) => ApiError::invalid(format!("\"json_schema\": {error}")),
        };
        let answer = self.engine.constraint(&grammar).map_err(wrong)?;
        if self.model.caps.markup == Markup::Harmony {
            return self.in_final(answer).map(Some);
        }
        match (format, calls) {
            (Grammar::Schema(schema), Some(_)) => {
                let either = self.tool_grammar(&self.turn.tools.list).map(|calls| {
                    let calls = calls.lark.replacen("start:", "calls:", 1);
                    constrain::Grammar::lark(format!(
                        "start: calls | answer\nanswer: %json {schema}\n{calls}"
                    ))
                });
                either.map(|either| self.engine.constraint(&either)).transpose().map_err(samplers)
            }
            _ => Ok(Some(answer)),
        }
    }

    /// An answer that stands in a message of its own, whose head is written first.
    fn in_final(&self, answer: Box<dyn Constraint>) -> Result<Box<dyn Constraint>, ApiError> {
        if self.prefix.contains(FINAL) {
            return Ok(answer);
        }
        let (end, budget, then) = (FINAL.to_owned(), Some(0), Some(answer));
        let head = Thinking { start: None, end, budget, message: String::new(), then };
        self.engine.thinking(head).map_err(samplers)
    }

    fn tool_grammar(&self, tools: &[Tool]) -> Option<ToolGrammar> {
        let Tools { choice, .. } = &self.turn.tools;
        let control = |text: &str| self.model.control(self.engine.tokenizer(), text);
        ToolGrammar::new(self.model.caps.markup, tools, choice, self.model.parallel(self.turn), &control)
    }

    /// Calls of tools. A tool whose schema cannot be compiled takes any object; it must not take the others down.
    fn calls(&self) -> Result<Option<Box<dyn Constraint>>, ApiError> {
        let tools = &self.turn.tools.list;
        let Some(first) = self.tool_grammar(tools) else { return Ok(None) };
        match self.armed(first) {
            Ok(constraint) => Ok(constraint),
            Err(error) => {
                tracing::warn!(%error, "schemas of tools were replaced");
                let usable = |tool: &Tool| {
                    self.engine.constraint(&constrain::Grammar::lenient(&tool.schema())).is_ok()
                };
                let any = |tool: &Tool| Tool { parameters: json!({ "type": "object" }), ..tool.clone() };
                let softened: Vec<Tool> =
                    tools.iter().map(|tool| if usable(tool) { tool.clone() } else { any(tool) }).collect();
                self.tool_grammar(&softened).map_or(Ok(None), |grammar| self.armed(grammar)).map_err(samplers)
            }
        }
    }

    fn armed(&self, grammar: ToolGrammar) -> Result<Option<Box<dyn Constraint>>, GrammarError> {
        let ToolGrammar { lark, forced, triggers } = grammar;
        let grammar = constrain::Grammar::lark(lark);
        if forced {
            return self.engine.constraint(&grammar).map(Some);
        }
        if triggers.is_empty() {
            return Ok(None);
        }
        let then_free = self.model.parallel(self.turn);
        self.engine.lazy(Lazy { triggers, grammar, after: false, then_free }).map(Some)
    }
}

fn samplers(error: GrammarError) -> ApiError {
    ApiError::invalid(format!("Failed to initialize samplers: {error}"))
}
