//! Where the parser writes to: deltas, with the white space around markup taken away.

use super::super::delta::{Delta, random_id};
use super::super::think::ReasoningFormat;
use super::input::is_space;

/// Collects deltas.
#[derive(Debug)]
pub(super) struct Sink {
    out: Vec<Delta>,
    reasoning: ReasoningFormat,
    /// White space of the content that is dropped if markup follows.
    gap: String,
    /// White space of the reasoning that is dropped if it ends.
    think_gap: String,
    /// White space at the start of what follows is dropped.
    skip: bool,
    think_skip: bool,
    content_seen: bool,
    id_len: usize,
    started: usize,
    complete: usize,
}

impl Sink {
    pub(super) fn new(reasoning: ReasoningFormat, id_len: usize) -> Sink {
        Sink {
            out: Vec::new(),
            reasoning,
            gap: String::new(),
            think_gap: String::new(),
            skip: false,
            think_skip: true,
            content_seen: false,
            id_len,
            started: 0,
            complete: 0,
        }
    }

    pub(super) fn take(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.out)
    }

    /// What was read until now is not given back, white space that waits included.
    pub(super) fn forget(&mut self) {
        self.out.clear();
        self.gap.clear();
        self.think_gap.clear();
    }

    pub(super) fn started(&self) -> usize {
        self.started
    }

    pub(super) fn complete(&self) -> usize {
        self.complete
    }

    /// True until something visible was written.
    pub(super) fn at_start(&self) -> bool {
        !self.content_seen && self.started == 0
    }

    /// Text for the user. White space at its end waits for what follows.
    pub(super) fn content(&mut self, text: &str) {
        let text = if self.skip { text.trim_start_matches(is_space) } else { text };
        let end = text.trim_end_matches(is_space).len();
        if end > 0 {
            let gap = std::mem::take(&mut self.gap);
            self.emit_content(&gap);
            self.emit_content(&text[..end]);
            self.skip = false;
            self.content_seen = true;
        }
        self.gap.push_str(&text[end..]);
    }

    /// White space that waits is part of the text: no markup can follow.
    pub(super) fn release(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        self.emit_content(&gap);
    }

    fn emit_content(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.out.last_mut() {
            Some(Delta::Content(last)) => last.push_str(text),
            _ => self.out.push(Delta::Content(text.to_owned())),
        }
    }

    fn apart(&self) -> bool {
        self.reasoning != ReasoningFormat::None
    }

    fn inline(&self) -> bool {
        matches!(self.reasoning, ReasoningFormat::None | ReasoningFormat::DeepseekLegacy)
    }

    /// A tag around reasoning, with its white space.
    pub(super) fn think_tag(&mut self, text: &str) {
        if self.inline() {
            self.release();
            self.emit_content(text);
        }
    }

    /// Text of the reasoning.
    pub(super) fn reasoning(&mut self, text: &str) {
        if self.inline() {
            self.emit_content(text);
        }
        if !self.apart() {
            return;
        }
        let text = if self.think_skip { text.trim_start_matches(is_space) } else { text };
        let end = text.trim_end_matches(is_space).len();
        if end > 0 {
            self.think_skip = false;
            let mut gap = std::mem::take(&mut self.think_gap);
            gap.push_str(&text[..end]);
            match self.out.last_mut() {
                Some(Delta::Reasoning(last)) => last.push_str(&gap),
                _ => self.out.push(Delta::Reasoning(gap)),
            }
        }
        self.think_gap.push_str(&text[end..]);
    }

    /// The reasoning is over.
    pub(super) fn reasoning_end(&mut self) {
        self.think_gap.clear();
        self.think_skip = true;
        self.skip = !self.inline();
    }

    /// A call begins; returns its index.
    pub(super) fn start(&mut self, id: Option<String>, name: &str) -> usize {
        self.gap.clear();
        let index = self.started;
        self.started += 1;
        let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| random_id(self.id_len));
        self.out.push(Delta::ToolStart { index, id, name: name.to_owned() });
        index
    }

    pub(super) fn arguments(&mut self, index: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.out.last_mut() {
            Some(Delta::ToolArguments { index: last, fragment }) if *last == index => fragment.push_str(text),
            _ => self.out.push(Delta::ToolArguments { index, fragment: text.to_owned() }),
        }
    }

    /// A call is complete.
    pub(super) fn end(&mut self, index: usize) {
        self.complete += 1;
        self.skip = !self.content_seen;
        self.out.push(Delta::ToolEnd { index });
    }

    /// A call cannot go on.
    pub(super) fn broken(&mut self, index: usize, raw: String) {
        self.out.push(Delta::ToolBroken { index, raw });
    }

    /// The reply is over. White space after calls is layout.
    pub(super) fn finish(&mut self) {
        if self.started == 0 || self.content_after_calls() {
            self.release();
        }
        self.gap.clear();
        self.think_gap.clear();
    }

    fn content_after_calls(&self) -> bool {
        self.started > self.complete
    }
}
