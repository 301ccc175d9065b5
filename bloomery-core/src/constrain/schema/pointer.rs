//! References inside a schema.

use serde_json::Value;

/// What `reference` points to: `#` or `#/...`, a JSON pointer written as part of an address.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = percent_decoded(reference.strip_prefix('#')?)?;
    // Some generators write the root as `#/`.
    if pointer == "/" { Some(root) } else { root.pointer(&pointer) }
}

/// One more step of a pointer.
pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn follows_escapes_of_pointers_and_addresses() {
        let root = json!({"a/b": {"~": 1}, "list": [0, {"x y": 2}], "$defs": {"T<int>": 3}});
        let cases = [
            ("#/a~1b/~0", Some(json!(1))),
            ("#/list/1/x%20y", Some(json!(2))),
            ("#/$defs/T%3Cint%3E", Some(json!(3))),
            ("#", Some(root.clone())),
            ("#/", Some(root.clone())),
            ("#/list/2", None),
            ("#name", None),
            ("#/%2", None),
            ("#/%zz", None),
            ("https://example.com/schema.json", None),
            ("other.json#/a", None),
        ];
        for (reference, expected) in cases {
            assert_eq!(resolve(&root, reference).cloned(), expected, "{reference}");
        }
    }
}
