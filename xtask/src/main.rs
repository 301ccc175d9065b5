//! Project tasks: `cargo xtask lint` checks the tree for what neither rustc nor clippy can know, `cargo xtask ptx` makes
//! the GPU kernels' PTX, `cargo xtask docs` runs the commands of the documents, `cargo xtask publish` looks at the packages
//! before they go to crates.io, `cargo xtask release` makes the archive that a release publishes.
#![forbid(unsafe_code)]

mod digest;
mod docs;
mod error;
mod lint;
mod ptx;
mod publish;
mod release;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask lint                    checks the rules of the tree; exit status 1 when one is broken
       cargo xtask docs                    links of the documents, and rules of the commands in them
       cargo xtask docs --run [PATH..]     and runs the commands, of all documents or of these; --release as written,
                                           --programs FOLDER with programs that are built
       cargo xtask ptx [--rustc PATH]      builds the GPU kernels and writes the manifest
       cargo xtask ptx --check             fails when sources and PTX differ; builds again where the compiler is there
       cargo xtask ptx --assemble PTXAS    registers of every kernel; fails on spills and local memory
       cargo xtask publish                 fails when the packages are not ready for crates.io; uploads nothing
       cargo xtask release [--out DIR]     builds the programs and packs them, with notices, for x86-64 Linux
       cargo xtask release --binaries DIR  packs those that are there; --without-notices needs no cargo-about";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    match command.as_deref() {
        Some("ptx") => return exit(ptx::run(root(), arguments)),
        Some("docs") => return exit(docs::run(root(), arguments)),
        Some("publish") => return exit(publish::run(root(), arguments)),
        Some("release") => return exit(release::run(root(), arguments)),
        _ => {}
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
fn exit(outcome: Result<(), String>) -> ExitCode {
    outcome.map_or_else(
        |error| {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
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
