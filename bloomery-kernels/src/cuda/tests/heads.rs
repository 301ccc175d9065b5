//! Products of heads against double precision, rows together against rows alone.

use bloomery_gguf::Format;
use half::f16;

use super::super::testing::{Place, places};
use super::super::{DeviceInfo, HeadWeights, PerHead};
use super::oracle::Rows;
use crate::cpu::testing::{Rng, bits};

struct Case {
    heads: usize,
    outs: usize,
    cols: usize,
    tail: usize,
}

impl Case {
    fn weights(&self, rng: &mut Rng) -> Vec<f32> {
        let values = rng.normals(self.heads * self.outs * self.cols);
        values.into_iter().map(|x| f16::from_f32(x / 8.0).to_f32()).collect()
    }

    fn pack(&self, place: &mut Place, values: &[f32]) -> HeadWeights {
        let packed = HeadWeights::pack(self.heads, self.outs, self.cols, values).unwrap();
        HeadWeights::new(self.heads, self.outs, self.cols, place.buffer(&packed).span()).unwrap()
    }

    fn run(&self, place: &mut Place, weights: &HeadWeights, rows: usize, x: &[f32]) -> Vec<f32> {
        let x = place.buffer(x);
        let out = place.poison::<f32>(rows * self.heads * (self.outs + self.tail));
        let op = PerHead { x: x.span(), weights: weights.clone(), out: out.span(), rows, tail: self.tail };
        let launch = op.launch(place.info()).unwrap();
        place.run(&launch);
        place.read(&out)
    }

    /// With a workspace: for many rows of wide matrices. `processors` are those of a card.
    fn run_many(
        &self,
        place: &mut Place,
        weights: &HeadWeights,
        (rows, x): (usize, &[f32]),
        processors: u32,
    ) -> (Vec<f32>, Vec<&'static str>) {
        let x = place.buffer(x);
        let out = place.poison::<f32>(rows * self.heads * self.outs);
        let op = PerHead { x: x.span(), weights: weights.clone(), out: out.span(), rows, tail: 0 };
        let room = place.poison::<u8>(PerHead::workspace_bytes(rows, self.heads, self.cols)).span();
        let info = DeviceInfo { processors, ..place.info().clone() };
        let launches = op.launches(&info, &room).unwrap();
        launches.iter().for_each(|launch| place.run(launch));
        (place.read(&out), launches.iter().map(|launch| launch.name()).collect())
    }
}

#[test]
fn every_head_has_its_matrix() {
    let mut place = places().remove(0);
    let mut cases = vec![
        (Case { heads: 4, outs: 32, cols: 16, tail: 8 }, 9),
        (Case { heads: 4, outs: 16, cols: 32, tail: 0 }, 1),
        (Case { heads: 2, outs: 256, cols: 64, tail: 32 }, 17),
        (Case { heads: 3, outs: 80, cols: 144, tail: 4 }, 3),
        (Case { heads: 2, outs: 48, cols: 272, tail: 0 }, 8),
        (Case { heads: 2, outs: 512, cols: 128, tail: 64 }, 1),
        (Case { heads: 2, outs: 128, cols: 512, tail: 0 }, 10),
        (Case { heads: 2, outs: 48, cols: 1040, tail: 0 }, 1),
        (Case { heads: 3, outs: 24, cols: 528, tail: 0 }, 7),
        (Case { heads: 2, outs: 8, cols: 544, tail: 0 }, 33),
        (Case { heads: 3, outs: 24, cols: 48, tail: 4 }, 9),
        (Case { heads: 1, outs: 32, cols: 2576, tail: 0 }, 8),
        (Case { heads: 2, outs: 80, cols: 1024, tail: 0 }, 9),
        (Case { heads: 1, outs: 16, cols: 800, tail: 0 }, 67),
    ];
    if place.is_card() {
        cases.push((Case { heads: 16, outs: 512, cols: 128, tail: 64 }, 700));
        cases.push((Case { heads: 128, outs: 128, cols: 512, tail: 0 }, 333));
        cases.push((Case { heads: 8, outs: 1024, cols: 4096, tail: 0 }, 3));
        cases.push((Case { heads: 8, outs: 1024, cols: 4096, tail: 0 }, 150));
    }
    for (case, rows) in cases {
        let mut rng = Rng::new((case.outs + rows) as u64);
        let values = case.weights(&mut rng);
        let weights = case.pack(&mut place, &values);
        let (x_width, out_width) = (case.cols + case.tail, case.outs + case.tail);
        let x = rng.normals(rows * case.heads * x_width);
        let out = case.run(&mut place, &weights, rows, &x);
        for (line, (x, out)) in x.chunks(x_width).zip(out.chunks(out_width)).enumerate() {
            let matrix = &values[line % case.heads * case.outs * case.cols..];
            for (row, got) in matrix.chunks(case.cols).zip(&out[..case.outs]) {
                let terms = row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
                let (exact, square) = (terms.clone().sum::<f64>(), terms.map(|x| x * x).sum::<f64>());
                // Values have 22 bits and halves end at 2^-24. Tensor cores cut off what is below the last bit of a sum, half a bit on
                // average and always towards zero, at each step of 8 columns of either half. On its way a sum is about as large as its
                // terms together, however small it ends.
                let steps = (case.cols / 4) as f64 * exact.abs().max(square.sqrt());
                let bound = 6.0 * (square.sqrt() + 1e-2) * 2.0_f64.powi(-21) + steps * 2.0_f64.powi(-24);
                let off = (f64::from(*got) - exact).abs();
                assert!(off <= bound, "{} x {}, line {line}: {got} {exact} > {bound}", case.outs, case.cols);
            }
            assert_eq!(bits(&out[case.outs..]), bits(&x[case.cols..]), "line {line}");
        }
        for row in [0, rows / 2, rows - 1] {
            let (from, to) = (case.heads * x_width, case.heads * out_width);
            let alone = case.run(&mut place, &weights, 1, &x[row * from..][..from]);
            assert_eq!(bits(&alone), bits(&out[row * to..][..to]), "row {row} of {rows} alone");
        }
    }
}

#[test]
fn many_rows_of_wide_matrices_have_kernels_of_their_own() {
    let mut place = places().remove(0);
    let mut cases = vec![
        (Case { heads: 3, outs: 24, cols: 544, tail: 0 }, 33),
        (Case { heads: 2, outs: 136, cols: 576, tail: 0 }, 67),
    ];
    if place.is_card() {
        cases.push((Case { heads: 8, outs: 1024, cols: 4096, tail: 0 }, 300));
    }
    for (case, rows) in cases {
        let mut rng = Rng::new((case.outs + rows) as u64);
        let values = case.weights(&mut rng);
        let weights = case.pack(&mut place, &values);
        let mut x = rng.normals(rows * case.heads * case.cols);
        // Beyond what halves can have, and beneath.
        for (line, x) in x.chunks_mut(case.cols).enumerate() {
            x.iter_mut().for_each(|x| *x *= 10.0_f32.powi(2 * (line % 7) as i32 - 6));
        }
        let (large, names) = case.run_many(&mut place, &weights, (rows, &x), 1);
        assert_eq!(names, ["many_float_split", "many_heads_128"]);
        let (small, names) = case.run_many(&mut place, &weights, (rows, &x), 1 << 20);
        assert_eq!(names, ["many_float_split", "many_heads_64"]);
        assert_eq!(bits(&large), bits(&small));
        let (width, line) = (case.heads * case.cols, case.heads * case.outs);
        let (later, _) = case.run_many(&mut place, &weights, (rows - 1, &x[width..]), 1);
        // Fewer than that have the kernels for few.
        assert_eq!(later.len(), large.len() - line);
        if rows > 33 {
            assert_eq!(bits(&later), bits(&large[line..]));
        }
        let data: Vec<u8> = values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect();
        let matrices = Rows::new(Format::F16, case.cols, &data);
        for (line, (x, out)) in x.chunks(case.cols).zip(large.chunks(case.outs)).enumerate() {
            let x: Vec<f64> = x.iter().copied().map(f64::from).collect();
            for (row, got) in out.iter().enumerate() {
                let row = line % case.heads * case.outs + row;
                let (exact, slack) = matrices.product_of_many(row, &x, Format::F16, false);
                let off = (f64::from(*got) - exact).abs();
                assert!(off <= slack, "line {line}, {row}: {got} {exact} +- {slack}");
            }
        }
    }
    // Sixteens of columns that are no pairs, and narrow matrices.
    for cols in [528, 64] {
        let case = Case { heads: 2, outs: 16, cols, tail: 0 };
        assert_eq!(PerHead::workspace_bytes(40, 2, cols), 0);
        let weights = case.pack(&mut place, &vec![0.5; 2 * 16 * cols]);
        let (out, names) = case.run_many(&mut place, &weights, (40, &vec![1.0; 80 * cols]), 3);
        assert_eq!(names.len(), 1);
        assert!(out.iter().all(|x| *x == 0.5 * cols as f32));
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let case = Case { heads: 2, outs: 16, cols: 32, tail: 4 };
    let weights = case.pack(&mut place, &vec![0.5; 2 * 16 * 32]);
    let (x, out) = (place.poison::<f32>(72), place.poison::<f32>(40));
    let op = PerHead { x: x.span(), weights, out: out.span(), rows: 1, tail: 4 };
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: PerHead| op.launch(&DeviceInfo::emulated((9, 0))).unwrap_err().to_string();
    assert_eq!(refused(PerHead { rows: 2, ..op.clone() }), "per_head: values of x is 72, must be 144");
    assert!(refused(PerHead { tail: 3, ..op.clone() }).contains("go along"));
    assert!(refused(PerHead { rows: 0, ..op.clone() }).contains("rows"));
    assert!(refused(PerHead { out: x.span(), ..op }).contains("output"));
    let wide = Case { heads: 1, outs: 16, cols: 528, tail: 4 };
    let weights = wide.pack(&mut place, &vec![0.5; 16 * 528]);
    let (x, out) = (place.poison::<f32>(532), place.poison::<f32>(20));
    let op = PerHead { x: x.span(), weights, out: out.span(), rows: 1, tail: 4 };
    assert_eq!(refused(op), "per_head: values that go along is 4, must be 0");
    let message = |result: Result<Vec<u16>, super::super::CudaError>| result.unwrap_err().to_string();
    assert!(message(HeadWeights::pack(1, 16, 16400, &[])).contains("columns of a matrix"));
    assert!(message(HeadWeights::pack(1, 12, 16, &[])).contains("rows of a matrix"));
    assert!(message(HeadWeights::pack(1, 16, 16, &[0.0; 255])).contains("values of the weights"));
    assert!(message(HeadWeights::pack(1, 16, 16, &[70_000.0; 256])).contains("half precision"));
}
