//! The products of a decode step of Qwen3-30B-A3B in Q4_K_M on a card: time, bytes and bandwidth of each kernel, in graphs
//! of as many launches as the model has layers, each with other weights, so that none come from the second-level cache.
//!
//! `cargo run --release -p bloomery-kernels --example cuda_bench [once]`: with `once`, every kernel once, for a profiler.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use bloomery_gguf::Format;
use bloomery_kernels::cpu::{Activation, Form};
use bloomery_kernels::cuda::{
    CudaError, Device, FeedForward, Launch, NormQuantize, Product, Project, Rounded, Routed, Span, Stream,
    Tuning, Weight, WeightStack,
};

const LAYERS: usize = 48;
const HIDDEN: usize = 2048;
const HEADS: usize = 4096;
const KV: usize = 512;
const EXPERTS: usize = 128;
const USED: usize = 8;
const FFN: usize = 768;
const VOCAB: usize = 151_936;
const EPS: f32 = 1e-6;
/// Rows that buffers have room for.
const MOST: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(0)?;
    println!("{:?}", device.info());
    let mut model = Model::new(&device)?;
    println!("{:28} {:>4} {:>5} {:>9} {:>9} {:>7}", "kernel", "rows", "regs", "us", "MB", "GB/s");
    if std::env::args().nth(1).is_some_and(|word| word == "once") {
        return Ok(model.once()?);
    }
    model.node()?;
    for rows in [1, 2, 3, 4, 8] {
        model.kernels(rows)?;
    }
    for rows in [1, 2, 4, 8] {
        model.step(rows)?;
    }
    Ok(())
}

/// Reproducible values that need not be good.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// `rows` times `USED` different experts.
    fn routes(&mut self, rows: usize) -> Vec<u32> {
        let mut routes = Vec::new();
        for _ in 0..rows {
            let mut free: Vec<u32> = (0..EXPERTS as u32).collect();
            routes.extend((0..USED).map(|_| free.swap_remove(self.next() as usize % free.len())));
        }
        routes
    }
}

struct Layer {
    q: Weight,
    k: Weight,
    v: Weight,
    o: Weight,
    /// Of 8 rows.
    experts: Span<u32>,
    /// Different experts of the first rows.
    distinct: [usize; MOST + 1],
    ffn: usize,
}

struct Stacks {
    gate: WeightStack,
    up: WeightStack,
    down: WeightStack,
}

struct Model {
    stream: Stream,
    layers: Vec<Layer>,
    stacks: Vec<Stacks>,
    head: Weight,
    gain: Span<f32>,
    x: Span<f32>,
    attended: Span<f32>,
    q: Span<f32>,
    k: Span<f32>,
    v: Span<f32>,
    hidden: Span<f32>,
    weights: Span<f32>,
    logits: Span<f32>,
}

impl Model {
    fn new(device: &Device) -> Result<Self, CudaError> {
        let mut stream = device.stream()?;
        let mut rng = Rng(0x9E37_79B9_7F4A_7C15);
        // Small scales keep everything finite; the bytes between them are as good as any.
        let mut noise: Vec<u8> =
            (0..VOCAB * HIDDEN / 256 * 210).map(|_| (rng.next() >> 32) as u8 & 0x17).collect();
        noise.truncate(noise.len() / 256 * 256);
        let mut bytes = |len: usize| -> Result<Span<u8>, CudaError> {
            let buffer = device.alloc::<u8>(len)?;
            for at in (0..len).step_by(noise.len()) {
                let end = len.min(at + noise.len());
                stream.upload(&noise[..end - at], &buffer.slice(at..end)?)?;
            }
            Ok(buffer.span())
        };
        let mut matrix = |format: Format, count: usize, rows: usize, cols: usize| {
            bytes(count * rows * (cols / format.block_len()) * format.block_bytes())
        };
        let mut weight =
            |format, rows, cols| Weight::tiles(format, rows, cols, matrix(format, 1, rows, cols)?);
        let mut layers = Vec::new();
        for layer in 0..LAYERS {
            let heavy = if layer % 2 == 0 { Format::Q6_K } else { Format::Q4_K };
            layers.push((
                weight(Format::Q4_K, HEADS, HIDDEN)?,
                weight(Format::Q4_K, KV, HIDDEN)?,
                weight(heavy, KV, HIDDEN)?,
                weight(Format::Q4_K, HIDDEN, HEADS)?,
            ));
        }
        let head = weight(Format::Q6_K, VOCAB, HIDDEN)?;
        let mut stacks = Vec::new();
        for down in [Format::Q6_K, Format::Q4_K, Format::Q6_K, Format::Q4_K] {
            let mut stack = |format, rows, cols| {
                WeightStack::tiles(format, EXPERTS, rows, cols, matrix(format, EXPERTS, rows, cols)?)
            };
            stacks.push(Stacks {
                gate: stack(Format::Q4_K, FFN, HIDDEN)?,
                up: stack(Format::Q4_K, FFN, HIDDEN)?,
                down: stack(down, HIDDEN, FFN)?,
            });
        }
        let mut routed = Vec::new();
        for (layer, (q, k, v, o)) in layers.into_iter().enumerate() {
            let routes = rng.routes(MOST);
            let experts = device.alloc::<u32>(routes.len())?;
            stream.upload(&routes, &experts.span())?;
            let distinct = std::array::from_fn(|rows| {
                let mut some = routes[..rows * USED].to_vec();
                some.sort_unstable();
                some.dedup();
                some.len()
            });
            let ffn = layer % stacks.len();
            routed.push(Layer { q, k, v, o, experts: experts.span(), distinct, ffn });
        }
        let mut floats = |len: usize| -> Result<Span<f32>, CudaError> {
            let buffer = device.alloc::<f32>(len)?;
            let values: Vec<f32> = (0..len).map(|_| (rng.next() % 2001) as f32 / 1000.0 - 1.0).collect();
            stream.upload(&values, &buffer.span())?;
            Ok(buffer.span())
        };
        let room = |cols: usize| MOST * cols;
        let model = (floats(HIDDEN)?, floats(room(HIDDEN))?, floats(room(HEADS))?);
        let (q, k, v) = (floats(room(HEADS))?, floats(room(KV))?, floats(room(KV))?);
        let (hidden, weights, logits) =
            (floats(room(USED * FFN))?, floats(room(USED))?, floats(room(VOCAB))?);
        let (gain, x, attended) = model;
        Ok(Self { stream, layers: routed, stacks, head, gain, x, attended, q, k, v, hidden, weights, logits })
    }

    fn rows(span: &Span<f32>, rows: usize) -> Result<Span<f32>, CudaError> {
        span.slice(0..span.len() / MOST * rows)
    }

    fn project(
        &self,
        rows: usize,
        x: &Span<f32>,
        norm: bool,
        parts: &[(&Weight, &Span<f32>, bool)],
    ) -> Result<Launch, CudaError> {
        let parts = parts
            .iter()
            .map(|(weight, out, accumulate)| {
                Ok(Product {
                    weight: (*weight).clone(),
                    bias: None,
                    out: Self::rows(out, rows)?,
                    accumulate: *accumulate,
                })
            })
            .collect::<Result<_, CudaError>>()?;
        let norm = norm.then(|| (self.gain.clone(), EPS));
        let project = Project {
            x: Self::rows(x, rows)?,
            rows,
            gate: None,
            norm,
            parts,
            workspace: None,
            tuning: Tuning::default(),
        };
        Ok(project.launches(self.stream.device().info())?.remove(0))
    }

    fn qkv(&self, layer: &Layer, rows: usize) -> Result<Launch, CudaError> {
        let parts = [(&layer.q, &self.q, false), (&layer.k, &self.k, false), (&layer.v, &self.v, false)];
        self.project(rows, &self.x, true, &parts)
    }

    fn output(&self, layer: &Layer, rows: usize) -> Result<Launch, CudaError> {
        self.project(rows, &self.attended, false, &[(&layer.o, &self.x, true)])
    }

    fn head(&self, rows: usize) -> Result<Launch, CudaError> {
        self.project(rows, &self.x, true, &[(&self.head, &self.logits, false)])
    }

    fn experts(&self, layer: &Layer, rows: usize) -> Result<Vec<Launch>, CudaError> {
        let Stacks { gate, up, down } = &self.stacks[layer.ffn];
        let op = FeedForward {
            x: Self::rows(&self.x, rows)?,
            rows,
            norm: Some((self.gain.clone(), EPS)),
            routed: Some(Routed {
                experts: layer.experts.slice(0..rows * USED)?,
                weights: Self::rows(&self.weights, rows)?,
                used: USED,
                seats: None,
            }),
            gate: gate.clone(),
            up: up.clone(),
            down: down.clone(),
            hidden: self.hidden.clone(),
            activation: Activation::Silu,
            out: Self::rows(&self.x, rows)?,
            accumulate: true,
            workspace: None,
            tuning: Tuning::default(),
        };
        op.launches(self.stream.device().info())
    }

    /// Microseconds of all launches as a graph: the median of several runs of a few replays.
    fn time(&mut self, launches: &[Launch]) -> Result<(f64, usize), CudaError> {
        let mut graph =
            self.stream.capture(|stream| launches.iter().try_for_each(|launch| stream.launch(launch)))?;
        for _ in 0..3 {
            graph.launch()?;
        }
        let mut times = Vec::new();
        const REPLAYS: usize = 4;
        for _ in 0..9 {
            let start = self.stream.event()?;
            for _ in 0..REPLAYS {
                graph.launch()?;
            }
            let end = self.stream.event()?;
            times.push(end.micros_since(&start)? / REPLAYS as f64);
        }
        times.sort_unstable_by(f64::total_cmp);
        Ok((times[times.len() / 2], graph.nodes()))
    }

    fn report(&mut self, name: &str, rows: usize, launches: &[Launch], bytes: f64) -> Result<(), CudaError> {
        let (micros, nodes) = self.time(launches)?;
        let device = self.stream.device().clone();
        let (registers, _) = launches[0].resources(&device)?;
        let (each, mb) = (micros / nodes as f64, bytes / nodes as f64 / 1e6);
        println!("{name:28} {rows:>4} {registers:>5} {each:>9.2} {mb:>9.2} {:>7.0}", mb / each * 1e3);
        Ok(())
    }

    /// What a kernel costs that does next to nothing.
    fn node(&mut self) -> Result<(), CudaError> {
        let device = self.stream.device().clone();
        let x = self.x.slice(0..256)?;
        let (values, scales, sums) = (device.alloc(256)?, device.alloc(1)?, device.alloc(16)?);
        let rounded = Rounded {
            form: Form::Q8x256,
            values: values.span(),
            scales: scales.span(),
            sums: Some(sums.span()),
        };
        let op = NormQuantize { x, rows: 1, cols: 256, norm: None, normed: None, rounded: Some(rounded) };
        let launches: Vec<Launch> = (0..200).map(|_| op.launch(device.info())).collect::<Result<_, _>>()?;
        self.report("rounding of 256 values", 1, &launches, 0.0)
    }

    fn kernels(&mut self, rows: usize) -> Result<(), CudaError> {
        let all = |make: &dyn Fn(&Layer) -> Result<Launch, CudaError>| -> Result<Vec<Launch>, CudaError> {
            self.layers.iter().map(make).collect()
        };
        let bytes = |launches: &[Launch]| launches.iter().map(|launch| launch.bytes() as f64).sum::<f64>();
        let qkv = all(&|layer| self.qkv(layer, rows))?;
        let output = all(&|layer| self.output(layer, rows))?;
        let gate_up = all(&|layer| Ok(self.experts(layer, rows)?.remove(0)))?;
        let down = all(&|layer| Ok(self.experts(layer, rows)?.remove(1)))?;
        let distinct: usize = self.layers.iter().map(|layer| layer.distinct[rows]).sum();
        let gate_up_bytes = (distinct * 2 * self.stacks[0].gate.expert_bytes()) as f64;
        let down_bytes: usize = self
            .layers
            .iter()
            .map(|layer| layer.distinct[rows] * self.stacks[layer.ffn].down.expert_bytes())
            .sum();
        let head = vec![self.head(rows)?, self.head(rows)?];
        let (qkv_bytes, output_bytes, head_bytes) = (bytes(&qkv), bytes(&output), bytes(&head));
        self.report("norm, q, k, v", rows, &qkv, qkv_bytes)?;
        self.report("output, residual", rows, &output, output_bytes)?;
        self.report("norm, gate, up", rows, &gate_up, gate_up_bytes)?;
        self.report("down, combine, residual", rows, &down, down_bytes as f64)?;
        self.report("norm, head", rows, &head, head_bytes)
    }

    /// Every kernel once, for a profiler.
    fn once(&mut self) -> Result<(), CudaError> {
        for rows in [1, 2, 8] {
            let layer = &self.layers[0];
            let mut launches = vec![self.qkv(layer, rows)?, self.output(layer, rows)?];
            launches.extend(self.experts(layer, rows)?);
            launches.push(self.head(rows)?);
            launches.iter().try_for_each(|launch| self.stream.launch(launch))?;
        }
        self.stream.synchronize()
    }

    /// All products of a step, in their order.
    fn step(&mut self, rows: usize) -> Result<(), CudaError> {
        let mut launches = Vec::new();
        for layer in &self.layers {
            launches.push(self.qkv(layer, rows)?);
            launches.push(self.output(layer, rows)?);
            launches.extend(self.experts(layer, rows)?);
        }
        launches.push(self.head(rows)?);
        let (micros, nodes) = self.time(&launches)?;
        println!(
            "all {nodes} products of a step of {rows} rows: {micros:.0} us, {:.2} us a node",
            micros / nodes as f64
        );
        Ok(())
    }
}
