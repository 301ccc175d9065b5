//! The programs of a release: built with nothing of the machine in them, stripped, checked for what they need.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{linkage, output};
use crate::error::{Error, io_error};

/// What is built, and the package that has it.
const PROGRAMS: &[(&str, &str)] =
    &[("bloomery-serve", "bloomery-server"), ("bloomery-chat", "bloomery-examples")];

/// One program, stripped.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// It can be run from here as long as the release is made.
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

/// Builds them in a folder of their own. The instruction set is chosen at run time, so they are plain x86-64: flags of
/// the environment, such as `target-cpu=native`, would make programs that end with SIGILL elsewhere.
pub(super) fn built(root: &Path, work: &Path) -> Result<Vec<Program>, Error> {
    let target = work.join("build");
    let home = cargo_home()?;
    let flags = [(root, "/bloomery"), (home.as_path(), "/cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--release", "--locked"]);
    for (program, package) in PROGRAMS {
        cargo.args(["--package", package, "--bin", program]);
    }
    cargo
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    output(&mut cargo)?;
    let programs = taken(&target.join("release"), work)?;
    for program in &programs {
        for path in [root, home.as_path()] {
            let path = path.as_os_str().as_encoded_bytes();
            if program.bytes.windows(path.len()).any(|window| window == path) {
                let path = String::from_utf8_lossy(path);
                return Err(Error::Failed(format!("{} names the folder {path}", program.name)));
            }
        }
    }
    Ok(programs)
}

/// Takes them from where they were built.
pub(super) fn taken(built: &Path, work: &Path) -> Result<Vec<Program>, Error> {
    let stripped = work.join("stripped");
    std::fs::create_dir_all(&stripped).map_err(io_error(stripped.display()))?;
    let strip = |&(name, _): &(&'static str, &str)| {
        let path = stripped.join(name);
        output(Command::new("strip").arg("-o").arg(&path).arg(built.join(name)))?;
        linkage::check(&path)?;
        let bytes = std::fs::read(&path).map_err(io_error(path.display()))?;
        Ok(Program { name, path, bytes })
    };
    PROGRAMS.iter().map(strip).collect()
}

/// Where the sources of dependencies are, whose paths are in messages of panics.
fn cargo_home() -> Result<PathBuf, Error> {
    let stated = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let default = || std::env::home_dir().map(|home| home.join(".cargo"));
    stated.or_else(default).ok_or(Error::Failed("neither CARGO_HOME nor HOME is set".to_owned()))
}
