//! Delta nets whose channels decay by themselves, against the CPU.

use super::super::testing::{Place, places};
use super::super::{Buffer, Delta, DeltaForm, DeltaShape};
use crate::cpu::testing::{Rng, bits, cpus};
use crate::cpu::{self, DeltaGate, DeltaInput, DeltaRows, DeltaRun, DeltaScratch, DeltaWeights, Norm};

const NONE: u32 = u32::MAX;
const EPS: f32 = 1e-5;
const BOUND: f32 = -5.0;

/// Weights.
struct Net {
    shape: DeltaShape,
    /// Of q, k and v `[taps][channels]`.
    conv: [Vec<f32>; 3],
    a: Vec<f32>,
    dt: Vec<f32>,
    gain: Vec<f32>,
}

/// Rows of a sequence: q, k, v; z, beta, alpha.
#[derive(Clone)]
struct Rows {
    qkv: [Vec<f32>; 3],
    z: Vec<f32>,
    beta: Vec<f32>,
    alpha: Vec<f32>,
}

const fn shape(key_heads: usize, value_heads: usize, dim: usize, taps: usize) -> DeltaShape {
    DeltaShape { key_heads, value_heads, key_dim: dim, value_dim: dim, taps }
}

const SMALL: DeltaShape = shape(2, 2, 16, 4);

/// Values of a row of q, k and v.
fn widths(shape: DeltaShape) -> [usize; 3] {
    let keys = shape.key_heads * shape.key_dim;
    [keys, keys, shape.outputs()]
}

fn net(shape: DeltaShape) -> Net {
    let mut rng = Rng::new(shape.channels() as u64);
    let mut scaled = |count: usize, by: f32| -> Vec<f32> {
        rng.normals(count).into_iter().map(|value| value * by).collect()
    };
    let conv = widths(shape).map(|width| scaled(shape.taps * width, 0.5));
    let a = scaled(shape.value_heads, 0.5).into_iter().map(|value| -value.exp()).collect();
    let dt = scaled(shape.value_heads * shape.key_dim, 2.0);
    let gain = scaled(shape.value_dim, 0.1).into_iter().map(|value| 1.0 + value).collect();
    Net { shape, conv, a, dt, gain }
}

/// `count` rows. Every seventh forgets all that the bound lets it forget, every ninth keeps all.
fn rows(shape: DeltaShape, count: usize, seed: u64) -> Rows {
    let mut rng = Rng::new(seed);
    let qkv = widths(shape).map(|width| rng.normals(count * width));
    let z = rng.normals(count * shape.outputs());
    let beta = rng.normals(count * shape.value_heads);
    let width = shape.value_heads * shape.key_dim;
    let mut alpha = rng.normals(count * width);
    for (row, alpha) in alpha.chunks_mut(width).enumerate() {
        match (row % 9, row % 7) {
            (4, _) => alpha.fill(-60.0),
            (_, 5) => alpha.fill(60.0),
            _ => {}
        }
    }
    Rows { qkv, z, beta, alpha }
}

impl Rows {
    fn part(&self, shape: DeltaShape, range: std::ops::Range<usize>) -> Self {
        let cut = |values: &[f32], width: usize| values[range.start * width..range.end * width].to_vec();
        let [q, k, v] = widths(shape);
        Self {
            qkv: [cut(&self.qkv[0], q), cut(&self.qkv[1], k), cut(&self.qkv[2], v)],
            z: cut(&self.z, shape.outputs()),
            beta: cut(&self.beta, shape.value_heads),
            alpha: cut(&self.alpha, shape.value_heads * shape.key_dim),
        }
    }

    fn and(mut self, more: &Self) -> Self {
        self.qkv.iter_mut().zip(&more.qkv).for_each(|(own, more)| own.extend(more));
        self.z.extend(&more.z);
        self.beta.extend(&more.beta);
        self.alpha.extend(&more.alpha);
        self
    }
}

impl Net {
    /// Results and the state after `count` rows from zeros, by the CPU.
    fn expected(&self, rows: &Rows, count: usize) -> (Vec<f32>, Vec<f32>) {
        let DeltaShape { key_heads, value_heads, key_dim, taps, .. } = self.shape;
        // `[channels][taps]`, one kind after the other.
        let by_channel = |conv: &Vec<f32>| -> Vec<f32> {
            let width = conv.len() / taps;
            (0..width)
                .flat_map(|channel| (0..taps).map(move |tap| (tap, channel)))
                .map(|(tap, channel)| conv[tap * width + channel])
                .collect()
        };
        let conv = self.conv.iter().flat_map(by_channel).collect::<Vec<f32>>();
        let shape = cpu::DeltaShape::new(key_heads, value_heads, key_dim, taps).unwrap();
        let weights = DeltaWeights {
            conv: &conv,
            decay: &self.a,
            dt_bias: &self.dt,
            norm: Norm { gain: &self.gain, eps: EPS },
            bound: Some(BOUND),
            gate: DeltaGate::Sigmoid,
        };
        let delta = cpu::Delta::new(shape, &weights).unwrap();
        let Rows { qkv: [q, k, v], z, beta, alpha } = rows;
        let input = DeltaInput { qkv: DeltaRows::Apart([q, k, v]), z, beta, alpha };
        let saves = [(count - 1, 0)];
        let runs = [DeltaRun { first: 0, rows: count, from: None, saves: &saves }];
        let mut states = vec![f32::NAN; shape.state_len()];
        let mut out = vec![f32::NAN; count * self.shape.outputs()];
        let cpu = cpus().remove(0);
        cpu.delta(&delta, &input, &runs, &mut states, &mut out, &mut DeltaScratch::default()).unwrap();
        (out, states)
    }
}

/// States and what launches share.
struct Card<'a> {
    place: &'a mut Place,
    net: &'a Net,
    states: Buffer<f32>,
    readers: Buffer<u32>,
}

impl<'a> Card<'a> {
    fn new(place: &'a mut Place, net: &'a Net, slots: usize) -> Self {
        let states = place.poison(slots * net.shape.state_len());
        let readers = place.buffer(&vec![0_u32; 64 * net.shape.key_heads]);
        Self { place, net, states, readers }
    }

    /// One step: sequences of `counts` rows that start from `from`.
    fn step(&mut self, rows: &Rows, counts: &[usize], from: &[u32], saves: &[u32]) -> Vec<f32> {
        let (net, place) = (self.net, &mut *self.place);
        let mut starts = vec![0_u32];
        starts.extend(counts.iter().scan(0, |end, count| {
            *end += *count as u32;
            Some(*end)
        }));
        let mut span = |values: &Vec<f32>| place.buffer(values).span();
        let form = DeltaForm::Channels {
            qkv: rows.qkv.each_ref().map(&mut span),
            conv: net.conv.each_ref().map(&mut span),
            bound: BOUND,
        };
        let [z, beta, alpha] = [&rows.z, &rows.beta, &rows.alpha].map(&mut span);
        let [a, dt, gain] = [&net.a, &net.dt, &net.gain].map(&mut span);
        let [from, starts, saved] = [from, &starts, saves].map(|words| place.buffer(words).span());
        let out = place.poison::<f32>(rows.z.len());
        let scratch = place.poison::<f32>(Delta::scratch_len(&net.shape, saves.len(), true).max(4));
        let op = Delta {
            shape: net.shape,
            form,
            z,
            beta,
            alpha,
            a,
            dt,
            norm: (gain, EPS),
            out: out.span(),
            states: self.states.span(),
            from,
            starts,
            saves: saved,
            scratch: scratch.span(),
            readers: self.readers.span(),
        };
        for launch in op.launches(place.info()).unwrap() {
            place.run(&launch);
        }
        assert!(place.read(&self.readers).iter().all(|&word| word == 0));
        place.read(&out)
    }

    fn state(&mut self, slot: usize) -> Vec<f32> {
        let len = self.net.shape.state_len();
        self.place.read(&self.states)[slot * len..][..len].to_vec()
    }
}

/// Rounding: a row's sums have at most 128 terms and the faded errors of the rows before it, 2^-24 each, here and in what is
/// compared with; the norm of a head may divide by a tenth.
fn close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let most = expected.iter().fold(1.0_f32, |most, value| most.max(value.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 4e-5 * most, "{what}: value {i} is {found}, not {expected}");
    }
}

#[test]
fn results_and_states_are_the_cpus() {
    for mut place in places() {
        let cases = [
            (SMALL, vec![1, 2, 7, 8, 9, 31, 33, 66]),
            (shape(1, 2, 128, 4), vec![1, 5, 34]),
            (shape(1, 3, 48, 2), vec![3, 35]),
            (shape(2, 2, 64, 3), vec![6, 33]),
        ];
        for (shape, counts) in cases {
            let net = net(shape);
            for count in counts {
                let rows = rows(shape, count, 7);
                let mut card = Card::new(&mut place, &net, 2);
                let mut saves = vec![NONE; count];
                saves[count - 1] = 1;
                let out = card.step(&rows, &[count], &[NONE], &saves);
                let (result, state) = net.expected(&rows, count);
                close(&out, &result, &format!("{count} rows of {shape:?}"));
                close(&card.state(1), &state, &format!("the state after {count} rows of {shape:?}"));
            }
        }
    }
}

#[test]
fn a_prompt_may_be_cut_anywhere() {
    for mut place in places() {
        let net = net(SMALL);
        let all = rows(SMALL, 70, 3);
        let mut found = Vec::new();
        for cuts in [vec![70], vec![33, 37], vec![1, 2, 32, 35], vec![5; 14], vec![40, 1, 1, 1, 27]] {
            let mut card = Card::new(&mut place, &net, 3);
            let (mut out, mut first, mut from) = (Vec::new(), 0, NONE);
            for (i, count) in cuts.into_iter().enumerate() {
                // In place every other time.
                let to = if i % 2 == 0 { i as u32 % 3 } else { from };
                let mut saves = vec![NONE; count];
                saves[count - 1] = to;
                let part = all.part(SMALL, first..first + count);
                out.extend(card.step(&part, &[count], &[from], &saves));
                (first, from) = (first + count, to);
            }
            found.push((bits(&out), bits(&card.state(from as usize))));
        }
        assert!(found.iter().all(|other| *other == found[0]), "on {}", place.info().name);
    }
}

#[test]
fn sequences_that_share_a_step_do_not_see_each_other() {
    for mut place in places() {
        let net = net(SMALL);
        // Few rows, then many; the third sequence has none.
        for counts in [[3, 1, 0, 6], [20, 1, 0, 30]] {
            let before = rows(SMALL, 3, 20);
            let parts = counts.map(|count| rows(SMALL, count, 30 + count as u64));
            let all = parts.iter().skip(1).fold(parts[0].clone(), Rows::and);
            let total = counts.iter().sum::<usize>();
            // Every row is saved, the last one where its sequence started.
            let mut saves: Vec<u32> = (0..total as u32).map(|row| row + 2).collect();
            saves[total - 1] = 1;
            let mut card = Card::new(&mut place, &net, total + 2);
            let prepare = |card: &mut Card<'_>| {
                card.step(&before, &[3], &[NONE], &[NONE, NONE, 0]);
                card.step(&before, &[3], &[NONE], &[NONE, NONE, 1]);
            };
            prepare(&mut card);
            let from = [0, NONE, 5, 1];
            let together = card.step(&all, &counts, &from, &saves);
            let states: Vec<Vec<u32>> = (0..total + 2).map(|slot| bits(&card.state(slot))).collect();
            let mut first = 0;
            for (i, part) in parts.iter().enumerate() {
                for rows in [1, counts[i]].into_iter().filter(|rows| *rows <= counts[i] && *rows > 0) {
                    prepare(&mut card);
                    let mut alone = vec![NONE; rows];
                    let slot = saves[first + rows - 1];
                    alone[rows - 1] = slot;
                    let out = card.step(&part.part(SMALL, 0..rows), &[rows], &[from[i]], &alone);
                    let width = SMALL.outputs();
                    let same = &together[first * width..][..rows * width];
                    assert_eq!(bits(&out), bits(same), "sequence {i}, {rows} rows");
                    let state = &states[slot as usize];
                    assert_eq!(&bits(&card.state(slot as usize)), state, "state of {i} after {rows} rows");
                }
                first += counts[i];
            }
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().pop().unwrap();
    let shape = SMALL;
    let [keys, _, values] = widths(shape);
    let mut floats = |len: usize| place.buffer(&vec![0.0_f32; len]).span();
    let qkv = [keys, keys, values].map(|width| floats(2 * width));
    let conv = [keys, keys, values].map(|width| floats(4 * width));
    let (z, beta, alpha, out) = (floats(2 * values), floats(4), floats(2 * values), floats(2 * values));
    let (a, dt, gain) = (floats(2), floats(values), floats(16));
    let (states, scratch) = (floats(3 * shape.state_len()), floats(4));
    let words = place.buffer(&[0_u32; 16]).span();
    let op = Delta {
        shape,
        form: DeltaForm::Channels { qkv: qkv.clone(), conv: conv.clone(), bound: BOUND },
        z,
        beta,
        alpha,
        a,
        dt,
        norm: (gain, EPS),
        out,
        states,
        from: words.slice(0..2).unwrap(),
        starts: words.slice(2..5).unwrap(),
        saves: words.slice(5..7).unwrap(),
        scratch,
        readers: words.slice(8..12).unwrap(),
    };
    let info = place.info().clone();
    let refused = |op: Delta| op.launches(&info).unwrap_err().to_string();
    assert_eq!(op.launches(&info).unwrap().len(), 1);
    let form = |qkv: &[_; 3], conv: &[_; 3], bound| DeltaForm::Channels {
        qkv: qkv.clone(),
        conv: conv.clone(),
        bound,
    };
    let of_rows = [qkv[0].clone(), conv[1].clone(), qkv[2].clone()];
    assert_eq!(
        refused(Delta { form: form(&of_rows, &conv, BOUND), ..op.clone() }),
        "delta: values of k is 128, must be 64"
    );
    let of_weights = [conv[0].clone(), conv[1].clone(), qkv[2].clone()];
    assert_eq!(
        refused(Delta { form: form(&qkv, &of_weights, BOUND), ..op.clone() }),
        "delta: weights of v's convolution is 64, must be 128"
    );
    for bound in [0.0, f32::NAN] {
        assert!(refused(Delta { form: form(&qkv, &conv, bound), ..op.clone() }).contains("not below 0"));
    }
    assert_eq!(
        refused(Delta { alpha: op.beta.clone(), ..op.clone() }),
        "delta: values of alpha is 4, must be 64"
    );
    assert_eq!(refused(Delta { dt: op.a.clone(), ..op }), "delta: values of dt is 2, must be 32");
}
