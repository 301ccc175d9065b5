//! Decays of channels against double precision, however rows are cut and wherever they lie.

use super::super::testing::{Rng, bits, cpus};
use super::*;

const HEADS: usize = 3;
const TAPS: usize = 4;
const BOUND: f32 = -5.0;
const EPS: f32 = 1e-5;

struct Net {
    dim: usize,
    conv: Vec<f32>,
    decay: Vec<f32>,
    dt: Vec<f32>,
    gain: Vec<f32>,
}

/// `[q, k, v]`, z, beta, alpha.
struct Rows([Vec<f32>; 3], Vec<f32>, Vec<f32>, Vec<f32>);

impl Net {
    fn new(rng: &mut Rng, dim: usize) -> Self {
        Self {
            dim,
            conv: rng.normals(3 * HEADS * dim * TAPS).iter().map(|x| 0.5 * x).collect(),
            decay: rng.normals(HEADS).iter().map(|x| -(0.5 * x).exp()).collect(),
            dt: rng.normals(HEADS * dim),
            gain: rng.normals(dim).iter().map(|x| 1.0 + 0.1 * x).collect(),
        }
    }

    fn rows(&self, rng: &mut Rng, rows: usize) -> Rows {
        let mut all = || rng.normals(rows * HEADS * self.dim);
        let (qkv, z, alpha) = ([all(), all(), all()], all(), all());
        Rows(qkv, z, rng.normals(rows * HEADS), alpha)
    }

    fn delta(&self) -> Delta {
        let shape = DeltaShape::new(HEADS, HEADS, self.dim, TAPS).unwrap();
        let norm = Norm { gain: &self.gain, eps: EPS };
        let (bound, gate) = (Some(BOUND), DeltaGate::Sigmoid);
        let (conv, decay, dt_bias) = (&self.conv[..], &self.decay[..], &self.dt[..]);
        Delta::new(shape, &DeltaWeights { conv, decay, dt_bias, norm, bound, gate }).unwrap()
    }

    /// Results and the state after rows `first..end`, which begin with `state`.
    fn run(&self, cpu: &Cpu, rows: &Rows, (first, end): (usize, usize), state: &mut [f32]) -> Vec<f32> {
        let width = HEADS * self.dim;
        let cut = |x: &'_ Vec<f32>, width: usize| x[first * width..end * width].to_vec();
        let [q, k, v] = rows.0.each_ref().map(|x| cut(x, width));
        let (z, beta, alpha) = (cut(&rows.1, width), cut(&rows.2, HEADS), cut(&rows.3, width));
        let qkv = DeltaRows::Apart([&q, &k, &v]);
        let input = DeltaInput { qkv, z: &z, beta: &beta, alpha: &alpha };
        let mut out = vec![f32::NAN; (end - first) * width];
        let saves = [(end - first - 1, 0)];
        let runs = [DeltaRun { first: 0, rows: end - first, from: (first > 0).then_some(0), saves: &saves }];
        cpu.delta(&self.delta(), &input, &runs, state, &mut out, &mut DeltaScratch::default()).unwrap();
        out
    }

    /// All rows in double precision, from zeros.
    fn exact(&self, rows: &Rows, count: usize) -> Vec<f64> {
        let (dim, width) = (self.dim, HEADS * self.dim);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let mixed = |kind: usize, head: usize, row: usize| -> Vec<f64> {
            let channel = |c: usize| {
                let tap = |tap: usize| {
                    let from = (row + tap).checked_sub(TAPS - 1)?;
                    let weight = self.conv[((kind * HEADS + head) * dim + c) * TAPS + tap];
                    Some(f64::from(weight) * f64::from(rows.0[kind][from * width + head * dim + c]))
                };
                let sum: f64 = (0..TAPS).filter_map(tap).sum();
                sum * sigmoid(sum)
            };
            (0..dim).map(channel).collect()
        };
        let unit = |x: Vec<f64>, by: f64| -> Vec<f64> {
            let size = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
            x.iter().map(|x| x / size * by).collect()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut out = vec![0.0; count * width];
        for head in 0..HEADS {
            let mut state = vec![vec![0.0; dim]; dim];
            for row in 0..count {
                let q = unit(mixed(0, head, row), 1.0 / (dim as f64).sqrt());
                let (k, v) = (unit(mixed(1, head, row), 1.0), mixed(2, head, row));
                let beta = sigmoid(rows.2[row * HEADS + head].into());
                let at = row * width + head * dim;
                let kept = |c: usize| {
                    let x = f64::from(rows.3[at + c]) + f64::from(self.dt[head * dim + c]);
                    (f64::from(BOUND) * sigmoid(-f64::from(self.decay[head]) * x)).exp()
                };
                let kept: Vec<f64> = (0..dim).map(kept).collect();
                let mut found = Vec::new();
                for (state, v) in state.iter_mut().zip(v) {
                    state.iter_mut().zip(&kept).for_each(|(s, kept)| *s *= kept);
                    let write = beta * (v - dot(state, &k));
                    state.iter_mut().zip(&k).for_each(|(s, k)| *s += k * write);
                    found.push(dot(state, &q));
                }
                let mean = dot(&found, &found) / dim as f64 + f64::from(EPS);
                for c in 0..dim {
                    let gate = sigmoid(rows.1[at + c].into());
                    out[at + c] = found[c] / mean.sqrt() * f64::from(self.gain[c]) * gate;
                }
            }
        }
        out
    }
}

#[test]
fn channels_decay_by_themselves() {
    let mut rng = Rng::new(11);
    for (dim, count) in [(16, 1), (32, 5), (48, 67), (128, 20)] {
        let net = Net::new(&mut rng, dim);
        let rows = net.rows(&mut rng, count);
        let expected = net.exact(&rows, count);
        let len = net.delta().shape().state_len();
        let (mut first, mut first_state) = (None, None);
        for cpu in cpus() {
            for piece in [count, 1, 7] {
                let mut state = vec![f32::NAN; len];
                let mut out = Vec::new();
                for start in (0..count).step_by(piece) {
                    out.extend(net.run(&cpu, &rows, (start, count.min(start + piece)), &mut state));
                }
                // Sums of `dim` products of single precision, twice for each row, of values of order 1; the norm of
                // results that are a tenth of that makes ten of it.
                let bound = 10.0 * (2 * dim) as f64 * f64::from(f32::EPSILON);
                for (found, exact) in out.iter().zip(&expected) {
                    assert!((f64::from(*found) - exact).abs() < bound, "{dim} {count}: {found} {exact}");
                }
                let first: &Vec<f32> = first.get_or_insert_with(|| out.clone());
                assert_eq!(bits(&out), bits(first), "{dim} {count} {piece} {cpu:?}");
                let state_before: &Vec<f32> = first_state.get_or_insert_with(|| state.clone());
                assert_eq!(bits(&state), bits(state_before), "state, {dim} {count} {piece} {cpu:?}");
            }
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let mut rng = Rng::new(12);
    let net = Net::new(&mut rng, 16);
    let Rows([q, k, v], z, beta, alpha) = net.rows(&mut rng, 2);
    let (cpu, delta) = (cpus().remove(0), net.delta());
    let runs = [DeltaRun { first: 0, rows: 2, from: None, saves: &[] }];
    let run = |qkv, alpha| {
        let input = DeltaInput { qkv, z: &z, beta: &beta, alpha };
        cpu.delta(&delta, &input, &runs, &mut [], &mut [0.0; 2 * HEADS * 16], &mut DeltaScratch::default())
    };
    run(DeltaRows::Apart([&q, &k, &v]), &alpha).unwrap();
    for bad in [[&q[1..], &k, &v], [&q, &k[1..], &v], [&q, &k, &v[1..]]] {
        assert!(matches!(run(DeltaRows::Apart(bad), &alpha), Err(KernelError::Length { .. })));
    }
    let heads_only = &alpha[..2 * HEADS];
    assert!(matches!(run(DeltaRows::Apart([&q, &k, &v]), heads_only), Err(KernelError::Length { .. })));
}
