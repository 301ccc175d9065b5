//! Attention with wide heads, with windows and with latents, and the products of heads, on a card: microseconds of each kernel, in graphs
//! of as many launches as a model has layers, each with memory of its own, so that none comes from the second-level cache.
//!
//! `cargo run --release -p bloomery-kernels --example cuda_latent_bench [f16 | q8_0]`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use bloomery_kernels::cpu::{KvType, Pairs, RopeSpec};
use bloomery_kernels::cuda::{
    Attend, AttendScratch, AttendTiles, Buffer, CudaError, Device, Gate, HeadWeights, KvCache, KvRows,
    LatentAppend, Launch, PerHead, Rope, RopeAngles, RopeAppend, Sight, Stream,
};

const LAYERS: usize = 27;
const PAGE: usize = 64;
/// Bytes of caches, about.
const ROOM: usize = 16 << 30;

/// Heads of a model's attention.
struct Model {
    name: &'static str,
    heads: usize,
    kv_heads: usize,
    key: usize,
    value: usize,
    /// Values that turn.
    turning: usize,
    window: Option<usize>,
}

const MODELS: [Model; 4] = [
    Model { name: "qwen3.6", heads: 16, kv_heads: 2, key: 256, value: 256, turning: 64, window: None },
    Model { name: "gemma3", heads: 8, kv_heads: 4, key: 256, value: 256, turning: 256, window: None },
    Model {
        name: "gemma3 local",
        heads: 8,
        kv_heads: 4,
        key: 256,
        value: 256,
        turning: 256,
        window: Some(1024),
    },
    Model { name: "v2-lite", heads: 16, kv_heads: 1, key: 576, value: 512, turning: 64, window: None },
];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let device = Device::open(0)?;
    println!("{:?}", device.info());
    let kind = match std::env::args().nth(1).as_deref() {
        Some("q8_0") => KvType::Q8_0,
        _ => KvType::F16,
    };
    println!("{:34} {:>5} {:>7} {:>9} {:>9} {:>8}", "kernel", "rows", "depth", "us", "MB", "GB/s");
    for model in &MODELS {
        for (rows, depth) in [(1, 6), (1, 4096), (1, 32_768), (8, 4096), (512, 512), (512, 4096)] {
            attention(&device, model, kind, rows, depth)?;
        }
    }
    for rows in [1, 8, 64, 512, 4096] {
        // Of V2-Lite: queries to products with latents, and latents to values.
        products(&device, "absorb", (512, 128, 64), rows)?;
        products(&device, "per head", (128, 512, 0), rows)?;
    }
    for rows in [1, 512, 4096] {
        gates(&device, 4096, rows)?;
    }
    Ok(())
}

/// One row of each of up to 8 sequences, or many of one.
fn attention(device: &Device, model: &Model, kind: KvType, rows: usize, depth: usize) -> Result<(), Failure> {
    let Model { name, heads, kv_heads, key, value, turning, window } = *model;
    let mut stream = device.stream()?;
    let shape = KvCache::new(kv_heads, key, value, kind)?;
    let sequences = if rows <= 8 { rows } else { 1 };
    let (each, stride) = (rows / sequences, depth.div_ceil(PAGE));
    let pages = sequences * stride;
    let table: Vec<u32> = (0..pages as u32).rev().collect();
    let sequence_of: Vec<u32> = (0..rows).map(|i| (i / each) as u32).collect();
    let position_of: Vec<u32> = (0..rows).map(|i| (depth - each + i % each) as u32).collect();
    let table = upload(&mut stream, &table)?.span();
    let positions = upload(&mut stream, &position_of)?.span();
    let places = upload(&mut stream, &sequence_of)?.span();
    let count = (ROOM / (pages * shape.page_bytes())).clamp(1, LAYERS);
    let layers = (0..count)
        .map(|_| {
            Ok(KvRows {
                shape,
                keys: device.alloc(pages * shape.key_page_bytes())?.span(),
                values: device.alloc(pages * shape.value_page_bytes())?.span(),
                table: table.clone(),
                stride,
                positions: positions.clone(),
                sequences: places.clone(),
            })
        })
        .collect::<Result<Vec<_>, CudaError>>()?;
    let latent = key != value;
    let angles = RopeAngles::new(&RopeSpec::new(Pairs::Norm, turning, 1e6), 40_960)?;
    let rope = Rope {
        pairs: angles.pairs,
        half: angles.half,
        first: if latent { value } else { 0 },
        low: upload(&mut stream, &angles.low)?.span(),
        high: upload(&mut stream, &angles.high)?.span(),
    };
    let q = upload(&mut stream, &noise(rows * heads * key))?.span();
    let k = upload(&mut stream, &noise(rows * kv_heads * key))?.span();
    let v = upload(&mut stream, &noise(rows * kv_heads * value))?.span();
    let gain = upload(&mut stream, &noise(value))?.span();
    let out = device.alloc(rows * heads * value)?.span();
    let scratch = AttendScratch {
        partials: device.alloc(AttendScratch::floats(&shape, heads, rows))?.span(),
        tickets: device.alloc(AttendScratch::tickets(&shape, heads, rows))?.span(),
    };
    let tiling = AttendTiles::new(device.info(), &shape, heads)?;
    let tiles = upload(&mut stream, &tiling.list(&position_of, &sequence_of))?.span();
    let (mut appends, mut attends) = (Vec::new(), Vec::new());
    for layer in 0..LAYERS {
        let cache = layers[layer % count].clone();
        appends.push(if latent {
            let (q, kv, rope, cache) = (q.clone(), k.clone(), Some(rope.clone()), cache.clone());
            LatentAppend { q, kv, rows, heads, norm: (gain.clone(), 1e-6), rope, cache }
                .launch(device.info())?
        } else {
            let (q, k, v, rope, cache) = (q.clone(), k.clone(), v.clone(), Some(rope.clone()), cache.clone());
            let norm = Some((gain.clone(), 1e-6));
            let (q_norm, k_norm) = (norm.clone(), norm);
            RopeAppend { q, k, v, rows, heads, q_norm, k_norm, rope, cache }.launch(device.info())?
        });
        let attend = Attend {
            q: q.clone(),
            cache,
            out: out.clone(),
            rows,
            heads,
            scale: (key as f32).sqrt().recip(),
            window,
            sight: Sight::All,
            sums: None,
            scratch: scratch.clone(),
            tiles: Some(tiles.clone()),
        };
        attends.extend(attend.launches(device.info())?);
    }
    let bytes = appends[0].bytes() as f64;
    report(&mut stream, &format!("{name}: append"), (rows, depth), &appends, bytes)?;
    let seen = depth.min(window.unwrap_or(depth));
    let bytes = (sequences * seen * shape.page_bytes() / PAGE) as f64;
    let title = format!("{name}: {}", attends[0].name());
    let micros = report(&mut stream, &title, (rows, depth), &attends, bytes)?;
    if rows > 8 {
        let pairs = (0..rows).map(|i| (depth - rows + i + 1).min(seen) as f64).sum::<f64>();
        println!("{:34} {:.0} TFLOP/s", "", pairs * (2 * heads * (key + value)) as f64 / micros / 1e6);
    }
    Ok(())
}

fn products(
    device: &Device,
    name: &str,
    (outs, cols, tail): (usize, usize, usize),
    rows: usize,
) -> Result<(), Failure> {
    const HEADS: usize = 16;
    let mut stream = device.stream()?;
    let x = upload(&mut stream, &noise(rows * HEADS * (cols + tail)))?.span();
    let out = device.alloc(rows * HEADS * (outs + tail))?.span();
    let packed = HeadWeights::pack(HEADS, outs, cols, &noise(HEADS * outs * cols))?;
    let mut launches = Vec::new();
    for _ in 0..LAYERS {
        let weights = HeadWeights::new(HEADS, outs, cols, upload(&mut stream, &packed)?.span())?;
        let op = PerHead { x: x.clone(), weights, out: out.clone(), rows, tail };
        launches.push(op.launch(device.info())?);
    }
    let bytes = launches[0].bytes() as f64;
    let micros = report(&mut stream, name, (rows, 0), &launches, bytes)?;
    println!("{:34} {:.1} TFLOP/s", "", (2 * rows * HEADS * outs * cols) as f64 / micros / 1e6);
    Ok(())
}

fn gates(device: &Device, width: usize, rows: usize) -> Result<(), Failure> {
    let mut stream = device.stream()?;
    let (x, gate) = (upload(&mut stream, &noise(rows * width))?, upload(&mut stream, &noise(rows * width))?);
    let one = || Gate { x: x.span(), gate: gate.span() }.launch(device.info());
    let launches = (0..LAYERS).map(|_| one()).collect::<Result<Vec<_>, _>>()?;
    let bytes = launches[0].bytes() as f64;
    report(&mut stream, "gate", (rows, 0), &launches, bytes)?;
    Ok(())
}

/// Microseconds of a layer, of a graph of all of them.
fn report(
    stream: &mut Stream,
    name: &str,
    (rows, depth): (usize, usize),
    launches: &[Launch],
    bytes: f64,
) -> Result<f64, Failure> {
    let (registers, local) = launches[0].resources(stream.device())?;
    let mut graph = stream.capture(|stream| launches.iter().try_for_each(|launch| stream.launch(launch)))?;
    let mut best = f64::INFINITY;
    for _ in 0..8 {
        let start = stream.event()?;
        graph.launch()?;
        let end = stream.event()?;
        best = best.min(end.micros_since(&start)? / LAYERS as f64);
    }
    println!(
        "{name:34} {rows:5} {depth:7} {best:9.2} {:9.2} {:8.0}   {registers} registers, {local} local, {} launches a layer, {:?}",
        bytes / 1e6,
        bytes / best / 1e3,
        launches.len() / LAYERS,
        launches[0].grid(),
    );
    Ok(best)
}

fn noise(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919) % 1999) as f32 / 999.5 - 1.0).collect()
}

fn upload<T: bytemuck::Pod>(stream: &mut Stream, values: &[T]) -> Result<Buffer<T>, CudaError> {
    let buffer = stream.device().alloc(values.len())?;
    stream.upload(values, &buffer.span())?;
    Ok(buffer)
}
