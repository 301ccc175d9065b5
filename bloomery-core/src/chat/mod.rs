//! Chat templates: from messages to the text of a prompt.
//!
//! A model file carries a Jinja program that lays out a conversation. [`ChatTemplate`] renders it byte for byte
//! as `apply_chat_template` of Hugging Face transformers does, because that is what the model was trained on.
//! Templates come with downloaded files and are not trusted: every rendering has a budget of work and memory.
//!
//! The budget has two holes that the engine leaves: an index into a long text (`s[-1]`) costs one unit however long the
//! text is, and a list of many references to one long text is paid by reference where `~` and some filters write it
//! out. A template has to be made for it to use them.
//!
//! Known differences from transformers are the entries of `tests/data/chat/snippets.json` with a field `ours`. The ones
//! a template could meet: text plus `|safe` text is not HTML-escaped, `'%s' % x` and a macro's `varargs` are not
//! supported, and comparing values that have no order is not refused.

mod arguments;
mod bounds;
mod dict;
mod environment;
mod error;
mod filters;
mod json;
mod methods;
mod python;
mod request;
mod source;
mod strftime;
mod tag;
mod template;
mod text;
mod value;

pub use error::TemplateError;
pub use jiff::civil::DateTime;
pub use request::ChatRequest;
pub use template::{ChatTemplate, FUEL, MAX_OUTPUT};
