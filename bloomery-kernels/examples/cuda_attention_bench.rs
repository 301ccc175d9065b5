//! Rotation, append and attention of Qwen3-30B-A3B on a card: microseconds of each kernel, in graphs of as many launches as
//! the model has layers, each with a cache of its own, so that none come from the second-level cache.
//!
//! `cargo run --release -p bloomery-kernels --example cuda_attention_bench [f16 | q8_0]`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use bloomery_kernels::cpu::{KvType, Pairs, RopeSpec};
use bloomery_kernels::cuda::{
    Attend, AttendScratch, AttendTiles, Buffer, CudaError, Device, KvCache, KvRows, Launch, Rope, RopeAngles,
    RopeAppend, Sight, Span, Stream,
};

const LAYERS: usize = 48;
const HEADS: usize = 32;
const KV_HEADS: usize = 4;
const DIM: usize = 128;
const PAGE: usize = 64;
/// Bytes of caches, about.
const ROOM: usize = 24 << 30;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(0)?;
    println!("{:?}", device.info());
    let kind = match std::env::args().nth(1).as_deref() {
        Some("q8_0") => KvType::Q8_0,
        _ => KvType::F16,
    };
    println!("{:24} {:>5} {:>7} {:>9} {:>9} {:>8}", "kernel", "rows", "depth", "us", "MB", "GB/s");
    for depth in [16, 512, 4096, 32_768] {
        for rows in [1, 8, 32] {
            let mut bench = Bench::new(&device, kind, rows, rows, depth)?;
            bench.rope(depth)?;
            bench.attend(depth)?;
        }
    }
    for (rows, depth) in [(512, 512), (512, 4096), (4096, 4096)] {
        let mut bench = Bench::new(&device, kind, 1, rows, depth)?;
        bench.rope(depth)?;
        let micros = bench.attend(depth)?;
        // Products of queries and keys and of weights and values, below the diagonal.
        let pairs = (rows * depth - rows * (rows - 1) / 2) as f64;
        println!("{:24} {:.0} TFLOP/s", "", pairs * (4 * HEADS * DIM) as f64 / micros / 1e6);
    }
    Ok(())
}

struct Bench {
    stream: Stream,
    layers: Vec<KvRows>,
    rows: usize,
    q: Buffer<f32>,
    k: Buffer<f32>,
    v: Buffer<f32>,
    out: Buffer<f32>,
    gain: Buffer<f32>,
    rope: Rope,
    scratch: AttendScratch,
    tiles: Span<u32>,
}

impl Bench {
    /// `rows` rows that end `sequences` sequences of `depth` positions.
    fn new(
        device: &Device,
        kind: KvType,
        sequences: usize,
        rows: usize,
        depth: usize,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut stream = device.stream()?;
        let shape = KvCache::new(KV_HEADS, DIM, DIM, kind)?;
        let stride = depth.div_ceil(PAGE);
        let pages = sequences * stride;
        let (each, numbers) = (rows / sequences, 0..pages as u32);
        // Neighbours are apart.
        let step = (0..).map(|i| pages / 3 + 1 + i).find(|step| gcd(*step, pages) == 1).unwrap_or(1);
        let table: Vec<u32> = numbers.map(|i| ((i as usize * step) % pages) as u32).collect();
        let row = |i: usize| ((i / each) as u32, (depth - each + i % each) as u32);
        let sequence_of: Vec<u32> = (0..rows).map(|i| row(i).0).collect();
        let position_of: Vec<u32> = (0..rows).map(|i| row(i).1).collect();
        let table = upload(&mut stream, &table)?.span();
        let positions = upload(&mut stream, &position_of)?.span();
        let places = upload(&mut stream, &sequence_of)?.span();
        let caches = (ROOM / (pages * shape.page_bytes())).clamp(1, LAYERS);
        let layers = (0..caches)
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
            .collect::<Result<_, CudaError>>()?;
        let angles = RopeAngles::new(&RopeSpec::new(Pairs::Neox, DIM, 1e6), 40_960)?;
        let rope = Rope {
            pairs: angles.pairs,
            half: angles.half,
            first: 0,
            low: upload(&mut stream, &angles.low)?.span(),
            high: upload(&mut stream, &angles.high)?.span(),
        };
        let tiling = AttendTiles::new(device.info(), &shape, HEADS)?;
        let noise =
            |len: usize| -> Vec<f32> { (0..len).map(|i| ((i * 7919) % 1999) as f32 / 999.5 - 1.0).collect() };
        Ok(Self {
            q: upload(&mut stream, &noise(rows * HEADS * DIM))?,
            k: upload(&mut stream, &noise(rows * KV_HEADS * DIM))?,
            v: upload(&mut stream, &noise(rows * KV_HEADS * DIM))?,
            out: device.alloc(rows * HEADS * DIM)?,
            gain: upload(&mut stream, &noise(DIM))?,
            scratch: AttendScratch {
                partials: device.alloc(AttendScratch::floats(&shape, HEADS, rows))?.span(),
                tickets: device.alloc(AttendScratch::tickets(&shape, HEADS, rows))?.span(),
            },
            tiles: upload(&mut stream, &tiling.list(&position_of, &sequence_of))?.span(),
            layers,
            rows,
            rope,
            stream,
        })
    }

    fn rope(&mut self, depth: usize) -> Result<(), CudaError> {
        let launches = (0..LAYERS).map(|layer| {
            let op = RopeAppend {
                q: self.q.span(),
                k: self.k.span(),
                v: self.v.span(),
                rows: self.rows,
                heads: HEADS,
                q_norm: Some((self.gain.span(), 1e-6)),
                k_norm: Some((self.gain.span(), 1e-6)),
                rope: Some(self.rope.clone()),
                cache: self.layers[layer % self.layers.len()].clone(),
            };
            op.launch(self.stream.device().info())
        });
        let launches = launches.collect::<Result<Vec<_>, _>>()?;
        let bytes = launches[0].bytes() as f64;
        self.report("norms, rope, append", depth, &launches, bytes).map(|_| ())
    }

    fn attend(&mut self, depth: usize) -> Result<f64, CudaError> {
        let launches = (0..LAYERS).map(|layer| {
            let op = Attend {
                q: self.q.span(),
                cache: self.layers[layer % self.layers.len()].clone(),
                out: self.out.span(),
                rows: self.rows,
                heads: HEADS,
                scale: (DIM as f32).sqrt().recip(),
                window: None,
                sight: Sight::All,
                sums: None,
                scratch: self.scratch.clone(),
                tiles: Some(self.tiles.clone()),
            };
            Ok(op.launches(self.stream.device().info())?.remove(0))
        });
        let launches = launches.collect::<Result<Vec<_>, CudaError>>()?;
        let cache = &self.layers[0];
        let lines = if self.rows <= Attend::FEW { self.rows } else { 1 };
        let bytes = lines * depth * cache.shape.page_bytes() / PAGE;
        let name = launches[0].name();
        println!(
            "{:?} registers, local bytes: {:?}",
            launches[0],
            launches[0].resources(self.stream.device())?
        );
        self.report(name, depth, &launches, bytes as f64)
    }

    /// Microseconds of a launch, of a graph of all of them.
    fn report(
        &mut self,
        name: &str,
        depth: usize,
        launches: &[Launch],
        bytes: f64,
    ) -> Result<f64, CudaError> {
        let mut graph =
            self.stream.capture(|stream| launches.iter().try_for_each(|launch| stream.launch(launch)))?;
        let mut best = f64::INFINITY;
        for _ in 0..8 {
            let start = self.stream.event()?;
            graph.launch()?;
            let end = self.stream.event()?;
            best = best.min(end.micros_since(&start)? / launches.len() as f64);
        }
        println!(
            "{name:24} {:5} {depth:7} {best:9.2} {:9.2} {:8.0}",
            self.rows,
            bytes / 1e6,
            bytes / best / 1e3
        );
        Ok(best)
    }
}

fn upload<T: bytemuck::Pod>(stream: &mut Stream, values: &[T]) -> Result<Buffer<T>, CudaError> {
    let buffer = stream.device().alloc(values.len())?;
    stream.upload(values, &buffer.span())?;
    Ok(buffer)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
