//! The delta net against double precision, row by row and in chunks, and the promise that a sequence's bits depend on the
//! sequence alone.

use super::super::testing::{Rng, bits, cpus};
use super::*;

/// Widths, weights and rows of some sequence.
struct Net {
    shape: DeltaShape,
    conv: Vec<f32>,
    decay: Vec<f32>,
    dt: Vec<f32>,
    gain: Vec<f32>,
}

/// What projections would give.
#[derive(Clone)]
struct Rows {
    qkv: Vec<f32>,
    z: Vec<f32>,
    beta: Vec<f32>,
    alpha: Vec<f32>,
}

impl Net {
    fn new(rng: &mut Rng, key_heads: usize, value_heads: usize, head_dim: usize, taps: usize) -> Self {
        let shape = DeltaShape::new(key_heads, value_heads, head_dim, taps).unwrap();
        let scaled = |values: Vec<f32>, by: f32| values.into_iter().map(|x| x * by).collect();
        Self {
            shape,
            conv: scaled(rng.normals(shape.channels() * taps), 0.5),
            decay: rng.normals(value_heads).iter().map(|x| -(0.5 * x).exp()).collect(),
            dt: scaled(rng.normals(value_heads), 0.5),
            gain: rng.normals(head_dim).iter().map(|x| 1.0 + 0.1 * x).collect(),
        }
    }

    fn delta(&self) -> Delta {
        let norm = Norm { gain: &self.gain, eps: 1e-6 };
        let (conv, decay, dt_bias) = (&self.conv[..], &self.decay[..], &self.dt[..]);
        Delta::new(
            self.shape,
            &DeltaWeights { conv, decay, dt_bias, norm, bound: None, gate: DeltaGate::Silu },
        )
        .unwrap()
    }

    fn rows(&self, rng: &mut Rng, rows: usize) -> Rows {
        Rows {
            qkv: rng.normals(rows * self.shape.channels()),
            z: rng.normals(rows * self.shape.width()),
            beta: rng.normals(rows * self.shape.value_heads),
            alpha: rng.normals(rows * self.shape.value_heads),
        }
    }

    /// Runs on one machine.
    fn run(&self, cpu: &Cpu, rows: &Rows, runs: &[DeltaRun<'_>], states: &mut [f32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; rows.z.len()];
        let mut scratch = DeltaScratch::default();
        cpu.delta(&self.delta(), &rows.input(), runs, states, &mut out, &mut scratch).unwrap();
        out
    }

    /// Runs on every machine: equal bits, which are returned, as are the states.
    fn everywhere(&self, rows: &Rows, runs: &[DeltaRun<'_>], states: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut expected: Option<(Vec<f32>, Vec<f32>)> = None;
        for cpu in cpus() {
            let mut states = states.to_vec();
            let out = self.run(&cpu, rows, runs, &mut states);
            let expected = expected.get_or_insert_with(|| (out.clone(), states.clone()));
            assert_eq!(bits(&out), bits(&expected.0), "{cpu:?}");
            assert_eq!(bits(&states), bits(&expected.1), "states, {cpu:?}");
        }
        expected.unwrap()
    }

    /// A random state of the size that real ones have.
    fn state(&self, rng: &mut Rng) -> Vec<f32> {
        let mut state = rng.normals(self.shape.state_len());
        state[self.shape.ring_len()..].iter_mut().for_each(|x| *x *= 0.3);
        state
    }
}

impl Rows {
    fn input(&self) -> DeltaInput<'_> {
        DeltaInput { qkv: DeltaRows::Joined(&self.qkv), z: &self.z, beta: &self.beta, alpha: &self.alpha }
    }

    /// Rows `first..end` of `rows`.
    fn part(&self, first: usize, end: usize, rows: usize) -> Self {
        let cut = |x: &[f32]| x[first * (x.len() / rows)..end * (x.len() / rows)].to_vec();
        Self { qkv: cut(&self.qkv), z: cut(&self.z), beta: cut(&self.beta), alpha: cut(&self.alpha) }
    }

    /// Rows of several sequences, one after the other.
    fn join(all: &[Self]) -> Self {
        let join = |of: fn(&Self) -> &Vec<f32>| all.iter().flat_map(|rows| of(rows).clone()).collect();
        Self { qkv: join(|r| &r.qkv), z: join(|r| &r.z), beta: join(|r| &r.beta), alpha: join(|r| &r.alpha) }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// One head of all rows in double precision: `q`, `k`, `v` by row, and the logarithm of what a state keeps.
struct HeadRows {
    q: Vec<Vec<f64>>,
    k: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    beta: Vec<f64>,
    g: Vec<f64>,
}

/// Convolution, norms and gates of value head `head`.
fn head_rows(net: &Net, rows: &Rows, state: &[f32], head: usize) -> HeadRows {
    let DeltaShape { key_heads, value_heads, head_dim, taps } = net.shape;
    let channels = net.shape.channels();
    let count = rows.qkv.len() / channels;
    let all: Vec<f64> = state[..net.shape.ring_len()].iter().chain(&rows.qkv).map(|&x| x.into()).collect();
    let mixed = |row: usize, unit: usize| -> Vec<f64> {
        let channel = |ch: usize| {
            let tap = |tap: usize| f64::from(net.conv[ch * taps + tap]) * all[(row + tap) * channels + ch];
            let sum: f64 = (0..taps).map(tap).sum();
            sum * sigmoid(sum)
        };
        (unit * head_dim..(unit + 1) * head_dim).map(channel).collect()
    };
    let unit = |x: Vec<f64>, by: f64| -> Vec<f64> {
        let size = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
        x.iter().map(|x| x / size * by).collect()
    };
    let key_head = head % key_heads;
    let gate = |row: usize| {
        let at = row * value_heads + head;
        let x = f64::from(rows.alpha[at]) + f64::from(net.dt[head]);
        let softplus = if x > 30.0 { x } else { x.exp().ln_1p() };
        (sigmoid(rows.beta[at].into()), f64::from(net.decay[head]) * softplus)
    };
    HeadRows {
        q: (0..count).map(|row| unit(mixed(row, key_head), (head_dim as f64).sqrt().recip())).collect(),
        k: (0..count).map(|row| unit(mixed(row, key_heads + key_head), 1.0)).collect(),
        v: (0..count).map(|row| mixed(row, 2 * key_heads + head)).collect(),
        beta: (0..count).map(|row| gate(row).0).collect(),
        g: (0..count).map(|row| gate(row).1).collect(),
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The definition, row by row; `s` is `[value][key]`.
fn by_rows(head: &HeadRows, s: &mut [Vec<f64>]) -> Vec<Vec<f64>> {
    let row = |t: usize| {
        let value = |(j, s): (usize, &mut Vec<f64>)| {
            s.iter_mut().for_each(|x| *x *= head.g[t].exp());
            let d = head.beta[t] * (head.v[t][j] - dot(s, &head.k[t]));
            s.iter_mut().zip(&head.k[t]).for_each(|(s, k)| *s += d * k);
            dot(s, &head.q[t])
        };
        s.iter_mut().enumerate().map(value).collect()
    };
    (0..head.q.len()).map(row).collect()
}

/// The same in chunks of up to 64 rows, each a triangular system.
fn by_chunks(head: &HeadRows, s: &mut [Vec<f64>]) -> Vec<Vec<f64>> {
    let (rows, dim) = (head.q.len(), s.len());
    let mut out = Vec::new();
    for first in (0..rows).step_by(64) {
        let count = 64.min(rows - first);
        let at = |t: usize| first + t;
        let mut sums = vec![0.0; count];
        let mut sum = 0.0;
        for (t, to) in sums.iter_mut().enumerate() {
            sum += head.g[at(t)];
            *to = sum;
        }
        let keep = |i: usize, j: usize| (sums[i] - sums[j]).exp();
        // (I + A) N = beta (V - e^G K S), by forward substitution.
        let mut new: Vec<Vec<f64>> = Vec::new();
        for (i, sum) in sums.iter().enumerate() {
            let mut row: Vec<f64> = (0..dim)
                .map(|j| head.beta[at(i)] * (head.v[at(i)][j] - sum.exp() * dot(&s[j], &head.k[at(i)])))
                .collect();
            for (t, other) in new.iter().enumerate() {
                let a = head.beta[at(i)] * dot(&head.k[at(i)], &head.k[at(t)]) * keep(i, t);
                row.iter_mut().zip(other).for_each(|(row, other)| *row -= a * other);
            }
            new.push(row);
        }
        for (i, sum) in sums.iter().enumerate() {
            let mut row: Vec<f64> = (0..dim).map(|j| sum.exp() * dot(&s[j], &head.q[at(i)])).collect();
            for (t, other) in new.iter().enumerate().take(i + 1) {
                let a = dot(&head.q[at(i)], &head.k[at(t)]) * keep(i, t);
                row.iter_mut().zip(other).for_each(|(row, other)| *row += a * other);
            }
            out.push(row);
        }
        for (j, s) in s.iter_mut().enumerate() {
            for (key, s) in s.iter_mut().enumerate() {
                let added: f64 =
                    (0..count).map(|t| keep(count - 1, t) * head.k[at(t)][key] * new[t][j]).sum();
                *s = sums[count - 1].exp() * *s + added;
            }
        }
    }
    out
}

/// Relative Frobenius distance.
fn distance(got: impl Iterator<Item = f64>, exact: impl Iterator<Item = f64>) -> f64 {
    let (off, size) = got.zip(exact).fold((0.0, 0.0), |(off, size), (got, exact)| {
        (off + (got - exact) * (got - exact), size + exact * exact)
    });
    (off / (size + 1e-30)).sqrt()
}

type Oracle = fn(&HeadRows, &mut [Vec<f64>]) -> Vec<Vec<f64>>;

/// How far results and new state are off, the worst head.
fn off(net: &Net, rows: &Rows, state: &[f32], out: &[f32], after: &[f32], oracle: Oracle) -> f64 {
    let (dim, width) = (net.shape.head_dim, net.shape.width());
    let heads = (0..net.shape.value_heads).map(|head| {
        let start = net.shape.ring_len() + head * dim * dim;
        let values = |state: &[f32]| -> Vec<Vec<f64>> {
            let rows = state[start..start + dim * dim].chunks(dim);
            rows.map(|row| row.iter().map(|&x| x.into()).collect()).collect()
        };
        let mut s = values(state);
        let exact = oracle(&head_rows(net, rows, state, head), &mut s);
        let exact = exact.iter().enumerate().map(|(t, o)| {
            let inverse = (o.iter().map(|x| x * x).sum::<f64>() / dim as f64 + 1e-6).sqrt().recip();
            let z = &rows.z[t * width + head * dim..][..dim];
            let gated = o.iter().zip(z).zip(&net.gain).map(move |((o, &z), &gain)| {
                o * inverse * f64::from(gain) * f64::from(z) * sigmoid(z.into())
            });
            gated.collect::<Vec<_>>()
        });
        let got = out.chunks(width).map(|row| row[head * dim..][..dim].iter().map(|&x| f64::from(x)));
        let results = distance(got.flatten(), exact.flatten());
        let states = distance(values(after).into_iter().flatten(), s.into_iter().flatten());
        results.max(states)
    });
    heads.fold(0.0, f64::max)
}

/// Norms of results and sums over keys lose a few units, and an error of a state fades as the state does.
const CLOSE: f64 = 4e-6;

#[test]
fn agrees_with_the_definition_and_with_the_chunked_form() {
    let mut rng = Rng::new(1);
    for (key_heads, value_heads, dim) in [(2, 4, 32), (1, 3, 16), (1, 1, 128), (2, 2, 48)] {
        let net = Net::new(&mut rng, key_heads, value_heads, dim, 4);
        for rows in [1, 2, 3, 4, 63, 64, 65, 130] {
            let (input, state) = (net.rows(&mut rng, rows), net.state(&mut rng));
            let runs = [DeltaRun { first: 0, rows, from: Some(0), saves: &[(rows - 1, 0)] }];
            let (out, after) = net.everywhere(&input, &runs, &state);
            for (name, oracle) in [("rows", by_rows as Oracle), ("chunks", by_chunks)] {
                let off = off(&net, &input, &state, &out, &after, oracle);
                assert!(off < CLOSE, "{rows} rows of {dim}, by {name}: {off}");
            }
            let ring = net.shape.ring_len();
            let all: Vec<f32> = state[..ring].iter().chain(&input.qkv).copied().collect();
            assert_eq!(after[..ring], all[all.len() - ring..], "{rows}");
        }
    }
}

#[test]
fn the_oracle_would_notice() {
    let mut rng = Rng::new(2);
    let net = Net::new(&mut rng, 2, 4, 32, 4);
    let (input, state) = (net.rows(&mut rng, 5), net.state(&mut rng));
    let runs = [DeltaRun { first: 0, rows: 5, from: Some(0), saves: &[(4, 0)] }];
    let (out, after) = net.everywhere(&input, &runs, &state);
    // Each of these is a mistake somebody could make: other heads, reversed taps, no bias, a state of zeros.
    let mut grouped = Net { shape: net.shape, ..Net::new(&mut rng, 2, 4, 32, 4) };
    (grouped.decay, grouped.dt, grouped.gain) = (net.decay.clone(), vec![0.0; 4], net.gain.clone());
    grouped.conv = net.conv.clone();
    assert!(off(&grouped, &input, &state, &out, &after, by_rows) > 1e-2);
    grouped.dt = net.dt.clone();
    grouped.conv.reverse();
    assert!(off(&grouped, &input, &state, &out, &after, by_rows) > 1e-2);
    assert!(off(&net, &input, &vec![0.0; state.len()], &out, &after, by_rows) > 1e-2);
    let mut swapped = input.clone();
    swapped.z.chunks_mut(32).for_each(|z| z.reverse());
    assert!(off(&net, &swapped, &state, &out, &after, by_rows) > 1e-2);
}

#[test]
fn extreme_gates() {
    let mut rng = Rng::new(3);
    let net = Net::new(&mut rng, 1, 4, 32, 4);
    let rows = 66;
    let state = net.state(&mut rng);
    for (beta, alpha) in [(-30.0, 0.0), (30.0, 0.0), (0.0, -40.0), (0.0, 30.0), (20.0, -20.0), (0.0, 200.0)] {
        let mut input = net.rows(&mut rng, rows);
        input.beta.fill(beta);
        input.alpha.fill(alpha);
        let runs = [DeltaRun { first: 0, rows, from: Some(0), saves: &[(rows - 1, 0)] }];
        let (out, after) = net.everywhere(&input, &runs, &state);
        assert!(out.iter().chain(&after).all(|x| x.is_finite()), "beta {beta}, alpha {alpha}");
        // A state that is never faded adds up its rounding; nothing is written at all with beta of e^-30.
        let bound = if beta == -30.0 { 3e-3 } else { 10.0 * CLOSE };
        for oracle in [by_rows as Oracle, by_chunks] {
            let off = off(&net, &input, &state, &out, &after, oracle);
            assert!(off < bound, "beta {beta}, alpha {alpha}: {off}");
        }
    }
}

#[test]
fn cuts_do_not_show() {
    let mut rng = Rng::new(4);
    let net = Net::new(&mut rng, 2, 4, 32, 4);
    let (rows, state) = (70, net.state(&mut rng));
    let input = net.rows(&mut rng, rows);
    let runs = [DeltaRun { first: 0, rows, from: Some(0), saves: &[(rows - 1, 0)] }];
    let (out, after) = net.everywhere(&input, &runs, &state);
    for step in [1, 2, 3, 7, 33, 69] {
        for cpu in cpus() {
            let (mut states, mut pieces) = (state.clone(), Vec::new());
            for first in (0..rows).step_by(step) {
                let count = step.min(rows - first);
                let part = input.part(first, first + count, rows);
                let runs = [DeltaRun { first: 0, rows: count, from: Some(0), saves: &[(count - 1, 0)] }];
                pieces.extend(net.run(&cpu, &part, &runs, &mut states));
            }
            assert_eq!(bits(&pieces), bits(&out), "pieces of {step}");
            assert_eq!(bits(&states), bits(&after), "state after pieces of {step}");
        }
    }
}

#[test]
fn no_state_is_zeros() {
    let mut rng = Rng::new(5);
    let net = Net::new(&mut rng, 1, 2, 16, 4);
    let len = net.shape.state_len();
    for rows in [1, 2, 3, 9] {
        let input = net.rows(&mut rng, rows);
        let run = |from, states: &[f32]| {
            net.everywhere(&input, &[DeltaRun { first: 0, rows, from, saves: &[(rows - 1, 0)] }], states)
        };
        // What an unused slot holds must not matter.
        let (fresh, zeros) = (run(None, &vec![f32::NAN; len]), run(Some(0), &vec![0.0; len]));
        assert_eq!(bits(&fresh.0), bits(&zeros.0));
        assert_eq!(bits(&fresh.1), bits(&zeros.1));
    }
}

/// Three sequences in one call, with saves after any row, are what each is alone.
#[test]
fn sequences_beside_each_other_and_states_on_the_way() {
    let mut rng = Rng::new(6);
    let net = Net::new(&mut rng, 2, 4, 32, 4);
    let len = net.shape.state_len();
    let states = [net.state(&mut rng), net.state(&mut rng), vec![f32::NAN; 6 * len]].concat();
    let lens = [5, 1, 12];
    let parts: Vec<Rows> = lens.iter().map(|&rows| net.rows(&mut rng, rows)).collect();
    // The first overwrites what it begins with on the way, the second what it begins with at its end.
    let runs = [
        DeltaRun { first: 0, rows: 5, from: Some(0), saves: &[(0, 0), (1, 2), (4, 3)] },
        DeltaRun { first: 5, rows: 1, from: Some(1), saves: &[(5, 1)] },
        DeltaRun { first: 6, rows: 12, from: None, saves: &[(6, 4), (7, 5), (8, 6), (17, 7)] },
    ];
    let (out, after) = net.everywhere(&Rows::join(&parts), &runs, &states);
    let mut out = &out[..];
    for ((run, part), rows) in runs.iter().zip(&parts).zip(lens) {
        let (mine, rest) = out.split_at(rows * net.shape.width());
        out = rest;
        for &(row, slot) in run.saves {
            let count = row - run.first + 1;
            let saves = [(count - 1, 7)];
            let alone = [DeltaRun { first: 0, rows: count, from: run.from, saves: &saves }];
            let (alone, states) = net.everywhere(&part.part(0, count, rows), &alone, &states);
            assert_eq!(bits(&alone), bits(&mine[..alone.len()]));
            assert_eq!(bits(&states[7 * len..]), bits(&after[slot * len..(slot + 1) * len]), "slot {slot}");
        }
    }
    // Two that begin with one state.
    let fork = [
        DeltaRun { first: 0, rows: 5, from: Some(0), saves: &[(4, 2)] },
        DeltaRun { first: 5, rows: 5, from: Some(0), saves: &[(9, 3)] },
    ];
    let (out, after) = net.everywhere(&Rows::join(&[parts[0].clone(), parts[0].clone()]), &fork, &states);
    assert_eq!(bits(&out[..out.len() / 2]), bits(&out[out.len() / 2..]));
    assert_eq!(bits(&after[2 * len..3 * len]), bits(&after[3 * len..4 * len]));
    assert_eq!(bits(&after[..len]), bits(&states[..len]));
}

#[test]
fn other_numbers_of_taps() {
    let mut rng = Rng::new(7);
    for taps in [1, 2, 5] {
        let net = Net::new(&mut rng, 1, 2, 16, taps);
        let (input, state) = (net.rows(&mut rng, 7), net.state(&mut rng));
        let runs = [DeltaRun { first: 0, rows: 7, from: Some(0), saves: &[(6, 0)] }];
        let (out, after) = net.everywhere(&input, &runs, &state);
        assert!(off(&net, &input, &state, &out, &after, by_rows) < CLOSE, "{taps}");
    }
}

#[test]
fn bad_calls_are_refused() {
    for (keys, values, dim, taps) in
        [(0, 2, 16, 4), (2, 3, 16, 4), (2, 0, 16, 4), (1, 1, 8, 4), (1, 1, 16, 0)]
    {
        assert!(matches!(DeltaShape::new(keys, values, dim, taps), Err(KernelError::Shape { .. })));
    }
    let mut rng = Rng::new(8);
    let net = Net::new(&mut rng, 1, 2, 16, 4);
    let (delta, input) = (net.delta(), net.rows(&mut rng, 4));
    let before = [net.state(&mut rng), net.state(&mut rng)].concat();
    let cpu = cpus().remove(0);
    let call = |runs: &[DeltaRun<'_>], input: &DeltaInput<'_>, len: usize| {
        let mut states = before.clone();
        states.truncate(len);
        let mut out = vec![0.0; 4 * 32];
        let result = cpu.delta(&delta, input, runs, &mut states, &mut out, &mut DeltaScratch::default());
        assert!(result.is_ok() || (states[..] == before[..len] && out.iter().all(|&x| x == 0.0)));
        result
    };
    let run = |first, rows, from, saves| DeltaRun { first, rows, from, saves };
    let all = before.len();
    assert!(call(&[run(0, 4, None, &[(3, 0)])], &input.input(), all).is_ok());
    let shapes: &[&[DeltaRun<'_>]] = &[
        &[run(1, 3, None, &[])],
        &[run(0, 5, None, &[])],
        &[run(0, 0, None, &[]), run(0, 4, None, &[])],
        &[run(0, 2, None, &[]), run(3, 1, None, &[])],
        &[run(0, 4, None, &[(1, 0), (1, 1)])],
        &[run(0, 4, None, &[(2, 0), (1, 1)])],
        &[run(0, 4, None, &[(4, 0)])],
        &[run(0, 4, None, &[(1, 0), (3, 0)])],
        &[run(0, 2, None, &[(1, 0)]), run(2, 2, None, &[(3, 0)])],
        &[run(0, 2, Some(1), &[(1, 0)]), run(2, 2, None, &[(3, 1)])],
        &[run(0, 2, Some(0), &[(1, 0)]), run(2, 2, Some(0), &[(3, 1)])],
    ];
    for runs in shapes {
        assert!(matches!(call(runs, &input.input(), all), Err(KernelError::Shape { .. })), "{runs:?}");
    }
    for runs in [[run(0, 4, Some(2), &[])], [run(0, 4, None, &[(3, 2)])]] {
        assert!(matches!(call(&runs, &input.input(), all), Err(KernelError::OutOfRange { .. })));
    }
    let whole = [run(0, 4, None, &[])];
    assert!(matches!(call(&whole, &input.input(), all - 1), Err(KernelError::Length { .. })));
    assert!(matches!(call(&whole[..0], &input.input(), all), Err(KernelError::Length { .. })));
    for cut in [
        DeltaInput { qkv: DeltaRows::Joined(&input.qkv[1..]), ..input.input() },
        DeltaInput { z: &input.z[1..], ..input.input() },
        DeltaInput { beta: &input.beta[1..], ..input.input() },
        DeltaInput { alpha: &input.alpha[1..], ..input.input() },
    ] {
        assert!(matches!(call(&whole, &cut, all), Err(KernelError::Length { .. })));
    }
    let norm = Norm { gain: &net.gain, eps: 1e-6 };
    let (bound, gate) = (None, DeltaGate::Silu);
    let weights =
        DeltaWeights { conv: &net.conv[1..], decay: &net.decay, dt_bias: &net.dt, norm, bound, gate };
    assert!(matches!(Delta::new(net.shape, &weights), Err(KernelError::Length { .. })));
}
