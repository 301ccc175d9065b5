//! What every crate declares: its attitude to `unsafe` and the workspace's lints.

use super::tree::File;
use super::{Findings, Tree};

/// Packages outside the workspace, which have rules of their own.
const OUTSIDE: &[&str] = &["fuzz/", "bloomery-kernels/device/"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for file in &tree.files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        let folder = format!("{folder}/");
        if OUTSIDE.contains(&folder.as_str()) {
            continue;
        }
        lints(file, findings);
        for root in tree.rust().filter(|root| is_root(root, &folder)) {
            attitude(root, &folder, findings);
        }
    }
}

/// Roots that are compiled on their own and are not examples, tests or benches.
fn is_root(file: &File, folder: &str) -> bool {
    let Some(path) = file.path.strip_prefix(folder) else { return false };
    let binary =
        path.strip_prefix("src/bin/").is_some_and(|name| !name.contains('/') || name.ends_with("/main.rs"));
    matches!(path, "src/lib.rs" | "src/main.rs") || binary
}

fn attitude(file: &File, folder: &str, findings: &mut Findings) {
    let level = match folder {
        "bloomery-kernels/" => return,
        "bloomery-gguf/" => "deny",
        _ => "forbid",
    };
    let attribute = format!("#![{level}(unsafe_code)]");
    if !file.rust.iter().any(|line| line.code.trim() == attribute) {
        findings.add("crate-root", &file.path, 1, format!("{attribute} is missing"));
    }
}

fn lints(file: &File, findings: &mut Findings) {
    let text = file.text.as_deref().unwrap_or_default();
    let mut section = "";
    let inherits = text.lines().any(|line| {
        if line.starts_with('[') {
            section = line.trim();
        }
        section == "[lints]" && line.replace(' ', "") == "workspace=true"
    });
    if !inherits {
        findings.add("crate-lints", &file.path, 1, "[lints] workspace = true is missing");
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";

    fn roots(folder: &str, path: &str, text: &str) -> Vec<String> {
        let manifest = format!("{folder}/Cargo.toml");
        found(check, "crate-root", &[(&manifest, MANIFEST), (&format!("{folder}/{path}"), text)])
    }

    #[test]
    fn roots_forbid_unsafe() {
        assert_eq!(roots("a", "src/lib.rs", "mod b;"), ["a/src/lib.rs:1"]);
        assert_eq!(roots("a", "src/main.rs", "// #![forbid(unsafe_code)]"), ["a/src/main.rs:1"]);
        assert_eq!(roots("a", "src/bin/b.rs", "#![deny(unsafe_code)]"), ["a/src/bin/b.rs:1"]);
        assert!(roots("a", "src/lib.rs", "//! A.\n#![forbid(unsafe_code)]").is_empty());
        assert!(roots("a", "src/other.rs", "").is_empty());
    }

    #[test]
    fn two_crates_differ() {
        assert!(roots("bloomery-kernels", "src/lib.rs", "").is_empty());
        assert!(roots("bloomery-gguf", "src/lib.rs", "#![deny(unsafe_code)]").is_empty());
        assert_eq!(roots("bloomery-gguf", "src/lib.rs", "").len(), 1);
    }

    #[test]
    fn packages_inherit_the_lints() {
        let lints = |text: &str| found(check, "crate-lints", &[("a/Cargo.toml", text)]).len();
        assert_eq!(lints("[package]\nname = \"a\"\n[dependencies]\nworkspace = true\n"), 1);
        assert_eq!(lints(MANIFEST), 0);
        assert_eq!(found(check, "crate-lints", &[("fuzz/Cargo.toml", "")]).len(), 0);
    }
}
