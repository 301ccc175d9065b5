//! Documents and settings: nothing of one machine, commands that are checked.

use super::{Findings, Tree};

/// Commands of the README's quick start, which the checks must run as they stand.
const QUICK_START: [&str; 2] = ["cargo run --release --bin bloomery-chat", "cargo test --workspace"];
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Folders at the root of somebody's machine.
const MACHINE: [&str; 5] = ["root", "home", "tmp", "work", "Users"];
const PRIVATE_HOSTS: [&str; 5] = [".internal", ".local", ".lan", ".corp", ".intranet"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (file, text) in tree.text() {
        for (index, line) in text.lines().enumerate() {
            if let Some(folder) = machine_path(line) {
                let message = format!("/{folder} is a place on one machine");
                findings.add("machine-path", &file.path, index + 1, message);
            }
            if let Some(what) = registry(&file.path, line) {
                findings.add("registry", &file.path, index + 1, what);
            }
        }
    }
    quick_start(tree, findings);
}

fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE.into_iter().find(|folder| {
        line.match_indices(&format!("/{folder}")).any(|(at, found)| {
            let (before, after) = (&line[..at], &line[at + found.len()..]);
            let inside = |c: char| c.is_alphanumeric() || "_-./$}~*".contains(c);
            !before.ends_with(inside) && (after.starts_with('/') || !after.starts_with(inside))
        })
    })
}

/// Dependencies come from crates.io, through whatever the user's own settings say.
fn registry(path: &str, line: &str) -> Option<String> {
    if path.ends_with("Cargo.lock") {
        let source = line.strip_prefix("source = ")?.trim_matches('"');
        return (source != CRATES_IO).then(|| format!("a dependency from {source}"));
    }
    if !path.ends_with(".rs") {
        let settings = ["index-url", "replace-with", "[source.", "registry-index", "trusted-host"];
        if let Some(setting) = settings.into_iter().find(|setting| line.contains(setting)) {
            return Some(format!("`{setting}` chooses a registry"));
        }
    }
    line.split("://").skip(1).find_map(|rest| {
        let host = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-').next()?;
        let private = PRIVATE_HOSTS.iter().any(|suffix| host.ends_with(suffix)) || is_private_address(host);
        private.then(|| format!("{host} is not a public host"))
    })
}

fn is_private_address(host: &str) -> bool {
    host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_private())
}

fn quick_start(tree: &Tree, findings: &mut Findings) {
    for path in ["README.md", ".ci/run"] {
        let Some(text) = tree.file(path).and_then(|file| file.text.as_deref()) else {
            findings.add("quick-start", path, 1, "is missing");
            continue;
        };
        for command in QUICK_START.into_iter().filter(|command| !text.contains(command)) {
            findings.add("quick-start", path, 1, format!("`{command}` is missing"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn paths_of_a_machine_are_found() {
        let count = |text: &str| found(check, "machine-path", &[("docs/a.md", text)]).len();
        for folder in MACHINE {
            assert_eq!(count(&format!("see `/{folder}/me/model.gguf`")), 1, "{folder}");
            assert_eq!(count(&format!("in (/{folder})")), 1, "{folder}");
            assert_eq!(count(&format!("a/{folder}/b, ./{folder}, /{folder}bench")), 0, "{folder}");
        }
    }

    #[test]
    fn only_the_public_registry_is_named() {
        let count = |path: &str, text: &str| found(check, "registry", &[(path, text)]).len();
        assert_eq!(count("Cargo.lock", &format!("source = \"{CRATES_IO}\"")), 0);
        assert_eq!(count("Cargo.lock", "source = \"git+https://github.com/a/b\""), 1);
        assert_eq!(count(".cargo/config.toml", "[source.crates-io]\nreplace-with = \"x\""), 2);
        assert_eq!(count(".ci/run", "pip install --index-url x"), 1);
        let host = format!("https://mirror{}/simple", ".internal");
        assert_eq!(count("docs/a.md", &host), 1);
        assert_eq!(count("a.rs", &format!("http://10.{}/", "0.0.1:80")), 1);
        assert_eq!(count("docs/a.md", "https://crates.io http://127.0.0.1:8080 http://localhost:80"), 0);
    }

    #[test]
    fn the_quick_start_is_checked() {
        let both = QUICK_START.join("\n");
        let count = |readme: &str, ci: &str| {
            found(check, "quick-start", &[("README.md", readme), (".ci/run", ci)]).len()
        };
        assert_eq!(count(&both, &both), 0);
        assert_eq!(count(&both, QUICK_START[1]), 1);
        assert_eq!(count("", ""), 4);
        assert_eq!(found(check, "quick-start", &[]).len(), 2);
    }
}
