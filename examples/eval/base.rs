//! The file of base distributions that `kld` compares with.
//!
//! All numbers little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `BLMKLD01` |
//! | 4, 4, 4 | u32: vocabulary, context, chunks |
//! | 4 x context x chunks | u32 ids, chunk by chunk, BOS in place |
//! | per scored token: 4, 4, 2 x vocabulary | f32 `top`, f32 `step`, u16 codes |
//!
//! The log-probability of an id is `top - step * code`; a chunk has `context - context/2 - 1` scored tokens. Codes
//! reach from the likeliest id (0) to the least likely (65535), so with logits that span 40 nats a log-probability is
//! off by at most 0.0003; readers renormalise, which leaves an error of the order of its square in the divergence.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use bloomery_examples::{Failure, Output, Status};

use crate::text::{Chunks, scored};

const MAGIC: &[u8; 8] = b"BLMKLD01";
const HEADER: usize = 20;
const LEVELS: f64 = 65535.0;

/// Starts a file: everything before the first row.
pub(crate) fn write_header(output: &mut Output, vocab: usize, chunks: &Chunks) -> Result<(), Failure> {
    output.write(MAGIC)?;
    for number in [vocab, chunks.context, chunks.count()] {
        output.write(&(number as u32).to_le_bytes())?;
    }
    let ids: Vec<u8> = chunks.tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
    output.write(&ids)
}

/// One row from log-probabilities.
pub(crate) fn encode(log_probabilities: &[f64]) -> Vec<u8> {
    let top = log_probabilities.iter().copied().fold(f64::NEG_INFINITY, f64::max) as f32;
    let low = log_probabilities.iter().copied().fold(f64::INFINITY, f64::min);
    let step = ((f64::from(top) - low) / LEVELS) as f32;
    let scale = if step > 0.0 { 1.0 / f64::from(step) } else { 0.0 };
    let code = |value: f64| ((f64::from(top) - value) * scale).round().clamp(0.0, LEVELS) as u16;
    let mut row = Vec::with_capacity(row_bytes(log_probabilities.len()));
    row.extend_from_slice(&top.to_le_bytes());
    row.extend_from_slice(&step.to_le_bytes());
    row.extend(log_probabilities.iter().flat_map(|&value| code(value).to_le_bytes()));
    row
}

/// Log-probabilities of a row, normalised again.
fn decode(row: &[u8]) -> Vec<f64> {
    let float = |at: usize| f64::from(f32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]));
    let (top, step) = (float(0), float(4));
    let codes = row[8..].as_chunks().0.iter().map(|code| f64::from(u16::from_le_bytes(*code)));
    let mut values: Vec<f64> = codes.map(|code| top - step * code).collect();
    let norm = values.iter().map(|value| value.exp()).sum::<f64>().ln();
    values.iter_mut().for_each(|value| *value -= norm);
    values
}

fn row_bytes(vocab: usize) -> usize {
    8 + 2 * vocab
}

/// A base file that is read row by row.
#[derive(Debug)]
pub(crate) struct Base {
    path: PathBuf,
    file: BufReader<File>,
    row: Vec<u8>,
    pub(crate) vocab: usize,
    pub(crate) chunks: Chunks,
}

impl Base {
    /// Opens a file and reads up to its rows. A file of the wrong length is refused here.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let unreadable = |error: io::Error| Failure::new(Status::NoInput, error).about(path.display());
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut file = BufReader::new(file);
        let mut header = [0; HEADER];
        if length < HEADER as u64 || file.read_exact(&mut header).is_err() || !header.starts_with(MAGIC) {
            return Err(broken(path, "it does not start with BLMKLD01"));
        }
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize
        };
        let [vocab, context, count] = [word(8), word(12), word(16)];
        let ids = (context as u64).checked_mul(count as u64);
        let rows = (scored(context) as u64).checked_mul(count as u64);
        let expected = ids
            .and_then(|ids| ids.checked_mul(4))
            .zip(rows.and_then(|rows| rows.checked_mul(row_bytes(vocab) as u64)))
            .and_then(|(ids, rows)| ids.checked_add(rows)?.checked_add(HEADER as u64));
        if context < 3 || expected != Some(length) {
            let counts = format!("{count} chunks of {context} tokens over {vocab} ids");
            return Err(broken(path, &format!("{counts} do not make a file of {length} bytes")));
        }
        let mut ids = vec![0; 4 * context * count];
        file.read_exact(&mut ids).map_err(unreadable)?;
        let tokens = ids.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
        let row = vec![0; row_bytes(vocab)];
        Ok(Self { path: path.to_owned(), file, row, vocab, chunks: Chunks { context, tokens } })
    }

    /// The next row of log-probabilities.
    pub(crate) fn next(&mut self) -> Result<Vec<f64>, Failure> {
        self.file
            .read_exact(&mut self.row)
            .map_err(|error| Failure::new(Status::NoInput, error).about(self.path.display()))?;
        Ok(decode(&self.row))
    }
}

fn broken(path: &Path, why: &str) -> Failure {
    Failure::new(Status::NoInput, format!("{}: not a file of base distributions: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bloomery_examples::stats::{kl_divergence, log_softmax};

    use super::*;

    fn logits(seed: u32) -> Vec<f32> {
        (0..1000u32)
            .map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) % 4001) as f32 / 100.0)
            .collect()
    }

    #[test]
    fn a_row_survives_within_its_step() {
        let exact = log_softmax(&logits(3));
        let read = decode(&encode(&exact));
        for (a, b) in exact.iter().zip(&read) {
            assert!((a - b).abs() < 4e-4, "{a} {b}");
        }
        assert!(kl_divergence(&exact, &read) < 1e-7);
        let flat = decode(&encode(&log_softmax(&[1.0; 4])));
        assert!(flat.iter().all(|value| (value.exp() - 0.25).abs() < 1e-7), "{flat:?}");
    }

    #[test]
    fn files_round_trip_and_damage_is_refused() {
        let folder = std::env::temp_dir().join(format!("bloomery-base-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.kld");
        let chunks = Chunks { context: 4, tokens: vec![1, 2, 3, 4, 1, 6, 7, 8] };
        let mut output = Output::create(&path).unwrap();
        write_header(&mut output, 1000, &chunks).unwrap();
        (0..2).for_each(|seed| output.write(&encode(&log_softmax(&logits(seed)))).unwrap());
        output.finish().unwrap();
        let mut base = Base::open(&path).unwrap();
        assert_eq!((base.vocab, &base.chunks), (1000, &chunks));
        assert_eq!(base.next().unwrap(), decode(&encode(&log_softmax(&logits(0)))));
        assert!(base.next().is_ok() && base.next().is_err());

        let bytes = fs::read(&path).unwrap();
        for len in [0, 7, 19, 30, bytes.len() - 1] {
            fs::write(&path, &bytes[..len]).unwrap();
            assert_eq!(Base::open(&path).unwrap_err().status, Status::NoInput, "{len} bytes");
        }
        let mut absurd = bytes;
        absurd[8..20].fill(0xff);
        fs::write(&path, &absurd).unwrap();
        assert!(Base::open(&path).is_err(), "no allocation from an unchecked count");
        fs::remove_dir_all(&folder).unwrap();
    }
}
