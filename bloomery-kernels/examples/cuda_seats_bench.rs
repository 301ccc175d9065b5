//! What it costs a layer to have experts with the host: microseconds of an offer and a collection, in graphs of as many as
//! Qwen3-30B-A3B has layers, with a host that answers at once. With a model file, also how fast its largest tensor is registered and
//! copied to the card.
//!
//! `cargo run --release -p bloomery-kernels --example cuda_seats_bench [MODEL]`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomery_gguf::Gguf;
use bloomery_kernels::cuda::{
    Buffer, Collect, CudaError, Desk, DeskShape, Device, HostSource, NOWHERE, Numbers, Seat, Staging, Stream,
};

const LAYERS: usize = 48;
const EXPERTS: usize = 128;
const USED: usize = 8;
const COLS: usize = 2048;
const ROUNDS: u32 = 200;
const LIMIT: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(0)?;
    println!("{:?}", device.info());
    println!("{:>5} {:>15} {:>10} {:>10}", "rows", "without seats", "us a layer", "95 %");
    let mut step = 0;
    for rows in [1, 2, 4, 8, 16] {
        for missing in [0, 1, USED] {
            layers(&device, rows, missing, &mut step)?;
        }
    }
    let staged = vec![0_u8; 256 << 20];
    let owner = Arc::new(staged);
    copies(&device, "memory", &owner, |owner| owner)?;
    if let Some(path) = std::env::args().nth(1) {
        let model = Arc::new(Gguf::open(path)?);
        copies(&device, "a tensor", &model, |model| {
            let data = model.tensors().map(|tensor| model.data(tensor));
            data.max_by_key(|data| data.len()).unwrap_or_default()
        })?;
    }
    Ok(())
}

/// A graph of all layers, in which the first `missing` experts of every row have no seats.
fn layers(device: &Device, rows: usize, missing: usize, step: &mut u32) -> Result<(), CudaError> {
    let mut stream = device.stream()?;
    let mut desk =
        Desk::new(device, DeskShape { layers: LAYERS, rows, used: USED, cols: COLS, outputs: COLS })?;
    let experts: Vec<u32> = (0..rows * USED).map(|pair| ((pair % USED) * 16 + pair / USED) as u32).collect();
    let seats: Vec<u32> = (0..EXPERTS as u32)
        .map(|expert| if (expert as usize) < 16 * missing { NOWHERE } else { expert })
        .collect();
    let seat = Seat {
        experts: upload(&mut stream, &experts)?.span(),
        weights: upload(&mut stream, &vec![0.125_f32; rows * USED])?.span(),
        used: USED,
        seats: upload(&mut stream, &seats)?.span(),
        out: device.alloc(rows * USED)?.span(),
        numbers: Numbers::Seats,
        counts: None,
        normed: Some(device.alloc::<f32>(rows * COLS)?.span()),
    };
    let collect = Collect { out: device.alloc(rows * COLS)?.span(), rows, limit: LIMIT };
    let mut launches = Vec::new();
    for layer in 0..LAYERS {
        launches.push(seat.launch(device.info(), Some((&desk, layer)))?);
        launches.push(collect.launch(device.info(), &desk, layer)?);
    }
    let mut graph = stream.capture(|stream| launches.iter().try_for_each(|launch| stream.launch(launch)))?;
    let mut micros = Vec::new();
    for _ in 0..ROUNDS {
        *step = step.wrapping_add(1);
        desk.begin(&mut stream, *step)?;
        let start = stream.event()?;
        graph.launch()?;
        let end = stream.event()?;
        serve(&desk)?;
        micros.push(end.micros_since(&start)? / LAYERS as f64);
    }
    if let Some(layer) = desk.failed() {
        println!("layer {layer} has waited for more than {LIMIT:?}");
    }
    micros.sort_by(f64::total_cmp);
    let at = |share: usize| micros[micros.len() * share / 100];
    println!("{rows:5} {missing:15} {:10.2} {:10.2}", at(50), at(95));
    Ok(())
}

/// Answers every layer as soon as it asks; what is added is whatever lies there.
fn serve(desk: &Desk) -> Result<(), CudaError> {
    for layer in 0..LAYERS {
        loop {
            match desk.asked(layer) {
                Some(0) => break,
                Some(_) => {
                    desk.answer(layer)?;
                    break;
                }
                None if desk.failed().is_some() => return Ok(()),
                None => std::hint::spin_loop(),
            }
        }
    }
    Ok(())
}

/// How fast bytes are registered, and how fast they are copied with and without that.
fn copies<O: Send + Sync + 'static>(
    device: &Device,
    name: &str,
    owner: &Arc<O>,
    part: impl Fn(&O) -> &[u8],
) -> Result<(), CudaError> {
    let mut stream = device.stream()?;
    let bytes = part(owner);
    let to = device.alloc::<u8>(bytes.len())?.span();
    let rate = |since: Instant| bytes.len() as f64 / since.elapsed().as_secs_f64() / 1e9;
    // Whatever is not in memory yet comes in now.
    let sum: u64 = bytes.iter().step_by(4096).map(|byte| u64::from(*byte)).sum();
    println!("{name}: {} MB, touched ({sum})", bytes.len() / 1_000_000);
    let mut staging = [Staging::new(device, 16 << 20)?, Staging::new(device, 16 << 20)?];
    for _ in 0..2 {
        let start = Instant::now();
        for (i, piece) in bytes.chunks(16 << 20).enumerate() {
            let staging = &mut staging[i % 2];
            staging.bytes_mut()?[..piece.len()].copy_from_slice(piece);
            staging.send(&mut stream, &to.slice(i * (16 << 20)..i * (16 << 20) + piece.len())?)?;
        }
        stream.synchronize()?;
        println!("{name}: {:.1} GB/s through staging, one thread", rate(start));
    }
    let start = Instant::now();
    let registered = match HostSource::registered(device, owner.clone(), |owner| vec![part(owner)]) {
        Ok(registered) => registered,
        Err(error) => {
            println!("{name}: not registered: {error}");
            return Ok(());
        }
    };
    println!("{name}: registered at {:.1} GB/s", rate(start));
    for _ in 0..2 {
        let start = Instant::now();
        registered.copy(&mut stream, bytes, &to)?;
        stream.synchronize()?;
        println!("{name}: {:.1} GB/s from registered memory", rate(start));
    }
    // Pieces of the size of an expert's matrix.
    let piece = (1 << 20).min(bytes.len());
    let start = Instant::now();
    for first in (0..bytes.len() / piece).map(|i| i * piece) {
        registered.copy(&mut stream, &bytes[first..first + piece], &to.slice(first..first + piece)?)?;
    }
    stream.synchronize()?;
    println!("{name}: {:.1} GB/s in pieces of {piece} bytes", rate(start));
    let start = Instant::now();
    drop(registered);
    println!("{name}: taken back at {:.1} GB/s", rate(start));
    Ok(())
}

fn upload<T: bytemuck::Pod>(stream: &mut Stream, values: &[T]) -> Result<Buffer<T>, CudaError> {
    let buffer = stream.device().alloc(values.len())?;
    stream.upload(values, &buffer.span())?;
    Ok(buffer)
}
