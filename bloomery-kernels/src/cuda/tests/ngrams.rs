//! N-grams beside streams: against the CPU's function, over several steps.

use std::num::NonZeroUsize;

use super::super::testing::{Place, places};
use super::super::{NgramAdd, NgramMix};
use crate::cpu::testing::{Rng, bits};
use crate::cpu::{
    Cpu, DeltaRun, Isa, NgramConv, NgramInput, NgramScratch, NgramWeights, Norm, Numerics, Pool,
};

const NONE: u32 = u32::MAX;
const SLOTS: usize = 5;
const EPS: [f32; 3] = [1e-6, 1e-5, 1e-4];

/// How many rows each sequence of a step has, where it starts from, and which rows go where.
struct Step<'a> {
    lens: &'a [usize],
    from: &'a [u32],
    saves: &'a [(usize, u32)],
}

impl Step<'_> {
    fn rows(&self) -> usize {
        self.lens.iter().sum()
    }

    fn starts(&self) -> Vec<u32> {
        (0..=self.lens.len()).map(|s| self.lens[..s].iter().sum::<usize>() as u32).collect()
    }
}

/// A layer.
struct Layer {
    streams: usize,
    width: usize,
    taps: usize,
    dilation: usize,
    gains: [Vec<f32>; 3],
    conv: Vec<f32>,
}

impl Layer {
    fn new(streams: usize, width: usize, taps: usize, dilation: usize) -> Self {
        let mut rng = Rng::new((streams * width) as u64);
        let all = streams * width;
        let gains = [(); 3].map(|()| rng.normals(all));
        Self { streams, width, taps, dilation, gains, conv: rng.normals(taps * all) }
    }

    fn all(&self) -> usize {
        self.streams * self.width
    }

    fn state_len(&self) -> usize {
        self.dilation * (self.taps - 1) * self.all()
    }

    fn weights(&self) -> NgramWeights<'_> {
        let norm = |i: usize| Norm { gain: &self.gains[i], eps: EPS[i] };
        NgramWeights {
            streams: self.streams,
            key_norm: norm(0),
            query_norm: norm(1),
            conv: Some(NgramConv { norm: norm(2), taps: &self.conv, dilation: self.dilation }),
        }
    }

    fn op(&self, place: &mut Place, step: &Step<'_>, input: &Input, states: &[f32]) -> NgramMix {
        let rows = step.rows();
        let mut saves = vec![NONE; rows];
        step.saves.iter().for_each(|&(row, slot)| saves[row] = slot);
        let sequence: Vec<u32> = step.lens.iter().zip(0..).flat_map(|(&len, s)| vec![s; len]).collect();
        let scratch = NgramMix::scratch_len(rows, self.streams, self.width);
        NgramMix {
            streams: self.streams,
            width: self.width,
            taps: self.taps,
            dilation: self.dilation,
            key: place.buffer(&input.key).span(),
            value: place.buffer(&input.value).span(),
            x: place.buffer(&input.x).span(),
            norms: [0, 1, 2].map(|i| (place.buffer(&self.gains[i]).span(), EPS[i])),
            conv: place.buffer(&self.conv).span(),
            scratch: place.poison(scratch).span(),
            states: place.buffer(states).span(),
            sequence: place.buffer(&sequence).span(),
            from: place.buffer(step.from).span(),
            starts: place.buffer(&step.starts()).span(),
            saves: place.buffer(&saves).span(),
        }
    }

    /// The streams and the states after a step.
    fn run(&self, place: &mut Place, step: &Step<'_>, input: &Input, states: &[f32]) -> [Vec<f32>; 2] {
        let op = self.op(place, step, input, states);
        let (x, slots) = (place.buffer(&input.x), place.buffer(states));
        let op = NgramMix { x: x.span(), states: slots.span(), ..op };
        op.launches(place.info()).unwrap().iter().for_each(|launch| place.run(launch));
        [place.read(&x), place.read(&slots)]
    }

    /// The same on the CPU.
    fn expected(&self, step: &Step<'_>, input: &Input, states: &[f32]) -> [Vec<f32>; 2] {
        let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
        let known = |slot: u32| ((slot as usize) < SLOTS).then_some(slot as usize);
        let saves: Vec<(usize, usize)> =
            step.saves.iter().filter_map(|&(row, slot)| Some((row, known(slot)?))).collect();
        let starts = step.starts();
        let runs = (0..step.lens.len()).filter(|&s| step.lens[s] > 0).map(|s| {
            let (first, end) = (starts[s] as usize, starts[s + 1] as usize);
            let part = |row: usize| saves.partition_point(|save| save.0 < row);
            let saves = &saves[part(first)..part(end)];
            DeltaRun { first, rows: end - first, from: known(step.from[s]), saves }
        });
        let runs: Vec<DeltaRun<'_>> = runs.collect();
        let (mut x, mut after) = (input.x.clone(), states.to_vec());
        let rows = NgramInput { key: &input.key, value: &input.value };
        let mut scratch = NgramScratch::default();
        cpu.ngrams(&self.weights(), &rows, &runs, &mut after, &mut x, &mut scratch).unwrap();
        [x, after]
    }
}

/// Rows of a step.
struct Input {
    key: Vec<f32>,
    value: Vec<f32>,
    x: Vec<f32>,
}

impl Input {
    fn new(layer: &Layer, rows: usize) -> Self {
        let mut rng = Rng::new(rows as u64);
        let (all, width) = (layer.all(), layer.width);
        Self { key: rng.normals(rows * all), value: rng.normals(rows * width), x: rng.normals(rows * all) }
    }

    fn rows(&self, layer: &Layer, rows: std::ops::Range<usize>) -> Self {
        let part = |values: &[f32], len: usize| values[rows.start * len..rows.end * len].to_vec();
        let (all, width) = (layer.all(), layer.width);
        Self { key: part(&self.key, all), value: part(&self.value, width), x: part(&self.x, all) }
    }
}

#[track_caller]
fn close(found: &[f32], expected: &[f32], name: &str) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        // A root and three norms, whose sums have as many roundings as a stream has values for a thread.
        assert!((a - b).abs() <= 2e-5 * b.abs().max(1.0), "{name}: value {i} is {a}, not {b}");
    }
}

#[test]
fn streams_and_states_are_the_cpus() {
    let steps = [
        Step { lens: &[1], from: &[NONE], saves: &[(0, 3)] },
        Step { lens: &[1], from: &[3], saves: &[(0, 3)] },
        Step { lens: &[1], from: &[2], saves: &[] },
        // The last row where the sequence starts from, others in the middle.
        Step { lens: &[7], from: &[1], saves: &[(0, 0), (3, 4), (6, 1)] },
        Step { lens: &[12], from: &[1], saves: &[(0, 0), (8, 4), (9, 3), (11, 1)] },
        Step {
            lens: &[3, 1, 0, 5],
            from: &[2, 0, NONE, SLOTS as u32],
            saves: &[(2, 2), (3, 1), (6, 3), (8, 4)],
        },
        Step { lens: &[1, 1, 2, 0], from: &[4, 2, NONE, NONE], saves: &[(0, 4), (1, 0), (3, 3)] },
        Step { lens: &[20, 13], from: &[NONE, 1], saves: &[(19, 0), (25, 3), (32, 1)] },
    ];
    for mut place in places() {
        for (streams, width, taps, dilation) in [(4, 40, 4, 3), (2, 264, 2, 1), (3, 8, 3, 2)] {
            let layer = Layer::new(streams, width, taps, dilation);
            for step in &steps {
                let name = format!("{:?} from {:?}, {streams} streams of {width}", step.lens, step.from);
                let input = Input::new(&layer, step.rows());
                let states = Rng::new(7).normals(SLOTS * layer.state_len());
                let [x, after] = layer.run(&mut place, step, &input, &states);
                let [expected, kept] = layer.expected(step, &input, &states);
                close(&x, &expected, &name);
                close(&after, &kept, &format!("{name}: slots"));
            }
        }
    }
}

#[test]
fn where_a_sequence_is_cut_does_not_matter() {
    for mut place in places() {
        let layer = Layer::new(4, 72, 4, 3);
        let input = Input::new(&layer, 14);
        let states = Rng::new(7).normals(SLOTS * layer.state_len());
        let whole = Step { lens: &[2, 12], from: &[NONE, 1], saves: &[(1, 0), (13, 1)] };
        let [x, after] = layer.run(&mut place, &whole, &input, &states);
        let mut states = states;
        let (mut rows, mut at) = (Vec::new(), 2);
        for len in [1, 3, 8] {
            let lens = [len];
            let step = Step { lens: &lens, from: &[1], saves: &[(len - 1, 1)] };
            let part = input.rows(&layer, at..at + len);
            let [x, now] = layer.run(&mut place, &step, &part, &states);
            rows.extend(x);
            (states, at) = (now, at + len);
        }
        assert_eq!(bits(&rows), bits(&x[2 * layer.all()..]));
        let slot = layer.state_len()..2 * layer.state_len();
        assert_eq!(bits(&states[slot.clone()]), bits(&after[slot]));
    }
}

/// A key that says nothing, and one that fits so badly that the root ends.
#[test]
fn a_key_without_sign_gives_half() {
    for mut place in places() {
        let layer = Layer::new(2, 16, 2, 1);
        let mut input = Input::new(&layer, 2);
        input.key[..layer.all()].fill(0.0);
        let step = Step { lens: &[2], from: &[NONE], saves: &[] };
        let states = vec![0.0; SLOTS * layer.state_len()];
        let [x, _] = layer.run(&mut place, &step, &input, &states);
        close(&x, &layer.expected(&step, &input, &states)[0], "a key of zeros");
    }
}

/// Without a convolution there are no states, and one kernel.
#[test]
fn values_alone_are_added() {
    for mut place in places() {
        for (streams, width) in [(4, 40), (2, 264), (3, 8), (4, 5120)] {
            let layer = Layer::new(streams, width, 2, 1);
            for rows in [1, 2, 7, 8, 9, 31, 33].into_iter().filter(|rows| width < 5120 || *rows < 3) {
                let input = Input::new(&layer, rows);
                let run = |place: &mut Place, input: &Input| {
                    let x = place.buffer(&input.x);
                    let op = NgramAdd {
                        streams,
                        width,
                        key: place.buffer(&input.key).span(),
                        value: place.buffer(&input.value).span(),
                        x: x.span(),
                        norms: [0, 1].map(|i| (place.buffer(&layer.gains[i]).span(), EPS[i])),
                    };
                    place.run(&op.launch(place.info()).unwrap());
                    place.read(&x)
                };
                let found = run(&mut place, &input);
                let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
                let weights = NgramWeights { conv: None, ..layer.weights() };
                let mut expected = input.x.clone();
                let (mut scratch, given) =
                    (NgramScratch::default(), NgramInput { key: &input.key, value: &input.value });
                let runs = [DeltaRun { first: 0, rows, from: None, saves: &[] }];
                cpu.ngrams(&weights, &given, &runs, &mut [], &mut expected, &mut scratch).unwrap();
                let name = format!("{rows} rows of {streams} streams of {width}");
                close(&found, &expected, &name);
                let alone = run(&mut place, &input.rows(&layer, rows - 1..rows));
                assert_eq!(bits(&alone), bits(&found[(rows - 1) * layer.all()..]), "{name}: the last alone");
            }
        }
    }
}

#[test]
fn bad_additions_are_refused() {
    let mut place = places().remove(0);
    let floats = place.buffer(&vec![0.0_f32; 256]);
    let part = |range| floats.slice(range).unwrap();
    let norms = [(part(0..32), 1e-6), (part(32..64), 1e-6)];
    let op = NgramAdd {
        streams: 2,
        width: 16,
        key: part(64..128),
        value: part(128..160),
        x: part(160..224),
        norms,
    };
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: NgramAdd| op.launch(place.info()).unwrap_err().to_string();
    assert_eq!(refused(NgramAdd { streams: 0, ..op.clone() }), "n-grams: streams is 0, must be 1 to 8");
    let found = refused(NgramAdd { value: part(128..144), ..op.clone() });
    assert_eq!(found, "n-grams: values is 16, must be 32");
    assert!(refused(NgramAdd { x: part(160..216), ..op.clone() }).contains("values of the streams"));
    assert!(refused(NgramAdd { x: part(162..226), ..op }).contains("an address"));
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let layer = Layer::new(2, 16, 4, 3);
    let step = Step { lens: &[2, 1], from: &[NONE, 1], saves: &[(2, 1)] };
    let states = vec![0.0; SLOTS * layer.state_len()];
    let op = layer.op(&mut place, &step, &Input::new(&layer, 3), &states);
    assert_eq!(op.launches(place.info()).unwrap().len(), 3);
    let refused = |op: NgramMix| op.launches(place.info()).unwrap_err().to_string();
    assert_eq!(refused(NgramMix { streams: 9, ..op.clone() }), "n-grams: streams is 9, must be 1 to 8");
    let found = refused(NgramMix { width: 12, ..op.clone() });
    assert_eq!(found, "n-grams: columns is 12, must be a multiple of 8, at most 2^20");
    assert_eq!(refused(NgramMix { taps: 1, ..op.clone() }), "n-grams: taps is 1, must be 2 to 64");
    let starts = op.starts.slice(0..2).unwrap();
    assert!(refused(NgramMix { starts, ..op.clone() }).contains("starts of sequences"));
    let scratch = op.scratch.slice(0..96).unwrap();
    assert!(refused(NgramMix { scratch, ..op.clone() }).ends_with("must be at least 102"));
    let states = op.states.slice(0..op.states.len() - 4).unwrap();
    assert!(refused(NgramMix { states, ..op }).contains("values of the states"));
}
