//! The part of Claude Code's system prompt that is new with every request.

/// How the text begins that has it.
const HEADER: &str = "x-anthropic-billing-header:";

/// What stands before it.
const KEY: &str = "cch=";

/// What takes its place.
const CONSTANT: &str = "fffff";

/// The text with the changing characters made constant: with them no prompt would begin like the one before, and all of
/// it would be computed again.
pub(super) fn settled(text: &str) -> String {
    let place = || {
        let after = text.strip_prefix(HEADER)?.find(KEY)? + HEADER.len() + KEY.len();
        let end = after + CONSTANT.len();
        let stamp = text.get(after..end)?;
        (text[end..].starts_with(';') && stamp.bytes().all(|byte| byte.is_ascii_alphanumeric()))
            .then_some(after..end)
    };
    match place() {
        Some(place) => format!("{}{CONSTANT}{}", &text[..place.start], &text[place.end..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::settled;

    #[test]
    fn only_the_stamp_of_the_header_changes() {
        let header =
            |stamp: &str| format!("x-anthropic-billing-header: cc_version=2.1.101.e51; cch={stamp};You are");
        assert_eq!(settled(&header("a5145")), header("fffff"));
        for same in
            ["cch=a5145;", &header("a514"), &header("a51456"), "x-anthropic-billing-header: cch=ab", ""]
        {
            assert_eq!(settled(same), same);
        }
        assert_eq!(settled("x-anthropic-billing-header: cch=äöü;"), "x-anthropic-billing-header: cch=äöü;");
    }
}
