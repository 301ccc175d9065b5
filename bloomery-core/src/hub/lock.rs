//! One download of a file at a time, among all processes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::HubError;

const POLL: Duration = Duration::from_millis(50);

/// Holds the lock until it is dropped. huggingface_hub locks the same file in the same way.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock. `waiting` is called once if someone else has it, `cancelled` again and again.
    pub(super) fn take(
        path: &Path,
        waiting: impl FnOnce(),
        cancelled: impl Fn() -> bool,
    ) -> Result<Self, HubError> {
        let mut waiting = Some(waiting);
        loop {
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
            let file = file.map_err(HubError::io("opening", path))?;
            match file.try_lock() {
                // Whoever had it may have removed it, and the next one locks another file of this name.
                Ok(()) if is_at(&file, path) => return Ok(Self { _file: file }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    if let Some(waiting) = waiting.take() {
                        waiting();
                    }
                    if cancelled() {
                        return Err(HubError::Cancelled);
                    }
                    sleep(POLL);
                }
                Err(TryLockError::Error(error)) => return Err(HubError::io("locking", path)(error)),
            }
        }
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::io;
    use std::os::unix::fs::MetadataExt;
    let place = |facts: io::Result<fs::Metadata>| facts.ok().map(|facts| (facts.dev(), facts.ino()));
    place(file.metadata()).is_some_and(|place_of_file| place(fs::metadata(path)) == Some(place_of_file))
}

/// A file that is open cannot be removed.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    fs::exists(path).unwrap_or(true)
}
