//! Calls as JSON objects, one after the other or in an array.

use super::super::style::JsonStyle;
use super::super::tool::Tool;
use super::input::{Input, Starts, Step};
use super::object::ObjectReader;
use super::sink::Sink;

#[derive(Debug)]
enum State {
    /// Before an object.
    Start,
    Object(Box<ObjectReader>),
    After,
}

/// Reads what stands between the tags.
#[derive(Debug)]
pub(super) struct ListReader {
    style: &'static JsonStyle,
    state: State,
    array: bool,
    bare: bool,
    calls: usize,
}

impl ListReader {
    /// `bare`: there was no tag.
    pub(super) fn new(style: &'static JsonStyle, bare: bool) -> ListReader {
        ListReader { style, state: State::Start, array: false, bare, calls: 0 }
    }

    /// The call that is being read.
    pub(super) fn index(&self) -> Option<usize> {
        match &self.state {
            State::Object(object) => object.index(),
            _ => None,
        }
    }

    /// Between calls: what may follow need not.
    pub(super) fn between(&self) -> bool {
        matches!(self.state, State::After)
    }

    pub(super) fn step(&mut self, input: &mut Input, tools: &[Tool], sink: &mut Sink, more: bool) -> Step {
        match &mut self.state {
            State::Object(object) => match object.step(input, tools, sink) {
                Step::Done => {
                    self.calls += 1;
                    self.state = State::After;
                    input.record();
                    Step::More
                }
                step => step,
            },
            State::Start => {
                input.skip_space();
                match input.rest().chars().next() {
                    Some('[') if !self.array && self.calls == 0 => {
                        self.array = true;
                        input.next();
                        Step::More
                    }
                    Some('{') => {
                        self.state = State::Object(Box::new(ObjectReader::new(self.bare)));
                        Step::More
                    }
                    None => Step::Wait,
                    Some(_) => Step::Fail,
                }
            }
            State::After => self.after(input, more),
        }
    }

    /// After a call: another one, the end of the array, a closing tag, or none of them.
    fn after(&mut self, input: &mut Input, more: bool) -> Step {
        let rest = input.rest();
        let text = rest.trim_start_matches(super::input::is_space);
        let space = rest.len() - text.len();
        let end = if self.array { Step::Fail } else { Step::Done };
        let Some(first) = text.chars().next() else {
            return Step::Wait;
        };
        match first {
            ']' if self.array => {
                self.array = false;
                input.take(space + 1);
                return Step::More;
            }
            ',' | ';' if more => {
                let next = text[1..].trim_start_matches(super::input::is_space);
                match next.chars().next() {
                    Some('{') => {
                        input.take(space + 1);
                        self.state = State::Start;
                        return Step::More;
                    }
                    None => return Step::Wait,
                    Some(_) => return end,
                }
            }
            '{' if more && !self.array => {
                self.state = State::Start;
                return Step::More;
            }
            _ => {}
        }
        let mut step = end;
        for close in self.style.close.iter().filter(|_| !self.array) {
            match super::input::starts(text, close) {
                Starts::Yes => {
                    input.take(space + close.len());
                    return Step::Done;
                }
                Starts::Maybe => step = Step::Wait,
                Starts::No => {}
            }
        }
        step
    }
}
