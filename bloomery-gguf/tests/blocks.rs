//! Every format against the values of the `gguf` package, bit for bit. `tools/block_oracle.py` wrote the data.
#![expect(clippy::unwrap_used, reason = "a test")]

use bloomery_gguf::{
    DequantizeError, Format,
    blocks::{self, ScaleMins, SuperBlock, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, pack},
    dequantize,
};

/// Bytes of the blocks, bits of their values.
fn oracle(format: Format) -> (Vec<u8>, Vec<u32>) {
    let path =
        format!("{}/tests/data/blocks/{}.bin", env!("CARGO_MANIFEST_DIR"), format.name().to_lowercase());
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let count = u32::from_le_bytes(file[..4].try_into().unwrap()) as usize;
    let (blocks, values) = file[4..].split_at(count * format.block_bytes());
    let values: Vec<u32> = values.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    assert_eq!(values.len(), count * format.block_len(), "{format}");
    (blocks.to_vec(), values)
}

fn has_oracle(format: Format) -> bool {
    !matches!(format, Format::F32 | Format::F64 | Format::I8 | Format::I16 | Format::I32 | Format::I64)
}

#[test]
fn every_format_is_bit_exact() {
    for format in Format::all().filter(|format| has_oracle(*format)) {
        let (bytes, expected) = oracle(format);
        let mut values = vec![f32::NAN; expected.len()];
        if dequantize(format, &bytes, &mut values).is_err() {
            eprintln!("SKIP {format}");
            continue;
        }
        for (index, (value, expected)) in values.iter().zip(&expected).enumerate() {
            let (block, at) = (index / format.block_len(), index % format.block_len());
            assert_eq!(
                value.to_bits(),
                *expected,
                "{format} block {block} value {at}: {value} instead of {}",
                f32::from_bits(*expected)
            );
        }
    }
}

#[test]
fn rows_that_cannot_be_dequantised_are_refused_by_name() {
    for format in [Format::I8, Format::I16, Format::I32, Format::I64] {
        let error = dequantize(format, &vec![0; format.block_bytes()], &mut [0.0]).unwrap_err();
        assert_eq!(error, DequantizeError::UnsupportedFormat { format });
        assert!(error.to_string().contains(format.name()), "{error}");
    }
    for format in Format::all() {
        let (bytes, values) = (format.block_bytes(), format.block_len());
        for (bytes, values) in [(2 * bytes, values), (bytes, 2 * values), (bytes + 1, values), (0, values)] {
            let error = dequantize(format, &vec![0; bytes], &mut vec![0.0; values]).unwrap_err();
            assert!(matches!(error, DequantizeError::Length { .. }), "{error}");
        }
        if values > 1 {
            let error = dequantize(format, &vec![0; bytes], &mut vec![0.0; values - 1]).unwrap_err();
            assert!(matches!(error, DequantizeError::Length { .. }), "{error}");
        }
    }
    let mut bytes = [0; 3 * 36];
    bytes[2 * 36 + 3] = 0x80;
    let error = dequantize(Format::NVFP4, &bytes, &mut [0.0; 3 * 64]).unwrap_err();
    assert_eq!(error, DequantizeError::InvalidScale { format: Format::NVFP4, block: 2 });
}

#[test]
fn plain_floats() {
    let mut out = [0.0; 3];
    let floats = [1.5f32, -0.0, f32::MIN_POSITIVE / 4.0];
    dequantize(Format::F32, floats.map(f32::to_le_bytes).as_flattened(), &mut out).unwrap();
    assert_eq!(out.map(f32::to_bits), floats.map(f32::to_bits));
    dequantize(Format::F64, [1.5f64, -2.5, 1e300].map(f64::to_le_bytes).as_flattened(), &mut out).unwrap();
    assert_eq!(out, [1.5, -2.5, f32::INFINITY]);
}

#[test]
fn halves_round_to_nearest_even() {
    // Every half survives the way to f32 and back, and so does every number halfway to the next one, as the even one.
    for bits in 0..0x7c00u16 {
        let (value, next) = (f16_to_f32(bits), f16_to_f32(bits + 1));
        assert_eq!(f32_to_f16(value), bits);
        assert_eq!(f32_to_f16(-value), bits | 0x8000);
        let middle = if next.is_finite() { (value + next) / 2.0 } else { 65520.0 };
        assert_eq!(f32_to_f16(middle), bits + (bits & 1), "{middle}");
        assert_eq!(f32_to_f16(middle.next_down()), bits, "{middle}");
        assert_eq!(f32_to_f16(middle.next_up()), bits + 1, "{middle}");
    }
    assert_eq!(f16_to_f32(0x3c00), 1.0);
    assert_eq!(f16_to_f32(0x7bff), 65504.0);
    assert_eq!(f16_to_f32(0x0001), 2f32.powi(-24));
    assert_eq!(f16_to_f32(0xfc00), f32::NEG_INFINITY);
    assert!(f16_to_f32(0x7c01).is_nan() && f16_to_f32(f32_to_f16(-f32::NAN)).is_nan());
    for (value, bits) in
        [(1.0, 0x3f80), (1.0 + 1.0 / 256.0, 0x3f80), (1.0 + 3.0 / 256.0, 0x3f82), (f32::MAX, 0x7f80)]
    {
        assert_eq!(f32_to_bf16(value), bits, "{value}");
    }
    assert!(bf16_to_f32(f32_to_bf16(f32::from_bits(0x7f80_0001))).is_nan());
}

#[test]
fn scale_mins_pack_to_what_is_read() {
    let (scales, mins) = ([0, 63, 16, 47, 1, 62, 33, 15], [63, 0, 15, 48, 32, 31, 2, 61]);
    let packed = ScaleMins::pack(&scales, &mins);
    for sub in 0..8 {
        assert_eq!(packed.get(sub), (scales[sub], mins[sub]), "{sub}");
    }
}

/// The integers and scales that kernels use give the values that `dequantize` writes.
#[test]
fn integers_times_scales_are_the_values() {
    fn check<B: SuperBlock>(format: Format) {
        let (bytes, expected) = oracle(format);
        for (block, expected) in bytes.chunks(B::BYTES).zip(expected.chunks(B::LEN)) {
            let block = B::read(block).unwrap();
            for (i, expected) in expected.iter().enumerate() {
                let (run, quants) = (i / 16, block.quants(i / 32));
                let product = block.d() * block.scale(run) as f32 * f32::from(quants[i % 32]);
                let value = product - block.dmin() * block.min(run) as f32;
                assert_eq!(value.to_bits(), *expected, "{format} value {i}");
                let word = pack(quants)[i % 32 / 4];
                assert_eq!(word.to_le_bytes()[i % 4] as i8, quants[i % 32], "{format} value {i}");
                assert!((-128..128).contains(&block.scale(run)) && (0..64).contains(&block.min(run)));
            }
            // Indices wrap.
            assert_eq!(block.quants(3), block.quants(3 + 8));
            assert_eq!(block.scale(5), block.scale(5 + 16));
            assert_eq!(block.quants(usize::MAX), block.quants(7));
            assert_eq!((block.scale(usize::MAX), block.min(usize::MAX)), (block.scale(15), block.min(15)));
        }
        assert!(B::read(&bytes[..B::BYTES - 1]).is_none());
    }
    check::<blocks::BlockQ2K>(Format::Q2_K);
    check::<blocks::BlockQ3K>(Format::Q3_K);
    check::<blocks::BlockQ4K>(Format::Q4_K);
    check::<blocks::BlockQ5K>(Format::Q5_K);
    check::<blocks::BlockQ6K>(Format::Q6_K);
    check::<blocks::BlockIQ4XS>(Format::IQ4_XS);
    check::<blocks::BlockIQ2XXS>(Format::IQ2_XXS);
    check::<blocks::BlockIQ2XS>(Format::IQ2_XS);
    check::<blocks::BlockIQ2S>(Format::IQ2_S);
    check::<blocks::BlockIQ3XXS>(Format::IQ3_XXS);
    check::<blocks::BlockIQ3S>(Format::IQ3_S);
    check::<blocks::BlockIQ1S>(Format::IQ1_S);
    check::<blocks::BlockIQ1M>(Format::IQ1_M);
}

/// Compiles `examples/blocks_no_std.rs` to assembly: whatever could panic would be a call of `core::panicking`.
#[test]
fn no_panic_survives_optimisation() {
    let assembly = |name: &str, source: &str| {
        let out = format!("{}/{name}.s", env!("CARGO_TARGET_TMPDIR"));
        let status = std::process::Command::new(option_env!("RUSTC").unwrap_or("rustc"))
            .args([
                "--edition=2024",
                "-Copt-level=3",
                "-Coverflow-checks=no",
                "--crate-type=rlib",
                "--emit=asm",
            ])
            .args([source, "-o", &out])
            .status()
            .unwrap();
        assert!(status.success(), "{source}");
        std::fs::read_to_string(out).unwrap()
    };
    let text = assembly("blocks", concat!(env!("CARGO_MANIFEST_DIR"), "/examples/blocks_no_std.rs"));
    let calls: Vec<&str> = text.lines().filter(|line| line.contains("panic")).collect();
    assert!(calls.is_empty(), "{calls:#?}");
    assert!(text.contains("iq2_s_integers") && text.contains("dequantize"), "the probes were not compiled");

    // The search finds a panic where there is one.
    let source = format!("{}/panics.rs", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&source, "#![no_std]\npub fn at(a: &[u8; 4], i: usize) -> u8 { a[i & 7] }\n").unwrap();
    assert!(assembly("panics", &source).contains("panic"));
}
