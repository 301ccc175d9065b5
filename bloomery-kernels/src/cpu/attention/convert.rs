//! Pages as f32, in the layout of an f32 cache, for tiles of many queries.
//!
//! Contract of all functions: as of `chunk::pages`.

use super::source::{Eight, Full, Half, Source};
use crate::cpu::kv::{KvType, PAGE};
use crate::cpu::lanes::{LANES, Lanes};

/// Converts the first `blocks` blocks of a page's keys to f32.
#[inline(always)]
pub(super) unsafe fn convert_keys<V: Lanes>(
    kind: KvType,
    from: *const u8,
    dim: usize,
    blocks: usize,
    to: &mut [f32],
) {
    // SAFETY (all): as in `pages`.
    match kind {
        // SAFETY: as above.
        KvType::F32 => unsafe { flat_keys::<V, Full>(from, dim, blocks, to) },
        // SAFETY: as above.
        KvType::F16 => unsafe { flat_keys::<V, Half>(from, dim, blocks, to) },
        // SAFETY: as above.
        KvType::Q8_0 => unsafe { flat_keys::<V, Eight>(from, dim, blocks, to) },
    }
}

#[inline(always)]
unsafe fn flat_keys<V: Lanes, S: Source>(from: *const u8, dim: usize, blocks: usize, to: &mut [f32]) {
    for (block, to) in to.chunks_exact_mut(dim * LANES).take(blocks).enumerate() {
        for (group, to) in to.chunks_exact_mut(S::GROUP * LANES).enumerate() {
            // SAFETY: as in `pages`.
            let scales = unsafe { S::key_scales::<V>(from, dim, block, group) };
            for (d, to) in to.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                // SAFETY: as in `pages`.
                unsafe { S::key(from, dim, block, group * S::GROUP + d, scales).store(to.as_mut_ptr()) }
            }
        }
    }
}

/// Converts the first `positions` values of a page to f32.
#[inline(always)]
pub(super) unsafe fn convert_values<V: Lanes>(
    kind: KvType,
    from: *const u8,
    dim: usize,
    positions: usize,
    to: &mut [f32],
) {
    // SAFETY (all): as in `pages`.
    match kind {
        // SAFETY: as above.
        KvType::F32 => unsafe { flat_values::<V, Full>(from, dim, positions, to) },
        // SAFETY: as above.
        KvType::F16 => unsafe { flat_values::<V, Half>(from, dim, positions, to) },
        // SAFETY: as above.
        KvType::Q8_0 => unsafe { flat_values::<V, Eight>(from, dim, positions, to) },
    }
}

#[inline(always)]
unsafe fn flat_values<V: Lanes, S: Source>(from: *const u8, dim: usize, positions: usize, to: &mut [f32]) {
    let mut scales = [1.0_f32; PAGE];
    for d in (0..dim).step_by(S::VALUE_GROUP) {
        // SAFETY: as in `pages`.
        unsafe { S::value_scales::<V>(from, dim, d, &mut scales) }
        for (position, scale) in scales.into_iter().enumerate().take(positions) {
            for d in (d..d + S::VALUE_GROUP).step_by(LANES) {
                let to = &mut to[position * dim + d..][..LANES];
                // SAFETY: as in `pages`.
                unsafe { S::value::<V>(from, dim, position, d, scale).store(to.as_mut_ptr()) }
            }
        }
    }
}
