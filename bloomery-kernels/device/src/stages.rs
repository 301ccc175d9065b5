//! Weights on their way to a warp: a ring of stages in shared memory that each warp fills for itself.
//!
//! All stages are filled before the first is used, so that everything a warp needs next is on its way; where a kernel
//! starts before its predecessor's end, the weights arrive while it waits. Warps do not wait for each other.
//!
//! A stage holds *spans*, neighbouring rows or a chunk of a row, each with the 16-byte pieces that its ends lie in: the
//! first byte is at `address % 16` of its place. Where the card can, one lane copies whole spans; elsewhere every lane
//! copies 16 bytes at a time.
//!
//! ```text
//! rings of a block    [warps][stages] barriers of 8 bytes, padded to 16
//!                     [warps][stages] stages
//! ```

use super::simt::{
    bulk_announce, bulk_barrier, bulk_copies, bulk_copy, bulk_wait, copy_async16, copy_commit, copy_wait,
    lane, warp_barrier, warps,
};

/// What a warp multiplies next.
pub(crate) trait Supply {
    /// Starts the copies of the next chunk of weights into a stage, if there is one.
    ///
    /// # Safety
    /// Every lane of the warp gets here; the stage is free.
    unsafe fn next(&mut self, stage: Stage);
}

/// Where a chunk goes.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    at: u32,
    barrier: u32,
}

/// The 16-byte pieces around `bytes` bytes: their address and length.
#[inline(always)]
fn pieces(from: u64, bytes: u32) -> (u64, u32) {
    (from & !15, ((from & 15) as u32 + bytes + 15) & !15)
}

impl Stage {
    /// Starts the copies of the `bytes` bytes at each address, with the 16-byte pieces that they end in, to a stage: copy `i`
    /// goes to byte `i * distance`.
    ///
    /// # Safety
    /// Every lane gets here, once for a stage; the pieces are readable, and there is room for them; `distance` is a multiple of 16.
    #[inline(always)]
    pub(crate) unsafe fn copy<const N: usize>(self, from: [u64; N], distance: u32, bytes: u32) {
        if bulk_copies() {
            if lane() == 0 {
                let (mut all, mut i) = (0, 0);
                while i < N {
                    all += pieces(from[i], bytes).1;
                    i += 1;
                }
                bulk_announce(self.barrier, all);
                i = 0;
                while i < N {
                    let (start, length) = pieces(from[i], bytes);
                    bulk_copy(self.at + i as u32 * distance, start, length, self.barrier);
                    i += 1;
                }
            }
            return;
        }
        let mut i = 0;
        while i < N {
            let (start, length) = pieces(from[i], bytes);
            let mut at = 16 * lane();
            while at < length {
                copy_async16(self.at + i as u32 * distance + at, start + u64::from(at));
                at += 16 * 32;
            }
            i += 1;
        }
    }
}

/// A warp's stages.
pub(crate) struct Ring {
    first: Stage,
    stage_bytes: u32,
    stages: u32,
    at: u32,
    /// Whether the stages are used for the second time, the fourth, and so on.
    odd: u32,
}

impl Ring {
    /// Fills all stages.
    ///
    /// # Safety
    /// Every lane gets here; `rings` is aligned to 16 bytes and has [`rings_bytes`](super::abi::shape::rings_bytes) for the
    /// block's warps, each with `stages` (1 to 8) stages; `warp` is the warp's number.
    #[inline(always)]
    pub(crate) unsafe fn start(
        rings: u32,
        warp: u32,
        stage_bytes: u32,
        stages: u32,
        supply: &mut impl Supply,
    ) -> Self {
        let barriers = (8 * warps() * stages + 15) & !15;
        let first =
            Stage { at: rings + barriers + warp * stages * stage_bytes, barrier: rings + 8 * warp * stages };
        let mut ring = Self { first, stage_bytes, stages, at: 0, odd: 0 };
        if bulk_copies() {
            if lane() < stages {
                bulk_barrier(first.barrier + 8 * lane());
            }
            warp_barrier();
        }
        while ring.at < stages {
            supply.next(ring.stage());
            if !bulk_copies() {
                copy_commit();
            }
            ring.at += 1;
        }
        ring.at = 0;
        ring
    }

    #[inline(always)]
    fn stage(&self) -> Stage {
        Stage { at: self.first.at + self.at * self.stage_bytes, barrier: self.first.barrier + 8 * self.at }
    }

    /// Waits for the oldest stage.
    ///
    /// # Safety
    /// Every lane gets here.
    #[inline(always)]
    pub(crate) unsafe fn take(&self) -> u32 {
        let stage = self.stage();
        if bulk_copies() {
            bulk_wait(stage.barrier, self.odd);
        } else {
            copy_wait(self.stages - 1);
            warp_barrier();
        }
        stage.at
    }

    /// Fills the oldest stage again.
    ///
    /// # Safety
    /// Every lane gets here and has read what it wants of the stage.
    #[inline(always)]
    pub(crate) unsafe fn give_back(&mut self, supply: &mut impl Supply) {
        warp_barrier();
        supply.next(self.stage());
        if !bulk_copies() {
            copy_commit();
        }
        self.at += 1;
        if self.at == self.stages {
            self.at = 0;
            self.odd ^= 1;
        }
    }
}
