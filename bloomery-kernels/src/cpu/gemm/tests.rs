#![cfg(target_arch = "x86_64")]

use super::super::testing::weights;
use bloomery_gguf::blocks::{BlockIQ4XS, BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, SuperBlock};

use super::*;

fn check<B: SuperBlock>(format: Format) {
    let mut seed = 1;
    for isa in Isa::available() {
        let Some(gemm) = Gemm::new(isa, format) else { continue };
        for (rows, cols, n) in [
            (1usize, 256usize, 1usize),
            (33, 512, 17),
            (16, 2048, 33),
            (32, 768, 300),
            (31, 256, 16),
            (5, 512, 31),
        ] {
            seed += 1;
            let data = weights(format, rows * cols, seed);
            let w = Matrix::new(format, rows, cols, &data).unwrap();
            let blocks = cols / 256;
            let count = n.div_ceil(LANES);
            let mut tiles = vec![TileBlock::ZERO; blocks * count];
            let q = |t: usize, c: usize| ((t * 7919 + c * 104_729 + t * c * 31) % 255) as i32 - 127;
            let d = |t: usize, b: usize| (1.0 + t as f32 * 0.37 + b as f32 * 0.11) * -0.013;
            for t in 0..n {
                for b in 0..blocks {
                    let quants: [i8; 256] = std::array::from_fn(|i| q(t, 256 * b + i) as i8);
                    let sums: [i16; 16] = std::array::from_fn(|r| {
                        quants[16 * r..16 * r + 16].iter().map(|q| i16::from(*q)).sum()
                    });
                    tiles[b * count + t / LANES].set(t % LANES, d(t, b), &quants, &sums);
                }
            }
            for first in (0..rows).step_by(PANEL) {
                let range = first..(first + PANEL).min(rows);
                let mut seen = 0;
                gemm.run(
                    &w,
                    range.clone(),
                    Tiles { tiles: count, cols, wide: &tiles, narrow: &[] },
                    0..n,
                    &mut |t, values| {
                        assert_eq!(t, seen);
                        seen += 1;
                        for (m, value) in range.clone().zip(values) {
                            let (mut dot, mut min) = (0f32, 0f32);
                            for b in 0..blocks {
                                let block = B::read(&w.row(m)[b * B::BYTES..]).unwrap();
                                let (mut total, mut mins) = (0, 0);
                                for run in 0..16 {
                                    for i in 0..16 {
                                        let a = q(t, 256 * b + 16 * run + i);
                                        let v = block.quants(run / 2)[16 * (run % 2) + i];
                                        total += block.scale(run) * i32::from(v) * a;
                                        mins += block.min(run) * a;
                                    }
                                }
                                dot = (block.d() * d(t, b)).mul_add(total as f32, dot);
                                min = (block.dmin() * d(t, b)).mul_add(mins as f32, min);
                            }
                            assert_eq!(
                                value.to_bits(),
                                (dot - min).to_bits(),
                                "{isa:?} {format} row {m} activation {t}"
                            );
                        }
                    },
                );
                assert_eq!(seen, n);
            }
        }
    }
}

#[test]
fn every_tier_has_the_bits_of_the_definition() {
    check::<BlockQ2K>(Format::Q2_K);
    check::<BlockIQ4XS>(Format::IQ4_XS);
    check::<BlockQ3K>(Format::Q3_K);
    check::<BlockQ4K>(Format::Q4_K);
    check::<BlockQ5K>(Format::Q5_K);
    check::<BlockQ6K>(Format::Q6_K);
}
