//! Escapes in texts that a shell makes hard to type: `\n`, `\t`, `\x41`.

/// Reads `\n \r \t \' \" \\ \xHH`; everything else stays as it is.
pub(super) fn read(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (c, len) = match rest.as_bytes().first() {
            Some(b'n') => ('\n', 1),
            Some(b'r') => ('\r', 1),
            Some(b't') => ('\t', 1),
            Some(b'\\') => ('\\', 1),
            Some(b'\'') => ('\'', 1),
            Some(b'"') => ('"', 1),
            Some(b'x') => match rest.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) if byte.is_ascii() => (char::from(byte), 3),
                _ => ('\\', 0),
            },
            _ => ('\\', 0),
        };
        out.push(c);
        rest = &rest[len..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn known_escapes_are_read_and_others_stay() {
        for (given, wanted) in [
            (r"a\nb\tc\r\\n", "a\nb\tc\r\\n"),
            (r#"\'\"\x41\x7a"#, "'\"Az"),
            (r"\q \x4 \xzz \xff \", r"\q \x4 \xzz \xff \"),
            ("é\\né", "é\né"),
        ] {
            assert_eq!(read(given), wanted);
        }
    }
}
