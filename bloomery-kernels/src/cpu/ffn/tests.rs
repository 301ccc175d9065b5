use bloomery_gguf::{Format, dequantize};

use super::super::Part;
use super::super::testing::{Rng, bits, cpus, weights};
use super::*;

/// The block built from projections.
fn composed(cpu: &Cpu, x: &[f32], rows: usize, ffn: &Ffn<'_>, out: &mut [f32]) {
    let mut scratch = Scratch::default();
    let mut run = |w: Matrix<'_>, x: &[f32]| {
        let mut out = vec![0.0; rows * w.rows()];
        let part = Part { weight: w, bias: None, out: &mut out, accumulate: false };
        cpu.project(x, rows, None, &mut [part], &mut scratch).unwrap();
        out
    };
    let (gate, up) = (run(ffn.gate, x), run(ffn.up, x));
    let mut hidden = vec![0.0; gate.len()];
    ffn.activation.gate(cpu.isa(), &gate, &up, &mut hidden);
    out.iter_mut().zip(run(ffn.down, &hidden)).for_each(|(out, y)| *out += y);
}

#[test]
fn is_its_parts_on_every_machine() {
    let formats = [
        [Format::Q4_K, Format::Q4_K, Format::Q6_K],
        [Format::Q5_0, Format::Q8_0, Format::Q4_K],
        [Format::Q4_K, Format::Q8_0, Format::F16],
    ];
    for (f, [gate, up, down]) in formats.into_iter().enumerate() {
        for n in [1, 2, 8, 9, 33, 270] {
            let (cols, hidden) = (512, 256);
            let data =
                [(gate, 1), (up, 2), (down, 3)].map(|(format, seed)| weights(format, cols * hidden, seed));
            let ffn = Ffn {
                gate: Matrix::new(gate, hidden, cols, &data[0]).unwrap(),
                up: Matrix::new(up, hidden, cols, &data[1]).unwrap(),
                down: Matrix::new(down, cols, hidden, &data[2]).unwrap(),
                activation: [Activation::Silu, Activation::GeluTanh, Activation::Gelu][f],
                share: None,
                accumulate: true,
            };
            let x: Vec<f32> = Rng::new(n as u64).normals(n * cols).iter().map(|x| x * 0.05).collect();
            let gain = Rng::new(8).normals(cols);
            let norm = Norm { gain: &gain, eps: 1e-5 };
            let mut expected: Option<Vec<u32>> = None;
            for cpu in cpus().iter().skip(if n > 9 { 2 } else { 0 }) {
                let mut normed = vec![0.0; n * cols];
                cpu.rms_norm(&x, n, norm, &mut normed).unwrap();
                let (mut out, mut parts) = (x.clone(), x.clone());
                cpu.dense_ffn(&x, n, Some(norm), &ffn, &mut out, &mut Scratch::default()).unwrap();
                composed(cpu, &normed, n, &ffn, &mut parts);
                assert_eq!(bits(&out), bits(&parts), "{f} {n} {cpu:?}");
                assert_eq!(bits(&out), *expected.get_or_insert_with(|| bits(&out)), "{f} {n} {cpu:?}");
            }
        }
    }
}

#[test]
fn near_double_precision_without_rounding() {
    let (cols, hidden, n) = (256, 512, 2);
    let data = [1, 2, 3].map(|seed| weights(Format::Q8_0, cols * hidden, seed));
    let floats = data.each_ref().map(|data| {
        let mut floats = vec![0.0; cols * hidden];
        dequantize(Format::Q8_0, data, &mut floats).unwrap();
        floats
    });
    let w = |i: usize, rows, cols| Matrix::new(Format::Q8_0, rows, cols, &data[i]).unwrap();
    let ffn = Ffn {
        gate: w(0, hidden, cols),
        up: w(1, hidden, cols),
        down: w(2, cols, hidden),
        activation: Activation::Silu,
        share: None,
        accumulate: true,
    };
    let x: Vec<f32> = Rng::new(1).normals(n * cols).iter().map(|x| x * 0.01).collect();
    let cpu = Cpu::new(
        super::super::Pool::new(std::num::NonZeroUsize::MIN),
        super::super::Isa::detect(),
        super::super::Numerics::Exact,
    );
    let mut out = vec![0.0; n * cols];
    cpu.dense_ffn(&x, n, None, &ffn, &mut out, &mut Scratch::default()).unwrap();
    for (x, out) in x.chunks(cols).zip(out.chunks(cols)) {
        let dot = |w: &[f32], x: &[f64]| -> (f64, f64) {
            w.iter().zip(x).fold((0.0, 0.0), |(sum, size), (w, x)| {
                (sum + f64::from(*w) * x, size + (f64::from(*w) * x).abs())
            })
        };
        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let mut slack = 0.0f64;
        let hidden: Vec<f64> = (0..hidden)
            .map(|h| {
                let ((gate, gate_size), (up, up_size)) =
                    (dot(&floats[0][h * cols..][..cols], &x), dot(&floats[1][h * cols..][..cols], &x));
                // silu has slope at most 1.1: relative errors of 20 roundings of the sums' sizes.
                slack =
                    slack.max(20.0 * 2f64.powi(-24) * (1.1 * gate_size * up.abs() + up_size * gate.abs()));
                gate / (1.0 + (-gate).exp()) * up
            })
            .collect();
        for (c, out) in out.iter().enumerate() {
            let row = &floats[2][c * hidden.len()..][..hidden.len()];
            let (exact, size) = dot(row, &hidden);
            let reach: f64 = row.iter().map(|w| f64::from(w.abs())).sum();
            let bound = 40.0 * 2f64.powi(-24) * size + slack * reach;
            assert!((f64::from(*out) - exact).abs() <= bound, "{out} {exact} {bound}");
        }
    }
}

#[test]
fn a_shared_expert_counts_as_much_as_its_gate_says() {
    let (cols, hidden) = (512, 256);
    let data = [(Format::Q4_K, 1), (Format::Q4_K, 2), (Format::Q6_K, 3)]
        .map(|(format, seed)| weights(format, cols * hidden, seed));
    let plain = Ffn::new(
        Matrix::new(Format::Q4_K, hidden, cols, &data[0]).unwrap(),
        Matrix::new(Format::Q4_K, hidden, cols, &data[1]).unwrap(),
        Matrix::new(Format::Q6_K, cols, hidden, &data[2]).unwrap(),
        Activation::Silu,
    );
    let share = Rng::new(4).normals(cols);
    for rows in [1, 2, 9, 40] {
        let x: Vec<f32> = Rng::new(rows as u64).normals(rows * cols).iter().map(|x| x * 0.05).collect();
        let before = Rng::new(9).normals(rows * cols);
        let mut expected: Option<Vec<u32>> = None;
        for cpu in cpus() {
            let run = |share, accumulate| {
                let mut out = before.clone();
                let ffn = Ffn { share, accumulate, ..plain };
                cpu.dense_ffn(&x, rows, None, &ffn, &mut out, &mut Scratch::default()).unwrap();
                out
            };
            let (alone, shared, added) =
                (run(None, false), run(Some(&share), false), run(Some(&share), true));
            for row in 0..rows {
                let range = row * cols..(row + 1) * cols;
                let product = |(&x, &w): (&f32, &f32)| f64::from(x) * f64::from(w);
                let z: f64 = x[range.clone()].iter().zip(&share).map(product).sum();
                let factor = 1.0 / (1.0 + (-z).exp());
                for at in range {
                    let exact = f64::from(alone[at]) * factor;
                    // 512 terms below 0.2 each, in 16 lanes: 36 roundings of at most 3; the sigmoid's slope is 1/4.
                    assert!((f64::from(shared[at]) - exact).abs() <= 2e-6 * (1.0 + exact.abs()), "{at}");
                    assert_eq!(added[at], before[at] + shared[at]);
                }
            }
            assert_eq!(bits(&shared), *expected.get_or_insert_with(|| bits(&shared)), "{cpu:?}");
        }
    }
    let (cpu, x) = (&cpus()[0], vec![0.0; cols]);
    let ffn = Ffn { share: Some(&share[1..]), ..plain };
    assert!(cpu.dense_ffn(&x, 1, None, &ffn, &mut x.clone(), &mut Scratch::default()).is_err());
}
