//! The text of a template, prepared for an engine that does not know every block of transformers and does not bound
//! every value.

use super::error::TemplateError;
use super::tag::Tag;

/// The filter that [`prepare`] puts on what a `for` loop walks.
pub(super) const ITERATED: &str = "_iterated";

/// The filter that [`prepare`] puts on what `set` gives a variable.
pub(super) const STORED: &str = "_stored";

/// As [`STORED`], for an attribute of a namespace.
pub(super) const KEPT: &str = "_kept";

/// Longest template in bytes; the longest of 74 known ones has 18 096.
const MAX_SOURCE: usize = 1 << 20;

/// Words and signs in one tag. The parser nests one frame for each of them; 74 known templates stay below 63.
const MAX_TOKENS: usize = 1000;

/// `elif` branches of a template, which nest like tokens; 74 known templates stay below 21.
const MAX_BRANCHES: usize = 1000;

/// Unifies line ends as Jinja does, and rewrites some blocks. Lines stay lines.
///
/// - `{% generation %}` becomes `{% with %}`: the markers only serve training, but what is set inside them stays
///   inside.
/// - `{% for x in y %}` becomes `{% for x in (y)|_iterated %}`: the engine walks none as an empty list, and the filter
///   refuses it as Python does.
/// - `{% set x = y %}` becomes `{% set x = (y)|_stored %}`: values that outlive an expression stay within bounds.
pub(super) fn prepare(name: &str, source: &str) -> Result<String, TemplateError> {
    let too_large =
        |what, limit, line| TemplateError::TooLarge { template: name.to_owned(), line, what, limit };
    if source.len() > MAX_SOURCE {
        return Err(too_large("bytes", MAX_SOURCE, 1));
    }
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let (mut rest, mut branches) = (source.as_str(), 0);
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let tag = match rest.as_bytes().get(1) {
            Some(b'{') => Tag::read(rest, "}}"),
            Some(b'%') => Tag::read(rest, "%}"),
            other => {
                let comment = other == Some(&b'#');
                let len = if comment { rest.find("#}").map_or(rest.len(), |end| end + 2) } else { 1 };
                out.push_str(&rest[..len]);
                rest = &rest[len..];
                continue;
            }
        };
        branches += usize::from(tag.word(0) == "elif");
        if tag.tokens.len() > MAX_TOKENS || branches > MAX_BRANCHES {
            let line = source[..source.len() - rest.len()].matches('\n').count() + 1;
            let (what, limit) = if branches > MAX_BRANCHES {
                ("elif branches", MAX_BRANCHES)
            } else {
                ("words in one tag", MAX_TOKENS)
            };
            return Err(too_large(what, limit, line));
        }
        rest = &rest[tag.text.len()..];
        let verbatim = if tag.text.starts_with("{%") { rewrite(&mut out, &tag, rest) } else { None };
        match verbatim {
            None if tag.text.starts_with("{{") => out.push_str(tag.text),
            None => {}
            Some(len) => {
                out.push_str(&rest[..len]);
                rest = &rest[len..];
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Appends a block tag. Some: this many bytes after it are raw text.
fn rewrite(out: &mut String, tag: &Tag, after: &str) -> Option<usize> {
    let (head, tail) = tag.text.split_at(tag.close);
    let wrapped = match tag.word(0) {
        "generation" | "endgeneration" => {
            let range = tag.tokens[0].range.clone();
            let name = if tag.word(0) == "generation" { "with" } else { "endwith" };
            out.extend([&tag.text[..range.start], name, &tag.text[range.end..]]);
            return None;
        }
        "raw" => {
            out.push_str(tag.text);
            return Some(raw_len(after));
        }
        "for" => tag.find(1, &["in"]).map(|at| (at, tag.find(at + 1, &["if", "recursive"]), ITERATED)),
        "set" => tag.find(1, &["="]).map(|at| {
            let attribute = (1..at).any(|at| tag.word(at) == ".");
            (at, None, if attribute { KEPT } else { STORED })
        }),
        _ => None,
    };
    match wrapped.filter(|(at, end, _)| tag.balanced && at + 1 < end.unwrap_or(tag.tokens.len())) {
        Some((at, end, filter)) => {
            let start = tag.tokens[at].range.end;
            let end = end.map_or(tag.close, |end| tag.tokens[end].range.start);
            out.extend([&head[..start], " (", &head[start..end], ")|", filter, " ", &head[end..], tail]);
        }
        None => out.push_str(tag.text),
    }
    None
}

/// Length of a raw section up to its end tag.
fn raw_len(text: &str) -> usize {
    let mut at = 0;
    while let Some(found) = text[at..].find("{%") {
        at += found;
        let tag = text[at + 2..].trim_start_matches(['-', '+']).trim_start();
        if tag.starts_with("endraw") {
            return at;
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{TemplateError, prepare};

    #[track_caller]
    fn check(cases: &[(&str, &str)]) {
        for (given, wanted) in cases {
            assert_eq!(prepare("t", given).unwrap(), *wanted);
        }
    }

    #[test]
    fn only_generation_blocks_are_renamed() {
        check(&[
            ("{% generation %}x{% endgeneration %}", "{% with %}x{% endwith %}"),
            ("{%- generation -%}x{%-endgeneration-%}", "{%- with -%}x{%-endwith-%}"),
            ("{% if add_generation_prompt %}", "{% if add_generation_prompt %}"),
            ("{# {% generation %} #}", "{# {% generation %} #}"),
            ("{{ '{% generation %}' }}", "{{ '{% generation %}' }}"),
            ("{% if '%}{% generation %}' %}", "{% if '%}{% generation %}' %}"),
            (
                "{% raw %}{% generation %}{% endraw %}{% generation %}",
                "{% raw %}{% generation %}{% endraw %}{% with %}",
            ),
            ("{ generation {% generation", "{ generation {% with"),
            ("a\r\nb\rc generation", "a\nb\nc generation"),
        ]);
    }

    #[test]
    fn loops_walk_a_checked_value() {
        check(&[
            ("{% for a in b %}", "{% for a in ( b )|_iterated %}"),
            ("{%- for a, b in x.items() -%}", "{%- for a, b in ( x.items() )|_iterated -%}"),
            ("{%for a in b if a.c in d%}", "{%for a in ( b )|_iterated if a.c in d%}"),
            ("{% for a in b recursive %}", "{% for a in ( b )|_iterated recursive %}"),
            (
                "{% for a in ('if', (c if d else e)) %}",
                "{% for a in ( ('if', (c if d else e)) )|_iterated %}",
            ),
            ("{% for a in b.if %}", "{% for a in ( b.if )|_iterated %}"),
            ("{% for a in \"x ' if\" %}", "{% for a in ( \"x ' if\" )|_iterated %}"),
            ("{% for a in\n[1,\n2] if a %}", "{% for a in (\n[1,\n2] )|_iterated if a %}"),
            ("{% for a of b %}", "{% for a of b %}"),
            ("{% for a in b) %}", "{% for a in b) %}"),
            ("{% for a in %}", "{% for a in %}"),
            ("{% format %}", "{% format %}"),
        ]);
    }

    #[test]
    fn variables_take_a_checked_value() {
        check(&[
            ("{% set a = b == c %}", "{% set a = ( b == c )|_stored %}"),
            ("{%- set a=b-%}", "{%- set a= (b)|_stored -%}"),
            ("{% set n.a = n.a + 1 -%}", "{% set n.a = ( n.a + 1 )|_kept -%}"),
            ("{% set a, b = 1, 2 %}", "{% set a, b = ( 1, 2 )|_stored %}"),
            ("{% set a %}x{% endset %}", "{% set a %}x{% endset %}"),
            ("{% set a | f(x=1) %}", "{% set a | f(x=1) %}"),
            ("{% set a = %}", "{% set a = %}"),
            ("{% set a = 'x' ~ n.b %}", "{% set a = ( 'x' ~ n.b )|_stored %}"),
        ]);
    }

    #[test]
    fn what_would_nest_too_deeply_is_refused() {
        for (source, wanted) in [
            (format!("\n{{{{ 1{} }}}}", "+1".repeat(600)), (2, "words in one tag")),
            (format!("{{% if 0 %}}{}{{% endif %}}", "\n{% elif 0 %}".repeat(1001)), (1002, "elif branches")),
            ("x".repeat(2 << 20), (1, "bytes")),
        ] {
            match prepare("t", &source) {
                Err(TemplateError::TooLarge { line, what, .. }) => assert_eq!((line, what), wanted),
                other => panic!("{other:?}"),
            }
        }
    }
}
