//! `CHANGELOG.md` knows the version that would be published.

use std::path::Path;

use super::workspace::Workspace;
use crate::error::{Error, io_error};

const NAME: &str = "CHANGELOG.md";

pub(super) fn check(root: &Path, workspace: &Workspace) -> Result<Option<String>, Error> {
    let text = std::fs::read_to_string(root.join(NAME)).map_err(io_error(NAME))?;
    Ok(workspace.published().next().and_then(|package| missing(&text, &package.version)))
}

/// An empty section is missing too.
fn missing(text: &str, version: &str) -> Option<String> {
    let heading = format!("## [{version}]");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&heading)).skip(1);
    let written =
        lines.by_ref().take_while(|line| !line.starts_with("## ")).any(|line| line.starts_with("- "));
    (!written).then(|| format!("{NAME} has no section `{heading}` with entries"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_entries_is_found() {
        let text = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-01\n\n### Added\n\n- Something.\n";
        assert_eq!(missing(text, "0.2.0"), None);
        assert!(missing(text, "0.3.0").is_some_and(|finding| finding.contains("[0.3.0]")));
        assert!(missing(text, "Unreleased").is_some());
    }
}
