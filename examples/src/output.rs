//! Output files that are whole or not there.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::exit::{Failure, Status};

/// A file written under a temporary name beside its place and renamed by [`finish`](Self::finish). Dropped without
/// that, it leaves nothing behind, and a file that was there before stays as it was.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Output {
    /// Starts a file that will be `path`.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let mut name = OsString::from(".");
        name.push(
            path.file_name().ok_or_else(|| failure(path, &io::Error::from(io::ErrorKind::IsADirectory)))?,
        );
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary).map_err(|error| failure(path, &error))?;
        Ok(Self { path: path.to_owned(), temporary, file: Some(BufWriter::new(file)) })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|error| failure(&self.path, &error)),
            None => Ok(()),
        }
    }

    /// Appends values in little-endian order.
    pub fn write_f32s(&mut self, values: &[f32]) -> Result<(), Failure> {
        for chunk in values.chunks(1 << 12) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
            self.write(&bytes)?;
        }
        Ok(())
    }

    /// Puts the file in its place.
    pub fn finish(mut self) -> Result<(), Failure> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let written = file.into_inner().map_err(|error| error.into_error()).and_then(|file| file.sync_all());
        let renamed = written.and_then(|()| fs::rename(&self.temporary, &self.path));
        renamed.map_err(|error| {
            // The write failed already: a leftover that cannot be removed either is not worth a second message.
            let _ = fs::remove_file(&self.temporary);
            failure(&self.path, &error)
        })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // As above.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Status::Io, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_output_leaves_nothing_and_a_finished_one_everything() {
        let folder = std::env::temp_dir().join(format!("bloomery-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.f32");
        let mut output = Output::create(&path).unwrap();
        output.write_f32s(&[1.0, 2.0]).unwrap();
        drop(output);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        let mut output = Output::create(&path).unwrap();
        output.write_f32s(&[1.0, -2.0]).unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), [0, 0, 128, 63, 0, 0, 0, 192]);
        let mut replacement = Output::create(&path).unwrap();
        replacement.write(b"half").unwrap();
        drop(replacement);
        assert_eq!(fs::read(&path).unwrap().len(), 8, "the old file is as it was");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Output::create(&path).unwrap_err().status, Status::Io, "the folder is gone");
    }
}
