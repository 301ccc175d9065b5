//! Narrow products of many rows.

use bloomery_gguf::{Format, dequantize};

use super::super::Narrow;
use super::super::testing::places;
use crate::cpu::testing::{Rng, bits, weights};

#[test]
fn narrow_products_are_those_of_double_precision() {
    let mut place = places().remove(0);
    for (rows, cols, outputs) in [(33, 64, [4, 4]), (70, 260, [33, 1]), (130, 96, [65, 32])] {
        for format in [Format::F32, Format::BF16] {
            let mut rng = Rng::new((rows * cols) as u64);
            let (x, gain) = (rng.normals(rows * cols), rng.normals(cols));
            let data = outputs.map(|count| weights(format, count * cols, 3 + count as u64));
            let spans = (place.buffer(&x).span(), place.buffer(&gain).span());
            let outs = outputs.map(|count| place.poison::<f32>(rows * count));
            let parts =
                [0, 1].map(|i| (place.weight(format, outputs[i], cols, &data[i]), outs[i].span())).into();
            let scratch = place.poison::<f32>(rows);
            let op = Narrow { x: spans.0, norm: (spans.1, 1e-6), parts, scratch: scratch.span() };
            let launches = op.launches(place.info()).unwrap();
            launches.iter().for_each(|launch| place.run(launch));
            for i in 0..2 {
                let mut matrix = vec![0.0; outputs[i] * cols];
                dequantize(format, &data[i], &mut matrix).unwrap();
                let found = place.read(&outs[i]);
                for (row, x) in x.chunks(cols).enumerate() {
                    let square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / cols as f64;
                    let inverse = 1.0 / (square + 1e-6).sqrt();
                    for (output, w) in matrix.chunks(cols).enumerate() {
                        let terms = x.iter().zip(&gain).zip(w);
                        let terms =
                            terms.map(|((&x, &g), &w)| f64::from(x) * f64::from(g) * f64::from(w) * inverse);
                        let (exact, size) =
                            terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                        // Chains of 8, trees of 3 and a sum of slabs.
                        let bound = size * (16.0 + cols as f64 / 64.0) * f64::from(f32::EPSILON);
                        let got = f64::from(found[row * outputs[i] + output]);
                        assert!(
                            (got - exact).abs() <= bound,
                            "{format} row {row} output {output}: {got} {exact}"
                        );
                    }
                }
            }
            // A row has the bits that it has in other company.
            let half = rows / 2;
            let fewer = Narrow {
                x: op.x.slice(half * cols..rows * cols).unwrap(),
                parts: Vec::new(),
                scratch: scratch.slice(0..rows - half).unwrap(),
                ..op.clone()
            };
            let again = place.poison::<f32>((rows - half) * outputs[0]);
            let fewer = Narrow { parts: vec![(op.parts[0].0.clone(), again.span())], ..fewer };
            fewer.launches(place.info()).unwrap().iter().for_each(|launch| place.run(launch));
            assert_eq!(bits(&place.read(&again)), bits(&place.read(&outs[0])[half * outputs[0]..]));
        }
    }
}
