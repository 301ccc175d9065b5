//! Projections: every format, number of rows and odd shape.

use bloomery_gguf::Format;

use super::super::project::FEW;
use super::super::testing::{Place, places};
use super::super::{Buffer, CudaError, Gate, Product, Project, Tuning, Weight, is_float};
use super::oracle::{FORMATS, Rows, class, rounded};
use crate::abi::shape::Class;
use crate::cpu::testing::{Rng, bits, weights};
use crate::cpu::{Cpu, Isa, Matrix, Norm, Numerics, Part, Pool, Scratch};

const EPS: f32 = 1e-6;

struct Case {
    formats: Vec<Format>,
    /// Of each matrix.
    rows: Vec<usize>,
    cols: usize,
    norm: bool,
    tuning: Tuning,
}

/// What the parts of a case give for rows of `x`, over outputs that were `before`.
struct Setup {
    x: Vec<f32>,
    gain: Vec<f32>,
    data: Vec<Vec<u8>>,
    biases: Vec<Vec<f32>>,
    before: Vec<f32>,
}

impl Case {
    fn name(&self) -> String {
        format!("{:?} {:?} x {} norm {}", self.formats, self.rows, self.cols, self.norm)
    }

    fn setup(&self, tokens: usize) -> Setup {
        let mut rng = Rng::new((self.cols * 31 + self.rows[0]) as u64);
        Setup {
            x: rng.normals(tokens * self.cols),
            gain: rng.normals(self.cols),
            data: self
                .formats
                .iter()
                .zip(&self.rows)
                .map(|(f, rows)| weights(*f, rows * self.cols, 7))
                .collect(),
            biases: self.rows.iter().map(|rows| rng.normals(*rows)).collect(),
            before: rng.normals(tokens * self.rows.iter().max().unwrap()),
        }
    }

    /// Even parts replace, odd ones add to what was there; every part but the second has a bias.
    fn run(&self, place: &mut Place, setup: &Setup, tokens: std::ops::Range<usize>) -> Vec<Vec<f32>> {
        let x = place.buffer(&setup.x[tokens.start * self.cols..tokens.end * self.cols]);
        let gain = place.buffer(&setup.gain);
        let count = tokens.len();
        let mut outs: Vec<Buffer<f32>> = Vec::new();
        let mut parts = Vec::new();
        for (i, format) in self.formats.iter().enumerate() {
            let rows = self.rows[i];
            let bias = place.buffer(&setup.biases[i]);
            let accumulate = i % 2 == 1;
            let out = match accumulate {
                true => place.buffer(&setup.before[tokens.start * rows..tokens.end * rows]),
                false => place.poison::<f32>(count * rows),
            };
            parts.push(Product {
                weight: place.weight(*format, rows, self.cols, &setup.data[i]),
                bias: (i != 1).then(|| bias.span()),
                out: out.span(),
                accumulate,
            });
            outs.push(out);
        }
        let norm = self.norm.then(|| (gain.span(), EPS));
        // One row does without.
        let workspace =
            (count > 1).then(|| place.poison::<u8>(Project::workspace_bytes(count, self.cols, true)).span());
        let project =
            Project { x: x.span(), rows: count, norm, gate: None, parts, workspace, tuning: self.tuning };
        for launch in project.launches(place.info()).unwrap() {
            place.run(&launch);
        }
        outs.iter().map(|out| place.read(out)).collect()
    }

    fn verify(&self, setup: &Setup, tokens: usize, outs: &[Vec<f32>]) {
        let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
        let mut normed = setup.x.clone();
        let norm = Norm { gain: &setup.gain, eps: EPS };
        if self.norm {
            cpu.rms_norm(&setup.x, tokens, norm, &mut normed).unwrap();
        }
        for (i, format) in self.formats.iter().enumerate() {
            let rows = Rows::new(*format, self.cols, &setup.data[i]);
            let mut expected: Vec<f32> = setup.before[..tokens * self.rows[i]].to_vec();
            let part = Part {
                weight: Matrix::new(*format, self.rows[i], self.cols, &setup.data[i]).unwrap(),
                bias: (i != 1).then_some(&setup.biases[i][..]),
                out: &mut expected,
                accumulate: i % 2 == 1,
            };
            cpu.project(&setup.x, tokens, self.norm.then_some(norm), &mut [part], &mut Scratch::default())
                .unwrap();
            for t in 0..tokens {
                let x = rounded(*format, &normed[t * self.cols..][..self.cols]);
                for r in 0..rows.count() {
                    let many = is_float(*format) && tokens > FEW;
                    let (mut exact, mut slack) = if many {
                        rows.product_of_many(r, &x, *format, self.norm)
                    } else {
                        rows.product(r, &x)
                    };
                    for (has, value) in
                        [(i != 1, setup.biases[i][r]), (i % 2 == 1, setup.before[t * rows.count() + r])]
                    {
                        if has {
                            exact += f64::from(value);
                            slack += (exact.abs() + f64::from(value).abs()) * f64::from(f32::EPSILON);
                        }
                    }
                    let at = t * rows.count() + r;
                    let found = f64::from(outs[i][at]);
                    let name = self.name();
                    assert!(
                        (found - exact).abs() <= slack,
                        "{name}: part {i}, {t}, {r}: {found}, not {exact} +- {slack}"
                    );
                    // The CPU's IQ4_XS multiplies with activations that are not rounded.
                    if *format != Format::IQ4_XS {
                        let cpu = f64::from(expected[at]);
                        assert!(
                            (found - cpu).abs() <= 2.0 * slack,
                            "{name}: {found}, the CPU's {cpu} +- {slack}"
                        );
                    }
                }
            }
        }
    }

    /// All numbers of rows: right, and the same bits whatever the company; of floats on either side of [`FEW`].
    fn check(&self, place: &mut Place, counts: &[usize]) {
        let most = *counts.iter().max().unwrap();
        let setup = self.setup(most);
        let all = self.run(place, &setup, 0..most);
        self.verify(&setup, most, &all);
        for &count in counts {
            let first = if count == 1 { most - 1 } else { 0 };
            let some = self.run(place, &setup, first..first + count);
            for (i, (some, all)) in some.iter().zip(&all).enumerate() {
                if is_float(self.formats[i]) && (count > FEW) != (most > FEW) {
                    continue;
                }
                let rows = self.rows[i];
                let part = &all[first * rows..(first + count) * rows];
                assert_eq!(bits(some), bits(part), "{}: {count} rows of {most}, part {i}", self.name());
            }
        }
    }
}

fn columns(class: Class, place: &Place) -> &'static [usize] {
    let all: &[usize] = match class {
        Class::Wide => &[256, 768, 2304, 2048, 4352],
        Class::Narrow => &[96, 416, 2112, 32, 896],
        Class::Float => &[8, 136, 2056, 40, 1032],
    };
    if place.is_card() { all } else { &all[..3] }
}

#[test]
fn every_format_and_number_of_rows() {
    for mut place in places() {
        for format in FORMATS {
            for (i, &cols) in columns(class(format), &place).iter().enumerate() {
                let rows = [[1, 7, 39, 133, 5, 64][i % 6]].to_vec();
                let (formats, tuning) = (vec![format], Tuning::default());
                let case = Case { formats, rows, cols, norm: i % 2 == 1, tuning };
                case.check(&mut place, &[1, 2, 3, 5, 8]);
            }
        }
    }
}

/// Rows that are gated where they are rounded: the bits of a gate before.
#[test]
fn gates_cost_no_launch_where_rows_are_rounded() {
    use Format::{F16, F32, Q4_K, Q6_K, Q8_0};
    for mut place in places() {
        let cols = 768;
        let mut rng = Rng::new(3);
        let values = [rng.normals(40 * cols), rng.normals(40 * cols)];
        let sets: [&[Format]; 4] = [&[Q4_K, Q6_K], &[Q8_0], &[Q4_K, F32], &[F16]];
        for (formats, count) in sets.iter().flat_map(|set| [1, 3, 9, 40].map(|count| (*set, count))) {
            let mut run = |apart: bool| {
                let [x, gate] = values.each_ref().map(|values| place.buffer(&values[..count * cols]));
                let outs: Vec<Buffer<f32>> = formats.iter().map(|_| place.poison(count * 40)).collect();
                let part = |(format, out): (&Format, &Buffer<f32>)| Product {
                    weight: place.weight(*format, 40, cols, &weights(*format, 40 * cols, 1)),
                    bias: None,
                    out: out.span(),
                    accumulate: false,
                };
                let parts = formats.iter().zip(&outs).map(part).collect();
                let workspace = Some(place.poison::<u8>(Project::workspace_bytes(count, cols, true)).span());
                let (span, gated) = (x.span(), (!apart).then(|| gate.span()));
                let tuning = Tuning::default();
                let project =
                    Project { x: span, rows: count, norm: None, gate: gated, parts, workspace, tuning };
                let mut launches = project.launches(place.info()).unwrap();
                if apart {
                    let gate = Gate { x: x.span(), gate: gate.span() }.launch(place.info()).unwrap();
                    launches.insert(0, gate);
                }
                launches.iter().for_each(|launch| place.run(launch));
                let outs: Vec<Vec<u32>> = outs.iter().map(|out| bits(&place.read(out))).collect();
                (outs, launches.len())
            };
            let (joined, apart) = (run(false), run(true));
            assert_eq!(joined.0, apart.0, "{formats:?}, {count} rows");
            let floats = formats.iter().any(|format| class(*format) == Class::Float);
            assert_eq!(joined.1, apart.1 - usize::from(!floats), "{formats:?}, {count} rows");
        }
    }
}

#[test]
fn one_row_of_tiles_and_floats_is_one_launch() {
    use Format::{BF16, F32, Q4_K, Q6_K, Q8_0};
    for mut place in places() {
        let (x, cols) = (place.buffer(&[0.0_f32; 2 * 256]), 256);
        let names = |place: &mut Place, formats: &[Format], count: usize| {
            let part = |format: &Format| Product {
                weight: place.weight(*format, 32, cols, &weights(*format, 32 * cols, 1)),
                bias: None,
                out: place.poison::<f32>(count * 32).span(),
                accumulate: false,
            };
            let parts = formats.iter().map(part).collect();
            let (x, tuning) = (x.slice(0..count * cols).unwrap(), Tuning::default());
            let project = Project { x, rows: count, norm: None, gate: None, parts, workspace: None, tuning };
            let launches = project.launches(place.info()).unwrap();
            launches.iter().map(|launch| launch.name()).collect::<Vec<_>>()
        };
        assert_eq!(names(&mut place, &[Q4_K, Q6_K, F32, BF16], 1), ["project_both"]);
        assert_eq!(names(&mut place, &[F32, Q8_0], 1), ["project_both"]);
        // Rows that are rounded in two ways, several rows, and weights of one kind.
        assert_eq!(
            names(&mut place, &[Q4_K, Q8_0, F32], 1),
            ["few_project", "few_project", "project_float_1"]
        );
        assert_eq!(names(&mut place, &[Q4_K, F32], 2), ["few_project", "project_float_2"]);
        assert_eq!(names(&mut place, &[Q4_K, Q6_K], 1), ["few_project"]);
    }
}

#[test]
fn several_formats_in_one_call() {
    use Format::{BF16, F16, F32, IQ4_XS, Q3_K, Q4_K, Q5_K, Q6_K, Q8_0};
    for mut place in places() {
        let sets: [&[Format]; 7] = [
            &[Q4_K, Q4_K, Q6_K],
            &[Q5_K, Q3_K, IQ4_XS],
            &[Q4_K, Q8_0, Q6_K, BF16],
            &[F32, F16, BF16],
            // One row in one launch.
            &[Q4_K, Q6_K, F32, F32],
            &[F16, Q8_0, F32],
            &[Q4_K, Q4_K, Q4_K, Q4_K, Q4_K],
        ];
        for (i, formats) in sets.into_iter().enumerate() {
            for tuning in
                [Tuning { warps: 4, stages: 1, blocks: 1 }, Tuning { warps: 5, stages: 8, blocks: 2 }]
            {
                let (formats, rows) = (formats.to_vec(), [40, 6, 13, 3, 1][..formats.len()].to_vec());
                let case = Case { formats, rows, cols: 768, norm: i % 2 == 0, tuning };
                case.check(&mut place, &[1, 2, 4, 8, 9]);
                case.check(&mut place, &[33, 64, 70]);
            }
        }
    }
}

/// More rows than a kernel takes, and so wide that shared memory has room for few of them.
#[test]
fn many_and_wide_rows_take_several_launches() {
    for mut place in places() {
        let tuning = Tuning { warps: 4, ..Tuning::default() };
        let rows = vec![5];
        let case = Case { formats: vec![Format::Q4_K], rows: rows.clone(), cols: 512, norm: true, tuning };
        case.check(&mut place, &[19]);
        if place.is_card() {
            let case =
                Case { formats: vec![Format::Q8_0], rows: rows.clone(), cols: 24_576, norm: false, tuning };
            case.check(&mut place, &[1, 8]);
            let case = Case { formats: vec![Format::F32], rows, cols: 14_336, norm: true, tuning };
            case.check(&mut place, &[1, 5]);
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    for mut place in places() {
        let (data, x, out) =
            (place.buffer(&[0_u8; 2304]), place.buffer(&[0.0_f32; 512]), place.buffer(&[0.0_f32; 4]));
        let product = |format, rows, cols| Product {
            weight: Weight::new(
                format,
                rows,
                cols,
                data.slice(0..rows * cols / format.block_len() * format.block_bytes()).unwrap(),
            )
            .unwrap(),
            bias: None,
            out: out.span(),
            accumulate: false,
        };
        let project = |rows, parts| Project {
            x: x.span(),
            rows,
            gate: None,
            norm: None,
            parts,
            workspace: None,
            tuning: Tuning::default(),
        };
        let error = project(2, vec![product(Format::Q4_K, 2, 256)]).launches(place.info()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a weight: its order is 0, must be in Tiles, which Q4_K is multiplied in"
        );
        let tiles = |from: usize| Product {
            weight: Weight::tiles(Format::Q4_K, 2, 256, data.slice(from..from + 2304).unwrap()).unwrap(),
            ..product(Format::Q4_K, 2, 256)
        };
        assert!(project(2, vec![tiles(0)]).launches(place.info()).is_ok());
        let none = Product {
            weight: Weight::tiles(Format::Q4_K, 0, 256, data.slice(0..0).unwrap()).unwrap(),
            out: out.slice(0..0).unwrap(),
            ..product(Format::Q4_K, 2, 256)
        };
        let error = project(2, vec![none]).launches(place.info()).unwrap_err();
        assert_eq!(error.to_string(), "project: rows of a weight is 0, must be 1 to 524288");
        let error = project(1, vec![tiles(0)]).launches(place.info()).unwrap_err();
        assert_eq!(error.to_string(), "project: values of x is 512, must be 256");
        let error = project(2, vec![product(Format::Q2_K, 2, 256)]).launches(place.info()).unwrap_err();
        assert!(matches!(error, CudaError::NoProduct { format: Format::Q2_K, .. }), "{error}");
        assert_eq!(error.to_string(), "a weight in Q2_K cannot be multiplied on a card");
        assert!(project(128, vec![product(Format::F32, 4, 4)]).launches(place.info()).is_err());
        assert!(Weight::new(Format::Q4_K, 2, 256, data.slice(0..200).unwrap()).is_err());
        assert!(Weight::tiles(Format::Q4_K, 2, 256, data.slice(0..2288).unwrap()).is_err());
    }
}
