//! Unpacking of the K-quants into lanes: what differs between the formats.

use super::lanes::{Lanes, Row};

/// A format with blocks of 256 values.
pub(super) trait Wide {
    /// Bytes in a block.
    const BYTES: usize;
    /// Whether the format has minimums.
    const MINS: bool;

    /// Folds one block of each row, times block `b` of every row of `x`, into `acc`.
    ///
    /// # Safety
    /// `V`'s instruction set; `BYTES` readable bytes at each of the first `V::ROWS` rows of `w`; block `b` of `x`.
    unsafe fn block<V: Lanes, const T: usize>(
        w: &[*const u8; 4],
        x: &[Row; T],
        b: usize,
        acc: &mut [V::Floats; T],
    );
}

/// 4 bits, a 6-bit scale and minimum for 32 values.
pub(super) struct Q4K;
/// 5 bits, scales as Q4_K.
pub(super) struct Q5K;
/// 6 bits, an i8 scale for 16 values.
pub(super) struct Q6K;
/// 3 bits, a signed 6-bit scale for 16 values.
pub(super) struct Q3K;
/// 2 bits, a 4-bit scale and minimum for 16 values.
pub(super) struct Q2K;

/// Shuffle index of a zero byte.
pub(super) const Z: u8 = 0x80;

/// Spreads bytes `k` and `k + 1` as the low (`shift` 0) or high (1) bytes of four words each.
const fn spread_pair(k: u8, high: bool) -> [u8; 16] {
    let mut table = [Z; 16];
    let mut i = 0;
    while i < 8 {
        table[2 * i + high as usize] = k + (i / 4) as u8;
        i += 1;
    }
    table
}

/// Widens bytes `k..k + 8` to the low or high bytes of words.
const fn widen(k: u8, high: bool) -> [u8; 16] {
    let mut table = [Z; 16];
    let mut i = 0;
    while i < 8 {
        table[2 * i + high as usize] = k + i as u8;
        i += 1;
    }
    table
}

/// A constant of 16 bytes made of four runs of 4.
pub(super) const fn fours(bytes: [u8; 4]) -> [u8; 16] {
    let mut out = [0; 16];
    let mut i = 0;
    while i < 16 {
        out[i] = bytes[i / 4];
        i += 1;
    }
    out
}

/// The eight scales, then the eight minimums, from the 16 bytes at the start of a Q4_K or Q5_K block.
#[inline(always)]
unsafe fn scale_mins<V: Lanes>(head: V) -> V {
    const LOW: [u8; 16] = [4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
    const HIGH: [u8; 16] = [Z, Z, Z, Z, 4, 5, 6, 7, Z, Z, Z, Z, 8, 9, 10, 11];
    const STRAIGHT: [u8; 16] = fours([63, 15, 63, 0]);
    const UPPER: [u8; 16] = fours([0, 0, 0, 15]);
    const TOP: [u8; 16] = fours([0, 0x30, 0, 0x30]);
    // SAFETY: the caller's instruction set; the constants have 16 bytes.
    unsafe {
        let low = head.shuffle(&LOW);
        let out = low.and(V::spread(STRAIGHT.as_ptr())).or_and(low.shift(-4), V::spread(UPPER.as_ptr()));
        out.or_and(head.shuffle(&HIGH).shift(-2), V::spread(TOP.as_ptr()))
    }
}

/// Sub-blocks `2 * c` and `2 * c + 1`: 64 values.
#[inline(always)]
unsafe fn mac64<V: Lanes, const T: usize>(
    isum: &mut [V; T],
    w: [V; 4],
    x: &[Row; T],
    at: usize,
    s: V::Scale,
) {
    for (isum, x) in isum.iter_mut().zip(x) {
        // SAFETY: the caller's instruction set; `at + 64` is at most the end of its block.
        unsafe {
            let q = x.q.add(at);
            let q = [V::spread(q), V::spread(q.add(16)), V::spread(q.add(32)), V::spread(q.add(48))];
            *isum = V::mac32(*isum, w, q, s);
        }
    }
}

/// The end of a block with minimums.
#[inline(always)]
unsafe fn fold_mins<V: Lanes, const T: usize>(
    head: V,
    scales: V,
    isum: [V; T],
    x: &[Row; T],
    b: usize,
    acc: &mut [V::Floats; T],
) {
    // SAFETY: the caller's instruction set; block `b` of `x` has 8 sums of 2 bytes and a scale.
    unsafe {
        let (d, mins) = (head.halves(), scales.shuffle(&const { widen(8, false) }));
        for t in 0..T {
            let msum = V::madd(V::zero(), mins, V::spread(x[t].sums32.add(16 * b)));
            acc[t] = V::fold(acc[t], d, *x[t].d.add(b), isum[t].sums(msum));
        }
    }
}

impl Wide for Q4K {
    const BYTES: usize = 144;
    const MINS: bool = true;

    #[inline(always)]
    unsafe fn block<V: Lanes, const T: usize>(
        w: &[*const u8; 4],
        x: &[Row; T],
        b: usize,
        acc: &mut [V::Floats; T],
    ) {
        // SAFETY: the caller's; every offset is inside the block's 144 bytes or 256 values.
        unsafe {
            let head = V::gather(w, 0);
            let scales = scale_mins(head);
            let mut isum = [V::zero(); T];
            for (c, pair) in PAIRS.iter().enumerate() {
                let (q0, q1, low) = (V::gather(w, 16 + 32 * c), V::gather(w, 32 + 32 * c), V::splat(15));
                let q = [q0.and(low), q1.and(low), q0.shift(-4).and(low), q1.shift(-4).and(low)];
                let s = V::scale(scales.shuffle(pair));
                mac64(&mut isum, q, x, 256 * b + 64 * c, s);
            }
            fold_mins(head, scales, isum, x, b, acc);
        }
    }
}

/// Tables that spread scales `2 * c` and `2 * c + 1`.
const PAIRS: [[u8; 16]; 4] =
    [spread_pair(0, false), spread_pair(2, false), spread_pair(4, false), spread_pair(6, false)];

/// Tables that spread signed scales `2 * c` and `2 * c + 1`.
const HIGH_PAIRS: [[u8; 16]; 8] = [
    spread_pair(0, true),
    spread_pair(2, true),
    spread_pair(4, true),
    spread_pair(6, true),
    spread_pair(8, true),
    spread_pair(10, true),
    spread_pair(12, true),
    spread_pair(14, true),
];

impl Wide for Q5K {
    const BYTES: usize = 176;
    const MINS: bool = true;

    #[inline(always)]
    unsafe fn block<V: Lanes, const T: usize>(
        w: &[*const u8; 4],
        x: &[Row; T],
        b: usize,
        acc: &mut [V::Floats; T],
    ) {
        // SAFETY: the caller's; every offset is inside the block's 176 bytes or 256 values.
        unsafe {
            let head = V::gather(w, 0);
            let scales = scale_mins(head);
            let high = [V::gather(w, 16), V::gather(w, 32)];
            let mut isum = [V::zero(); T];
            q5_chunk::<V, T, 0>(w, high, scales, x, b, &mut isum);
            q5_chunk::<V, T, 1>(w, high, scales, x, b, &mut isum);
            q5_chunk::<V, T, 2>(w, high, scales, x, b, &mut isum);
            q5_chunk::<V, T, 3>(w, high, scales, x, b, &mut isum);
            fold_mins(head, scales, isum, x, b, acc);
        }
    }
}

/// Sub-blocks `2 * C` and `2 * C + 1` of Q5_K; their fifth bits are bits `2 * C` and `2 * C + 1` of `high`.
#[inline(always)]
unsafe fn q5_chunk<V: Lanes, const T: usize, const C: usize>(
    w: &[*const u8; 4],
    high: [V; 2],
    scales: V,
    x: &[Row; T],
    b: usize,
    isum: &mut [V; T],
) {
    // SAFETY: as in `block`; C < 4.
    unsafe {
        let (q0, q1) = (V::gather(w, 48 + 32 * C), V::gather(w, 64 + 32 * C));
        let (low, fifth, left) = (V::splat(15), V::splat(16), 4 - 2 * C as i32);
        let q = [
            q0.and(low).or_and(high[0].shift(left), fifth),
            q1.and(low).or_and(high[1].shift(left), fifth),
            q0.shift(-4).and(low).or_and(high[0].shift(left - 1), fifth),
            q1.shift(-4).and(low).or_and(high[1].shift(left - 1), fifth),
        ];
        mac64(isum, q, x, 256 * b + 64 * C, V::scale(scales.shuffle(&PAIRS[C])));
    }
}

/// Runs `k` and `k + 1`: 32 values with signed byte scales.
#[inline(always)]
unsafe fn mac_runs<V: Lanes, const T: usize>(
    isum: &mut [V; T],
    w: [V; 2],
    x: &[Row; T],
    b: usize,
    k: usize,
    scales: V,
) {
    // SAFETY: the caller's instruction set; k + 2 <= 16, so the 32 values are inside block `b`.
    unsafe {
        let s = V::scale(scales.shuffle(&HIGH_PAIRS[k / 2]).high_bytes());
        for (isum, x) in isum.iter_mut().zip(x) {
            let q = x.q.add(256 * b + 16 * k);
            *isum = V::mac16(*isum, w, [V::spread(q), V::spread(q.add(16))], s);
        }
    }
}

/// The end of a block of unsigned integers that stand `1 << SHIFT` too high.
#[inline(always)]
unsafe fn fold_shifted<V: Lanes, const T: usize, const SHIFT: i32>(
    d: V::Floats,
    scales: V,
    isum: [V; T],
    x: &[Row; T],
    b: usize,
    acc: &mut [V::Floats; T],
) {
    // SAFETY: the caller's instruction set; block `b` of `x` has 16 sums of 2 bytes and a scale.
    unsafe {
        let first = scales.shuffle(&const { widen(0, true) }).high_bytes();
        let second = scales.shuffle(&const { widen(8, true) }).high_bytes();
        for t in 0..T {
            let sums = x[t].sums16.add(32 * b);
            let over = V::madd(V::madd(V::zero(), first, V::spread(sums)), second, V::spread(sums.add(16)));
            let ints = isum[t].sub_shifted(over, SHIFT).sum();
            acc[t] = V::fold(acc[t], d, *x[t].d.add(b), ints);
        }
    }
}

impl Wide for Q6K {
    const BYTES: usize = 210;
    const MINS: bool = false;

    #[inline(always)]
    unsafe fn block<V: Lanes, const T: usize>(
        w: &[*const u8; 4],
        x: &[Row; T],
        b: usize,
        acc: &mut [V::Floats; T],
    ) {
        // SAFETY: the caller's; every offset is inside the block's 210 bytes or 256 values.
        unsafe {
            let scales = V::gather(w, 192);
            let mut isum = [V::zero(); T];
            for h in 0..2 {
                let low0 = [V::gather(w, 64 * h), V::gather(w, 64 * h + 16)];
                let low1 = [V::gather(w, 64 * h + 32), V::gather(w, 64 * h + 48)];
                let high = [V::gather(w, 128 + 32 * h), V::gather(w, 144 + 32 * h)];
                let k = 8 * h;
                mac_runs(&mut isum, q6(low0, 0, high, 4), x, b, k, scales);
                mac_runs(&mut isum, q6(low1, 0, high, 2), x, b, k + 2, scales);
                mac_runs(&mut isum, q6(low0, -4, high, 0), x, b, k + 4, scales);
                mac_runs(&mut isum, q6(low1, -4, high, -2), x, b, k + 6, scales);
            }
            fold_shifted::<V, T, 5>(V::half_at(w, 208), scales, isum, x, b, acc);
        }
    }
}

/// Four low bits and two high bits, each shifted into place.
#[inline(always)]
unsafe fn q6<V: Lanes>(low: [V; 2], low_shift: i32, high: [V; 2], high_shift: i32) -> [V; 2] {
    // SAFETY: the caller's instruction set.
    unsafe {
        let (nibble, top) = (V::splat(15), V::splat(0x30));
        [
            low[0].shift(low_shift).and(nibble).or_and(high[0].shift(high_shift), top),
            low[1].shift(low_shift).and(nibble).or_and(high[1].shift(high_shift), top),
        ]
    }
}

impl Wide for Q3K {
    const BYTES: usize = 110;
    const MINS: bool = false;

    #[inline(always)]
    unsafe fn block<V: Lanes, const T: usize>(
        w: &[*const u8; 4],
        x: &[Row; T],
        b: usize,
        acc: &mut [V::Floats; T],
    ) {
        // SAFETY: the caller's; every offset is inside the block's 110 bytes or 256 values.
        unsafe {
            // The last 16 bytes of the block: 2 of quants, the 12 of the scales, the f16.
            let scales = q3_scales(V::gather(w, 94));
            let mask = [V::gather(w, 0), V::gather(w, 16)];
            let mut isum = [V::zero(); T];
            q3_half::<V, T, 0>(w, mask, scales, x, b, &mut isum);
            q3_half::<V, T, 1>(w, mask, scales, x, b, &mut isum);
            fold_shifted::<V, T, 2>(V::half_at(w, 108), scales, isum, x, b, acc);
        }
    }
}

/// The sixteen signed scales of a Q3_K block from its last 16 bytes.
#[inline(always)]
unsafe fn q3_scales<V: Lanes>(tail: V) -> V {
    const LOW: [u8; 16] = [2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9];
    const HIGH: [u8; 16] = [10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13];
    const MASKS: [[u8; 16]; 6] = [
        fours([15, 15, 0, 0]),
        fours([0, 0, 15, 15]),
        fours([0x30, 0, 0, 0]),
        fours([0, 0x30, 0, 0]),
        fours([0, 0, 0x30, 0]),
        fours([0, 0, 0, 0x30]),
    ];
    // SAFETY: the caller's instruction set; the constants have 16 bytes.
    unsafe {
        let (low, high) = (tail.shuffle(&LOW), tail.shuffle(&HIGH));
        let out = low.and(V::spread(MASKS[0].as_ptr())).or_and(low.shift(-4), V::spread(MASKS[1].as_ptr()));
        let out = out.or_and(high.shift(4), V::spread(MASKS[2].as_ptr()));
        let out = out.or_and(high.shift(2), V::spread(MASKS[3].as_ptr()));
        let out = out.or_and(high, V::spread(MASKS[4].as_ptr()));
        out.or_and(high.shift(-2), V::spread(MASKS[5].as_ptr())).sub8(V::splat(32))
    }
}

/// Values `128 * H ..` of Q3_K; their third bits are bits `4 * H ..` of `mask`.
#[inline(always)]
unsafe fn q3_half<V: Lanes, const T: usize, const H: usize>(
    w: &[*const u8; 4],
    mask: [V; 2],
    scales: V,
    x: &[Row; T],
    b: usize,
    isum: &mut [V; T],
) {
    // SAFETY: as in `block`; H < 2.
    unsafe {
        let quants = [V::gather(w, 32 + 32 * H), V::gather(w, 48 + 32 * H)];
        let left = 2 - 4 * H as i32;
        mac_runs(isum, q3(quants, 0, mask, left), x, b, 8 * H, scales);
        mac_runs(isum, q3(quants, -2, mask, left - 1), x, b, 8 * H + 2, scales);
        mac_runs(isum, q3(quants, -4, mask, left - 2), x, b, 8 * H + 4, scales);
        mac_runs(isum, q3(quants, -6, mask, left - 3), x, b, 8 * H + 6, scales);
    }
}

/// Two low bits and a third, each shifted into place.
#[inline(always)]
unsafe fn q3<V: Lanes>(low: [V; 2], low_shift: i32, mask: [V; 2], mask_shift: i32) -> [V; 2] {
    // SAFETY: the caller's instruction set.
    unsafe {
        let (two, third) = (V::splat(3), V::splat(4));
        [
            low[0].shift(low_shift).and(two).or_and(mask[0].shift(mask_shift), third),
            low[1].shift(low_shift).and(two).or_and(mask[1].shift(mask_shift), third),
        ]
    }
}

impl Wide for Q2K {
    const BYTES: usize = 84;
    const MINS: bool = true;

    #[inline(always)]
    unsafe fn block<V: Lanes, const T: usize>(
        w: &[*const u8; 4],
        x: &[Row; T],
        b: usize,
        acc: &mut [V::Floats; T],
    ) {
        // The two f16 at the end of the block's last 16 bytes.
        const ENDS: [u8; 16] = [12, 13, 14, 15, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z];
        // SAFETY: the caller's; every offset is inside the block's 84 bytes or 256 values, which have 16 sums of 2 bytes.
        unsafe {
            let (head, nibble) = (V::gather(w, 0), V::splat(15));
            let (scales, mins) = (head.and(nibble), head.shift(-4).and(nibble));
            let mut isum = [V::zero(); T];
            for h in 0..2 {
                let q = [V::gather(w, 16 + 32 * h), V::gather(w, 32 + 32 * h)];
                let k = 8 * h;
                mac_runs(&mut isum, q2(q, 0), x, b, k, scales);
                mac_runs(&mut isum, q2(q, -2), x, b, k + 2, scales);
                mac_runs(&mut isum, q2(q, -4), x, b, k + 4, scales);
                mac_runs(&mut isum, q2(q, -6), x, b, k + 6, scales);
            }
            let d = V::gather(w, 68).shuffle(&ENDS).halves();
            let first = mins.shuffle(&const { widen(0, false) });
            let second = mins.shuffle(&const { widen(8, false) });
            for t in 0..T {
                let sums = x[t].sums16.add(32 * b);
                let msum =
                    V::madd(V::madd(V::zero(), first, V::spread(sums)), second, V::spread(sums.add(16)));
                acc[t] = V::fold(acc[t], d, *x[t].d.add(b), isum[t].sums(msum));
            }
        }
    }
}

/// Two bits, shifted into place.
#[inline(always)]
unsafe fn q2<V: Lanes>(q: [V; 2], shift: i32) -> [V; 2] {
    // SAFETY: the caller's instruction set.
    unsafe { [q[0].shift(shift).and(V::splat(3)), q[1].shift(shift).and(V::splat(3))] }
}
