//! The folders that Hugging Face's programs share: `models--user--repo/{blobs,refs,snapshots}`.
//!
//! A blob is a file under the name of its hash. A snapshot is a commit's folder of links to blobs, a ref a file with the
//! commit that a branch or tag had when it was last asked for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::name::{is_hash, is_safe_path};
use super::{HubError, Listing, RepoFile, Role};
use crate::units::Bytes;

/// How deep folders of a snapshot may be.
const DEPTH: usize = 8;

/// The folder of one repository.
#[derive(Debug, Clone)]
pub(super) struct RepoCache {
    root: PathBuf,
    repo: String,
    folder: String,
}

impl RepoCache {
    pub(super) fn new(root: &Path, repo: &str) -> Self {
        let folder = format!("models--{}", repo.replace('/', "--"));
        Self { root: root.to_owned(), repo: repo.to_owned(), folder }
    }

    /// The repository of a folder with this name.
    pub(super) fn repo_of(folder: &str) -> Option<String> {
        let (user, name) = folder.strip_prefix("models--")?.split_once("--")?;
        Some(format!("{user}/{name}"))
    }

    fn path(&self) -> PathBuf {
        self.root.join(&self.folder)
    }

    /// Where the content with this hash is.
    pub(super) fn blob(&self, hash: &str) -> PathBuf {
        self.path().join("blobs").join(hash)
    }

    /// Where huggingface_hub has its lock for that content, too.
    pub(super) fn lock(&self, hash: &str) -> PathBuf {
        self.root.join(".locks").join(&self.folder).join(format!("{hash}.lock"))
    }

    /// Where a file of a commit is.
    pub(super) fn snapshot(&self, commit: &str, name: &str) -> PathBuf {
        self.path().join("snapshots").join(commit).join(name)
    }

    /// Makes the folders that a download writes to.
    pub(super) fn prepare(&self) -> Result<(), HubError> {
        for folder in [self.path().join("blobs"), self.root.join(".locks").join(&self.folder)] {
            fs::create_dir_all(&folder).map_err(HubError::io("making the folder", &folder))?;
        }
        Ok(())
    }

    /// Puts the content with this hash under its name.
    pub(super) fn link(&self, commit: &str, file: &RepoFile) -> Result<PathBuf, HubError> {
        let place = self.snapshot(commit, &file.name);
        // From the file's folder up to the repository's: `snapshots`, the commit, and the folders of the name.
        let ups = "../".repeat(2 + file.name.matches('/').count());
        let target = PathBuf::from(format!("{ups}blobs/{}", file.hash));
        if fs::read_link(&place).is_ok_and(|found| found == target) {
            return Ok(place);
        }
        let folder = place.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(HubError::io("making the folder", folder))?;
        // Under another name first, so that no one ever finds nothing in a link's place.
        let temporary = folder.join(format!(".{}.{}.link", file.hash, std::process::id()));
        let made = match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => symlink(&target, &self.blob(&file.hash), &temporary),
        };
        made.and_then(|()| fs::rename(&temporary, &place)).map_err(HubError::io("linking", &place))?;
        Ok(place)
    }

    /// Notes the commit that a branch or tag has.
    pub(super) fn set_ref(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        if revision == commit || self.commit(revision).is_some_and(|known| known == commit) {
            return Ok(());
        }
        let place = self.path().join("refs").join(revision);
        let folder = place.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(HubError::io("making the folder", folder))?;
        let temporary = folder.join(format!(".{}.ref", std::process::id()));
        let written = fs::write(&temporary, commit).and_then(|()| fs::rename(&temporary, &place));
        written.map_err(HubError::io("writing", &place))
    }

    /// The commit that a branch or tag had; a commit is itself.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        if is_hash(revision, &[40, 64]) {
            return Some(revision.to_owned());
        }
        let text = fs::read_to_string(self.path().join("refs").join(revision)).ok()?;
        Some(text.trim().to_owned()).filter(|commit| is_hash(commit, &[40, 64]))
    }

    /// What is there of a revision.
    pub(super) fn listing(&self, revision: &str) -> Result<Listing, HubError> {
        let missing = || HubError::NotCached {
            what: match revision {
                "main" => self.repo.clone(),
                _ => format!("{}@{revision}", self.repo),
            },
            cache: self.root.clone(),
        };
        let commit = self.commit(revision).ok_or_else(missing)?;
        let folder = self.path().join("snapshots").join(&commit);
        let mut files = Vec::new();
        walk(&folder, "", DEPTH, &mut files).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(),
            _ => HubError::io("reading", &folder)(error),
        })?;
        if files.is_empty() {
            return Err(missing());
        }
        Ok(Listing::new((&self.repo, revision), &commit, files, true))
    }

    /// Revisions that are noted.
    pub(super) fn revisions(&self) -> Vec<String> {
        let names = fs::read_dir(self.path().join("refs")).into_iter().flatten().flatten();
        names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.'))
            .collect()
    }
}

/// Files below a snapshot's folder. A link whose blob is gone is no file.
fn walk(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<RepoFile>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(|name| format!("{prefix}{name}")) else { continue };
        if !is_safe_path(&name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            if depth > 0 {
                walk(&entry.path(), &format!("{name}/"), depth - 1, files)?;
            }
            continue;
        }
        let Ok(facts) = fs::metadata(entry.path()) else { continue };
        let target = fs::read_link(entry.path()).ok();
        let hash =
            target.as_deref().and_then(|path| path.file_name()?.to_str()).unwrap_or_default().to_owned();
        if facts.is_file() {
            files.push(RepoFile { role: Role::of(&name), bytes: Bytes(facts.len()), hash, name });
        }
    }
    Ok(())
}

#[cfg(unix)]
fn symlink(target: &Path, _blob: &Path, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

/// Links by name need a privilege on Windows; a second name of the same file does not.
#[cfg(not(unix))]
fn symlink(_target: &Path, blob: &Path, place: &Path) -> io::Result<()> {
    fs::hard_link(blob, place)
}
