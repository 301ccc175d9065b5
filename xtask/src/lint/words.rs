//! Words that have no place in the source.

use super::lexer::Line;
use super::{Findings, Tree};

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        // What a program reads, it hands to its library.
        let program = file.path.ends_with("/src/main.rs");
        let library = file.path.starts_with("bloomery-") && file.path.contains("/src/") && !program;
        for (index, line) in file.rust.iter().enumerate() {
            let mut add = |rule, message: &str| findings.add(rule, &file.path, index + 1, message);
            if allows(line) {
                add(
                    "no-allow",
                    "`allow` hides: use #[expect(lint, reason = \"...\")], which fails once it is stale",
                );
            }
            if line.has("todo", "!") || line.has("unimplemented", "!") {
                add("no-stubs", "a stub");
            }
            if let Some(mark) = mark(line) {
                add("no-stubs", &format!("a {mark} mark: do it, or write it down in docs/limits.md"));
            }
            if library && reads_environment(line) {
                add("no-environment", "libraries take options as values, not from the environment");
            }
        }
    }
}

/// An attribute that allows a lint. Functions and methods may have that name.
fn allows(line: &Line) -> bool {
    let code = line.code.trim_start();
    (code.starts_with("#[") || code.starts_with("#![")) && line.has("allow", "(")
}

fn mark(line: &Line) -> Option<&str> {
    let words = line.comment.split(|c: char| !c.is_alphanumeric() && c != '_').chain(line.words());
    words.into_iter().find(|word| matches!(*word, "TODO" | "FIXME" | "XXX"))
}

fn reads_environment(line: &Line) -> bool {
    ["env::var", "env::vars", "env::var_os", "env::vars_os"].into_iter().any(|call| line.has(call, ""))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn lines(rule: &str, path: &str, text: &str) -> usize {
        found(check, rule, &[(path, text)]).len()
    }

    #[test]
    fn lints_are_expected_and_not_allowed() {
        let count = |text| lines("no-allow", "a.rs", text);
        assert_eq!(count("#[allow(dead_code)]\nfn f() {}"), 1);
        assert_eq!(count("#![allow(missing_docs)]"), 1);
        assert_eq!(count("#[cfg_attr(test, allow(dead_code))]"), 1);
        assert_eq!(count("#[expect(dead_code, reason = \"allow(x)\")]\nfn allow(a: u8) { b.allow(1) }"), 0);
    }

    #[test]
    fn stubs_and_marks_are_found() {
        let count = |text| lines("no-stubs", "a.rs", text);
        assert_eq!(count("fn f() { todo!() }\nfn g() { unimplemented!(\"x\") }"), 2);
        assert_eq!(count("// TODO: later\nlet a = 1; // FIXME\n/* XXX */"), 3);
        assert_eq!(count("let a = \"TODO\"; let iq2_XXS = todo; // XXXL"), 0);
    }

    #[test]
    fn libraries_do_not_read_the_environment() {
        let text = "let a = std::env::var(\"A\");\nlet b = env::var_os(\"B\");\n";
        assert_eq!(lines("no-environment", "bloomery-core/src/a.rs", text), 2);
        assert_eq!(lines("no-environment", "bloomery-core/tests/a.rs", text), 0);
        assert_eq!(lines("no-environment", "examples/chat.rs", text), 0);
        assert_eq!(lines("no-environment", "bloomery-server/src/main.rs", text), 0);
        assert_eq!(lines("no-environment", "bloomery-core/src/a.rs", "env!(\"CARGO_PKG_VERSION\")"), 0);
    }
}
