//! The table on disk.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use bloomery_gguf::{Format, Gguf, Tensor, Writer};
use rustix::fs::{Advice, OFlags, fadvise};

use crate::options::Options;

/// Of one tensor.
const PIECE: u64 = 256 << 20;
const PAGE: usize = 4096;

/// An open table.
pub(crate) struct Table {
    gguf: Gguf,
    tensors: Vec<Tensor>,
    file: File,
    /// Reads of it pass the system's cache.
    direct: File,
    pub(crate) row: usize,
}

/// A row: the number of its tensor, and where it starts there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u32, u32);

impl Table {
    /// Makes the file if it is not there.
    pub(crate) fn make(options: &Options) -> Result<(), Box<dyn Error>> {
        if options.path.exists() {
            return Ok(());
        }
        let mut random = Random(1);
        let noise: Vec<u8> = (0..PIECE / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        let mut writer = Writer::new();
        for piece in 0..options.bytes / PIECE {
            writer.tensor(format!("table.{piece}"), &[PIECE], Format::I8, &noise[..])?;
        }
        writer.write_file(&options.path)?;
        // What is not written yet cannot be forgotten.
        Ok(File::open(&options.path)?.sync_all()?)
    }

    /// Opens the table with nothing of it in memory.
    pub(crate) fn cold(options: &Options) -> Result<Self, Box<dyn Error>> {
        let file = File::open(&options.path)?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        let gguf = Gguf::open(&options.path)?;
        let tensors = gguf.tensors().cloned().collect();
        let flags = OFlags::DIRECT.bits().cast_signed();
        let direct = OpenOptions::new().read(true).custom_flags(flags).open(&options.path)?;
        Ok(Self { gguf, tensors, file, direct, row: options.row })
    }

    /// Rows anywhere.
    pub(crate) fn places(&self, random: &mut Random, count: usize) -> Vec<Place> {
        let each = PIECE / self.row as u64;
        let place = |number: u64| Place((number / each) as u32, (number % each) as u32 * self.row as u32);
        (0..count).map(|_| place(random.next() % (each * self.tensors.len() as u64))).collect()
    }

    /// The row in the mapping.
    pub(crate) fn mapped(&self, place: Place) -> &[u8] {
        &self.gguf.data(&self.tensors[place.0 as usize])[place.1 as usize..][..self.row]
    }

    pub(crate) fn advise(&self, place: Place) {
        let start = place.1 as usize;
        self.gguf.prefetch(&self.tensors[place.0 as usize], start..start + self.row);
    }

    pub(crate) fn read(&self, place: Place, to: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(to, self.offset(place))
    }

    /// Memory for [`read_direct`](Self::read_direct): a row may lie in two pages, and what is read to must be aligned as they are.
    pub(crate) fn pages(&self) -> Vec<u8> {
        vec![0; 3 * PAGE]
    }

    pub(crate) fn read_direct(&self, place: Place, pages: &mut [u8], to: &mut [u8]) -> io::Result<()> {
        let (offset, start) = (self.offset(place), pages.as_ptr().align_offset(PAGE));
        let within = (offset % PAGE as u64) as usize;
        let pages = &mut pages[start..][..(within + self.row).next_multiple_of(PAGE)];
        // The last page is not whole.
        if self.direct.read_at(pages, offset - within as u64)? < within + self.row {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.copy_from_slice(&pages[within..within + self.row]);
        Ok(())
    }

    /// Where the row is in the file.
    fn offset(&self, place: Place) -> u64 {
        self.tensors[place.0 as usize].offset() + u64::from(place.1)
    }
}

/// Numbers without a pattern (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Bytes that this process had the disk read so far.
pub(crate) fn disk_bytes() -> io::Result<u64> {
    let counts = std::fs::read_to_string("/proc/self/io")?;
    let count = counts.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    count.ok_or_else(|| io::Error::other("/proc/self/io has no read_bytes"))
}
