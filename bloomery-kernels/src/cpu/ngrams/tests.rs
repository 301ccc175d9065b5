//! N-grams against double precision, and the promise that cuts do not show.

use super::super::testing::{Rng, bits, cpus};
use super::*;

const DILATION: usize = 3;
const TAPS: usize = 4;

struct Net {
    streams: usize,
    width: usize,
    gains: [Vec<f32>; 3],
    conv: Vec<f32>,
}

impl Net {
    fn new(rng: &mut Rng, streams: usize, width: usize) -> Self {
        let row = streams * width;
        let mut gain = || rng.normals(row).iter().map(|x| 1.0 + 0.1 * x).collect();
        let gains = [gain(), gain(), gain()];
        Self { streams, width, gains, conv: rng.normals(TAPS * row) }
    }

    fn weights(&self) -> NgramWeights<'_> {
        let [key_norm, query_norm, conv_norm] = self.gains.each_ref().map(|gain| Norm { gain, eps: 1e-6 });
        let (streams, conv) = (self.streams, &self.conv[..]);
        let conv = Some(NgramConv { norm: conv_norm, taps: conv, dilation: DILATION });
        NgramWeights { streams, key_norm, query_norm, conv }
    }

    fn state_len(&self) -> usize {
        DILATION * (TAPS - 1) * self.streams * self.width
    }

    /// All rows in double precision, from the beginning of a sequence.
    fn exact(&self, x: &[f32], key: &[f32], value: &[f32]) -> Vec<f64> {
        let (streams, width, row) = (self.streams, self.width, self.streams * self.width);
        let normed = |part: &[f64], gain: &[f32]| -> Vec<f64> {
            let mean = part.iter().map(|x| x * x).sum::<f64>() / width as f64;
            part.iter().zip(gain).map(|(x, g)| x / (mean + 1e-6).sqrt() * f64::from(*g)).collect()
        };
        let wide = |part: &[f32]| part.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let (mut y, mut n) = (Vec::new(), Vec::new());
        for at in (0..x.len()).step_by(width) {
            let (stream, index) = (at / width % streams, at / row);
            let gain = |which: usize| &self.gains[which][stream * width..][..width];
            let key = normed(&wide(&key[at..at + width]), gain(0));
            let query = normed(&wide(&x[at..at + width]), gain(1));
            let d = key.iter().zip(&query).map(|(a, b)| a * b).sum::<f64>() / (width as f64).sqrt();
            let share = 1.0 / (1.0 + (-d.signum() * d.abs().max(1e-6).sqrt()).exp());
            let part: Vec<f64> =
                value[index * width..][..width].iter().map(|&v| share * f64::from(v)).collect();
            n.extend(normed(&part, gain(2)));
            y.extend(part);
        }
        let result = |at: usize| {
            let (index, channel) = (at / row, at % row);
            let tap = |tap: usize| {
                let from = index.checked_sub(DILATION * (TAPS - 1 - tap))?;
                Some(f64::from(self.conv[tap * row + channel]) * n[from * row + channel])
            };
            let sum: f64 = (0..TAPS).filter_map(tap).sum();
            f64::from(x[at]) + y[at] + sum / (1.0 + (-sum).exp())
        };
        (0..x.len()).map(result).collect()
    }
}

#[test]
fn agrees_with_double_precision_however_rows_are_cut() {
    let mut rng = Rng::new(5);
    for (streams, width, rows) in [(1, 16, 1), (4, 24, 30), (2, 80, 13), (4, 96, 11)] {
        let net = Net::new(&mut rng, streams, width);
        let row = streams * width;
        let (x, key, value) = (rng.normals(rows * row), rng.normals(rows * row), rng.normals(rows * width));
        let exact = net.exact(&x, &key, &value);
        let (mut first, mut first_state) = (None, None);
        for cpu in cpus() {
            for piece in [rows, 1, 4] {
                let (mut x, mut state) = (x.clone(), vec![f32::NAN; net.state_len()]);
                let mut scratch = NgramScratch::default();
                for start in (0..rows).step_by(piece) {
                    let end = rows.min(start + piece);
                    let input = NgramInput {
                        key: &key[start * row..end * row],
                        value: &value[start * width..end * width],
                    };
                    let saves = [(end - start - 1, 0)];
                    let from = (start > 0).then_some(0);
                    let runs = [DeltaRun { first: 0, rows: end - start, from, saves: &saves }];
                    let x = &mut x[start * row..end * row];
                    cpu.ngrams(&net.weights(), &input, &runs, &mut state, x, &mut scratch).unwrap();
                }
                for (index, (found, exact)) in x.iter().zip(&exact).enumerate() {
                    // The root makes of an error e of d one of e / (2 sqrt(d)): 1e-7 of a d near 1e-6 is 5e-5.
                    let off = (f64::from(*found) - exact).abs();
                    assert!(off < 2e-4 * exact.abs().max(1.0), "{streams} {width} {index}: {found} {exact}");
                }
                let first: &Vec<f32> = first.get_or_insert_with(|| x.clone());
                assert_eq!(bits(&x), bits(first), "{streams} {width} in pieces of {piece} on {cpu:?}");
                let before: &Vec<f32> = first_state.get_or_insert_with(|| state.clone());
                assert_eq!(bits(&state), bits(before), "state, pieces of {piece} on {cpu:?}");
            }
        }
    }
}

/// Two sequences in one call, of which one saves after every row.
#[test]
fn sequences_beside_each_other_and_states_on_the_way() {
    let mut rng = Rng::new(6);
    let (streams, width) = (2, 16);
    let net = Net::new(&mut rng, streams, width);
    let (row, len) = (streams * width, net.state_len());
    let (x, key, value) = (rng.normals(5 * row), rng.normals(5 * row), rng.normals(5 * width));
    let cpu = cpus().remove(0);
    let run = |x: &mut [f32], at: std::ops::Range<usize>, runs: &[DeltaRun<'_>], states: &mut [f32]| {
        let input = NgramInput {
            key: &key[at.start * row..at.end * row],
            value: &value[at.start * width..at.end * width],
        };
        cpu.ngrams(&net.weights(), &input, runs, states, x, &mut NgramScratch::default()).unwrap();
    };
    let start: Vec<f32> = rng.normals(len);
    // Slot 0 is what the second sequence begins with, and what it saves last.
    let mut states = [start.clone(), vec![0.0; 4 * len]].concat();
    let mut together = x.clone();
    let saves = ([(1, 1)], [(2, 2), (3, 3), (4, 0)]);
    let runs = [
        DeltaRun { first: 0, rows: 2, from: None, saves: &saves.0 },
        DeltaRun { first: 2, rows: 3, from: Some(0), saves: &saves.1 },
    ];
    run(&mut together, 0..5, &runs, &mut states);
    let mut alone = x.clone();
    let mut state = vec![0.0; len];
    let all = [DeltaRun { first: 0, rows: 2, from: None, saves: &[(1, 0)] }];
    run(&mut alone[..2 * row], 0..2, &all, &mut state);
    assert_eq!(bits(&state), bits(&states[len..2 * len]));
    let mut state = start;
    for (index, slot) in [(2, 2), (3, 3), (4, 0)] {
        let one = [DeltaRun { first: 0, rows: 1, from: Some(0), saves: &[(0, 0)] }];
        run(&mut alone[index * row..(index + 1) * row], index..index + 1, &one, &mut state);
        assert_eq!(bits(&state), bits(&states[slot * len..(slot + 1) * len]), "after row {index}");
    }
    assert_eq!(bits(&alone), bits(&together));
}

#[test]
fn bad_calls_are_refused() {
    let mut rng = Rng::new(7);
    let net = Net::new(&mut rng, 2, 16);
    let cpu = cpus().remove(0);
    let (key, value) = (vec![0.0; 64], vec![0.0; 32]);
    let call = |weights: &NgramWeights<'_>, input: &NgramInput<'_>, run: DeltaRun<'_>, x: usize| {
        let mut states = vec![0.0; net.state_len()];
        cpu.ngrams(weights, input, &[run], &mut states, &mut vec![0.0; x], &mut NgramScratch::default())
    };
    let (weights, input) = (net.weights(), NgramInput { key: &key, value: &value });
    let run = DeltaRun { first: 0, rows: 2, from: None, saves: &[(1, 0)] };
    call(&weights, &input, run, 64).unwrap();
    assert!(call(&weights, &input, run, 63).is_err());
    assert!(call(&weights, &NgramInput { key: &key[1..], ..input }, run, 64).is_err());
    assert!(call(&weights, &NgramInput { value: &value[1..], ..input }, run, 64).is_err());
    assert!(call(&weights, &input, DeltaRun { rows: 1, ..run }, 64).is_err());
    assert!(call(&weights, &input, DeltaRun { from: Some(1), ..run }, 64).is_err());
    assert!(call(&weights, &input, DeltaRun { saves: &[(2, 0)], ..run }, 64).is_err());
    assert!(call(&NgramWeights { streams: 3, ..weights }, &input, run, 64).is_err());
    let conv = weights.conv.map(|conv| NgramConv { taps: &net.conv[1..], ..conv });
    assert!(call(&NgramWeights { conv, ..weights }, &input, run, 64).is_err());
}
