//! Routers against double precision.

use bloomery_gguf::Format;

use super::super::testing::{Rng, cpus};
use super::*;

fn bytes(values: &[f32], format: Format) -> Vec<u8> {
    match format {
        Format::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Format::F16 => values.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect(),
        Format::BF16 => values.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect(),
        _ => bloomery_gguf::quantize::quantize(format, values).unwrap(),
    }
}

#[test]
fn chooses_as_double_precision_does() {
    for (experts, used, cols) in [(1, 1, 32), (8, 3, 64), (60, 4, 96), (128, 8, 2048), (130, 130, 32)] {
        for format in [Format::F32, Format::F16, Format::BF16, Format::Q8_0] {
            for (rows, renormalize) in [(1, true), (2, false), (7, true), (33, false)] {
                let mut rng = Rng::new((experts * cols + rows) as u64);
                let x = rng.normals(rows * cols);
                let data = bytes(&rng.normals(experts * cols), format);
                let router = Matrix::new(format, experts, cols, &data).unwrap();
                let mut weights = vec![0.0; experts * cols];
                bloomery_gguf::dequantize(format, &data, &mut weights).unwrap();
                let spec = RouterSpec { renormalize, scale: 1.5, ..RouterSpec::softmax(used) };
                let mut expected = None;
                for cpu in cpus() {
                    let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
                    cpu.route(&x, rows, router, &spec, &mut routes, &mut scratch).unwrap();
                    // The others have the bits of the first.
                    let expected = expected.get_or_insert_with(|| {
                        for row in 0..rows {
                            verify(&x[row * cols..][..cols], &weights, &spec, &routes, row);
                        }
                        routes.clone()
                    });
                    assert_eq!(*expected, routes, "{cpu:?}");
                }
                // A row alone is routed as among others.
                let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
                let last = &x[(rows - 1) * cols..];
                cpus().remove(0).route(last, 1, router, &spec, &mut routes, &mut scratch).unwrap();
                let expected = expected.unwrap();
                assert_eq!(routes.experts, expected.experts[(rows - 1) * used..]);
                assert_eq!(routes.weights, expected.weights[(rows - 1) * used..]);
            }
        }
    }
}

fn verify(x: &[f32], weights: &[f32], spec: &RouterSpec, routes: &Routes, row: usize) {
    let logit = |w: &[f32]| x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>();
    let logits: Vec<f64> = weights.chunks(x.len()).map(logit).collect();
    let range = row * spec.used..(row + 1) * spec.used;
    let (chosen, got) = (&routes.experts[range.clone()], &routes.weights[range]);
    // 16 lanes of cols / 16 fused terms and a tree of 4, the terms below 25 in magnitude.
    let off = (x.len() / 16 + 4) as f64 * x.len() as f64 / 16.0 * f64::from(f32::EPSILON);
    let least = chosen.iter().map(|&e| logits[e as usize]).fold(f64::INFINITY, f64::min);
    for (expert, logit) in logits.iter().enumerate() {
        assert!(chosen.contains(&(expert as u32)) || *logit <= least + 2.0 * off);
    }
    assert!(chosen.windows(2).all(|pair| logits[pair[0] as usize] >= logits[pair[1] as usize] - 2.0 * off));
    assert!(got.windows(2).all(|pair| pair[0] >= pair[1]));
    let most = logits.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let power = |e: usize| (logits[e] - most).exp();
    let divisor: f64 = if spec.renormalize {
        chosen.iter().map(|&e| power(e as usize)).sum()
    } else {
        (0..logits.len()).map(power).sum()
    };
    for (&expert, &weight) in chosen.iter().zip(got) {
        let exact = power(expert as usize) / divisor * f64::from(spec.scale);
        assert!((f64::from(weight) - exact).abs() <= exact * (4.0 * off + 2e-6) + 1e-30, "{weight} {exact}");
    }
}

#[test]
fn ties_go_to_the_lower_expert_and_nan_to_the_end() {
    let mut chosen = [0; 4];
    select(&[1.0, 3.0, 1.0, 3.0, f32::NAN, 1.0], &mut chosen);
    assert_eq!(chosen, [1, 3, 0, 2]);
    select(&[f32::NAN; 6], &mut chosen);
    assert_eq!(chosen, [0, 1, 2, 3]);
    let mut all = [0; 3];
    select(&[f32::NAN, -1.0, f32::INFINITY], &mut all);
    assert_eq!(all, [2, 1, 0]);
    // Equal rows of the router give equal logits.
    let data = bytes(&[1.0; 6 * 32], Format::F32);
    let router = Matrix::new(Format::F32, 6, 32, &data).unwrap();
    for cpu in cpus() {
        let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
        cpu.route(&[0.5; 64], 2, router, &RouterSpec::softmax(4), &mut routes, &mut scratch).unwrap();
        assert_eq!(routes.experts, [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(routes.weights, [0.25; 8]);
    }
}

#[test]
fn bad_calls_are_refused() {
    let data = bytes(&[1.0; 6 * 32], Format::F32);
    let router = Matrix::new(Format::F32, 6, 32, &data).unwrap();
    let cpu = cpus().remove(0);
    let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
    for (used, values) in [(0, 64), (7, 64), (2, 63)] {
        let spec = RouterSpec::softmax(used);
        assert!(cpu.route(&vec![0.5; values], 2, router, &spec, &mut routes, &mut scratch).is_err());
    }
    let integers = Matrix::new(Format::I8, 6, 128, &data).unwrap();
    let spec = RouterSpec { groups: Some(RouterGroups { count: 2, used: 1 }), ..RouterSpec::softmax(3) };
    assert!(cpu.route(&[0.5; 64], 2, router, &spec, &mut routes, &mut scratch).is_ok());
    for (used, groups, open) in [(3, 4, 1), (3, 6, 4), (3, 0, 0), (4, 2, 1), (3, 2, 3), (3, 2, 0)] {
        let groups = Some(RouterGroups { count: groups, used: open });
        let spec = RouterSpec { groups, ..RouterSpec::softmax(used) };
        let error = cpu.route(&[0.5; 64], 2, router, &spec, &mut routes, &mut scratch);
        assert!(matches!(error, Err(KernelError::Shape { .. })), "{spec:?}");
    }
    let biased = RouterWeights { matrix: router, bias: Some(&[0.0; 5]), chosen: None };
    let spec = RouterSpec::softmax(2);
    let error = cpu.route(&[0.5; 64], 2, biased, &spec, &mut routes, &mut scratch);
    assert!(matches!(error, Err(KernelError::Length { .. })));
    let error = cpu.route(&[0.5; 128], 1, integers, &spec, &mut routes, &mut scratch);
    assert!(matches!(error, Err(KernelError::NoProduct { .. })));
}

/// Scores, biases and groups as the definition has them, in double precision; experts by descending score.
fn definition(logits: &[f64], bias: Option<&[f32]>, spec: &RouterSpec) -> (Vec<u32>, Vec<f64>) {
    let most = logits.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let total: f64 = logits.iter().map(|z| (z - most).exp()).sum();
    let score = |z: &f64| match spec.score {
        RouterScore::Softmax => (z - most).exp() / total,
        RouterScore::Sigmoid => 1.0 / (1.0 + (-z).exp()),
        RouterScore::SqrtSoftplus => z.exp().ln_1p().sqrt(),
    };
    let p: Vec<f64> = logits.iter().map(score).collect();
    let s: Vec<f64> = (0..p.len()).map(|e| p[e] + bias.map_or(0.0, |bias| f64::from(bias[e]))).collect();
    let groups = spec.groups.unwrap_or(RouterGroups { count: 1, used: 1 });
    let size = p.len() / groups.count;
    let value = |group: usize| {
        let mut of: Vec<f64> = s[group * size..(group + 1) * size].to_vec();
        of.sort_by(|a, b| b.total_cmp(a));
        if spec.score != RouterScore::Softmax && spec.groups.is_some() { of[0] + of[1] } else { of[0] }
    };
    let mut order: Vec<usize> = (0..groups.count).collect();
    order.sort_by(|&a, &b| value(b).total_cmp(&value(a)));
    let open = &order[..groups.used];
    let mut experts: Vec<u32> =
        (0..p.len() as u32).filter(|&e| open.contains(&(e as usize / size))).collect();
    experts.sort_by(|&a, &b| s[b as usize].total_cmp(&s[a as usize]));
    experts.truncate(spec.used);
    let mut weights: Vec<f64> = experts.iter().map(|&e| p[e as usize]).collect();
    let sum: f64 = if spec.renormalize { weights.iter().sum() } else { 1.0 };
    weights.iter_mut().for_each(|w| *w = *w / sum * f64::from(spec.scale));
    (experts, weights)
}

#[test]
fn scores_biases_and_groups() {
    let (experts, cols, rows) = (24, 64, 40);
    let mut rng = Rng::new(11);
    let (x, matrix) = (rng.normals(rows * cols), rng.normals(experts * cols));
    let matrix: Vec<f32> = matrix.iter().map(|w| w * 0.2).collect();
    let bias: Vec<f32> = rng.normals(experts).iter().map(|b| 0.2 * b).collect();
    let data = bytes(&matrix, Format::F32);
    let matrix_view = Matrix::new(Format::F32, experts, cols, &data).unwrap();
    let mut differ = 0;
    for score in [RouterScore::Softmax, RouterScore::Sigmoid, RouterScore::SqrtSoftplus] {
        for groups in [None, Some((4, 2)), Some((12, 5)), Some((1, 1))] {
            for (bias, renormalize, scale) in [(None, false, 1.0), (Some(&bias[..]), true, 2.5)] {
                let groups = groups.map(|(count, used)| RouterGroups { count, used });
                let spec = RouterSpec { score, groups, renormalize, scale, ..RouterSpec::softmax(5) };
                let mut expected: Option<Routes> = None;
                for cpu in cpus() {
                    let mut routes = Routes::default();
                    let router = RouterWeights { matrix: matrix_view, bias, chosen: None };
                    cpu.route(&x, rows, router, &spec, &mut routes, &mut Scratch::default()).unwrap();
                    assert_eq!(*expected.get_or_insert_with(|| routes.clone()), routes, "{cpu:?}");
                }
                let routes = expected.unwrap();
                for (row, x) in x.chunks(cols).enumerate() {
                    let dot = |w: &[f32]| w.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
                    let logits: Vec<f64> = matrix.chunks(cols).map(dot).collect();
                    let (chosen, weights) = definition(&logits, bias, &spec);
                    let (range, plain) =
                        (row * 5..(row + 1) * 5, definition(&logits, None, &RouterSpec::softmax(5)));
                    assert_eq!(routes.experts[range.clone()], chosen, "{spec:?}, row {row}");
                    differ += usize::from(chosen != plain.0);
                    for (got, exact) in routes.weights[range].iter().zip(weights) {
                        assert!((f64::from(*got) - exact).abs() <= 2e-5 * exact, "{got} {exact}");
                    }
                }
            }
        }
    }
    assert!(differ > 100, "only {differ} rows are chosen otherwise than by the plain rule");
}

/// Values of the published router, of logits that are far from zero too.
#[test]
fn roots_of_softplus() {
    let logits = [-200.0, -30.0, -5.0, 0.0, 1.0, 25.0];
    let roots = [0.0, 3.059_023_2e-7, 0.081_947_2, 0.832_554_6, 1.145_976_3, 5.0];
    let data = bytes(&logits, Format::F32);
    let matrix = Matrix::new(Format::F32, 6, 1, &data).unwrap();
    let spec = RouterSpec {
        score: RouterScore::SqrtSoftplus,
        renormalize: false,
        scale: 1.0,
        ..RouterSpec::softmax(6)
    };
    for cpu in cpus() {
        let mut routes = Routes::default();
        cpu.route(&[1.0], 1, matrix, &spec, &mut routes, &mut Scratch::default()).unwrap();
        assert_eq!(routes.experts, [5, 4, 3, 2, 1, 0]);
        for (got, wanted) in routes.weights.iter().rev().zip(roots) {
            // Seven digits.
            assert!((got - wanted).abs() <= 6e-7 * wanted, "{got} {wanted}");
        }
        // Scores that are all zero are divided by something.
        let spec = RouterSpec { renormalize: true, ..spec };
        cpu.route(&[-1e4], 1, matrix, &RouterSpec { used: 2, ..spec }, &mut routes, &mut Scratch::default())
            .unwrap();
        assert!(routes.weights.iter().all(|weight| weight.is_finite()), "{:?}", routes.weights);
    }
}

/// Experts that somebody else has chosen get the weights of their own scores.
#[test]
fn chosen_experts_are_only_weighted() {
    let (experts, cols, rows, used) = (8, 32, 5, 3);
    let mut rng = Rng::new(12);
    let (x, matrix) = (rng.normals(rows * cols), rng.normals(experts * cols));
    let data = bytes(&matrix, Format::F32);
    let view = Matrix::new(Format::F32, experts, cols, &data).unwrap();
    let spec = RouterSpec { score: RouterScore::SqrtSoftplus, scale: 1.5, ..RouterSpec::softmax(used) };
    let cpu = cpus().remove(0);
    let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
    cpu.route(&x, rows, view, &spec, &mut routes, &mut scratch).unwrap();
    let best = routes.clone();
    let backwards: Vec<u32> = best.experts.chunks(used).flat_map(|row| row.iter().rev().copied()).collect();
    let router = RouterWeights { matrix: view, bias: None, chosen: Some(&backwards) };
    cpu.route(&x, rows, router, &spec, &mut routes, &mut scratch).unwrap();
    assert_eq!(routes.experts, backwards);
    for (there, back) in best.weights.chunks(used).zip(routes.weights.chunks(used)) {
        for (there, back) in there.iter().zip(back.iter().rev()) {
            assert!((there - back).abs() < 1e-6, "{there} {back}");
        }
    }
    for chosen in [&backwards[1..], &[experts as u32; 15][..]] {
        let router = RouterWeights { chosen: Some(chosen), ..router };
        assert!(cpu.route(&x, rows, router, &spec, &mut routes, &mut scratch).is_err());
    }
}
