//! The answer part of a reply: content and calls.

use super::super::markup::{DsmlStyle, Markup};
use super::super::style::{Layout, TaggedStyle, layout};
use super::super::tool::Tool;
use super::input::{Find, Input, Starts, Step, is_name, is_space, starts};
use super::list::ListReader;
use super::named::NamedReader;
use super::sink::Sink;
use super::tagged::TaggedReader;

/// Reads the answer.
#[derive(Debug)]
pub(super) struct Calls {
    markup: Markup,
    tools: Vec<Tool>,
    /// Calls are looked for.
    enabled: bool,
    parallel: bool,
    openers: Vec<Opener>,
    state: State,
}

#[derive(Debug)]
enum State {
    Content,
    /// After an opening tag.
    Opened(Opener),
    Call(Box<Reader>),
}

/// What an opening tag is followed by.
#[derive(Debug, Clone)]
struct Opener {
    tag: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// JSON objects, or what other families write inside the same tag.
    Json,
    Named {
        block: bool,
    },
    /// Tags of arguments, or JSON objects inside the same tag.
    Tagged(&'static TaggedStyle),
    /// The same without a block around it. The flag: only for tools of the request.
    Call(&'static TaggedStyle, bool),
}

#[derive(Debug)]
enum Reader {
    List(ListReader),
    Named(NamedReader),
    Tagged(TaggedReader),
}

impl Reader {
    fn index(&self) -> Option<usize> {
        match self {
            Reader::List(reader) => reader.index(),
            Reader::Named(reader) => reader.index(),
            Reader::Tagged(reader) => reader.index(),
        }
    }

    fn between(&self) -> bool {
        match self {
            Reader::List(reader) => reader.between(),
            Reader::Named(reader) => reader.between(),
            Reader::Tagged(reader) => reader.between(),
        }
    }
}

impl Calls {
    pub(super) fn new(markup: Markup, tools: Vec<Tool>, enabled: bool, parallel: bool) -> Calls {
        let openers = openers(markup);
        Calls { markup, tools, enabled, parallel, openers, state: State::Content }
    }

    /// True while a call is being read.
    pub(super) fn open(&self) -> bool {
        matches!(&self.state, State::Call(reader) if reader.index().is_some())
    }

    /// Tags that end a reasoning whose own end is missing. They are long enough to be meant.
    pub(super) fn thinking_ends(&self) -> &'static [&'static str] {
        match self.markup {
            Markup::QwenXml if self.enabled => &["<tool_call>\n<function="],
            Markup::Dsml(_) if self.enabled => match layout(self.markup) {
                Layout::Tagged(TaggedStyle { block: Some(block), .. }) => std::slice::from_ref(&block.0),
                _ => &[],
            },
            Markup::Kimi if self.enabled => &["<|tool_calls_section_begin|>"],
            _ => &[],
        }
    }

    /// Reads on. False: more text is needed.
    pub(super) fn step(&mut self, input: &mut Input, sink: &mut Sink) -> bool {
        if !self.enabled || (!self.parallel && sink.complete() > 0 && matches!(self.state, State::Content)) {
            let text = input.rest().len();
            let text = input.take(text).to_owned();
            sink.content(&text);
            if !self.enabled {
                sink.release();
            }
            return false;
        }
        let more = self.parallel;
        let step = match &mut self.state {
            State::Content => return self.content(input, sink),
            State::Opened(opener) => {
                let opener = opener.clone();
                self.opened(&opener, input)
            }
            State::Call(reader) => match reader.as_mut() {
                Reader::List(reader) => reader.step(input, &self.tools, sink, more),
                Reader::Named(reader) => reader.step(input, sink, more),
                Reader::Tagged(reader) => reader.step(input, &self.tools, sink, more),
            },
        };
        match step {
            Step::More => true,
            Step::Wait if input.ended => self.cut(input, sink),
            Step::Wait => false,
            Step::Done => {
                input.recorded();
                self.state = State::Content;
                true
            }
            Step::Fail => {
                let raw = input.recorded();
                match self.index() {
                    Some(index) => sink.broken(index, raw),
                    None => sink.content(&raw),
                }
                self.state = State::Content;
                true
            }
        }
    }

    fn index(&self) -> Option<usize> {
        match &self.state {
            State::Call(reader) => reader.index(),
            _ => None,
        }
    }

    /// The reply ended inside of markup.
    fn cut(&mut self, input: &mut Input, sink: &mut Sink) -> bool {
        let raw = input.recorded();
        let rest = input.take(input.rest().len()).to_owned();
        let State::Call(reader) = &self.state else {
            sink.content(&(raw + &rest));
            return false;
        };
        if reader.index().is_none() && !reader.between() {
            sink.content(&(raw + &rest));
            self.state = State::Content;
        }
        false
    }

    fn content(&mut self, input: &mut Input, sink: &mut Sink) -> bool {
        if sink.at_start() {
            // Where nothing was said yet, a call may come without its tag.
            let rest = input.rest();
            let space = rest.len() - rest.trim_start_matches(is_space).len();
            if space == rest.len() && !input.ended {
                return false;
            }
            if let Some(reader) = self.bare(&rest[space..]) {
                input.record();
                input.take(space);
                self.state = State::Call(Box::new(reader));
                return true;
            }
        }
        let tags: Vec<&str> = self.openers.iter().map(|opener| opener.tag.as_str()).collect();
        let rest = input.rest().len();
        if rest == 0 {
            return false;
        }
        match input.find(&tags) {
            Find::At { at, tag } => {
                let text = input.take(at).to_owned();
                sink.content(&text);
                let opener = self.openers[tag].clone();
                input.record();
                input.take(opener.tag.len());
                self.state = State::Opened(opener);
                true
            }
            Find::Maybe(at) => {
                let text = input.take(at).to_owned();
                sink.content(&text);
                false
            }
            Find::No => {
                let text = input.take(rest).to_owned();
                sink.content(&text);
                false
            }
        }
    }

    fn bare(&self, text: &str) -> Option<Reader> {
        let Layout::Json(style) = layout(self.markup) else { return None };
        let fits = style.bare && text.starts_with('{');
        fits.then(|| Reader::List(ListReader::new(style, true)))
    }

    /// Chooses a reader by what follows an opening tag.
    fn opened(&mut self, opener: &Opener, input: &mut Input) -> Step {
        let text = input.rest().trim_start_matches(is_space);
        let Some(first) = text.chars().next() else { return Step::Wait };
        let json = matches!(first, '{' | '[');
        let reader = match (opener.kind, layout(self.markup)) {
            (Kind::Json, Layout::Json(style)) if json => Reader::List(ListReader::new(style, false)),
            (Kind::Json, _) if first == '<' => {
                // The calls of Qwen3-Coder in the tag of Hermes.
                let Layout::Tagged(qwen) = layout(Markup::QwenXml) else { return Step::Fail };
                match starts(text, qwen.call_open) {
                    Starts::Yes => Reader::Tagged(TaggedReader::block(qwen)),
                    Starts::Maybe => return Step::Wait,
                    Starts::No => return Step::Fail,
                }
            }
            (Kind::Named { block: false }, Layout::Named(_)) if json => {
                let Layout::Json(array) = layout(Markup::MistralArray) else { return Step::Fail };
                if self.markup != Markup::MistralArgs {
                    return Step::Fail;
                }
                Reader::List(ListReader::new(array, false))
            }
            (Kind::Json, _) if self.markup == Markup::MistralArray => {
                let Layout::Named(args) = layout(Markup::MistralArgs) else { return Step::Fail };
                Reader::Named(NamedReader::new(Markup::MistralArgs, args, false))
            }
            (Kind::Named { block }, Layout::Named(style)) => {
                Reader::Named(NamedReader::new(self.markup, style, block))
            }
            (Kind::Tagged(_), _) if json && self.markup == Markup::QwenXml => {
                let Layout::Json(hermes) = layout(Markup::Hermes) else { return Step::Fail };
                Reader::List(ListReader::new(hermes, false))
            }
            (Kind::Tagged(style), _) => Reader::Tagged(TaggedReader::block(style)),
            (Kind::Call(style, known_only), _) if is_name(first) => {
                Reader::Tagged(TaggedReader::call(style, known_only))
            }
            _ => return Step::Fail,
        };
        self.state = State::Call(Box::new(reader));
        Step::More
    }
}

fn openers(markup: Markup) -> Vec<Opener> {
    let opener = |tag: &str, kind| Opener { tag: tag.to_owned(), kind };
    match layout(markup) {
        Layout::Json(style) => style.open.iter().map(|tag| opener(tag, Kind::Json)).collect(),
        Layout::Named(style) => {
            let block = style.block.iter().map(|(open, _)| opener(open, Kind::Named { block: true }));
            block.chain([opener(style.call_open, Kind::Named { block: false })]).collect()
        }
        Layout::Tagged(style) => {
            let mut styles = vec![style];
            if let Markup::Dsml(_) = markup {
                // Models know the dialects of their predecessors.
                styles = [DsmlStyle::V32, DsmlStyle::V4, DsmlStyle::V41]
                    .into_iter()
                    .filter_map(|dialect| match layout(Markup::Dsml(dialect)) {
                        Layout::Tagged(style) => Some(style),
                        _ => None,
                    })
                    .collect();
            }
            let blocks = styles.into_iter().filter_map(|style| Some((style, style.block?)));
            let blocks = blocks.map(|(style, (open, _))| opener(open, Kind::Tagged(style)));
            let call = match markup {
                // Qwen3-Coder leaves the tag around a call out now and then.
                Markup::QwenXml => Some(opener(style.call_open, Kind::Call(style, true))),
                _ if style.block.is_none() => Some(opener(style.call_open, Kind::Call(style, false))),
                _ => None,
            };
            blocks.chain(call).collect()
        }
        Layout::Harmony => Vec::new(),
    }
}
