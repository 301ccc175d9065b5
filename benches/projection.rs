//! Matrix products of one row and of a chunk of rows, on one thread. The weights stay in the cache: this is the speed of the
//! kernels, not that of the memory. Beside them the product of floats by ndarray, which is what weights that are dequantised
//! once would be multiplied with; dequantising is not counted, and its weights are seven times those of Q4_K.

use std::num::NonZeroUsize;

use bloomery_benches::{Criterion, OURS, criterion, values};
use bloomery_gguf::Format;
use bloomery_gguf::quantize::quantize;
use bloomery_kernels::cpu::{Cpu, Isa, Matrix, Numerics, Part, Pool, Scratch};
use criterion::{BenchmarkId, Throughput, criterion_group, criterion_main};
use ndarray::Array2;
use ndarray::linalg::general_mat_mul;

const ROWS: usize = 1024;
const COLS: usize = 2048;

const FORMATS: [Format; 5] = [Format::Q4_K, Format::Q6_K, Format::Q8_0, Format::BF16, Format::F32];

fn weights(format: Format) -> Vec<u8> {
    let values = values(ROWS * COLS);
    match format {
        Format::F32 => values.into_iter().flat_map(f32::to_le_bytes).collect(),
        Format::BF16 => {
            values.into_iter().flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
        }
        _ => quantize(format, &values).expect("the values are finite and the rows whole blocks"),
    }
}

fn ours(criterion: &mut Criterion, tokens: usize) {
    let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
    let mut group = criterion.benchmark_group(format!("projection of {}", name(tokens)));
    group.throughput(Throughput::Elements((tokens * ROWS * COLS) as u64));
    for format in FORMATS {
        let weights = weights(format);
        let weight = Matrix::new(format, ROWS, COLS, &weights).expect("the bytes are those of the shape");
        let (x, mut out, mut scratch) = (values(tokens * COLS), vec![0.0; tokens * ROWS], Scratch::default());
        group.bench_function(BenchmarkId::new(OURS, format), |bencher| {
            bencher.iter(|| {
                let part = Part { weight, bias: None, out: &mut out, accumulate: false };
                cpu.project(&x, tokens, None, &mut [part], &mut scratch).expect("the shapes agree");
            });
        });
    }
    let weight = Array2::from_shape_vec((ROWS, COLS), values(ROWS * COLS)).expect("as many as the shape has");
    let x = Array2::from_shape_vec((tokens, COLS), values(tokens * COLS)).expect("as many as the shape has");
    let mut out = Array2::zeros((tokens, ROWS));
    group.bench_function(BenchmarkId::new("ndarray", Format::F32), |bencher| {
        bencher.iter(|| general_mat_mul(1.0, &x, &weight.t(), 0.0, &mut out));
    });
    group.finish();
}

fn name(tokens: usize) -> String {
    if tokens == 1 { "one row".to_owned() } else { format!("{tokens} rows") }
}

fn projection(criterion: &mut Criterion) {
    [1, 64].into_iter().for_each(|tokens| ours(criterion, tokens));
}

criterion_group!(name = benches; config = criterion(); targets = projection);
criterion_main!(benches);
