//! Commands that reach beyond the folder they are run in, or build for minutes.

use super::shell;

/// Programs that change a system or an account, or ask the network.
const PROGRAMS: [&str; 16] = [
    "apt",
    "apt-get",
    "brew",
    "docker",
    "dnf",
    "git",
    "helm",
    "kubectl",
    "npm",
    "pip",
    "pip3",
    "podman",
    "ssh",
    "sudo",
    "systemctl",
    "wget",
];
/// Those of cargo that do, or that build.
const CARGO: [&str; 14] = [
    "add",
    "bench",
    "build",
    "check",
    "clippy",
    "doc",
    "install",
    "login",
    "owner",
    "publish",
    "test",
    "uninstall",
    "update",
    "yank",
];

/// Refuses a block with such a command: nobody runs it by forgetting a comment.
pub(super) fn check(text: &str) -> Result<(), String> {
    for words in shell::commands(text) {
        let second = words.get(1).map_or("", String::as_str);
        let cargo = words[0] == "cargo" && CARGO.contains(&second);
        if cargo || PROGRAMS.contains(&words[0].as_str()) {
            let name = if cargo { format!("cargo {second}") } else { words[0].clone() };
            return Err(format!(
                "`{name}` is not run from a document: the block needs parse, stage or skip, REASON"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_publishes_or_installs_is_not_run() {
        for text in [
            "git push origin main",
            "ls\nsudo cp a b",
            "X=1 cargo publish --workspace",
            "pip install x",
            "cargo bench",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
        assert!(check("cargo run --bin x -- install\ncurl http://127.0.0.1/ | jq .").is_ok());
    }
}
