//! Variables that stand in for flags.

use super::error::ArgError;
use super::flag::{Class, Flag, Reads};
use super::parse::{Given, GivenValue, yes};
use super::table::flags;

/// Flags that variables give and the command line does not, and warnings about names that mean nothing here.
pub(super) fn read(
    variables: &[(String, String)],
    typed: &[Given],
) -> Result<(Vec<Given>, Vec<String>), ArgError> {
    let mut given = Vec::new();
    for flag in flags().filter(|flag| !flag.env.is_empty()) {
        if typed.iter().any(|typed| std::ptr::eq(typed.flag, flag)) {
            continue;
        }
        let value = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        if let Some(name) = flag.off_env().filter(|name| value(name).is_some()) {
            given.push(Given { flag, typed: name, value: GivenValue::Switch(false) });
        } else if let Some(value) = value(flag.env) {
            given.extend(one(flag, value)?);
        }
    }
    let unknown = variables.iter().map(|(name, _)| name.as_str()).filter(|name| is_unknown(name));
    let warnings = unknown.map(|name| format!("{name} is not read: there is no such option")).collect();
    Ok((given, warnings))
}

fn one(flag: &'static Flag, value: &str) -> Result<Option<Given>, ArgError> {
    let value = match flag.reads {
        Reads::Switch(_) => GivenValue::Switch(yes(flag.env, value)?),
        // An empty variable is what compose files make of one that is not set.
        _ if value.is_empty() => return Ok(None),
        _ => GivenValue::Text(value.to_owned()),
    };
    Ok(Some(Given { flag, typed: flag.env.to_owned(), value }))
}

fn is_unknown(name: &str) -> bool {
    let ours = name.starts_with("LLAMA_ARG_") || name.starts_with("BLOOMERY_");
    ours && !flags().any(|flag| flag.env == name || flag.off_env().is_some_and(|off| off == name))
}

/// One line a reason for flags that have no effect.
pub(super) fn without_effect(given: &[Given]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for given in given {
        let Class::Ignored(why) = given.flag.class else { continue };
        let names = match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names,
            None => {
                reasons.push((why, Vec::new()));
                &mut reasons.last_mut().expect("it was just pushed").1
            }
        };
        if !names.contains(&given.typed.as_str()) {
            names.push(&given.typed);
        }
    }
    reasons.into_iter().map(|(why, names)| format!("{}: no effect: {why}", names.join(", "))).collect()
}
