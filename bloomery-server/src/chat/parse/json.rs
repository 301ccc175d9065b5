//! JSON as it comes, character by character.

use super::input::{Input, Step, is_space};

/// What a character means to a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    /// The value goes on.
    More,
    /// The character ended the value.
    Done,
    /// The value was complete before the character, which is none of it.
    Past,
    /// This is no JSON.
    Bad,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    /// After `[`: a value or `]`.
    First,
    /// After `{`: a key or `}`.
    FirstKey,
    Key,
    Colon,
    Next,
    String,
    Number(Number),
    /// One of the words, and how much of it was read.
    Word(&'static str, usize),
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Int,
    Dot,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// Checks one JSON value and passes it on.
///
/// What models write carelessly inside strings is mended, so that every reader takes the result: raw control
/// characters are escaped, a backslash before a character that needs none becomes two, half of a surrogate pair
/// becomes U+FFFD.
#[derive(Debug)]
pub(super) struct JsonScan {
    state: State,
    /// True for objects.
    open: Vec<bool>,
    /// The string is a key.
    key: bool,
    /// An escape that is not complete.
    escape: String,
    /// The first half of a surrogate pair, as text.
    high: String,
}

impl JsonScan {
    pub(super) fn new() -> JsonScan {
        let (escape, high) = (String::new(), String::new());
        JsonScan { state: State::Value, open: Vec::new(), key: false, escape, high }
    }

    /// True if the value is complete when no more text follows.
    pub(super) fn complete(&self) -> bool {
        let number = matches!(self.state, State::Number(n) if n.ends());
        self.open.is_empty() && (self.state == State::Done || number)
    }

    /// Reads as much of the value as there is. Done: it is complete.
    pub(super) fn read(&mut self, input: &mut Input, out: &mut String) -> Step {
        let (mut read, mut step) = (0, Step::Wait);
        for c in input.rest().chars() {
            match self.feed(c, out) {
                Scan::More => read += c.len_utf8(),
                Scan::Done => {
                    read += c.len_utf8();
                    step = Step::Done;
                    break;
                }
                Scan::Bad | Scan::Past => {
                    step = Step::Fail;
                    break;
                }
            }
        }
        input.take(read);
        step
    }

    /// Takes the next character and appends to `out` what is certain by now.
    pub(super) fn feed(&mut self, c: char, out: &mut String) -> Scan {
        let space = is_space(c);
        match self.state {
            State::Done => return if space { Scan::More } else { Scan::Past },
            State::String => return self.string(c, out),
            State::Number(number) => match number.next(c) {
                Some(next) => self.state = State::Number(next),
                None if !number.ends() => return Scan::Bad,
                None if self.open.is_empty() => {
                    self.state = State::Done;
                    return if space { Scan::More } else { Scan::Past };
                }
                None => {
                    self.state = State::Next;
                    return self.feed(c, out);
                }
            },
            State::Word(word, at) if word[at..].starts_with(c) => {
                let at = at + 1;
                self.state = State::Word(word, at);
                out.push(c);
                return if at == word.len() { self.close() } else { Scan::More };
            }
            State::Word(..) => return Scan::Bad,
            _ if space => {}
            State::Value => return self.value(c, out),
            State::First if c == ']' => return self.shut(c, out),
            State::First => return self.value(c, out),
            State::FirstKey if c == '}' => return self.shut(c, out),
            State::FirstKey | State::Key if c == '"' => {
                self.key = true;
                self.state = State::String;
            }
            State::Colon if c == ':' => self.state = State::Value,
            State::Next => match (c, self.open.last()) {
                (',', Some(true)) => self.state = State::Key,
                (',', Some(false)) => self.state = State::Value,
                ('}', Some(true)) | (']', Some(false)) => return self.shut(c, out),
                _ => return Scan::Bad,
            },
            _ => return Scan::Bad,
        }
        out.push(c);
        Scan::More
    }

    fn value(&mut self, c: char, out: &mut String) -> Scan {
        self.state = match c {
            '{' => State::FirstKey,
            '[' => State::First,
            '"' => State::String,
            '-' => State::Number(Number::Minus),
            '0' => State::Number(Number::Zero),
            '1'..='9' => State::Number(Number::Int),
            't' => State::Word("true", 1),
            'f' => State::Word("false", 1),
            'n' => State::Word("null", 1),
            _ => return Scan::Bad,
        };
        match c {
            '{' => self.open.push(true),
            '[' => self.open.push(false),
            _ => self.key = false,
        }
        out.push(c);
        Scan::More
    }

    fn shut(&mut self, c: char, out: &mut String) -> Scan {
        self.open.pop();
        out.push(c);
        self.close()
    }

    /// A value inside the outermost one, or that one itself, is complete.
    fn close(&mut self) -> Scan {
        if self.open.is_empty() {
            self.state = State::Done;
            return Scan::Done;
        }
        self.state = State::Next;
        Scan::More
    }

    fn string(&mut self, c: char, out: &mut String) -> Scan {
        if !self.escape.is_empty() {
            self.escape(c, out);
            return Scan::More;
        }
        if c == '\\' {
            self.escape.push(c);
            return Scan::More;
        }
        self.lone_surrogate(out);
        match c {
            '"' => {
                out.push(c);
                if self.key {
                    self.key = false;
                    self.state = State::Colon;
                    return Scan::More;
                }
                return self.close();
            }
            c if c < ' ' => push_escaped(out, c),
            c => out.push(c),
        }
        Scan::More
    }

    /// Takes a character after a backslash.
    fn escape(&mut self, c: char, out: &mut String) {
        let digits = self.escape.len();
        let valid = match digits {
            1 => matches!(c, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u'),
            _ => c.is_ascii_hexdigit(),
        };
        if !valid {
            // What was meant is the backslash itself.
            self.lone_surrogate(out);
            out.push('\\');
            out.push_str(&std::mem::take(&mut self.escape));
            self.string(c, out);
            return;
        }
        self.escape.push(c);
        if self.escape == "\\u" || (self.escape.starts_with("\\u") && self.escape.len() < 6) {
            return;
        }
        let escape = std::mem::take(&mut self.escape);
        let unit = escape.strip_prefix("\\u").and_then(|hex| u16::from_str_radix(hex, 16).ok());
        match unit {
            Some(0xD800..=0xDBFF) => {
                self.lone_surrogate(out);
                self.high = escape;
            }
            Some(0xDC00..=0xDFFF) if self.high.is_empty() => out.push_str("\\ufffd"),
            Some(0xDC00..=0xDFFF) => {
                out.push_str(&std::mem::take(&mut self.high));
                out.push_str(&escape);
            }
            _ => {
                self.lone_surrogate(out);
                out.push_str(&escape);
            }
        }
    }

    fn lone_surrogate(&mut self, out: &mut String) {
        if !self.high.is_empty() {
            self.high.clear();
            out.push_str("\\ufffd");
        }
    }
}

impl Number {
    fn ends(self) -> bool {
        matches!(self, Number::Zero | Number::Int | Number::Fraction | Number::Exponent)
    }

    fn next(self, c: char) -> Option<Number> {
        let digit = c.is_ascii_digit();
        match (self, c) {
            (Number::Minus, '0') => Some(Number::Zero),
            (Number::Minus | Number::Int, _) if digit => Some(Number::Int),
            (Number::Zero | Number::Int, '.') => Some(Number::Dot),
            (Number::Dot | Number::Fraction, _) if digit => Some(Number::Fraction),
            (Number::Zero | Number::Int | Number::Fraction, 'e' | 'E') => Some(Number::E),
            (Number::E, '+' | '-') => Some(Number::Sign),
            (Number::E | Number::Sign | Number::Exponent, _) if digit => Some(Number::Exponent),
            _ => None,
        }
    }
}

/// Appends `c` as it stands inside a JSON string.
pub(super) fn push_escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push(c),
    }
}

/// A text as the inside of a JSON string.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    text.chars().for_each(|c| push_escaped(&mut out, c));
    out
}

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::{JsonScan, Scan, quoted};

    /// The text passed on, and whether the value was complete.
    fn scan(text: &str) -> (String, bool) {
        let (mut scan, mut out) = (JsonScan::new(), String::new());
        for c in text.chars() {
            if matches!(scan.feed(c, &mut out), Scan::Bad | Scan::Past) {
                return (out, false);
            }
        }
        (out, scan.complete())
    }

    #[test]
    fn valid_json_passes_unchanged() {
        for text in [
            "{}",
            "[]",
            "0",
            "-0.5e+10",
            "12",
            "\"a\\n\\u00e9\\ud83d\\ude00\"",
            "true",
            "null",
            r#"{"a": [1, {"b": null}], "c":"}"}"#,
            "[[],{}]",
            " { } ",
        ] {
            let (out, complete) = scan(text);
            assert!(complete, "{text}");
            let value: Value = serde_json::from_str(text).expect(text);
            assert_eq!(serde_json::from_str::<Value>(&out).expect(&out), value);
        }
    }

    #[test]
    fn other_texts_are_refused_or_incomplete() {
        for text in [
            "{",
            "[1,",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{'a':1}",
            "[1 2]",
            "[1,]",
            "{\"a\":1,}",
            "01",
            "-",
            "1.",
            "1e",
            "tru",
            "nul",
            "True",
            "\"a",
            "{]",
            "[}",
            "1 2",
            "{} x",
            "]",
            "+1",
            ".5",
        ] {
            assert!(!scan(text).1, "{text}");
        }
    }

    #[test]
    fn careless_strings_are_mended() {
        for (text, wanted) in [
            ("\"a\nb\tc\"", r#""a\nb\tc""#),
            (r#""\d+\'""#, r#""\\d+\\'""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ud83dx\ude00""#, r#""\ufffdx\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\u12g""#, r#""\\u12g""#),
            (r#""\u1""#, r#""\\u1""#),
        ] {
            assert_eq!(scan(text), (wanted.to_owned(), true), "{text}");
            serde_json::from_str::<Value>(wanted).expect(wanted);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, rng_seed: proptest::test_runner::RngSeed::Fixed(11), ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_serde(text in "[\\[\\]{}\",:0-9eE.+ \\-a-c\\\\/trufalsn]{0,12}") {
            let (out, complete) = scan(&text);
            let strict = serde_json::from_str::<Value>(&text);
            if let Ok(value) = &strict {
                prop_assert!(complete, "{}", text);
                prop_assert_eq!(&serde_json::from_str::<Value>(&out).expect("valid"), value);
            }
            // serde refuses numbers beyond f64, which are JSON all the same.
            let fits = |error: serde_json::Error| error.to_string().contains("out of range");
            if complete {
                prop_assert!(serde_json::from_str::<Value>(&out).map_or_else(fits, |_| true), "{} -> {}", text, out);
            }
        }

        #[test]
        fn quoting_reads_back(text in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&quoted(&text)).expect("a string"), text);
        }
    }
}
