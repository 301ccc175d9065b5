//! Replies in Harmony: messages with a channel and a recipient.

use super::input::{Find, Input, MAX_NAME, Starts, Step, is_name, is_space, starts};
use super::json::JsonScan;
use super::sink::Sink;

/// Ends the head of a message.
const MESSAGE: &str = "<|message|>";

/// Ends a message. The start of the next one ends it too.
const ENDS: [&str; 4] = ["<|end|>", "<|call|>", "<|return|>", "<|start|>"];

/// Longest head of a message in bytes.
const MAX_HEAD: usize = 2 * MAX_NAME;

/// The tags of reasoning, for clients that want them.
const ANALYSIS: &str = "<|channel|>analysis<|message|>";

#[derive(Debug)]
enum State {
    Head,
    Reasoning,
    Content,
    /// At the arguments of a call of this name.
    Call(String),
    Arguments(usize, JsonScan),
    /// After a call: whatever stands before the next message is not shown.
    After,
    /// The text is not Harmony.
    Plain,
}

/// Reads such a reply.
#[derive(Debug)]
pub(super) struct Harmony {
    state: State,
    enabled: bool,
    parallel: bool,
}

impl Harmony {
    /// `thinking`: the prompt ends inside a message of the analysis.
    pub(super) fn new(thinking: bool, enabled: bool, parallel: bool) -> Harmony {
        let state = if thinking { State::Reasoning } else { State::Head };
        Harmony { state, enabled, parallel }
    }

    /// True while a call is being read.
    pub(super) fn open(&self) -> bool {
        matches!(self.state, State::Arguments(..))
    }

    /// True in a message of the analysis.
    pub(super) fn thinking(&self) -> bool {
        matches!(self.state, State::Reasoning)
    }

    /// Reads on. False: more text is needed.
    pub(super) fn step(&mut self, input: &mut Input, sink: &mut Sink) -> bool {
        match &mut self.state {
            State::Head => self.head(input, sink),
            State::Reasoning => {
                let more = body(input, |text| sink.reasoning(text));
                if let Some(end) = more {
                    sink.think_tag(if end == "<|start|>" { "" } else { end });
                    sink.reasoning_end();
                    self.state = State::Head;
                }
                more.is_some()
            }
            State::Content => {
                let more = body(input, |text| sink.content(text));
                if more.is_some() {
                    sink.release();
                    self.state = State::Head;
                }
                more.is_some()
            }
            State::Call(name) => {
                let name = std::mem::take(name);
                self.call(name, input, sink)
            }
            State::Arguments(index, scan) => {
                let (index, mut out) = (*index, String::new());
                let step = scan.read(input, &mut out);
                sink.arguments(index, &out);
                match step {
                    Step::Done => {
                        sink.end(index);
                        self.state = State::After;
                    }
                    Step::Fail => {
                        sink.broken(index, input.recorded());
                        self.state = State::Content;
                    }
                    Step::More | Step::Wait => return false,
                }
                true
            }
            State::After => {
                let more = body(input, |_| {});
                if more.is_some() {
                    self.state = State::Head;
                }
                more.is_some()
            }
            State::Plain => {
                let text = input.take(input.rest().len()).to_owned();
                sink.content(&text);
                false
            }
        }
    }

    fn head(&mut self, input: &mut Input, sink: &mut Sink) -> bool {
        let rest = input.rest();
        let end = rest.find(MESSAGE).filter(|end| *end <= MAX_HEAD);
        let head = end.map_or(rest, |end| &rest[..end]);
        if !plausible(head) || head.len() > MAX_HEAD {
            self.state = State::Plain;
            return true;
        }
        let Some(end) = end else {
            if input.ended && !rest.is_empty() {
                // A head without a message carries nothing but marks.
                let len = rest.len();
                input.take(len);
            }
            return false;
        };
        let head = Head::read(head);
        let call = self.enabled && (self.parallel || sink.started() == 0);
        let (next, shown) = match head.recipient {
            Some(name) if call => (State::Call(name), false),
            Some(_) => (State::Content, true),
            None if head.channel == "analysis" => (State::Reasoning, false),
            None => (State::Content, false),
        };
        input.record();
        let text = input.take(end + MESSAGE.len()).to_owned();
        match &next {
            State::Reasoning => sink.think_tag(ANALYSIS),
            _ if shown => sink.content(&text),
            _ => {}
        }
        self.state = next;
        true
    }

    /// Begins a call where its arguments are an object; anything else is content.
    fn call(&mut self, name: String, input: &mut Input, sink: &mut Sink) -> bool {
        input.skip_space();
        let Some(first) = input.rest().chars().next() else {
            if input.ended {
                let raw = input.recorded();
                sink.content(&raw);
            }
            self.state = State::Call(name);
            return false;
        };
        if first == '{' {
            let index = sink.start(None, &name);
            self.state = State::Arguments(index, JsonScan::new());
            return true;
        }
        match ENDS.iter().map(|end| starts(input.rest(), end)).find(|starts| *starts != Starts::No) {
            Some(Starts::Maybe) if !input.ended => {
                self.state = State::Call(name);
                return false;
            }
            Some(Starts::Yes) => {
                let index = sink.start(None, &name);
                sink.arguments(index, "{}");
                sink.end(index);
                self.state = State::After;
            }
            _ => {
                let raw = input.recorded();
                sink.content(&raw);
                self.state = State::Content;
            }
        }
        true
    }
}

/// Reads the text of a message; Some: it is over, and this ended it.
fn body(input: &mut Input, mut take: impl FnMut(&str)) -> Option<&'static str> {
    match input.find(&ENDS) {
        Find::At { at, tag } => {
            let text = input.take(at).to_owned();
            take(&text);
            if ENDS[tag] != "<|start|>" {
                input.take(ENDS[tag].len());
            }
            Some(ENDS[tag])
        }
        Find::Maybe(at) => {
            let text = input.take(at).to_owned();
            take(&text);
            None
        }
        Find::No => {
            let text = input.take(input.rest().len()).to_owned();
            take(&text);
            None
        }
    }
}

/// Whether a text may be the head of a message.
fn plausible(head: &str) -> bool {
    let text = head.trim_start_matches(is_space);
    let marks = ["<|start|>", "<|channel|>", "<|constrain|>", "to=", MESSAGE];
    text.is_empty() || marks.iter().any(|mark| starts(text, mark) != Starts::No)
}

struct Head {
    channel: String,
    recipient: Option<String>,
}

impl Head {
    /// Reads `<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json` in any order.
    fn read(text: &str) -> Head {
        let word = |text: &str| -> String { text.chars().take_while(|c| is_name(*c)).collect() };
        let after = |mark: &str| text.split_once(mark).map(|(_, rest)| word(rest));
        let recipient = after("to=").filter(|name| !name.is_empty() && name != "assistant" && name != "user");
        let recipient =
            recipient.map(|name| name.strip_prefix("functions.").map(str::to_owned).unwrap_or(name));
        Head { channel: after("<|channel|>").unwrap_or_default(), recipient }
    }
}
