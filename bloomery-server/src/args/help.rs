//! What the table looks like: the help, a completion script, the tables of the documents.

use std::fmt::Write as _;

use super::flag::{Class, Flag};
use super::table::{GROUPS, flags};

const WIDTH: usize = 100;
const INDENT: usize = 30;

const HEAD: &str = "\
bloomery-serve: a drop-in llama-server

usage: bloomery-serve [-m FILE | -hf USER/REPO:QUANT] [flags]

Without -m it serves a small demo model on http://127.0.0.1:8080. Flags are those of llama-server; a value on the command
line beats the environment variable. --flag=value, and underscores for dashes, are accepted.

Models of some size, and what to begin with (docs/models.md has them all, and what they need):
  Qwen3-30B-A3B          bloomery-serve --hf unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M
  Qwen3.6-35B-A3B        bloomery-serve --hf unsloth/Qwen3.6-35B-A3B-GGUF:Q4_K_M
  Qwen3.8-Flash-Next     bloomery-serve --hf unsloth/Qwen3.8-Flash-Next-GGUF:UD-Q4_K_XL
  GLM-5.3-Flash          bloomery-serve --hf unsloth/GLM-5.3-Flash-GGUF:UD-Q4_K_XL
";

const TAIL: &str = "
exit codes: 0 stopped in order; 1 stopped at once by a second signal; 64 wrong usage; 66 a file is missing, broken or not
supported; 69 the model does not fit this machine, the address cannot be had, or the hub does not answer; 70 the engine
failed; 74 the log or the cache of downloads cannot be written
";

/// The help.
#[must_use]
pub fn text() -> String {
    let mut out = HEAD.to_owned();
    for group in &GROUPS {
        let mut flags = group.flags.iter().filter(|flag| flag.class == Class::Honoured).peekable();
        if flags.peek().is_some() {
            out.push_str(&format!("\n{}:\n", group.title));
        }
        flags.for_each(|flag| row(&mut out, flag));
    }
    for (title, list) in [("Accepted without effect", ignored()), ("Refused", refused())] {
        out.push_str(&format!("\n{title}:\n"));
        for (why, flags) in list {
            wrap(
                &mut out,
                "  ",
                &format!("{}: {why}", flags.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(", ")),
            );
        }
    }
    out + TAIL
}

fn row(out: &mut String, flag: &Flag) {
    let mut head = format!("  {}", spellings(flag));
    let meta = flag.meta();
    if !meta.is_empty() {
        head.push(' ');
        head.push_str(&meta);
    }
    let mut doc = flag.doc.to_owned();
    if !flag.env.is_empty() {
        let _ = write!(doc, " [env: {}]", flag.env);
    }
    if head.chars().count() + 2 > INDENT {
        out.push_str(&head);
        out.push('\n');
        head.clear();
    }
    let indent = " ".repeat(INDENT);
    let mut text = String::new();
    wrap(&mut text, &indent, &doc);
    if !head.is_empty() {
        head.push_str(&" ".repeat(INDENT - head.chars().count()));
        text.replace_range(..INDENT, &head);
    }
    out.push_str(&text);
}

fn spellings(flag: &Flag) -> String {
    flag.names().chain(flag.off_names()).collect::<Vec<_>>().join(", ")
}

/// Appends `text` in lines of at most [`WIDTH`], each after `indent`.
fn wrap(out: &mut String, indent: &str, text: &str) {
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        if line.len() > indent.len() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = indent.to_owned();
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

type ByReason = Vec<(&'static str, Vec<&'static Flag>)>;

fn by_reason(reason: impl Fn(&Flag) -> Option<&'static str>) -> ByReason {
    let mut list: ByReason = Vec::new();
    for flag in flags() {
        let Some(why) = reason(flag) else { continue };
        match list.iter_mut().find(|(known, _)| *known == why) {
            Some((_, flags)) => flags.push(flag),
            None => list.push((why, vec![flag])),
        }
    }
    list
}

fn ignored() -> ByReason {
    by_reason(|flag| match flag.class {
        Class::Ignored(why) => Some(why),
        _ => None,
    })
}

fn refused() -> ByReason {
    by_reason(|flag| match flag.class {
        Class::Refused(why) => Some(why),
        _ => None,
    })
}

/// A completion script for bash.
#[must_use]
pub fn completion() -> String {
    let words: Vec<&str> = flags().flat_map(|flag| flag.names().chain(flag.off_names())).collect();
    format!(
        "_bloomery_serve() {{\n    COMPREPLY=()\n    local word=\"${{COMP_WORDS[COMP_CWORD]}}\"\n    case \"$word\" in\n        \
         -*) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")) ;;\n        *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}}\n\
         complete -o filenames -F _bloomery_serve bloomery-serve\n",
        words.join(" ")
    )
}

/// The tables of the documents.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::new();
    for group in &GROUPS {
        let honoured: Vec<&Flag> = group.flags.iter().filter(|flag| flag.class == Class::Honoured).collect();
        if honoured.is_empty() {
            continue;
        }
        let _ = write!(out, "### {}\n\n| flag | environment | meaning |\n|---|---|---|\n", group.title);
        for flag in honoured {
            let meta = flag.meta();
            let value = if meta.is_empty() { String::new() } else { format!(" `{}`", cell(&meta)) };
            let env = if flag.env.is_empty() { String::new() } else { format!("`{}`", flag.env) };
            let _ = writeln!(out, "| {}{value} | {env} | {} |", code(flag), cell(flag.doc));
        }
        out.push('\n');
    }
    for (title, list) in [("Accepted without effect", ignored()), ("Refused", refused())] {
        let _ = write!(out, "### {title}\n\n| why | flags |\n|---|---|\n");
        for (why, flags) in list {
            let names = flags.into_iter().map(code).collect::<Vec<_>>().join(", ");
            let _ = writeln!(out, "| {} | {names} |", cell(why));
        }
        out.push('\n');
    }
    out
}

fn code(flag: &Flag) -> String {
    let names = flag.names().chain(flag.off_names());
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*")
}
