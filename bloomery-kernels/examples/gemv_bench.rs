//! Times `dots` on one thread: `gemv_bench [FORMAT...] [--rows N] [--cols N] [--isa NAME] [--large]`.
//!
//! Prints the best of many repetitions. `--large` walks 2 GB of weights, which no cache holds; the default matrix
//! is one expert (768 x 2048), which the second-level cache holds. The rows called `read` only sum the same bytes:
//! what the machine can deliver to one thread.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::{error::Error, hint::black_box, ops::Range, time::Instant};

use bloomery_gguf::Format;
use bloomery_kernels::cpu::{
    Isa, Matrix, Quantized,
    dots::{Input, Pick, dots, form},
};

struct Options {
    formats: Vec<Format>,
    rows: usize,
    cols: usize,
    isa: Option<String>,
    large: bool,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { formats: Vec::new(), rows: 768, cols: 2048, isa: None, large: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--rows" => options.rows = value()?.parse()?,
            "--cols" => options.cols = value()?.parse()?,
            "--isa" => options.isa = Some(value()?),
            "--large" => options.large = true,
            name => options.formats.push(
                Format::all()
                    .find(|format| format.name() == name)
                    .ok_or_else(|| format!("no format {name}"))?,
            ),
        }
    }
    if options.formats.is_empty() {
        use Format::*;
        options.formats = vec![Q4_K, Q6_K, Q5_K, Q3_K, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, F16, BF16, F32];
    }
    Ok(options)
}

/// Bytes whose 16-bit words are all moderate halves: any block of them has sane scales.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let word = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        [(*state >> 16) as u8, 0x20 | (*state >> 24) as u8 & 0x8f]
    };
    (0..len.div_ceil(2)).flat_map(|_| word(&mut state)).take(len).collect()
}

/// Seconds for all rows: the best time of every part, summed. A pass over a large matrix rarely runs undisturbed.
fn best(large: bool, rows: usize, mut run: impl FnMut(Range<usize>)) -> f64 {
    let (parts, seconds) = if large { (320, 3.0) } else { (1, 0.2) };
    let step = rows.div_ceil(parts);
    let mut bests = vec![f64::INFINITY; parts];
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < seconds {
        for (part, best) in bests.iter_mut().enumerate() {
            let part = (part * step).min(rows)..((part + 1) * step).min(rows);
            let start = Instant::now();
            run(part);
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    bests.iter().sum()
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    println!("{:6} {:8} {:>2} {:>12} {:>8} {:>8}", "format", "isa", "T", "ns", "GB/s", "GMAC/s");
    for format in options.formats {
        let row_bytes = options.cols / format.block_len() * format.block_bytes();
        let rows = if options.large { (2 << 30) / row_bytes } else { options.rows };
        let mut data = bytes(rows * row_bytes);
        if format == Format::MXFP4 {
            // An exponent that makes no subnormal scale.
            data.chunks_mut(format.block_bytes()).for_each(|block| block[0] = 118);
        }
        let w = Matrix::new(format, rows, options.cols, &data)?;
        let read = best(options.large, rows, |part| {
            let bytes = &data[part.start * row_bytes..part.end * row_bytes];
            let words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
            black_box(words.fold(0, u64::wrapping_add));
        });
        println!(
            "{format:6} {:8} {:>2} {:>12.0} {:>8.2}",
            "read",
            "",
            read * 1e9,
            data.len() as f64 / read / 1e9
        );
        for isa in Isa::available() {
            if options.isa.as_ref().is_some_and(|name| !format!("{isa:?}").eq_ignore_ascii_case(name)) {
                continue;
            }
            for count in [1, 2, 4, 8] {
                let x: Vec<f32> = (0..count * options.cols).map(|i| (i % 251) as f32 / 125.0 - 1.0).collect();
                let mut q = Quantized::default();
                let input = match form(format) {
                    Some(form) => {
                        q.fill(isa, &x, count, options.cols, form);
                        Input::Quantized(&q)
                    }
                    None => Input::Floats(&x),
                };
                let mut out = vec![0.0; count * rows];
                let best = best(options.large, rows, |part| {
                    dots(isa, &w, part, input, Pick::Range(0..count), &mut out, rows);
                });
                let (size, macs) = (data.len() as f64, (rows * options.cols * count) as f64);
                println!(
                    "{format:6} {:8} {count:>2} {:>12.0} {:>8.2} {:>8.1}",
                    format!("{isa:?}"),
                    best * 1e9,
                    size / best / 1e9,
                    macs / best / 1e9
                );
            }
        }
    }
    Ok(())
}
