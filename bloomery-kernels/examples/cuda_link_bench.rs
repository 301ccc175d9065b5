//! What a host's memory gives when its processor and the bus read experts at once: `cuda_link_bench [FORMAT...] [--threads N]
//! [--gib N] [--cols N] [--hidden N] [--used N] [--seconds N]`.
//!
//! Every step takes other experts out of more memory than caches hold. Alone, the processor computes them, or the card has them copied,
//! a matrix at a time; together, each goes on as long as the other.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bloomery_gguf::Format;
use bloomery_kernels::cpu::{
    Activation, Cpu, Experts, Isa, KernelError, Numerics, Pool, Routes, Scratch, Stack,
};
use bloomery_kernels::cuda::{CudaError, Device, HostSource, Pinned};

struct Options {
    formats: Vec<Format>,
    threads: NonZeroUsize,
    bytes: usize,
    cols: usize,
    hidden: usize,
    used: usize,
    time: Duration,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        formats: Vec::new(),
        threads: std::thread::available_parallelism()?,
        bytes: 4 << 30,
        cols: 5120,
        hidden: 2304,
        used: 3,
        time: Duration::from_secs(1),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--threads" => options.threads = value()?.parse()?,
            "--gib" => options.bytes = value()?.parse::<usize>()? << 30,
            "--cols" => options.cols = value()?.parse()?,
            "--hidden" => options.hidden = value()?.parse()?,
            "--used" => options.used = value()?.parse()?,
            "--seconds" => options.time = Duration::try_from_secs_f64(value()?.parse()?)?,
            name => options.formats.push(
                Format::all()
                    .find(|format| format.name() == name)
                    .ok_or_else(|| format!("no format {name}"))?,
            ),
        }
    }
    if options.formats.is_empty() {
        options.formats = vec![Format::Q3_K, Format::Q4_K, Format::Q6_K];
    }
    Ok(options)
}

/// Experts one after the other, each with its three matrices.
struct Model<'a> {
    stacks: [Stack<'a>; 3],
    data: &'a [u8],
    /// Bytes of an expert.
    one: usize,
    used: usize,
}

impl<'a> Model<'a> {
    fn new(options: &Options, format: Format, data: &'a [u8]) -> Result<Self, Box<dyn Error>> {
        let (cols, hidden, used) = (options.cols, options.hidden, options.used);
        let matrix = hidden * cols / format.block_len() * format.block_bytes();
        let count = data.len() / (3 * matrix);
        if count < used {
            return Err(format!("{} bytes are fewer than {used} experts", data.len()).into());
        }
        let stack = |part: usize, rows, cols| {
            Stack::new(format, count, rows, cols, &data[part * count * matrix..(part + 1) * count * matrix])
        };
        let stacks = [stack(0, hidden, cols)?, stack(1, hidden, cols)?, stack(2, cols, hidden)?];
        Ok(Self { stacks, data, one: 3 * matrix, used })
    }

    fn count(&self) -> usize {
        self.data.len() / self.one
    }

    /// Computes experts of one row until `done` says so; bytes that were read, and the seconds.
    fn compute(&self, cpu: &Cpu, done: impl Fn(Duration) -> bool) -> Result<(usize, f64), KernelError> {
        let [gate, up, down] = self.stacks;
        let experts = Experts { gate, up, down, activation: Activation::Silu };
        let x = vec![0.125; gate.cols()];
        let mut out = vec![0.0; down.rows()];
        let (mut scratch, mut first, mut steps) = (Scratch::default(), 0, 0);
        let start = Instant::now();
        while !done(start.elapsed()) {
            let chosen = (0..self.used).map(|i| ((first + i) % self.count()) as u32).collect();
            let weights = vec![0.25; self.used];
            let routes = Routes { rows: 1, used: self.used, experts: chosen, weights };
            cpu.experts(&x, &routes, &experts, &mut out, &mut scratch)?;
            first += self.used;
            steps += 1;
        }
        Ok((steps * self.used * self.one, start.elapsed().as_secs_f64()))
    }

    /// Copies as many experts at a time to the card, from the other end of the memory.
    fn copy(
        &self,
        source: &HostSource<Pinned<u8>>,
        device: &Device,
        done: impl Fn(Duration) -> bool,
    ) -> Result<(usize, f64), CudaError> {
        let mut stream = device.stream()?;
        let matrix = self.one / 3;
        let to = device.alloc::<u8>(matrix)?.span();
        let matrices = self.data.len() / matrix;
        let (mut at, mut copied) = (matrices, 0);
        let start = Instant::now();
        while !done(start.elapsed()) {
            for _ in 0..3 {
                at = if at == 0 { matrices - 1 } else { at - 1 };
                source.copy(&mut stream, &self.data[at * matrix..(at + 1) * matrix], &to)?;
            }
            stream.synchronize()?;
            copied += self.one;
        }
        Ok((copied, start.elapsed().as_secs_f64()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let device = Device::open(0)?;
    let cpu = Cpu::new(Pool::new(options.threads), Isa::detect(), Numerics::Fast);
    let mut memory = device.pinned::<u8>(options.bytes)?;
    // Halves of 2^-7 at most, whatever else they are.
    for (i, word) in memory.values_mut().as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *word = [(i >> 3) as u8, 0x20 | (i >> 7) as u8 & 0x8f];
    }
    let source = HostSource::pinned(Arc::new(memory));
    let bytes = source.owner().clone();
    println!("{:?}, {} threads", device.info(), options.threads);
    println!("{:7} {:>10} {:>10} {:>16} {:>8}", "format", "processor", "bus", "both", "sum");
    for &format in &options.formats {
        let model = Model::new(&options, format, bytes.values())?;
        let timed = |elapsed: Duration| elapsed >= options.time;
        let rate = |(bytes, seconds): (usize, f64)| bytes as f64 / seconds / 1e9;
        let alone = rate(model.compute(&cpu, timed)?);
        let bus = rate(model.copy(&source, &device, timed)?);
        let ended = AtomicBool::new(false);
        let (computed, copied) = std::thread::scope(|scope| {
            let copier = scope.spawn(|| model.copy(&source, &device, |_| ended.load(Ordering::Relaxed)));
            let computed = model.compute(&cpu, timed);
            ended.store(true, Ordering::Relaxed);
            (computed, copier.join())
        });
        let copied = copied.map_err(|_| "the copying thread panicked")?;
        let [both, beside] = [rate(computed?), rate(copied?)];
        println!(
            "{:7} {alone:>10.1} {bus:>10.1} {both:>8.1}{beside:>8.1} {:>8.1}",
            format.name(),
            both + beside
        );
    }
    Ok(())
}
