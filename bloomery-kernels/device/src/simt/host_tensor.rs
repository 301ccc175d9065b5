//! What attention adds: wide and far loads, atomics, half precision, tensor cores.

use std::sync::atomic::{AtomicU32, Ordering};

use super::WARP;
use super::host::{dp4a, global, half, ld_global_f32x4};
use super::host_run::{MOST, with};

#[inline(never)]
pub(crate) unsafe fn ld_global_u32x2(at: u64) -> [u32; 2] {
    global::<[u32; 2]>(at).read_volatile()
}

#[inline(never)]
pub(crate) unsafe fn ld_global_u32x4(at: u64) -> [u32; 4] {
    global::<[u32; 4]>(at).read_volatile()
}

#[inline(never)]
pub(crate) unsafe fn ld_far_u32x2(at: u64) -> [u32; 2] {
    ld_global_u32x2(at)
}

#[inline(never)]
pub(crate) unsafe fn ld_far_f32x4(at: u64) -> [f32; 4] {
    ld_global_f32x4(at)
}

#[inline(never)]
pub(crate) unsafe fn st_global_u8(at: u64, value: u32) {
    global::<u8>(at).write_volatile(value as u8);
}

#[inline(never)]
pub(crate) unsafe fn atomic_add(at: u64, value: u32) -> u32 {
    AtomicU32::from_ptr(global::<u32>(at)).fetch_add(value, Ordering::AcqRel)
}

#[inline(never)]
pub(crate) unsafe fn fence() {
    std::sync::atomic::fence(Ordering::SeqCst);
}

#[inline(never)]
pub(crate) fn half2(low: f32, high: f32) -> u32 {
    let bits = |x: f32| u32::from(half::f16::from_f32(x).to_bits());
    bits(low) | bits(high) << 16
}

#[inline(never)]
pub(crate) fn bfloat2(low: f32, high: f32) -> u32 {
    let bits = |x: f32| u32::from(half::bf16::from_f32(x).to_bits());
    bits(low) | bits(high) << 16
}

#[inline(never)]
pub(crate) fn half2_sub(a: u32, b: u32) -> u32 {
    let value = |x: u32| half::f16::from_bits(x as u16).to_f32();
    // Halves are multiples of 2^-24 below 2^16: their difference may be rounded in an f32, but 24 bits and then 11 round as
    // 11 bits at once do.
    half2(value(a) - value(b), value(a >> 16) - value(b >> 16))
}

/// Sums of `N` products that `dot` makes of the words of an inner pair or value: in double precision, rounded once for each. As on the card
/// but for the last bits.
fn multiply<const N: usize>(
    mut c: [f32; 4],
    a: [[u32; 4]; N],
    b: [[u32; 2]; N],
    dot: impl Fn(u32, u32) -> f64,
) -> [f32; 4] {
    assert!(N <= MOST);
    let (warp, lane, turn) = with(|place| {
        place.turn = !place.turn;
        (place.warp.clone(), (place.thread % WARP) as usize, usize::from(place.turn))
    });
    // Two sets of slots in turn: a lane that is ahead writes to the one, while others still read the other.
    let slots = &warp.products[turn];
    for i in 0..N {
        let words = a[i].iter().chain(&b[i]);
        words.zip(&slots[lane][i]).for_each(|(word, slot)| slot.set(*word));
    }
    warp.barrier.wait();
    let word = |lane: usize, i: usize, at: usize| slots[lane][i][at].get();
    let (g, t) = (lane / 4, lane % 4);
    for i in 0..N {
        for (at, sum) in c.iter_mut().enumerate() {
            let (high, column) = (at / 2, 2 * t + at % 2);
            let mut exact = f64::from(*sum);
            for k in 0..4 {
                for upper in 0..2 {
                    exact += dot(word(4 * g + k, i, high + 2 * upper), word(4 * column + k, i, 4 + upper));
                }
            }
            *sum = exact as f32;
        }
    }
    c
}

/// The product of two pairs.
fn pairs(a: u32, b: u32, value: impl Fn(u16) -> f64) -> f64 {
    value(a as u16) * value(b as u16) + value((a >> 16) as u16) * value((b >> 16) as u16)
}

#[inline(never)]
pub(crate) unsafe fn mma<const N: usize>(c: [f32; 4], a: [[u32; 4]; N], b: [[u32; 2]; N]) -> [f32; 4] {
    multiply(c, a, b, |a, b| pairs(a, b, |bits| half::f16::from_bits(bits).to_f64()))
}

#[inline(never)]
pub(crate) unsafe fn mma_bf16(c: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
    multiply(c, [a], [b], |a, b| pairs(a, b, |bits| half::bf16::from_bits(bits).to_f64()))
}

#[inline(never)]
pub(crate) unsafe fn mma_tf32(c: [f32; 4], a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
    let value = |bits: u32| f64::from(f32::from_bits(bits & 0xffff_e000));
    multiply(c, [a], [b], |a, b| value(a) * value(b))
}

/// What `pick` makes of the fragments of all lanes.
fn fragments<T>(a: [u32; 4], b: [u32; 2], pick: impl Fn(&dyn Fn(usize, usize) -> u32, usize) -> T) -> T {
    let (warp, lane) = with(|place| (place.warp.clone(), (place.thread % WARP) as usize));
    for (slot, value) in warp.words[lane].iter().zip(a.into_iter().chain(b)) {
        slot.set(value);
    }
    warp.barrier.wait();
    let out = pick(&|lane, word| warp.words[lane][word].get(), lane);
    warp.barrier.wait();
    out
}

/// Four results of a product whose row r, column c, inner words `w` (four lanes of `words` each) are given.
fn product<V: Copy + std::iter::Sum>(
    a: [u32; 4],
    b: [u32; 2],
    rows: [[usize; 2]; 2],
    dot: impl Fn(u32, u32) -> V,
) -> [V; 4] {
    fragments(a, b, |word, lane| {
        let (g, t) = (lane / 4, lane % 4);
        std::array::from_fn(|i| {
            let column = 2 * t + i % 2;
            (0..4)
                .flat_map(|inner| (0..2).map(move |half| (inner, half)))
                .map(|(inner, half)| {
                    dot(word(4 * g + inner, rows[i / 2][half]), word(4 * column + inner, 4 + half))
                })
                .sum()
        })
    })
}

#[inline(never)]
pub(crate) unsafe fn mma_s8_32(a: [u32; 4], b: [u32; 2]) -> [i32; 4] {
    product(a, b, [[0, 2], [1, 3]], |a, b| dp4a(a, b, 0))
}

#[inline(never)]
pub(crate) unsafe fn mma_s8_16(a: [u32; 2], b: u32) -> [i32; 4] {
    product([a[0], a[1], 0, 0], [b, 0], [[0, 2], [1, 3]], |a, b| dp4a(a, b, 0))
}

#[inline(never)]
pub(crate) unsafe fn mma_f16_exact(a: [u32; 4], b: [u32; 2]) -> [f32; 4] {
    product(a, b, [[0, 2], [1, 3]], |a, b| {
        half(a as u16) * half(b as u16) + half((a >> 16) as u16) * half((b >> 16) as u16)
    })
}
