//! The gated delta net against its definition in f64, row by row and in chunks.

use super::super::testing::{Place, places};
use super::super::{Delta, DeltaForm, DeltaShape};
use crate::cpu::testing::{Rng, bits};

const NONE: u32 = u32::MAX;
const EPS: f32 = 1e-6;

/// Weights, and the rows of a sequence.
struct Net {
    shape: DeltaShape,
    /// `[taps][channels]`.
    conv: Vec<f32>,
    a: Vec<f32>,
    dt: Vec<f32>,
    gain: Vec<f32>,
    /// Of z, else its SiLU.
    sigmoid: bool,
}

#[derive(Clone)]
struct Rows {
    qkv: Vec<f32>,
    z: Vec<f32>,
    beta: Vec<f32>,
    alpha: Vec<f32>,
}

fn net(shape: DeltaShape) -> Net {
    let mut rng = Rng::new(shape.channels() as u64);
    let scaled = |values: Vec<f32>, by: f32| values.into_iter().map(|v| v * by).collect::<Vec<f32>>();
    let conv = scaled(rng.normals(shape.taps * shape.channels()), 0.5);
    let a = rng.normals(shape.value_heads).into_iter().map(|v| -(0.5 * v).exp()).collect();
    let dt = scaled(rng.normals(shape.value_heads), 0.5);
    let gain = rng.normals(shape.value_dim).into_iter().map(|v| 1.0 + 0.1 * v).collect();
    Net { shape, conv, a, dt, gain, sigmoid: shape.value_heads % 2 == 1 }
}

/// `count` rows of a sequence. Every ninth keeps all and changes little, every seventh forgets all.
fn rows(shape: DeltaShape, count: usize, seed: u64) -> Rows {
    let mut rng = Rng::new(seed);
    let qkv = rng.normals(count * shape.channels());
    let z = rng.normals(count * shape.outputs());
    let mut beta = rng.normals(count * shape.value_heads);
    let mut alpha = rng.normals(count * shape.value_heads);
    for row in 0..count {
        let heads = row * shape.value_heads..(row + 1) * shape.value_heads;
        match (row % 9, row % 7) {
            (4, _) => {
                beta[heads.clone()].fill(-20.0);
                alpha[heads].fill(-30.0);
            }
            (_, 5) => {
                beta[heads.clone()].fill(20.0);
                alpha[heads].fill(25.0);
            }
            _ => {}
        }
    }
    Rows { qkv, z, beta, alpha }
}

impl Rows {
    fn part(&self, shape: DeltaShape, range: std::ops::Range<usize>) -> Self {
        let cut = |values: &[f32], width: usize| values[range.start * width..range.end * width].to_vec();
        Self {
            qkv: cut(&self.qkv, shape.channels()),
            z: cut(&self.z, shape.outputs()),
            beta: cut(&self.beta, shape.value_heads),
            alpha: cut(&self.alpha, shape.value_heads),
        }
    }

    fn and(mut self, more: &Self) -> Self {
        self.qkv.extend(&more.qkv);
        self.z.extend(&more.z);
        self.beta.extend(&more.beta);
        self.alpha.extend(&more.alpha);
        self
    }

    fn count(&self, shape: DeltaShape) -> usize {
        self.qkv.len() / shape.channels()
    }
}

/// States and what launches share.
struct Card<'a> {
    place: &'a mut Place,
    net: &'a Net,
    states: super::super::Buffer<f32>,
    readers: super::super::Buffer<u32>,
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
        let mut buffer = |values: &[f32]| place.buffer(values);
        let [qkv, z, beta, alpha] = [&rows.qkv, &rows.z, &rows.beta, &rows.alpha].map(|v| buffer(v));
        let [conv, a, dt, gain] = [&net.conv, &net.a, &net.dt, &net.gain].map(|v| buffer(v));
        let [from, starts, saved] = [from, &starts, saves].map(|words| place.buffer(words));
        let out = place.poison::<f32>(rows.z.len());
        let scratch = place.poison::<f32>(Delta::scratch_len(&net.shape, saves.len(), false).max(4));
        let op = Delta {
            shape: net.shape,
            form: DeltaForm::Heads { qkv: qkv.span(), conv: conv.span(), sigmoid: net.sigmoid },
            z: z.span(),
            beta: beta.span(),
            alpha: alpha.span(),
            a: a.span(),
            dt: dt.span(),
            norm: (gain.span(), EPS),
            out: out.span(),
            states: self.states.span(),
            from: from.span(),
            starts: starts.span(),
            saves: saved.span(),
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

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What the delta rule takes, of one head, in f64.
struct Head {
    q: Vec<Vec<f64>>,
    k: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    beta: Vec<f64>,
    g: Vec<f64>,
}

fn head(net: &Net, rows: &Rows, j: usize) -> Head {
    let shape = net.shape;
    let (width, count) = (shape.channels(), rows.count(shape));
    let conv = |row: usize, channel: usize| {
        let sum: f64 = (0..shape.taps.min(row + 1))
            .map(|back| {
                let weight = net.conv[(shape.taps - 1 - back) * width + channel];
                f64::from(weight) * f64::from(rows.qkv[(row - back) * width + channel])
            })
            .sum();
        sum * sigmoid(sum)
    };
    let take = |row: usize, first: usize, dim: usize| -> Vec<f64> {
        (first..first + dim).map(|channel| conv(row, channel)).collect()
    };
    let unit = |x: Vec<f64>, scale: f64| -> Vec<f64> {
        let length = (x.iter().map(|v| v * v).sum::<f64>() + 1e-6).sqrt();
        x.iter().map(|v| v / length * scale).collect()
    };
    let (dim, keys) = (shape.key_dim, shape.key_heads * shape.key_dim);
    let first = j % shape.key_heads * dim;
    let value = |row: usize| take(row, 2 * keys + j * shape.value_dim, shape.value_dim);
    let gate = |row: usize| {
        let x = f64::from(rows.alpha[row * shape.value_heads + j]) + f64::from(net.dt[j]);
        f64::from(net.a[j]) * if x > 20.0 { x } else { x.exp().ln_1p() }
    };
    Head {
        q: (0..count).map(|row| unit(take(row, first, dim), (dim as f64).sqrt().recip())).collect(),
        k: (0..count).map(|row| unit(take(row, keys + first, dim), 1.0)).collect(),
        v: (0..count).map(value).collect(),
        beta: (0..count).map(|row| sigmoid(rows.beta[row * shape.value_heads + j].into())).collect(),
        g: (0..count).map(gate).collect(),
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Row by row, from zeros: what is read, and S `[value][key]` after.
fn by_rows(h: &Head) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let mut s = vec![vec![0.0; h.k[0].len()]; h.v[0].len()];
    let mut out = Vec::new();
    for t in 0..h.k.len() {
        let mut o = Vec::new();
        for (row, v) in s.iter_mut().zip(&h.v[t]) {
            row.iter_mut().for_each(|value| *value *= h.g[t].exp());
            let d = h.beta[t] * (v - dot(row, &h.k[t]));
            row.iter_mut().zip(&h.k[t]).for_each(|(value, k)| *value += k * d);
            o.push(dot(row, &h.q[t]));
        }
        out.push(o);
    }
    (out, s)
}

/// In chunks of 64, each a triangular system.
fn by_chunks(h: &Head) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let (keys, values) = (h.k[0].len(), h.v[0].len());
    let mut s = vec![vec![0.0; keys]; values];
    let mut out = Vec::new();
    let count = h.k.len();
    for first in (0..count).step_by(64) {
        let n = (count - first).min(64);
        let at = |i: usize| first + i;
        let mut sums = Vec::new();
        let mut sum = 0.0;
        for i in 0..n {
            sum += h.g[at(i)];
            sums.push(sum);
        }
        // Rows of (I + A)^-1 (beta V - beta e^G K S), by forward substitution.
        let mut new: Vec<Vec<f64>> = Vec::new();
        for i in 0..n {
            let mut row: Vec<f64> = (0..values)
                .map(|v| h.beta[at(i)] * (h.v[at(i)][v] - sums[i].exp() * dot(&s[v], &h.k[at(i)])))
                .collect();
            for j in 0..i {
                let a = h.beta[at(i)] * dot(&h.k[at(i)], &h.k[at(j)]) * (sums[i] - sums[j]).exp();
                row.iter_mut().zip(&new[j]).for_each(|(value, before)| *value -= a * before);
            }
            new.push(row);
        }
        for i in 0..n {
            let mut o: Vec<f64> = (0..values).map(|v| sums[i].exp() * dot(&s[v], &h.q[at(i)])).collect();
            for j in 0..=i {
                let weight = dot(&h.q[at(i)], &h.k[at(j)]) * (sums[i] - sums[j]).exp();
                o.iter_mut().zip(&new[j]).for_each(|(value, d)| *value += weight * d);
            }
            out.push(o);
        }
        let all = sums[n - 1];
        for (v, row) in s.iter_mut().enumerate() {
            row.iter_mut().for_each(|value| *value *= all.exp());
            for j in 0..n {
                let factor = (all - sums[j]).exp() * new[j][v];
                row.iter_mut().zip(&h.k[at(j)]).for_each(|(value, k)| *value += factor * k);
            }
        }
    }
    (out, s)
}

type Form = fn(&Head) -> (Vec<Vec<f64>>, Vec<Vec<f64>>);

/// The result of a sequence and its state after it.
fn expected(net: &Net, rows: &Rows, form: Form) -> (Vec<f64>, Vec<f64>) {
    let (shape, count) = (net.shape, rows.count(net.shape));
    let (width, outputs) = (shape.channels(), shape.outputs());
    let mut out = vec![0.0; count * outputs];
    let mut state = Vec::new();
    for place in 0..shape.taps - 1 {
        let row = (count + place).checked_sub(shape.taps - 1);
        state.extend((0..width).map(|channel| row.map_or(0.0, |row| rows.qkv[row * width + channel].into())));
    }
    for j in 0..shape.value_heads {
        let (o, s) = form(&head(net, rows, j));
        for (row, o) in o.iter().enumerate() {
            let inverse = (dot(o, o) / o.len() as f64 + f64::from(EPS)).sqrt().recip();
            for (i, value) in o.iter().enumerate() {
                let at = row * outputs + j * shape.value_dim + i;
                let z = f64::from(rows.z[at]);
                let gate = if net.sigmoid { sigmoid(z) } else { z * sigmoid(z) };
                out[at] = value * inverse * f64::from(net.gain[i]) * gate;
            }
        }
        state.extend(s.into_iter().flatten());
    }
    (out, state)
}

/// Rounding: a row's sums have at most 128 terms and the decayed errors of some ten rows before it, 2^-24 each; the norm of a
/// head may divide by a tenth.
fn close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let most = expected.iter().fold(1.0_f64, |most, v| most.max(v.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (f64::from(*found) - expected).abs();
        assert!(off <= 4e-5 * most, "{what}: value {i} is {found}, not {expected}");
    }
}

const SMALL: DeltaShape = DeltaShape { key_heads: 2, value_heads: 4, key_dim: 16, value_dim: 16, taps: 4 };

#[test]
fn results_and_states_are_those_of_the_chunked_form() {
    for mut place in places() {
        let net = net(SMALL);
        for count in [1, 2, 3, 63, 64, 65, 130] {
            let rows = rows(SMALL, count, 7);
            let mut card = Card::new(&mut place, &net, 2);
            let mut saves = vec![NONE; count];
            saves[count - 1] = 1;
            let out = card.step(&rows, &[count], &[NONE], &saves);
            for (form, name) in [(by_chunks as Form, "chunks"), (by_rows, "rows")] {
                let (result, state) = expected(&net, &rows, form);
                close(&out, &result, &format!("{count} rows, {name}"));
                close(&card.state(1), &state, &format!("the state after {count} rows, {name}"));
            }
        }
    }
}

#[test]
fn heads_of_many_shapes() {
    let shape = |key_heads, value_heads, key_dim, value_dim, taps| DeltaShape {
        key_heads,
        value_heads,
        key_dim,
        value_dim,
        taps,
    };
    for mut place in places() {
        for shape in [
            shape(1, 2, 128, 128, 4),
            shape(2, 2, 64, 64, 3),
            shape(1, 3, 32, 48, 2),
            shape(2, 4, 36, 100, 4),
            shape(3, 3, 4, 4, 4),
        ] {
            let net = net(shape);
            for count in [5, 34] {
                let rows = rows(shape, count, 11);
                let mut card = Card::new(&mut place, &net, 1);
                let mut saves = vec![NONE; count];
                saves[count - 1] = 0;
                let out = card.step(&rows, &[count], &[NONE], &saves);
                let (result, state) = expected(&net, &rows, by_rows);
                close(&out, &result, &format!("{count} rows of {shape:?}"));
                close(&card.state(0), &state, &format!("the state after {count} rows of {shape:?}"));
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
            let parts: Vec<Rows> =
                counts.iter().map(|&count| rows(SMALL, count, 30 + count as u64)).collect();
            let all = parts.iter().skip(1).fold(parts[0].clone(), Rows::and);
            let total = counts.iter().sum::<usize>();
            // Slot 0 is where the first and the last sequence start; the last one's is in place.
            let mut saves: Vec<u32> = (0..total as u32).map(|row| row + 2).collect();
            saves[1] = NONE;
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
                for row in 0..counts[i] {
                    // Alone, up to each row in turn.
                    if row + 1 < counts[i] && row > 2 {
                        continue;
                    }
                    prepare(&mut card);
                    let mut alone = vec![NONE; row + 1];
                    alone[row] = saves[first + row];
                    let out = card.step(&part.part(SMALL, 0..row + 1), &[row + 1], &[from[i]], &alone);
                    let width = SMALL.outputs();
                    let same = &together[first * width..][..(row + 1) * width];
                    assert_eq!(bits(&out), bits(same), "sequence {i}, {row}");
                    if let Some(state) = states.get(alone[row] as usize) {
                        assert_eq!(
                            &bits(&card.state(alone[row] as usize)),
                            state,
                            "state of {i} after {row}"
                        );
                    }
                }
                first += counts[i];
            }
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().pop().unwrap();
    let floats = |place: &mut Place, len: usize| place.buffer(&vec![0.0_f32; len]).span();
    let shape = SMALL;
    let words = place.buffer(&[0_u32; 16]).span();
    let op = Delta {
        shape,
        form: DeltaForm::Heads {
            qkv: floats(&mut place, 2 * shape.channels()),
            conv: floats(&mut place, 4 * shape.channels()),
            sigmoid: false,
        },
        z: floats(&mut place, 2 * shape.outputs()),
        beta: floats(&mut place, 8),
        alpha: floats(&mut place, 8),
        a: floats(&mut place, 4),
        dt: floats(&mut place, 4),
        norm: (floats(&mut place, 16), EPS),
        out: floats(&mut place, 2 * shape.outputs()),
        states: floats(&mut place, 3 * shape.state_len()),
        from: words.slice(0..2).unwrap(),
        starts: words.slice(2..5).unwrap(),
        saves: words.slice(5..7).unwrap(),
        scratch: floats(&mut place, 4),
        readers: words.slice(8..12).unwrap(),
    };
    let info = place.info().clone();
    let refused = |op: Delta| op.launches(&info).unwrap_err().to_string();
    assert!(op.launches(&info).is_ok());
    let wide = DeltaShape { key_dim: 132, ..shape };
    assert_eq!(
        refused(Delta { shape: wide, ..op.clone() }),
        "delta: values of a head of k is 132, must be a multiple of 4, at most 128"
    );
    let odd = DeltaShape { value_heads: 3, ..shape };
    assert_eq!(
        refused(Delta { shape: odd, ..op.clone() }),
        "delta: heads of v is 3, must be a multiple of 2, at most 1024"
    );
    assert_eq!(
        refused(Delta { shape: DeltaShape { taps: 5, ..shape }, ..op.clone() }),
        "delta: taps is 5, must be 2 to 4"
    );
    assert!(refused(Delta { out: op.z.clone(), ..op.clone() }).contains("apart from z"));
    assert!(refused(Delta { starts: words.slice(2..4).unwrap(), ..op.clone() }).contains("starts"));
    assert!(refused(Delta { readers: words.slice(8..11).unwrap(), ..op.clone() }).contains("readers"));
    let cut = op.states.slice(0..op.states.len() - 4).unwrap();
    assert!(refused(Delta { states: cut, ..op }).contains("states"));
}
