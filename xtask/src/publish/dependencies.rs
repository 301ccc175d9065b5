//! The lock file against the `rust-version` of the workspace: a compiler of that version has to build all of it.

use super::workspace::Workspace;

pub(super) fn check(workspace: &Workspace) -> Vec<String> {
    let mut findings = Vec::new();
    let promised = workspace.published().map(|package| (package, package.rust_version.as_deref()));
    let Some((_, lowest)) = promised.clone().min_by_key(|(_, version)| version.map(parts)) else {
        return vec!["no package is published".to_owned()];
    };
    for (package, version) in promised {
        if version.is_none() {
            findings.push(format!("{}: no rust-version", package.name));
        }
    }
    let Some(lowest) = lowest else { return findings };
    for package in &workspace.packages {
        if let Some(needed) = package.rust_version.as_deref()
            && parts(needed) > parts(lowest)
        {
            findings.push(format!(
                "{} {} needs Rust {needed}, the workspace promises {lowest}",
                package.name, package.version
            ));
        }
    }
    findings
}

/// Numbers to compare; what is missing counts as 0.
fn parts(version: &str) -> [u32; 3] {
    let mut numbers = [0; 3];
    for (number, text) in numbers.iter_mut().zip(version.split('.')) {
        *number = text.parse().unwrap_or(0);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::super::workspace::Package;
    use super::*;

    fn found(own: Option<&str>, other: Option<&str>) -> Vec<String> {
        let package = |name: &str, rust_version: Option<&str>, published| Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            rust_version: rust_version.map(str::to_owned),
            published,
            ..Package::default()
        };
        check(&Workspace { packages: vec![package("own", own, true), package("other", other, false)] })
    }

    #[test]
    fn newer_dependencies_are_found() {
        assert_eq!(
            found(Some("1.90"), Some("1.91")),
            ["other 1.0.0 needs Rust 1.91, the workspace promises 1.90"]
        );
        assert_eq!(found(Some("1.90"), Some("1.90.1")).len(), 1);
        assert!(found(Some("1.90"), Some("1.9")).is_empty());
        assert!(found(Some("1.90"), Some("1.90.0")).is_empty());
        assert!(found(Some("1.90"), None).is_empty());
    }

    #[test]
    fn packages_say_what_they_need() {
        assert_eq!(found(None, Some("1.80")), ["own: no rust-version"]);
        assert_eq!(check(&Workspace::default()), ["no package is published"]);
    }
}
