//! From words to settings.

use super::draft::{Draft, Wrong};
use super::environment;
use super::error::ArgError;
use super::flag::{Class, Flag, NO, Reads, YES, boolean};
use super::nearest::nearest;
use super::settings::{Command, Settings};
use super::table::find;

/// A flag that was given, and where.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) flag: &'static Flag,
    /// As it was typed, for messages.
    pub(super) typed: String,
    pub(super) value: GivenValue,
}

/// The value of a flag that was given.
#[derive(Debug, Clone)]
pub(super) enum GivenValue {
    Switch(bool),
    Text(String),
    /// Left out.
    Nothing,
}

/// Reads the words after the program's name; `variables` are those of the environment.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse(words: &[String], variables: &[(String, String)]) -> Result<Command, ArgError> {
    let mut typed = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let (name, attached) = split(word);
        let (flag, off) =
            find(&name).ok_or_else(|| ArgError::Unknown { flag: name.clone(), near: nearest(&name) })?;
        let meta = || ArgError::Missing { flag: name.clone(), meta: flag.meta() };
        let value = match (flag.reads, attached) {
            (Reads::Print(what), _) => return Ok(Command::Print(what)),
            (Reads::Switch(_), None) => GivenValue::Switch(!off),
            (Reads::Switch(_), Some(word)) => GivenValue::Switch(yes(&name, &word)? != off),
            (_, Some(value)) => GivenValue::Text(value),
            (Reads::OptionalWord { .. }, None) => match words.next_if(|next| !next.starts_with('-')) {
                Some(value) => GivenValue::Text(value.clone()),
                None => GivenValue::Nothing,
            },
            (_, None) => GivenValue::Text(words.next().ok_or_else(meta)?.clone()),
        };
        typed.push(Given { flag, typed: name, value });
    }
    let mut warnings = repeated(&typed);
    let (mut given, more) = environment::read(variables, &typed)?;
    warnings.extend(more);
    given.extend(typed);
    let mut draft = Draft { warnings, ..Draft::default() };
    for given in &given {
        given.apply(&mut draft)?;
    }
    Ok(Command::Serve(Box::new(Settings::finish(draft, given, variables)?)))
}

/// The spelling as the table has it, and what follows a `=`.
fn split(word: &str) -> (String, Option<String>) {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) if name.starts_with('-') => (name, Some(value.to_owned())),
        _ => (word, None),
    };
    let name = if name.starts_with("--") { name.replace('_', "-") } else { name.to_owned() };
    (name, value)
}

pub(super) fn yes(flag: &str, word: &str) -> Result<bool, ArgError> {
    boolean(word).ok_or_else(|| ArgError::Value {
        flag: flag.to_owned(),
        value: word.to_owned(),
        why: format!("expected {} or {}", YES.join("/"), NO.join("/")),
    })
}

fn repeated(typed: &[Given]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, given) in typed.iter().enumerate() {
        let earlier = typed[..index].iter().filter(|other| std::ptr::eq(other.flag, given.flag)).count();
        if earlier == 1 && !given.flag.many {
            warnings.push(format!("{} is given more than once: the last one counts", given.flag.name()));
        }
    }
    warnings
}

impl Given {
    /// Puts the value where it goes.
    pub(super) fn apply(&self, draft: &mut Draft) -> Result<(), ArgError> {
        let switched_off = matches!(self.value, GivenValue::Switch(false));
        if let Class::Refused(why) = self.flag.class
            && !switched_off
        {
            return Err(ArgError::Refused { flag: self.typed.clone(), why: why.to_owned() });
        }
        let value = match &self.value {
            GivenValue::Switch(on) => {
                if let Reads::Switch(set) = self.flag.reads {
                    set(draft, *on);
                }
                return Ok(());
            }
            GivenValue::Nothing => {
                if let Reads::OptionalWord { words, set } = self.flag.reads {
                    set(draft, words[0]);
                }
                return Ok(());
            }
            GivenValue::Text(value) => value,
        };
        self.take(draft, value).map_err(|wrong| self.error(value, wrong))
    }

    fn take(&self, draft: &mut Draft, value: &str) -> Result<(), Wrong> {
        match self.flag.reads {
            Reads::Integer { low, high, set, .. } => {
                let number = value.trim().parse::<i64>().ok().filter(|n| (low..=high).contains(n));
                set(draft, number.ok_or_else(|| Wrong::Value(range(low, high)))?);
            }
            Reads::Number { set, .. } => {
                let number = value.trim().parse::<f32>().ok().filter(|x| x.is_finite());
                set(draft, number.ok_or_else(|| Wrong::expected("a number"))?);
            }
            Reads::Text { set, .. } => set(draft, value)?,
            Reads::Word { words, set } => set(draft, known(words, value)?),
            Reads::OptionalWord { words, set } => set(draft, known(words, value)?),
            Reads::Switch(_) | Reads::Print(_) => {}
        }
        Ok(())
    }

    fn error(&self, value: &str, wrong: Wrong) -> ArgError {
        let flag = self.typed.clone();
        match wrong {
            Wrong::Value(why) => ArgError::Value { flag, value: shortened(value), why },
            Wrong::File(path, why) => ArgError::File { flag, path, why },
            Wrong::Unsupported(why) => ArgError::Refused { flag, why },
        }
    }
}

/// The word of the list that is meant. Boolean words stand for `on` and `off`.
fn known(words: &'static [&'static str], value: &str) -> Result<&'static str, Wrong> {
    let meant = match boolean(value) {
        Some(true) if words.contains(&"on") => "on",
        Some(false) if words.contains(&"off") => "off",
        _ => value,
    };
    let word = words.iter().find(|word| word.eq_ignore_ascii_case(meant));
    word.copied().ok_or_else(|| Wrong::Value(format!("expected {}", words.join(", "))))
}

fn range(low: i64, high: i64) -> String {
    const MAX: i64 = i32::MAX as i64;
    match (low, high) {
        (low, _) if low <= -MAX => "expected a whole number".to_owned(),
        (low, high) if high >= MAX && high != i64::from(u32::MAX) => {
            format!("expected a whole number from {low}")
        }
        (low, high) => format!("expected a whole number from {low} to {high}"),
    }
}

/// Long values, such as templates, are not repeated in full.
fn shortened(value: &str) -> String {
    const MOST: usize = 80;
    match value.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value.to_owned(),
    }
}
