//! Experts of a routed layer out of memory: `experts_bench [FORMAT...] [--rows N] [--threads N] [--gib N] [--isa NAME]
//! [--cols N] [--hidden N] [--experts N] [--used N] [--seconds N]`.
//!
//! Every step goes to other experts of other layers, chosen at random for each row, of more weights than any cache holds.
//! Beside each time stands that of the same threads only reading the bytes of as many experts, alternating with it: what
//! the machine can deliver. The figures are those of the best tenth of the steps; an expert that several rows chose counts
//! once.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::{error::Error, hint::black_box, time::Instant};

use bloomery_gguf::Format;
use bloomery_kernels::cpu::{Activation, Cpu, Experts, Isa, Numerics, Pool, Routes, Scratch, Stack};

struct Options {
    formats: Vec<Format>,
    rows: Vec<usize>,
    threads: NonZeroUsize,
    isa: Isa,
    bytes: usize,
    cols: usize,
    hidden: usize,
    experts: usize,
    used: usize,
    seconds: f64,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        formats: Vec::new(),
        rows: Vec::new(),
        threads: std::thread::available_parallelism()?,
        isa: Isa::detect(),
        bytes: 2 << 30,
        cols: 2048,
        hidden: 768,
        experts: 128,
        used: 8,
        seconds: 1.0,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--rows" => options.rows.push(value()?.parse()?),
            "--threads" => options.threads = value()?.parse()?,
            "--gib" => options.bytes = value()?.parse::<usize>()? << 30,
            "--cols" => options.cols = value()?.parse()?,
            "--hidden" => options.hidden = value()?.parse()?,
            "--experts" => options.experts = value()?.parse()?,
            "--used" => options.used = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--isa" => {
                let name = value()?;
                let named = |isa: &Isa| format!("{isa:?}").eq_ignore_ascii_case(&name);
                options.isa = Isa::available().find(named).ok_or_else(|| format!("no {name} here"))?;
            }
            name => options.formats.push(
                Format::all()
                    .find(|format| format.name() == name)
                    .ok_or_else(|| format!("no format {name}"))?,
            ),
        }
    }
    if options.formats.is_empty() {
        use Format::*;
        options.formats = vec![Q4_K, Q6_K, Q5_K, Q3_K, Q2_K, IQ4_XS, Q8_0, Q4_0, IQ4_NL, MXFP4];
    }
    if options.rows.is_empty() {
        options.rows = vec![1, 8];
    }
    if options.used > options.experts {
        return Err(format!("{} of {} experts", options.used, options.experts).into());
    }
    Ok(options)
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// `used` different experts for each of `rows` rows.
    fn routes(&mut self, rows: usize, used: usize, experts: usize) -> Routes {
        let mut routes = Routes { rows, used, ..Routes::default() };
        for row in 0..rows {
            while routes.experts.len() < (row + 1) * used {
                let expert = self.below(experts) as u32;
                if !routes.experts[row * used..].contains(&expert) {
                    routes.experts.push(expert);
                }
            }
        }
        routes.weights = vec![1.0 / used as f32; rows * used];
        routes
    }
}

/// Blocks whose scales are moderate, whatever else they are: all 16-bit words are halves of 2^-7 at most.
fn weights(format: Format, len: usize, threads: usize) -> Vec<u8> {
    let mut random = Random(1);
    let block = format.block_bytes();
    let mut pattern = Vec::new();
    while pattern.len() < 4096 * block {
        let word = random.next();
        pattern.extend([word as u8, 0x20 | (word >> 8) as u8 & 0x8f]);
    }
    if format == Format::MXFP4 {
        pattern.chunks_mut(block).for_each(|block| block[0] = 118);
    }
    let mut all = vec![0; len];
    let part = len.div_ceil(threads).next_multiple_of(pattern.len());
    std::thread::scope(|scope| {
        for part in all.chunks_mut(part) {
            scope.spawn(|| {
                part.chunks_mut(pattern.len()).for_each(|to| to.copy_from_slice(&pattern[..to.len()]))
            });
        }
    });
    all
}

/// A layer's three stacks in a part of the weights.
fn layer<'a>(options: &Options, format: Format, data: &'a [u8]) -> Result<Experts<'a>, Box<dyn Error>> {
    let (count, cols, hidden) = (options.experts, options.cols, options.hidden);
    let (gate, rest) = data.split_at(data.len() / 3);
    let (up, down) = rest.split_at(rest.len() / 2);
    Ok(Experts {
        gate: Stack::new(format, count, hidden, cols, gate)?,
        up: Stack::new(format, count, hidden, cols, up)?,
        down: Stack::new(format, count, cols, hidden, down)?,
        activation: Activation::Silu,
    })
}

/// Reads the chosen experts with all threads, in pieces of a task's size.
fn read(pool: &Pool, experts: &Experts<'_>, chosen: &HashSet<u32>) {
    const PIECE: usize = 64 << 10;
    let stacks = [&experts.gate, &experts.up, &experts.down];
    let pieces: Vec<&[u8]> = chosen
        .iter()
        .flat_map(|expert| stacks.map(|stack| stack.matrix(*expert as usize).data()))
        .flat_map(|matrix| matrix.chunks(PIECE))
        .collect();
    pool.run(pieces.len(), &|piece| {
        let mut sums = [0u64; 8];
        for line in pieces[piece].as_chunks::<64>().0 {
            for (sum, word) in sums.iter_mut().zip(line.as_chunks().0) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
        black_box(sums);
    });
}

/// What one step in ten reaches: other programs disturb less of it than of the median.
fn tenth(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 10]
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let cpu = Cpu::new(Pool::new(options.threads), options.isa, Numerics::Fast);
    println!(
        "{} threads, {:?}, {} of {} experts of {} x {}",
        options.threads, options.isa, options.used, options.experts, options.hidden, options.cols
    );
    println!("{:7} {:>4} {:>9} {:>9} {:>9} {:>6}", "format", "rows", "us", "GB/s", "read GB/s", "ratio");
    for &format in &options.formats {
        let expert = 3 * options.hidden * options.cols / format.block_len() * format.block_bytes();
        let bytes = options.experts * expert;
        let layers = options.bytes.div_ceil(bytes);
        let data = weights(format, layers * bytes, options.threads.get());
        let layers: Vec<_> =
            data.chunks(bytes).map(|data| layer(&options, format, data)).collect::<Result<_, _>>()?;
        for &rows in &options.rows {
            let mut random = Random(7);
            let x: Vec<f32> = (0..rows * options.cols).map(|i| (i % 251) as f32 / 125.0 - 1.0).collect();
            let mut out = vec![0.0; rows * options.cols];
            let mut scratch = Scratch::default();
            // Seconds, and nanoseconds a byte of the kernels and of reading.
            let (mut times, mut costs, mut reads) = (Vec::new(), Vec::new(), Vec::new());
            let begun = Instant::now();
            let mut at = 0;
            while begun.elapsed().as_secs_f64() < options.seconds || times.len() < 16 {
                let mut next = || {
                    at = (at + 1) % layers.len();
                    (&layers[at], random.routes(rows, options.used, options.experts))
                };
                let (experts, routes) = next();
                let chosen: HashSet<u32> = routes.experts.iter().copied().collect();
                let start = Instant::now();
                cpu.experts(&x, &routes, experts, &mut out, &mut scratch)?;
                let time = start.elapsed().as_secs_f64();
                times.push(time);
                costs.push(time * 1e9 / (chosen.len() * expert) as f64);
                let (experts, routes) = next();
                let chosen: HashSet<u32> = routes.experts.into_iter().collect();
                let start = Instant::now();
                read(cpu.pool(), experts, &chosen);
                reads.push(start.elapsed().as_secs_f64() * 1e9 / (chosen.len() * expert) as f64);
            }
            let (time, rate, read) = (tenth(times) * 1e6, 1.0 / tenth(costs), 1.0 / tenth(reads));
            let ratio = rate / read;
            println!("{:7} {rows:>4} {time:>9.0} {rate:>9.1} {read:>9.1} {ratio:>6.2}", format.name());
        }
    }
    Ok(())
}
