//! A whole reply, put together from its pieces.

use crate::chat::Delta;

/// The parts of a reply in the order in which they appeared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// The parts; neighbours of one kind are one part.
    pub(crate) parts: Vec<Part>,
}

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Reasoning.
    Reasoning(String),
    /// Text for the user.
    Text(String),
    /// A call of a tool.
    Call(Call),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// Its place among the calls that were begun.
    pub(crate) index: usize,
    /// Its id.
    pub(crate) id: String,
    /// The tool.
    pub(crate) name: String,
    /// JSON text, cut off where the call is not complete.
    pub(crate) arguments: String,
    /// Whether the arguments are whole.
    pub(crate) complete: bool,
}

impl Message {
    /// Takes in one piece.
    pub(crate) fn push(&mut self, delta: &Delta) {
        match delta {
            Delta::Reasoning(text) => match self.parts.last_mut() {
                Some(Part::Reasoning(part)) => part.push_str(text),
                _ if text.is_empty() => {}
                _ => self.parts.push(Part::Reasoning(text.clone())),
            },
            Delta::Content(text) => self.text(text),
            Delta::ToolStart { index, id, name } => self.parts.push(Part::Call(Call {
                index: *index,
                id: id.clone(),
                name: name.clone(),
                arguments: String::new(),
                complete: false,
            })),
            Delta::ToolArguments { index, fragment } => {
                if let Some(call) = self.call(*index) {
                    call.arguments.push_str(fragment);
                }
            }
            Delta::ToolEnd { index } => {
                if let Some(call) = self.call(*index) {
                    call.complete = true;
                }
            }
            Delta::ToolBroken { index, raw } => {
                self.parts.retain(|part| !matches!(part, Part::Call(call) if call.index == *index));
                self.text(raw);
            }
        }
    }

    fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(part)) => part.push_str(text),
            _ if text.is_empty() => {}
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    fn call(&mut self, index: usize) -> Option<&mut Call> {
        self.parts.iter_mut().find_map(|part| match part {
            Part::Call(call) if call.index == index => Some(call),
            _ => None,
        })
    }

    /// All reasoning.
    pub(crate) fn reasoning(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| if let Part::Reasoning(text) = part { Some(text.as_str()) } else { None })
            .collect()
    }

    /// All text.
    pub(crate) fn content(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
            .collect()
    }

    /// The calls.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None })
    }

    /// Takes calls out that are not complete.
    pub(crate) fn drop_incomplete(&mut self) {
        self.parts.retain(|part| !matches!(part, Part::Call(call) if !call.complete));
    }

    /// Whether a call is complete.
    pub(crate) fn has_call(&self) -> bool {
        self.calls().any(|call| call.complete)
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Part};
    use crate::chat::Delta;

    fn start(index: usize) -> Delta {
        Delta::ToolStart { index, id: format!("id{index}"), name: "f".to_owned() }
    }

    #[test]
    fn neighbours_of_one_kind_are_one_part() {
        let mut message = Message::default();
        for delta in [
            Delta::Reasoning("a".to_owned()),
            Delta::Reasoning("b".to_owned()),
            Delta::Content(String::new()),
            Delta::Content("c".to_owned()),
            Delta::Content("d".to_owned()),
            start(0),
            Delta::ToolArguments { index: 0, fragment: "{".to_owned() },
            Delta::ToolArguments { index: 0, fragment: "}".to_owned() },
            Delta::ToolEnd { index: 0 },
            Delta::Content("e".to_owned()),
        ] {
            message.push(&delta);
        }
        assert_eq!(message.parts.len(), 4);
        assert_eq!((message.reasoning().as_str(), message.content().as_str()), ("ab", "cde"));
        let call = message.calls().next().unwrap();
        assert_eq!((call.arguments.as_str(), call.complete), ("{}", true));
        assert!(message.has_call());
    }

    #[test]
    fn a_broken_call_is_text_again() {
        let mut message = Message::default();
        message.push(&Delta::Content("x ".to_owned()));
        message.push(&start(0));
        message.push(&Delta::ToolBroken { index: 0, raw: "<tool_call>oops".to_owned() });
        message.push(&Delta::Content(" y".to_owned()));
        assert_eq!(message.parts, [Part::Text("x <tool_call>oops y".to_owned())]);
        assert!(!message.has_call());
    }
}
