//! The packages as cargo packs them, and what crates.io allows.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::workspace::Workspace;
use crate::error::{Error, io_error};

/// The most bytes that crates.io takes for a packed crate.
const LIMIT: u64 = 10 << 20;

/// A line about each package, and those that are too large.
pub(super) fn check(root: &Path, workspace: &Workspace) -> Result<(Vec<String>, Vec<String>), Error> {
    let folder = pack(root, workspace)?;
    let (mut lines, mut large) = (Vec::new(), Vec::new());
    for package in workspace.published() {
        let name = format!("{}-{}.crate", package.name, package.version);
        let bytes = folder.join(&name).metadata().map_err(io_error(&name))?.len();
        lines.push(format!("publish: {name}: {bytes} bytes"));
        large.extend(too_large(&name, bytes));
    }
    Ok((lines, large))
}

fn too_large(name: &str, bytes: u64) -> Option<String> {
    (bytes > LIMIT).then(|| format!("{name} has {bytes} bytes, crates.io takes {LIMIT}"))
}

/// Packs what is there, committed or not, and builds none of it.
fn pack(root: &Path, workspace: &Workspace) -> Result<PathBuf, Error> {
    let target = root.join("target/publish");
    let mut command = Command::new("cargo");
    command
        .args(["package", "--quiet", "--locked", "--no-verify", "--allow-dirty", "--target-dir"])
        .arg(&target);
    for package in workspace.published() {
        command.args(["--package", &package.name]);
    }
    let output = command.current_dir(root).output().map_err(io_error("cargo package"))?;
    match output.status.success() {
        true => Ok(target.join("package")),
        false => Err(Error::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit() {
        assert_eq!(too_large("a", LIMIT), None);
        assert_eq!(
            too_large("a", LIMIT + 1).as_deref(),
            Some("a has 10485761 bytes, crates.io takes 10485760")
        );
    }
}
