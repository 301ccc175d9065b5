//! A call that is one JSON object: `{"name": "f", "arguments": {…}}`.

use super::super::tool::Tool;
use super::input::{Input, MAX_NAME, Starts, Step, is_space};
use super::json::{JsonScan, Scan};
use super::sink::Sink;

#[derive(Debug)]
enum State {
    Open,
    /// A key, or the end where the flag allows it.
    Key(bool),
    Colon(Key),
    Value(Key),
    Text(Key),
    Arguments,
    /// Arguments as JSON inside a string.
    Quoted,
    Skip(JsonScan),
    Null(Key),
    Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Name,
    Id,
    Type,
    Function,
    Arguments,
    Index,
}

impl Key {
    /// Keys that calls have in some format. Any other says that the object is no call.
    fn read(text: &str) -> Option<Key> {
        match text {
            "name" | "tool_name" => Some(Key::Name),
            "id" | "tool_call_id" | "call_id" => Some(Key::Id),
            "type" => Some(Key::Type),
            "function" => Some(Key::Function),
            "arguments" | "parameters" => Some(Key::Arguments),
            "index" => Some(Key::Index),
            _ => None,
        }
    }
}

/// Reads one such object.
#[derive(Debug)]
pub(super) struct ObjectReader {
    state: State,
    name: Option<String>,
    id: Option<String>,
    scan: JsonScan,
    /// Arguments that came before the name.
    early: Option<String>,
    /// A string literal that is being read.
    literal: String,
    /// Inside `"function": {…}`.
    nested: bool,
    index: Option<usize>,
    /// Without a tag around it, only a call of a known tool is a call.
    known_only: bool,
    /// Some arguments were passed on.
    sent: bool,
}

impl ObjectReader {
    pub(super) fn new(known_only: bool) -> ObjectReader {
        ObjectReader {
            state: State::Open,
            name: None,
            id: None,
            scan: JsonScan::new(),
            early: None,
            literal: String::new(),
            nested: false,
            index: None,
            known_only,
            sent: false,
        }
    }

    /// The call, once its name was passed on.
    pub(super) fn index(&self) -> Option<usize> {
        self.index
    }

    pub(super) fn step(&mut self, input: &mut Input, tools: &[Tool], sink: &mut Sink) -> Step {
        let Some(c) = input.rest().chars().next() else { return Step::Wait };
        let fresh = !matches!(
            self.state,
            State::Text(_) | State::Arguments | State::Quoted | State::Skip(_) | State::Null(_)
        );
        if fresh && is_space(c) {
            input.skip_space();
            return Step::More;
        }
        match &mut self.state {
            State::Arguments => return self.arguments(input, sink),
            State::Quoted => return self.quoted(input, sink),
            State::Skip(scan) => {
                // Some number or object of no interest: an index.
                return match scan.feed(c, &mut String::new()) {
                    Scan::Bad => Step::Fail,
                    Scan::Past => self.to(State::Next),
                    Scan::Done => self.eat(input, State::Next),
                    Scan::More => {
                        input.next();
                        Step::More
                    }
                };
            }
            State::Open if c == '{' => return self.eat(input, State::Key(true)),
            State::Key(_) | State::Text(_) => return self.literal(input, tools, sink),
            State::Colon(key) if c == ':' => {
                let key = *key;
                return self.eat(input, State::Value(key));
            }
            State::Null(key) => {
                let key = *key;
                return match input.take_tag("null") {
                    Starts::Yes if key == Key::Arguments => self.no_arguments(sink),
                    Starts::Yes => self.to(State::Next),
                    Starts::Maybe => Step::Wait,
                    Starts::No => Step::Fail,
                };
            }
            State::Value(key) => {
                let key = *key;
                return self.value(key, c, input, sink);
            }
            State::Next => return self.next(c, input, sink),
            _ => {}
        }
        Step::Fail
    }

    fn to(&mut self, state: State) -> Step {
        self.state = state;
        Step::More
    }

    fn eat(&mut self, input: &mut Input, state: State) -> Step {
        input.next();
        self.to(state)
    }

    fn value(&mut self, key: Key, c: char, input: &mut Input, sink: &mut Sink) -> Step {
        match (key, c) {
            (_, 'n') => self.to(State::Null(key)),
            (Key::Arguments, '{' | '"') if self.sent => Step::Fail,
            (Key::Arguments, '{') => {
                self.begin_arguments(sink);
                self.to(State::Arguments)
            }
            (Key::Arguments, '"') => {
                // A quoted object: decoded on the way.
                input.next();
                self.literal.clear();
                self.to(State::Quoted)
            }
            (Key::Function, '{') if !self.nested && self.name.is_none() => {
                self.nested = true;
                self.eat(input, State::Key(true))
            }
            (Key::Index, '0'..='9') => self.to(State::Skip(JsonScan::new())),
            (Key::Name | Key::Id | Key::Type | Key::Function, '"') => self.to(State::Text(key)),
            // Ids and types that are no strings carry nothing.
            (Key::Id, '0'..='9') => self.to(State::Skip(JsonScan::new())),
            _ => Step::Fail,
        }
    }

    fn next(&mut self, c: char, input: &mut Input, sink: &mut Sink) -> Step {
        match c {
            ',' => self.eat(input, State::Key(false)),
            '}' if self.nested => {
                self.nested = false;
                self.eat(input, State::Next)
            }
            '}' => self.close(input, sink),
            _ => Step::Fail,
        }
    }

    fn close(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        if self.name.is_none() {
            return Step::Fail;
        }
        input.next();
        let index = self.commit(sink);
        if !self.sent {
            sink.arguments(index, "{}");
        }
        sink.end(index);
        Step::Done
    }

    /// Reads a key or a short text: a string literal that has to be whole.
    fn literal(&mut self, input: &mut Input, tools: &[Tool], sink: &mut Sink) -> Step {
        let rest = input.rest();
        if let State::Key(may_end) = self.state
            && may_end
            && rest.starts_with('}')
        {
            self.state = State::Next;
            return Step::More;
        }
        let Some(end) = literal_end(rest).filter(|end| *end <= MAX_NAME) else {
            let hopeless = !rest.starts_with('"') || rest.len() > MAX_NAME;
            return if hopeless { Step::Fail } else { Step::Wait };
        };
        let Ok(text) = serde_json::from_str::<String>(&rest[..end]) else { return Step::Fail };
        let next = match self.state {
            State::Text(key) => {
                if !self.take_text(key, text, tools) {
                    return Step::Fail;
                }
                State::Next
            }
            _ => match Key::read(&text) {
                Some(key) => State::Colon(key),
                None => return Step::Fail,
            },
        };
        input.take(end);
        if self.name.is_some()
            && let Some(early) = self.early.take()
        {
            let index = self.commit(sink);
            sink.arguments(index, &early);
        }
        self.to(next)
    }

    fn take_text(&mut self, key: Key, text: String, tools: &[Tool]) -> bool {
        match key {
            Key::Name | Key::Function => {
                let known = tools.iter().any(|tool| tool.name == text);
                let fits = !text.is_empty() && self.name.is_none() && (known || !self.known_only);
                self.name = Some(text);
                fits
            }
            Key::Type => !self.known_only || text == "function",
            Key::Id if self.index.is_none() => {
                self.id = Some(text);
                true
            }
            _ => true,
        }
    }

    /// Passes the name on.
    fn commit(&mut self, sink: &mut Sink) -> usize {
        match self.index {
            Some(index) => index,
            None => {
                let index = sink.start(self.id.take(), self.name.as_deref().unwrap_or_default());
                self.index = Some(index);
                index
            }
        }
    }

    fn begin_arguments(&mut self, sink: &mut Sink) {
        self.sent = true;
        self.scan = JsonScan::new();
        if self.name.is_some() {
            self.commit(sink);
        } else {
            self.early = Some(String::new());
        }
    }

    fn send(&mut self, text: &str, sink: &mut Sink) {
        match (self.index, &mut self.early) {
            (Some(index), _) => sink.arguments(index, text),
            (None, Some(early)) => early.push_str(text),
            (None, None) => {}
        }
    }

    fn no_arguments(&mut self, sink: &mut Sink) -> Step {
        if !self.sent {
            self.begin_arguments(sink);
            self.send("{}", sink);
        }
        self.to(State::Next)
    }

    fn arguments(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let mut out = String::new();
        let step = self.scan.read(input, &mut out);
        self.send(&out, sink);
        if step == Step::Done {
            return self.to(State::Next);
        }
        step
    }

    /// Arguments inside a string: escapes are undone, then the text is read as JSON.
    fn quoted(&mut self, input: &mut Input, sink: &mut Sink) -> Step {
        let Some(c) = input.rest().chars().next() else { return Step::Wait };
        if self.literal.is_empty() && c == '"' {
            if !self.sent {
                // The empty text stands for no arguments.
                input.next();
                return self.no_arguments(sink);
            }
            if !self.scan.complete() {
                return Step::Fail;
            }
            return self.eat(input, State::Next);
        }
        self.literal.push(c);
        let decoded = match decode(&self.literal) {
            Decode::Wait => String::new(),
            Decode::Text(text) => {
                self.literal.clear();
                text
            }
            Decode::Bad => return Step::Fail,
        };
        for c in decoded.chars() {
            if !self.sent {
                if is_space(c) {
                    continue;
                }
                if c != '{' {
                    return Step::Fail;
                }
                self.begin_arguments(sink);
            }
            let mut out = String::new();
            let scan = self.scan.feed(c, &mut out);
            if matches!(scan, Scan::Bad | Scan::Past) {
                return Step::Fail;
            }
            self.send(&out, sink);
        }
        input.next();
        Step::More
    }
}

/// The length of the string literal at the start of a text.
fn literal_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if at == 0 && byte != b'"' => return None,
            _ if at == 0 || escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

enum Decode {
    Wait,
    Text(String),
    Bad,
}

/// One character of a string literal, which may be an escape or a pair of them.
fn decode(literal: &str) -> Decode {
    let unit = |text: &str| u16::from_str_radix(text.get(2..6)?, 16).ok();
    let wait = literal == "\\" || (literal.starts_with("\\u") && literal.len() < 6);
    let high = literal.len() == 6 && matches!(unit(literal), Some(0xD800..=0xDBFF));
    if wait || high || (literal.len() > 6 && literal.len() < 12 && literal.starts_with("\\u")) {
        return Decode::Wait;
    }
    match serde_json::from_str::<String>(&format!("\"{literal}\"")) {
        Ok(text) => Decode::Text(text),
        Err(_) if literal.chars().count() == 1 => Decode::Text(literal.to_owned()),
        Err(_) => Decode::Bad,
    }
}
