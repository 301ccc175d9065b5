//! Residual streams against double precision, and the same bits on every instruction set and number of threads.

use super::super::testing::{Rng, bits, cpus};
use super::*;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What every machine gives, which has to be the same.
fn everywhere(len: usize, run: impl Fn(&Cpu, &mut [f32])) -> Vec<f32> {
    let mut first: Option<Vec<f32>> = None;
    for cpu in cpus() {
        let mut out = vec![f32::NAN; len];
        run(&cpu, &mut out);
        let first = first.get_or_insert_with(|| out.clone());
        assert_eq!(bits(&out), bits(first), "{cpu:?}");
    }
    first.unwrap()
}

fn near(found: &[f32], exact: impl IntoIterator<Item = f64>, bound: f64, what: &str) {
    let mut count = 0;
    for (index, (found, exact)) in found.iter().zip(exact).enumerate() {
        let off = (f64::from(*found) - exact).abs();
        assert!(off <= bound * exact.abs().max(1.0), "{what} {index}: {found} {exact}");
        count += 1;
    }
    assert_eq!(count, found.len(), "{what}");
}

/// Rows, streams, width: some widths are no multiple of a vector.
const SHAPES: [(usize, usize, usize); 5] = [(1, 1, 16), (2, 4, 24), (33, 4, 96), (3, 2, 257), (1, 8, 5)];

#[test]
fn gated_streams() {
    let mut rng = Rng::new(1);
    for (rows, streams, width) in SHAPES {
        let all = rows * streams * width;
        let (x, gate) = (rng.normals(all), rng.normals(all));
        let gain = rng.normals(streams * width);
        let norm = Norm { gain: &gain, eps: 1e-6 };
        let normed = everywhere(all, |cpu, out| cpu.stream_norm(&x, streams, norm, out).unwrap());
        let exact = (0..all).map(|i| {
            let stream = &x[i / width * width..][..width];
            let mean = stream.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / width as f64;
            f64::from(x[i]) / (mean + f64::from(1e-6_f32)).sqrt() * f64::from(gain[i % (streams * width)])
        });
        // Sums of `width / 16` squares in a lane, then a few roundings, of values up to 4.
        let bound = (width.div_ceil(16) + 10) as f64 * f64::from(f32::EPSILON);
        near(&normed, exact, bound, "norm");

        let mixed = everywhere(rows * width, |cpu, out| {
            cpu.gated_mean(&x, &gate, streams, width, out).unwrap();
        });
        let exact = (0..rows * width).map(|i| {
            let at = |s: usize| (i / width * streams + s) * width + i % width;
            let one = |s: usize| f64::from(x[at(s)]) * sigmoid(f64::from(gate[at(s)]));
            (0..streams).map(one).sum::<f64>() / streams as f64
        });
        near(&mixed, exact, 8.0 * f64::from(f32::EPSILON), "mean");

        let (y, weights) = (rng.normals(rows * width), rng.normals(rows * streams));
        let injected = everywhere(all, |cpu, out| {
            out.copy_from_slice(&x);
            cpu.inject(&y, &weights, streams, out).unwrap();
        });
        let exact = (0..all).map(|i| {
            let weight = 2.0 * sigmoid(f64::from(weights[i / width]) / streams as f64);
            f64::from(x[i]) + weight * f64::from(y[i / (streams * width) * width + i % width])
        });
        near(&injected, exact, 8.0 * f64::from(f32::EPSILON), "inject");

        let silu = everywhere(all, |cpu, out| {
            out.copy_from_slice(&x);
            cpu.scaled_silu(out, 0.25);
        });
        let exact = x.iter().map(|&x| 0.25 * f64::from(x) * sigmoid(0.25 * f64::from(x)));
        near(&silu, exact, 4.0 * f64::from(f32::EPSILON), "silu");

        for (cols, first) in [(width, 0), (width + 5, 2)] {
            let mean = everywhere(rows * cols, |cpu, values| {
                values.fill(0.5);
                cpu.stream_mean(&x, streams, width, Columns { values, cols, first }).unwrap();
            });
            let exact = (0..rows * cols).map(|i| {
                let Some(column) = (i % cols).checked_sub(first).filter(|&column| column < width) else {
                    return 0.5;
                };
                let at = |s: usize| (i / cols * streams + s) * width + column;
                (0..streams).map(|s| f64::from(x[at(s)])).sum::<f64>() / streams as f64
            });
            near(&mean, exact, 8.0 * f64::from(f32::EPSILON), "plain mean");
        }
    }
}

/// The weights of one token in double precision.
fn exact_weights(x: &[f32], logits: &[f32], spec: &HyperSpec<'_>) -> Vec<f64> {
    let (count, eps) = (spec.streams, f64::from(spec.eps));
    let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / x.len() as f64;
    let size = 1.0 / (mean + f64::from(spec.norm_eps)).sqrt();
    let kind = |i: usize| {
        if i < count {
            0
        } else if i < 2 * count {
            1
        } else {
            2
        }
    };
    let logit = |(i, &logit): (usize, &f32)| {
        f64::from(logit) * size * f64::from(spec.scale[kind(i)]) + f64::from(spec.base[i])
    };
    let logits: Vec<f64> = logits.iter().enumerate().map(logit).collect();
    let mut weights: Vec<f64> = logits[..count].iter().map(|x| sigmoid(*x) + eps).collect();
    weights.extend(logits[count..2 * count].iter().map(|x| 2.0 * sigmoid(*x)));
    let mut mix: Vec<Vec<f64>> = logits[2 * count..].chunks(count).map(<[f64]>::to_vec).collect();
    for row in &mut mix {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        row.iter_mut().for_each(|x| *x = x.exp() / sum + eps);
    }
    for round in 0..spec.rounds {
        if round > 0 {
            for row in &mut mix {
                let sum = row.iter().sum::<f64>() + eps;
                row.iter_mut().for_each(|x| *x /= sum);
            }
        }
        for column in 0..count {
            let sum = mix.iter().map(|row| row[column]).sum::<f64>() + eps;
            mix.iter_mut().for_each(|row| row[column] /= sum);
        }
    }
    weights.extend(mix.into_iter().flatten());
    weights
}

#[test]
fn hyper_connections() {
    let mut rng = Rng::new(2);
    for (rows, streams, width) in SHAPES {
        let base = rng.normals(streams * (streams + 2));
        let scale = [0.7, 1.3, 2.1];
        let spec = HyperSpec { streams, scale: &scale, base: &base, norm_eps: 1e-5, eps: 1e-6, rounds: 20 };
        let each = spec.weights();
        let x = rng.normals(rows * streams * width);
        let logits = rng.normals(rows * each);
        let weights = everywhere(rows * each, |cpu, out| {
            out.copy_from_slice(&logits);
            cpu.hyper_weights(&x, &spec, out).unwrap();
        });
        let exact: Vec<f64> = x
            .chunks(streams * width)
            .zip(logits.chunks(each))
            .flat_map(|(x, logits)| exact_weights(x, logits, &spec))
            .collect();
        // 20 rounds of two divisions and sums of a few values, all about 1.
        near(&weights, exact.iter().copied(), 200.0 * f64::from(f32::EPSILON), "weights");

        let read = everywhere(rows * width, |cpu, out| {
            cpu.hyper_read(&x, (&weights, spec.weights()), streams, out).unwrap()
        });
        let at = |row: usize, s: usize, c: usize| f64::from(x[(row * streams + s) * width + c]);
        let exact_read = (0..rows * width).map(|i| {
            let (row, c) = (i / width, i % width);
            (0..streams).map(|s| f64::from(weights[row * each + s]) * at(row, s, c)).sum()
        });
        near(&read, exact_read, 16.0 * f64::from(f32::EPSILON), "read");

        let y = rng.normals(rows * width);
        let written = everywhere(x.len(), |cpu, out| {
            out.copy_from_slice(&x);
            cpu.hyper_write(&y, &weights, &spec, out).unwrap();
        });
        let exact_written = (0..x.len()).map(|i| {
            let (row, j, c) = (i / (streams * width), i / width % streams, i % width);
            let weight = |k: usize| f64::from(weights[row * each + streams + k]);
            let mixed: f64 = (0..streams).map(|i| weight(streams + i * streams + j) * at(row, i, c)).sum();
            weight(j) * f64::from(y[row * width + c]) + mixed
        });
        near(&written, exact_written, 16.0 * f64::from(f32::EPSILON), "written");
    }
}

/// Logits do not show whether columns come first, or the last round; these figures do.
#[test]
fn sinkhorn_as_published() {
    let mix = [2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.0, -1.0];
    let base = [0.0; 24];
    let spec = HyperSpec { streams: 4, scale: &[1.0; 3], base: &base, norm_eps: 0.0, eps: 1e-6, rounds: 20 };
    let mut weights = vec![0.0; 8];
    weights.extend(mix);
    // Streams of size 1 leave logits as they are.
    cpus()[0].hyper_weights(&[1.0; 16], &spec, &mut weights).unwrap();
    near(&weights[8..12], [0.489_684, 0.129_744_4, 0.153_425_6, 0.227_144_9], 1e-6, "first row");
    near(&weights[20..], [0.329_406_9, 0.237_245_2, 0.280_547_7, 0.152_799_2], 1e-6, "last row");
}

#[test]
fn wrong_lengths_are_refused() {
    let cpu = cpus().remove(0);
    let norm = Norm { gain: &[1.0; 8], eps: 1e-6 };
    assert!(cpu.stream_norm(&[0.0; 16], 2, norm, &mut [0.0; 16]).is_ok());
    assert!(cpu.stream_norm(&[0.0; 15], 2, norm, &mut [0.0; 15]).is_err());
    assert!(cpu.stream_norm(&[0.0; 16], 3, norm, &mut [0.0; 16]).is_err());
    assert!(cpu.stream_norm(&[0.0; 16], 0, norm, &mut [0.0; 16]).is_err());
    assert!(cpu.gated_mean(&[0.0; 16], &[0.0; 15], 2, 4, &mut [0.0; 8]).is_err());
    assert!(cpu.gated_mean(&[0.0; 15], &[0.0; 15], 2, 4, &mut [0.0; 8]).is_err());
    assert!(cpu.inject(&[0.0; 8], &[0.0; 3], 2, &mut [0.0; 16]).is_err());
    assert!(cpu.inject(&[0.0; 8], &[0.0; 4], 2, &mut [0.0; 15]).is_err());
    let mean = |streams, (cols, first): (usize, usize)| {
        let values = &mut [0.0; 4];
        cpu.stream_mean(&[0.0; 8], streams, 2, Columns { values, cols, first }).is_ok()
    };
    assert!(mean(2, (2, 0)) && mean(4, (4, 2)));
    assert!(!mean(9, (2, 0)) && !mean(4, (4, 3)) && !mean(2, (3, 0)) && !mean(2, (0, 0)));
    let spec =
        HyperSpec { streams: 2, scale: &[1.0; 3], base: &[0.0; 8], norm_eps: 0.0, eps: 0.0, rounds: 1 };
    assert!(cpu.hyper_weights(&[0.0; 16], &spec, &mut [0.0; 16]).is_ok());
    assert!(cpu.hyper_weights(&[0.0; 15], &spec, &mut [0.0; 16]).is_err());
    assert!(cpu.hyper_weights(&[0.0; 16], &spec, &mut [0.0; 15]).is_err());
    assert!(cpu.hyper_read(&[0.0; 16], (&[0.0; 16], 8), 2, &mut [0.0; 9]).is_err());
    assert!(cpu.hyper_write(&[0.0; 7], &[0.0; 16], &spec, &mut [0.0; 16]).is_err());
    let short = HyperSpec { base: &[0.0; 7], ..spec };
    assert!(cpu.hyper_weights(&[0.0; 16], &short, &mut [0.0; 16]).is_err());
}

/// Before a head streams are only read: by the same weights as if they were written to as well.
#[test]
fn streams_that_are_only_read() {
    let mut rng = Rng::new(5);
    let (rows, streams, width) = (3, 4, 24);
    let x = rng.normals(rows * streams * width);
    let (logits, base) = (rng.normals(rows * 24), rng.normals(24));
    let scale = [0.7, 1.3, 2.1];
    let both = HyperSpec { streams, scale: &scale, base: &base, norm_eps: 1e-5, eps: 1e-6, rounds: 20 };
    let read = HyperSpec { scale: &scale[..1], base: &base[..4], ..both };
    let cpu = cpus().remove(0);
    let (mut all, mut some) =
        (logits.clone(), logits.chunks(24).flat_map(|row| row[..4].to_vec()).collect::<Vec<_>>());
    cpu.hyper_weights(&x, &both, &mut all).unwrap();
    cpu.hyper_weights(&x, &read, &mut some).unwrap();
    for (all, some) in all.chunks(24).zip(some.chunks(4)) {
        assert_eq!(bits(&all[..4]), bits(some));
    }
    let mut out = [vec![0.0; rows * width], vec![0.0; rows * width]];
    cpu.hyper_read(&x, (&all, 24), 4, &mut out[0]).unwrap();
    cpu.hyper_read(&x, (&some, 4), 4, &mut out[1]).unwrap();
    assert_eq!(bits(&out[0]), bits(&out[1]));
    let error = cpu.hyper_write(&out[0], &some, &read, &mut x.clone()).unwrap_err();
    assert!(matches!(error, KernelError::Length { expected: 3, found: 1, .. }), "{error}");
}
