//! The files of the project, as git sees them.

use std::io;
use std::path::Path;
use std::process::Command;

use super::lexer::{Line, lex};

/// One file of the tree.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// Of text files.
    pub(super) text: Option<String>,
    /// Of Rust files: code and comments apart.
    pub(super) rust: Vec<Line>,
}

/// All tracked files, and those that could be: ignored ones are left out.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) files: Vec<File>,
}

const TEXT: &[&str] =
    &["rs", "md", "toml", "lock", "sh", "py", "patch", "yml", "yaml", "jinja", "txt", "cfg"];

/// Files whose lines are other people's: pieces of text to tokenise, templates of models, credits.
fn is_data(path: &str) -> bool {
    path.contains("/tests/data/") && !path.ends_with("README.md")
}

impl Tree {
    /// Reads the tree below `root`.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for path in list(root)? {
            let full = root.join(&path);
            // A file that was deleted and not yet committed is still listed.
            let Ok(meta) = full.metadata() else { continue };
            let text = match is_text(&path) && !is_data(&path) {
                true => Some(String::from_utf8_lossy(&std::fs::read(&full)?).into_owned()),
                false => None,
            };
            files.push(File::new(path, meta.len(), text));
        }
        Ok(Self { files })
    }

    /// Made-up files.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| {
            File::new((*path).to_owned(), text.len() as u64, Some((*text).to_owned()))
        };
        Self { files: files.iter().map(file).collect() }
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    pub(super) fn text(&self) -> impl Iterator<Item = (&File, &str)> {
        self.files.iter().filter_map(|file| Some((file, file.text.as_deref()?)))
    }

    /// Documents, by path.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text()
            .filter(|(file, _)| file.path.ends_with(".md"))
            .map(|(file, text)| (file.path.as_str(), text))
    }

    /// Paths of all files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path.as_str())
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// For people: how much was looked at.
    pub(crate) fn summary(&self) -> String {
        let bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        let lines: usize = self.rust().map(|file| file.rust.len()).sum();
        format!("{} files of {:.1} MB, {lines} lines of Rust", self.files.len(), bytes as f64 / 1e6)
    }
}

impl File {
    fn new(path: String, bytes: u64, text: Option<String>) -> Self {
        let rust = match &text {
            Some(text) if path.ends_with(".rs") => lex(text),
            _ => Vec::new(),
        };
        Self { path, bytes, text, rust }
    }
}

fn is_text(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, extension)) => TEXT.contains(&extension) || stem.is_empty(),
        None => true,
    }
}

/// What git lists; without git or outside a checkout, what is there.
fn list(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = match listed(root) {
        Some(paths) => paths,
        None => {
            let mut paths = Vec::new();
            walk(root, "", &mut paths)?;
            paths
        }
    };
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn listed(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        // A checkout may belong to another user than the one who checks it.
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output
        .status
        .success()
        .then(|| text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Files below `root`, the folders that builds and fuzzers make aside.
fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let made = name.starts_with("target")
            || matches!(name.as_str(), ".git" | "__pycache__" | "corpus" | "artifacts");
        match entry.file_type()?.is_dir() {
            true if made => {}
            true => walk(root, &path, paths)?,
            false => paths.push(path),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_this_file_and_no_build_products() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.file("xtask/src/lint/tree.rs").is_some_and(|file| !file.rust.is_empty()));
        assert!(tree.files.iter().all(|file| !file.path.starts_with("target/")));
    }

    #[test]
    fn without_git_the_folders_are_walked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut paths = Vec::new();
        walk(root, "", &mut paths).unwrap();
        assert!(paths.contains(&"src/lint/tree.rs".to_owned()) && paths.contains(&"Cargo.toml".to_owned()));
    }

    #[test]
    fn text_and_data_are_told_apart() {
        for path in [".ci/run", "LICENSE", ".gitignore", "a/b.rs", "docs/models.md"] {
            assert!(is_text(path) && !is_data(path), "{path}");
        }
        assert!(!is_text("a/model.gguf") && !is_text("a/x.json.gz"));
        assert!(is_data("bloomery-core/tests/data/templates/a.jinja") && !is_data("x/tests/data/README.md"));
    }
}
