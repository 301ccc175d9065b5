//! Values as text: what Python's `json.dumps` writes, because that is what the models were trained on.

use std::fmt;

use super::json::Json;

impl fmt::Display for Json {
    /// Compact JSON with keys in their order. What is no ASCII stays as it is; floats have the shortest digits that
    /// read back the same, in the form of Python's `repr`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self, false)
    }
}

/// A value in a prompt: a string as it is, anything else as compact JSON with its keys sorted at every depth.
pub(super) fn render(value: &Json) -> String {
    match value {
        Json::Text(text) => text.clone(),
        other => Sorted(other).to_string(),
    }
}

struct Sorted<'a>(&'a Json);

impl fmt::Display for Sorted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, true)
    }
}

fn write(f: &mut fmt::Formatter<'_>, value: &Json, sorted: bool) -> fmt::Result {
    match value {
        Json::Null => f.write_str("null"),
        Json::Bool(value) => write!(f, "{value}"),
        Json::Integer(digits) => f.write_str(digits),
        Json::Float(value) => float(f, *value),
        Json::Text(text) => string(f, text),
        Json::List(values) => {
            f.write_str("[")?;
            for (index, value) in values.iter().enumerate() {
                f.write_str(if index == 0 { "" } else { "," })?;
                write(f, value, sorted)?;
            }
            f.write_str("]")
        }
        Json::Object(pairs) => {
            let mut pairs: Vec<&(String, Json)> = pairs.iter().collect();
            if sorted {
                // The order of UTF-8 is the order of code points.
                pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
            }
            f.write_str("{")?;
            for (index, (key, value)) in pairs.into_iter().enumerate() {
                f.write_str(if index == 0 { "" } else { "," })?;
                string(f, key)?;
                f.write_str(":")?;
                write(f, value, sorted)?;
            }
            f.write_str("}")
        }
    }
}

/// `json.dumps(text, ensure_ascii=False)`.
fn string(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        let short = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\0'..='\u{1f}' => "",
            _ => continue,
        };
        f.write_str(&text[plain..at])?;
        match short {
            "" => write!(f, "\\u{:04x}", u32::from(c))?,
            short => f.write_str(short)?,
        }
        plain = at + 1;
    }
    f.write_str(&text[plain..])?;
    f.write_str("\"")
}

/// `repr(value)` of a finite number: its shortest digits, with an exponent below 1e-4 and from 1e16 on.
fn float(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let fixed = format!("{value}");
        return write!(f, "{fixed}{}", if fixed.contains('.') { "" } else { ".0" });
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        render(&Json::parse(text).unwrap())
    }

    #[test]
    fn floats_as_python_writes_them() {
        // Printed by Python 3.11: json.dumps(json.loads(x)).
        for (text, expected) in [
            ("0.1", "0.1"),
            ("1.0", "1.0"),
            ("1E2", "100.0"),
            ("1e15", "1000000000000000.0"),
            ("9007199254740993.0", "9007199254740992.0"),
            ("1e16", "1e+16"),
            ("123456789012345678.0", "1.2345678901234568e+17"),
            ("1e22", "1e+22"),
            ("1e-4", "0.0001"),
            ("0.00012", "0.00012"),
            ("1e-5", "1e-05"),
            ("1.5e-7", "1.5e-07"),
            ("-3e-07", "-3e-07"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("-0.0", "-0.0"),
            ("1e-400", "0.0"),
            ("3.14159265", "3.14159265"),
            ("2.5", "2.5"),
        ] {
            assert_eq!(rendered(text), expected, "{text}");
        }
    }

    #[test]
    fn integers_keep_their_digits() {
        for (text, expected) in
            [("-0", "0"), ("0", "0"), ("-7", "-7"), ("18446744073709551616", "18446744073709551616")]
        {
            assert_eq!(rendered(text), expected, "{text}");
        }
        let long = "9".repeat(400);
        assert_eq!(rendered(&long), long);
    }

    #[test]
    fn strings_and_keys() {
        assert_eq!(rendered(r#""plain \"text\"\n""#), "plain \"text\"\n", "a string alone is no JSON");
        let text = r#"{"b":"\u00e9\u007f\u0001\b\f\/\ud83d\ude00\r\t\\","a":{"z":1,"B":2},"ä":[],"b2":{},"a":{"z":{},"y":[ 1 , 2 ]}}"#;
        let expected =
            "{\"a\":{\"y\":[1,2],\"z\":{}},\"b\":\"é\u{7f}\\u0001\\b\\f/😀\\r\\t\\\\\",\"b2\":{},\"ä\":[]}";
        assert_eq!(rendered(text), expected);
        let kept =
            "{\"b\":\"é\u{7f}\\u0001\\b\\f/😀\\r\\t\\\\\",\"a\":{\"z\":{},\"y\":[1,2]},\"ä\":[],\"b2\":{}}";
        assert_eq!(
            Json::parse(text).unwrap().to_string(),
            kept,
            "of keys that come twice the first has the place"
        );
    }

    #[test]
    fn what_is_no_json_is_refused_at_its_place() {
        for (text, line, column, why) in [
            ("", 1, 1, "it ends where"),
            ("{\"a\":", 1, 6, "it ends where"),
            ("{\"a\" 1}", 1, 6, "`:`"),
            ("[1,]", 1, 4, "a value"),
            ("[1 2]", 1, 4, "`,` or `]`"),
            ("{\"a\":1,}", 1, 8, "a key"),
            ("{\"ä\":\n tru}", 2, 2, "a value"),
            ("NaN", 1, 1, "a value"),
            ("Infinity", 1, 1, "a value"),
            ("1e400", 1, 6, "beyond"),
            ("01", 1, 2, "text after"),
            ("1.", 1, 3, "a digit"),
            ("-", 1, 2, "a digit"),
            ("+1", 1, 1, "a value"),
            ("1 1", 1, 3, "text after"),
            ("\"abc", 1, 5, "inside a string"),
            ("\"abc\\", 1, 6, "inside a string"),
            ("\"\\ud800\"", 1, 1, "surrogate"),
            ("\"\\x\"", 1, 1, "escape"),
            ("\"\n\"", 1, 1, "control"),
            ("\u{feff}1", 1, 1, "a value"),
        ] {
            let error = Json::parse(text).unwrap_err();
            assert!(error.why.contains(why), "{text:?}: {error}");
            assert_eq!((error.line, error.column), (line, column), "{text:?}: {error}");
        }
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::parse(&deep(129)).is_ok());
        assert!(Json::parse(&deep(130)).unwrap_err().why.contains("too deep"));
        assert!(Json::parse(&deep(1_000_000)).is_err());
    }
}
