//! What a chat model writes.
mod delta;
mod grammar;
mod markup;
mod parse;
mod reply;
mod schema;
mod style;
mod think;
mod tool;
mod write;

pub use delta::Delta;
pub use grammar::ToolGrammar;
pub use markup::{DsmlStyle, Markup};
pub use parse::{OutputParser, ParserOptions};
pub use reply::{Reply, ReplyCall};
pub use think::{ReasoningFormat, ReplyStart, ThinkTags};
pub use tool::{Tool, ToolChoice};
pub use write::Call;
