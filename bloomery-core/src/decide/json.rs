//! JSON as a decision model's prompt needs it: the order of keys, every digit of an integer, whole floats as floats.

use std::collections::HashMap;

/// Deepest nesting that is read.
const DEPTH: usize = 128;

/// A JSON value. Objects keep the order of their keys; integers keep all their digits.
///
/// ```
/// use bloomery_core::decide::Json;
///
/// let state = Json::parse(r#"{"big": 12345678901234567890123, "b": 1.0, "a": [true, null], "b": 1e2}"#)?;
/// assert_eq!(state.to_string(), r#"{"big":12345678901234567890123,"b":100.0,"a":[true,null]}"#);
/// assert_eq!(Json::from("text").to_string(), r#""text""#);
/// # Ok::<(), bloomery_core::decide::JsonError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Decimal digits, after a minus sign where there is one. Never `-0`.
    Integer(String),
    /// A finite number that is written with a point or an exponent.
    Float(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object. Keys are distinct.
    Object(Vec<(String, Json)>),
}

/// Text that is no JSON, or JSON that cannot be kept exactly.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not JSON at line {line}, column {column}: {why}")]
pub struct JsonError {
    /// Line, from 1.
    pub line: usize,
    /// Characters from the start of the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub why: &'static str,
}

impl Json {
    /// Reads a text. Of keys that appear twice the last value counts, at the place of the first.
    ///
    /// # Errors
    /// Anything that RFC 8259 does not allow; lone surrogates, which are no text; numbers beyond the range of a float;
    /// more than 128 levels.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0).and_then(|value| {
            reader.space();
            if reader.at == text.len() { Ok(value) } else { Err("text after the value") }
        });
        value.map_err(|why| {
            let before = text.get(..reader.at).unwrap_or(text);
            let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
            JsonError { line: before.matches('\n').count() + 1, column: line.chars().count() + 1, why }
        })
    }

    /// The value of a key, where this is an object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(pairs) = self else { return None };
        pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// What kind of value it is, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&serde_json::Value> for Json {
    /// Integers beyond 64 bits are floats there already.
    fn from(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => Self::Float(float),
                _ => Self::Integer(number.to_string()),
            },
            serde_json::Value::String(text) => Self::Text(text.clone()),
            serde_json::Value::Array(values) => Self::List(values.iter().map(Self::from).collect()),
            serde_json::Value::Object(map) => {
                Self::Object(map.iter().map(|(key, value)| (key.clone(), value.into())).collect())
            }
        }
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::from(&value)
    }
}

struct Reader<'t> {
    text: &'t str,
    /// In bytes; after an error, about where it is.
    at: usize,
}

type Read<T> = Result<T, &'static str>;

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Goes past `byte`, if that is next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Read<Json> {
        if depth > DEPTH {
            return Err("too deep: more than 128 levels");
        }
        self.space();
        match self.peek() {
            None => Err("it ends where a value is expected"),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => {
                for (word, value) in
                    [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
                {
                    if self.text[self.at..].starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err("a value is expected")
            }
        }
    }

    fn list(&mut self, depth: usize) -> Read<Json> {
        self.at += 1;
        let mut values = Vec::new();
        self.space();
        if self.take(b']') {
            return Ok(Json::List(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.space();
            if self.take(b']') {
                return Ok(Json::List(values));
            }
            if !self.take(b',') {
                return Err("`,` or `]` is expected");
            }
        }
    }

    fn object(&mut self, depth: usize) -> Read<Json> {
        self.at += 1;
        let mut pairs: Vec<(String, Json)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        self.space();
        if self.take(b'}') {
            return Ok(Json::Object(pairs));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err("a key is expected");
            }
            let key = self.string()?;
            self.space();
            if !self.take(b':') {
                return Err("`:` is expected");
            }
            let value = self.value(depth + 1)?;
            match places.get(&key) {
                Some(&place) => pairs[place].1 = value,
                None => {
                    places.insert(key.clone(), pairs.len());
                    pairs.push((key, value));
                }
            }
            self.space();
            if self.take(b'}') {
                return Ok(Json::Object(pairs));
            }
            if !self.take(b',') {
                return Err("`,` or `}` is expected");
            }
        }
    }

    fn string(&mut self) -> Read<String> {
        let (start, bytes) = (self.at, self.text.as_bytes());
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                None => {
                    self.at = end;
                    return Err("it ends inside a string");
                }
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
            }
        }
        let token = self.text.get(start..=end).ok_or("it ends inside a string")?;
        let text = match token.contains('\\') || token.bytes().any(|byte| byte < b' ') {
            false => token[1..token.len() - 1].to_owned(),
            true => serde_json::from_str(token)
                .map_err(|_| "a string with a control character, a wrong escape or half a surrogate pair")?,
        };
        self.at = end + 1;
        Ok(text)
    }

    fn digits(&mut self) -> Read<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err("a digit is expected") } else { Ok(()) }
    }

    fn number(&mut self) -> Read<Json> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        let mut whole = true;
        if self.take(b'.') {
            whole = false;
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            whole = false;
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        let token = &self.text[start..self.at];
        match token.parse::<f64>() {
            // Python's integers have one zero.
            _ if token == "-0" => Ok(Json::Integer("0".to_owned())),
            _ if whole => Ok(Json::Integer(token.to_owned())),
            Ok(float) if float.is_finite() => Ok(Json::Float(float)),
            _ => Err("a number beyond the range of floats"),
        }
    }
}
