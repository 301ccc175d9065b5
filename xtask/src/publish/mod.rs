//! `cargo xtask publish`: whether the packages could go to crates.io as they stand. It uploads nothing.

mod changelog;
mod dependencies;
mod fields;
mod size;
mod workspace;

use std::io::{self, Write};
use std::path::Path;

use workspace::Workspace;

use crate::error::{Error, say};

/// Runs the command. The error is for people.
pub(crate) fn run(root: &Path, mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    if let Some(argument) = arguments.next() {
        return Err(format!("publish: unknown argument {argument}"));
    }
    check(root, &mut io::stdout().lock()).map_err(|error| format!("publish: {error}"))
}

fn check(root: &Path, out: &mut dyn Write) -> Result<(), Error> {
    let workspace = Workspace::read(root)?;
    let mut findings = dependencies::check(&workspace);
    findings.extend(fields::check(&workspace));
    findings.extend(changelog::check(root, &workspace)?);
    // Sizes last: cargo does not pack what has wrong fields.
    if findings.is_empty() {
        let (lines, large) = size::check(root, &workspace)?;
        for line in lines {
            say(out, format_args!("{line}"))?;
        }
        findings = large;
    }
    match findings.is_empty() {
        true => Ok(()),
        false => Err(Error::Failed(format!("not ready\n  {}", findings.join("\n  ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_has_no_findings() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let workspace = Workspace::read(root).unwrap();
        let mut findings = dependencies::check(&workspace);
        findings.extend(fields::check(&workspace));
        findings.extend(changelog::check(root, &workspace).unwrap());
        assert_eq!(findings, Vec::<String>::new());
    }

    #[test]
    fn arguments_are_refused() {
        let error = run(Path::new("."), ["--upload".to_owned()].into_iter()).unwrap_err();
        assert!(error.contains("--upload"), "{error}");
    }
}
