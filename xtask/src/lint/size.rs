//! How long files may be and how much the tree may weigh.

use super::{Findings, Tree};

const LINES: usize = 500;
/// Files that may be longer, and why. An entry that is not needed any more is a finding.
const LONG: &[(&str, &str)] = &[];

const MB: u64 = 1_000_000;
/// Data of tests: two or three models of random weights for each architecture, of 1 to 6 MB, are most of it. The demo model is not
/// among it.
const TEST_DATA: u64 = 77 * MB;
/// Everything in the tree: it has to travel.
const TREE: u64 = 116 * MB;

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    lines(tree, LONG, findings);
    let test_data = tree.files.iter().filter(|file| is_test_data(&file.path)).map(|file| file.bytes).sum();
    weight("test data", test_data, TEST_DATA, findings);
    weight("the tree", tree.files.iter().map(|file| file.bytes).sum(), TREE, findings);
}

fn lines(tree: &Tree, long: &[(&str, &str)], findings: &mut Findings) {
    for file in tree.rust() {
        let listed = long.iter().any(|(path, _)| *path == file.path);
        let count = file.rust.len();
        if count > LINES && !listed {
            let message = format!("{count} lines; a file has one noun and at most {LINES} lines");
            findings.add("file-length", &file.path, LINES + 1, message);
        }
    }
    for (path, why) in long {
        if tree.file(path).is_none_or(|file| file.rust.len() <= LINES) {
            findings.add(
                "file-length",
                path,
                1,
                format!("listed as longer than {LINES} lines ({why}), but is not"),
            );
        }
    }
}

fn is_test_data(path: &str) -> bool {
    path.split('/').any(|folder| folder == "tests") && !path.ends_with(".rs")
}

fn weight(what: &str, bytes: u64, limit: u64, findings: &mut Findings) {
    if bytes > limit {
        let message = format!("{what}: {:.1} MB of at most {}", bytes as f64 / 1e6, limit / MB);
        findings.add("weight", ".", 1, message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::super::tree::File;
    use super::*;

    fn of_bytes(path: &str, bytes: u64) -> File {
        File { path: path.to_owned(), bytes, text: None, rust: Vec::new() }
    }

    #[test]
    fn long_files_are_found() {
        let text = "\n".repeat(LINES + 1);
        assert_eq!(found(check, "file-length", &[("a/src/b.rs", &text)]), ["a/src/b.rs:501"]);
        assert!(found(check, "file-length", &[("a/src/b.rs", &text[1..])]).is_empty());
    }

    #[test]
    fn exceptions_are_named_and_do_not_outlive_their_reason() {
        let text = "\n".repeat(LINES + 1);
        let count = |files: &[(&str, &str)]| {
            let mut findings = Findings::default();
            lines(&Tree::of(files), &[("a.rs", "a table")], &mut findings);
            findings.0.len()
        };
        assert_eq!(count(&[("a.rs", &text)]), 0);
        assert_eq!(count(&[("a.rs", "")]), 1);
        assert_eq!(count(&[]), 1);
    }

    #[test]
    fn data_has_a_budget() {
        let count = |path: &str, bytes| {
            let mut findings = Findings::default();
            check(&Tree { files: vec![of_bytes(path, bytes)] }, &mut findings);
            findings.0.len()
        };
        assert_eq!(count("a/tests/data/x.bin", TEST_DATA + 1), 1);
        assert_eq!(count("a/tests/data/x.bin", TEST_DATA), 0);
        assert_eq!(count("a/demo/x.gguf", TEST_DATA + 1), 0);
        assert_eq!(count("a/demo/x.gguf", TREE + 1), 1);
    }
}
