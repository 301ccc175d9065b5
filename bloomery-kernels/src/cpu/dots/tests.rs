//! Every tier against the scalar definition, and the definition against an f64 oracle.

use bloomery_gguf::dequantize;

use super::*;
use crate::cpu::quantized::tests::noise;

const INTS: [Format; 13] = {
    use Format::*;
    [Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS]
};
const FLOATS: [Format; 3] = [Format::F32, Format::F16, Format::BF16];
const WEIGHT_ROWS: [usize; 7] = [1, 2, 3, 7, 8, 9, 33];
const X_ROWS: [usize; 9] = [1, 2, 3, 7, 8, 9, 31, 32, 33];

/// Rows of random blocks with moderate scales. All other bits are free, so all of a format's range occurs.
fn weights(format: Format, rows: usize, cols: usize, seed: u32) -> Vec<u8> {
    let halves: &[usize] = match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => &[0, 2],
        Format::Q6_K => &[208],
        Format::Q3_K => &[108],
        Format::Q2_K => &[80, 82],
        Format::MXFP4 => &[],
        _ => &[0],
    };
    let mut values = noise(seed);
    let mut next = || values.next().expect("the sequence is endless");
    let blocks = rows * cols / format.block_len();
    let mut bytes = Vec::with_capacity(blocks * format.block_bytes());
    for _ in 0..blocks {
        match format {
            Format::F32 => bytes.extend(next().to_le_bytes()),
            Format::F16 => bytes.extend(blocks::f32_to_f16(next()).to_le_bytes()),
            Format::BF16 => bytes.extend(blocks::f32_to_bf16(next()).to_le_bytes()),
            _ => {
                let start = bytes.len();
                bytes.extend((0..format.block_bytes()).map(|_| (next() * 128.0) as i32 as u8));
                for at in halves {
                    let half = blocks::f32_to_f16(next() * 0.03).to_le_bytes();
                    bytes[start + at..start + at + 2].copy_from_slice(&half);
                }
                if format == Format::MXFP4 {
                    // Powers of two from 2^-16 to 2^-9.
                    bytes[start] = 112 + bytes[start] % 8;
                }
            }
        }
    }
    bytes
}

fn activations(rows: usize, cols: usize) -> Vec<f32> {
    noise(99).take(rows * cols).map(|v| v * v * v * 3.0).collect()
}

fn column_grid(format: Format) -> Vec<usize> {
    match form(format) {
        Some(Form::Q8x256) => vec![256, 512, 768, 2048],
        Some(Form::Q8x32) => vec![32, 64, 96, 256, 512, 768, 896, 2048],
        None => vec![1, 15, 16, 31, 96, 256, 896, 2048],
    }
}

/// The products and, by the same picks, the quantised activations as floats.
fn run(isa: Isa, w: &Matrix<'_>, x: &[f32], x_rows: usize, pick: Pick<'_>) -> Vec<f32> {
    let mut q = Quantized::default();
    let input = match form(w.format()) {
        Some(form) => {
            q.fill(Isa::Scalar, x, x_rows, w.cols(), form);
            Input::Quantized(&q)
        }
        None => Input::Floats(x),
    };
    let mut out = vec![f32::NAN; pick.len() * w.rows()];
    dots(isa, w, 0..w.rows(), input, pick, &mut out, w.rows());
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn every_isa_gives_the_bits_of_the_definition() {
    for format in INTS.into_iter().chain(FLOATS) {
        for cols in column_grid(format) {
            let all = weights(format, 33, cols, 11);
            let x = activations(33, cols);
            let whole = Matrix::new(format, 33, cols, &all).unwrap();
            // One row at a time: what any larger call must repeat.
            let want: Vec<Vec<f32>> =
                (0..33).map(|t| run(Isa::Scalar, &whole, &x, 33, Pick::Range(t..t + 1))).collect();
            for isa in Isa::available() {
                for rows in WEIGHT_ROWS {
                    let w = Matrix::new(format, rows, cols, &all[..rows * whole.row_bytes()]).unwrap();
                    for x_rows in X_ROWS {
                        let got = run(isa, &w, &x[..x_rows * cols], x_rows, Pick::Range(0..x_rows));
                        for (t, got) in got.chunks_exact(rows).enumerate() {
                            let what = (format, isa, rows, x_rows, cols, t);
                            assert_eq!(bits(got), bits(&want[t][..rows]), "{what:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_definition_is_the_dot_of_dequantized_weights_and_rounded_activations() {
    for format in INTS.into_iter().chain(FLOATS) {
        for cols in column_grid(format) {
            let (rows, x_rows) = (5, 3);
            let bytes = weights(format, rows, cols, 5);
            let x = activations(x_rows, cols);
            let w = Matrix::new(format, rows, cols, &bytes).unwrap();
            let got = run(Isa::Scalar, &w, &x, x_rows, Pick::Range(0..x_rows));
            let mut values = vec![0.0; rows * cols];
            dequantize(format, &bytes, &mut values).unwrap();
            let mut q = Quantized::default();
            if let Some(form) = form(format) {
                q.fill(Isa::Scalar, &x, x_rows, cols, form);
            }
            for t in 0..x_rows {
                let rounded = |c: usize| match form(format) {
                    Some(form) => f64::from(q.scales(t)[c / form.block_len()]) * f64::from(q.values(t)[c]),
                    None => f64::from(x[t * cols + c]),
                };
                for r in 0..rows {
                    let terms = (0..cols).map(|c| f64::from(values[r * cols + c]) * rounded(c));
                    let (sum, size) = terms.fold((0.0, 0.0), |(s, a), v| (s + v, a + v.abs()));
                    let error = (f64::from(got[t * rows + r]) - sum).abs();
                    assert!(error <= 1e-5 * size, "{format} {cols} columns, row {r}: {error:e} of {size:e}");
                }
            }
        }
    }
}

#[test]
fn extreme_integers_are_exact() {
    // All weights and activations at their limits: no intermediate may saturate.
    for format in INTS {
        for fill in [0x00, 0x80, 0xff, 0x7f] {
            let cols = 512;
            let mut bytes = weights(format, 4, cols, 3);
            let block = format.block_bytes();
            let halves = weights(format, 4, cols, 3);
            for (i, byte) in bytes.iter_mut().enumerate() {
                let at = i % block;
                let scale = match format {
                    Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => at < 4,
                    Format::Q6_K => at >= 208,
                    Format::Q2_K => at >= 80,
                    Format::Q3_K => at >= 108,
                    Format::MXFP4 => at < 1,
                    _ => at < 2,
                };
                *byte = if scale { halves[i] } else { fill };
            }
            let w = Matrix::new(format, 4, cols, &bytes).unwrap();
            for sign in [1.0, -1.0] {
                let x = vec![sign; 8 * cols];
                let want = run(Isa::Scalar, &w, &x, 8, Pick::Range(0..8));
                for isa in Isa::available() {
                    for x_rows in [1, 8] {
                        let got = run(isa, &w, &x[..x_rows * cols], x_rows, Pick::Range(0..x_rows));
                        assert_eq!(
                            bits(&got),
                            bits(&want[..x_rows * 4]),
                            "{format} {isa:?} {fill:#x} {sign}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn other_formats_are_dequantized() {
    let cols = 512;
    let w = Matrix::new(Format::F64, 9, cols / 8, &[0; 9 * 64 * 8]).unwrap();
    assert!(form(Format::F64).is_none());
    assert!(run(Isa::detect(), &w, &activations(2, 64), 2, Pick::Range(0..2)).iter().all(|v| *v == 0.0));
    for format in [Format::Q4_K, Format::Q8_0, Format::IQ3_S, Format::IQ2_XS] {
        // Float activations ask for unrounded products of any format.
        let bytes = weights(format, 9, cols, 21);
        let mut values = vec![0.0; 9 * cols];
        dequantize(format, &bytes, &mut values).unwrap();
        assert_eq!(form(format).is_none(), [Format::IQ3_S, Format::IQ2_XS].contains(&format));
        let x = activations(3, cols);
        let plain = Matrix::new(Format::F32, 9, cols, bytemuck::cast_slice(&values)).unwrap();
        let want = run(Isa::Scalar, &plain, &x, 3, Pick::Range(0..3));
        for isa in Isa::available() {
            let w = Matrix::new(format, 9, cols, &bytes).unwrap();
            let mut out = vec![0.0; 27];
            dots(isa, &w, 0..9, Input::Floats(&x), Pick::Range(0..3), &mut out, 9);
            assert_eq!(bits(&out), bits(&want));
        }
    }
}

#[test]
fn a_row_with_a_damaged_scale_is_not_a_number() {
    let (cols, row) = (256, 256 / Format::NVFP4.block_len() * Format::NVFP4.block_bytes());
    let mut bytes = vec![0x11; 3 * row];
    bytes[row] = 0x80;
    let w = Matrix::new(Format::NVFP4, 3, cols, &bytes).unwrap();
    for isa in Isa::available() {
        let out = run(isa, &w, &activations(2, cols), 2, Pick::Range(0..2));
        assert_eq!(out.iter().map(|v| v.is_nan()).collect::<Vec<_>>(), [false, true, false].repeat(2));
    }
}

#[test]
fn every_exponent_of_mxfp4_is_its_power_of_two() {
    // One value that is not 0 on either side: 4 (code 6) and 127.
    let (rows, cols) = (256, 32);
    let mut bytes = vec![0; rows * 17];
    for (e, row) in bytes.chunks_exact_mut(17).enumerate() {
        (row[0], row[1]) = (e as u8, 6);
    }
    let w = Matrix::new(Format::MXFP4, rows, cols, &bytes).unwrap();
    let mut x = vec![0.0; cols];
    x[0] = 127.0;
    for isa in Isa::available() {
        for (e, value) in run(isa, &w, &x, 1, Pick::Range(0..1)).into_iter().enumerate() {
            // 8 * 127 * 2^(e - 128), beyond the largest float from e = 246 on.
            let want = (1016.0 * 2f64.powi(e as i32 - 128)) as f32;
            assert_eq!(value.to_bits(), want.to_bits(), "{isa:?} {e}");
        }
    }
}

#[test]
fn any_rows_of_both_sides_may_be_chosen() {
    let (cols, stride) = (512, 10);
    let bytes = weights(Format::Q4_K, 33, cols, 8);
    let w = Matrix::new(Format::Q4_K, 33, cols, &bytes).unwrap();
    let x = activations(20, cols);
    let full = run(Isa::Scalar, &w, &x, 20, Pick::Range(0..20));
    let picks = [19u32, 0, 0, 7, 3, 11, 12, 13, 2, 19];
    let mut q = Quantized::default();
    q.fill(Isa::Scalar, &x, 20, cols, Form::Q8x256);
    for isa in Isa::available() {
        let mut out = vec![-1.0; picks.len() * stride];
        dots(isa, &w, 5..12, Input::Quantized(&q), Pick::List(&picks), &mut out, stride);
        for (i, row) in out.chunks_exact(stride).enumerate() {
            let want = &full[picks[i] as usize * 33..][5..12];
            assert_eq!(bits(&row[..7]), bits(want));
            assert!(row[7..].iter().all(|v| *v == -1.0), "the gap between rows is not written");
        }
    }
}

#[test]
fn nothing_to_do_is_fine() {
    let w = Matrix::new(Format::Q4_K, 0, 256, &[]).unwrap();
    dots(Isa::detect(), &w, 0..0, Input::Floats(&[]), Pick::Range(0..0), &mut [], 0);
    let w = Matrix::new(Format::F32, 3, 0, &[]).unwrap();
    let mut out = [1.0; 6];
    dots(Isa::detect(), &w, 0..3, Input::Floats(&[]), Pick::Range(0..2), &mut out, 3);
    assert_eq!(out, [0.0; 6]);
}

#[test]
fn a_nan_activation_reaches_every_product_of_its_row() {
    for format in INTS.into_iter().chain(FLOATS) {
        let cols = 512;
        let bytes = weights(format, 5, cols, 2);
        let w = Matrix::new(format, 5, cols, &bytes).unwrap();
        let mut x = activations(2, cols);
        x[cols + 300] = f32::NAN;
        for isa in Isa::available() {
            let out = run(isa, &w, &x, 2, Pick::Range(0..2));
            assert!(
                out[..5].iter().all(|v| v.is_finite()) && out[5..].iter().all(|v| v.is_nan()),
                "{format}"
            );
        }
    }
}

/// Calls `run` with a copy of `bytes` whose last byte is the last one before memory that must not be read.
#[cfg(unix)]
fn at_the_edge(bytes: &[u8], run: impl FnOnce(&[u8])) {
    let page = 1 << 16;
    let size = bytes.len().next_multiple_of(page);
    // SAFETY: a fresh private mapping; its last page becomes unreadable and the bytes before it are written here.
    unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let map = libc::mmap(std::ptr::null_mut(), size + page, access, flags, -1, 0);
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(map.add(size), page, libc::PROT_NONE), 0);
        let start = map.cast::<u8>().add(size - bytes.len());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
        run(std::slice::from_raw_parts(start, bytes.len()));
        assert_eq!(libc::munmap(map, size + page), 0);
    }
}

#[cfg(unix)]
#[test]
fn nothing_behind_the_last_row_is_read() {
    for format in INTS.into_iter().chain(FLOATS) {
        for cols in column_grid(format) {
            for rows in [1, 4, 5] {
                let bytes = weights(format, rows, cols, 17);
                let x = activations(3, cols);
                at_the_edge(&bytes, |bytes| {
                    let w = Matrix::new(format, rows, cols, bytes).unwrap();
                    for isa in Isa::available() {
                        assert!(run(isa, &w, &x, 3, Pick::Range(0..3)).iter().all(|v| v.is_finite()));
                    }
                });
            }
        }
    }
}
