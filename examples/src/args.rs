//! llama.cpp's spelling of flags on top of clap's.

use std::ffi::OsString;

use clap::Command;

/// A flag of one dash and several letters, such as `-ctk`, and the long flag it stands for.
pub type Alias = (&'static str, &'static str);

/// Rewrites what clap cannot read: `aliases` become long flags, and underscores in known long flags become dashes
/// (`--ctx_size`). Words after `--` are left alone.
pub fn expand(
    words: impl IntoIterator<Item = OsString>,
    command: &Command,
    aliases: &[Alias],
) -> Vec<OsString> {
    let mut literal = false;
    words
        .into_iter()
        .map(|word| {
            literal |= word == "--";
            match word.to_str().filter(|_| !literal).and_then(|text| rewritten(text, command, aliases)) {
                Some(text) => text.into(),
                None => word,
            }
        })
        .collect()
}

fn rewritten(word: &str, command: &Command, aliases: &[Alias]) -> Option<String> {
    if let Some((_, long)) = aliases.iter().find(|(short, _)| *short == word) {
        return Some((*long).to_owned());
    }
    let name = word.strip_prefix("--")?;
    let (name, value) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
    let dashed = name.replace('_', "-");
    if dashed == name || !knows(command, &dashed) {
        return None;
    }
    Some(match value {
        Some(value) => format!("--{dashed}={value}"),
        None => format!("--{dashed}"),
    })
}

fn knows(command: &Command, long: &str) -> bool {
    let here = command.get_arguments().any(|arg| {
        arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)) || hidden(arg, long)
    });
    here || command.get_subcommands().any(|command| knows(command, long))
}

fn hidden(arg: &clap::Arg, long: &str) -> bool {
    arg.get_all_aliases().is_some_and(|names| names.contains(&long))
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    #[test]
    fn llama_cpp_spellings_become_long_flags() {
        let command = Command::new("x").arg(Arg::new("c").long("ctx-size").alias("context-size"));
        let words = [
            "x",
            "-ctk",
            "f16",
            "--ctx_size",
            "5",
            "--context_size=6",
            "--un_known",
            "--",
            "-ctk",
            "--ctx_size",
        ];
        let found = expand(words.map(OsString::from), &command, &[("-ctk", "--cache-type-k")]);
        let wanted = [
            "x",
            "--cache-type-k",
            "f16",
            "--ctx-size",
            "5",
            "--context-size=6",
            "--un_known",
            "--",
            "-ctk",
            "--ctx_size",
        ];
        assert_eq!(found, wanted.map(OsString::from));
    }
}
