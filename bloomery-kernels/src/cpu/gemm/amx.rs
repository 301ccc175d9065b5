//! AMX int8 tiles: 16 x 16 sums of 64 products in one instruction.

use std::arch::asm;
use std::arch::x86_64::__m512i;

use super::PANEL;
use super::avx512::{fold, load_i32};
use super::panel::{Layout, Mins, Panel};
use super::tile::{LANES, TileBlock};
use super::wide::{Sums, Totals};

/// Configuration of palette 1: eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIG: Config = Config {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// One block of `count` rows of weights times one block of every tile of activations, added to `sums`.
///
/// # Safety
/// The processor has AMX-INT8 and the AVX-512 subsets of [`Isa::Avx512`](super::super::Isa), and the process has the
/// permission to use tiles: `Isa::detect() == Isa::Amx`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn multiply(
    panel: &Panel,
    tiles: &[TileBlock],
    layout: Layout,
    count: usize,
    sums: &mut [Sums],
    totals: &mut [Totals; 2],
) {
    debug_assert!(count <= PANEL && tiles.len() == sums.len());
    // SAFETY: CONFIG is 64 readable bytes of a valid palette 1 configuration; the caller promises AMX.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, preserves_flags)) };
    // SAFETY: the tiles are configured; the rest is this function's own contract.
    unsafe {
        match layout.mins {
            Mins::None => pass::<0>(panel, tiles, layout, count, sums, totals),
            Mins::Each32 => pass::<4>(panel, tiles, layout, count, sums, totals),
            Mins::Each16 => pass::<8>(panel, tiles, layout, count, sums, totals),
        }
    }
    // SAFETY: as above; the tiles' contents are not needed any more.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}

/// A unit of work: 16 rows of weights (the first or second half of the panel) times two tiles of activations, or the
/// last one.
#[derive(Clone, Copy)]
struct Unit {
    half: usize,
    tile: usize,
    both: bool,
}

/// All units. The four steps of a unit's products and the four quarters of the previous unit's fold alternate, so that
/// the processor finds work for its tile unit and for its vector unit at any time.
///
/// What bounds this is loads: 16 cache lines for each tile register. Two tiles of activations for one of weights need
/// 4 loads for 4 products (two of weights for one of activations: 5), and the fold broadcasts each of its numbers of a row of weights
/// once for both.
///
/// # Safety
/// As [`multiply`], and [`CONFIG`] is loaded.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
#[inline]
unsafe fn pass<const PAIRS: usize>(
    panel: &Panel,
    tiles: &[TileBlock],
    layout: Layout,
    count: usize,
    sums: &mut [Sums],
    totals: &mut [Totals; 2],
) {
    let halves = count.div_ceil(16);
    let units = tiles.len().div_ceil(2) * halves;
    let unit = |u: usize| {
        let tile = u / halves * 2;
        Unit { half: u % halves, tile, both: tile + 1 < tiles.len() }
    };
    for u in 0..=units {
        let (now, before) = totals.split_at_mut(1);
        let (now, before) = if u % 2 == 0 { (&mut now[0], &before[0]) } else { (&mut before[0], &now[0]) };
        let current = (u < units).then(|| unit(u));
        let previous = u.checked_sub(1).map(unit);
        for step in 0..4 {
            if let Some(unit) = current {
                // SAFETY: the tiles are configured, and nothing else uses them: code compiled without AMX never
                // touches a tile register, so their contents last from one step to the next.
                unsafe {
                    if unit.both {
                        products::<true>(panel, &tiles[unit.tile..], unit.half, step);
                    } else {
                        products::<false>(panel, &tiles[unit.tile..], unit.half, step);
                    }
                }
            }
            if let Some(unit) = previous {
                let first = 16 * unit.half + 4 * step;
                let total = |m: usize, n: usize| -> (__m512i, __m512i) {
                    (load_i32(&before.lo[n][m % 16]), load_i32(&before.hi[n][m % 16]))
                };
                let rows = first..first + 4;
                if let ([a, b, ..], [sum_a, sum_b, ..]) = (&tiles[unit.tile..], &mut sums[unit.tile..]) {
                    fold::<PAIRS, 2>(panel, [a, b], layout, rows, total, [sum_a, sum_b]);
                } else {
                    fold::<PAIRS, 1>(panel, [&tiles[unit.tile]], layout, rows, total, [&mut sums[unit.tile]]);
                }
            }
        }
        if let Some(unit) = current {
            // SAFETY: as above.
            unsafe { if unit.both { store::<true>(now) } else { store::<false>(now) } };
        }
    }
}

/// Adds the products of 64 values, those of `step`, to tiles 0 (low bytes times the first tile of activations), 1 (high bytes)
/// and, if `BOTH`, 2 and 3 (the second tile). Step 0 starts at zero.
///
/// # Safety
/// AMX-INT8 is usable and [`CONFIG`] is loaded.
#[inline]
unsafe fn products<const BOTH: bool>(panel: &Panel, tiles: &[TileBlock], half: usize, step: usize) {
    const { assert!(LANES == 16) };
    let quants = |n: usize| &tiles[n].quants.as_chunks::<16>().0[step];
    let (a, lo, hi) = (quants(0), &panel.lo[half][step], &panel.hi[half][step]);
    // SAFETY: each load reads 16 rows of 64 bytes with a stride of 64, that is exactly one of the 1 KiB arrays. The
    // instructions change nothing but tile registers.
    unsafe {
        if step == 0 {
            asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                options(nostack, nomem, preserves_flags));
        }
        if BOTH {
            asm!(
                "tileloadd tmm6, [{lo} + {s}*1]",
                "tileloadd tmm4, [{a} + {s}*1]",
                "tileloadd tmm7, [{hi} + {s}*1]",
                "tileloadd tmm5, [{b} + {s}*1]",
                "tdpbusd tmm0, tmm6, tmm4",
                "tdpbusd tmm1, tmm7, tmm4",
                "tdpbusd tmm2, tmm6, tmm5",
                "tdpbusd tmm3, tmm7, tmm5",
                a = in(reg) a.as_ptr(), b = in(reg) quants(1).as_ptr(),
                lo = in(reg) lo.as_ptr(), hi = in(reg) hi.as_ptr(), s = in(reg) 64_usize,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, readonly, preserves_flags)
            );
        } else {
            asm!(
                "tileloadd tmm6, [{lo} + {s}*1]",
                "tileloadd tmm4, [{a} + {s}*1]",
                "tileloadd tmm7, [{hi} + {s}*1]",
                "tdpbusd tmm0, tmm6, tmm4",
                "tdpbusd tmm1, tmm7, tmm4",
                a = in(reg) a.as_ptr(), lo = in(reg) lo.as_ptr(), hi = in(reg) hi.as_ptr(), s = in(reg) 64_usize,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack, readonly, preserves_flags)
            );
        }
    }
}

/// Writes tiles 0 to 3 (without `BOTH`: 0 and 1).
///
/// # Safety
/// AMX-INT8 is usable and [`CONFIG`] is loaded.
#[inline]
unsafe fn store<const BOTH: bool>(totals: &mut Totals) {
    let ([lo, lo1], [hi, hi1]) = (&mut totals.lo, &mut totals.hi);
    // SAFETY: each store writes 16 rows of 64 bytes with a stride of 64, that is exactly one of the 1 KiB arrays.
    unsafe {
        asm!(
            "tilestored [{lo} + {s}*1], tmm0",
            "tilestored [{hi} + {s}*1], tmm1",
            lo = in(reg) lo.as_mut_ptr(), hi = in(reg) hi.as_mut_ptr(), s = in(reg) 64_usize,
            options(nostack, preserves_flags)
        );
        if BOTH {
            asm!(
                "tilestored [{lo} + {s}*1], tmm2",
                "tilestored [{hi} + {s}*1], tmm3",
                lo = in(reg) lo1.as_mut_ptr(), hi = in(reg) hi1.as_mut_ptr(), s = in(reg) 64_usize,
                options(nostack, preserves_flags)
            );
        }
    }
}
