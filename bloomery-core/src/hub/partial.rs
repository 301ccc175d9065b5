//! A file that is not all there yet, and a record of what is.
//!
//! The data file has its full length from the start and is filled in parts, several at a time. The record says how far
//! each part is; it may be a second behind, never ahead of what was written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::HubError;
use super::client::Tag;
use super::space;

/// How often the record is written.
const SAVE: Duration = Duration::from_secs(1);

/// What is there of a file.
#[derive(Debug)]
pub(super) struct Partial {
    data: PathBuf,
    record: PathBuf,
    bytes: u64,
    part: u64,
    done: Vec<AtomicU64>,
    tag: Mutex<Option<Tag>>,
    saved: Mutex<Instant>,
    /// Something was there before.
    pub(super) resumed: bool,
}

impl Partial {
    /// What is there of the content that will be `blob`, or a new file. `part` bytes are asked for at a time.
    pub(super) fn open(blob: &Path, bytes: u64, part: u64, anew: bool) -> Result<Self, HubError> {
        // Not huggingface_hub's own name: older ones take a file's length for what is there of it.
        let named = |end: &str| {
            let mut name = blob.file_name().unwrap_or_default().to_owned();
            name.push(end);
            blob.with_file_name(name)
        };
        let (data, record) = (named(".bloomery.incomplete"), named(".bloomery.record.incomplete"));
        if !anew && let Some((part, done, tag)) = read(&record, &data, bytes) {
            let resumed = done.iter().any(|done| *done > 0);
            return Ok(Self::with(data, record, bytes, part, done, tag, resumed));
        }
        let count = usize::try_from(bytes.div_ceil(part)).unwrap_or(usize::MAX);
        let partial = Self::with(data, record, bytes, part, vec![0; count], None, false);
        partial.discard()?;
        let made = File::create(&partial.data).and_then(|file| file.set_len(bytes));
        made.map_err(|error| space::writing(&partial.data, bytes, error))?;
        partial.save()?;
        Ok(partial)
    }

    fn with(
        data: PathBuf,
        record: PathBuf,
        bytes: u64,
        part: u64,
        done: Vec<u64>,
        tag: Option<Tag>,
        resumed: bool,
    ) -> Self {
        let done = done.into_iter().map(AtomicU64::new).collect();
        Self {
            data,
            record,
            bytes,
            part,
            done,
            tag: Mutex::new(tag),
            saved: Mutex::new(Instant::now()),
            resumed,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn parts(&self) -> usize {
        self.done.len()
    }

    /// First byte of a part, and how many it has.
    pub(super) fn part(&self, index: usize) -> (u64, u64) {
        let start = index as u64 * self.part;
        (start, self.part.min(self.bytes - start))
    }

    /// Bytes of a part that are there.
    pub(super) fn done(&self, index: usize) -> u64 {
        // Whoever sees the number may read the bytes.
        self.done[index].load(Ordering::Acquire)
    }

    /// Bytes that are there.
    pub(super) fn present(&self) -> u64 {
        (0..self.parts()).map(|index| self.done(index)).sum()
    }

    /// Bytes that are not there.
    pub(super) fn missing(&self) -> u64 {
        self.bytes - self.present()
    }

    /// Parts that are not all there.
    pub(super) fn unfinished(&self) -> Vec<usize> {
        (0..self.parts()).filter(|index| self.done(*index) < self.part(*index).1).collect()
    }

    /// Notes that a part has `done` bytes.
    pub(super) fn set_done(&self, index: usize, done: u64) -> Result<(), HubError> {
        self.done[index].store(done, Ordering::Release);
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if saved.elapsed() < SAVE {
            return Ok(());
        }
        *saved = Instant::now();
        self.save()
    }

    /// Forgets all that is there.
    pub(super) fn reset(&self) {
        self.done.iter().for_each(|done| done.store(0, Ordering::Release));
    }

    /// Whether an answer is about the content that the others were about. The first one decides.
    pub(super) fn agrees(&self, tag: Option<&Tag>) -> bool {
        let mut known = self.tag.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, tag) {
            (Some(known), Some(tag)) => known == tag,
            (None, Some(tag)) => {
                *known = Some(tag.clone());
                true
            }
            (_, None) => true,
        }
    }

    /// The tag to send with a request for a part of the same content, where the server that answers knows it.
    pub(super) fn validator(&self) -> Option<String> {
        let tag = self.tag.lock().unwrap_or_else(PoisonError::into_inner);
        tag.as_ref().filter(|tag| !tag.linked && tag.value.starts_with('"')).map(|tag| tag.value.clone())
    }

    pub(super) fn writer(&self) -> Result<File, HubError> {
        OpenOptions::new().write(true).open(&self.data).map_err(HubError::io("opening", &self.data))
    }

    pub(super) fn reader(&self) -> Result<File, HubError> {
        File::open(&self.data).map_err(HubError::io("opening", &self.data))
    }

    pub(super) fn cannot_write(&self, error: io::Error) -> HubError {
        space::writing(&self.data, self.missing(), error)
    }

    pub(super) fn cannot_read(&self, error: io::Error) -> HubError {
        HubError::io("reading", &self.data)(error)
    }

    /// Writes the record.
    pub(super) fn save(&self) -> Result<(), HubError> {
        let done: Vec<u64> = (0..self.parts()).map(|index| self.done(index)).collect();
        let tag = self.tag.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tag = tag.map(|tag| json!({ "value": tag.value, "linked": tag.linked }));
        let record = json!({ "bytes": self.bytes, "part": self.part, "tag": tag, "done": done }).to_string();
        let temporary = self.record.with_extension("new.incomplete");
        let written = fs::write(&temporary, &record).and_then(|()| fs::rename(&temporary, &self.record));
        written.or_else(|error| {
            // A full disk has no room for a second record, and the first one is worth having. An error of removing what
            // may not be there is none.
            let _ = fs::remove_file(&temporary);
            fs::write(&self.record, &record).map_err(|_| self.cannot_write(error))
        })
    }

    /// Makes it the blob.
    pub(super) fn finish(&self, blob: &Path) -> Result<(), HubError> {
        let synced = self.writer()?.sync_all();
        synced.and_then(|()| fs::rename(&self.data, blob)).map_err(|error| self.cannot_write(error))?;
        remove(&self.record)
    }

    /// Throws everything away.
    pub(super) fn discard(&self) -> Result<(), HubError> {
        remove(&self.data)?;
        remove(&self.record)
    }
}

fn remove(path: &Path) -> Result<(), HubError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(HubError::io("removing", path)(error)),
        _ => Ok(()),
    }
}

/// A record that fits the data file and the length. One that does not is not worth an error: the download starts over.
fn read(record: &Path, data: &Path, bytes: u64) -> Option<(u64, Vec<u64>, Option<Tag>)> {
    let record: Value = serde_json::from_slice(&fs::read(record).ok()?).ok()?;
    let part = record["part"].as_u64().filter(|part| *part > 0)?;
    let done: Vec<u64> = record["done"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    let fits = done.iter().enumerate().all(|(index, done)| {
        (index as u64)
            .checked_mul(part)
            .and_then(|start| bytes.checked_sub(start))
            .is_some_and(|left| *done <= left.min(part))
    });
    let whole = record["bytes"].as_u64()? == bytes && done.len() as u64 == bytes.div_ceil(part);
    let tag = record["tag"]["value"].as_str().map(|value| Tag {
        value: value.to_owned(),
        linked: record["tag"]["linked"].as_bool().unwrap_or(false),
    });
    (fits && whole && fs::metadata(data).ok()?.len() == bytes).then_some((part, done, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("bloomery-partial-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_is_there_is_found_again() {
        let folder = folder("resume");
        let blob = folder.join("abc");
        let first = Partial::open(&blob, 10, 4, false).unwrap();
        assert_eq!((first.parts(), first.part(2), first.missing(), first.resumed), (3, (8, 2), 10, false));
        assert!(first.agrees(Some(&Tag { value: "\"x\"".into(), linked: false })));
        first.set_done(0, 4).unwrap();
        first.set_done(2, 1).unwrap();
        first.save().unwrap();
        let again = Partial::open(&blob, 10, 100, false).unwrap();
        assert_eq!((again.parts(), again.missing(), again.resumed), (3, 5, true), "with the parts it had");
        assert_eq!(again.unfinished(), [1, 2]);
        assert!(!again.agrees(Some(&Tag { value: "\"y\"".into(), linked: false })));
        assert_eq!(again.validator().as_deref(), Some("\"x\""));
        again.finish(&blob).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "only the blob is left");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_record_that_does_not_fit_is_not_used() {
        let folder = folder("broken");
        let blob = folder.join("abc");
        let open = |bytes| Partial::open(&blob, bytes, 4, false).unwrap();
        open(10).save().unwrap();
        let record = open(10).record.clone();
        for text in [
            "",
            "{}",
            "[]",
            r#"{"bytes": 10, "part": 0, "done": []}"#,
            r#"{"bytes": 10, "part": 4, "done": [4, 4]}"#,
            r#"{"bytes": 10, "part": 4, "done": [4, 5, 2]}"#,
            r#"{"bytes": 10, "part": 4, "done": [4, 4, 3]}"#,
            r#"{"bytes": 9, "part": 4, "done": [4, 4, 1]}"#,
            r#"{"bytes": 10, "part": 18446744073709551615, "done": [11]}"#,
        ] {
            fs::write(&record, text).unwrap();
            assert!(!open(10).resumed, "{text}");
        }
        fs::write(&record, r#"{"bytes": 10, "part": 4, "done": [4, 4, 2]}"#).unwrap();
        assert!(open(10).resumed);
        File::create(open(10).data.clone()).unwrap().set_len(9).unwrap();
        assert!(!open(10).resumed, "the data is shorter");
        fs::remove_dir_all(&folder).unwrap();
    }
}
