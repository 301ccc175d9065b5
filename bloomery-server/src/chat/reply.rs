//! A reply put together from its deltas.

use super::delta::Delta;

/// One call of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyCall {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON text of the arguments. Of an incomplete call, as much as came.
    pub arguments: String,
    /// False: the end of the generation cut the call.
    pub complete: bool,
}

/// What a reply says in all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// The reasoning.
    pub reasoning: String,
    /// What the user reads.
    pub content: String,
    /// The calls, in order.
    pub calls: Vec<ReplyCall>,
}

impl Reply {
    /// Adds deltas. A broken call becomes content again: nothing of it was sent yet.
    pub fn extend(&mut self, deltas: impl IntoIterator<Item = Delta>) {
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => self.reasoning.push_str(&text),
                Delta::Content(text) => self.content.push_str(&text),
                Delta::ToolStart { id, name, .. } => {
                    self.calls.push(ReplyCall { id, name, arguments: String::new(), complete: false });
                }
                Delta::ToolArguments { fragment, .. } => {
                    if let Some(call) = self.calls.last_mut() {
                        call.arguments.push_str(&fragment);
                    }
                }
                Delta::ToolEnd { .. } => {
                    if let Some(call) = self.calls.last_mut() {
                        call.complete = true;
                    }
                }
                Delta::ToolBroken { raw, .. } => {
                    self.calls.pop();
                    self.content.push_str(&raw);
                }
            }
        }
    }
}
