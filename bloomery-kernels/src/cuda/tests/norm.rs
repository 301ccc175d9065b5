//! Normalised and rounded rows are the CPU's, bit for bit.

use super::super::testing::places;
use super::super::{AddNorm, NormQuantize, Rounded};
use crate::cpu::testing::{Rng, bits};
use crate::cpu::{Cpu, Form, Isa, Norm, Numerics, Pool, Quantized};

/// Rows with everything that rounding treats apart.
fn rows(rng: &mut Rng, rows: usize, cols: usize) -> Vec<f32> {
    let mut x = rng.normals(rows * cols);
    for (i, value) in x.iter_mut().enumerate() {
        match (i / 32 % 13, i % 32) {
            (3, _) => *value = 0.0,
            (5, _) => *value *= 1e-38,
            (7, 9) => *value = 300.0,
            // Ties.
            (9, n) => *value = if n == 0 { 127.0 } else { n as f32 - 15.5 },
            _ => {}
        }
    }
    if rows > 2 {
        x[cols + 5] = f32::NAN;
        x[2 * cols + 3] = f32::INFINITY;
    }
    x
}

#[test]
fn normalised_and_rounded_rows_are_the_cpus() {
    let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
    for mut place in places() {
        for (count, cols, form) in [
            (1, 32, Form::Q8x32),
            (3, 96, Form::Q8x32),
            (2, 896, Form::Q8x32),
            (1, 256, Form::Q8x256),
            (4, 768, Form::Q8x256),
            (3, 2048, Form::Q8x256),
        ] {
            for with_norm in [false, true] {
                let mut rng = Rng::new((cols + count) as u64);
                let (x, gain) = (rows(&mut rng, count, cols), rng.normals(cols));
                let mut expected = x.clone();
                if with_norm {
                    cpu.rms_norm(&x, count, Norm { gain: &gain, eps: 1e-6 }, &mut expected).unwrap();
                }
                let mut rounded = Quantized::default();
                rounded.fill(Isa::detect(), &expected, count, cols, form);

                let (xs, gains) = (place.buffer(&x), place.buffer(&gain));
                let (normed, values) = (place.poison::<f32>(count * cols), place.poison::<i8>(count * cols));
                let scales = place.poison::<f32>(count * cols / form.block_len());
                let sums = place.poison::<i16>(count * cols / 16);
                let op = NormQuantize {
                    x: xs.span(),
                    rows: count,
                    cols,
                    norm: with_norm.then(|| (gains.span(), 1e-6)),
                    normed: Some(normed.span()),
                    rounded: Some(Rounded {
                        form,
                        values: values.span(),
                        scales: scales.span(),
                        sums: (form == Form::Q8x256).then(|| sums.span()),
                    }),
                };
                let launch = op.launch(place.info()).unwrap();
                place.run(&launch);
                let plain = |values: &[f32]| -> Vec<u32> {
                    bits(values)
                        .into_iter()
                        .zip(values)
                        .map(|(bits, v)| if v.is_nan() { 1 } else { bits })
                        .collect()
                };
                let name = format!("{count} x {cols} {form:?} {with_norm} on {}", place.info().name);
                assert_eq!(plain(&place.read(&normed)), plain(&expected), "{name}");
                let values = place.read(&values);
                let (scales, sums) = (place.read(&scales), place.read(&sums));
                for row in 0..count {
                    assert_eq!(&values[row * cols..][..cols], rounded.values(row), "{name}");
                    let blocks = cols / form.block_len();
                    let expected = plain(rounded.scales(row));
                    assert_eq!(plain(&scales[row * blocks..][..blocks]), expected, "{name}");
                    if form == Form::Q8x256 {
                        assert_eq!(&sums[row * cols / 16..][..cols / 16], rounded.sums16(row), "{name}");
                    }
                }
            }
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    for mut place in places() {
        let (x, gain) = (place.buffer(&[0.0_f32; 512]), place.buffer(&[0.0_f32; 256]));
        let op = NormQuantize {
            x: x.span(),
            rows: 2,
            cols: 256,
            norm: Some((gain.span(), 1e-6)),
            normed: Some(x.span()),
            rounded: None,
        };
        assert!(op.launch(place.info()).is_ok());
        let error = NormQuantize { rows: 3, ..op.clone() }.launch(place.info()).unwrap_err();
        assert_eq!(error.to_string(), "norm_quantize_narrow: values of x is 512, must be 768");
        assert!(NormQuantize { cols: 128, ..op.clone() }.launch(place.info()).is_err());
        let odd = NormQuantize { x: x.slice(1..257).unwrap(), rows: 1, normed: None, ..op };
        assert!(odd.launch(place.info()).is_err());
    }
}

#[test]
fn normalised_rows_are_added() {
    let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
    for mut place in places() {
        for (count, cols) in [(1, 8), (3, 96), (2, 1152), (33, 320)] {
            let mut rng = Rng::new(cols as u64);
            let (x, gain, before) = (rng.normals(count * cols), rng.normals(cols), rng.normals(count * cols));
            let mut normed = x.clone();
            cpu.rms_norm(&x, count, Norm { gain: &gain, eps: 1e-6 }, &mut normed).unwrap();
            let (xs, gains, out) = (place.buffer(&x), place.buffer(&gain), place.buffer(&before));
            let op = AddNorm { x: xs.span(), cols, norm: (gains.span(), 1e-6), out: out.span() };
            let launch = op.launch(place.info()).unwrap();
            place.run(&launch);
            for ((found, before), normed) in place.read(&out).iter().zip(&before).zip(&normed) {
                // The CPU rounds the product, the sum both do.
                let most = f32::EPSILON * (normed.abs() + (before + normed).abs());
                assert!((found - (before + normed)).abs() <= most, "{found}, not {before} + {normed}");
            }
            let error = AddNorm { out: xs.span(), ..op.clone() }.launch(place.info()).unwrap_err();
            assert!(error.to_string().ends_with("must be apart from x"), "{error}");
            assert!(AddNorm { cols: 4, ..op }.launch(place.info()).is_err());
        }
    }
}
