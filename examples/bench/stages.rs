//! Where the time of a step goes on a card.

use std::io::Write;

use bloomery_core::StageTime;
use bloomery_examples::Failure;

use crate::ours::Runner;
use crate::test::Test;

/// Rounds, of which the fastest of every stage counts.
const ROUNDS: usize = 5;

/// A table of every test's stages; nothing on the CPU.
pub(crate) fn write(out: &mut impl Write, runner: &mut Runner, tests: &[Test]) -> Result<(), Failure> {
    for &test in tests {
        let mut best = runner.stages(test)?;
        if best.is_empty() {
            continue;
        }
        for _ in 1..ROUNDS {
            for (best, now) in best.iter_mut().zip(runner.stages(test)?) {
                best.micros = best.micros.min(now.micros);
            }
        }
        writeln!(
            out,
            "\n| {test} | stages | kernels | us | us each | GB/s |\n|---|---:|---:|---:|---:|---:|"
        )?;
        for Sum { name, stages, kernels, micros, bytes } in sums(&best) {
            let (each, rate) = (micros / stages as f64, bytes as f64 / micros / 1e3);
            writeln!(out, "| {name} | {stages} | {kernels} | {micros:.1} | {each:.2} | {rate:.0} |")?;
        }
        out.flush()?;
    }
    Ok(())
}

/// All stages of a name.
#[derive(Debug, Clone, PartialEq)]
struct Sum {
    name: &'static str,
    stages: usize,
    kernels: usize,
    micros: f64,
    bytes: u64,
}

/// By name, in the order of their first, and all together.
fn sums(stages: &[StageTime]) -> Vec<Sum> {
    let empty = |name| Sum { name, stages: 0, kernels: 0, micros: 0.0, bytes: 0 };
    let mut sums: Vec<Sum> = Vec::new();
    let mut all = empty("all");
    for stage in stages {
        let index = sums.iter().position(|sum| sum.name == stage.name).unwrap_or_else(|| {
            sums.push(empty(stage.name));
            sums.len() - 1
        });
        for sum in [&mut sums[index], &mut all] {
            sum.stages += 1;
            sum.kernels += stage.kernels;
            sum.micros += stage.micros;
            sum.bytes += stage.bytes;
        }
    }
    sums.push(all);
    sums
}
