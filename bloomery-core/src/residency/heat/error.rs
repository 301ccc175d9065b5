//! A file of counts that cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a file of expert counts cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeatError {
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file, or the one written in its place before it gets its name.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is something else.
    #[error("{}: not a file of expert counts", path.display())]
    NotHeat {
        /// The file.
        path: PathBuf,
    },
    /// Written by another version of this library.
    #[error("{}: version {found} of the format of expert counts, this program reads version {supported}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The one that can be read.
        supported: u32,
    },
    /// Written for another model.
    #[error("{}: the expert counts are of model {found:016x}, this one is {expected:016x}", path.display())]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// Fingerprint of the model they are of.
        found: u64,
        /// Fingerprint of the model they were wanted for.
        expected: u64,
    },
    /// Cut off, or longer than what it says it has.
    #[error("{}: {found} bytes of expert counts where {expected} belong", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Its bytes, or as many as were looked at.
        found: u64,
        /// What the model's layers and experts take.
        expected: u64,
    },
    /// Bytes were changed.
    #[error("{}: damaged expert counts: the checksum is {found:016x}, it should be {expected:016x}", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// That of the bytes.
        found: u64,
        /// The one stored with them.
        expected: u64,
    },
    /// The layers or experts are others, in spite of the fingerprint.
    #[error("{}: counts of {found} experts in routed layer {layer}, the model has {expected}", path.display())]
    Experts {
        /// The file.
        path: PathBuf,
        /// The routed layer.
        layer: usize,
        /// Its experts in the file.
        found: u64,
        /// Its experts in the model.
        expected: u64,
    },
}
