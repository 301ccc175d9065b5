//! Which compiler builds PTX: any that brings the source of `core`. The target has no ready-made one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// Places to look, in order. Debian's `rustc-web` with `rust-web-src` is the second.
const CANDIDATES: &[&str] = &["rustc", "/usr/bin/rustc"];

/// A compiler and its version.
#[derive(Debug)]
pub(super) struct Toolchain {
    pub(super) rustc: PathBuf,
    pub(super) version: String,
}

impl Toolchain {
    /// The compiler asked for or the first that will do, of the version wanted if one is.
    pub(super) fn find(rustc: Option<PathBuf>, wanted: Option<&str>) -> Result<Self, Error> {
        let candidates = match rustc {
            Some(rustc) => vec![rustc],
            None => CANDIDATES.iter().map(PathBuf::from).collect(),
        };
        let mut reasons = Vec::new();
        for rustc in candidates {
            match Self::at(&rustc) {
                Ok(found) if wanted.is_none_or(|wanted| wanted == found.version) => return Ok(found),
                Ok(found) => reasons.push(format!("{} is {}", rustc.display(), found.version)),
                Err(reason) => reasons.push(format!("{} {reason}", rustc.display())),
            }
        }
        let wanted = wanted.map(|version| format!(" ({version})")).unwrap_or_default();
        Err(Error::Failed(format!("no compiler with the source of core{wanted}: {}", reasons.join("; "))))
    }

    fn at(rustc: &Path) -> Result<Self, String> {
        let ask = |argument: &[&str]| {
            let output = Command::new(rustc).args(argument).output().map_err(|error| error.to_string())?;
            match output.status.success() {
                true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
                false => Err(format!("refuses {}", argument.join(" "))),
            }
        };
        let sysroot = ask(&["--print", "sysroot"])?;
        let core = Path::new(&sysroot).join("lib/rustlib/src/rust/library/core/src/lib.rs");
        match core.exists() {
            true => Ok(Self { rustc: rustc.to_owned(), version: ask(&["--version"])? }),
            false => Err("comes without the source of core".to_owned()),
        }
    }
}
