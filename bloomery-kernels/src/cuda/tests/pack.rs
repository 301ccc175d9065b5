//! Weights whose format is not kept in tiles.

use bloomery_gguf::blocks::e8m0_half;
use bloomery_gguf::{Format, dequantize};

use super::super::Pack;
use super::super::testing::places;
use crate::cpu::testing::weights;

#[test]
fn whole_multiples_of_a_scale_become_bytes_with_the_same_scale() {
    for mut place in places() {
        for format in [Format::Q4_0, Format::Q5_0, Format::IQ4_NL, Format::MXFP4] {
            for (count, rows, cols) in [(1, 16, 256), (3, 17, 288), (2, 5, 32), (1, 33, 544)] {
                let mut data = weights(format, count * rows * cols, 5);
                if format == Format::MXFP4 {
                    // Every scale that a half float has.
                    data.chunks_mut(17).zip((104..144).cycle()).for_each(|(block, scale)| block[0] = scale);
                }
                let wanted = as_bytes(format, &data);
                let mut tiles = [(format, data), (Format::Q8_0, wanted)].map(|(format, data)| {
                    let from = place.buffer(&data).span();
                    let to = place.poison::<u8>(Pack::bytes(format, count, rows, cols));
                    let pack = Pack { format, count, rows, cols, from, to: to.span() };
                    place.run(&pack.launch(place.info()).unwrap());
                    place.read(&to)
                });
                // Values that a matrix does not have may be anything: their scales are zero.
                tiles.iter_mut().for_each(|tiles| clear(tiles));
                assert!(tiles[0] == tiles[1], "{format}: {count} of {rows} x {cols}");
            }
        }
    }
}

#[test]
fn scales_that_no_half_float_has_are_the_nearest_ones() {
    for mut place in places() {
        let rows = 16;
        let scales = [0_u8, 90, 103, 104, 143, 144, 200, 255];
        let row: Vec<u8> = scales.iter().flat_map(|&scale| [&[scale][..], &[0x17; 16]].concat()).collect();
        let from = place.buffer(&row.repeat(rows)).span();
        let to = place.poison::<u8>(Pack::bytes(Format::MXFP4, 1, rows, 256));
        let pack = Pack { format: Format::MXFP4, count: 1, rows, cols: 256, from, to: to.span() };
        place.run(&pack.launch(place.info()).unwrap());
        let tiles = place.read(&to);
        let found =
            tiles[8 * 512..][..16].as_chunks().0.iter().map(|bits| half::f16::from_le_bytes(*bits).to_f32());
        let largest = 2.0_f32.powi(15);
        let wanted = [0.0, 0.0, 0.0, 2.0_f32.powi(-24), largest, largest, largest, largest];
        assert_eq!(found.collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn nibbles_with_a_minimum_are_five_bits_without_the_fifth() {
    for mut place in places() {
        for (count, rows, cols) in [(1, 16, 256), (3, 17, 288), (2, 5, 32)] {
            let data = weights(Format::Q4_1, count * rows * cols, 5);
            let wanted =
                data.chunks(20).flat_map(|block| [&block[..4], &[0; 4], &block[4..]].concat()).collect();
            let [found, wanted] = [(Format::Q4_1, data), (Format::Q5_1, wanted)].map(|(format, data)| {
                let from = place.buffer(&data).span();
                let to = place.poison::<u8>(Pack::bytes(format, count, rows, cols));
                let pack = Pack { format, count, rows, cols, from, to: to.span() };
                place.run(&pack.launch(place.info()).unwrap());
                place.read(&to)
            });
            assert!(found == wanted, "{count} of {rows} x {cols}");
        }
    }
}

/// The same values as Q8_0.
fn as_bytes(format: Format, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for block in data.chunks_exact(format.block_bytes()) {
        let scale = match format {
            Format::MXFP4 => half::f16::from_f32(e8m0_half(block[0])),
            _ => half::f16::from_le_bytes([block[0], block[1]]),
        };
        let mut values = [0.0; 32];
        dequantize(format, block, &mut values).unwrap();
        out.extend_from_slice(&scale.to_le_bytes());
        let scale = scale.to_f32();
        let unit = |value: &f32| if scale == 0.0 { 0 } else { (value / scale).round() as i8 as u8 };
        out.extend(values.iter().map(unit));
    }
    out
}

/// Zeros in the values of blocks whose scale is zero.
fn clear(tiles: &mut [u8]) {
    for tile in tiles.chunks_exact_mut(16 * 8 * 34) {
        let (values, scales) = tile.split_at_mut(8 * 512);
        for (c, chunk) in values.chunks_exact_mut(512).enumerate() {
            for (at, value) in chunk.iter_mut().enumerate() {
                let (lane, word) = (at / 16, at % 16 / 4);
                let row = lane / 4 + 8 * (word / 2);
                if scales[row * 16 + 2 * c..][..2] == [0, 0] {
                    *value = 0;
                }
            }
        }
    }
}
