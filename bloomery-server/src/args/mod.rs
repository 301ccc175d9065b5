//! The command line and the environment.
//!
//! llama-server's users type flags that clap cannot spell: several letters after one dash (`-np`, `-ctk`), underscores for
//! dashes, a value that may be left out (`-fa`), negations with names of their own (`-nocb`). So the words are read by a
//! small parser over a [table], and the same table makes the help, the completion and the documents.

mod draft;
mod engine;
mod environment;
mod error;
mod escapes;
mod flag;
mod help;
mod hub;
mod nearest;
mod parse;
mod placement;
mod setters;
mod settings;
pub mod table;
pub mod templates;

pub use engine::EngineOptions;
pub use error::ArgError;
pub use flag::{Class, Flag, Group, Print};
pub use help::{completion, markdown, text as help};
pub use hub::HubOptions;
pub use parse::parse;
pub use settings::{Command, Settings};
