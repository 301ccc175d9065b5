//! The gated delta net on a card: time of a layer, in graphs of as many launches as a model has such layers, each with other
//! weights and states, so that none come from the second-level cache where a model's would not.
//!
//! `cargo run --release -p bloomery-kernels --example cuda_delta_bench`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use bloomery_kernels::cuda::{
    CudaError, Delta, DeltaForm, DeltaShape, Device, DeviceInfo, Launch, Span, Stream, holders,
};

const LAYERS: usize = 30;
/// Qwen3.6-35B-A3B.
const SHAPE: DeltaShape =
    DeltaShape { key_heads: 16, value_heads: 32, key_dim: 128, value_dim: 128, taps: 4 };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(0)?;
    println!("{:?}", device.info());
    println!("{:?}", holders(&device));
    let mut bench = Bench { stream: device.stream()?, info: device.info().clone(), random: 1 };
    for rows in [1, 2, 4, 8, 16, 32] {
        bench.layer("rows, a sequence each", &vec![1; rows], false)?;
    }
    for rows in [2, 4, 8] {
        bench.layer("rows of a sequence, all saved", &[rows], true)?;
    }
    bench.layer("sequences of 4 rows, all saved", &[4; 8], true)?;
    for rows in [8, 32, 33, 64, 512, 2048, 4096] {
        bench.layer("rows of a sequence", &[rows], false)?;
    }
    bench.layer("sequences of 512 rows", &[512; 8], false)?;
    Ok(())
}

struct Bench {
    stream: Stream,
    info: DeviceInfo,
    random: u64,
}

impl Bench {
    /// About uniform in -0.5 to 0.5.
    fn floats(&mut self, len: usize) -> Result<Span<f32>, CudaError> {
        let next = |random: &mut u64| {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*random >> 40) as f32 / f32::from(u16::MAX) / 256.0 - 0.5
        };
        let values: Vec<f32> = (0..len).map(|_| next(&mut self.random)).collect();
        let span = self.empty(len)?;
        self.stream.upload(&values, &span)?;
        Ok(span)
    }

    fn empty<T: bytemuck::Pod>(&self, len: usize) -> Result<Span<T>, CudaError> {
        Ok(self.stream.device().alloc(len)?.span())
    }

    fn words(&mut self, values: &[u32]) -> Result<Span<u32>, CudaError> {
        let span = self.empty(values.len())?;
        self.stream.upload(values, &span)?;
        Ok(span)
    }

    /// Sequences of `counts` rows; their last rows' states are saved in place, and those of all rows in slots of their own if
    /// asked for.
    fn layer(&mut self, name: &str, counts: &[usize], all: bool) -> Result<(), CudaError> {
        let (rows, sequences) = (counts.iter().sum::<usize>(), counts.len());
        let mut starts = vec![0_u32];
        let mut saves = vec![u32::MAX; rows];
        for (sequence, count) in counts.iter().enumerate() {
            let end = starts[sequence] + *count as u32;
            saves[end as usize - 1] = sequence as u32;
            starts.push(end);
        }
        let mut slots = sequences;
        if all {
            for save in saves.iter_mut().filter(|save| **save == u32::MAX) {
                *save = slots as u32;
                slots += 1;
            }
        }
        let from: Vec<u32> = (0..sequences as u32).collect();
        let op = Delta {
            shape: SHAPE,
            form: DeltaForm::Heads {
                qkv: self.floats(rows * SHAPE.channels())?,
                conv: self.empty(0)?,
                sigmoid: false,
            },
            z: self.floats(rows * SHAPE.outputs())?,
            beta: self.floats(rows * SHAPE.value_heads)?,
            alpha: self.floats(rows * SHAPE.value_heads)?,
            a: self.floats(SHAPE.value_heads)?,
            dt: self.floats(SHAPE.value_heads)?,
            norm: (self.floats(SHAPE.value_dim)?, 1e-6),
            out: self.empty(rows * SHAPE.outputs())?,
            states: self.empty(0)?,
            from: self.words(&from)?,
            starts: self.words(&starts)?,
            saves: self.words(&saves)?,
            scratch: self.empty(Delta::scratch_len(&SHAPE, rows, false))?,
            readers: self.empty(sequences * SHAPE.key_heads)?,
        };
        let mut ops = Vec::new();
        for _ in 0..LAYERS {
            let conv = self.floats(SHAPE.taps * SHAPE.channels())?;
            let states = self.empty(slots * SHAPE.state_len())?;
            let DeltaForm::Heads { qkv, sigmoid, .. } = op.form.clone() else { continue };
            let form = DeltaForm::Heads { qkv, conv, sigmoid };
            ops.push(Delta { form, states, ..op.clone() }.launches(&self.info)?);
        }
        let written = if all { rows - sequences } else { 0 } * 4 * SHAPE.state_len();
        let label = format!("{} x {name}", if sequences > 1 { sequences } else { rows });
        self.time(&label, &ops, written)
    }

    /// Microseconds of each of the `ops`, one after the other in a graph, and of each of its kernels.
    fn time(&mut self, name: &str, ops: &[Vec<Launch>], more: usize) -> Result<(), CudaError> {
        let mut registers: Vec<u32> = Vec::new();
        for launch in &ops[0] {
            registers.push(launch.resources(self.stream.device())?.0);
        }
        let least = self.graph(ops.iter().flatten())? / ops.len() as f64;
        let bytes = ops[0].iter().map(Launch::bytes).sum::<u64>() + more as u64;
        let speed = bytes as f64 / least / 1e3;
        print!("{name:40} {least:8.2} us {speed:8.1} GB/s  {registers:?} registers");
        if ops[0].len() > 1 {
            for i in 0..ops[0].len() {
                let one = self.graph(ops.iter().map(|launches| &launches[i]))? / ops.len() as f64;
                print!("  {} {one:.1}", ops[0][i].name());
            }
        }
        println!();
        Ok(())
    }

    /// The least time of some runs of a graph.
    fn graph<'a>(&mut self, launches: impl Iterator<Item = &'a Launch>) -> Result<f64, CudaError> {
        let launches: Vec<&Launch> = launches.collect();
        let mut graph =
            self.stream.capture(|stream| launches.iter().try_for_each(|launch| stream.launch(launch)))?;
        let mut least = f64::INFINITY;
        for _ in 0..6 {
            let start = self.stream.event()?;
            graph.launch()?;
            least = least.min(self.stream.event()?.micros_since(&start)?);
        }
        Ok(least)
    }
}
