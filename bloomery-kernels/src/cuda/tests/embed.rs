//! Rows of the token table are the CPU's, bit for bit.

use bloomery_gguf::Format;

use super::super::testing::places;
use super::super::{CudaError, Embed, Weight};
use crate::cpu::testing::{Rng, bits, weights};
use crate::cpu::{Cpu, Isa, Matrix, Numerics, Pool};

#[test]
fn every_format() {
    let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
    for mut place in places() {
        for format in Format::all() {
            let (rows, cols) = (23, if format.block_len() == 1 { 100 } else { 512 });
            if matches!(format, Format::I8 | Format::I16 | Format::I32 | Format::I64) {
                let data = place.buffer(&vec![0_u8; rows * cols * format.block_bytes()]);
                let (ids, out) = (place.buffer(&[0_u32]), place.poison::<f32>(cols));
                let table = Weight::new(format, rows, cols, data.span()).unwrap();
                let error = Embed { table, ids: ids.span(), scale: 1.0, copies: 1, out: out.span() }
                    .launch(place.info())
                    .unwrap_err();
                assert!(matches!(error, CudaError::NoProduct { .. }), "{error}");
                continue;
            }
            let data = match format {
                Format::F64 => Rng::new(3)
                    .normals(rows * cols)
                    .iter()
                    .flat_map(|&x| f64::from(x).to_le_bytes())
                    .collect(),
                // Scales that are numbers: those of random bytes may not be.
                Format::NVFP4 => {
                    weights(format, rows * cols, 3).into_iter().map(|byte| byte & 0x77).collect()
                }
                _ => weights(format, rows * cols, 3),
            };
            let mut rng = Rng::new(5);
            // Half of the formats scaled.
            let scale = if format.id() % 2 == 0 { 1.0 } else { 6.5 };
            let ids: Vec<u32> = (0..9).map(|_| rng.below(rows) as u32).collect();
            let mut expected = vec![0.0; ids.len() * cols];
            cpu.embed(Matrix::new(format, rows, cols, &data).unwrap(), &ids, &mut expected).unwrap();
            expected.iter_mut().for_each(|value| *value *= scale);
            let table = Weight::new(format, rows, cols, place.buffer(&data).span()).unwrap();
            // The last one is not in the table.
            let with_bad: Vec<u32> = ids.iter().copied().chain([rows as u32]).collect();
            expected.resize(with_bad.len() * cols, 0.0);
            // And every row twice in some.
            let copies = 1 + format.id() as usize % 2;
            let expected: Vec<f32> =
                expected.chunks(cols).flat_map(|row| vec![row; copies]).flatten().copied().collect();
            let (ids, out) = (place.buffer(&with_bad), place.poison::<f32>(expected.len()));
            let embed = Embed { table, ids: ids.span(), scale, copies, out: out.span() };
            let none = Embed { copies: 0, ..embed.clone() }.launch(place.info()).unwrap_err();
            assert_eq!(none.to_string(), "embed: copies is 0, must be 1 to 65536");
            let launch = embed.launch(place.info()).unwrap();
            place.run(&launch);
            let plain = |values: Vec<f32>| -> Vec<u32> {
                values.iter().map(|v| if v.is_nan() { 1 } else { bits(&[*v])[0] }).collect()
            };
            assert_eq!(plain(place.read(&out)), plain(expected), "{format} on {}", place.info().name);
        }
    }
}
