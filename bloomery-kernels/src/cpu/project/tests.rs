use std::num::NonZeroUsize;

use bloomery_gguf::{Format, dequantize};

use super::super::testing::{Rng, bits, cpus, weights};
use super::super::{Isa, Numerics, Pool};
use super::*;

const FORMATS: [Format; 16] = [
    Format::Q4_K,
    Format::Q6_K,
    Format::Q8_0,
    Format::Q5_0,
    Format::Q5_K,
    Format::Q3_K,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_1,
    Format::IQ4_NL,
    Format::IQ4_XS,
    Format::Q2_K,
    Format::MXFP4,
    Format::F16,
    Format::BF16,
    Format::F32,
];

fn cpu(threads: usize, isa: Isa, numerics: Numerics) -> Cpu {
    Cpu::new(Pool::new(NonZeroUsize::new(threads).unwrap()), isa, numerics)
}

fn project(cpu: &Cpu, w: Matrix<'_>, x: &[f32], rows: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; rows * w.rows()];
    let part = Part { weight: w, bias: None, out: &mut out, accumulate: false };
    cpu.project(x, rows, None, &mut [part], &mut Scratch::default()).unwrap();
    out
}

#[test]
fn every_instruction_set_thread_count_and_batch_has_the_same_bits() {
    for (f, format) in FORMATS.into_iter().enumerate() {
        for (k, &n) in [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33].iter().enumerate() {
            let cols = [256, 512, 1024, 768, 2048][(f + k) % 5];
            let rows = [1, 2, 5, 8, 13, 16, 17, 31, 32, 33, 50, 97][(f + 5 * k) % 12];
            let data = weights(format, rows * cols, (97 * f + k) as u64);
            let w = Matrix::new(format, rows, cols, &data).unwrap();
            let x = Rng::new(k as u64).normals(n * cols);
            // Each row alone, in plain Rust.
            let definition = cpu(1, Isa::Scalar, Numerics::Fast);
            let expected: Vec<f32> = x.chunks(cols).flat_map(|x| project(&definition, w, x, 1)).collect();
            for cpu in cpus().iter().skip(2) {
                let found = project(cpu, w, &x, n);
                assert_eq!(bits(&found), bits(&expected), "{format} {rows} x {cols}, {n} rows, {cpu:?}");
            }
        }
    }
}

#[test]
fn near_double_precision() {
    for (f, format) in FORMATS.into_iter().enumerate() {
        for n in [1, 3, 40] {
            let (rows, cols) = (35, 512);
            let data = weights(format, rows * cols, f as u64);
            let w = Matrix::new(format, rows, cols, &data).unwrap();
            let mut floats = vec![0.0; rows * cols];
            dequantize(format, &data, &mut floats).unwrap();
            let x = Rng::new(7).normals(n * cols);
            for numerics in [Numerics::Fast, Numerics::Exact] {
                let found = project(&cpu(2, Isa::detect(), numerics), w, &x, n);
                for (x, found) in x.chunks(cols).zip(found.chunks(rows)) {
                    for (w, found) in floats.chunks(cols).zip(found) {
                        let pairs = || w.iter().zip(x).map(|(w, x)| (f64::from(*w), f64::from(*x)));
                        let exact: f64 = pairs().map(|(w, x)| w * x).sum();
                        let size: f64 = pairs().map(|(w, x)| (w * x).abs()).sum();
                        // 32 additions in a lane, 4 of the tree, the weights' own two roundings; for a format with
                        // minimums the two halves can be 16 times their difference.
                        let mut bound = 16.0 * 40.0 * 2f64.powi(-24) * size;
                        if numerics == Numerics::Fast {
                            // Half a step of every activation: at most amax / 254.
                            let amax = x.iter().fold(0f32, |a, x| a.max(x.abs()));
                            bound += f64::from(amax) / 254.0 * pairs().map(|(w, _)| w.abs()).sum::<f64>();
                        }
                        let error = (f64::from(*found) - exact).abs();
                        assert!(error <= bound, "{format} {numerics:?}: {found} {exact} {bound}");
                    }
                }
            }
        }
    }
}

#[test]
fn bias_accumulation_norm_and_several_parts() {
    let (cols, n) = (512, 19);
    let x = Rng::new(3).normals(n * cols);
    let gain = Rng::new(4).normals(cols);
    let norm = Norm { gain: &gain, eps: 1e-6 };
    let shapes = [(Format::Q4_K, 70), (Format::Q8_0, 33), (Format::F32, 5)];
    let data: Vec<Vec<u8>> = shapes.iter().map(|(format, rows)| weights(*format, rows * cols, 11)).collect();
    let bias: Vec<f32> = Rng::new(5).normals(70);
    for cpu in cpus() {
        let mut normed = vec![0.0; n * cols];
        cpu.rms_norm(&x, n, norm, &mut normed).unwrap();
        let ws: Vec<Matrix<'_>> = shapes
            .iter()
            .zip(&data)
            .map(|((f, rows), data)| Matrix::new(*f, *rows, cols, data).unwrap())
            .collect();
        let plain: Vec<Vec<f32>> = ws.iter().map(|w| project(&cpu, *w, &normed, n)).collect();
        let mut outs: Vec<Vec<f32>> = shapes.iter().map(|(_, rows)| vec![2.5; n * rows]).collect();
        let mut parts: Vec<Part<'_>> = ws
            .iter()
            .zip(&mut outs)
            .enumerate()
            .map(|(i, (w, out))| Part { weight: *w, bias: Some(&bias[..w.rows()]), out, accumulate: i != 1 })
            .collect();
        cpu.project(&x, n, Some(norm), &mut parts, &mut Scratch::default()).unwrap();
        for (i, (plain, out)) in plain.iter().zip(&outs).enumerate() {
            let rows = shapes[i].1;
            for (at, (plain, out)) in plain.iter().zip(out).enumerate() {
                let value = plain + bias[at % rows];
                assert_eq!(out.to_bits(), if i == 1 { value } else { 2.5 + value }.to_bits(), "{i} {at}");
            }
        }
    }
}

#[test]
fn broken_contracts_are_errors() {
    let cpu = cpu(1, Isa::detect(), Numerics::Fast);
    let data = weights(Format::Q4_K, 4 * 256, 1);
    let w = Matrix::new(Format::Q4_K, 4, 256, &data).unwrap();
    let run = |x: usize, out: usize, bias: usize, gain: usize| {
        let (mut out, bias, gain) = (vec![0.0; out], vec![0.0; bias], vec![0.0; gain]);
        let part = Part { weight: w, bias: Some(&bias), out: &mut out, accumulate: false };
        let norm = Norm { gain: &gain, eps: 0.0 };
        cpu.project(&vec![0.0; x], 2, Some(norm), &mut [part], &mut Scratch::default())
    };
    assert_eq!(run(512, 8, 4, 256), Ok(()));
    for (x, out, bias, gain) in [(511, 8, 4, 256), (512, 7, 4, 256), (512, 8, 3, 256), (512, 8, 4, 255)] {
        assert!(matches!(run(x, out, bias, gain), Err(KernelError::Length { .. })));
    }
    let ints = [0; 16];
    let w = Matrix::new(Format::I32, 2, 2, &ints).unwrap();
    let part = Part { weight: w, bias: None, out: &mut [0.0; 2], accumulate: false };
    let refused = cpu.project(&[0.0; 2], 1, None, &mut [part], &mut Scratch::default());
    assert_eq!(refused, Err(KernelError::NoProduct { format: Format::I32 }));
}
