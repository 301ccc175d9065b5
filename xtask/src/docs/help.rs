//! Flags of a command, looked up in the help of its program.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::shell;

/// Commands of every shell, which are not looked up.
const COMMON: [&str; 14] = [
    "cat", "cd", "chmod", "cp", "curl", "echo", "export", "kill", "ln", "mkdir", "mv", "printf", "rm", "wait",
];
/// Flags of cargo's own that take a value, and stand before the program.
const TARGETS: [&str; 3] = ["--bin", "--example", "-p"];

/// Texts of `--help`, by the command that printed them.
#[derive(Debug, Default)]
pub(super) struct Help(HashMap<String, String>);

/// What a command runs: a program or a script, and what it is given.
#[derive(Debug, PartialEq, Eq)]
enum Runs<'a> {
    Nothing,
    Program(&'a str, &'a [String]),
    Xtask(&'a [String]),
    /// A command of cargo's own.
    Cargo(&'a [String]),
}

impl Help {
    /// Every flag of every command in `text` is one of its program. `folder` has the programs, `root` the scripts.
    /// Unless `all` is wanted, only programs of ours are looked at.
    pub(super) fn check(&mut self, text: &str, folder: &Path, root: &Path, all: bool) -> Result<(), String> {
        for words in shell::commands(text) {
            match runs(&words) {
                Runs::Program(name, given) => match program(name, folder, root, all) {
                    Some(path) => self.flags(&[path.to_string_lossy().into_owned()], given)?,
                    None if all => {
                        return Err(format!(
                            "`{name}` is no program or script of this tree whose help could be read"
                        ));
                    }
                    None => {}
                },
                Runs::Xtask(given) => {
                    let path = std::env::current_exe().map_err(|error| format!("xtask: {error}"))?;
                    self.flags(&[path.to_string_lossy().into_owned()], given)?;
                }
                Runs::Cargo(given) if all => {
                    let end = given.iter().position(|word| word == "--").unwrap_or(given.len());
                    self.flags(&["cargo".to_owned()], &given[..end])?;
                }
                Runs::Nothing | Runs::Cargo(_) => {}
            }
        }
        Ok(())
    }

    /// `head` prints its help; a first word that the help lists is a command with a help of its own.
    fn flags(&mut self, head: &[String], given: &[String]) -> Result<(), String> {
        // Nothing to look up, and maybe a script without a help, which would begin its work.
        if !given.iter().any(|word| shell::flag(word).is_some()) {
            return Ok(());
        }
        let text = self.text(head)?;
        if let Some(first) = given.first()
            && !first.starts_with('-')
            && (text.lines().any(|line| line.split_whitespace().next() == Some(first)) || head[0] == "cargo")
        {
            return self.flags_of(&[&head[0], first], &given[1..]);
        }
        self.flags_of(&[&head[0]], given)
    }

    fn flags_of(&mut self, head: &[&str], given: &[String]) -> Result<(), String> {
        let head: Vec<String> = head.iter().map(|word| (*word).to_owned()).collect();
        let text = self.text(&head)?;
        let known: HashSet<&str> =
            text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_')).collect();
        match given.iter().filter_map(|word| shell::flag(word)).find(|flag| !known.contains(flag)) {
            Some(flag) => {
                let name = Path::new(&head[0]).file_name().unwrap_or_default().to_string_lossy();
                Err(format!(
                    "{flag} is not in the help of {name}{}",
                    head.get(1).map_or_else(String::new, |sub| format!(" {sub}"))
                ))
            }
            None => Ok(()),
        }
    }

    fn text(&mut self, head: &[String]) -> Result<String, String> {
        let key = head.join(" ");
        if let Some(text) = self.0.get(&key) {
            return Ok(text.clone());
        }
        let output = Command::new(&head[0])
            .args(&head[1..])
            .arg("--help")
            .output()
            .map_err(|error| format!("{key} --help: {error}"))?;
        // Small scripts say how they are used, and that they were not used like that.
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        self.0.insert(key, text.clone());
        Ok(text)
    }
}

fn runs(words: &[String]) -> Runs<'_> {
    let Some((first, rest)) = words.split_first() else { return Runs::Nothing };
    match first.as_str() {
        name if COMMON.contains(&name) => Runs::Nothing,
        "cargo" if rest.first().is_some_and(|word| word == "xtask") => Runs::Xtask(&rest[1..]),
        "cargo" if rest.first().is_some_and(|word| word == "run") => {
            let end = rest.iter().position(|word| word == "--");
            let target = rest.iter().zip(&rest[1..]).find(|(flag, _)| TARGETS[..2].contains(&flag.as_str()));
            match target {
                Some((_, name)) => Runs::Program(name, end.map_or(&[], |end| &rest[end + 1..])),
                None => Runs::Cargo(rest),
            }
        }
        "cargo" => Runs::Cargo(rest),
        name => Runs::Program(name, rest),
    }
}

/// The file of a program of ours, or of a script of the tree where those count.
fn program(name: &str, folder: &Path, root: &Path, scripts: bool) -> Option<PathBuf> {
    let bare = name.strip_prefix("target/release/").unwrap_or(name);
    let ours = [folder.join(bare), folder.join("examples").join(bare)];
    ours.into_iter().chain(scripts.then(|| root.join(name))).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn programs_are_found_behind_cargo() {
        let line = words("cargo run --release --example eval -- kld -m MODEL");
        assert_eq!(runs(&line), Runs::Program("eval", &line[6..]));
        assert_eq!(runs(&words("cargo xtask ptx --check")), Runs::Xtask(&words("ptx --check")));
        assert_eq!(runs(&words("cargo bench -p x -- --test")), Runs::Cargo(&words("bench -p x -- --test")));
        assert_eq!(runs(&words("cat key")), Runs::Nothing);
    }

    #[test]
    fn flags_are_looked_up_in_what_a_program_prints() {
        let mut help = Help::default();
        help.0.insert("p".to_owned(), "usage: p [-x] [--long[=N]]\n\ncommands:\n  sub  does".to_owned());
        help.0.insert("p sub".to_owned(), "--other, -o (also -npl)".to_owned());
        let mut flags = |given: &str| help.flags(&["p".to_owned()], &words(given)).is_ok();
        assert!(flags("-x --long=3 file -1") && flags("sub -npl 3 --other"));
        assert!(!flags("--lon") && !flags("-y") && !flags("sub --long"));
    }
}
