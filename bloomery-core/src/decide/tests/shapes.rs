//! Heads of other sizes than the fixture's, with random weights.

use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bloomery_gguf::{Format, Gguf, Writer, dequantize, quantize};
use bloomery_kernels::cpu::Isa;

use crate::decide::head::{Dims, HeadPlan};
use crate::decide::reading::Reading;
use crate::decide::seat::Seat;
use crate::decide::{Decision, Field, FieldOption, Prompt, Question};

/// Numbers that look random, between -1 and 1 (xorshift).
struct Noise(u64);

impl Noise {
    fn value(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn values(&mut self, count: usize, size: f32) -> Vec<f32> {
        (0..count).map(|_| size * self.value()).collect()
    }
}

const VOCAB: usize = 64;

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A file with a head and nothing else but the rows of a vocabulary. Matrices are in Q8_0, or in the f32 values of that.
fn model(dims: Dims, quantised: Option<bool>) -> Gguf {
    let mut noise = Noise(7);
    let mut writer = Writer::new();
    writer
        .set("general.architecture", "clef")
        .set("clef.decision.type", "clef")
        .set("clef.decision.routing_block_count", dims.routing as u32)
        .set("clef.decision.block_count", dims.decoder as u32)
        .set("clef.decision.head_count", dims.heads as u32)
        .set("clef.attention.layer_norm_epsilon", 1e-5f32);
    let mut add = |name: &str, shape: &[usize], values: Vec<f32>| {
        let sizes: Vec<u64> = shape.iter().rev().map(|&size| size as u64).collect();
        let is_matrix = shape.len() == 2 && name != "token_types.weight" && shape[0] > 1;
        match quantised.filter(|_| is_matrix) {
            None => writer.tensor(name, &sizes, Format::F32, floats(&values)).unwrap(),
            Some(stored) => {
                let bytes = quantize::quantize(Format::Q8_0, &values).unwrap();
                let mut rounded = vec![0.0; values.len()];
                dequantize(Format::Q8_0, &bytes, &mut rounded).unwrap();
                match stored {
                    true => writer.tensor(name, &sizes, Format::Q8_0, bytes).unwrap(),
                    false => writer.tensor(name, &sizes, Format::F32, floats(&rounded)).unwrap(),
                }
            }
        };
    };
    for (name, shape) in dims.tensors() {
        let count = shape.iter().product();
        let values = match shape.as_slice() {
            _ if name == "decision.scales" => vec![5.0, 10.0, 0.1],
            [_] if name.contains("norm") && name.ends_with("weight") => {
                noise.values(count, 0.2).iter().map(|value| 1.0 + value).collect()
            }
            [_] => noise.values(count, 0.2),
            [.., cols] => noise.values(count, (3.0_f32 / *cols as f32).sqrt()),
            [] => Vec::new(),
        };
        add(&name, &shape, values);
    }
    add("output.weight", &[VOCAB, dims.hidden], noise.values(VOCAB * dims.hidden, 1.0));
    let mut file = Vec::new();
    writer.write_to(&mut file).unwrap();
    Gguf::from_bytes(file).unwrap()
}

fn seat(dims: Dims, quantised: Option<bool>, threads: usize) -> Seat {
    let gguf = Arc::new(model(dims, quantised));
    let plan = HeadPlan::find(&gguf, dims.hidden, None).unwrap().unwrap();
    assert_eq!(plan.dims, dims);
    Seat::load(&plan, &gguf, NonZeroUsize::new(threads).unwrap(), Isa::detect()).unwrap()
}

/// A prompt of `length` tokens that ends with choices of so many options.
fn prompt(length: usize, options: &[usize]) -> Prompt {
    let spans: usize = options.iter().map(|count| count + 1).sum();
    let mut at = length - 6 * spans - 5;
    let mut span = || {
        at += 6;
        at - 5..at
    };
    let field = |(index, &count): (usize, &usize)| {
        let names = (0..count).map(|index| (format!("{index:03}"), ""));
        let option = |index: usize, span| FieldOption { id: format!("{index:03}"), index, span };
        let (question, whole) = (Question::choice(format!("q{index}"), "?", names), span());
        Field { question, span: whole, options: (0..count).map(|index| option(index, span())).collect() }
    };
    let fields = options.iter().enumerate().map(field).collect();
    Prompt { tokens: (0..length).map(|index| (index % VOCAB) as u32).collect(), fields, cut: 0 }
}

fn decide(seat: &Seat, prompt: &Prompt, part: usize) -> Decision {
    let width = seat.head.dims.hidden;
    let mut noise = Noise(11);
    let mut reading = Reading::new(seat, prompt);
    let mut left = prompt.tokens.len();
    while left > 0 {
        let rows = left.min(part);
        reading.rows(&noise.values(rows * width, 2.0)).unwrap();
        left -= rows;
    }
    reading.finish().unwrap()
}

#[test]
fn a_head_in_q8_0_is_its_values_to_the_bit() {
    let dims = Dims { hidden: 256, width: 64, feed_forward: 64, heads: 4, routing: 2, decoder: 2 };
    let prompt = prompt(700, &[3, 2, 5]);
    let stored = decide(&seat(dims, Some(true), 2), &prompt, 512);
    let values = decide(&seat(dims, Some(false), 2), &prompt, 512);
    let exact = decide(&seat(dims, None, 2), &prompt, 512);
    assert_eq!(stored, values);
    assert_ne!(stored, exact);
}

#[test]
fn the_most_options_in_any_company() {
    let dims = Dims { hidden: 32, width: 32, feed_forward: 32, heads: 16, routing: 1, decoder: 1 };
    let seat = seat(dims, None, 2);
    let prompt = prompt(2600, &[255, 1, 17]);
    let decision = decide(&seat, &prompt, 512);
    let sums = decision.answers.iter().map(|answer| answer.probabilities().iter().sum::<f64>());
    assert!(sums.clone().all(|sum| (sum - 1.0).abs() < 1e-12));
    assert_eq!(decision.answers[1].probabilities(), [1.0]);
    // Options are scored in parts of 16 here; which part one is in does not show.
    let mut turned = prompt.clone();
    turned.fields[0].options.rotate_left(100);
    assert_eq!(decide(&seat, &turned, 512).answers[0].logits.len(), 255);
    let difference = |a: &Decision, b: &Decision| {
        let pairs = a.answers[0].logits.iter().zip(&b.answers[0].logits);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    let turned = decide(&seat, &turned, 512);
    // The summary of a question adds its options in their order, in f32.
    assert!(difference(&decision, &turned) < 2e-5, "{}", difference(&decision, &turned));
}

#[test]
fn a_prompt_of_the_greatest_length() {
    // Weights over positions are rows of 64 KiB here.
    let dims = Dims { hidden: 32, width: 32, feed_forward: 32, heads: 4, routing: 2, decoder: 2 };
    let decision = decide(&seat(dims, None, 2), &prompt(16_384, &[3, 2]), 2048);
    assert_eq!(decision.answers.len(), 2);
}

#[test]
fn heads_without_layers() {
    let dims = Dims { hidden: 24, width: 8, feed_forward: 1, heads: 2, routing: 0, decoder: 0 };
    let decision = decide(&seat(dims, None, 1), &prompt(60, &[2]), 60);
    assert_eq!(decision.answers.len(), 1);
}

/// Seconds; of one thread those that it had a processor, so that a busy machine does not count.
fn now(threads: usize) -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let busy = std::fs::read_to_string("/proc/thread-self/schedstat").ok().filter(|_| threads == 1);
    let busy = busy.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    busy.map_or_else(|| START.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

#[test]
#[ignore = "measures the published size: 2 GB, and best in release"]
fn speed() {
    let dims = Dims { hidden: 4096, width: 1024, feed_forward: 4096, heads: 16, routing: 2, decoder: 4 };
    for threads in [1, 2] {
        let seat = seat(dims, None, threads);
        for (length, options) in
            [(1100, vec![2; 5]), (1973, vec![4, 3, 2]), (4000, vec![2; 5]), (4000, vec![140])]
        {
            let prompt = prompt(length, &options);
            let hidden = Noise(3).values(512 * dims.hidden, 2.0);
            let mut best = (f64::MAX, f64::MAX);
            for _ in 0..3 {
                let start = now(threads);
                let mut reading = Reading::new(&seat, &prompt);
                for at in (0..length).step_by(512) {
                    reading.rows(&hidden[..512.min(length - at) * dims.hidden]).unwrap();
                }
                let between = now(threads);
                reading.finish().unwrap();
                best = (best.0.min(between - start), best.1.min(now(threads) - between));
            }
            let (rows, rest) = (best.0 * 1e3, best.1 * 1e3);
            println!(
                "{threads} threads, n {length}, options {options:?}: rows {rows:.0} ms, rest {rest:.0} ms"
            );
        }
    }
}
