//! Every instruction set gives the bits of the scalar definition, operation by operation.

use super::*;

/// Values of all magnitudes and signs, some special ones among them.
fn samples(seed: u64) -> [f32; LANES] {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::array::from_fn(|i| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (seed + i as u64) % 23 {
            0 => 0.0,
            1 => -0.0,
            2 => f32::INFINITY,
            3 => f32::NEG_INFINITY,
            4 => 1e-42,
            _ => f32::from_bits((state >> 32) as u32 & 0xbfff_ffff),
        }
    })
}

struct AllOps<'a> {
    a: &'a [f32; LANES],
    b: &'a [f32; LANES],
    c: &'a [f32; LANES],
    halves: &'a [u16; LANES],
    bytes: &'a [i8; LANES],
}

impl Kernel for AllOps<'_> {
    type Output = Vec<f32>;
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) -> Vec<f32> {
        // SAFETY: the arrays hold 16 values; the instruction set is the caller's promise.
        unsafe {
            let (a, b, c) = (V::load(self.a.as_ptr()), V::load(self.b.as_ptr()), V::load(self.c.as_ptr()));
            let results = [
                a.add(b),
                a.sub(b),
                a.mul(b),
                a.div(b),
                a.fma(b, c),
                a.max(b),
                a.if_less(b, c, a),
                a.nan_of(a.sub(a)),
                a.add_exponent(b),
                V::splat(3.5),
                V::load_f16(self.halves.as_ptr()),
                V::load_i8(self.bytes.as_ptr()),
            ];
            let mut out = vec![0.0; results.len() * LANES];
            for (to, value) in out.chunks_exact_mut(LANES).zip(results) {
                value.store(to.as_mut_ptr());
            }
            let mut halves = [0; LANES];
            b.store_f16(halves.as_mut_ptr());
            out.extend(halves.map(|bits| half::f16::from_bits(bits).to_f32()));
            out.extend([a.sum(), b.largest()]);
            let sum = c.add(a);
            out.extend(V::sums([[a, b], [c, sum]]).as_flattened());
            out.extend(V::sums([[a, b, c, sum], [sum, c, a, b]]).as_flattened());
            out
        }
    }
}

#[test]
fn every_operation_has_the_same_bits() {
    for seed in 0..2000 {
        let [a, b, c] = [0, 1, 2].map(|k| samples(3 * seed + k));
        let halves = a.map(|x| x.to_bits() as u16 & 0xfbff);
        let bytes = b.map(|x| x.to_bits() as i8);
        let run = |isa| {
            let all = AllOps { a: &a, b: &b, c: &c, halves: &halves, bytes: &bytes };
            // The sign and payload of a NaN are nobody's business.
            dispatch(isa, all).into_iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
        };
        let expected: Vec<u32> = run(Isa::Scalar);
        for isa in Isa::available() {
            assert_eq!(run(isa), expected, "{isa:?}, seed {seed}");
        }
    }
}
