//! Writing one position of one head.

use super::{GROUP, KvType, PAGE};
use crate::cpu::lanes::{LANES, Lanes};

/// Adding it rounds to an integer (ties to even), which then sits in the low bits of the mantissa.
const ROUND: f32 = 12_582_912.0;

/// Writes one key into a head's part of a page.
///
/// # Safety
/// `head` points to `key_head_bytes()` bytes that nobody else uses, `offset < PAGE`, `row.len()` is the key width,
/// and the machine has the instruction set of `V`.
#[inline(always)]
pub(in crate::cpu) unsafe fn write_key<V: Lanes>(head: *mut u8, kind: KvType, offset: usize, row: &[f32]) {
    let (block, lane) = (offset / LANES, offset % LANES);
    let first = block * row.len() * LANES + lane;
    // SAFETY (all writes): element `first + d * LANES` lies in block `block < 4` of the head's part, as `d < row.len()`;
    // the scales follow at byte PAGE * row.len(), one for each 32 dimensions and position.
    match kind {
        KvType::F32 => {
            for (d, value) in row.iter().enumerate() {
                // SAFETY: see above.
                unsafe { head.cast::<f32>().add(first + d * LANES).write_unaligned(*value) }
            }
        }
        KvType::F16 => {
            for (chunk, values) in row.chunks(LANES).enumerate() {
                let (mut all, mut halves) = ([0.0; LANES], [0_u16; LANES]);
                all[..values.len()].copy_from_slice(values);
                // SAFETY: arrays of 16 values; the instruction set is this function's own contract.
                unsafe { V::load(all.as_ptr()).store_f16(halves.as_mut_ptr()) }
                for (i, half) in halves.into_iter().enumerate().take(values.len()) {
                    // SAFETY: see above.
                    unsafe {
                        head.cast::<u16>().add(first + (chunk * LANES + i) * LANES).write_unaligned(half)
                    }
                }
            }
        }
        KvType::Q8_0 => {
            for (group, values) in row.as_chunks::<GROUP>().0.iter().enumerate() {
                // SAFETY: the instruction set is this function's own contract.
                let (scale, quants) = unsafe { quantize::<V>(values) };
                for (i, quant) in quants.into_iter().enumerate() {
                    // SAFETY: see above.
                    unsafe { head.add(first + (group * GROUP + i) * LANES).write(quant) }
                }
                let index = (block * (row.len() / GROUP) + group) * LANES + lane;
                // SAFETY: see above.
                unsafe { head.add(PAGE * row.len()).cast::<u16>().add(index).write_unaligned(scale) }
            }
        }
    }
}

/// Writes one value into a head's part of a page.
///
/// # Safety
/// As [`write_key`], with the value width and `value_head_bytes()`.
#[inline(always)]
pub(in crate::cpu) unsafe fn write_value<V: Lanes>(head: *mut u8, kind: KvType, offset: usize, row: &[f32]) {
    let first = offset * row.len();
    // SAFETY (all writes): elements `first..first + row.len()` lie in the head's part, as `offset < PAGE`;
    // the scales follow at byte PAGE * row.len(), one for each 32 dimensions and position.
    match kind {
        KvType::F32 => {
            // SAFETY: see above; `u8` has no alignment to keep.
            unsafe { head.add(4 * first).copy_from_nonoverlapping(row.as_ptr().cast(), 4 * row.len()) }
        }
        KvType::F16 => {
            for (chunk, values) in row.as_chunks::<LANES>().0.iter().enumerate() {
                // SAFETY: see above; the instruction set is this function's own contract.
                unsafe { V::load(values.as_ptr()).store_f16(head.cast::<u16>().add(first + chunk * LANES)) }
            }
        }
        KvType::Q8_0 => {
            for (group, values) in row.as_chunks::<GROUP>().0.iter().enumerate() {
                // SAFETY: see above; the instruction set is this function's own contract.
                unsafe {
                    let (scale, quants) = quantize::<V>(values);
                    head.add(first + group * GROUP).cast::<[u8; GROUP]>().write_unaligned(quants);
                    let scales = head.add(PAGE * row.len()).cast::<u16>();
                    scales.add(group * PAGE + offset).write_unaligned(scale);
                }
            }
        }
    }
}

/// The scale as f16 bits and 32 int8 values: `round(x / (largest / 127))`, ties to even.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn quantize<V: Lanes>(values: &[f32; GROUP]) -> (u16, [u8; GROUP]) {
    let mut shifted = [0.0_f32; GROUP];
    let mut scale = [0_u16; LANES];
    // SAFETY: arrays of 16 and 32 values; the instruction set is this function's own contract.
    unsafe {
        let (low, high) = (V::load(values.as_ptr()), V::load(values.as_ptr().add(LANES)));
        let zero = V::splat(0.0);
        let largest = low.max(zero.sub(low)).max(high.max(zero.sub(high))).largest();
        let step = largest / 127.0;
        let inverse = V::splat(if step > 0.0 { 1.0 / step } else { 0.0 });
        V::splat(step).store_f16(scale.as_mut_ptr());
        low.fma(inverse, V::splat(ROUND)).store(shifted.as_mut_ptr());
        high.fma(inverse, V::splat(ROUND)).store(shifted.as_mut_ptr().add(LANES));
    }
    (scale[0], shifted.map(|x| x.to_bits() as u8))
}
