//! Attention of 32 query heads over 4 KV heads of 128: decode at depth 4096 and a prompt chunk of 512 rows at 4096.
//!
//! `cargo run --release -p bloomery-kernels --example attn_bench [threads]`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::num::NonZeroUsize;
use std::time::Instant;

use bloomery_kernels::cpu::{
    Aligned, AttentionScratch, AttentionSpec, Cpu, HeadSpec, Isa, KvLayerMut, KvShape, KvType, Numerics,
    PAGE, Pairs, Pool, RopeSpec, RopeTable, RowSlot, RowView,
};

const HEADS: usize = 32;
const KV_HEADS: usize = 4;
const DIM: usize = 128;
/// Layers with their own cache, so that decode reads memory and not the processor's cache.
const LAYERS: usize = 24;

type Error = Box<dyn std::error::Error>;

/// Least seconds of one call of `body` over `rounds` calls.
fn least(rounds: usize, mut body: impl FnMut(usize) -> Result<(), Error>) -> Result<f64, Error> {
    let mut best = f64::INFINITY;
    for round in 0..rounds {
        let start = Instant::now();
        body(round)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn noise(count: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn bench(cpu: &Cpu, kind: KvType) -> Result<(), Error> {
    let depth = 4096;
    let shape = KvShape::new(KV_HEADS, (DIM, kind), (DIM, kind))?;
    let pages: Vec<u32> = (0..(depth / PAGE) as u32).collect();
    let slots: Vec<RowSlot> =
        (0..depth).map(|p| RowSlot { page: pages[p / PAGE], offset: (p % PAGE) as u32 }).collect();
    let (mut keys, mut values) = (
        Aligned::zeroed(LAYERS * pages.len() * shape.key_page_bytes()),
        Aligned::zeroed(LAYERS * pages.len() * shape.value_page_bytes()),
    );
    let (keys, values) = (keys.bytes_mut(), values.bytes_mut());
    let (per_layer_k, per_layer_v) = (keys.len() / LAYERS, values.len() / LAYERS);
    let v = noise(depth * KV_HEADS * DIM);
    let mut k = v.clone();
    let mut layers: Vec<KvLayerMut<'_>> = keys
        .chunks_exact_mut(per_layer_k)
        .zip(values.chunks_exact_mut(per_layer_v))
        .map(|(keys, values)| KvLayerMut::new(shape, keys, values))
        .collect::<Result<_, _>>()?;
    let fill = least(LAYERS, |layer| {
        Ok(cpu.rope_append(&mut [], &mut k, &v, &HeadSpec::default(), &mut layers[layer], &slots)?)
    })?;
    let spec = AttentionSpec::new(HEADS, (DIM as f32).sqrt().recip());
    let mut scratch = AttentionScratch::default();
    let q = noise(512 * HEADS * DIM);
    let mut out = vec![0.0; q.len()];
    let width = HEADS * DIM;
    let row = [RowView { pages: &pages, len: depth as u32, mask: None }];
    let decode = least(20 * LAYERS, |round| {
        let cache = layers[round % LAYERS].view();
        Ok(cpu.attention(&q[..width], &spec, &cache, &row, &mut out[..width], &mut scratch)?)
    })?;
    let rows: Vec<RowView<'_>> =
        (0..512).map(|i| RowView { pages: &pages, len: (depth - 511 + i) as u32, mask: None }).collect();
    let prefill = least(3, |round| {
        let cache = layers[round % LAYERS].view();
        Ok(cpu.attention(&q, &spec, &cache, &rows, &mut out, &mut scratch)?)
    })?;
    let bytes = (per_layer_k + per_layer_v) as f64;
    let products = |positions: f64| 4.0 * positions * (HEADS * DIM) as f64;
    let seen = rows.iter().map(|row| f64::from(row.len)).sum();
    println!(
        "{:?} {kind:?}: decode {:.0} us, {:.1} GB/s, {:.1} GFLOP/s | prefill 512 {:.1} ms, {:.1} GFLOP/s | append {:.0} ns a row",
        cpu.isa(),
        decode * 1e6,
        bytes / decode / 1e9,
        products(depth as f64) / decode / 1e9,
        prefill * 1e3,
        products(seen) / prefill / 1e9,
        fill / depth as f64 * 1e9,
    );
    Ok(())
}

/// What a decode step does beside attention and products.
fn small(cpu: &Cpu) -> Result<(), Error> {
    let shape = KvShape::new(KV_HEADS, (DIM, KvType::F16), (DIM, KvType::F16))?;
    let (mut keys, mut values) =
        (vec![0; 64 * shape.key_page_bytes()], vec![0; 64 * shape.value_page_bytes()]);
    let mut cache = KvLayerMut::new(shape, &mut keys, &mut values)?;
    let gain = vec![1.0; 2048];
    let spec = RopeSpec::new(Pairs::Neox, DIM, 1e7);
    let table = RopeTable::new(&spec, &[4000])?;
    let norm = |width: usize| bloomery_kernels::cpu::Norm { gain: &gain[..width], eps: 1e-6 };
    let heads = HeadSpec::rope(&table).with_norms(norm(DIM), norm(DIM));
    let (mut q, mut k) = (noise(HEADS * DIM), noise(KV_HEADS * DIM));
    let v = k.clone();
    let append = least(2000, |round| {
        let slot = [RowSlot { page: (round * 7 % 64) as u32, offset: (round % 64) as u32 }];
        Ok(cpu.rope_append(&mut q, &mut k, &v, &heads, &mut cache, &slot)?)
    })?;
    let table_time = least(2000, |round| {
        RopeTable::new(&spec, &[round as u32])?;
        Ok(())
    })?;
    let (x, mut y) = (noise(2048), vec![0.0; 2048]);
    let rms = least(2000, |_| Ok(cpu.rms_norm(&x, 1, norm(2048), &mut y)?))?;
    println!(
        "{:?}: rope_append of a row {:.2} us, rope table of a row {:.2} us, rms_norm of 2048 {:.2} us",
        cpu.isa(),
        append * 1e6,
        table_time * 1e6,
        rms * 1e6
    );
    Ok(())
}

fn main() -> Result<(), Error> {
    let threads = std::env::args().nth(1).map(|arg| arg.parse()).transpose()?;
    let threads = threads.or(std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    println!("{threads} threads");
    for isa in Isa::available().filter(|isa| *isa != Isa::Scalar) {
        let cpu = Cpu::new(Pool::new(threads), isa, Numerics::Fast);
        for kind in [KvType::F32, KvType::F16, KvType::Q8_0] {
            bench(&cpu, kind)?;
        }
        small(&cpu)?;
    }
    Ok(())
}
