//! Room on a disk.

use std::io;
use std::path::Path;

use super::HubError;
use crate::units::Bytes;

/// Bytes that this user may still write to the disk of a folder, where the system tells.
#[cfg(unix)]
pub(super) fn free(folder: &Path) -> Option<Bytes> {
    let facts = rustix::fs::statvfs(folder).ok()?;
    Some(Bytes(facts.f_bavail.saturating_mul(facts.f_frsize)))
}

#[cfg(not(unix))]
pub(super) fn free(_folder: &Path) -> Option<Bytes> {
    None
}

/// What an error while writing means; `need` bytes were still to come.
pub(super) fn writing(path: &Path, need: u64, error: io::Error) -> HubError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            let free = path.parent().and_then(free);
            HubError::DiskFull { path: path.to_owned(), need: Bytes(need), free }
        }
        _ => HubError::io("writing", path)(error),
    }
}
