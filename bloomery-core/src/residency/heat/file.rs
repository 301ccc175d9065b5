//! The file: little-endian words, and a checksum of them.
//!
//! ```text
//! "BLMHEAT\0"  version u32  layers u32  model u64  experts u32 per layer  counts u32 per expert  checksum u64
//! ```

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::{Heat, HeatError};

const MAGIC: &[u8; 8] = b"BLMHEAT\0";
const VERSION: u32 = 1;
const HEADER: usize = 24;
/// More than any model has: 16 million experts. Nobody's film is read into memory to find that it is no heat.
const LONGEST: u64 = 64 << 20;

impl Heat {
    /// Replaces the file as a whole: who reads it, now or after a crash, finds the old counts or the new ones.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn write(&self, path: &Path, model: u64) -> Result<(), HeatError> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.new", std::process::id()));
        let fresh = path.with_file_name(name);
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(&self.to_bytes(model))?;
            file.sync_all()
        };
        write()
            .map_err(io_error(&fresh))
            .and_then(|()| fs::rename(&fresh, path).map_err(io_error(path)))
            .inspect_err(|_| {
                // The first error is the one to report.
                let _ = fs::remove_file(&fresh);
            })
    }

    /// Reads what [`write`](Self::write) wrote for the same model. `experts` are those of its routed layers.
    ///
    /// # Errors
    /// What the system refuses, and everything about the file that is not as it should be.
    pub(crate) fn read(path: &Path, model: u64, experts: &[usize]) -> Result<Self, HeatError> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(io_error(path))?;
        file.take(LONGEST).read_to_end(&mut bytes).map_err(io_error(path))?;
        Self::from_bytes(&bytes, path, model, experts)
    }

    fn to_bytes(&self, model: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.layers.len() as u32).to_le_bytes());
        bytes.extend(model.to_le_bytes());
        let experts = self.layers.iter().map(|layer| layer.len() as u32);
        bytes.extend(experts.chain(self.layers.iter().flatten().copied()).flat_map(u32::to_le_bytes));
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8], path: &Path, model: u64, experts: &[usize]) -> Result<Self, HeatError> {
        let path = || path.to_path_buf();
        if !bytes.starts_with(MAGIC) {
            return Err(HeatError::NotHeat { path: path() });
        }
        let length = |expected: usize| HeatError::Length {
            path: path(),
            found: bytes.len() as u64,
            expected: expected as u64,
        };
        let expected = HEADER + 4 * (experts.len() + experts.iter().sum::<usize>()) + 8;
        let version = word(bytes, 8).ok_or_else(|| length(expected))?;
        if version != VERSION {
            return Err(HeatError::Version { path: path(), found: version, supported: VERSION });
        }
        let (content, stored) = bytes.split_last_chunk::<8>().ok_or_else(|| length(expected))?;
        let (low, high) = word(content, 16).zip(word(content, 20)).ok_or_else(|| length(expected))?;
        let found = u64::from(high) << 32 | u64::from(low);
        if found != model {
            return Err(HeatError::OtherModel { path: path(), found, expected: model });
        }
        if bytes.len() != expected {
            return Err(length(expected));
        }
        let (found, expected) = (checksum(content), u64::from_le_bytes(*stored));
        if found != expected {
            return Err(HeatError::Checksum { path: path(), found, expected });
        }
        let mut words = content[HEADER..].as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        for (layer, expected) in experts.iter().enumerate() {
            let found = words.next().unwrap_or(0);
            if found as usize != *expected {
                let (found, expected) = (u64::from(found), *expected as u64);
                return Err(HeatError::Experts { path: path(), layer, found, expected });
            }
        }
        Ok(Self { layers: experts.iter().map(|experts| words.by_ref().take(*experts).collect()).collect() })
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> HeatError {
    let path: PathBuf = path.to_path_buf();
    move |source| HeatError::Io { path, source }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
