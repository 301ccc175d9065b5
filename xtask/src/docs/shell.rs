//! Enough of a shell's grammar to find the commands of a block and their flags.

/// The simple commands of a block, each as its words without quotes. Comments, redirections and assignments that stand
/// before a command are left out.
pub(super) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    for token in tokens(text) {
        match token {
            Token::End => commands.push(Vec::new()),
            Token::Word(word) => {
                if let Some(command) = commands.last_mut()
                    && !(command.is_empty() && is_assignment(&word))
                    && !(command.is_empty() && ["nohup", "exec", "time", "nice"].contains(&word.as_str()))
                {
                    command.push(word);
                }
            }
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// A line a command, without its comment.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split(" #").next().unwrap_or(line).trim())
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The flag that a word is, without its value.
pub(super) fn flag(word: &str) -> Option<&str> {
    let name = word.split('=').next().unwrap_or(word);
    let letter = name.trim_start_matches('-').chars().next()?;
    (name.starts_with('-') && letter.is_ascii_alphabetic()).then_some(name)
}

enum Token {
    Word(String),
    End,
}

fn tokens(text: &str) -> Vec<Token> {
    let text = text.replace("\\\n", " ");
    let mut tokens = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    // Of `> FILE` the file, and `2` of `2>&1`, are no words of the command.
    let mut redirect = false;
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                let mut depth = 0;
                while let Some(inner) = chars.next() {
                    match inner {
                        '\\' if c == '"' => word.extend(chars.next()),
                        '(' if c == '"' && word.ends_with('$') => {
                            depth += 1;
                            word.push(inner);
                        }
                        ')' if depth > 0 => {
                            depth -= 1;
                            word.push(inner);
                        }
                        inner if inner == c && depth == 0 => break,
                        inner => word.push(inner),
                    }
                }
            }
            '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            '>' | '<' => {
                let number = word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
                if number {
                    word = None;
                }
                finish(&mut tokens, &mut word, &mut redirect);
                while chars.next_if(|c| matches!(c, '>' | '<' | '&')).is_some() {}
                redirect = true;
            }
            ' ' | '\t' => finish(&mut tokens, &mut word, &mut redirect),
            '\n' | ';' | '|' | '&' => {
                finish(&mut tokens, &mut word, &mut redirect);
                tokens.push(Token::End);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    finish(&mut tokens, &mut word, &mut redirect);
    tokens
}

fn finish(tokens: &mut Vec<Token>, word: &mut Option<String>, redirect: &mut bool) {
    if let Some(word) = word.take()
        && !std::mem::take(redirect)
    {
        tokens.push(Token::Word(word));
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> Vec<String> {
        commands(text).into_iter().map(|words| words.join("|")).collect()
    }

    #[test]
    fn commands_are_told_apart() {
        assert_eq!(joined("a -b 'c d' # e\nf && g|h\n"), ["a|-b|c d", "f", "g", "h"]);
        assert_eq!(joined("a \\\n  b"), ["a|b"]);
        assert_eq!(joined("X=1 nohup a -x >/dev/null 2>&1 & echo $! >b.pid"), ["a|-x", "echo|$!"]);
        assert_eq!(joined("a \"$(cat \"b c\" | d)\" e"), ["a|$(cat \"b c\" | d)|e"]);
        assert_eq!(joined("# nothing\n\n"), Vec::<String>::new());
    }

    #[test]
    fn flags_are_words_with_a_letter_behind_the_dash() {
        assert_eq!([flag("-c"), flag("--port=0"), flag("-hf")], [Some("-c"), Some("--port"), Some("-hf")]);
        assert_eq!([flag("-1"), flag("-"), flag("--"), flag("a-b")], [None; 4]);
    }

    #[test]
    fn lines_lose_their_comments() {
        let text = "# first\ncargo test   # minutes\n\n.ci/run";
        assert_eq!(lines(text).collect::<Vec<_>>(), ["cargo test", ".ci/run"]);
    }
}
