//! Feed-forward blocks: hidden values and outputs, each from what the kernel itself had before.

use bloomery_gguf::Format;

use super::super::testing::{Place, places};
use super::super::{CudaError, FeedForward, Routed, Tuning, WeightStack, gates};
use super::oracle::{FORMATS, Rows, activated, class, rounded};
use crate::abi::shape::Class;
use crate::cpu::testing::{Rng, bits, weights};
use crate::cpu::{self, Activation, Cpu, Isa, Norm, Numerics, Pool, Scratch, Stack};

const EPS: f32 = 1e-6;

struct Case {
    gate: Format,
    down: Format,
    cols: usize,
    hidden: usize,
    outputs: usize,
    /// Experts and how many a row has; 0: a dense layer.
    count: usize,
    used: usize,
    norm: bool,
    tuning: Tuning,
    activation: Activation,
    accumulate: bool,
}

struct Setup {
    x: Vec<f32>,
    gain: Vec<f32>,
    gate: Vec<u8>,
    up: Vec<u8>,
    down: Vec<u8>,
    experts: Vec<u32>,
    weights: Vec<f32>,
    before: Vec<f32>,
}

impl Case {
    fn name(&self) -> String {
        let Self { gate, down, cols, hidden, outputs, count, used, norm, .. } = self;
        format!("{gate} {down} {cols}-{hidden}-{outputs}, {used} of {count}, norm {norm}")
    }

    fn matrices(&self) -> usize {
        self.count.max(1)
    }

    fn pairs(&self) -> usize {
        self.used.max(1)
    }

    fn setup(&self, tokens: usize) -> Setup {
        let mut rng = Rng::new((self.cols + self.hidden * 7 + tokens) as u64);
        let mut experts = Vec::new();
        for token in 0..tokens {
            let mut free: Vec<u32> = (0..self.count as u32).collect();
            for slot in 0..self.used {
                // Everybody's first choice is the same, so that experts are shared; one slot leads nowhere.
                let at = if slot == 0 { free.len() / 2 } else { rng.below(free.len()) };
                let expert = free.swap_remove(at);
                experts.push(if token == 1 && slot == 1 { u32::MAX } else { expert });
            }
        }
        let matrix = |format, rows, cols, seed| weights(format, self.matrices() * rows * cols, seed);
        Setup {
            x: rng.normals(tokens * self.cols),
            gain: rng.normals(self.cols),
            gate: matrix(self.gate, self.hidden, self.cols, 1),
            up: matrix(self.gate, self.hidden, self.cols, 2),
            down: matrix(self.down, self.outputs, self.hidden, 3),
            weights: experts.iter().map(|_| rng.unit() as f32).collect(),
            experts,
            before: rng.normals(tokens * self.outputs),
        }
    }

    /// Hidden values (of the last launches) and outputs.
    fn run(&self, place: &mut Place, setup: &Setup, tokens: std::ops::Range<usize>) -> (Vec<f32>, Vec<f32>) {
        let count = tokens.len();
        let part = |values: &[f32], width: usize| values[tokens.start * width..tokens.end * width].to_vec();
        let (x, gain) = (place.buffer(&part(&setup.x, self.cols)), place.buffer(&setup.gain));
        let out = match self.accumulate {
            true => place.buffer(&part(&setup.before, self.outputs)),
            false => place.poison(count * self.outputs),
        };
        let hidden = place.poison::<f32>(FeedForward::hidden_len(count, self.pairs(), self.hidden));
        let experts = place.buffer(&setup.experts[tokens.start * self.used..tokens.end * self.used]);
        let weights = place.buffer(&part(&setup.weights, self.used));
        let mut stack =
            |format, rows, cols, data: &[u8]| place.stack(format, self.matrices(), rows, cols, data);
        let gate = stack(self.gate, self.hidden, self.cols, &setup.gate);
        let up = stack(self.gate, self.hidden, self.cols, &setup.up);
        let down = stack(self.down, self.outputs, self.hidden, &setup.down);
        let bytes = FeedForward::workspace_bytes(
            count,
            (self.pairs(), self.matrices()),
            (self.cols, self.hidden, self.outputs),
        );
        // One row does without.
        let workspace = (count > 1).then(|| place.poison::<u8>(bytes).span());
        let op = FeedForward {
            gate,
            up,
            down,
            x: x.span(),
            rows: count,
            norm: self.norm.then(|| (gain.span(), EPS)),
            routed: (self.used > 0).then(|| Routed {
                experts: experts.span(),
                weights: weights.span(),
                used: self.used,
                seats: None,
            }),
            hidden: hidden.span(),
            activation: self.activation,
            out: out.span(),
            accumulate: self.accumulate,
            workspace,
            tuning: self.tuning,
        };
        for launch in op.launches(place.info()).unwrap() {
            place.run(&launch);
        }
        (place.read(&hidden), place.read(&out))
    }

    fn route(&self, setup: &Setup, pair: usize) -> Option<(usize, f64)> {
        if self.used == 0 {
            return Some((0, 1.0));
        }
        let expert = setup.experts[pair] as usize;
        (expert < self.count).then(|| (expert, f64::from(setup.weights[pair])))
    }

    /// What results are added to.
    fn before(&self, setup: &Setup) -> Vec<f32> {
        setup.before.iter().map(|value| if self.accumulate { *value } else { 0.0 }).collect()
    }

    fn verify(&self, setup: &Setup, tokens: usize, hidden: &[f32], out: &[f32]) {
        let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
        let x = &setup.x[..tokens * self.cols];
        let mut normed = x.to_vec();
        if self.norm {
            cpu.rms_norm(x, tokens, Norm { gain: &setup.gain, eps: EPS }, &mut normed).unwrap();
        }
        let name = self.name();
        let (gates, ups) =
            (Rows::new(self.gate, self.cols, &setup.gate), Rows::new(self.gate, self.cols, &setup.up));
        let downs = Rows::new(self.down, self.hidden, &setup.down);
        let ulp = f64::from(f32::EPSILON);
        for token in 0..tokens {
            let x = rounded(self.gate, &normed[token * self.cols..][..self.cols]);
            let mut exact: Vec<(f64, f64)> = vec![(0.0, 0.0); self.outputs];
            for pair in token * self.pairs()..(token + 1) * self.pairs() {
                let Some((expert, weight)) = self.route(setup, pair) else { continue };
                let hidden = &hidden[pair * self.hidden..][..self.hidden];
                for (i, found) in hidden.iter().enumerate() {
                    let (gate, gate_slack) = gates.product(expert * self.hidden + i, &x);
                    let (up, up_slack) = ups.product(expert * self.hidden + i, &x);
                    // The slopes are at most 1.13; exp has 2 ulp and the error of its argument, which grows with it.
                    let (exact, inner, [active, up]) = activated(self.activation, gate, up);
                    let slack = 1.13 * gate_slack * (up.abs() + up_slack)
                        + active.abs() * up_slack
                        + exact.abs() * ulp * (8.0 + 4.0 * inner.abs())
                        + 1e-30;
                    let found = f64::from(*found);
                    assert!(
                        (found - exact).abs() <= slack,
                        "{name}: hidden {pair} {i}: {found}, not {exact} +- {slack}"
                    );
                }
                let h = rounded(self.down, hidden);
                for (column, (sum, slack)) in exact.iter_mut().enumerate() {
                    let (value, off) = downs.product(expert * self.outputs + column, &h);
                    *sum += weight * value;
                    *slack += weight * off + (weight * value).abs() * ulp * 16.0;
                }
            }
            for (column, (sum, slack)) in exact.into_iter().enumerate() {
                let before = f64::from(self.before(setup)[token * self.outputs + column]);
                let found = f64::from(out[token * self.outputs + column]);
                let slack = slack + (before.abs() + sum.abs()) * ulp;
                let exact = before + sum;
                assert!(
                    (found - exact).abs() <= slack,
                    "{name}: {token} {column}: {found}, not {exact} +- {slack}"
                );
            }
        }
        if self.gate != Format::IQ4_XS && self.down != Format::IQ4_XS {
            self.compare(&cpu, setup, tokens, &normed, out);
        }
    }

    /// The whole against the CPU's: a hidden value that rounds the other way moves the result by an int8 step.
    fn compare(&self, cpu: &Cpu, setup: &Setup, tokens: usize, normed: &[f32], out: &[f32]) {
        let stack = |format, rows, cols, data| Stack::new(format, self.matrices(), rows, cols, data).unwrap();
        let experts = cpu::Experts {
            gate: stack(self.gate, self.hidden, self.cols, &setup.gate),
            up: stack(self.gate, self.hidden, self.cols, &setup.up),
            down: stack(self.down, self.outputs, self.hidden, &setup.down),
            activation: self.activation,
        };
        let pairs: Vec<_> = (0..tokens * self.pairs()).map(|pair| self.route(setup, pair)).collect();
        let routes = cpu::Routes {
            rows: tokens,
            used: self.pairs(),
            experts: pairs.iter().map(|route| route.map_or(0, |route| route.0 as u32)).collect(),
            weights: pairs.iter().map(|route| route.map_or(0.0, |route| route.1 as f32)).collect(),
        };
        let mut expected = self.before(setup)[..tokens * self.outputs].to_vec();
        cpu.experts(normed, &routes, &experts, &mut expected, &mut Scratch::default()).unwrap();
        let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
        let off = square(&mut expected.iter().zip(out).map(|(a, b)| f64::from(*a) - f64::from(*b)));
        let size = square(&mut expected.iter().map(|v| f64::from(*v)));
        assert!(off <= 1e-3 * size, "{}: {off} of {size} from the CPU's", self.name());
    }

    fn check(&self, place: &mut Place, counts: &[usize]) {
        let most = *counts.iter().max().unwrap();
        let setup = self.setup(most);
        // Eight rows at a time tell their hidden values.
        let mut all = Vec::new();
        for first in (0..most).step_by(8) {
            let rows = first..most.min(first + 8);
            let (hidden, some) = self.run(place, &setup, rows.clone());
            if first == 0 {
                self.verify(&setup, rows.len(), &hidden, &some);
            }
            all.extend(some);
        }
        for &count in counts {
            let first = if count == 1 { most.min(8) - 1 } else { 0 };
            let (_, some) = self.run(place, &setup, first..first + count);
            let part = &all[first * self.outputs..(first + count) * self.outputs];
            assert_eq!(bits(&some), bits(part), "{}: {count} rows of {most}", self.name());
        }
    }
}

/// Gate columns, hidden values, outputs.
fn shapes(class: Class, place: &Place) -> &'static [[usize; 3]] {
    let all: &[[usize; 3]] = match class {
        Class::Wide => &[[256, 256, 7], [2304, 768, 131], [2048, 768, 160], [512, 2560, 64]],
        Class::Narrow => &[[96, 64, 7], [2112, 416, 131], [2048, 768, 160], [512, 2560, 64]],
        Class::Float => &[[40, 24, 7], [1032, 136, 131], [2048, 768, 160], [512, 2560, 64]],
    };
    if place.is_card() { all } else { &all[..1] }
}

#[test]
fn experts_of_every_format() {
    for mut place in places() {
        for format in FORMATS {
            for (i, &[cols, hidden, outputs]) in shapes(class(format), &place).iter().enumerate() {
                let case = Case {
                    gate: if gates(format) { format } else { Format::Q8_0 },
                    down: format,
                    cols,
                    hidden,
                    outputs,
                    count: 6,
                    used: 3,
                    norm: i % 2 == 1,
                    tuning: Tuning::default(),
                    activation: Activation::Silu,
                    accumulate: true,
                };
                case.check(&mut place, &[1, 2, 3, 5, 8, 9, 70]);
            }
        }
    }
}

#[test]
fn mixed_formats_and_many_sharers() {
    for mut place in places() {
        for (gate, down, used, count) in [
            (Format::Q4_K, Format::Q6_K, 8, 16),
            (Format::Q4_K, Format::Q8_0, 2, 2),
            (Format::Q8_0, Format::Q5_K, 3, 4),
            (Format::Q5_K, Format::Q5_1, 8, 16),
        ] {
            // Many rows are combined four columns at a time, or eight rows at a time.
            let outputs = if used == 3 { 41 } else { 44 };
            let case = Case {
                gate,
                down,
                cols: 512,
                hidden: 256,
                outputs,
                count,
                used,
                norm: true,
                tuning: Tuning::default(),
                activation: Activation::Silu,
                accumulate: true,
            };
            case.check(&mut place, &[1, 8, 12]);
        }
    }
}

#[test]
fn dense_layers() {
    for mut place in places() {
        for (gate, down) in
            [(Format::Q4_K, Format::Q6_K), (Format::Q8_0, Format::Q8_0), (Format::BF16, Format::F16)]
        {
            // One adds, the others replace what is there.
            let accumulate = gate == Format::Q4_K;
            let activation = if accumulate { Activation::Silu } else { Activation::GeluTanh };
            let shape = if place.is_card() { [896, 4864, 896] } else { [256, 512, 5] };
            let [mut cols, hidden, outputs] = shape;
            if place.is_card() && class(gate) == Class::Wide {
                cols = 1024;
            }
            let case = Case {
                gate,
                down,
                cols,
                hidden,
                outputs,
                count: 0,
                used: 0,
                norm: true,
                tuning: Tuning::default(),
                activation,
                accumulate,
            };
            case.check(&mut place, &[1, 2, 3, 5, 8, 9, 70]);
        }
    }
}

/// Limits that many values are beyond, in kernels of all kinds and numbers of rows.
#[test]
fn limits_hold_on_both_sides() {
    for mut place in places() {
        for (gate, down) in
            [(Format::Q4_K, Format::Q6_K), (Format::Q8_0, Format::Q8_0), (Format::BF16, Format::F16)]
        {
            for (count, used) in [(5, 2), (0, 0)] {
                let case = Case {
                    gate,
                    down,
                    cols: 256,
                    hidden: 256,
                    outputs: 8,
                    count,
                    used,
                    norm: false,
                    tuning: Tuning::default(),
                    activation: Activation::ClampedSilu { limit: 0.75 },
                    accumulate: true,
                };
                case.check(&mut place, &[1, 2, 7, 9, 33]);
                let setup = case.setup(1);
                let limited = case.run(&mut place, &setup, 0..1).0;
                let free = Case { activation: Activation::Silu, ..case };
                let free = free.run(&mut place, &setup, 0..1).0;
                assert!(limited.iter().all(|value| value.abs() <= 0.75 * 0.75), "{gate}");
                assert!(free.iter().filter(|value| value.abs() > 0.75 * 0.75).count() > 10, "{gate}");
            }
        }
    }
}

/// Experts whose matrices are in seats: the bits of the same experts in a stack of their own.
#[test]
fn many_rows_find_the_seats_of_experts() {
    let (format, count, used, rows, size) = (Format::Q4_K, 6, 3, 70, 256);
    for mut place in places() {
        let mut rng = Rng::new(5);
        let bytes = size * size / 256 * 144;
        let matrices: Vec<Vec<u8>> = (0..3).map(|i| weights(format, count * size * size, i)).collect();
        // Expert 2 has no seat, and one seat's number is wrong: both count for nothing.
        let seats = [7, 0, u32::MAX, 3, 1 << 20, 5];
        let experts: Vec<u32> =
            (0..rows * used).map(|pair| ((pair + pair / used % 5) % (count + 1)) as u32).collect();
        let own: Vec<u32> = experts.iter().map(|&e| if e == 2 || e == 4 { u32::MAX } else { e }).collect();
        let weights: Vec<f32> = experts.iter().map(|_| rng.unit() as f32).collect();
        let (x, before) = (rng.normals(rows * size), rng.normals(rows * size));
        let run = |place: &mut Place, seated: bool, rows: usize| {
            let pool = |data: &Vec<u8>| {
                let mut pool = vec![0; 9 * bytes];
                for (expert, &seat) in seats.iter().enumerate().filter(|(_, seat)| **seat < 9) {
                    pool[seat as usize * bytes..][..bytes].copy_from_slice(&data[expert * bytes..][..bytes]);
                }
                pool
            };
            let [gate, up, down] = [0, 1, 2].map(|i| match seated {
                true => place.stack(format, 9, size, size, &pool(&matrices[i])),
                false => place.stack(format, count, size, size, &matrices[i]),
            });
            let out = place.buffer(&before[..rows * size]);
            let room = FeedForward::workspace_bytes(rows, (used, count), (size, size, size));
            let op = FeedForward {
                x: place.buffer(&x[..rows * size]).span(),
                rows,
                norm: None,
                routed: Some(Routed {
                    experts: place
                        .buffer(if seated { &experts } else { &own })
                        .slice(0..rows * used)
                        .unwrap(),
                    weights: place.buffer(&weights[..rows * used]).span(),
                    used,
                    seats: seated.then(|| place.buffer(&seats).span()),
                }),
                gate,
                up,
                down,
                hidden: place.poison(FeedForward::hidden_len(rows, used, size)).span(),
                activation: Activation::Silu,
                out: out.span(),
                accumulate: true,
                workspace: Some(place.poison::<u8>(room).span()),
                tuning: Tuning::default(),
            };
            let launches = op.launches(place.info())?;
            launches.iter().for_each(|launch| place.run(launch));
            Ok::<_, CudaError>(place.read(&out))
        };
        for rows in [9, rows] {
            let (seated, own) = (run(&mut place, true, rows).unwrap(), run(&mut place, false, rows).unwrap());
            assert_eq!(bits(&seated), bits(&own), "{rows} rows");
        }
        let error = run(&mut place, true, 8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "feed-forward: seats is 6, must be 0 but for more than 8 rows, tiles and a workspace"
        );
    }
}

#[test]
fn bad_calls_are_refused() {
    for mut place in places() {
        let x = place.buffer(&[0.0_f32; 512]);
        let stack = place.stack(Format::Q4_K, 2, 256, 256, &[0_u8; 144 * 256 * 2]);
        let ids = place.buffer(&[0_u32; 2]);
        let op = FeedForward {
            x: x.span(),
            rows: 2,
            norm: None,
            routed: Some(Routed {
                experts: ids.span(),
                weights: x.slice(0..2).unwrap(),
                used: 1,
                seats: None,
            }),
            gate: stack.clone(),
            up: stack.clone(),
            down: stack.clone(),
            hidden: x.span(),
            activation: Activation::Silu,
            out: x.span(),
            accumulate: true,
            workspace: None,
            tuning: Tuning::default(),
        };
        assert_eq!(op.launches(place.info()).unwrap().len(), 2);
        let halves = stack.with_rows(128, 128).unwrap();
        assert!(stack.with_rows(129, 128).is_err());
        assert!(stack.with_rows(8, 128).is_err());
        let error = FeedForward { up: halves, ..op.clone() }.launches(place.info()).unwrap_err();
        assert_eq!(error.to_string(), "feed-forward: rows of up is 128, must be 256");
        let short = FeedForward { hidden: x.slice(0..256).unwrap(), ..op.clone() }
            .launches(place.info())
            .unwrap_err();
        assert!(matches!(short, CudaError::Contract { what: "hidden values", .. }), "{short}");
        let data = place.buffer(&[0_u8; 84 * 256 * 2]);
        let other = WeightStack::new(Format::Q2_K, 2, 256, 256, data.span()).unwrap();
        let [gate, up] = [0, 1]
            .map(|seed| place.stack(Format::Q5_1, 2, 256, 256, &weights(Format::Q5_1, 2 * 256 * 256, seed)));
        let error = FeedForward { gate, up, ..op.clone() }.launches(place.info()).unwrap_err();
        assert_eq!(error.to_string(), "a gate in Q5_1 cannot be multiplied on a card");
        let error = FeedForward { down: other, ..op }.launches(place.info()).unwrap_err();
        assert_eq!(error.to_string(), "a down projection in Q2_K cannot be multiplied on a card");
    }
}
