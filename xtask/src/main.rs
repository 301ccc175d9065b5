//! Project tasks: `cargo xtask lint` checks the tree for what neither rustc nor clippy can know, `cargo xtask ptx` makes
//! the GPU kernels' PTX, `cargo xtask release` the archive that a release publishes.
#![forbid(unsafe_code)]

mod lint;
mod ptx;
mod release;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask lint                    checks the rules of the tree; exit status 1 when one is broken
       cargo xtask ptx [--rustc PATH]      builds the GPU kernels and writes the manifest
       cargo xtask ptx --check             fails when sources and PTX differ; builds again where the compiler is there
       cargo xtask ptx --assemble PTXAS    registers of every kernel; fails on spills and local memory
       cargo xtask release [--out DIR]     builds the programs and packs them, with notices, for x86-64 Linux
       cargo xtask release --binaries DIR  packs those that are there; --without-notices needs no cargo-about";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    if command.as_deref() == Some("ptx") {
        return exit(ptx::run(root(), arguments));
    }
    if command.as_deref() == Some("release") {
        return exit(release::run(root(), arguments));
    }
    match (command.as_deref(), arguments.next()) {
        (Some("lint"), folder) => lint(folder.as_deref()).unwrap_or_else(|error| {
            let _ = writeln!(io::stderr(), "lint: {error}");
            ExitCode::from(2)
        }),
        (Some("help" | "--help" | "-h"), None) => {
            let _ = writeln!(io::stdout(), "{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            let _ = writeln!(io::stderr(), "{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The error, which is for people, goes to stderr.
fn exit(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn lint(folder: Option<&str>) -> io::Result<ExitCode> {
    let tree = lint::Tree::read(folder.map_or_else(|| root(), Path::new))?;
    let findings = lint::run(&tree);
    let mut out = io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "lint: {}, {} findings", tree.summary(), findings.len())?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
