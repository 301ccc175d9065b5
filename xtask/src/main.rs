//! Project tasks: `cargo xtask lint` checks the tree for what neither rustc nor clippy can know.
#![forbid(unsafe_code)]

mod lint;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask lint    checks the rules of the tree; exit status 1 when one is broken";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
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

fn lint(folder: Option<&str>) -> io::Result<ExitCode> {
    let here = || Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let tree = lint::Tree::read(folder.map_or_else(here, Path::new))?;
    let findings = lint::run(&tree);
    let mut out = io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "lint: {}, {} findings", tree.summary(), findings.len())?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
