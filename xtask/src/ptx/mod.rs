//! `cargo xtask ptx`: GPU kernels from Rust to PTX, and checks of what is committed.

mod assemble;
mod build;
mod manifest;
mod toolchain;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use build::Output;
use manifest::Manifest;
use toolchain::Toolchain;

use crate::error::{Error, io_error, say};

/// The kernels' package, what it is made of besides, and where the PTX goes.
const DEVICE: &str = "bloomery-kernels/device";
const SOURCES: &[&str] = &[
    "bloomery-kernels/device/src",
    "bloomery-kernels/device/Cargo.toml",
    "bloomery-kernels/src/abi",
    "bloomery-gguf/src/blocks",
];
const PTX: &str = "bloomery-kernels/ptx";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    /// Of all families, or of these.
    Build(Vec<String>),
    Check,
    Assemble {
        ptxas: PathBuf,
    },
}

/// Runs the command with the arguments after `ptx`. The error is for people.
pub(crate) fn run(root: &Path, arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let parsed = parse(arguments).map_err(|error| error.to_string())?;
    let mut out = io::stdout().lock();
    let done = match parsed {
        (Task::Build(only), rustc) => build(root, rustc, &only, &mut out),
        (Task::Check, rustc) => check(root, rustc, &mut out),
        (Task::Assemble { ptxas }, _) => assemble::all(root, &ptxas, &mut out),
    };
    done.map_err(|error| error.to_string())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<(Task, Option<PathBuf>), Error> {
    let (mut task, mut rustc) = (Task::Build(Vec::new()), None);
    while let Some(argument) = arguments.next() {
        let mut value =
            || arguments.next().map(PathBuf::from).ok_or(Error::Usage(format!("{argument} needs a path")));
        match argument.as_str() {
            "--check" => task = Task::Check,
            "--assemble" => task = Task::Assemble { ptxas: value()? },
            "--rustc" => rustc = Some(value()?),
            family if !family.starts_with('-') => match &mut task {
                Task::Build(only) => only.push(family.to_owned()),
                _ => return Err(Error::Usage(format!("{family}: checks are of all families"))),
            },
            _ => return Err(Error::Usage(format!("unknown argument {argument}"))),
        }
    }
    Ok((task, rustc))
}

fn build(root: &Path, rustc: Option<PathBuf>, only: &[String], out: &mut dyn Write) -> Result<(), Error> {
    let toolchain = Toolchain::find(rustc, None)?;
    let outputs = build::all(root, &toolchain, only)?;
    let folder = root.join(PTX);
    std::fs::create_dir_all(&folder).map_err(io_error(folder.display()))?;
    for stale in manifest::files(root, PTX)? {
        let kept = !only.is_empty() || outputs.iter().any(|output| stale == format!("{PTX}/{}", output.name));
        if !kept && stale.ends_with(".ptx") {
            std::fs::remove_file(root.join(&stale)).map_err(io_error(&stale))?;
        }
    }
    for Output { name, text } in &outputs {
        std::fs::write(folder.join(name), text).map_err(io_error(name))?;
        say(out, format_args!("{PTX}/{name}: {} lines", text.lines().count()))?;
    }
    let manifest = Manifest::of(root, toolchain.version)?;
    std::fs::write(folder.join(manifest::NAME), manifest.to_string()).map_err(io_error(manifest::NAME))
}

/// Fails when sources or PTX are not those of the manifest; builds again where the same compiler is there.
fn check(root: &Path, rustc: Option<PathBuf>, out: &mut dyn Write) -> Result<(), Error> {
    let path = root.join(PTX).join(manifest::NAME);
    let text = std::fs::read_to_string(&path).map_err(io_error(path.display()))?;
    let version = manifest::version(&text).unwrap_or_default().to_owned();
    let now = Manifest::of(root, version.clone())?;
    let differences = now.differences(&text);
    if !differences.is_empty() {
        let list = differences.join("\n  ");
        return Err(Error::Failed(format!(
            "ptx: not what the manifest says; run `cargo xtask ptx`:\n  {list}"
        )));
    }
    say(out, format_args!("ptx: sources and PTX are those of the manifest"))?;
    let toolchain = match Toolchain::find(rustc, Some(&version)) {
        Ok(toolchain) => toolchain,
        Err(why) => return say(out, format_args!("ptx: not built again: {why}")),
    };
    for Output { name, text } in build::all(root, &toolchain, &[])? {
        let committed = std::fs::read_to_string(root.join(PTX).join(&name)).map_err(io_error(&name))?;
        if committed != text {
            return Err(Error::Failed(format!("ptx: {name} comes out differently; run `cargo xtask ptx`")));
        }
    }
    say(out, format_args!("ptx: the same again with {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(Task, Option<PathBuf>), String> {
        parse(line.split_whitespace().map(str::to_owned)).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments() {
        assert_eq!(parsed(""), Ok((Task::Build(Vec::new()), None)));
        assert_eq!(parsed("norm a"), Ok((Task::Build(vec!["norm".into(), "a".into()]), None)));
        assert!(parsed("--check norm").is_err());
        assert_eq!(parsed("--check --rustc /r"), Ok((Task::Check, Some("/r".into()))));
        assert_eq!(parsed("--assemble /p"), Ok((Task::Assemble { ptxas: "/p".into() }, None)));
        assert_eq!(parsed("--assemble"), Err("--assemble needs a path".into()));
        assert!(parsed("--chekc").is_err());
    }

    /// Also the check that every `cargo test` makes.
    #[test]
    fn the_committed_ptx_belongs_to_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = std::fs::read_to_string(root.join(PTX).join(manifest::NAME)).unwrap();
        let now = Manifest::of(root, manifest::version(&text).unwrap().to_owned()).unwrap();
        assert_eq!(now.differences(&text), Vec::<String>::new());
    }
}
