//! Hyper-connections: against the CPU's functions.

use std::num::NonZeroUsize;

use bloomery_gguf::Format;

use super::super::testing::{Place, places};
use super::super::{CudaError, HyperConnections, HyperMade, HyperPass, HyperRead, HyperWrite, Weight};
use crate::cpu::testing::{Rng, bits};
use crate::cpu::{Cpu, HyperSpec, Isa, Numerics, Pool};

const STREAMS: usize = HyperPass::STREAMS;
const WEIGHTS: usize = STREAMS * (STREAMS + 2);
const SCALE: [f32; 3] = [0.7, 1.3, 0.9];
const ROUNDS: usize = 20;

/// Rows of streams and what they meet.
struct Case {
    rows: usize,
    width: usize,
    x: Vec<f32>,
    y: Vec<f32>,
    matrix: Vec<f32>,
    base: Vec<f32>,
}

impl Case {
    fn new(rows: usize, width: usize) -> Self {
        let mut rng = Rng::new((rows * width) as u64);
        let all = STREAMS * width;
        let small = 1.0 / (all as f32).sqrt();
        Self {
            rows,
            width,
            x: rng.normals(rows * all),
            y: rng.normals(rows * width),
            matrix: rng.normals(WEIGHTS * all).iter().map(|value| value * small).collect(),
            base: rng.normals(WEIGHTS),
        }
    }

    fn row(&self, row: usize) -> Self {
        let part = |values: &[f32], len: usize| values[row * len..][..len].to_vec();
        Self {
            rows: 1,
            width: self.width,
            x: part(&self.x, STREAMS * self.width),
            y: part(&self.y, self.width),
            matrix: self.matrix.clone(),
            base: self.base.clone(),
        }
    }

    fn spec(&self) -> HyperSpec<'_> {
        HyperSpec {
            streams: STREAMS,
            scale: &SCALE,
            base: &self.base,
            norm_eps: 1e-5,
            eps: 1e-6,
            rounds: ROUNDS,
        }
    }

    /// Weights and what is read, before and after a write with the first weights; then the streams.
    fn run(&self, place: &mut Place) -> [Vec<f32>; 5] {
        let Self { rows, width, .. } = *self;
        let x = place.buffer(&self.x);
        let bytes: Vec<u8> = self.matrix.iter().flat_map(|value| value.to_le_bytes()).collect();
        let matrix = place.weight(Format::F32, WEIGHTS, STREAMS * width, &bytes);
        let sums = place.poison::<f32>(HyperPass::sums_len(rows, width));
        let connections = HyperConnections {
            scale: place.buffer(&SCALE).span(),
            base: place.buffer(&self.base).span(),
            norm_eps: 1e-5,
            eps: 1e-6,
            rounds: ROUNDS,
        };
        let y = place.buffer(&self.y).span();
        let (mut write, mut found) = (None, Vec::new());
        for _ in 0..2 {
            let (weights, out) = (place.poison::<f32>(rows * WEIGHTS), place.poison::<f32>(rows * width));
            let products = Some((matrix.clone(), sums.span()));
            let pass = HyperPass { x: x.span(), width, write: write.take(), products };
            place.run(&pass.launch(place.info()).unwrap());
            let read = HyperRead {
                x: x.span(),
                width,
                made: Some(HyperMade {
                    sums: sums.span(),
                    connections: connections.clone(),
                    weights: weights.span(),
                }),
                from: None,
                out: out.span(),
            };
            place.run(&read.launch(place.info()).unwrap());
            found.extend([place.read(&weights), place.read(&out)]);
            write = Some(HyperWrite { y: y.clone(), weights: weights.span() });
        }
        let [a, b, c, d] = found.try_into().unwrap();
        [a, b, c, d, place.read(&x)]
    }

    /// What the CPU makes of streams: weights, and what is read.
    fn read(&self, cpu: &Cpu, x: &[f32]) -> [Vec<f32>; 2] {
        let all = STREAMS * self.width;
        let logit = |row: &[f32], weights: &[f32]| {
            row.iter().zip(weights).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() as f32
        };
        let mut weights: Vec<f32> =
            x.chunks(all).flat_map(|row| self.matrix.chunks(all).map(move |w| logit(row, w))).collect();
        cpu.hyper_weights(x, &self.spec(), &mut weights).unwrap();
        let mut out = vec![0.0; x.len() / STREAMS];
        cpu.hyper_read(x, (&weights, WEIGHTS), STREAMS, &mut out).unwrap();
        [weights, out]
    }

    fn check(&self, place: &mut Place) {
        let name = format!("{} rows of streams of {}", self.rows, self.width);
        // Logits of size 1 differ by the roundings of sums of many terms, their weights by a few times that after all rounds.
        let close = |found: &[f32], expected: &[f32], what: &str| {
            assert_eq!(found.len(), expected.len(), "{name}: {what}");
            for (i, (a, b)) in found.iter().zip(expected).enumerate() {
                assert!((a - b).abs() <= 2e-5 * b.abs().max(0.1), "{name}: {what}, value {i}: {a}, not {b}");
            }
        };
        let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
        let found = self.run(place);
        let [weights, out] = self.read(&cpu, &self.x);
        close(&found[0], &weights, "weights");
        close(&found[1], &out, "what is read");
        let mut x = self.x.clone();
        cpu.hyper_write(&self.y, &found[0], &self.spec(), &mut x).unwrap();
        close(&found[4], &x, "streams");
        let [weights, out] = self.read(&cpu, &found[4]);
        close(&found[2], &weights, "weights after a write");
        close(&found[3], &out, "what is read after a write");
        let last = self.rows - 1;
        let alone = self.row(last).run(place);
        for (found, alone) in found.iter().zip(&alone) {
            assert_eq!(bits(&found[last * alone.len()..]), bits(alone), "{name}: the last row alone");
        }
    }
}

#[test]
fn streams_are_written_and_read_by_their_own_weights() {
    for mut place in places() {
        for rows in [1, 2, 7, 8, 9, 31, 33] {
            Case::new(rows, 68).check(&mut place);
        }
        for (rows, width) in [(1, 4096), (3, 64), (1, 4), (17, 132)] {
            Case::new(rows, width).check(&mut place);
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let floats = place.buffer(&vec![0.0_f32; 4096]);
    let part = |range| floats.slice(range).unwrap();
    let bytes = floats.span().slice(1024..1024 + WEIGHTS * 32).unwrap().cast();
    let matrix = Weight::new(Format::F32, WEIGHTS, 32, bytes).unwrap();
    let op = HyperPass {
        x: part(0..64),
        width: 8,
        write: Some(HyperWrite { y: part(64..80), weights: part(80..128) }),
        products: Some((matrix, part(128..192))),
    };
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: HyperPass| op.launch(place.info()).unwrap_err().to_string();
    let found = refused(HyperPass { width: 6, ..op.clone() });
    assert_eq!(found, "hyper_pass: columns is 6, must be a multiple of 4, at most 2^24");
    let write = Some(HyperWrite { y: part(64..80), weights: part(80..120) });
    assert!(refused(HyperPass { write, ..op.clone() }).contains("weights"));
    assert!(refused(HyperPass { x: part(0..96), ..op.clone() }).contains("values of the result"));
    assert!(refused(HyperPass { write: None, products: None, ..op.clone() }).contains("a write or products"));
    let half = place.buffer(&vec![0_u8; 2 * WEIGHTS * 32]);
    let half = Weight::new(Format::F16, WEIGHTS, 32, half.span()).unwrap();
    let products = Some((half, part(128..192)));
    let error = HyperPass { products, ..op }.launch(place.info()).unwrap_err();
    assert!(matches!(error, CudaError::NoProduct { .. }), "{error}");
    let connections =
        HyperConnections { scale: part(0..3), base: part(4..28), norm_eps: 1e-5, eps: 1e-6, rounds: 20 };
    let op = HyperRead {
        x: part(64..128),
        width: 8,
        made: Some(HyperMade {
            sums: part(128..192),
            connections: connections.clone(),
            weights: part(192..240),
        }),
        from: Some(part(320..368)),
        out: part(240..256),
    };
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: HyperRead| op.launch(place.info()).unwrap_err().to_string();
    let made = op.made.clone().unwrap();
    let with = |made| HyperRead { made: Some(made), ..op.clone() };
    assert!(refused(with(HyperMade { sums: part(128..160), ..made.clone() })).contains("sums"));
    let short = HyperConnections { scale: part(0..2), ..connections.clone() };
    assert!(
        refused(with(HyperMade { connections: short, ..made.clone() })).contains("scales is 2, must be 3")
    );
    let one = HyperConnections { scale: part(0..1), ..connections };
    assert!(refused(with(HyperMade { connections: one, ..made })).contains("bases is 24, must be 4"));
    assert!(refused(HyperRead { out: part(64..80), ..op.clone() }).ends_with("apart from x"));
    let found = refused(HyperRead { from: Some(part(192..240)), ..op.clone() });
    assert!(found.ends_with("apart from those that are made"), "{found}");
    assert!(refused(HyperRead { from: Some(part(320..344)), ..op.clone() }).contains("that are there is 24"));
    assert!(refused(HyperRead { made: None, from: None, ..op }).contains("made, or there already"));
}

/// What is read with weights that are there already, by parts that make others and by parts that make none.
#[test]
fn streams_are_read_by_weights_of_the_part_before() {
    let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
    for mut place in places() {
        for (rows, width) in [(1, 5120), (1, 68), (2, 4), (7, 68), (8, 132), (9, 68), (33, 36)] {
            let case = Case::new(rows, width);
            let [made, ..] = case.run(&mut place);
            let before = Rng::new(9).normals(rows * WEIGHTS);
            let (x, from) = (place.buffer(&case.x), place.buffer(&before));
            let bytes: Vec<u8> = case.matrix.iter().flat_map(|value| value.to_le_bytes()).collect();
            let matrix = place.weight(Format::F32, WEIGHTS, STREAMS * width, &bytes);
            let sums = place.poison::<f32>(HyperPass::sums_len(rows, width)).span();
            let products = Some((matrix, sums.clone()));
            let pass = HyperPass { x: x.span(), width, write: None, products };
            place.run(&pass.launch(place.info()).unwrap());
            let connections = HyperConnections {
                scale: place.buffer(&SCALE).span(),
                base: place.buffer(&case.base).span(),
                norm_eps: 1e-5,
                eps: 1e-6,
                rounds: ROUNDS,
            };
            let weights = place.poison::<f32>(rows * WEIGHTS);
            let made_now = Some(HyperMade { sums, connections, weights: weights.span() });
            let mut expected = vec![0.0; rows * width];
            cpu.hyper_read(&case.x, (&before, WEIGHTS), STREAMS, &mut expected).unwrap();
            for makes in [made_now, None] {
                let name = format!("{rows} rows of {width}, {}", makes.is_some());
                let out = place.poison::<f32>(rows * width);
                let from = Some(from.span());
                let read = HyperRead { x: x.span(), width, made: makes, from, out: out.span() };
                place.run(&read.launch(place.info()).unwrap());
                for (a, b) in place.read(&out).iter().zip(&expected) {
                    // Four products, of values around 1.
                    assert!((a - b).abs() <= 4e-6, "{name}: {a}, not {b}");
                }
                assert_eq!(bits(&place.read(&weights)), bits(&made), "{name}: weights that are made");
            }
        }
    }
}

/// Streams that are only read, as by a head.
#[test]
fn a_head_has_weights_for_reading_alone() {
    let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
    for mut place in places() {
        for (rows, width) in [(1, 4096), (1, 4), (2, 68), (7, 68), (9, 68), (33, 36)] {
            let case = Case::new(rows, width);
            let all = STREAMS * width;
            let run = |place: &mut Place, x: &[f32]| {
                let rows = x.len() / all;
                let (x, sums) =
                    (place.buffer(x), place.poison::<f32>(HyperPass::sums_len(rows, width)).span());
                let bytes: Vec<u8> =
                    case.matrix[..STREAMS * all].iter().flat_map(|value| value.to_le_bytes()).collect();
                let matrix = place.weight(Format::F32, STREAMS, all, &bytes);
                let products = Some((matrix, sums.clone()));
                let pass = HyperPass { x: x.span(), width, write: None, products };
                place.run(&pass.launch(place.info()).unwrap());
                let connections = HyperConnections {
                    scale: place.buffer(&SCALE[..1]).span(),
                    base: place.buffer(&case.base[..STREAMS]).span(),
                    norm_eps: 1e-5,
                    eps: 1e-6,
                    rounds: ROUNDS,
                };
                let (weights, out) = (place.poison::<f32>(rows * STREAMS), place.poison::<f32>(rows * width));
                let made = Some(HyperMade { sums, connections, weights: weights.span() });
                let read = HyperRead { x: x.span(), width, made, from: None, out: out.span() };
                place.run(&read.launch(place.info()).unwrap());
                [place.read(&weights), place.read(&out)]
            };
            let found = run(&mut place, &case.x);
            let logit = |(row, weights): (&[f32], &[f32])| {
                row.iter().zip(weights).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() as f32
            };
            let matrix = || case.matrix.chunks(all).take(STREAMS);
            let mut weights: Vec<f32> =
                case.x.chunks(all).flat_map(|row| matrix().map(move |w| logit((row, w)))).collect();
            let spec = HyperSpec { scale: &SCALE[..1], base: &case.base[..STREAMS], ..case.spec() };
            cpu.hyper_weights(&case.x, &spec, &mut weights).unwrap();
            let mut out = vec![0.0; rows * width];
            cpu.hyper_read(&case.x, (&weights, STREAMS), STREAMS, &mut out).unwrap();
            for (found, expected) in found.iter().zip([&weights, &out]) {
                for (a, b) in found.iter().zip(expected) {
                    assert!((a - b).abs() <= 2e-5 * b.abs().max(0.1), "{rows} rows of {width}: {a}, not {b}");
                }
            }
            let last = rows - 1;
            let alone = run(&mut place, &case.x[last * all..]);
            for (found, alone) in found.iter().zip(&alone) {
                assert_eq!(bits(&found[last * alone.len()..]), bits(alone), "{rows} rows: the last alone");
            }
        }
    }
}
