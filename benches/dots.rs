//! Dot products of weight rows with one activation row, every format on every instruction set, out of the cache. Formats
//! without an integer kernel are dequantised a row at a time; AMX has tiles for many rows and takes AVX-512's kernels here.

use bloomery_benches::{Criterion, criterion, ids, values};
use bloomery_gguf::Format;
use bloomery_kernels::cpu::dots::{Input, Pick, dots, form, supports};
use bloomery_kernels::cpu::{Isa, Matrix, Quantized};
use criterion::{BenchmarkId, Throughput, criterion_group, criterion_main};

/// 128 K weights: the largest format has 1 MB of them, which the second-level cache holds.
const ROWS: usize = 64;
const COLS: usize = 2048;

/// Blocks of any bits: products of integers take as long whatever they are. Floats are numbers, since subnormal ones are slow.
fn weights(format: Format) -> Vec<u8> {
    let count = ROWS * COLS;
    match format {
        Format::F64 => values(count).into_iter().flat_map(|value| f64::from(value).to_le_bytes()).collect(),
        Format::F32 => values(count).into_iter().flat_map(f32::to_le_bytes).collect(),
        // An exponent in the middle of the range, for F16 and BF16 alike.
        Format::F16 | Format::BF16 => {
            ids(count, 1 << 10).into_iter().flat_map(|bits| (0x3800 | bits as u16).to_le_bytes()).collect()
        }
        _ => {
            let bytes = count / format.block_len() * format.block_bytes();
            // A scale of NVFP4 has no sign.
            let most = if format == Format::NVFP4 { 128 } else { 256 };
            let mut bytes: Vec<u8> = ids(bytes, most).into_iter().map(|byte| byte as u8).collect();
            if format == Format::MXFP4 {
                // Exponents of which none makes a subnormal scale.
                bytes.chunks_mut(format.block_bytes()).for_each(|block| block[0] = 112 + block[0] % 16);
            }
            bytes
        }
    }
}

fn all(criterion: &mut Criterion) {
    let x = values(COLS);
    let mut group = criterion.benchmark_group("dots");
    group.throughput(Throughput::Elements((ROWS * COLS) as u64));
    for format in Format::all().filter(|format| supports(*format)) {
        let bytes = weights(format);
        let matrix = Matrix::new(format, ROWS, COLS, &bytes).expect("the bytes are those of the shape");
        let mut rounded = Quantized::default();
        let input = match form(format) {
            Some(form) => {
                rounded.fill(Isa::detect(), &x, 1, COLS, form);
                Input::Quantized(&rounded)
            }
            None => Input::Floats(&x),
        };
        let mut out = vec![0.0; ROWS];
        for isa in Isa::available().filter(|isa| *isa != Isa::Amx) {
            group.bench_function(BenchmarkId::new(format!("{isa:?}"), format), |bencher| {
                bencher.iter(|| dots(isa, &matrix, 0..ROWS, input, Pick::Range(0..1), &mut out, ROWS));
            });
        }
    }
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = all);
criterion_main!(benches);
