//! What crates.io asks for in a manifest, and what its readers miss where it is not there.

use std::fs;

use super::workspace::{Package, Workspace};

/// Files that have to lie in the folder of each package, since cargo packs nothing from above it.
const FILES: &[&str] = &["LICENSE", "README.md"];

pub(super) fn check(workspace: &Workspace) -> Vec<String> {
    let mut findings = Vec::new();
    for package in workspace.published() {
        findings.extend(fields(package).map(|what| format!("{}: {what}", package.name)));
        findings.extend(files(package).map(|what| format!("{}: {what}", package.name)));
    }
    let versions = workspace.published().map(|package| package.version.as_str());
    if versions.clone().any(|version| Some(version) != versions.clone().next()) {
        findings
            .push(format!("the packages have several versions: {}", versions.collect::<Vec<_>>().join(", ")));
    }
    findings
}

fn fields(package: &Package) -> impl Iterator<Item = String> {
    let there = |name: &'static str, value: &Option<String>| {
        value.as_ref().is_none_or(String::is_empty).then(|| format!("no {name}"))
    };
    let count = |name: &str, list: &[String]| {
        (list.is_empty() || list.len() > 5).then(|| format!("{} {name}, not 1 to 5", list.len()))
    };
    let long = |word: &String| word.len() > 20 || word.contains(' ');
    let keyword = package.keywords.iter().find(|word| long(word));
    [
        there("description", &package.description),
        there("licence", &package.license),
        there("repository", &package.repository),
        there("documentation", &package.documentation),
        there("readme", &package.readme),
        count("keywords", &package.keywords),
        count("categories", &package.categories),
        keyword.map(|word| format!("the keyword {word:?} is longer than 20 letters or several words")),
    ]
    .into_iter()
    .flatten()
}

fn files(package: &Package) -> impl Iterator<Item = String> {
    FILES.iter().filter_map(|name| match fs::read_to_string(package.folder.join(name)) {
        Ok(text) if text.trim().is_empty() => Some(format!("{name} is empty")),
        Ok(_) => None,
        Err(error) => Some(format!("{name}: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Package {
        let text = || Some("text".to_owned());
        Package {
            name: "a".to_owned(),
            version: "1.0.0".to_owned(),
            license: text(),
            description: text(),
            repository: text(),
            documentation: text(),
            readme: text(),
            keywords: vec!["llm".to_owned()],
            categories: vec!["science".to_owned()],
            published: true,
            ..Package::default()
        }
    }

    fn found(change: impl FnOnce(&mut Package)) -> Vec<String> {
        let mut package = complete();
        change(&mut package);
        fields(&package).collect()
    }

    #[test]
    fn missing_fields_are_found() {
        assert!(found(|_| {}).is_empty());
        assert_eq!(found(|package| package.description = None), ["no description"]);
        assert_eq!(found(|package| package.license = Some(String::new())), ["no licence"]);
        assert_eq!(found(|package| package.categories.clear()), ["0 categories, not 1 to 5"]);
        assert_eq!(found(|package| package.keywords = vec!["a".to_owned(); 6]), ["6 keywords, not 1 to 5"]);
        assert_eq!(found(|package| package.keywords = vec!["large models".to_owned()]).len(), 1);
    }

    #[test]
    fn files_and_versions_are_looked_at() {
        let other = Package { version: "1.0.1".to_owned(), ..complete() };
        let findings = check(&Workspace { packages: vec![complete(), other] });
        assert!(findings.iter().any(|finding| finding.starts_with("a: LICENSE: ")), "{findings:?}");
        assert!(findings.iter().any(|finding| finding.ends_with("1.0.0, 1.0.1")), "{findings:?}");
    }
}
