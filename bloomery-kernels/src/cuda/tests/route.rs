//! Experts of rows: the CPU's, and the same bits however many rows there are.

use bloomery_gguf::Format;

use super::super::testing::{Place, places};
use super::super::{CudaError, Route, RouteNorm, Scores, Share, Span, Weight};
use crate::cpu::testing::{Rng, bits, weights};
use crate::cpu::{Cpu, Isa, Matrix, Norm, Numerics, Pool, RouterScore, RouterSpec, Routes, Scratch};

const EPS: f32 = 1e-6;

struct Case {
    count: usize,
    cols: usize,
    format: Format,
    spec: RouterSpec,
    /// Rows are taken as they are.
    raw: bool,
    /// Experts whose rows are those of lower ones: ties.
    ties: bool,
    /// Rows that have experts, if not all do.
    live: Option<u32>,
}

/// What a launch writes.
#[derive(Debug, PartialEq)]
struct Got {
    normed: Vec<u32>,
    experts: Vec<u32>,
    weights: Vec<u32>,
}

struct Setup {
    x: Vec<f32>,
    gain: Vec<f32>,
    router: Vec<u8>,
}

/// All NaNs are the same.
fn plain(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| if value.is_nan() { 1 } else { bits(&[*value])[0] }).collect()
}

impl Case {
    fn new(count: usize, used: usize, cols: usize, format: Format) -> Self {
        let spec = RouterSpec { scale: 1.5, ..RouterSpec::softmax(used) };
        Self { count, cols, format, spec, raw: false, ties: false, live: None }
    }

    fn setup(&self, rows: usize) -> Setup {
        let mut rng = Rng::new((self.count * 31 + self.cols) as u64);
        let router = weights(self.format, self.count * self.cols, 7);
        let row_bytes = router.len() / self.count;
        let distinct = if self.ties { self.count.div_ceil(3) } else { self.count };
        let router = (0..self.count).flat_map(|e| router[e % distinct * row_bytes..][..row_bytes].to_vec());
        let router = router.collect();
        Setup { x: rng.normals(rows * self.cols), gain: rng.normals(self.cols), router }
    }

    /// The first `rows` rows of `setup`, twice, with the same scratch memory.
    fn run(&self, place: &mut Place, setup: &Setup, rows: usize) -> Got {
        let Self { count, cols, format, spec, .. } = self;
        let x = place.buffer(&setup.x[..rows * cols]);
        let gain = place.buffer(&setup.gain);
        let router = Weight::new(*format, *count, *cols, place.buffer(&setup.router).span()).unwrap();
        let scratch = place.buffer(&vec![0_u32; Route::scratch_len(rows, *count)]);
        let live = self.live.map(|live| place.buffer(&[live]));
        let mut all = Vec::new();
        for _ in 0..2 {
            let normed = place.poison::<f32>(rows * cols);
            let (experts, weights) =
                (place.poison::<u32>(rows * spec.used), place.poison::<f32>(rows * spec.used));
            let op = Route {
                x: x.span(),
                norm: (!self.raw).then(|| RouteNorm { gain: gain.span(), eps: EPS, normed: normed.span() }),
                router: router.clone(),
                spec: *spec,
                scores: Scores::default(),
                share: None,
                experts: experts.span(),
                weights: weights.span(),
                live: live.as_ref().map(|live| live.span()),
                scratch: scratch.span(),
            };
            let launches = op.launches(place.info()).unwrap();
            let many = if self.raw { 2 } else { 3 };
            assert_eq!(launches.len(), if rows > 32 { many } else { 1 });
            launches.iter().for_each(|launch| place.run(launch));
            let got = Got {
                normed: plain(&place.read(if self.raw { &x } else { &normed })),
                experts: place.read(&experts),
                weights: plain(&place.read(&weights)),
            };
            assert!(place.read(&scratch).iter().all(|key| *key == 0), "scratch memory is not cleared");
            all.push(got);
        }
        let got = all.remove(0);
        assert!(all.iter().all(|again| *again == got), "the second time");
        got
    }

    /// Compares with the CPU.
    fn check(&self, setup: &Setup, got: &Got) {
        let Self { count, cols, format, spec, .. } = self;
        let rows = got.normed.len() / cols;
        let name = format!("{rows} rows, {} of {count}, {cols} columns, {format}", spec.used);
        let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
        let mut normed = vec![0.0; rows * cols];
        let (x, norm) = (&setup.x[..rows * cols], Norm { gain: &setup.gain, eps: EPS });
        if self.raw {
            normed.copy_from_slice(x);
        } else {
            cpu.rms_norm(x, rows, norm, &mut normed).unwrap();
        }
        let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
        let router = Matrix::new(*format, *count, *cols, &setup.router).unwrap();
        cpu.route(&normed, rows, router, spec, &mut routes, &mut scratch).unwrap();
        for (got, expected) in got.normed.iter().map(|v| f32::from_bits(*v)).zip(&normed) {
            // Half of what the sums of squares differ by, two roundings and an inverse on each side.
            let most = (*cols as f32 / 16.0 + 16.0) * f32::EPSILON * expected.abs();
            assert!((got - expected).abs() <= most, "{name}: {got} {expected}");
        }
        assert_eq!(got.experts, routes.experts, "{name}");
        // Both sides add up to cols / 16 and cols / 64 + 11 terms below 25 in magnitude in turn.
        let off = (*cols as f32 / 8.0 + 16.0) * (*cols as f32 / 16.0) * f32::EPSILON;
        for (got, expected) in got.weights.iter().map(|v| f32::from_bits(*v)).zip(&routes.weights) {
            let most = expected * (4.0 * off + 4e-6) + 1e-30;
            assert!((got - expected).abs() <= most, "{name}: {got} {expected}");
        }
    }
}

fn place() -> Place {
    places().pop().unwrap()
}

#[test]
fn experts_are_the_cpus() {
    let mut place = place();
    let mut cases = vec![
        (Case::new(8, 2, 32, Format::F32), 3),
        (Case::new(8, 8, 100, Format::F16), 33),
        (Case::new(60, 1, 96, Format::BF16), 2),
        (Case::new(12, 1, 96, Format::BF16), 9),
        (Case::new(20, 16, 1100, Format::F32), 2),
        (Case::new(20, 8, 64, Format::F32), 31),
        (Case::new(128, 8, 192, Format::F16), 1),
        (Case::new(19, 2, 64, Format::BF16), 8),
        (Case::new(130, 16, 64, Format::F32), 1),
        (Case::new(512, 8, 32, Format::F32), 33),
        (Case::new(1, 1, 4, Format::F32), 32),
    ];
    if place.is_card() {
        cases.extend([1, 8, 32, 100, 4096].map(|rows| (Case::new(128, 8, 2048, Format::F32), rows)));
        cases.extend([1, 3, 9, 33].map(|rows| (Case::new(512, 16, 2048, Format::F32), rows)));
        cases.extend([1, 32].map(|rows| (Case::new(512, 8, 7168, Format::BF16), rows)));
    }
    for (mut case, rows) in cases {
        case.check(&case.setup(rows), &case.run(&mut place, &case.setup(rows), rows));
        case.raw = true;
        case.check(&case.setup(rows), &case.run(&mut place, &case.setup(rows), rows));
        (case.raw, case.ties, case.spec.renormalize) = (false, true, false);
        case.check(&case.setup(rows), &case.run(&mut place, &case.setup(rows), rows));
    }
}

#[test]
fn a_row_is_routed_alike_among_any_number_of_rows() {
    let mut place = place();
    let raw = |case| Case { raw: true, ..case };
    for case in [
        Case::new(17, 8, 132, Format::F32),
        Case::new(3, 2, 4196, Format::F16),
        raw(Case::new(40, 10, 132, Format::BF16)),
    ] {
        // More than one turn of a block's threads takes many columns.
        let most = 100;
        let setup = case.setup(most);
        let all = case.run(&mut place, &setup, most);
        case.check(&setup, &all);
        for rows in [1, 2, 3, 8, 9, 31, 32, 33] {
            let got = case.run(&mut place, &setup, rows);
            assert_eq!(got.normed, all.normed[..rows * case.cols], "{rows} rows");
            assert_eq!(got.experts, all.experts[..rows * case.spec.used], "{rows} rows");
            assert_eq!(got.weights, all.weights[..rows * case.spec.used], "{rows} rows");
        }
    }
}

#[test]
fn rows_that_fill_up_a_graph_go_nowhere() {
    let mut place = place();
    let mut case = Case::new(9, 2, 64, Format::F32);
    for rows in [3, 35] {
        let setup = case.setup(rows);
        case.live = None;
        let mut expected = case.run(&mut place, &setup, rows);
        case.live = Some(rows as u32 - 2);
        expected.experts[2 * (rows - 2)..].fill(u32::MAX);
        expected.weights[2 * (rows - 2)..].fill(0);
        assert_eq!(case.run(&mut place, &setup, rows), expected, "{rows} rows");
    }
}

#[test]
fn tiles_of_both_sizes_have_the_same_logits() {
    let mut place = place();
    // 33 rows take the small tiles, enough for all processors the large ones.
    let case = Case::new(12, 4, 68, Format::F32);
    let rows = if place.is_card() { 64 * place.info().processors as usize } else { 130 };
    let setup = case.setup(rows);
    let all = case.run(&mut place, &setup, rows);
    case.check(&setup, &all);
    let few = case.run(&mut place, &setup, 33);
    assert_eq!(few.weights, all.weights[..33 * 4]);
}

/// Experts and weights of a row by the definition.
fn scored(logits: &[f64], used: usize, rule: (&Scores, &[f32], bool)) -> (Vec<u32>, Vec<f64>) {
    let (scores, bias, renormalize) = rule;
    let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
    let score = |logit: &f64| match scores.score {
        RouterScore::Softmax => logit.exp() / total,
        RouterScore::Sigmoid => 1.0 / (1.0 + (-logit).exp()),
        RouterScore::SqrtSoftplus => logit.exp().ln_1p().sqrt(),
    };
    let weights: Vec<f64> = logits.iter().map(score).collect();
    let mut ranks: Vec<f64> =
        weights.iter().zip(bias).map(|(weight, bias)| weight + f64::from(*bias)).collect();
    if let Some((count, open)) = scores.groups {
        let each = logits.len() / count;
        let value = |group: usize| {
            let mut all = ranks[group * each..][..each].to_vec();
            all.sort_by(|a, b| b.total_cmp(a));
            all[0] + if scores.score == RouterScore::Softmax { 0.0 } else { all[1] }
        };
        let mut groups: Vec<usize> = (0..count).collect();
        groups.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
        let closed = groups.split_off(open);
        for group in closed {
            ranks[group * each..][..each].fill(f64::NEG_INFINITY);
        }
    }
    let mut chosen: Vec<u32> = (0..logits.len() as u32).collect();
    chosen.sort_by(|a, b| ranks[*b as usize].total_cmp(&ranks[*a as usize]));
    chosen.truncate(used);
    let sum: f64 = chosen.iter().map(|expert| weights[*expert as usize]).sum();
    let divisor = if renormalize { sum } else { 1.0 };
    let weights = chosen.iter().map(|expert| weights[*expert as usize] / divisor * 2.5).collect();
    (chosen, weights)
}

#[test]
fn scores_with_biases_and_groups() {
    let mut place = place();
    let cols = 64;
    for (count, used, score, has_bias, groups) in [
        (16, 4, RouterScore::Sigmoid, true, None),
        (64, 6, RouterScore::Softmax, false, None),
        (160, 6, RouterScore::Softmax, false, Some((8, 3))),
        (256, 8, RouterScore::Sigmoid, true, Some((8, 4))),
        (288, 8, RouterScore::Sigmoid, true, None),
        (512, 10, RouterScore::Softmax, false, None),
        (64, 8, RouterScore::Softmax, true, Some((32, 5))),
        (30, 2, RouterScore::Sigmoid, false, Some((15, 1))),
        (384, 6, RouterScore::SqrtSoftplus, true, None),
        (12, 3, RouterScore::SqrtSoftplus, false, Some((4, 2))),
    ] {
        for (rows, renormalize, raw) in
            [(1, true, false), (3, false, false), (34, true, false), (2, true, true), (33, false, true)]
        {
            let mut rng = Rng::new(count as u64);
            let (x, mut gain) = (rng.normals(rows * cols), rng.normals(cols));
            if raw {
                gain.fill(1.0);
            }
            // Logits that are apart.
            let router: Vec<f32> = rng.normals(count * cols).into_iter().map(|v| 0.2 * v).collect();
            let bias: Vec<f32> =
                rng.normals(count).into_iter().map(|v| if has_bias { 0.2 * v } else { 0.0 }).collect();
            let gate = rng.normals(cols);
            let biases = place.buffer(&bias);
            let scores = Scores { score, bias: has_bias.then(|| biases.span()), groups, by_token: None };
            let spec = RouterSpec { scale: 2.5, renormalize, ..RouterSpec::softmax(used) };
            let scratch = place.buffer(&vec![0_u32; Route::scratch_len(rows, count)]);
            let (experts, weights) = (place.poison::<u32>(rows * used), place.poison::<f32>(rows * used));
            let (normed, shares) = (place.poison::<f32>(rows * cols), place.poison::<f32>(rows));
            let gates = place.buffer(&gate);
            let bytes: Vec<u8> = router.iter().flat_map(|v| v.to_le_bytes()).collect();
            let op = Route {
                x: place.buffer(&x).span(),
                norm: (!raw).then(|| RouteNorm {
                    gain: place.buffer(&gain).span(),
                    eps: EPS,
                    normed: normed.span(),
                }),
                router: Weight::new(Format::F32, count, cols, place.buffer(&bytes).span()).unwrap(),
                spec,
                scores: scores.clone(),
                share: Some(Share { gate: gates.span(), out: shares.span() }),
                experts: experts.span(),
                weights: weights.span(),
                live: None,
                scratch: scratch.span(),
            };
            for launch in op.launches(place.info()).unwrap() {
                place.run(&launch);
            }
            assert!(place.read(&scratch).iter().all(|key| *key == 0), "scratch memory is not cleared");
            let (experts, weights, shares) =
                (place.read(&experts), place.read(&weights), place.read(&shares));
            for (row, x) in x.chunks(cols).enumerate() {
                let square: f64 = x.iter().map(|v| f64::from(*v).powi(2)).sum();
                let inverse = if raw { 1.0 } else { (square / cols as f64 + f64::from(EPS)).sqrt().recip() };
                let dot = |w: &[f32]| -> f64 {
                    let value = |((x, gain), w): ((&f32, &f32), &f32)| {
                        f64::from(*x) * f64::from(*gain) * f64::from(*w)
                    };
                    x.iter().zip(&gain).zip(w).map(value).sum::<f64>() * inverse
                };
                let logits: Vec<f64> = router.chunks(cols).map(dot).collect();
                let (chosen, expected) = scored(&logits, used, (&scores, &bias, renormalize));
                let name = format!("row {row} of {rows}, {used} of {count}, {scores:?}");
                assert_eq!(experts[row * used..][..used], chosen, "{name}");
                for (found, expected) in weights[row * used..][..used].iter().zip(&expected) {
                    // Some 80 roundings of logits of about 2, and as many of their exponentials' sum.
                    let off = (f64::from(*found) - expected).abs();
                    assert!(off <= 2e-5 * expected, "{name}: {found}, not {expected}");
                }
                let share = 1.0 / (1.0 + (-dot(&gate)).exp());
                assert!(
                    (f64::from(shares[row]) - share).abs() <= 1e-5,
                    "{name}: {}, not {share}",
                    shares[row]
                );
            }
        }
    }
}

#[test]
fn what_is_not_a_number_comes_last() {
    let mut place = place();
    for renormalize in [true, false] {
        let mut case = Case::new(60, 8, 64, Format::F32);
        case.spec.renormalize = renormalize;
        let mut setup = case.setup(4);
        // An expert is no number in every row, all are in row 1, and row 2 has infinities.
        let nan = f32::NAN.to_le_bytes();
        setup.router[17 * 4 * 64..][..4].copy_from_slice(&nan);
        setup.x[64 + 3] = f32::NAN;
        setup.x[128 + 3] = f32::INFINITY;
        let got = case.run(&mut place, &setup, 4);
        let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
        let mut normed = vec![0.0; 4 * 64];
        cpu.rms_norm(&setup.x, 4, Norm { gain: &setup.gain, eps: EPS }, &mut normed).unwrap();
        let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
        let router = Matrix::new(case.format, 60, 64, &setup.router).unwrap();
        cpu.route(&normed, 4, router, &case.spec, &mut routes, &mut scratch).unwrap();
        assert_eq!(got.experts, routes.experts);
        let nans = |values: Vec<f32>| values.iter().map(|v| v.is_nan()).collect::<Vec<_>>();
        let weights = got.weights.iter().map(|w| if *w == 1 { f32::NAN } else { f32::from_bits(*w) });
        assert_eq!(nans(weights.collect()), nans(routes.weights));
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = place();
    let (x, gain) = (place.buffer(&[0.0_f32; 128]), place.buffer(&[0.0_f32; 64]));
    let (normed, scratch) = (place.buffer(&[0.0_f32; 128]), place.buffer(&[0_u32; 256]));
    let (experts, weights) = (place.buffer(&[0_u32; 4]), place.buffer(&[0.0_f32; 4]));
    let matrix = |place: &mut Place, format: Format, count: usize| {
        let bytes = place.buffer(&vec![0_u8; count * 64 / format.block_len() * format.block_bytes()]);
        Weight::new(format, count, 64, bytes.span()).unwrap()
    };
    let op = Route {
        x: x.span(),
        norm: Some(RouteNorm { gain: gain.span(), eps: EPS, normed: normed.span() }),
        router: matrix(&mut place, Format::F32, 8),
        spec: RouterSpec::softmax(2),
        scores: Scores::default(),
        share: None,
        experts: experts.span(),
        weights: weights.span(),
        live: None,
        scratch: scratch.span(),
    };
    assert!(op.launches(place.info()).is_ok());
    let refused = |op: Route, place: &Place| op.launches(place.info()).unwrap_err();
    let error = refused(Route { router: matrix(&mut place, Format::Q8_0, 8), ..op.clone() }, &place);
    assert!(matches!(error, CudaError::NoProduct { .. }), "{error}");
    let error = refused(Route { spec: RouterSpec::softmax(1), ..op.clone() }, &place);
    assert_eq!(error.to_string(), "route: chosen experts is 4, must be 2");
    let error = refused(Route { spec: RouterSpec::softmax(9), ..op.clone() }, &place);
    assert_eq!(error.to_string(), "route: experts of a row is 9, must be 1 to 8");
    let error = refused(Route { router: matrix(&mut place, Format::F32, 513), ..op.clone() }, &place);
    assert_eq!(error.to_string(), "route: experts is 513, must be 1 to 512");
    let short: Span<u32> = scratch.slice(0..255).unwrap();
    let error = refused(Route { scratch: short, ..op.clone() }, &place);
    assert_eq!(error.to_string(), "route: scratch values is 255, must be at least 256");
    let in_place = RouteNorm { gain: gain.span(), eps: EPS, normed: x.span() };
    let error = refused(Route { norm: Some(in_place), ..op.clone() }, &place);
    assert_eq!(error.to_string(), "route: normed values is 128, must be apart from x");
    let groups = |count, used| Scores { groups: Some((count, used)), ..Scores::default() };
    let error = refused(Route { scores: groups(8, 2), ..op.clone() }, &place);
    assert_eq!(
        error.to_string(),
        "route: groups of experts is 8, must be 1 to 32, of two experts or more each"
    );
    let error = refused(Route { scores: groups(4, 5), ..op.clone() }, &place);
    assert_eq!(error.to_string(), "route: groups of a row is 5, must be at most 4, with 2 experts");
    let short = Some(Share { gate: x.slice(0..32).unwrap(), out: weights.slice(0..2).unwrap() });
    let error = refused(Route { share: short, ..op.clone() }, &place);
    assert_eq!(error.to_string(), "route: weights of the share's gate is 32, must be 64");
    let odd = x.slice(0..63).unwrap();
    assert!(Route { x: odd, ..op }.launches(place.info()).is_err());
}
