//! Rounding a row of activations to int8 blocks, which happens once before a product with quantised weights.

use bloomery_benches::{Criterion, criterion, values};
use bloomery_kernels::cpu::{Form, Isa, Quantized};
use criterion::{BenchmarkId, Throughput, criterion_group, criterion_main};

const COLS: usize = 4096;

fn rounding(criterion: &mut Criterion) {
    let x = values(COLS);
    let mut rounded = Quantized::default();
    let mut group = criterion.benchmark_group("rounding");
    group.throughput(Throughput::Elements(COLS as u64));
    for (form, name) in [(Form::Q8x32, "blocks of 32"), (Form::Q8x256, "blocks of 256")] {
        for isa in Isa::available().filter(|isa| *isa != Isa::Amx) {
            group.bench_function(BenchmarkId::new(format!("{isa:?}"), name), |bencher| {
                bencher.iter(|| rounded.fill(isa, &x, 1, COLS, form));
            });
        }
    }
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = rounding);
criterion_main!(benches);
