//! Calls whose name stands before a JSON object of arguments.

use super::super::markup::Markup;
use super::super::style::NamedStyle;
use super::input::{Input, MAX_NAME, Starts, Step, is_name, is_space};
use super::json::JsonScan;
use super::sink::Sink;

/// Longest text before the JSON, in bytes.
const MAX_HEAD: usize = 2 * MAX_NAME;

#[derive(Debug)]
enum State {
    /// Inside a block, before a call.
    Before,
    Head,
    Arguments(JsonScan),
    /// After the JSON: a fence, a closing tag.
    Close,
    /// After a call: another one, the end of the block.
    After,
}

/// Reads a call, or a block of them.
#[derive(Debug)]
pub(super) struct NamedReader {
    markup: Markup,
    style: &'static NamedStyle,
    state: State,
    block: bool,
    index: Option<usize>,
}

impl NamedReader {
    /// `block`: the opening tag of a block was read, else that of a call.
    pub(super) fn new(markup: Markup, style: &'static NamedStyle, block: bool) -> NamedReader {
        let state = if block { State::Before } else { State::Head };
        NamedReader { markup, style, state, block, index: None }
    }

    /// The call that is being read.
    pub(super) fn index(&self) -> Option<usize> {
        self.index
    }

    /// Between calls: what may follow need not.
    pub(super) fn between(&self) -> bool {
        matches!(self.state, State::Close | State::After)
    }

    pub(super) fn step(&mut self, input: &mut Input, sink: &mut Sink, more: bool) -> Step {
        match &mut self.state {
            State::Before => {
                input.skip_space();
                self.tag(input, self.style.call_open, State::Head, Step::Fail)
            }
            State::Head => self.head(input, sink),
            State::Arguments(scan) => {
                let mut out = String::new();
                let step = scan.read(input, &mut out);
                let index = self.index.unwrap_or_default();
                sink.arguments(index, &out);
                if step != Step::Done {
                    return step;
                }
                sink.end(index);
                self.index = None;
                self.state = State::Close;
                input.record();
                Step::More
            }
            State::Close => self.close(input),
            State::After => self.after(input, more),
        }
    }

    fn tag(&mut self, input: &mut Input, tag: &str, then: State, or: Step) -> Step {
        match input.take_tag(tag) {
            Starts::Yes => {
                self.state = then;
                Step::More
            }
            Starts::Maybe => Step::Wait,
            Starts::No => or,
        }
    }

    fn head(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let rest = input.rest();
        let Some(end) = rest.find('{').filter(|end| *end <= MAX_HEAD) else {
            let hopeless = rest.len() > MAX_HEAD || !self.plausible(rest);
            return if hopeless { Step::Fail } else { Step::Wait };
        };
        let head = Some(&rest[..end]).filter(|head| self.plausible(head));
        let Some((name, id)) = head.and_then(|head| read_head(self.markup, head)) else { return Step::Fail };
        let index = sink.start(id, &name);
        input.take(end);
        self.index = Some(index);
        self.state = State::Arguments(JsonScan::new());
        Step::More
    }

    /// Models of DeepSeek put the JSON in a fence, the older ones always.
    fn fenced(&self) -> bool {
        matches!(self.markup, Markup::DeepSeekR1 | Markup::DeepSeekV31)
    }

    /// Whether a text without JSON may still be the head of a call.
    fn plausible(&self, head: &str) -> bool {
        let lines = if self.fenced() { 2 } else { 1 };
        head.chars().next().is_none_or(|c| is_name(c) || is_space(c) || c == '<')
            && head.trim_start_matches(is_space).matches('\n').count() <= lines
    }

    /// A fence and a closing tag, each of which may be missing.
    fn close(&mut self, input: &mut Input) -> Step {
        let rest = input.rest();
        let text = rest.trim_start_matches(is_space);
        let space = rest.len() - text.len();
        let close = self.style.call_close.trim_start_matches(is_space);
        let fence = if self.fenced() { "```" } else { "" };
        let close = close.strip_prefix(fence).unwrap_or(close);
        for tag in [fence, close] {
            match super::input::starts(text, tag) {
                _ if tag.is_empty() => {}
                Starts::Yes => {
                    input.take(space + tag.len());
                    if tag == close {
                        self.state = State::After;
                    }
                    return Step::More;
                }
                Starts::Maybe => return Step::Wait,
                Starts::No => {}
            }
        }
        self.state = State::After;
        Step::More
    }

    fn after(&mut self, input: &mut Input, more: bool) -> Step {
        let Some((_, close)) = self.style.block.filter(|_| self.block) else { return Step::Done };
        let rest = input.rest();
        let text = rest.trim_start_matches(is_space);
        let space = rest.len() - text.len();
        if more && text.starts_with(self.style.call_open) {
            input.take(space);
            return self.tag(input, self.style.call_open, State::Head, Step::Fail);
        }
        if text.starts_with(close) {
            input.take(space + close.len());
            return Step::Done;
        }
        let open = |tag: &str| super::input::starts(text, tag) == Starts::Maybe;
        if open(close) || (more && open(self.style.call_open)) { Step::Wait } else { Step::Done }
    }
}

/// The name and the id in the text before the JSON.
fn read_head(markup: Markup, head: &str) -> Option<(String, Option<String>)> {
    let (name, id) = match markup {
        Markup::DeepSeekR1 | Markup::DeepSeekV31 => {
            let (kind, rest) = head.split_once("<｜tool▁sep｜>")?;
            let name = rest.trim().strip_suffix("```json").or(rest.trim().strip_suffix("```"));
            let name = name.unwrap_or(rest).trim();
            (if name.is_empty() { kind.trim() } else { name }, None)
        }
        Markup::Kimi => {
            let id = head.strip_suffix("<|tool_call_argument_begin|>")?.trim();
            let name = id.rsplit_once(':').map_or(id, |(name, _)| name);
            (name.strip_prefix("functions.").unwrap_or(name), Some(id.to_owned()))
        }
        _ => {
            let head = head.strip_suffix("[ARGS]").unwrap_or(head).trim();
            match head.split_once("[CALL_ID]") {
                Some((name, id)) => (name, Some(id.to_owned())),
                None => (head, None),
            }
        }
    };
    let fits = !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_name);
    fits.then(|| (name.to_owned(), id))
}
