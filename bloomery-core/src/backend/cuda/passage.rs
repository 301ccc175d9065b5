//! Pages and states on their way between the card and host memory.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use bloomery_kernels::cpu::Pool;
use bloomery_kernels::cuda::{CudaError, Device, Pinned, Span, Stream};

/// Threads that copy. One core writes about 8 GB/s of memory that it has to be given first, a sixth of what the card sends.
const THREADS: NonZeroUsize = NonZeroUsize::new(4).expect("it is not 0");

/// Bytes of a thread's turn.
const TURN: usize = 1 << 20;

/// Memory that the card copies to and from at full speed: of other memory it takes 10 to 20 ms for the 63 MB of a state.
/// What is kept is copied out of it, because so much memory as is kept should not be pinned.
#[derive(Debug)]
pub(super) struct Passage {
    pinned: Pinned<u8>,
    pool: Pool,
}

impl Passage {
    /// For places of `len` bytes in all.
    pub(super) fn new(device: &Device, len: usize) -> Result<Self, CudaError> {
        Ok(Self { pinned: device.pinned(len)?, pool: Pool::new(THREADS) })
    }

    /// Appends the bytes of `places`, one after the other, to `out`.
    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        places: &[Span<u8>],
        out: &mut Vec<u8>,
    ) -> Result<(), CudaError> {
        let len = places.iter().map(Span::len).sum::<usize>();
        let Self { pinned, pool } = self;
        let room = pinned.values().len();
        // Too few bytes are what a copy refuses.
        let piece = &mut pinned.values_mut()[..len.min(room)];
        stream.gather(places, piece)?;
        let start = out.len();
        match start {
            // Fresh zeros are the system's, and become memory where the threads write.
            0 => *out = vec![0; len],
            _ => out.resize(start + len, 0),
        }
        copy(pool, piece, &mut out[start..]);
        Ok(())
    }

    /// Writes what [`read`](Self::read) gave.
    pub(super) fn write(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        places: &[Span<u8>],
    ) -> Result<(), CudaError> {
        let Self { pinned, pool } = self;
        let room = pinned.values().len();
        let piece = &mut pinned.values_mut()[..bytes.len().min(room)];
        copy(pool, bytes, piece);
        stream.scatter(piece, places)
    }
}

/// Copies as many bytes as both have.
fn copy(pool: &Pool, from: &[u8], to: &mut [u8]) {
    let turns: Vec<_> = from.chunks(TURN).zip(to.chunks_mut(TURN)).map(Mutex::new).collect();
    pool.run(turns.len(), &|turn| {
        let mut turn = turns[turn].lock().unwrap_or_else(PoisonError::into_inner);
        let (from, to) = &mut *turn;
        to.copy_from_slice(from);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied() {
        let pool = Pool::new(THREADS);
        for len in [0, 1, TURN - 1, TURN, 3 * TURN + 5] {
            let from: Vec<u8> = (0..len).map(|byte| (byte % 251) as u8).collect();
            let mut to = vec![0; len];
            copy(&pool, &from, &mut to);
            assert!(from == to, "{len}");
        }
    }
}
