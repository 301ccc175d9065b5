//! Files of `packaging` that name a version or an archive.

use std::path::Path;

use crate::error::{Error, io_error};

const INSTALL: &str = "packaging/install.sh";
const FORMULA: &str = "packaging/homebrew/bloomery.rb";
/// What the formula of the tree has in place of an archive's digest: there is no archive yet.
const NO_DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Where a version stands: the file, the text before it, and the text after it.
const PLACES: &[(&str, &str, &str)] = &[
    (INSTALL, "\nversion=", "\n"),
    (FORMULA, "\n  version \"", "\"\n"),
    ("packaging/kubernetes/bloomery.yaml", "image: ghcr.io/bloomery/bloomery:", "\n"),
    ("packaging/compose/compose.yaml", "image: ghcr.io/bloomery/bloomery:", "\n"),
];

/// The places that name another version than this one, in words.
pub(super) fn stale(root: &Path, version: &str) -> Result<Vec<String>, Error> {
    let mut stale = Vec::new();
    for (file, before, after) in PLACES {
        let found = value(&read(root, file)?, before, after).unwrap_or_else(|| "no version".to_owned());
        if found != version {
            stale.push(format!("{file} has {found}"));
        }
    }
    Ok(stale)
}

fn value(text: &str, before: &str, after: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0.to_owned())
}

/// The files that are published beside the archive, by name: they find it.
pub(super) fn stamped(root: &Path, digest: &str) -> Result<[(&'static str, String); 2], Error> {
    let formula = read(root, FORMULA)?;
    if formula.matches(NO_DIGEST).count() != 1 {
        return Err(Error::Failed(format!("{FORMULA}: there is not one digest of zeros to replace")));
    }
    Ok([("install.sh", read(root, INSTALL)?), ("bloomery.rb", formula.replace(NO_DIGEST, digest))])
}

fn read(root: &Path, file: &str) -> Result<String, Error> {
    std::fs::read_to_string(root.join(file)).map_err(io_error(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn packaging_names_the_version_of_the_workspace() {
        assert_eq!(stale(root(), env!("CARGO_PKG_VERSION")).unwrap(), Vec::<String>::new());
        assert_eq!(stale(root(), "9.9.9").unwrap().len(), PLACES.len());
    }

    #[test]
    fn the_formula_gets_the_digest() {
        let digest = "ab".repeat(32);
        let [(_, script), (name, formula)] = stamped(root(), &digest).unwrap();
        assert!(script.starts_with("#!/bin/sh\n"));
        assert_eq!(name, "bloomery.rb");
        assert!(formula.contains(&format!("sha256 \"{digest}\"")));
        assert!(!formula.contains(NO_DIGEST));
    }
}
