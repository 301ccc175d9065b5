//! What is in the archive besides the programs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::archive::Entry;
use super::binaries::Program;
use super::output;
use crate::error::{Error, io_error};

/// Files of the tree, and their places in the archive.
const FILES: &[(&str, &str)] = &[
    ("README.md", "README.md"),
    ("LICENSE", "LICENSE"),
    // The licence of the built-in model's weights asks for it.
    ("bloomery-core/demo/NOTICE.md", "NOTICE.md"),
    ("packaging/systemd/bloomery-serve.service", "share/systemd/bloomery-serve.service"),
];
const COMPLETION: &str = "share/bash-completion/completions/bloomery-serve";

/// The licences of all dependencies, by cargo-about.
pub(super) fn notices(root: &Path) -> Result<Vec<u8>, Error> {
    let cargo = || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(root).arg("about");
        cargo
    };
    let there = cargo().arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        let text = "third-party notices need cargo-about: `cargo install --locked --features cli cargo-about`, \
                    or --without-notices for an archive that is not published";
        return Err(Error::Failed(text.to_owned()));
    }
    output(cargo().args(["generate", "--workspace", "--locked", "--fail", "about.hbs"]))
}

/// All files, by their places below the archive's folder.
pub(super) fn all(
    root: &Path,
    programs: Vec<Program>,
    notices: Option<Vec<u8>>,
) -> Result<BTreeMap<String, Entry>, Error> {
    let mut entries = BTreeMap::new();
    let mut put = |path: String, bytes, executable| entries.insert(path, Entry { bytes, executable });
    for (from, to) in FILES {
        put((*to).to_owned(), read(&root.join(from))?, false);
    }
    for (path, bytes) in documents(root)? {
        put(path, bytes, false);
    }
    if let Some(bytes) = notices {
        put("THIRD-PARTY.md".to_owned(), bytes, false);
    }
    for program in programs {
        if program.name == "bloomery-serve" {
            let script = output(Command::new(&program.path).arg("--completion-bash"))?;
            put(COMPLETION.to_owned(), script, false);
        }
        put(format!("bin/{}", program.name), program.bytes, true);
    }
    Ok(entries)
}

/// The Markdown of `docs`, so that the README's links lead somewhere.
fn documents(root: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let folder = root.join("docs");
    let mut documents = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(io_error(folder.display()))? {
        let entry = entry.map_err(io_error(folder.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            documents.push((format!("docs/{name}"), read(&entry.path())?));
        }
    }
    Ok(documents)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(io_error(path.display()))
}
