//! Calls whose arguments stand in tags of their own.

use super::super::style::TaggedStyle;
use super::super::tool::Tool;
use super::input::{Input, MAX_NAME, Starts, Step, is_name, is_space, starts};
use super::json::{JsonScan, quoted};
use super::sink::Sink;
use super::value::{Expect, ValueReader};

#[derive(Debug)]
enum State {
    /// Inside a block, before a call.
    Before,
    /// At the name.
    Name,
    /// Between arguments.
    Body,
    /// At the name of an argument.
    Key,
    /// Before a value that has an opening tag.
    Open(String),
    /// In a value. Its key goes out with its first text.
    Value(ValueReader, Option<String>),
    /// Arguments as one JSON object, which some models write here.
    Json(JsonScan),
    /// After that object.
    Close,
    /// After a call.
    After,
}

/// Reads a call, or a block of them.
#[derive(Debug)]
pub(super) struct TaggedReader {
    style: &'static TaggedStyle,
    state: State,
    block: bool,
    index: Option<usize>,
    name: String,
    /// Arguments that were passed on.
    arguments: usize,
    /// Only a call of a known tool is a call.
    known_only: bool,
}

impl TaggedReader {
    /// After the opening tag of a block.
    pub(super) fn block(style: &'static TaggedStyle) -> TaggedReader {
        TaggedReader {
            style,
            state: State::Before,
            block: true,
            index: None,
            name: String::new(),
            arguments: 0,
            known_only: false,
        }
    }

    /// After the opening tag of a call.
    pub(super) fn call(style: &'static TaggedStyle, known_only: bool) -> TaggedReader {
        TaggedReader { state: State::Name, block: false, known_only, ..TaggedReader::block(style) }
    }

    /// The call that is being read.
    pub(super) fn index(&self) -> Option<usize> {
        self.index
    }

    /// Between calls: what may follow need not.
    pub(super) fn between(&self) -> bool {
        matches!(self.state, State::After)
    }

    pub(super) fn step(&mut self, input: &mut Input, tools: &[Tool], sink: &mut Sink, more: bool) -> Step {
        match &mut self.state {
            State::Before => {
                input.skip_space();
                match input.take_tag(self.style.call_open) {
                    Starts::Yes => self.to(State::Name),
                    Starts::Maybe => Step::Wait,
                    Starts::No => Step::Fail,
                }
            }
            State::Name => self.name(input, tools, sink),
            State::Body => self.body(input, sink),
            State::Key => self.key(input, tools),
            State::Open(key) => {
                let key = std::mem::take(key);
                input.skip_space();
                match input.take_tag(self.style.value_open) {
                    Starts::Yes => {
                        let expect = Expect::new(self.tool(tools), &key, None);
                        self.to(State::Value(ValueReader::new(self.style, expect), Some(key)))
                    }
                    Starts::Maybe => {
                        self.state = State::Open(key);
                        Step::Wait
                    }
                    Starts::No => Step::Fail,
                }
            }
            State::Value(..) => self.value(input, sink),
            State::Json(_) => self.json(input, sink),
            State::Close => self.body(input, sink),
            State::After => self.after(input, more),
        }
    }

    fn to(&mut self, state: State) -> Step {
        self.state = state;
        Step::More
    }

    fn tool<'a>(&self, tools: &'a [Tool]) -> Option<&'a Tool> {
        tools.iter().find(|tool| tool.name == self.name)
    }

    fn name(&mut self, input: &mut Input, tools: &[Tool], sink: &mut Sink) -> Step {
        let rest = input.rest();
        let lead = if self.style.name_end.is_empty() { super::input::space(rest) } else { 0 };
        let text = &rest[lead..];
        let len = text.find(|c| !is_name(c)).unwrap_or(text.len());
        if len > MAX_NAME || (len == 0 && !text.is_empty()) {
            return Step::Fail;
        }
        let after = &text[len..];
        let ends = if self.style.name_end.is_empty() {
            let tags = [self.style.param_open, self.style.call_close];
            one_of(after.trim_start_matches(is_space), &tags)
        } else {
            starts(after, self.style.name_end)
        };
        match ends {
            Starts::Maybe => Step::Wait,
            Starts::No => Step::Fail,
            Starts::Yes => {
                let name = text[..len].to_owned();
                if self.known_only && !tools.iter().any(|tool| tool.name == name) {
                    return Step::Fail;
                }
                input.take(lead + len + self.style.name_end.len());
                self.index = Some(sink.start(None, &name));
                self.name = name;
                self.arguments = 0;
                self.to(State::Body)
            }
        }
    }

    fn body(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        input.skip_space();
        let closed = matches!(self.state, State::Close);
        let rest = input.rest();
        let opens = if closed { Starts::No } else { starts(rest, self.style.param_open) };
        let closes = starts(rest, self.style.call_close);
        // The end of the block ends a call whose own end is missing.
        let block = self.style.block.map_or(Starts::No, |(_, close)| starts(rest, close));
        match (opens, closes, block) {
            (Starts::Yes, ..) => {
                input.take(self.style.param_open.len());
                self.to(State::Key)
            }
            (_, Starts::Yes, _) => {
                input.take(self.style.call_close.len());
                self.end(input, sink)
            }
            (.., Starts::Yes) => self.end(input, sink),
            (Starts::Maybe, ..) | (_, Starts::Maybe, _) | (.., Starts::Maybe) => Step::Wait,
            _ if rest.starts_with('{') && self.arguments == 0 && !closed => {
                self.to(State::Json(JsonScan::new()))
            }
            _ => Step::Fail,
        }
    }

    fn end(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        if let Some(index) = self.index.take() {
            if !matches!(self.state, State::Close) {
                sink.arguments(index, if self.arguments == 0 { "{}" } else { "}" });
            }
            sink.end(index);
        }
        input.record();
        self.to(State::After)
    }

    fn key(&mut self, input: &mut Input, tools: &[Tool]) -> Step {
        let rest = input.rest();
        let end = rest.find(self.style.key_end).filter(|end| *end <= MAX_NAME);
        let Some(end) = end else {
            let hopeless = rest.len() > MAX_NAME + self.style.key_end.len() || rest.contains('\n');
            return if hopeless { Step::Fail } else { Step::Wait };
        };
        let key = rest[..end].to_owned();
        if key.contains('\n') {
            return Step::Fail;
        }
        let mut len = end + self.style.key_end.len();
        let mut string = None;
        if self.style.string_attribute {
            match attribute(&rest[len..]) {
                Attribute::Wait => return Step::Wait,
                Attribute::Bad => return Step::Fail,
                Attribute::Found { value, read } => {
                    string = value;
                    len += read;
                }
            }
        }
        input.take(len);
        if self.style.value_open.is_empty() {
            let expect = Expect::new(self.tool(tools), &key, string);
            return self.to(State::Value(ValueReader::new(self.style, expect), Some(key)));
        }
        self.to(State::Open(key))
    }

    fn value(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let State::Value(value, key) = &mut self.state else { return Step::Fail };
        let mut out = String::new();
        let step = value.step(input, &mut out);
        let index = self.index.unwrap_or_default();
        if !out.is_empty() {
            if let Some(key) = key.take() {
                let comma = if self.arguments == 0 { "{" } else { "," };
                out = format!("{comma}{}:{out}", quoted(&key));
                self.arguments += 1;
            }
            sink.arguments(index, &out);
        }
        if step == Step::Done {
            return self.to(State::Body);
        }
        step
    }

    fn json(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let State::Json(scan) = &mut self.state else { return Step::Fail };
        let mut out = String::new();
        let step = scan.read(input, &mut out);
        sink.arguments(self.index.unwrap_or_default(), &out);
        if step == Step::Done { self.to(State::Close) } else { step }
    }

    fn after(&mut self, input: &mut Input, more: bool) -> Step {
        let Some((_, close)) = self.style.block else { return Step::Done };
        let rest = input.rest();
        let text = rest.trim_start_matches(is_space);
        let space = rest.len() - text.len();
        let again = if more && self.block { starts(text, self.style.call_open) } else { Starts::No };
        match (again, starts(text, close)) {
            (Starts::Yes, _) => {
                input.take(space + self.style.call_open.len());
                self.to(State::Name)
            }
            (_, Starts::Yes) => {
                input.take(space + close.len());
                Step::Done
            }
            (Starts::Maybe, _) | (_, Starts::Maybe) => Step::Wait,
            _ => Step::Done,
        }
    }
}

fn one_of(text: &str, tags: &[&str]) -> Starts {
    let mut result = Starts::No;
    for tag in tags {
        match starts(text, tag) {
            Starts::Yes => return Starts::Yes,
            Starts::Maybe => result = Starts::Maybe,
            Starts::No => {}
        }
    }
    result
}

enum Attribute {
    Wait,
    Bad,
    Found { value: Option<bool>, read: usize },
}

/// Reads ` string="true">` or `>`.
fn attribute(text: &str) -> Attribute {
    let forms = [(" string=\"true\">", Some(true)), (" string=\"false\">", Some(false)), (">", None)];
    let mut result = Attribute::Bad;
    for (form, value) in forms {
        match starts(text, form) {
            Starts::Yes => return Attribute::Found { value, read: form.len() },
            Starts::Maybe => result = Attribute::Wait,
            Starts::No => {}
        }
    }
    result
}
