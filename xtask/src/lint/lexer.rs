//! Rust source split into code and comments, line by line. Texts of string literals are blanked.

/// One line of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// What is code, with the contents of strings and characters as blanks.
    pub(super) code: String,
    /// What is comment, slashes included.
    pub(super) comment: String,
}

impl Line {
    /// Identifiers and keywords of the code.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.code.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
    }

    /// Whether the code has `word` as a whole word right before `next`, blanks between them aside.
    pub(super) fn has(&self, word: &str, next: &str) -> bool {
        self.code.match_indices(word).any(|(at, _)| {
            let (before, after) = (&self.code[..at], &self.code[at + word.len()..]);
            !before.ends_with(is_word) && !after.starts_with(is_word) && after.trim_start().starts_with(next)
        })
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

enum State {
    Code,
    LineComment,
    /// Depth.
    BlockComment(usize),
    /// The number of hashes of a raw string.
    Text(Option<usize>),
}

/// Splits a whole file.
pub(super) fn lex(source: &str) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut rest = source;
    let mut previous = ' ';
    while let Some(c) = rest.chars().next() {
        if c == '\n' {
            lines.push(Line::default());
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            rest = &rest[1..];
            previous = ' ';
            continue;
        }
        let opens = matches!(state, State::Code);
        let taken;
        (state, taken) = match state {
            State::Code => code(rest, previous),
            State::LineComment => (State::LineComment, c.len_utf8()),
            State::BlockComment(depth) => block_comment(rest, depth),
            State::Text(hashes) => text(rest, hashes),
        };
        let (token, tail) = rest.split_at(taken);
        if let Some(line) = lines.last_mut() {
            put(line, &state, opens, token);
        }
        previous = token.chars().next_back().unwrap_or(' ');
        rest = tail;
    }
    if source.ends_with('\n') {
        lines.pop();
    }
    lines
}

/// Files a token under the state after it: openers of comments belong to the comment, quotes to the code.
fn put(line: &mut Line, state: &State, opens: bool, token: &str) {
    match state {
        State::Code if token.ends_with("*/") => line.comment.push_str(token),
        State::Code if token.len() > 1 && token.starts_with('\'') => line.code.push_str("' '"),
        State::Code => line.code.push_str(token),
        State::LineComment | State::BlockComment(_) => line.comment.push_str(token),
        State::Text(_) if opens => line.code.push_str(token),
        State::Text(_) => line.code.push(' '),
    }
}

fn code(rest: &str, previous: char) -> (State, usize) {
    if rest.starts_with("//") {
        return (State::LineComment, 2);
    }
    if rest.starts_with("/*") {
        return (State::BlockComment(1), 2);
    }
    if rest.starts_with('"') {
        return (State::Text(None), 1);
    }
    if !is_word(previous) {
        for prefix in ["r", "br", "cr"] {
            let Some(tail) = rest.strip_prefix(prefix) else { continue };
            let hashes = tail.len() - tail.trim_start_matches('#').len();
            if tail[hashes..].starts_with('"') {
                return (State::Text(Some(hashes)), prefix.len() + hashes + 1);
            }
        }
    }
    if let Some(len) = character(rest) {
        return (State::Code, len);
    }
    (State::Code, rest.chars().next().map_or(0, char::len_utf8))
}

/// The length of a character literal; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let mut chars = inner.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        // The escaped character may be a quote itself.
        chars.next();
        return chars.find(|(_, c)| *c == '\'').map(|(at, _)| 1 + at + 1);
    }
    matches!(chars.next(), Some((_, '\''))).then(|| 1 + first.len_utf8() + 1)
}

fn block_comment(rest: &str, depth: usize) -> (State, usize) {
    if rest.starts_with("*/") {
        return (if depth == 1 { State::Code } else { State::BlockComment(depth - 1) }, 2);
    }
    if rest.starts_with("/*") {
        return (State::BlockComment(depth + 1), 2);
    }
    (State::BlockComment(depth), rest.chars().next().map_or(0, char::len_utf8))
}

fn text(rest: &str, hashes: Option<usize>) -> (State, usize) {
    let next = rest.chars().next().map_or(0, char::len_utf8);
    match hashes {
        None if rest.starts_with('\\') && !rest.starts_with("\\\n") => {
            (State::Text(None), 1 + rest[1..].chars().next().map_or(0, char::len_utf8))
        }
        None if rest.starts_with('"') => (State::Code, 1),
        Some(hashes) if rest.starts_with('"') => {
            match rest[1..].bytes().take_while(|b| *b == b'#').count() >= hashes {
                true => (State::Code, 1 + hashes),
                false => (State::Text(Some(hashes)), 1),
            }
        }
        _ => (State::Text(hashes), next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(source: &str) -> Vec<String> {
        lex(source)
            .into_iter()
            .map(|line| line.code.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(codes("a(\"unsafe { \\\" }\"); // unsafe"), ["a(\" \");"]);
        assert_eq!(codes("x /* unsafe /* nested */ unsafe */ y"), ["x y"]);
        assert_eq!(codes("let s = r#\"a \" unsafe\"#; b"), ["let s = r#\" \"#; b"]);
        assert_eq!(codes("one\n/* two\nthree */ four\n"), ["one", "", "four"]);
        assert_eq!(codes("let a = \"first\\\n  second\"; end"), ["let a = \"", "\"; end"]);
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        assert_eq!(
            codes(r#"f('"', '\'', '\u{1F600}', b'"'); g::<'a>("x")"#),
            [r#"f(' ', ' ', ' ', b' '); g::<'a>(" ")"#]
        );
        assert_eq!(codes("fn f<'a, 'b>(x: &'a str) {}"), ["fn f<'a, 'b>(x: &'a str) {}"]);
    }

    #[test]
    fn comments_keep_their_text() {
        let lines = lex("// SAFETY: here\nx // and there\n");
        assert_eq!((lines[0].comment.as_str(), lines[0].code.as_str()), ("// SAFETY: here", ""));
        assert_eq!((lines[1].comment.as_str(), lines[1].code.as_str()), ("// and there", "x "));
    }

    #[test]
    fn words_are_whole() {
        let line = &lex("#[expect(unsafe_code)] unsafe  { todo!() }")[0];
        assert!(line.has("unsafe", "{") && line.has("todo", "!") && !line.has("unsafe", "("));
        assert!(!line.has("code", ")"));
    }
}
