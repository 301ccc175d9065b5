//! Routing, grouping and candidates on a card: time of each op, in graphs of many launches, of which each reads other weights,
//! so that none come from the second-level cache where a model's would not.
//!
//! `cargo run --release -p bloomery-kernels --example route_bench`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use bloomery_gguf::Format;
use bloomery_kernels::cpu::RouterSpec;
use bloomery_kernels::cuda::{
    Candidates, CudaError, Device, DeviceInfo, Group, Launch, Route, RouteNorm, Scores, Span, Stream, Take,
    Tiles, Weight, holders,
};

const LAYERS: usize = 48;
const HIDDEN: usize = 2048;
const EXPERTS: usize = 128;
const USED: usize = 8;
const VOCAB: usize = 151_936;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(0)?;
    println!("{:?}", device.info());
    println!("{:?}", holders(&device));
    let mut bench = Bench { stream: device.stream()?, info: device.info().clone(), random: 1 };
    for (experts, hidden, format) in [
        (EXPERTS, HIDDEN, Format::F32),
        (EXPERTS, HIDDEN, Format::BF16),
        (EXPERTS, 4096, Format::F32),
        (512, HIDDEN, Format::F32),
        (8, 4096, Format::F32),
    ] {
        for rows in [1, 2, 4, 8, 16, 32, 33, 128, 512, 2048, 4096] {
            bench.route(rows, experts, hidden, format)?;
        }
    }
    for tokens in [32, 256, 512, 2048, 4096, 8192] {
        bench.group(tokens)?;
    }
    for rows in [1, 32] {
        bench.take(rows)?;
        for k in [1, 20, 40, 128] {
            bench.candidates(rows, k)?;
        }
    }
    Ok(())
}

struct Bench {
    stream: Stream,
    info: DeviceInfo,
    random: u64,
}

impl Bench {
    fn next(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// About normal.
    fn normals(&mut self, len: usize) -> Result<Span<f32>, CudaError> {
        let unit = |bench: &mut Self| (bench.next() % 65_536) as f32 / 65_536.0 - 0.5;
        let values: Vec<f32> = (0..len).map(|_| 2.0 * (unit(self) + unit(self) + unit(self))).collect();
        let buffer = self.stream.device().alloc(len)?;
        self.stream.upload(&values, &buffer.span())?;
        Ok(buffer.span())
    }

    fn empty<T: bytemuck::Pod>(&self, len: usize) -> Result<Span<T>, CudaError> {
        Ok(self.stream.device().alloc(len)?.span())
    }

    /// Microseconds of each of the `ops`, one after the other in a graph.
    fn time(&mut self, name: &str, ops: &[Vec<Launch>]) -> Result<(), CudaError> {
        let mut registers: Vec<u32> = Vec::new();
        for launch in &ops[0] {
            registers.push(launch.resources(self.stream.device())?.0);
        }
        let mut graph = self
            .stream
            .capture(|stream| ops.iter().flatten().try_for_each(|launch| stream.launch(launch)))?;
        let mut least = f64::INFINITY;
        for _ in 0..6 {
            let start = self.stream.event()?;
            graph.launch()?;
            let micros = self.stream.event()?.micros_since(&start)?;
            least = least.min(micros / ops.len() as f64);
        }
        let bytes: u64 = ops[0].iter().map(Launch::bytes).sum();
        println!("{name:44} {least:8.2} us {:8.1} GB/s  {registers:?} registers", bytes as f64 / least / 1e3);
        Ok(())
    }

    fn route(&mut self, rows: usize, experts: usize, hidden: usize, format: Format) -> Result<(), CudaError> {
        let (x, gain) = (self.normals(rows * hidden)?, self.normals(hidden)?);
        let weights = self.normals(experts * hidden)?;
        let bytes = experts * hidden * format.block_bytes();
        let mut ops = Vec::new();
        let op = Route {
            x,
            norm: Some(RouteNorm { gain, eps: 1e-6, normed: self.empty(rows * hidden)? }),
            router: Weight::new(format, experts, hidden, weights.cast::<u8>().slice(0..bytes)?)?,
            scores: Scores::default(),
            share: None,
            spec: RouterSpec::softmax(USED),
            experts: self.empty(rows * USED)?,
            weights: self.empty(rows * USED)?,
            live: None,
            scratch: self.empty(Route::scratch_len(rows, experts))?,
        };
        for _ in 0..LAYERS {
            // Any bits will do: a time does not depend on them.
            let data = if rows > 32 { op.router.data().clone() } else { self.empty::<u8>(bytes)? };
            let router = Weight::new(format, experts, hidden, data)?;
            ops.push(Route { router, ..op.clone() }.launches(&self.info)?);
        }
        self.time(&format!("route {rows} rows, {experts} x {hidden} {format}"), &ops)
    }

    fn group(&mut self, tokens: usize) -> Result<(), CudaError> {
        let pairs = tokens * USED;
        let numbers: Vec<u32> = (0..pairs).map(|_| (self.next() % EXPERTS as u64) as u32).collect();
        let experts = self.empty(pairs)?;
        self.stream.upload(&numbers, &experts)?;
        let op = Group {
            experts,
            count: EXPERTS,
            offsets: self.empty(EXPERTS + 1)?,
            order: self.empty(pairs)?,
            tiles: Tiles {
                size: 64,
                list: self.empty(4 * Group::most_tiles(pairs, EXPERTS, 64))?,
                count: self.empty(1)?,
            },
            scratch: self.empty(Group::scratch_len(pairs, EXPERTS))?,
        };
        let mut ops = Vec::new();
        for _ in 0..LAYERS {
            ops.push(op.launches(&self.info)?);
        }
        self.time(&format!("group {tokens} rows"), &ops)
    }

    fn take(&mut self, rows: usize) -> Result<(), CudaError> {
        let op = Take {
            from: self.normals(64 * HIDDEN)?,
            cols: HIDDEN,
            rows: self.empty(rows)?,
            to: self.empty(rows * HIDDEN)?,
        };
        let mut ops = Vec::new();
        for _ in 0..LAYERS {
            ops.push(vec![op.launch(&self.info)?]);
        }
        self.time(&format!("take {rows} rows"), &ops)
    }

    fn candidates(&mut self, rows: usize, k: usize) -> Result<(), CudaError> {
        let op = Candidates {
            logits: self.normals(rows * VOCAB)?,
            vocab: VOCAB,
            k,
            ids: self.empty(rows * k)?,
            logits_out: self.empty(rows * k)?,
            lse: self.empty(rows)?,
            scratch: self.empty(Candidates::scratch_len(rows, VOCAB))?,
        };
        let mut ops = Vec::new();
        for _ in 0..LAYERS {
            ops.push(op.launches(&self.info)?.into());
        }
        self.time(&format!("candidates {k} of {rows} rows"), &ops)
    }
}
