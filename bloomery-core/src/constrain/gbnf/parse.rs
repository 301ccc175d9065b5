//! Reads GBNF.

use std::collections::HashMap;

use super::class::Class;
use super::node::{Node, Rules, Tokens};
use crate::constrain::GrammarError;
use crate::tokenizer::{Specials, Tokenizer};

/// Groups inside each other.
const DEEPEST: usize = 100;
/// Times a part may be repeated, llama.cpp's number.
const REPEATS: u32 = 2000;
/// Rules of a grammar. The engine takes time with the square of their number, 0.2 s for these.
const RULES: usize = 4000;

/// The rules of a text.
pub(super) fn parse(text: &str, tokenizer: &Tokenizer) -> Result<Rules, GrammarError> {
    let chars = text.chars().collect();
    let mut parser = Parser {
        chars,
        at: 0,
        depth: 0,
        rule: String::new(),
        tokenizer,
        names: HashMap::new(),
        rules: Vec::new(),
    };
    parser.space(true);
    while parser.peek().is_some() {
        parser.definition()?;
    }
    parser.finish()
}

struct Parser<'a> {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    /// The rule that is being read.
    rule: String,
    tokenizer: &'a Tokenizer,
    names: HashMap<String, usize>,
    rules: Vec<Named>,
}

/// A rule that was defined or used.
struct Named {
    name: String,
    body: Option<Node>,
    first_use: usize,
}

impl Parser<'_> {
    fn finish(self) -> Result<Rules, GrammarError> {
        let root = self.names.get("root").copied().filter(|&root| self.rules[root].body.is_some());
        let root = root.ok_or(GrammarError::NoRoot)?;
        if let Some(missing) = self.rules.iter().find(|rule| rule.body.is_none()) {
            let (line, column) = self.position(missing.first_use);
            return Err(GrammarError::UndefinedRule { name: missing.name.clone(), line, column });
        }
        let bodies = self.rules.into_iter().filter_map(|rule| Some((rule.name, rule.body?))).collect();
        Ok(Rules::new(bodies, root))
    }

    fn definition(&mut self) -> Result<(), GrammarError> {
        let start = self.at;
        let name = self.name().ok_or_else(|| self.expected("the name of a rule"))?;
        let rule = self.reference(name.clone(), start)?;
        self.rule = name;
        self.space(false);
        for c in "::=".chars() {
            if !self.take(c) {
                return Err(self.expected("`::=`"));
            }
        }
        self.space(true);
        let body = self.choice(false)?;
        if self.peek().is_some_and(|c| c != '\r' && c != '\n') {
            return Err(self.expected("a part of the rule, `|` or the end of the line"));
        }
        self.space(true);
        // llama.cpp lets a later definition of the same rule win.
        self.rules[rule].body = Some(body);
        Ok(())
    }

    fn choice(&mut self, grouped: bool) -> Result<Node, GrammarError> {
        let mut choices = vec![self.sequence(grouped)?];
        loop {
            let before = self.at;
            self.space(true);
            if !self.take('|') {
                self.at = before;
                break;
            }
            self.space(true);
            choices.push(self.sequence(grouped)?);
        }
        if grouped {
            self.space(true);
        }
        let alone = if choices.len() == 1 { choices.pop() } else { None };
        Ok(alone.unwrap_or(Node::Choice(choices)))
    }

    fn sequence(&mut self, grouped: bool) -> Result<Node, GrammarError> {
        let mut parts: Vec<Node> = Vec::new();
        while let Some(c) = self.peek() {
            let part = match c {
                '"' => self.literal()?,
                '[' => Node::Class(self.class()?),
                '.' => {
                    self.at += 1;
                    Node::Class(Class::any())
                }
                '(' => self.group()?,
                '<' | '!' => self.token()?,
                '*' | '+' | '?' | '{' => {
                    let part = parts.pop().ok_or_else(|| self.expected("something to repeat"))?;
                    self.repeat(part)?
                }
                c if is_name(c) => {
                    let start = self.at;
                    let name = self.name().unwrap_or_default();
                    Node::Rule(self.reference(name, start)?)
                }
                _ => break,
            };
            parts.push(part);
            self.space(grouped);
        }
        Ok(Node::Sequence(parts))
    }

    fn group(&mut self) -> Result<Node, GrammarError> {
        if self.depth == DEEPEST {
            let size = DEEPEST + 1;
            return Err(GrammarError::TooLarge { what: "groups inside each other", size, limit: DEEPEST });
        }
        self.at += 1;
        self.depth += 1;
        self.space(true);
        let inner = self.choice(true)?;
        self.depth -= 1;
        if self.take(')') { Ok(inner) } else { Err(self.expected("`)`")) }
    }

    fn literal(&mut self) -> Result<Node, GrammarError> {
        self.at += 1;
        let mut parts = Vec::new();
        while !self.take('"') {
            parts.push(Node::Class(Class::one(self.character("`\"`")?)));
        }
        Ok(Node::Sequence(parts))
    }

    fn class(&mut self) -> Result<Class, GrammarError> {
        self.at += 1;
        let negated = self.take('^');
        let mut ranges = Vec::new();
        while !self.take(']') {
            let low = self.character("`]`")?;
            let range = self.peek() == Some('-') && self.chars.get(self.at + 1) != Some(&']');
            let mut high = low;
            if range {
                self.at += 1;
                let start = self.at;
                high = self.character("the end of a range")?;
                if high < low {
                    self.at = start;
                    return Err(self.expected(&format!("a character after {low:?}")));
                }
            }
            ranges.push((low, high));
        }
        let class = Class::new(ranges);
        let class = if negated { class.negated() } else { class };
        if class.is_empty() {
            self.at -= 1;
            return Err(self.expected("a character"));
        }
        Ok(class)
    }

    /// One character of a literal or a class.
    fn character(&mut self, end: &str) -> Result<char, GrammarError> {
        let Some(c) = self.peek() else { return Err(self.expected(end)) };
        self.at += 1;
        if c != '\\' {
            return Ok(c);
        }
        let escape = self.peek();
        self.at += 1;
        match escape {
            Some('x') => self.code(2),
            Some('u') => self.code(4),
            Some('U') => self.code(8),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some('n') => Ok('\n'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^')) => Ok(c),
            _ => {
                self.at -= 1;
                Err(self.expected("one of `x`, `u`, `U`, `t`, `r`, `n`, `\\`, `\"`, `[`, `]`, `-`, `^`"))
            }
        }
    }

    fn code(&mut self, digits: usize) -> Result<char, GrammarError> {
        let start = self.at;
        let mut code: u32 = 0;
        for _ in 0..digits {
            let digit = self.peek().and_then(|c| c.to_digit(16));
            let digit = digit.ok_or_else(|| self.expected(&format!("{digits} hexadecimal digits")))?;
            code = code << 4 | digit;
            self.at += 1;
        }
        char::from_u32(code).ok_or_else(|| {
            self.at = start;
            self.expected("the code of a character")
        })
    }

    fn repeat(&mut self, part: Node) -> Result<Node, GrammarError> {
        let sign = self.peek();
        self.at += 1;
        let (least, most) = match sign {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            _ => self.counts()?,
        };
        Ok(Node::Repeat(Box::new(part), least, most))
    }

    fn counts(&mut self) -> Result<(u32, Option<u32>), GrammarError> {
        self.space(true);
        let least = self.count()?;
        self.space(true);
        let mut most = Some(least);
        if self.take(',') {
            self.space(true);
            most = if self.peek().is_some_and(|c| c.is_ascii_digit()) {
                let start = self.at;
                let most = self.count()?;
                if most < least {
                    self.at = start;
                    return Err(self.expected(&format!("a number from {least}")));
                }
                Some(most)
            } else {
                None
            };
            self.space(true);
        }
        if self.take('}') { Ok((least, most)) } else { Err(self.expected("`,` or `}`")) }
    }

    fn count(&mut self) -> Result<u32, GrammarError> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        let digits: String = self.chars[start..self.at].iter().collect();
        if digits.is_empty() {
            return Err(self.expected("a number"));
        }
        let count = digits.parse().unwrap_or(u64::MAX);
        match u32::try_from(count).ok().filter(|&count| count <= REPEATS) {
            Some(count) => Ok(count),
            None => Err(GrammarError::Repetition { rule: self.rule.clone(), count, limit: REPEATS.into() }),
        }
    }

    /// `<[7]>` or `<name>`, after `!` every other token.
    fn token(&mut self) -> Result<Node, GrammarError> {
        let negated = self.take('!');
        let start = self.at;
        if !self.take('<') {
            return Err(self.expected("a token in `<>`"));
        }
        let id = self.chars[self.at..].iter().position(|&c| c == '>' || c == '\n');
        self.at += id.unwrap_or(self.chars.len() - self.at);
        if !self.take('>') {
            return Err(self.expected("`>`"));
        }
        let text: String = self.chars[start..self.at].iter().collect();
        let number = text.strip_prefix("<[").and_then(|text| text.strip_suffix("]>"));
        let id = match number.map(str::parse::<u32>) {
            Some(id) => id.ok().filter(|&id| (id as usize) < self.tokenizer.vocab_size()),
            None => match self.tokenizer.encode(&text, Specials::Parse).as_deref() {
                Ok(&[id]) => Some(id),
                _ => None,
            },
        };
        let Some(id) = id else {
            let (line, column) = self.position(start);
            return Err(GrammarError::UnknownToken { token: text, line, column });
        };
        Ok(Node::Tokens(if negated { Tokens::AllBut(id) } else { Tokens::One(id) }))
    }

    fn name(&mut self) -> Option<String> {
        let start = self.at;
        while self.peek().is_some_and(is_name) {
            self.at += 1;
        }
        (self.at > start).then(|| self.chars[start..self.at].iter().collect())
    }

    fn reference(&mut self, name: String, at: usize) -> Result<usize, GrammarError> {
        if self.rules.len() == RULES && !self.names.contains_key(&name) {
            return Err(GrammarError::TooLarge {
                what: "rules of the grammar",
                size: RULES + 1,
                limit: RULES,
            });
        }
        let rules = &mut self.rules;
        Ok(*self.names.entry(name).or_insert_with_key(|name| {
            rules.push(Named { name: name.clone(), body: None, first_use: at });
            rules.len() - 1
        }))
    }

    /// Skips blanks and comments, and the ends of lines where a rule may go on after them.
    fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n' && c != '\r') {
                        self.at += 1;
                    }
                }
                ' ' | '\t' => self.at += 1,
                '\r' | '\n' if lines => self.at += 1,
                _ => break,
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn expected(&self, what: &str) -> GrammarError {
        let (line, column) = self.position(self.at);
        let found = match self.peek() {
            None => "the end of the grammar".to_owned(),
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(c) => format!("`{c}`"),
        };
        GrammarError::Syntax { line, column, expected: what.to_owned(), found }
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.chars[..at.min(self.chars.len())];
        let line = before.iter().filter(|&&c| c == '\n').count() + 1;
        let column = before.iter().rev().take_while(|&&c| c != '\n').count() + 1;
        (line, column)
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}
