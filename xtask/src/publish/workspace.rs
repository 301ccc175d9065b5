//! What `cargo metadata` says of the packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::{Error, io_error};

/// A package, of the workspace or of its lock file.
#[derive(Debug, Clone, Default)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) rust_version: Option<String>,
    pub(super) license: Option<String>,
    pub(super) description: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) documentation: Option<String>,
    pub(super) readme: Option<String>,
    pub(super) keywords: Vec<String>,
    pub(super) categories: Vec<String>,
    pub(super) folder: PathBuf,
    /// Whether it is of the workspace and goes to crates.io.
    pub(super) published: bool,
}

#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) packages: Vec<Package>,
}

impl Workspace {
    /// Of the workspace at `root`, with everything in its lock file.
    pub(super) fn read(root: &Path) -> Result<Self, Error> {
        let output = Command::new("cargo")
            .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
            .current_dir(root)
            .output()
            .map_err(io_error("cargo metadata"))?;
        if !output.status.success() {
            return Err(Error::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let value: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| Error::Failed(format!("cargo metadata: {error}")))?;
        Ok(Self::of(&value))
    }

    fn of(value: &Value) -> Self {
        let members: Vec<&str> = list(&value["workspace_members"]).collect();
        let packages = value["packages"].as_array().into_iter().flatten();
        let packages = packages.map(|package| Package::of(package, &members)).collect();
        Self { packages }
    }

    pub(super) fn published(&self) -> impl Iterator<Item = &Package> + Clone {
        self.packages.iter().filter(|package| package.published)
    }
}

impl Package {
    fn of(value: &Value, members: &[&str]) -> Self {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let texts = |key: &str| list(&value[key]).map(str::to_owned).collect();
        let member = value["id"].as_str().is_some_and(|id| members.contains(&id));
        let manifest = PathBuf::from(text("manifest_path").unwrap_or_default());
        Self {
            name: text("name").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            rust_version: text("rust_version"),
            license: text("license"),
            description: text("description"),
            repository: text("repository"),
            documentation: text("documentation"),
            readme: text("readme"),
            keywords: texts("keywords"),
            categories: texts("categories"),
            folder: manifest.parent().map(Path::to_owned).unwrap_or_default(),
            // `publish = false` is an empty list of registries, no word is null.
            published: member && value["publish"].is_null(),
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_published() {
        let value = serde_json::json!({
            "workspace_members": ["a", "b"],
            "packages": [
                {"id": "a", "name": "a", "version": "1.0.0", "publish": null, "manifest_path": "/x/a/Cargo.toml"},
                {"id": "b", "name": "b", "version": "1.0.0", "publish": []},
                {"id": "c", "name": "c", "version": "1.0.0", "publish": null, "rust_version": "1.70"},
            ],
        });
        let workspace = Workspace::of(&value);
        let names: Vec<&str> = workspace.published().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(workspace.packages[0].folder, Path::new("/x/a"));
        assert_eq!(workspace.packages[2].rust_version.as_deref(), Some("1.70"));
    }
}
