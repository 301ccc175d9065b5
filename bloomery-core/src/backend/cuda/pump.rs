//! File bytes to the card, as fast as the bus takes them: several threads read, each through memory that the card copies from
//! while the next part is read.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use bloomery_gguf::Format;
use bloomery_kernels::cuda::{Buffer, CudaError, Device, Pack, Span, Staging, TILE_ROWS};

use crate::plan::Progress;
use crate::units::Bytes;

/// Bytes that go to one place.
#[derive(Debug)]
pub(super) struct Piece<'g> {
    pub(super) bytes: &'g [u8],
    pub(super) to: Span<u8>,
    /// They are rows that become tiles on the card.
    pub(super) tiles: Option<Rows>,
}

/// What rows are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) format: Format,
    pub(super) cols: usize,
}

impl Rows {
    fn bytes(self, rows: usize) -> usize {
        rows * (self.cols / self.format.block_len() * self.format.block_bytes())
    }
}

impl Piece<'_> {
    /// Bytes of a copy: rows of whole tiles, if it becomes tiles.
    fn step(&self) -> usize {
        match self.tiles {
            None => COPY,
            Some(rows) => {
                let tiles = rows.bytes(TILE_ROWS);
                tiles * (COPY / tiles).max(1)
            }
        }
    }
}

/// Bytes of one copy: long enough for the bus, short enough that all threads end together.
const COPY: usize = 8 << 20;
/// Copies of a thread under way.
const COPIES: usize = 2;
/// Reading threads. One reads 5 to 10 GB/s, the bus takes 25 to 55.
const READERS: usize = 8;
/// How often progress is told.
const REPORT: u64 = 64 << 20;

/// Copies all pieces and loads the card's kernels at the same time; everything has arrived when it returns.
pub(super) fn pump(
    device: &Device,
    pieces: &[Piece<'_>],
    mut progress: impl FnMut(Progress),
) -> Result<(), CudaError> {
    let parts = pieces.iter().enumerate().flat_map(|(index, piece)| {
        (0..piece.bytes.len()).step_by(piece.step()).map(move |start| (index, start))
    });
    let parts: Vec<(usize, usize)> = parts.collect();
    let total = Bytes(pieces.iter().map(|piece| piece.bytes.len() as u64).sum());
    let longest = pieces.iter().map(|piece| piece.bytes.len().min(piece.step())).max().unwrap_or(0);
    let work =
        Work { device, pieces, parts, longest, next: AtomicUsize::new(0), failed: AtomicBool::new(false) };
    let threads = thread::available_parallelism().map_or(1, usize::from).clamp(1, READERS);
    let (sender, told) = channel();
    let mut result = Ok(());
    thread::scope(|scope| {
        for _ in 0..threads.min(work.parts.len()) {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work.end(work.read(&sender), &sender));
        }
        let work = &work;
        scope.spawn(move || work.end(device.load_kernels(), &sender));
        let (mut done, mut reported) = (0, 0);
        for message in told {
            match message {
                Ok(bytes) => done += bytes,
                // The first one is the cause of the others.
                Err(error) if result.is_ok() => result = Err(error),
                Err(_) => {}
            }
            if done - reported >= REPORT {
                reported = done;
                progress(Progress { done: Bytes(done), total });
            }
        }
    });
    result?;
    progress(Progress { done: total, total });
    Ok(())
}

struct Work<'a> {
    device: &'a Device,
    pieces: &'a [Piece<'a>],
    /// Piece and first byte of every copy.
    parts: Vec<(usize, usize)>,
    /// Bytes of the longest copy.
    longest: usize,
    next: AtomicUsize,
    failed: AtomicBool,
}

type Told = Result<u64, CudaError>;

impl Work<'_> {
    /// Copies parts until there are none left.
    fn read(&self, sender: &Sender<Told>) -> Result<(), CudaError> {
        let mut stream = self.device.stream()?;
        let room = self.longest;
        let mut ring = (0..COPIES)
            .map(|_| Ok((Staging::new(self.device, room)?, self.device.alloc::<u8>(room)?)))
            .collect::<Result<Vec<(Staging, Buffer<u8>)>, CudaError>>()?;
        let mut turn = 0;
        while !self.failed.load(Ordering::Relaxed) {
            let Some(&(index, start)) = self.parts.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let piece = &self.pieces[index];
            let end = piece.bytes.len().min(start + piece.step());
            let (staging, arrived) = &mut ring[turn % COPIES];
            staging.bytes_mut()?[..end - start].copy_from_slice(&piece.bytes[start..end]);
            match piece.tiles {
                None => staging.send(&mut stream, &piece.to.slice(start..end)?)?,
                Some(rows) => {
                    let from = arrived.slice(0..end - start)?;
                    staging.send(&mut stream, &from)?;
                    let Rows { format, cols } = rows;
                    let (first, count) = (start / rows.bytes(1), (end - start) / rows.bytes(1));
                    let at = Pack::bytes(format, 1, first, cols);
                    let to = piece.to.slice(at..at + Pack::bytes(format, 1, count, cols))?;
                    let pack = Pack { format, count: 1, rows: count, cols, from, to };
                    stream.launch(&pack.launch(self.device.info())?)?;
                }
            }
            turn += 1;
            // Nobody listens any more when loading has failed.
            let _ = sender.send(Ok((end - start) as u64));
        }
        stream.synchronize()
    }

    fn end(&self, result: Result<(), CudaError>, sender: &Sender<Told>) {
        if let Err(error) = result {
            self.failed.store(true, Ordering::Relaxed);
            let _ = sender.send(Err(error));
        }
    }
}
