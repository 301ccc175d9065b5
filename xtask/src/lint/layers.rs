//! Folders that may know little: block formats, which GPU kernels include, and architectures, which are data.

use super::lexer::Line;
use super::{Findings, Tree};

const BLOCKS: &str = "bloomery-gguf/src/blocks/";
const ARCHITECTURES: &str = "bloomery-core/src/arch/";
const ARCHITECTURE_LINES: usize = 200;
/// Modules of bloomery-core that say how a model is run, and names of what it runs on.
const RUNNING: &[&str] =
    &["backend", "engine", "session", "program", "state", "bloomery_kernels", "Backend", "Cpu", "Cuda"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for file in tree.rust() {
        if file.path.starts_with(BLOCKS) {
            for (index, line) in file.rust.iter().enumerate() {
                if let Some(name) = leaves_core(line) {
                    let message = format!("`{name}`: block formats use `core` and their own folder only");
                    findings.add("blocks-core", &file.path, index + 1, message);
                }
            }
        }
        if file.path.starts_with(ARCHITECTURES) {
            if file.rust.len() > ARCHITECTURE_LINES {
                let message = format!("{} lines; an architecture has {ARCHITECTURE_LINES}", file.rust.len());
                findings.add("arch-data", &file.path, ARCHITECTURE_LINES + 1, message);
            }
            for (index, line) in file.rust.iter().enumerate() {
                if let Some(word) = line.words().find(|word| RUNNING.contains(word)) {
                    let message =
                        format!("`{word}`: an architecture says what a model is, not how it is run");
                    findings.add("arch-data", &file.path, index + 1, message);
                }
            }
        }
    }
}

/// `crate` would be another crate when the folder is included elsewhere.
fn leaves_core(line: &Line) -> Option<&'static str> {
    let path = ["std", "alloc", "crate"].into_iter().find(|root| line.has(root, "::"));
    path.or_else(|| ["Vec", "Box", "String"].into_iter().find(|name| line.words().any(|word| word == *name)))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn blocks_use_core_only() {
        let count = |path, text| found(check, "blocks-core", &[(path, text)]).len();
        let text = "use std::fmt;\nuse alloc::vec;\nuse crate::Format;\nfn f() -> Vec<u8> {}\n";
        assert_eq!(count("bloomery-gguf/src/blocks/q4.rs", text), 4);
        assert_eq!(count("bloomery-gguf/src/format.rs", text), 0);
        let text = "use core::mem;\nuse super::half;\npub(crate) fn f() {} // std::fmt\n";
        assert_eq!(count("bloomery-gguf/src/blocks/q4.rs", text), 0);
    }

    #[test]
    fn architectures_are_short_and_name_no_device() {
        let lines = |text: &str| found(check, "arch-data", &[("bloomery-core/src/arch/a.rs", text)]);
        assert_eq!(
            lines("use crate::def::Moe;\nuse crate::backend::Cpu;\n"),
            ["bloomery-core/src/arch/a.rs:2"]
        );
        assert!(lines("//! Runs on Cuda.\nuse crate::def::Moe;\n").is_empty());
        assert_eq!(lines(&"\n".repeat(201)), ["bloomery-core/src/arch/a.rs:201"]);
        assert!(lines(&"\n".repeat(200)).is_empty());
    }
}
