//! Models split over several files, `NAME-00001-of-00003.gguf` and so on.

use std::io;
use std::path::{Path, PathBuf};

use crate::file::Part;
use crate::parse::Head;
use crate::{GgufError, Metadata};

const COUNT: &str = "split.count";
const NUMBER: &str = "split.no";
const TENSORS: &str = "split.tensors.count";

/// What a file says about the set it belongs to.
pub(crate) struct Split {
    /// From 0.
    number: u64,
    pub(crate) count: u64,
    /// Of the whole set.
    tensors: Option<u64>,
}

impl Split {
    /// `None` for a file that is a whole model: merging leaves the keys behind with a count of 0.
    pub(crate) fn of(metadata: &Metadata) -> Result<Option<Self>, GgufError> {
        match metadata.opt_u64(COUNT)? {
            None | Some(0 | 1) => Ok(None),
            Some(count) => {
                Ok(Some(Self { number: metadata.u64(NUMBER)?, count, tensors: metadata.opt_u64(TENSORS)? }))
            }
        }
    }

    fn suffix(&self, number: u64) -> String {
        format!("-{:05}-of-{:05}.gguf", number.saturating_add(1), self.count)
    }

    /// The path of the file `number` (from 0) of the set in which this is the file at `path`.
    fn sibling(&self, path: &Path, number: u64) -> Result<PathBuf, GgufError> {
        let name = path.file_name().and_then(|name| name.to_str());
        match name.and_then(|name| name.strip_suffix(&self.suffix(self.number))) {
            Some(stem) => Ok(path.with_file_name(format!("{stem}{}", self.suffix(number)))),
            None => Err(GgufError::ShardName { number: self.number.saturating_add(1), count: self.count }),
        }
    }

    /// Checks what another file of the set, the one with `number`, says about it.
    fn check(&self, other: Option<Self>, number: u64) -> Result<(), GgufError> {
        // A file without a split is a set of one.
        let other = other.unwrap_or(Self { number: 0, count: 1, tensors: None });
        agree(COUNT, self.count, other.count)?;
        agree(NUMBER, number, other.number)?;
        match (self.tensors, other.tensors) {
            (Some(expected), Some(found)) => agree(TENSORS, expected, found),
            _ => Ok(()),
        }
    }
}

fn agree(key: &'static str, expected: u64, found: u64) -> Result<(), GgufError> {
    if expected == found { Ok(()) } else { Err(GgufError::ShardDisagrees { key, expected, found }) }
}

/// Opens the whole set of which the file at `path`, already read, is one.
pub(crate) fn open(
    path: &Path,
    split: &Split,
    part: Part,
    mut head: Head,
) -> Result<Vec<(Part, Head)>, GgufError> {
    if split.number >= split.count {
        return Err(GgufError::ShardDisagrees {
            key: NUMBER,
            expected: split.count - 1,
            found: split.number,
        });
    }
    let mut files = Vec::new();
    for number in (0..split.count).filter(|&number| number != split.number) {
        files.push(open_sibling(path, split, number)?);
    }
    // The other files are fewer than `count` and all exist, so the number of the given one is a small index.
    let shard = usize::try_from(split.number).unwrap_or(files.len());
    for tensor in &mut head.tensors {
        tensor.shard = shard;
    }
    files.insert(shard, (part, head));
    if let Some(expected) = split.tensors {
        agree(TENSORS, expected, files.iter().map(|(_, head)| head.tensors.len() as u64).sum())?;
    }
    Ok(files)
}

fn open_sibling(path: &Path, split: &Split, number: u64) -> Result<(Part, Head), GgufError> {
    let sibling = split.sibling(path, number)?;
    let shard = usize::try_from(number).unwrap_or(usize::MAX);
    let (part, head) =
        Part::open(&sibling, shard).map_err(|error| missing(error, &sibling, number, split))?;
    Split::of(&head.metadata)
        .and_then(|other| split.check(other, number))
        .map_err(|error| error.in_file(&sibling))?;
    Ok((part, head))
}

fn missing(error: GgufError, path: &Path, number: u64, split: &Split) -> GgufError {
    match error.root() {
        GgufError::Io(cause) if cause.kind() == io::ErrorKind::NotFound => {
            GgufError::MissingShard { path: path.to_owned(), number: number + 1, count: split.count }
        }
        _ => error,
    }
}
