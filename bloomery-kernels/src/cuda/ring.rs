//! How much of its weights a block keeps on their way.

use super::launch::Grid;
use super::{CudaError, DeviceInfo};
use crate::abi::shape::rings_bytes;

/// Stages that a kernel can have: it waits for copies by an immediate number.
const STAGES: u32 = 8;
/// Warps that a block can have: then it has a multiprocessor for itself. With 8 warps the next kernel has room beside it and
/// brings in its weights early, which makes each kernel faster when many of its kind follow each other; in a step it is 5 % slower.
pub(super) const MOST_WARPS: u32 = 16;

/// How many threads a block of the kernels for few rows has, and how much shared memory it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Warps of a block: 4 to 16, and at most 8 for weights of floats.
    pub warps: u32,
    /// Stages of a warp, at most.
    pub stages: u32,
    /// Blocks for every multiprocessor.
    pub blocks: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { warps: MOST_WARPS, stages: STAGES, blocks: 1 }
    }
}

impl Tuning {
    pub(super) fn warps(self) -> u32 {
        self.warps.clamp(4, MOST_WARPS)
    }

    /// For kernels of floats: those for many rows need so many registers that there is room for 8 warps.
    pub(super) fn for_floats(self) -> Self {
        Self { warps: self.warps.min(8), ..self }
    }

    /// Blocks of a launch.
    pub(super) fn grid(self, info: &DeviceInfo) -> u32 {
        info.processors * self.blocks.max(1)
    }

    /// How often a warp takes `items` of `chunks` chunks, at most.
    pub(super) fn turns(self, info: &DeviceInfo, items: usize, chunks: u32) -> u64 {
        let warps = (self.grid(info) * self.warps()) as usize;
        items.div_ceil(warps) as u64 * u64::from(chunks)
    }
}

/// The rings of a launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rings {
    threads: u32,
    pub(super) stages: u32,
    shared_bytes: u32,
}

/// Bytes of shared memory that activations may take: two stages of every warp fit beside them.
pub(super) fn room(info: &DeviceInfo, tuning: Tuning, stage_bytes: u32) -> u32 {
    info.shared_per_block.saturating_sub(rings_bytes(tuning.warps(), 2, stage_bytes))
}

/// Bytes for `tokens` rows on their way to be normalised. They are worth it for few rows only, which wait for one value after
/// the other, and not if they take the room of the weights.
pub(super) fn raw_bytes(info: &DeviceInfo, tokens: usize, cols: usize) -> u32 {
    let bytes = 4 * tokens * cols;
    if tokens <= 2 && bytes <= info.shared_target() as usize / 4 { bytes as u32 } else { 0 }
}

impl Rings {
    /// As many stages as fit beside `fixed` bytes so that two blocks share a multiprocessor, or if those are few or the block
    /// has all its warps, as fit into it. `turns` is how often a warp takes a stage.
    pub(super) fn new(
        kernel: &'static str,
        info: &DeviceInfo,
        tuning: Tuning,
        fixed: u32,
        stage_bytes: u32,
        turns: u64,
    ) -> Result<Self, CudaError> {
        let warps = tuning.warps();
        let bytes = |stages| fixed + rings_bytes(warps, stages, stage_bytes);
        let most = STAGES.min(tuning.stages.max(1)).min(u32::try_from(turns.max(1)).unwrap_or(u32::MAX));
        let fit = |budget: u32, least: u32| (least..=most).rev().find(|stages| bytes(*stages) <= budget);
        let share = if warps == MOST_WARPS { info.shared_per_block } else { info.shared_target() };
        let target = share / tuning.blocks.max(1);
        let stages = fit(target, most.min(2)).or_else(|| fit(info.shared_per_block, 1));
        let rule = || format!("at most {}", info.shared_per_block);
        CudaError::require(kernel, "shared memory", bytes(1).into(), stages.is_some(), rule)?;
        let stages = stages.unwrap_or(1);
        Ok(Self { threads: 32 * warps, stages, shared_bytes: bytes(stages) })
    }

    /// `blocks` blocks with such rings.
    pub(super) fn grid(self, blocks: u32) -> Grid {
        Grid { blocks, threads: self.threads, shared_bytes: self.shared_bytes }
    }
}
