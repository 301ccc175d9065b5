//! The archive: the same files give the same bytes, on every machine and at every time.

use std::collections::BTreeMap;

use flate2::{Compression, GzBuilder};

use crate::error::{Error, io_error};

/// One file of the archive.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) bytes: Vec<u8>,
    pub(super) executable: bool,
}

/// A `.tar.gz` with one folder, `name`, of these files. All of them have the time `seconds` and belong to root.
pub(super) fn tar_gz(name: &str, files: &BTreeMap<String, Entry>, seconds: u64) -> Result<Vec<u8>, Error> {
    // A header without a name or a time.
    let gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for (path, entry) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(entry.bytes.len() as u64);
        header.set_mode(if entry.executable { 0o755 } else { 0o644 });
        header.set_mtime(seconds);
        header.set_uid(0);
        header.set_gid(0);
        let path = format!("{name}/{path}");
        archive.append_data(&mut header, &path, entry.bytes.as_slice()).map_err(io_error(path))?;
    }
    archive.into_inner().and_then(flate2::write::GzEncoder::finish).map_err(io_error("the archive"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn files() -> BTreeMap<String, Entry> {
        let entry = |text: &str, executable| Entry { bytes: text.as_bytes().to_vec(), executable };
        BTreeMap::from([("bin/run".into(), entry("#!", true)), ("README.md".into(), entry("Read.", false))])
    }

    #[test]
    fn what_goes_in_comes_out() {
        let bytes = tar_gz("a-1", &files(), 7).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let header = entry.header();
            assert_eq!((header.mtime().unwrap(), header.uid().unwrap()), (7, 0));
            seen.push((entry.path().unwrap().display().to_string(), header.mode().unwrap(), text));
        }
        let wanted = [("a-1/README.md", 0o644, "Read."), ("a-1/bin/run", 0o755, "#!")];
        assert_eq!(seen, wanted.map(|(path, mode, text)| (path.to_owned(), mode, text.to_owned())));
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        assert_eq!(tar_gz("a-1", &files(), 7).unwrap(), tar_gz("a-1", &files(), 7).unwrap());
        assert_ne!(tar_gz("a-1", &files(), 7).unwrap(), tar_gz("a-1", &files(), 8).unwrap());
    }
}
