//! Residual streams: against the CPU's functions and sums in double precision.

use std::num::NonZeroUsize;

use super::super::testing::{Place, places};
use super::super::{GatedMean, StreamMean, StreamNorm, StreamProducts, StreamWrite};
use crate::cpu::testing::{Rng, bits};
use crate::cpu::{Columns, Cpu, Isa, Norm, Numerics, Pool};

fn cpu() -> Cpu {
    Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast)
}

/// Values that differ by a few roundings of what they are made of: `size` is the largest of that.
#[track_caller]
fn close(found: &[f32], expected: &[f32], size: f32, name: &str) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let bound = 16.0 * f32::EPSILON * expected.abs().max(size);
        assert!((found - expected).abs() <= bound, "{name}: value {i} is {found}, not {expected}");
    }
}

/// Rows of streams and what they meet.
struct Case {
    rows: usize,
    streams: usize,
    width: usize,
    x: Vec<f32>,
    y: Vec<f32>,
    weights: Vec<f32>,
    gain: Vec<f32>,
    matrix: Vec<f32>,
    gate: Vec<f32>,
}

impl Case {
    fn new(rows: usize, streams: usize, width: usize) -> Self {
        let mut rng = Rng::new((rows * streams * width) as u64);
        let all = streams * width;
        Self {
            rows,
            streams,
            width,
            x: rng.normals(rows * all),
            y: rng.normals(rows * width),
            weights: rng.normals(rows * streams),
            gain: rng.normals(all),
            matrix: rng.normals(streams * all),
            gate: rng.normals(rows * all),
        }
    }

    /// One of the rows.
    fn row(&self, row: usize) -> Self {
        let all = self.streams * self.width;
        let part = |values: &[f32], len: usize| values[row * len..][..len].to_vec();
        Self {
            rows: 1,
            x: part(&self.x, all),
            y: part(&self.y, self.width),
            weights: part(&self.weights, self.streams),
            gate: part(&self.gate, all),
            gain: self.gain.clone(),
            matrix: self.matrix.clone(),
            ..*self
        }
    }

    /// The streams after the write, normed, what is read of them, and the products.
    fn run(&self, place: &mut Place) -> [Vec<f32>; 4] {
        let Self { rows, streams, width, .. } = *self;
        let x = place.buffer(&self.x);
        let (normed, out) = (place.poison::<f32>(self.x.len()), place.poison::<f32>(self.y.len()));
        let sums = place.poison::<f32>(StreamProducts::sums_len(rows, streams));
        let products = place.poison::<f32>(rows * streams);
        let norm = StreamNorm {
            x: x.span(),
            streams,
            width,
            write: Some(StreamWrite {
                y: place.buffer(&self.y).span(),
                weights: place.buffer(&self.weights).span(),
            }),
            norm: Some((place.buffer(&self.gain).span(), 1e-5, normed.span())),
            factor: 1.0 / streams as f32,
            products: Some(StreamProducts { matrix: place.buffer(&self.matrix).span(), sums: sums.span() }),
        };
        place.run(&norm.launch(place.info()).unwrap());
        let mean = GatedMean {
            mean: StreamMean { x: normed.span(), streams, width, out: out.span(), columns: width, first: 0 },
            gate: place.buffer(&self.gate).span(),
            products: Some((sums.span(), products.span())),
        };
        place.run(&mean.launch(place.info()).unwrap());
        [&x, &normed, &out, &products].map(|buffer| place.read(buffer))
    }

    fn check(&self, place: &mut Place) {
        let Self { rows, streams, width, .. } = *self;
        let name = format!("{rows} rows of {streams} streams of {width}");
        let [x, normed, out, products] = self.run(place);
        let (cpu, count) = (cpu(), streams as f32);
        let mut written = self.x.clone();
        let weights: Vec<f32> = self.weights.iter().map(|weight| weight * count).collect();
        cpu.inject(&self.y, &weights, streams, &mut written).unwrap();
        close(&x, &written, 8.0, &name);
        let mut expected = vec![0.0; x.len()];
        cpu.stream_norm(&x, streams, Norm { gain: &self.gain, eps: 1e-5 }, &mut expected).unwrap();
        let divided: Vec<f32> = expected.iter().map(|value| value / count).collect();
        close(&normed, &divided, 1.0, &name);
        let mut read = vec![0.0; out.len()];
        cpu.gated_mean(&expected, &self.gate, streams, width, &mut read).unwrap();
        close(&out, &read, 4.0, &name);
        for (at, found) in products.iter().enumerate() {
            let all = streams * width;
            let row = &normed[at / streams * all..][..all];
            let terms = row.iter().zip(&self.matrix[at % streams * all..]);
            let terms = terms.map(|(&a, &b)| f64::from(a) * f64::from(b));
            let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            // Chains of 8 values for each thread's turn, trees, a sum of warps and one of streams.
            let bound = size * (32.0 + width as f64 / 512.0) * f64::from(f32::EPSILON);
            assert!((f64::from(*found) - exact).abs() <= bound, "{name}: product {at}: {found} {exact}");
        }
        // The same alone.
        let last = rows - 1;
        let alone = self.row(last).run(place);
        for (found, alone) in [x, normed, out, products].iter().zip(&alone) {
            assert_eq!(bits(&found[last * alone.len()..]), bits(alone), "{name}: the last row alone");
        }
    }
}

#[test]
fn streams_are_written_normed_and_read() {
    for mut place in places() {
        for rows in [1, 2, 7, 8, 9, 31, 33] {
            Case::new(rows, 4, 72).check(&mut place);
        }
        for (rows, streams, width) in [(1, 4, 2560), (2, 3, 32), (3, 8, 40), (1, 1, 8), (1, 2, 4104)] {
            Case::new(rows, streams, width).check(&mut place);
        }
    }
}

#[test]
fn a_write_alone_and_a_norm_alone_are_parts_of_both() {
    for mut place in places() {
        let case = Case::new(3, 4, 264);
        let [written, normed, ..] = case.run(&mut place);
        let x = place.buffer(&case.x);
        let out = place.poison::<f32>(case.x.len());
        let write =
            StreamWrite { y: place.buffer(&case.y).span(), weights: place.buffer(&case.weights).span() };
        let (streams, width) = (case.streams, case.width);
        let none =
            StreamNorm { x: x.span(), streams, width, write: None, norm: None, factor: 0.25, products: None };
        let op = StreamNorm { write: Some(write), ..none.clone() };
        place.run(&op.launch(place.info()).unwrap());
        assert_eq!(bits(&place.read(&x)), bits(&written));
        let norm = Some((place.buffer(&case.gain).span(), 1e-5, out.span()));
        place.run(&StreamNorm { norm, ..none }.launch(place.info()).unwrap());
        assert_eq!(bits(&place.read(&x)), bits(&written));
        assert_eq!(bits(&place.read(&out)), bits(&normed));
    }
}

#[test]
fn means_are_the_cpus_and_of_one_stream_a_copy() {
    for mut place in places() {
        let shapes = [
            (1, 4, 4096, 0, 0),
            (9, 4, 36, 0, 0),
            (2, 7, 60, 8, 4),
            (5, 1, 20, 0, 0),
            (3, 4, 32, 64, 64),
            (7, 4, 64, 128, 64),
        ];
        for (rows, streams, width, more, first) in shapes {
            let mut x = Rng::new(width as u64).normals(rows * streams * width);
            x[1] = -0.0;
            let columns = width + more;
            let out = place.buffer(&vec![7.0_f32; rows * columns]);
            let op =
                StreamMean { x: place.buffer(&x).span(), streams, width, out: out.span(), columns, first };
            place.run(&op.launch(place.info()).unwrap());
            let mut expected = vec![7.0; rows * columns];
            let parts = Columns { values: &mut expected, cols: columns, first };
            cpu().stream_mean(&x, streams, width, parts).unwrap();
            assert_eq!(bits(&place.read(&out)), bits(&expected), "{rows} rows of {streams} of {width}");
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let floats = place.buffer(&[0.0_f32; 512]);
    let part = |range| floats.slice(range).unwrap();
    let op = StreamNorm {
        x: part(0..64),
        streams: 4,
        width: 8,
        write: Some(StreamWrite { y: part(64..80), weights: part(80..88) }),
        norm: Some((part(88..120), 1e-5, part(120..184))),
        factor: 0.25,
        products: Some(StreamProducts { matrix: part(184..312), sums: part(312..376) }),
    };
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: StreamNorm| op.launch(place.info()).unwrap_err().to_string();
    assert_eq!(refused(StreamNorm { streams: 9, ..op.clone() }), "stream_norm: streams is 9, must be 1 to 8");
    let found = refused(StreamNorm { width: 12, ..op.clone() });
    assert_eq!(found, "stream_norm: columns is 12, must be a multiple of 8, at most 2^24");
    let write = Some(StreamWrite { y: part(64..84), weights: part(80..88) });
    assert!(refused(StreamNorm { write, ..op.clone() }).contains("values of the result"));
    let norm = Some((part(88..120), 1e-5, part(0..64)));
    assert!(refused(StreamNorm { norm, ..op.clone() }).ends_with("apart from x"));
    assert!(refused(StreamNorm { norm: None, ..op.clone() }).ends_with("of normed values"));
    assert!(refused(StreamNorm { x: part(1..65), ..op }).contains("an address"));
    let op = StreamMean { x: part(0..64), streams: 2, width: 16, out: part(64..96), columns: 16, first: 0 };
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: StreamMean| op.launch(place.info()).unwrap_err().to_string();
    let found = refused(StreamMean { streams: 8, ..op.clone() });
    assert_eq!(found, "stream_mean: columns is 16, must be a multiple of 4, from 32 to 2^24");
    assert!(refused(StreamMean { out: part(64..80), ..op.clone() }).contains("values of the streams"));
    let found = refused(StreamMean { first: 4, ..op.clone() });
    assert_eq!(found, "stream_mean: columns of the output is 16, must be a multiple of 4, from 20 to 2^24");
    assert!(refused(StreamMean { columns: 32, first: 2, ..op.clone() }).contains("first column is 2"));
    let gated = GatedMean { mean: op, gate: part(96..128), products: None };
    assert!(gated.launch(place.info()).unwrap_err().to_string().contains("gates"));
}
