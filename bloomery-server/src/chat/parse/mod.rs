//! From the text that a model writes to reasoning, content and calls, while it comes.

mod calls;
mod harmony;
mod input;
mod json;
mod list;
mod named;
mod object;
mod sink;
mod tagged;
mod value;

use super::delta::Delta;
use super::markup::Markup;
use super::think::{ReasoningFormat, ReplyStart, ThinkTags};
use super::tool::{Tool, ToolChoice};
use calls::Calls;
use harmony::Harmony;
use input::{Find, Input, Starts, is_space, starts};
use sink::Sink;

/// What a parser has to know about the request and its prompt.
#[derive(Debug, Clone)]
pub struct ParserOptions {
    /// How the model writes calls.
    pub markup: Markup,
    /// The tools of the request. Without any, nothing is read as a call.
    pub tools: Vec<Tool>,
    /// Which of them may be called. With [`ToolChoice::None`] nothing is read as a call.
    pub choice: ToolChoice,
    /// More than one call is allowed; else what follows the first is content.
    pub parallel: bool,
    /// Where reasoning goes.
    pub reasoning: ReasoningFormat,
    /// The tags around reasoning. None: the model has none.
    pub think: Option<ThinkTags>,
    /// How the reply begins; see [`ReplyStart::of`].
    pub start: ReplyStart,
    /// The part of the reply that stands in the prompt already, where the last message is continued. It is read but not
    /// given back.
    pub prefix: String,
}

impl Default for ParserOptions {
    /// Everything is content.
    fn default() -> ParserOptions {
        ParserOptions {
            markup: Markup::Generic,
            tools: Vec::new(),
            choice: ToolChoice::Auto,
            parallel: true,
            reasoning: ReasoningFormat::Auto,
            think: None,
            start: ReplyStart::Fresh,
            prefix: String::new(),
        }
    }
}

/// Cuts a reply into deltas, as its text comes. How the text is split does not matter for what comes out in all.
///
/// White space between reasoning, content and calls is layout and left out; inside of them everything stays, except
/// that in the strings of JSON raw control characters are escaped, a backslash that escapes nothing is doubled, and half
/// of a surrogate pair becomes U+FFFD.
#[derive(Debug)]
pub struct OutputParser {
    input: Input,
    sink: Sink,
    stage: Stage,
    calls: Calls,
    think: Option<ThinkTags>,
    raw: bool,
    finished: bool,
}

#[derive(Debug)]
enum Stage {
    /// Before the first word.
    Fresh,
    /// In the reasoning; the flag: at its very start.
    Thinking(bool),
    Answer,
    Harmony(Harmony),
}

impl OutputParser {
    /// A parser for one reply.
    pub fn new(options: ParserOptions) -> OutputParser {
        let enabled = options.choice != ToolChoice::None && !options.tools.is_empty();
        let sink = Sink::new(options.reasoning, options.markup.id_len());
        let calls = Calls::new(options.markup, options.tools, enabled, options.parallel);
        let thinking = matches!(options.start, ReplyStart::Thinking { .. });
        let stage = match (&options.start, &options.think) {
            _ if options.markup == Markup::Harmony => {
                Stage::Harmony(Harmony::new(thinking, enabled, options.parallel))
            }
            (_, None) | (ReplyStart::Answering, _) => Stage::Answer,
            (ReplyStart::Thinking { .. }, _) => Stage::Thinking(true),
            (ReplyStart::Fresh, _) => Stage::Fresh,
        };
        let raw = options.reasoning == ReasoningFormat::None;
        let mut parser = OutputParser {
            input: Input::default(),
            sink,
            stage,
            calls,
            think: options.think,
            raw,
            finished: false,
        };
        if let ReplyStart::Thinking { opened } = &options.start {
            // The content holds both tags or none.
            parser.sink.think_tag(opened);
        }
        if !options.prefix.is_empty() {
            parser.push(&options.prefix);
            parser.sink.forget();
        }
        parser
    }

    /// Takes more text.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        self.input.push(text);
        while self.step() {}
        self.sink.take()
    }

    /// The reply is over.
    pub fn finish(&mut self) -> Vec<Delta> {
        if !std::mem::replace(&mut self.finished, true) {
            self.input.ended = true;
            while self.step() {}
            self.sink.finish();
        }
        self.sink.take()
    }

    /// Complete calls so far.
    pub fn calls(&self) -> usize {
        self.sink.complete()
    }

    /// Calls that began, complete or not.
    pub fn started(&self) -> usize {
        self.sink.started()
    }

    /// True inside a call: a reply that ends now was cut, and its call is incomplete.
    pub fn in_call(&self) -> bool {
        match &self.stage {
            Stage::Harmony(harmony) => harmony.open(),
            _ => self.calls.open(),
        }
    }

    /// True where reasoning is being read.
    pub fn in_reasoning(&self) -> bool {
        match &self.stage {
            Stage::Harmony(harmony) => harmony.thinking(),
            stage => matches!(stage, Stage::Thinking(_)),
        }
    }

    /// Reads on. False: more text is needed.
    fn step(&mut self) -> bool {
        match &mut self.stage {
            Stage::Fresh => self.fresh(),
            Stage::Thinking(first) => {
                let first = *first;
                self.thinking(first)
            }
            Stage::Answer => self.calls.step(&mut self.input, &mut self.sink),
            Stage::Harmony(harmony) => harmony.step(&mut self.input, &mut self.sink),
        }
    }

    fn fresh(&mut self) -> bool {
        let start = self.think.as_ref().map_or("", |think| think.start.as_str());
        let rest = self.input.rest();
        let space = rest.len() - rest.trim_start_matches(is_space).len();
        match starts(&rest[space..], start) {
            Starts::Yes => {
                let text = self.input.take(space + start.len()).to_owned();
                self.sink.think_tag(&text);
                self.stage = Stage::Thinking(false);
            }
            Starts::Maybe if !self.input.ended => return false,
            _ => self.stage = Stage::Answer,
        }
        true
    }

    fn thinking(&mut self, first: bool) -> bool {
        let Some(think) = &self.think else { return false };
        if first {
            // Some models open again what the prompt has opened.
            let rest = self.input.rest();
            let space = rest.len() - rest.trim_start_matches(is_space).len();
            match starts(&rest[space..], &think.start) {
                Starts::Maybe if !self.input.ended => return false,
                Starts::Yes if !self.raw => {
                    self.input.take(space + think.start.len());
                }
                _ => {}
            }
            self.stage = Stage::Thinking(false);
            return true;
        }
        let mut tags = vec![think.end.as_str()];
        tags.extend(self.calls.thinking_ends());
        let (text, end) = match self.input.find(&tags) {
            Find::At { at, tag } => (at, Some(tag)),
            Find::Maybe(at) => (at, None),
            Find::No => (self.input.rest().len(), None),
        };
        let text = self.input.take(text).to_owned();
        self.sink.reasoning(&text);
        let Some(tag) = end else { return false };
        if tag == 0 {
            let end = self.input.take(think.end.len()).to_owned();
            self.sink.think_tag(&end);
        }
        self.sink.reasoning_end();
        self.stage = Stage::Answer;
        true
    }
}
