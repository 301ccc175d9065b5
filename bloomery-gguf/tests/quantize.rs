//! The quantisers: bytes of the `gguf` package for Q8_0, measured errors for the others, and the edges.
#![expect(clippy::unwrap_used, reason = "a test")]

use bloomery_gguf::{Format, QuantizeError, dequantize, quantize::quantize};

fn gaussian(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = move || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count)
        .map(|_| ((-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()) as f32)
        .collect()
}

fn round_trip(format: Format, values: &[f32]) -> Vec<f32> {
    let bytes = quantize(format, values).unwrap();
    let mut out = vec![f32::NAN; values.len()];
    dequantize(format, &bytes, &mut out).unwrap();
    out
}

/// Root mean square of the round trip's error, relative to the values'.
fn relative_error(format: Format, values: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let out = round_trip(format, values);
    let error: f64 = values.iter().zip(&out).map(|(x, y)| square(f64::from(x - y))).sum();
    (error / values.iter().map(|x| square((*x).into())).sum::<f64>()).sqrt()
}

#[test]
fn q8_0_bytes_are_those_of_the_gguf_package() {
    let path = format!("{}/tests/data/blocks/q8_0_quantize.bin", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(path).unwrap();
    let count = u32::from_le_bytes(file[..4].try_into().unwrap()) as usize;
    let (values, expected) = file[4..].split_at(count * 32 * 4);
    let values: Vec<f32> = values.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    for (block, (values, expected)) in values.chunks(32).zip(expected.chunks(34)).enumerate() {
        assert_eq!(quantize(Format::Q8_0, values).unwrap(), expected, "block {block}: {values:?}");
    }
}

#[test]
fn gaussian_rows_lose_what_was_measured() {
    // Measured over these rows: 0.54 %, 7.06 % and 1.67 %.
    for (format, bound) in [(Format::Q8_0, 0.0055), (Format::Q4_K, 0.0710), (Format::Q6_K, 0.0168)] {
        for (seed, scale) in [(1, 1.0), (2, 0.02), (3, 1e-3), (4, 3e4)] {
            let values: Vec<f32> = gaussian(seed, 16 * 4096).iter().map(|x| x * scale).collect();
            let error = relative_error(format, &values);
            assert!(error < bound, "{format}, values of {scale}: {error} of the root mean square");
        }
    }
}

#[test]
fn edge_rows() {
    for format in [Format::Q8_0, Format::Q4_K, Format::Q6_K] {
        // A block of zeros has positive zeros: its bytes are the same however it came about.
        let zeros = round_trip(format, &[0.0; 512]);
        assert!(zeros.iter().all(|x| x.to_bits() == 0), "{format}");
        assert_eq!(
            quantize(format, &[0.0; 512]).unwrap(),
            quantize(format, &[-0.0; 512]).unwrap(),
            "{format}"
        );
        assert_eq!(quantize(format, &[]).unwrap(), []);

        // One value everywhere is off by the rounding of the half-precision scale, 2^-11, and as much again for sums.
        // Scales below 2^-14 are coarser halves, and an integer scale near 63 or 128 makes up for it to half a step.
        for constant in [0.75f32, -0.75, 1e-3, -1234.5, 3e6, -3e6] {
            for x in round_trip(format, &[constant; 256]) {
                let error = ((x - constant) / constant).abs();
                let bound =
                    if constant == 1e-3 && format != Format::Q8_0 { 0.5 / 50.0 } else { 1.0 / 1024.0 };
                assert!(error <= bound, "{format}: {x} for {constant}");
            }
        }

        // Too small for a half-precision scale: zeros or near them, never NaN or anything larger than it was.
        for tiny in [1e-7f32, 1e-12, 1e-30, f32::MIN_POSITIVE, 1e-44] {
            let values: Vec<f32> = gaussian(7, 256).iter().map(|x| x * tiny).collect();
            let limit = values.iter().fold(0.0f32, |max, x| max.max(x.abs()));
            for x in round_trip(format, &values) {
                assert!(x.abs() <= limit * 1.1 + 1e-6, "{format}: {x} of values up to {limit}");
            }
        }

        // One outlier among small values: it survives, and the other sub-blocks are not hurt by it.
        let mut values = gaussian(8, 256);
        values[37] = 400.0;
        let out = round_trip(format, &values);
        assert!((out[37] - 400.0).abs() < 0.01 * 400.0, "{format}: {}", out[37]);
        let far: f64 = (64..256).map(|i| f64::from(values[i] - out[i]).powi(2)).sum::<f64>() / 192.0;
        let bound = match format {
            // The step of the 6- or 8-bit scales is 400 / 15 / 63 and 400 / 32 / 128: coarse beside a good scale.
            Format::Q4_K => 0.25,
            Format::Q6_K => 0.04,
            _ => 0.006,
        };
        assert!(far.sqrt() < bound, "{format}: {}", far.sqrt());
    }
}

#[test]
fn what_cannot_be_quantised_is_refused_by_name() {
    for (format, limit) in [(Format::Q8_0, 8.3e6), (Format::Q4_K, 4.1e6), (Format::Q6_K, 2.6e8)] {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.1 * limit, 1.1 * limit] {
            let mut values = vec![0.0; 512];
            values[300] = value;
            let error = quantize(format, &values).unwrap_err();
            assert!(matches!(error, QuantizeError::Value { index: 300, .. }), "{error}");
            assert!(error.to_string().starts_with("value 300 is "), "{error}");
        }
        for value in [limit, -limit] {
            let mut values = gaussian(9, 256);
            values[5] = value;
            assert!(round_trip(format, &values).iter().all(|x| x.is_finite()), "{format} {value}");
            assert!(round_trip(format, &vec![value; 256]).iter().all(|x| x.is_finite()), "{format} {value}");
        }
        let short = quantize(format, &[0.0; 100]).unwrap_err();
        assert!(matches!(short, QuantizeError::Length { values: 100, .. }), "{short}");
    }
    let error = quantize(Format::Q2_K, &[0.0; 256]).unwrap_err();
    assert!(error.to_string().contains("Q2_K"), "{error}");
}
