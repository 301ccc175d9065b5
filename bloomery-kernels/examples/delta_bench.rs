//! Gated delta nets of 16 key and 32 value heads of 128, as 30 layers have them: tokens a second of one row, of few and of a
//! prompt, without projections.
//!
//! `cargo run --release -p bloomery-kernels --example delta_bench [threads]`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::num::NonZeroUsize;
use std::time::Instant;

use bloomery_kernels::cpu::{
    Cpu, Delta, DeltaGate, DeltaInput, DeltaRows, DeltaRun, DeltaScratch, DeltaShape, DeltaWeights, Isa,
    Norm, Numerics, Pool,
};

const LAYERS: usize = 30;
const ROUNDS: usize = 7;

type Error = Box<dyn std::error::Error>;

fn noise(count: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Least seconds of a pass over all layers.
fn bench(cpu: &Cpu, delta: &Delta, states: &mut [f32], rows: usize) -> Result<f64, Error> {
    let shape = delta.shape();
    let heads = rows * shape.value_heads();
    let (qkv, z) = (noise(rows * shape.channels()), noise(rows * shape.width()));
    let (beta, alpha) = (noise(heads), noise(heads));
    let input = DeltaInput { qkv: DeltaRows::Joined(&qkv), z: &z, beta: &beta, alpha: &alpha };
    let mut out = vec![0.0; rows * shape.width()];
    let mut scratch = DeltaScratch::default();
    let runs = [DeltaRun { first: 0, rows, from: Some(0), saves: &[(rows - 1, 0)] }];
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for layer in states.chunks_exact_mut(shape.state_len()) {
            cpu.delta(delta, &input, &runs, layer, &mut out, &mut scratch)?;
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn main() -> Result<(), Error> {
    let threads = std::env::args().nth(1).map_or(Ok(1), |text| text.parse())?;
    let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
    let shape = DeltaShape::new(16, 32, 128, 4)?;
    let (conv, gain) = (noise(shape.channels() * 4), vec![1.0; 128]);
    let (decay, dt) = (vec![-0.5; 32], vec![0.1; 32]);
    let norm = Norm { gain: &gain, eps: 1e-6 };
    let (bound, gate) = (None, DeltaGate::Silu);
    let weights = DeltaWeights { conv: &conv, decay: &decay, dt_bias: &dt, norm, bound, gate };
    let delta = Delta::new(shape, &weights)?;
    let mut states = vec![0.0; LAYERS * shape.state_len()];
    // The plain form asks the C library for every fused product where the target has none: minutes.
    for isa in Isa::available().filter(|&isa| isa > Isa::Scalar) {
        let cpu = Cpu::new(Pool::new(threads), isa, Numerics::Fast);
        for rows in [1, 4, 64, 512] {
            let seconds = bench(&cpu, &delta, &mut states, rows)?;
            let bytes = 8 * LAYERS * (shape.state_len() - 3 * shape.channels());
            println!(
                "{isa:?}, {threads} threads, {rows} rows: {:.0} tokens/s, {:.2} us a row and layer, {:.1} GB/s of state",
                rows as f64 / seconds,
                seconds * 1e6 / (rows * LAYERS) as f64,
                bytes as f64 * rows as f64 / seconds / 1e9,
            );
        }
    }
    Ok(())
}
