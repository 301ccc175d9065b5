//! One file, from the hub into the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cache::RepoCache;
use super::client::Client;
use super::event::{Event, Meter, Transfer as Moved, left};
use super::lock::Lock;
use super::partial::Partial;
use super::space;
use super::transfer::{Note, Outcome, Transfer};
use super::{Hub, HubError, Listing, RepoFile};
use crate::units::Bytes;

/// Files that are fetched one after the other.
#[derive(Debug)]
pub(super) struct Fetch<'a> {
    pub(super) hub: &'a Hub,
    pub(super) client: &'a Client,
    pub(super) cache: &'a RepoCache,
    pub(super) listing: &'a Listing,
    pub(super) files: &'a [&'a RepoFile],
}

impl Fetch<'_> {
    /// Fetches what is not there, and returns where the first file is.
    pub(super) fn run(&self) -> Result<Option<PathBuf>, HubError> {
        let mut first = None;
        for index in 0..self.files.len() {
            let path = self.one(index)?;
            first.get_or_insert(path);
        }
        // Not before: offline, the commit that a revision has is one whose files are there.
        self.cache.set_ref(&self.listing.revision, &self.listing.commit)?;
        Ok(first)
    }

    fn one(&self, index: usize) -> Result<PathBuf, HubError> {
        let file = self.files[index];
        let blob = self.cache.blob(&file.hash);
        if !is_there(&blob, file.bytes.0) {
            self.cache.prepare()?;
            let waiting = || self.hub.tell(&Event::Waiting { file: &file.name });
            let _lock = Lock::take(&self.cache.lock(&file.hash), waiting, || self.hub.cancelled())?;
            // Whoever had the lock may have fetched it.
            if !is_there(&blob, file.bytes.0) {
                self.download(index, &blob)?;
            }
        }
        self.cache.link(&self.listing.commit, file)
    }

    /// Starts over once, where what is there turns out to be something else.
    fn download(&self, index: usize, blob: &Path) -> Result<(), HubError> {
        let file = self.files[index];
        let (mut anew, mut whole, mut again) = (false, false, false);
        loop {
            let partial = Partial::open(blob, file.bytes.0, self.hub.part_bytes, anew)?;
            let missing = Bytes(partial.missing());
            if let Some(free) = space::free(blob.parent().unwrap_or(blob)).filter(|free| *free < missing) {
                return Err(HubError::DiskFull { path: blob.to_owned(), need: missing, free: Some(free) });
            }
            let outcome = self.transfer(index, &partial, whole);
            let error = match outcome {
                Ok(Outcome::Complete(hash)) if hash == file.hash => return partial.finish(blob),
                Ok(Outcome::Complete(found)) => {
                    partial.discard()?;
                    let error =
                        HubError::WrongHash { file: file.name.clone(), expected: file.hash.clone(), found };
                    if !partial.resumed {
                        return Err(error);
                    }
                    error
                }
                Ok(Outcome::NoParts) => {
                    (whole, anew) = (true, true);
                    continue;
                }
                Ok(Outcome::Changed(error)) => error,
                Ok(Outcome::Stopped) => {
                    partial.save()?;
                    return Err(HubError::Cancelled);
                }
                Err(error) => {
                    // The first error is the one to tell.
                    let _ = partial.save();
                    return Err(error);
                }
            };
            if again {
                return Err(error);
            }
            self.hub.tell(&Event::Retrying { why: &error, pause: Duration::ZERO });
            (again, anew) = (true, true);
        }
    }

    fn transfer(&self, index: usize, partial: &Partial, whole: bool) -> Result<Outcome, HubError> {
        let file = self.files[index];
        let transfer = Transfer {
            client: self.client,
            retries: self.hub.retries,
            connections: self.hub.connections,
            address: (&self.listing.repo, &self.listing.commit, &file.name),
            hash: &file.hash,
            partial,
            whole,
        };
        let before: Bytes = self.files[..index].iter().map(|file| file.bytes).sum();
        let total = self.files.iter().map(|file| file.bytes).sum::<Bytes>();
        let (mut meter, mut checking) = (Meter::default(), false);
        let mut moved = || {
            let done = before + Bytes(partial.present());
            let rate = meter.rate(Instant::now(), done.0);
            let left = left(total.saturating_sub(done).0, rate);
            let (number, files) = (index + 1, self.files.len());
            self.hub.tell(&Event::Transfer(Moved {
                file: &file.name,
                number,
                files,
                done,
                total,
                rate,
                left,
            }));
        };
        moved();
        let outcome = transfer.run(|note| {
            match note {
                Note::Retrying(why, pause) => self.hub.tell(&Event::Retrying { why: &why, pause }),
                Note::Tick if partial.missing() > 0 => moved(),
                Note::Tick if !checking => {
                    checking = true;
                    moved();
                    self.hub.tell(&Event::Checking { file: &file.name });
                }
                Note::Tick => {}
            }
            !self.hub.cancelled()
        });
        if matches!(outcome, Ok(Outcome::Complete(_))) {
            moved();
        }
        outcome
    }
}

fn is_there(blob: &Path, bytes: u64) -> bool {
    fs::metadata(blob).is_ok_and(|facts| facts.is_file() && facts.len() == bytes)
}
