//! Where `unsafe` may stand, and what must stand above it.

use super::lexer::Line;
use super::tree::File;
use super::{Findings, Tree};

/// The crate that may use `unsafe`.
const KERNELS: &str = "bloomery-kernels/";
/// The one file outside it that may, once: it maps the model file.
const MAPPING: &str = "bloomery-gguf/src/file.rs";
/// Words that a reason has at least: "ffi." is none.
const REASON_WORDS: usize = 2;
/// Lines within which "as above" finds what it points to.
const ABOVE: usize = 25;

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        placement(file, findings);
        for (index, line) in file.rust.iter().enumerate() {
            if line.has("unsafe", "{") || line.has("unsafe", "impl") {
                safety(file, index, findings);
            }
        }
    }
}

fn placement(file: &File, findings: &mut Findings) {
    if file.path.starts_with(KERNELS) {
        return;
    }
    let mut mapped = false;
    for (index, line) in file.rust.iter().enumerate() {
        if !line.words().any(|word| word == "unsafe") {
            continue;
        }
        let first = !std::mem::replace(&mut mapped, true);
        if file.path == MAPPING && first && line.code.contains("Mmap::map(") {
            continue;
        }
        let message = "`unsafe` belongs into bloomery-kernels (but for the one mapping of a model file)";
        findings.add("unsafe-placement", &file.path, index + 1, message);
    }
}

fn safety(file: &File, index: usize, findings: &mut Findings) {
    let reason = reason(&file.rust, index);
    let message = match reason {
        None => "no `// SAFETY:` comment above".to_owned(),
        Some(reason) if points_up(&reason) && fact_above(&file.rust, index) => {
            return;
        }
        Some(reason) if !is_fact(&reason) => format!("`SAFETY: {}` names no fact", reason.trim()),
        Some(_) => return,
    };
    findings.add("safety-comment", &file.path, index + 1, message);
}

fn is_fact(reason: &str) -> bool {
    !points_up(reason) && reason.split_whitespace().count() >= REASON_WORDS
}

fn points_up(reason: &str) -> bool {
    matches!(reason.trim(), "as above." | "see above.")
}

/// Whether a SAFETY comment with a fact stands shortly above line `index`.
fn fact_above(lines: &[Line], index: usize) -> bool {
    let near = &lines[index.saturating_sub(ABOVE)..index];
    let reason =
        |line: &Line| line.comment.split_once("SAFETY")?.1.split_once(':').map(|(_, reason)| is_fact(reason));
    near.iter().filter_map(reason).any(|fact| fact)
}

/// The SAFETY comment above the statement that line `index` belongs to.
fn reason(lines: &[Line], index: usize) -> Option<String> {
    let mut at = index;
    // The statement may begin on an earlier line: `let x =` above, or the head of a chain of calls.
    while at > 0 && continues(&lines[at - 1]) {
        at -= 1;
    }
    let mut comment: Vec<&str> = vec![&lines[at].comment];
    while at > 0 && (is_comment(&lines[at - 1]) || is_attribute(&lines[at - 1])) {
        at -= 1;
        comment.push(&lines[at].comment);
    }
    comment.reverse();
    let text = comment.join(" ").replace('/', " ");
    text.split_once("SAFETY:").map(|(_, reason)| reason.to_owned())
}

fn is_comment(line: &Line) -> bool {
    line.code.trim().is_empty() && !line.comment.is_empty()
}

fn is_attribute(line: &Line) -> bool {
    let code = line.code.trim();
    code.starts_with("#[") && code.ends_with(']')
}

/// Whether the statement goes on in the next line.
fn continues(line: &Line) -> bool {
    let code = line.code.trim_end();
    !code.is_empty() && !is_attribute(line) && !code.ends_with([';', '{', '}', ',', ']'])
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn misplaced(path: &str, text: &str) -> Vec<String> {
        found(check, "unsafe-placement", &[(path, text)])
    }

    fn unexplained(text: &str) -> usize {
        found(check, "safety-comment", &[("bloomery-kernels/src/a.rs", text)]).len()
    }

    #[test]
    fn unsafe_stays_in_its_crate() {
        let text = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(misplaced("bloomery-core/src/a.rs", text), ["bloomery-core/src/a.rs:2"]);
        assert_eq!(misplaced("examples/a.rs", "unsafe fn f() {}"), ["examples/a.rs:1"]);
        assert!(misplaced("bloomery-kernels/src/a.rs", text).is_empty());
        assert!(misplaced("bloomery-core/src/a.rs", "// unsafe\nlet a = \"unsafe {\";").is_empty());
        assert!(misplaced("bloomery-core/src/a.rs", "#![forbid(unsafe_code)]").is_empty());
    }

    #[test]
    fn one_mapping_is_allowed() {
        let map = "// SAFETY: read-only.\nunsafe { Mmap::map(file) }\n";
        assert!(misplaced(MAPPING, map).is_empty());
        assert_eq!(misplaced(MAPPING, &map.repeat(2)), [format!("{MAPPING}:4")]);
        assert_eq!(misplaced(MAPPING, "unsafe { other() }"), [format!("{MAPPING}:1")]);
        assert_eq!(misplaced("bloomery-gguf/src/other.rs", map).len(), 1);
    }

    #[test]
    fn every_block_names_its_fact() {
        assert_eq!(unexplained("unsafe { f() }"), 1);
        assert_eq!(unexplained("unsafe impl Send for A {}"), 1);
        assert_eq!(unexplained("// SAFETY: ffi.\nunsafe { f() }"), 1);
        assert_eq!(unexplained("// SAFETY: the caller checked the length.\nf();\nunsafe { f() }"), 1);
        assert_eq!(unexplained("// SAFETY: the caller checked the length.\n\nunsafe { f() }"), 1);
    }

    #[test]
    fn as_above_needs_something_above() {
        let fact = "// SAFETY: the caller checked the length.\nunsafe { f() }\n";
        let again = "// SAFETY: as above.\nunsafe { g() }\n";
        assert_eq!(unexplained(&format!("{fact}{again}{again}")), 0);
        assert_eq!(unexplained(again), 1);
        assert_eq!(unexplained(&format!("{fact}{}{again}", "\n".repeat(ABOVE))), 1);
    }

    #[test]
    fn comments_reach_over_attributes_and_open_statements() {
        let reason = "// SAFETY: the caller checked\n// the length.\n";
        assert_eq!(unexplained(&format!("{reason}unsafe {{ f() }}")), 0);
        assert_eq!(unexplained(&format!("{reason}#[inline]\nunsafe impl Send for A {{}}")), 0);
        assert_eq!(unexplained(&format!("{reason}let x =\n    unsafe {{ f() }};")), 0);
        assert_eq!(unexplained("unsafe { f() } // SAFETY: the length was checked."), 0);
        assert_eq!(unexplained("unsafe fn f() {}\ntype F = unsafe fn();"), 0);
    }
}
