//! Products of many rows with weights of floats: every format, number of rows and odd shape.

use std::ops::Range;

use bloomery_gguf::Format;

use super::super::testing::{Place, places};
use super::super::{DeviceInfo, Product, Project, Tuning, many_float};
use super::oracle::Rows;
use crate::cpu::testing::{Rng, bits, weights};
use crate::cpu::{Cpu, Isa, Norm, Numerics, Pool};

const FORMATS: [Format; 3] = [Format::F32, Format::F16, Format::BF16];
const EPS: f32 = 1e-6;

/// Three products of the same rows: one that replaces, one with a bias, one that adds and has a bias.
struct Case {
    format: Format,
    outs: [usize; 3],
    cols: usize,
    norm: bool,
    x: Vec<f32>,
    gain: Vec<f32>,
    data: [Vec<u8>; 3],
    bias: Vec<f32>,
    before: Vec<f32>,
}

impl Case {
    fn new(format: Format, outs: [usize; 3], cols: usize, rows: usize, norm: bool) -> Self {
        let mut rng = Rng::new((31 * cols + outs[0] + rows) as u64);
        let mut x = rng.normals(rows * cols);
        // Rows of all sizes, beyond what halves can have, and values that are small beside their row's.
        for (row, x) in x.chunks_mut(cols).enumerate() {
            let size = 10.0_f32.powi(3 * (row % 7) as i32 - 9);
            x.iter_mut().for_each(|x| *x *= size);
            x[row % cols] *= 1e-4;
        }
        let most = outs.into_iter().max().unwrap();
        Self {
            format,
            outs,
            cols,
            norm,
            x,
            gain: rng.normals(cols),
            data: outs.map(|outs| weights(format, outs * cols, outs as u64)),
            bias: rng.normals(most),
            before: rng.normals(rows * most),
        }
    }

    /// The outputs of some of the rows, and the names of the kernels.
    fn run(&self, place: &mut Place, rows: Range<usize>) -> ([Vec<f32>; 3], Vec<&'static str>) {
        let processors = place.info().processors;
        self.run_for(place, rows, processors)
    }

    /// The same with the kernels for a card of so many processors.
    fn run_for(
        &self,
        place: &mut Place,
        rows: Range<usize>,
        processors: u32,
    ) -> ([Vec<f32>; 3], Vec<&'static str>) {
        let info = DeviceInfo { processors, ..place.info().clone() };
        let (x, gain) = (&self.x[rows.start * self.cols..rows.end * self.cols], &self.gain);
        let (x, gain, bias) = (place.buffer(x).span(), place.buffer(gain).span(), place.buffer(&self.bias));
        let (mut outs, mut parts) = (Vec::new(), Vec::new());
        for (i, count) in self.outs.into_iter().enumerate() {
            let out = match i {
                2 => place.buffer(&self.before[rows.start * count..rows.end * count]),
                _ => place.poison::<f32>(rows.len() * count),
            };
            parts.push(Product {
                weight: place.weight(self.format, count, self.cols, &self.data[i]),
                bias: (i > 0).then(|| bias.slice(0..count).unwrap()),
                out: out.span(),
                accumulate: i == 2,
            });
            outs.push(out);
        }
        let norm = self.norm.then_some((gain, EPS));
        let (workspace, tuning) = (None, Tuning::default());
        let op = Project { x, rows: rows.len(), norm, gate: None, parts, workspace, tuning };
        let room = place.poison::<u8>(many_float::workspace_bytes(rows.len(), self.cols));
        let parts: Vec<&Product> = op.parts.iter().collect();
        let launches = many_float::project(&op, &info, &parts, &room.span()).unwrap();
        launches.iter().for_each(|launch| place.run(launch));
        let names = launches.iter().map(|launch| launch.name()).collect();
        ([0, 1, 2].map(|i| place.read(&outs[i])), names)
    }

    fn verify(&self, rows: usize, outs: &[Vec<f32>]) {
        let mut normed = self.x.clone();
        if self.norm {
            let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
            cpu.rms_norm(&self.x, rows, Norm { gain: &self.gain, eps: EPS }, &mut normed).unwrap();
        }
        for (i, out) in outs.iter().enumerate() {
            let weights = Rows::new(self.format, self.cols, &self.data[i]);
            for (row, x) in normed.chunks(self.cols).enumerate() {
                let x: Vec<f64> = x.iter().copied().map(f64::from).collect();
                for r in 0..weights.count() {
                    let at = row * weights.count() + r;
                    let (mut exact, mut slack) = weights.product_of_many(r, &x, self.format, self.norm);
                    for (has, value) in [(i > 0, self.bias[r]), (i == 2, self.before[at])] {
                        if has {
                            exact += f64::from(value);
                            slack += (exact.abs() + f64::from(value).abs()) * f64::from(f32::EPSILON);
                        }
                    }
                    let off = (f64::from(out[at]) - exact).abs();
                    let Self { format, cols, norm, .. } = self;
                    assert!(
                        off <= slack,
                        "{format} x {cols}, norm {norm}, part {i}, {row}, {r}: {} {exact} +- {slack}",
                        out[at]
                    );
                }
            }
        }
    }

    /// Rows `some` by themselves have the bits that they have among all.
    fn compare(&self, place: &mut Place, all: &[Vec<f32>], some: Range<usize>) {
        let (outs, _) = self.run(place, some.clone());
        for (i, (outs, all)) in outs.iter().zip(all).enumerate() {
            let part = &all[some.start * self.outs[i]..some.end * self.outs[i]];
            assert_eq!(bits(outs), bits(part), "{}: rows {some:?}, part {i}", self.format);
        }
    }
}

#[test]
fn every_format_and_number_of_rows() {
    let mut place = places().remove(0);
    let shapes = [
        ([24, 1, 65], 40, 9),
        ([7, 64, 3], 8, 16),
        ([16, 33, 24], 256, 17),
        ([5, 9, 1], 328, 63),
        ([1, 2, 30], 72, 64),
        ([31, 8, 2], 24, 65),
        ([66, 3, 2], 96, 129),
    ];
    for format in FORMATS {
        for (i, (outs, cols, rows)) in shapes.into_iter().enumerate() {
            let case = Case::new(format, outs, cols, rows, i % 2 == 1);
            let (all, names) = case.run(&mut place, 0..rows);
            let split = format != Format::F32 || case.norm;
            assert_eq!(names.len(), if split { 2 } else { 1 }, "{names:?}");
            case.verify(rows, &all);
            for some in [rows - 1..rows, 0..9, rows / 2..rows] {
                case.compare(&mut place, &all, some);
            }
        }
    }
}

#[test]
fn blocks_of_both_sizes_give_the_same_bits() {
    let mut place = places().remove(0);
    for (i, format) in [Format::F16, Format::BF16].into_iter().enumerate() {
        let case = Case::new(format, [133, 3, 40], 72, 129, i == 1);
        // A small card is filled by a few large blocks, a large one by none.
        let [(large, names), (small, others)] =
            [1, 1 << 20].map(|processors| case.run_for(&mut place, 0..129, processors));
        assert!(names[1].ends_with("_128") && others[1].ends_with("_64"), "{names:?} {others:?}");
        case.verify(129, &large);
        assert_eq!(large.map(|out| bits(&out)), small.map(|out| bits(&out)), "{format}");
    }
}

#[test]
fn more_parts_than_a_launch_takes_and_little_room() {
    let mut place = places().remove(0);
    let (cols, rows) = (32, 33);
    let x = place.buffer(&Rng::new(1).normals(rows * cols));
    let data = weights(Format::BF16, 8 * cols, 3);
    let outs: Vec<_> = (0..5).map(|_| place.poison::<f32>(rows * 8)).collect();
    let part = |out: &super::super::Buffer<f32>| Product {
        weight: place.weight(Format::BF16, 8, cols, &data),
        bias: None,
        out: out.span(),
        accumulate: false,
    };
    let parts = outs.iter().map(part).collect();
    let room = place.poison::<u8>(many_float::workspace_bytes(rows, cols)).span();
    let op = Project {
        x: x.span(),
        rows,
        norm: None,
        gate: None,
        parts,
        workspace: Some(room.clone()),
        tuning: Tuning::default(),
    };
    let launches = op.launches(place.info()).unwrap();
    let names: Vec<_> = launches.iter().map(|launch| launch.name()).collect();
    assert_eq!(names, ["many_float_split", "many_bfloat_64", "many_bfloat_64"]);
    launches.iter().for_each(|launch| place.run(launch));
    let outs: Vec<_> = outs.iter().map(|out| bits(&place.read(out))).collect();
    assert!(outs.iter().all(|out| *out == outs[0]));
    let less = room.slice(0..room.len() - 512).unwrap();
    let error = Project { workspace: Some(less), ..op }.launches(place.info()).unwrap_err().to_string();
    assert_eq!(error, "a launch for many rows: bytes of the workspace is 2048, must be 2304 more");
}
