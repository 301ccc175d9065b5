use std::num::NonZeroUsize;

use bloomery_gguf::Format;

use super::super::testing::{Rng, bits, cpus, weights};
use super::super::{Isa, Numerics, Part, Pool};
use super::*;

struct Layer {
    formats: [Format; 3],
    count: usize,
    cols: usize,
    hidden: usize,
    data: [Vec<u8>; 3],
}

impl Layer {
    fn new(formats: [Format; 3], count: usize, cols: usize, hidden: usize) -> Self {
        let mut seed = 0;
        let data = formats.map(|format| {
            seed += 1;
            weights(format, count * cols * hidden, seed)
        });
        Self { formats, count, cols, hidden, data }
    }

    fn experts(&self) -> Experts<'_> {
        let stack = |i: usize, rows, cols| {
            Stack::new(self.formats[i], self.count, rows, cols, &self.data[i]).unwrap()
        };
        Experts {
            gate: stack(0, self.hidden, self.cols),
            up: stack(1, self.hidden, self.cols),
            down: stack(2, self.cols, self.hidden),
            activation: Activation::Silu,
        }
    }
}

/// Row by row and slot by slot, in plain Rust.
fn definition(layer: &Layer, n: &[f32], routes: &Routes, out: &mut [f32]) {
    let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::Scalar, Numerics::Fast);
    let (experts, mut scratch) = (layer.experts(), Scratch::default());
    let mut run = |w: Matrix<'_>, x: &[f32]| {
        let mut out = vec![0.0; w.rows()];
        cpu.project(
            x,
            1,
            None,
            &mut [Part { weight: w, bias: None, out: &mut out, accumulate: false }],
            &mut scratch,
        )
        .unwrap();
        out
    };
    for row in 0..routes.rows {
        let x = &n[row * layer.cols..(row + 1) * layer.cols];
        let mut sum = vec![0f32; layer.cols];
        for pair in row * routes.used..(row + 1) * routes.used {
            let expert = routes.experts[pair] as usize;
            if routes.experts[pair] == NO_EXPERT {
                continue;
            }
            let (gate, up) = (run(experts.gate.matrix(expert), x), run(experts.up.matrix(expert), x));
            let mut hidden = vec![0.0; layer.hidden];
            experts.activation.gate(Isa::Scalar, &gate, &up, &mut hidden);
            for (sum, y) in sum.iter_mut().zip(run(experts.down.matrix(expert), &hidden)) {
                *sum = y.mul_add(routes.weights[pair], *sum);
            }
        }
        out[row * layer.cols..(row + 1) * layer.cols].iter_mut().zip(&sum).for_each(|(out, sum)| *out += sum);
    }
}

fn routes(rows: usize, used: usize, mut expert: impl FnMut(usize, usize) -> usize) -> Routes {
    let mut rng = Rng::new(rows as u64);
    Routes {
        rows,
        used,
        experts: (0..rows * used).map(|i| expert(i / used, i % used) as u32).collect(),
        weights: (0..rows * used).map(|_| rng.unit() as f32).collect(),
    }
}

fn check(layer: &Layer, routes: &Routes) {
    let n: Vec<f32> = Rng::new(9).normals(routes.rows * layer.cols).iter().map(|x| x * 0.1).collect();
    let before = Rng::new(10).normals(routes.rows * layer.cols);
    let mut expected = before.clone();
    definition(layer, &n, routes, &mut expected);
    let mut scratch = Scratch::default();
    for cpu in cpus().iter().skip(1) {
        let mut out = before.clone();
        let mut calls = 0;
        cpu.experts_beside(&mut || calls += 1, &n, routes, &layer.experts(), &mut out, &mut scratch).unwrap();
        assert_eq!(calls, 1);
        assert_eq!(bits(&out), bits(&expected), "{:?} {} rows, {cpu:?}", layer.formats, routes.rows);
    }
}

const MIX: [[Format; 3]; 3] = [
    [Format::Q4_K, Format::Q4_K, Format::Q6_K],
    [Format::Q5_0, Format::Q4_K, Format::Q8_0],
    [Format::MXFP4, Format::MXFP4, Format::MXFP4],
];

#[test]
fn is_the_definition_for_any_batch() {
    for formats in MIX {
        let layer = Layer::new(formats, 6, 256, 256);
        for rows in [1, 2, 7, 8, 9, 33] {
            let mut rng = Rng::new(rows as u64 + 100);
            // Two different experts for each row; number 5 is never selected.
            check(&layer, &routes(rows, 2, |row, slot| (2 * rng.below(2) + 3 * slot + row) % 5));
        }
    }
}

#[test]
fn one_expert_takes_all_and_all_experts_take_one() {
    let layer = Layer::new(MIX[0], 4, 256, 512);
    check(&layer, &routes(40, 1, |_, _| 2));
    check(&layer, &routes(3, 4, |_, slot| 3 - slot));
    check(&layer, &routes(20, 2, |row, slot| if slot == 0 { 1 } else { row % 4 }));
    check(&layer, &routes(1, 1, |_, _| 0));
    let one = Layer::new(MIX[1], 1, 512, 256);
    check(&one, &routes(17, 1, |_, _| 0));
    check(&one, &routes(40, 1, |_, _| 0));
}

#[test]
fn slots_without_an_expert_are_left_out() {
    let layer = Layer::new(MIX[0], 4, 256, 256);
    let leave = |row: usize, slot: usize| (row * 3 + slot).is_multiple_of(4);
    for rows in [1, 3, 8, 33] {
        let mut routes = routes(rows, 3, |row, slot| (row + slot) % 4);
        for (pair, expert) in routes.experts.iter_mut().enumerate() {
            if leave(pair / 3, pair % 3) {
                *expert = NO_EXPERT;
            }
        }
        check(&layer, &routes);
        routes.experts.fill(NO_EXPERT);
        check(&layer, &routes);
    }
}

#[test]
fn no_rows_and_broken_routes() {
    let layer = Layer::new(MIX[0], 2, 256, 256);
    let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
    let mut scratch = Scratch::default();
    let none = Routes { used: 2, ..Routes::default() };
    assert_eq!(cpu.experts(&[], &none, &layer.experts(), &mut [], &mut scratch), Ok(()));
    let wrong = routes(1, 1, |_, _| 2);
    let mut out = [0.0; 256];
    let refused = cpu.experts(&[0.0; 256], &wrong, &layer.experts(), &mut out, &mut scratch);
    assert_eq!(refused, Err(KernelError::OutOfRange { what: "expert", value: 2, limit: 2 }));
    let short = cpu.experts(&[0.0; 255], &routes(1, 1, |_, _| 1), &layer.experts(), &mut out, &mut scratch);
    assert!(matches!(short, Err(KernelError::Length { .. })));
}
