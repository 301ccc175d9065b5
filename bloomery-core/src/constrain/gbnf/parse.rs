//! Reads GBNF.

use std::collections::HashMap;

use super::class::Class;
use super::cursor::Cursor;
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
        text: Cursor { chars, at: 0 },
        depth: 0,
        rule: String::new(),
        tokenizer,
        names: HashMap::new(),
        rules: Vec::new(),
    };
    parser.text.space(true);
    while parser.text.peek().is_some() {
        parser.definition()?;
    }
    parser.finish()
}

struct Parser<'a> {
    text: Cursor,
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
            let (line, column) = self.text.position(missing.first_use);
            return Err(GrammarError::UndefinedRule { name: missing.name.clone(), line, column });
        }
        let bodies = self.rules.into_iter().filter_map(|rule| Some((rule.name, rule.body?))).collect();
        Ok(Rules::new(bodies, root))
    }

    fn definition(&mut self) -> Result<(), GrammarError> {
        let start = self.text.at;
        let name = self.name().ok_or_else(|| self.text.expected("the name of a rule"))?;
        let rule = self.reference(name.clone(), start)?;
        self.rule = name;
        self.text.space(false);
        for c in "::=".chars() {
            if !self.text.take(c) {
                return Err(self.text.expected("`::=`"));
            }
        }
        self.text.space(true);
        let body = self.choice(false)?;
        if self.text.peek().is_some_and(|c| c != '\r' && c != '\n') {
            return Err(self.text.expected("a part of the rule, `|` or the end of the line"));
        }
        self.text.space(true);
        // llama.cpp lets a later definition of the same rule win.
        self.rules[rule].body = Some(body);
        Ok(())
    }

    fn choice(&mut self, grouped: bool) -> Result<Node, GrammarError> {
        let mut choices = vec![self.sequence(grouped)?];
        loop {
            let before = self.text.at;
            self.text.space(true);
            if !self.text.take('|') {
                self.text.at = before;
                break;
            }
            self.text.space(true);
            choices.push(self.sequence(grouped)?);
        }
        if grouped {
            self.text.space(true);
        }
        let alone = if choices.len() == 1 { choices.pop() } else { None };
        Ok(alone.unwrap_or(Node::Choice(choices)))
    }

    fn sequence(&mut self, grouped: bool) -> Result<Node, GrammarError> {
        let mut parts: Vec<Node> = Vec::new();
        while let Some(c) = self.text.peek() {
            let part = match c {
                '"' => self.text.literal()?,
                '[' => Node::Class(self.text.class()?),
                '.' => {
                    self.text.at += 1;
                    Node::Class(Class::any())
                }
                '(' => self.group()?,
                '<' | '!' => self.token()?,
                '*' | '+' | '?' | '{' => {
                    let part = parts.pop().ok_or_else(|| self.text.expected("something to repeat"))?;
                    self.repeat(part)?
                }
                c if is_name(c) => {
                    let start = self.text.at;
                    let name = self.name().unwrap_or_default();
                    Node::Rule(self.reference(name, start)?)
                }
                _ => break,
            };
            parts.push(part);
            self.text.space(grouped);
        }
        Ok(Node::Sequence(parts))
    }

    fn group(&mut self) -> Result<Node, GrammarError> {
        if self.depth == DEEPEST {
            let size = DEEPEST + 1;
            return Err(GrammarError::TooLarge { what: "groups inside each other", size, limit: DEEPEST });
        }
        self.text.at += 1;
        self.depth += 1;
        self.text.space(true);
        let inner = self.choice(true)?;
        self.depth -= 1;
        if self.text.take(')') { Ok(inner) } else { Err(self.text.expected("`)`")) }
    }

    fn repeat(&mut self, part: Node) -> Result<Node, GrammarError> {
        let sign = self.text.peek();
        self.text.at += 1;
        let (least, most) = match sign {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            _ => self.counts()?,
        };
        Ok(Node::Repeat(Box::new(part), least, most))
    }

    fn counts(&mut self) -> Result<(u32, Option<u32>), GrammarError> {
        self.text.space(true);
        let least = self.count()?;
        self.text.space(true);
        let mut most = Some(least);
        if self.text.take(',') {
            self.text.space(true);
            most = if self.text.peek().is_some_and(|c| c.is_ascii_digit()) {
                let start = self.text.at;
                let most = self.count()?;
                if most < least {
                    self.text.at = start;
                    return Err(self.text.expected(&format!("a number from {least}")));
                }
                Some(most)
            } else {
                None
            };
            self.text.space(true);
        }
        if self.text.take('}') { Ok((least, most)) } else { Err(self.text.expected("`,` or `}`")) }
    }

    fn count(&mut self) -> Result<u32, GrammarError> {
        let start = self.text.at;
        while self.text.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.text.at += 1;
        }
        let digits: String = self.text.chars[start..self.text.at].iter().collect();
        if digits.is_empty() {
            return Err(self.text.expected("a number"));
        }
        let count = digits.parse().unwrap_or(u64::MAX);
        match u32::try_from(count).ok().filter(|&count| count <= REPEATS) {
            Some(count) => Ok(count),
            None => Err(GrammarError::Repetition { rule: self.rule.clone(), count, limit: REPEATS.into() }),
        }
    }

    /// `<[7]>` or `<name>`, after `!` every other token.
    fn token(&mut self) -> Result<Node, GrammarError> {
        let negated = self.text.take('!');
        let start = self.text.at;
        if !self.text.take('<') {
            return Err(self.text.expected("a token in `<>`"));
        }
        let id = self.text.chars[self.text.at..].iter().position(|&c| c == '>' || c == '\n');
        self.text.at += id.unwrap_or(self.text.chars.len() - self.text.at);
        if !self.text.take('>') {
            return Err(self.text.expected("`>`"));
        }
        let text: String = self.text.chars[start..self.text.at].iter().collect();
        let number = text.strip_prefix("<[").and_then(|text| text.strip_suffix("]>"));
        let id = match number.map(str::parse::<u32>) {
            Some(id) => id.ok().filter(|&id| (id as usize) < self.tokenizer.vocab_size()),
            None => match self.tokenizer.encode(&text, Specials::Parse).as_deref() {
                Ok(&[id]) => Some(id),
                _ => None,
            },
        };
        let Some(id) = id else {
            let (line, column) = self.text.position(start);
            return Err(GrammarError::UnknownToken { token: text, line, column });
        };
        Ok(Node::Tokens(if negated { Tokens::AllBut(id) } else { Tokens::One(id) }))
    }

    fn name(&mut self) -> Option<String> {
        let start = self.text.at;
        while self.text.peek().is_some_and(is_name) {
            self.text.at += 1;
        }
        (self.text.at > start).then(|| self.text.chars[start..self.text.at].iter().collect())
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
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}
