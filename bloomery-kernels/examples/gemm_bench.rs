//! Speed of projections: `gemm_bench [SECONDS_EACH] [THREADS] [FORMAT ...]`.
//!
//! Prints, for every shape, format, number of rows and instruction set, the best of many repetitions in GOPS
//! (two operations a weight and row, all threads) and in GB/s of weights read.
#![expect(clippy::print_stdout, reason = "the table is the program's output")]

use std::num::NonZeroUsize;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bloomery_gguf::Format;
use bloomery_kernels::cpu::{Cpu, Isa, KernelError, Matrix, Numerics, Part, Pool, Scratch};

const SHAPES: [(usize, usize); 3] = [(2048, 4096), (768, 2048), (2048, 768)];
const ROWS: [usize; 5] = [1, 8, 16, 64, 512];
const FORMATS: [Format; 4] = [Format::Q4_K, Format::Q6_K, Format::Q8_0, Format::Q5_0];

fn main() -> Result<(), KernelError> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0.3);
    let threads = arguments.next().and_then(|text| text.parse().ok());
    let threads = threads.or(std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let wanted: Vec<String> = arguments.collect();
    println!("{threads} threads");
    println!(
        "{:>5} {:>5} {:6} {:>4} {:8} {:>9} {:>8} {:>8}",
        "rows", "cols", "format", "T", "isa", "us", "GOPS", "GB/s"
    );
    for isa in Isa::available().filter(|isa| *isa > Isa::Scalar) {
        let cpu = Cpu::new(Pool::new(threads), isa, Numerics::Fast);
        let mut scratch = Scratch::default();
        for format in FORMATS {
            if !wanted.is_empty() && !wanted.iter().any(|name| name == format.name()) {
                continue;
            }
            for (rows, cols) in SHAPES {
                let bytes = weights(format, rows * cols);
                let weight = Matrix::new(format, rows, cols, &bytes)?;
                for count in ROWS {
                    let x: Vec<f32> =
                        (0..count * cols).map(|i| ((i * 7919) % 2003) as f32 / 1001.0 - 1.0).collect();
                    let mut out = vec![0.0; count * rows];
                    let start = Instant::now();
                    let mut best = Duration::MAX;
                    while best == Duration::MAX || start.elapsed().as_secs_f64() < seconds {
                        let start = now(threads);
                        let part = Part { weight, bias: None, out: &mut out, accumulate: false };
                        cpu.project(&x, count, None, &mut [part], &mut scratch)?;
                        best = best.min(now(threads).saturating_sub(start));
                    }
                    let time = best.as_secs_f64();
                    let operations = 2.0 * (rows * cols * count) as f64;
                    println!(
                        "{rows:>5} {cols:>5} {:6} {count:>4} {:8} {:>9.1} {:>8.1} {:>8.2}",
                        format.name(),
                        format!("{isa:?}"),
                        time * 1e6,
                        operations / time / 1e9,
                        bytes.len() as f64 / time / 1e9,
                    );
                }
            }
        }
    }
    Ok(())
}

/// Time: of the clock or, for one thread, of the processor, which other programs hardly lengthen.
fn now(threads: NonZeroUsize) -> Duration {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    if threads.get() > 1 {
        return ORIGIN.elapsed();
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Arbitrary bytes, with the half-precision numbers of the blocks small and finite.
fn weights(format: Format, values: usize) -> Vec<u8> {
    let count = values / format.block_len() * format.block_bytes();
    let mut bytes: Vec<u8> = (0..count).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let halves: &[usize] = match format {
        Format::Q4_K | Format::Q5_K => &[0, 2],
        Format::Q6_K => &[208],
        _ => &[0],
    };
    for block in bytes.chunks_mut(format.block_bytes()) {
        for &at in halves {
            block[at..at + 2].copy_from_slice(&0x1e00_u16.to_le_bytes());
        }
    }
    bytes
}
