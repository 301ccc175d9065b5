//! What the cache has.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::cache::RepoCache;
use super::{Hub, HubError};
use crate::units::Bytes;

/// A model that can be loaded offline.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedModel {
    /// What `hf:` takes: `user/repo:QUANT`, or `user/repo/FILE.gguf` where the name tells no quantisation.
    pub name: String,
    /// Its file; of a split model, the first part.
    pub path: PathBuf,
    /// Bytes of all parts.
    pub bytes: Bytes,
}

impl Hub {
    /// The models in the cache whose files are all there, by name.
    ///
    /// # Errors
    /// The folder cannot be read. One that does not exist has no models.
    pub fn cached(&self) -> Result<Vec<CachedModel>, HubError> {
        let entries = match fs::read_dir(&self.cache) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(HubError::io("reading", &self.cache)(error)),
        };
        let mut models = Vec::new();
        for entry in entries {
            let entry = entry.map_err(HubError::io("reading", &self.cache))?;
            let name = entry.file_name();
            let Some(repo) = name.to_str().and_then(RepoCache::repo_of) else { continue };
            let cache = RepoCache::new(&self.cache, &repo);
            for revision in cache.revisions() {
                // A revision that was only noted has no files.
                let Ok(listing) = cache.listing(&revision) else { continue };
                for file in listing.first_parts() {
                    let Ok(parts) = listing.named(&file.name) else { continue };
                    let mut name = match file.quant() {
                        Some(quant) => format!("{repo}:{quant}"),
                        None => format!("{repo}/{}", file.name),
                    };
                    if revision != "main" {
                        name = format!("{name}@{revision}");
                    }
                    let bytes = parts.iter().map(|part| part.bytes).sum();
                    models.push(CachedModel {
                        name,
                        path: cache.snapshot(listing.commit(), &file.name),
                        bytes,
                    });
                }
            }
        }
        models.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(models)
    }
}
