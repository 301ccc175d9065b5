//! Quantised matrix products of one row and of a chunk of rows, on one thread. The weights (2 to 4 MB) stay in the cache:
//! this is the speed of the kernels, not that of the memory.

use std::num::NonZeroUsize;

use bloomery_benches::values;
use bloomery_gguf::Format;
use bloomery_gguf::quantize::quantize;
use bloomery_kernels::cpu::{Cpu, Isa, Matrix, Numerics, Part, Pool, Scratch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const ROWS: usize = 2048;
const COLS: usize = 2048;

fn projection(criterion: &mut Criterion) {
    let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
    for format in [Format::Q4_K, Format::Q6_K, Format::Q8_0] {
        let weights =
            quantize(format, &values(ROWS * COLS)).expect("the values are finite and the rows whole blocks");
        let weight = Matrix::new(format, ROWS, COLS, &weights).expect("the bytes are those of the shape");
        for tokens in [1, 64] {
            let (x, mut out, mut scratch) =
                (values(tokens * COLS), vec![0.0; tokens * ROWS], Scratch::default());
            let mut group = criterion.benchmark_group(format!("{ROWS} x {COLS} {}", format.name()));
            group.throughput(match tokens {
                1 => Throughput::Bytes(weights.len() as u64),
                _ => Throughput::Elements(tokens as u64),
            });
            group.bench_function(format!("{tokens} rows"), |bencher| {
                bencher.iter(|| {
                    let part = Part { weight, bias: None, out: &mut out, accumulate: false };
                    cpu.project(&x, tokens, None, &mut [part], &mut scratch).expect("the shapes agree");
                });
            });
            group.finish();
        }
    }
}

criterion_group!(benches, projection);
criterion_main!(benches);
