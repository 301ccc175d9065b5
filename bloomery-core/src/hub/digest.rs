//! Hashing a file while it arrives.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::thread::sleep;
use std::time::Duration;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::HubError;
use super::partial::Partial;

const POLL: Duration = Duration::from_millis(10);
const BUFFER: usize = 1 << 20;

/// The two hashes that contents have in a repository.
enum Hasher {
    /// Of large files: of the content.
    Sha256(Sha256),
    /// Of others: git's, which is of a head and the content.
    Git(Sha1),
}

impl Hasher {
    fn new(expected: &str, bytes: u64) -> Self {
        match expected.len() {
            64 => Self::Sha256(Sha256::new()),
            _ => Self::Git(Sha1::new_with_prefix(format!("blob {bytes}\0"))),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Git(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Sha256(hasher) => hex(&hasher.finalize()),
            Self::Git(hasher) => hex(&hasher.finalize()),
        }
    }
}

/// Reads the parts in order, each as far as it is there, until all are. Nothing where it was stopped before.
pub(super) fn follow(
    partial: &Partial,
    expected: &str,
    stopped: impl Fn() -> bool,
) -> Result<Option<String>, HubError> {
    let mut hasher = Hasher::new(expected, partial.bytes());
    let mut file = partial.reader()?;
    let mut buffer = vec![0; BUFFER];
    for index in 0..partial.parts() {
        let (start, bytes) = partial.part(index);
        let mut read = 0;
        while read < bytes {
            if stopped() {
                return Ok(None);
            }
            let there = partial.done(index);
            if there <= read {
                sleep(POLL);
                continue;
            }
            read += take(&mut file, start + read, there - read, &mut buffer, |bytes| hasher.update(bytes))
                .map_err(|error| partial.cannot_read(error))?;
        }
    }
    Ok(Some(hasher.finish()))
}

/// Reads up to a buffer's length from a place.
fn take(
    file: &mut File,
    from: u64,
    bytes: u64,
    buffer: &mut [u8],
    mut hash: impl FnMut(&[u8]),
) -> std::io::Result<u64> {
    let count = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
    file.seek(SeekFrom::Start(from))?;
    file.read_exact(&mut buffer[..count])?;
    hash(&buffer[..count]);
    Ok(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_git_and_sha256sum() {
        let hash = |length, text: &[u8]| {
            let mut hasher = Hasher::new(&"0".repeat(length), text.len() as u64);
            hasher.update(text);
            hasher.finish()
        };
        // `printf 'hello\n' | git hash-object --stdin`, and `sha256sum`.
        assert_eq!(hash(40, b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(hash(64, b"hello\n"), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    }
}
