//! Hashes of the sources and of the PTX that was made from them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::{PTX, SOURCES};
use crate::digest::sha256;
use crate::error::{Error, io_error};

pub(super) const NAME: &str = "manifest.txt";

/// The compiler, and a hash for every file.
#[derive(Debug)]
pub(super) struct Manifest {
    version: String,
    hashes: BTreeMap<String, String>,
}

impl Manifest {
    /// Of the files as they are.
    pub(super) fn of(root: &Path, version: String) -> Result<Self, Error> {
        let mut hashes = BTreeMap::new();
        for place in SOURCES.iter().chain([&PTX]) {
            for path in files(root, place)? {
                if path.ends_with(NAME) {
                    continue;
                }
                let bytes = std::fs::read(root.join(&path)).map_err(io_error(&path))?;
                hashes.insert(path, sha256(&bytes));
            }
        }
        Ok(Self { version, hashes })
    }

    /// What differs from a written manifest, in words.
    pub(super) fn differences(&self, text: &str) -> Vec<String> {
        let mut old: BTreeMap<&str, &str> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once("  "))
            .map(|(hash, path)| (path, hash))
            .collect();
        let mut differences = Vec::new();
        for (path, hash) in &self.hashes {
            match old.remove(path.as_str()) {
                None => differences.push(format!("{path} is new")),
                Some(old) if old != hash => differences.push(format!("{path} has changed")),
                Some(_) => {}
            }
        }
        differences.extend(old.into_keys().map(|path| format!("{path} is gone")));
        differences
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.version)?;
        self.hashes.iter().try_for_each(|(path, hash)| writeln!(f, "{hash}  {path}"))
    }
}

/// The compiler in a written manifest.
pub(super) fn version(text: &str) -> Option<&str> {
    text.lines().next()
}

/// The files at or below `place`, relative to the root, sorted.
pub(super) fn files(root: &Path, place: &str) -> Result<Vec<String>, Error> {
    let full = root.join(place);
    if !full.is_dir() {
        return Ok(if full.exists() { vec![place.to_owned()] } else { Vec::new() });
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&full).map_err(io_error(place))? {
        let name = entry.map_err(io_error(place))?.file_name().to_string_lossy().into_owned();
        found.extend(files(root, &format!("{place}/{name}"))?);
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let manifest = |pairs: &[(&str, &str)]| Manifest {
            version: "rustc 1".into(),
            hashes: pairs.iter().map(|(path, hash)| ((*path).into(), (*hash).into())).collect(),
        };
        let written = manifest(&[("a", "1"), ("b", "2"), ("c", "3")]).to_string();
        assert_eq!(version(&written), Some("rustc 1"));
        assert!(manifest(&[("a", "1"), ("b", "2"), ("c", "3")]).differences(&written).is_empty());
        let now = manifest(&[("a", "1"), ("b", "5"), ("d", "3")]);
        assert_eq!(now.differences(&written), ["b has changed", "d is new", "c is gone"]);
    }
}
