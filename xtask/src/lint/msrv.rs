//! Parts of the language that are newer than the `rust-version` of the workspace. clippy's `incompatible_msrv` knows
//! that of functions and types; what a newer compiler accepts as syntax it does not report.

use super::lexer::Line;
use super::{Findings, Tree};

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        for (index, line) in file.rust.iter().enumerate() {
            if let Some((what, since)) = newer(line) {
                let message =
                    format!("{what} came with Rust {since}, after the rust-version of the workspace");
                findings.add("msrv", &file.path, index + 1, message);
            }
        }
    }
}

/// What was stabilised after 1.90 and can be written by accident, with its version. The list is that of rustc's
/// `accepted.rs`, without target features and variadic functions.
fn newer(line: &Line) -> Option<(&'static str, &'static str)> {
    if line.has("cfg_select", "!") {
        return Some(("cfg_select!", "1.95"));
    }
    let guard = ["if let ", "&& let "].into_iter().filter_map(|opening| line.code.split_once(opening));
    guard
        .into_iter()
        .any(|(_, rest)| rest.contains("=>"))
        .then_some(("`if let` as the guard of an arm", "1.95"))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn newer_syntax_is_found() {
        let lines = |text: &str| found(check, "msrv", &[("a.rs", text)]).len();
        assert_eq!(lines("Some(x) if let Some(y) = f(x) => y,"), 1);
        assert_eq!(lines("Some(x)\n    if x > 1 && let Some(y) = f(x) => y,"), 1);
        assert_eq!(lines("cfg_select! { unix => 1, _ => 2 }"), 1);
        assert_eq!(lines("if let Some(y) = f(x) {\n    y\n}\nif a && let Some(b) = c {\n"), 0);
        assert_eq!(lines("() => { if let Some(y) = f(x) { y } } // if let => "), 0);
    }
}
