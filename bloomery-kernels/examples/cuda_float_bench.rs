//! Products of many rows with weights of floats, and with matrices of heads, on a card: microseconds and TFLOP/s of one call, in graphs of
//! several, each with weights of its own.
//!
//! `cargo run --release -p bloomery-kernels --example cuda_float_bench [rows]...`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use bloomery_gguf::Format;
use bloomery_kernels::cuda::{
    Buffer, CudaError, Device, HeadWeights, Launch, PerHead, Product, Project, Span, Stream, Tuning, Weight,
};

/// Calls of a graph.
const CALLS: usize = 8;

/// Format, outputs, columns, and whether rows are normalised.
const PRODUCTS: [(Format, usize, usize, bool); 9] = [
    // Qwen3.8-Flash: gates of delta nets, queries and keys of indexes.
    (Format::F32, 48, 2560, false),
    (Format::BF16, 4096, 2560, false),
    (Format::BF16, 128, 2560, false),
    // GLM-5.3-Flash: decays of delta nets.
    (Format::BF16, 128, 4096, true),
    (Format::BF16, 8192, 128, false),
    // Larger ones.
    (Format::BF16, 4096, 4096, true),
    (Format::F16, 4096, 4096, true),
    (Format::F16, 5120, 20_480, false),
    (Format::F32, 512, 4096, true),
];

/// Heads, rows and columns of a matrix: DeepSeek-V4.1's outputs in groups.
const HEADS: [(usize, usize, usize); 1] = [(8, 1024, 4096)];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let device = Device::open(0)?;
    println!("{:?}", device.info());
    let asked = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
    let counts = if asked.is_empty() { vec![33, 64, 128, 512, 4096] } else { asked };
    println!("{:28} {:>5} {:>10} {:>8} {:>7}", "product", "rows", "us", "TFLOP/s", "GB/s");
    for rows in counts {
        for shape in PRODUCTS {
            product(&device, shape, rows)?;
        }
        for shape in HEADS {
            heads(&device, shape, rows)?;
        }
    }
    Ok(())
}

fn product(
    device: &Device,
    (format, outs, cols, normed): (Format, usize, usize, bool),
    rows: usize,
) -> Result<(), Failure> {
    let mut stream = device.stream()?;
    let x = upload(&mut stream, &noise(rows * cols))?.span();
    let gain = upload(&mut stream, &noise(cols))?.span();
    let out = device.alloc::<f32>(rows * outs)?.span();
    let workspace = device.alloc::<u8>(Project::workspace_bytes(rows, cols, true))?.span();
    let bytes = values(format, outs * cols);
    let mut launches = Vec::new();
    for _ in 0..CALLS {
        let data = upload(&mut stream, &bytes)?.span();
        let weight = Weight::new(format, outs, cols, data)?;
        let op = Project {
            x: x.clone(),
            rows,
            norm: normed.then(|| (gain.clone(), 1e-6)),
            gate: None,
            parts: vec![Product { weight, bias: None, out: out.clone(), accumulate: false }],
            workspace: Some(workspace.clone()),
            tuning: Tuning::default(),
        };
        launches.extend(op.launches(device.info())?);
    }
    report(&mut stream, &format!("{format} {outs} x {cols}"), (rows, 2 * rows * outs * cols), &launches)
}

fn heads(device: &Device, (heads, outs, cols): (usize, usize, usize), rows: usize) -> Result<(), Failure> {
    let mut stream = device.stream()?;
    let x = upload(&mut stream, &noise(rows * heads * cols))?.span();
    let out = device.alloc(rows * heads * outs)?.span();
    let workspace: Span<u8> = device.alloc(PerHead::workspace_bytes(rows, heads, cols).max(256))?.span();
    let packed = HeadWeights::pack(heads, outs, cols, &noise(heads * outs * cols))?;
    let mut launches = Vec::new();
    for _ in 0..CALLS {
        let weights = HeadWeights::new(heads, outs, cols, upload(&mut stream, &packed)?.span())?;
        let op = PerHead { x: x.clone(), weights, out: out.clone(), rows, tail: 0 };
        launches.extend(op.launches(device.info(), &workspace)?);
    }
    let name = format!("{heads} heads {outs} x {cols}");
    report(&mut stream, &name, (rows, 2 * rows * heads * outs * cols), &launches)
}

/// The best of several runs of a graph of all launches.
fn report(
    stream: &mut Stream,
    name: &str,
    (rows, flops): (usize, usize),
    launches: &[Launch],
) -> Result<(), Failure> {
    let mut graph = stream.capture(|stream| launches.iter().try_for_each(|launch| stream.launch(launch)))?;
    let mut best = f64::INFINITY;
    for _ in 0..8 {
        let start = stream.event()?;
        graph.launch()?;
        let end = stream.event()?;
        best = best.min(end.micros_since(&start)? / CALLS as f64);
    }
    let bytes = launches.iter().map(Launch::bytes).sum::<u64>() as f64 / CALLS as f64;
    let (count, last) = (launches.len() / CALLS, &launches[launches.len() - 1]);
    println!(
        "{name:28} {rows:5} {best:10.2} {:8.1} {:7.0}   {count} launches, {}, {:?}",
        flops as f64 / best / 1e6,
        bytes / best / 1e3,
        last.name(),
        last.grid(),
    );
    Ok(())
}

fn noise(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919) % 1999) as f32 / 999.5 - 1.0).collect()
}

/// Values in a format of floats.
fn values(format: Format, len: usize) -> Vec<u8> {
    let values = noise(len);
    match format {
        Format::F16 => values.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(),
        Format::BF16 => values.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

fn upload<T: bytemuck::Pod>(stream: &mut Stream, values: &[T]) -> Result<Buffer<T>, CudaError> {
    let buffer = stream.device().alloc(values.len())?;
    stream.upload(values, &buffer.span())?;
    Ok(buffer)
}
