//! One row of the table of flags.

use super::draft::{Draft, Wrong};

/// A heading and its flags.
#[derive(Debug)]
pub struct Group {
    /// The heading.
    pub title: &'static str,
    /// Its rows.
    pub flags: &'static [Flag],
}

/// A flag: how it is spelled, what it takes, what becomes of it.
#[derive(Debug)]
pub struct Flag {
    /// All spellings, with a space between.
    names: &'static str,
    /// Spellings that switch it off.
    off: &'static str,
    /// The environment variable that stands in for it, or nothing.
    pub env: &'static str,
    /// What follows it and where that goes.
    pub(super) reads: Reads,
    /// Whether it does anything.
    pub class: Class,
    /// Whether it may be repeated and adds up; otherwise the last one wins.
    pub many: bool,
    /// Whether it changes generation parameters, whose defaults are known once the model is loaded.
    pub params: bool,
    /// What it means.
    pub doc: &'static str,
}

/// What follows a flag, and the function that takes it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reads {
    /// Nothing.
    Switch(fn(&mut Draft, bool)),
    /// A whole number between two others.
    Integer { meta: &'static str, low: i64, high: i64, set: fn(&mut Draft, i64) },
    /// A number.
    Number { meta: &'static str, set: fn(&mut Draft, f32) },
    /// Any text, which the function may refuse.
    Text { meta: &'static str, set: fn(&mut Draft, &str) -> Result<(), Wrong> },
    /// One of these words.
    Word { words: &'static [&'static str], set: fn(&mut Draft, &str) },
    /// One of these words, or nothing where another flag follows, which is the first of them.
    OptionalWord { words: &'static [&'static str], set: fn(&mut Draft, &str) },
    /// Nothing; something is printed and nothing else happens.
    Print(Print),
}

/// What the server does with a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// What it says.
    Honoured,
    /// Nothing, and says why.
    Ignored(&'static str),
    /// It does not start, and says why.
    Refused(&'static str),
}

/// What can be printed in place of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Print {
    /// All flags.
    Help,
    /// The version.
    Version,
    /// What can compute.
    Devices,
    /// Models in the cache of downloads.
    Cached,
    /// A completion script.
    Completion,
}

/// Words for yes.
pub(super) const YES: [&str; 4] = ["on", "true", "1", "enabled"];
/// Words for no.
pub(super) const NO: [&str; 4] = ["off", "false", "0", "disabled"];

/// Reads a word for yes or no.
pub(super) fn boolean(word: &str) -> Option<bool> {
    let has = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    if has(&YES) {
        Some(true)
    } else if has(&NO) {
        Some(false)
    } else {
        None
    }
}

impl Flag {
    const fn new(names: &'static str, reads: Reads) -> Self {
        Self { names, off: "", env: "", reads, class: Class::Honoured, many: false, params: false, doc: "" }
    }

    /// Its spellings.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split_whitespace()
    }

    /// The spellings that switch it off.
    pub fn off_names(&self) -> impl Iterator<Item = &'static str> {
        self.off.split_whitespace()
    }

    /// The spelling that stands for it in messages: the first long one.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let names = || self.names().chain(self.off_names());
        names().find(|name| name.starts_with("--")).or_else(|| names().next()).unwrap_or_default()
    }

    /// The variable that switches it off just by being there.
    #[must_use]
    pub fn off_env(&self) -> Option<String> {
        let rest = self.env.strip_prefix("LLAMA_ARG_").filter(|_| !self.off.is_empty())?;
        Some(format!("LLAMA_ARG_NO_{rest}"))
    }

    /// What its value is called in the help; nothing for a switch.
    #[must_use]
    pub fn meta(&self) -> String {
        match self.reads {
            Reads::Switch(_) | Reads::Print(_) => String::new(),
            Reads::Integer { meta, .. } | Reads::Number { meta, .. } | Reads::Text { meta, .. } => {
                meta.to_owned()
            }
            Reads::Word { words, .. } => words.join("|"),
            Reads::OptionalWord { words, .. } => format!("[{}]", words.join("|")),
        }
    }

    pub(super) const fn env(self, env: &'static str) -> Self {
        Self { env, ..self }
    }

    pub(super) const fn off(self, off: &'static str) -> Self {
        Self { off, ..self }
    }

    pub(super) const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    pub(super) const fn params(self) -> Self {
        Self { params: true, ..self }
    }

    pub(super) const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// Accepted without effect.
    pub(super) const fn ignored(self, why: &'static str) -> Self {
        Self { class: Class::Ignored(why), ..self }
    }

    /// Not accepted; a switch may still be switched off.
    pub(super) const fn refused(self, why: &'static str) -> Self {
        Self { class: Class::Refused(why), ..self }
    }
}

pub(super) const fn switch(names: &'static str, set: fn(&mut Draft, bool)) -> Flag {
    Flag::new(names, Reads::Switch(set))
}

pub(super) const fn integer(
    names: &'static str,
    meta: &'static str,
    (low, high): (i64, i64),
    set: fn(&mut Draft, i64),
) -> Flag {
    Flag::new(names, Reads::Integer { meta, low, high, set })
}

pub(super) const fn number(names: &'static str, meta: &'static str, set: fn(&mut Draft, f32)) -> Flag {
    Flag::new(names, Reads::Number { meta, set })
}

pub(super) const fn text(
    names: &'static str,
    meta: &'static str,
    set: fn(&mut Draft, &str) -> Result<(), Wrong>,
) -> Flag {
    Flag::new(names, Reads::Text { meta, set })
}

pub(super) const fn word(
    names: &'static str,
    words: &'static [&'static str],
    set: fn(&mut Draft, &str),
) -> Flag {
    Flag::new(names, Reads::Word { words, set })
}

pub(super) const fn print(names: &'static str, what: Print) -> Flag {
    Flag::new(names, Reads::Print(what))
}

/// A switch that goes nowhere.
pub(super) const fn bare(names: &'static str) -> Flag {
    switch(names, |_, _| {})
}

/// A flag with a value that goes nowhere.
pub(super) const fn unused(names: &'static str, meta: &'static str) -> Flag {
    text(names, meta, |_, _| Ok(()))
}

/// A flag with a number that goes nowhere.
pub(super) const fn unused_number(names: &'static str, meta: &'static str) -> Flag {
    number(names, meta, |_, _| {})
}

/// A flag with a word that goes nowhere.
pub(super) const fn unused_word(names: &'static str, words: &'static [&'static str]) -> Flag {
    word(names, words, |_, _| {})
}

/// A flag whose word may be left out.
pub(super) const fn optional(
    names: &'static str,
    words: &'static [&'static str],
    set: fn(&mut Draft, &str),
) -> Flag {
    Flag::new(names, Reads::OptionalWord { words, set })
}

/// A flag whose word may be left out, and that goes nowhere.
pub(super) const fn unused_optional(names: &'static str, words: &'static [&'static str]) -> Flag {
    optional(names, words, |_, _| {})
}
