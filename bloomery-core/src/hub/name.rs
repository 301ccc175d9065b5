//! Names that become parts of paths.

/// Whether a file's name stays below the folder that it is put in, on every system.
pub(super) fn is_safe_path(name: &str) -> bool {
    !name.is_empty() && name.len() <= 1024 && name.split('/').all(is_safe_part)
}

fn is_safe_part(part: &str) -> bool {
    let odd = |c: char| c.is_control() || matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    !part.is_empty() && part.len() <= 255 && part != "." && part != ".." && !part.contains(odd)
}

/// Whether it may be the user's or the repository's half of a name, as the hub allows them.
pub(super) fn is_repo_part(part: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // Two dashes separate the halves in the names of the cache's folders.
    let shape = part.chars().all(allowed) && !part.contains("--") && !part.contains("..");
    shape
        && is_safe_part(part)
        && part.len() <= 96
        && !part.starts_with(['.', '-'])
        && !part.ends_with(['.', '-'])
}

/// Whether it is a hash in hexadecimal digits of this many characters.
pub(super) fn is_hash(text: &str, lengths: &[usize]) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// `text` with everything but unreserved characters, and what `keep` has, as `%41`.
pub(super) fn percent_encoded(text: &str, keep: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || (byte.is_ascii() && keep.contains(c)) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_their_folder_are_not_safe() {
        for name in ["a.gguf", "MTP/mtp-a.gguf", "a b.gguf", "..a", "a..b", "ä.gguf", ".gitattributes"] {
            assert!(is_safe_path(name), "{name}");
        }
        for name in [
            "", "/etc/x", "../x", "a/../x", "a//b", "a/", "./a", "a/.", "a\\b", "..\\x", "C:x", "a\0b",
            "a\nb",
        ] {
            assert!(!is_safe_path(name), "{name:?}");
        }
        assert!(!is_safe_path(&"a".repeat(256)));
    }

    #[test]
    fn hashes_and_names_of_repositories() {
        assert!(
            is_hash(&"0a".repeat(20), &[40]) && !is_hash(&"0A".repeat(20), &[40]) && !is_hash("0a", &[40])
        );
        assert!(is_repo_part("Qwen3-30B-A3B.GGUF_x") && !is_repo_part("a--b") && !is_repo_part(".a"));
        assert!(!is_repo_part("a/b") && !is_repo_part("") && !is_repo_part("ä"));
    }

    #[test]
    fn odd_characters_are_encoded() {
        assert_eq!(percent_encoded("a b/ä#?.gguf", "/"), "a%20b/%C3%A4%23%3F.gguf");
        assert_eq!(percent_encoded("refs/pr/1", ""), "refs%2Fpr%2F1");
    }
}
