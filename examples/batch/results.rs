//! The output: a line for every answer, written as a whole, so that an interrupted batch can go on.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bloomery_examples::{Failure, Status};
use serde_json::Value;

/// The file of results.
pub(crate) struct Results {
    path: PathBuf,
    file: File,
    done: HashSet<String>,
}

impl Results {
    /// Opens or creates the file. What follows the last line break was cut off in the middle and is removed.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::new(Status::Io, format!("{}: {error}", path.display()));
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let mut done = HashSet::new();
        for (number, line) in (1..).zip(text[..whole].split_inclusive(|&byte| byte == b'\n')) {
            let record: Option<Value> = serde_json::from_slice(line).ok();
            let Some(id) = record.as_ref().and_then(|record| record["id"].as_str()) else {
                let message = format!("{}, line {number}: not a result; another file?", path.display());
                return Err(Failure::new(Status::Data, message));
            };
            done.insert(id.to_owned());
        }
        file.set_len(whole as u64).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, done })
    }

    /// Whether an earlier run has answered this.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.done.contains(id)
    }

    /// Appends a line.
    pub(crate) fn write(&mut self, record: &Value) -> Result<(), Failure> {
        let written = self.file.write_all(format!("{record}\n").as_bytes());
        written.map_err(|error| Failure::new(Status::Io, format!("{}: {error}", self.path.display())))
    }
}
