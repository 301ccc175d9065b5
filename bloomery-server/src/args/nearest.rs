//! What an unknown flag may have meant.

use super::table::flags;

/// The known spelling that is most like `typed`, if any is like it.
pub(super) fn nearest(typed: &str) -> Option<&'static str> {
    let typed = if typed.starts_with("--") { typed.replace('_', "-") } else { typed.to_owned() };
    let spellings = flags().flat_map(|flag| flag.names().chain(flag.off_names()));
    let close = |name: &str| strsim::damerau_levenshtein(name, &typed);
    let best = spellings.filter(|name| name.len() > 2).min_by_key(|name| close(name))?;
    // A third of the letters may be wrong.
    (close(best) * 3 <= typed.trim_start_matches('-').len()).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_recognised_and_nonsense_is_not() {
        for (typed, meant) in [
            ("--ctx-sze", Some("--ctx-size")),
            ("--prot", Some("--port")),
            ("--paralell", Some("--parallel")),
            ("--cache_type_q", Some("--cache-type-k")),
            ("--modle", Some("--model")),
            ("-nlg", Some("-ngl")),
            ("--frobnicate", None),
            ("-x", None),
            ("model.gguf", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
    }
}
