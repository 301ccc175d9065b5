//! `cargo xtask release`: what a release publishes. One archive of stripped programs for x86-64 Linux with their notices,
//! its SHA-256, the install script and the Homebrew formula that name it.

mod archive;
mod binaries;
mod contents;
mod linkage;
mod packaging;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::digest::sha256;
use crate::error::{Error, io_error, say};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PLATFORM: &str = "x86_64-linux";

/// What to make, and of what.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    out: Option<PathBuf>,
    /// Programs that are built already; none: they are built.
    binaries: Option<PathBuf>,
    without_notices: bool,
}

/// What a program prints to stdout. Its stderr is the user's.
fn output(command: &mut Command) -> Result<Vec<u8>, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(std::process::Stdio::inherit()).output().map_err(io_error(&name))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(Error::Failed(format!("{name} failed: {}", output.status))),
    }
}

/// Runs the command with the arguments after `release`. The error is for people.
pub(crate) fn run(root: &Path, arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let options = parse(arguments).map_err(named)?;
    release(root, &options, &mut io::stdout().lock()).map_err(named)
}

fn named(error: Error) -> String {
    format!("release: {error}")
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Error> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        let mut value =
            || arguments.next().map(PathBuf::from).ok_or(Error::Usage(format!("{argument} needs a folder")));
        match argument.as_str() {
            "--out" => options.out = Some(value()?),
            "--binaries" => options.binaries = Some(value()?),
            "--without-notices" => options.without_notices = true,
            _ => return Err(Error::Usage(format!("unknown argument {argument}"))),
        }
    }
    Ok(options)
}

fn release(root: &Path, options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let stale = packaging::stale(root, VERSION)?;
    if !stale.is_empty() {
        return Err(Error::Failed(format!("the workspace is {VERSION}, but {}", stale.join("; "))));
    }
    let work = root.join("target/archive");
    let folder = options.out.clone().unwrap_or_else(|| work.join(format!("v{VERSION}")));
    std::fs::create_dir_all(&folder).map_err(io_error(folder.display()))?;
    let notices = match options.without_notices {
        true => None,
        false => Some(contents::notices(root)?),
    };
    let programs = match &options.binaries {
        Some(built) => binaries::taken(built, &work)?,
        None => binaries::built(root, &work)?,
    };
    let name = format!("bloomery-{VERSION}-{PLATFORM}");
    let bytes = archive::tar_gz(&name, &contents::all(root, programs, notices)?, seconds(root))?;
    let file = format!("{name}.tar.gz");
    let digest = sha256(&bytes);
    write(&folder, &file, &bytes)?;
    // The form that `sha256sum --check` reads.
    write(&folder, &format!("{file}.sha256"), format!("{digest}  {file}\n").as_bytes())?;
    for (script, text) in packaging::stamped(root, &digest)? {
        write(&folder, script, text.as_bytes())?;
    }
    let notes = if options.without_notices { "; WITHOUT NOTICES: not for publishing" } else { "" };
    say(
        out,
        format_args!(
            "{}: {:.1} MB, sha256 {digest}{notes}",
            folder.join(file).display(),
            bytes.len() as f64 / 1e6
        ),
    )
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).map_err(io_error(path.display()))
}

/// The time that files of the archive have: that of the commit, so that the same commit gives the same archive.
fn seconds(root: &Path) -> u64 {
    let stated = std::env::var("SOURCE_DATE_EPOCH").ok();
    let commit = || {
        let output =
            Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]).output().ok()?;
        String::from_utf8(output.stdout).ok()
    };
    stated.or_else(commit).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(str::to_owned)).map_err(named)
    }

    #[test]
    fn arguments() {
        assert_eq!(parsed(""), Ok(Options::default()));
        let all = Options { out: Some("/o".into()), binaries: Some("/b".into()), without_notices: true };
        assert_eq!(parsed("--out /o --binaries /b --without-notices"), Ok(all));
        assert_eq!(parsed("--out"), Err("release: --out needs a folder".into()));
        assert!(parsed("--binary /b").is_err());
    }
}
