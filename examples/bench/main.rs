//! `bench`: tokens per second, alone or side by side with llama-bench.
#![forbid(unsafe_code)]

mod args;
mod compare;
mod ours;
mod stages;
mod start;
mod test;
mod theirs;

use std::io::{self, Write};
use std::process::ExitCode;

use bloomery_core::Bytes;
use bloomery_examples::stats::{deviation, mean};
use bloomery_examples::{Failure, ModelArgs, run};
use bloomery_gguf::Gguf;

use args::Args;
use ours::Runner;

fn main() -> ExitCode {
    run(&args::ALIASES, bench)
}

fn bench(args: Args) -> Result<(), Failure> {
    if args.load {
        return start::run(&args);
    }
    if let Some(program) = &args.against {
        return compare::run(&args, program);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "| model | size | params | on | test | t/s | GB/s |")?;
    writeln!(out, "|---|---:|---:|---|---|---:|---:|")?;
    for model in args.models() {
        let facts = Facts::read(&model)?;
        let mut runner = Runner::new(&args, &model)?;
        for test in args.tests() {
            runner.warm_up(test)?;
            let rates = (0..args.repetitions).map(|_| runner.rate(test)).collect::<Result<Vec<f64>, _>>()?;
            let gigabytes = runner.gigabytes(test, mean(&rates));
            let (rate, spread) = (mean(&rates), deviation(&rates));
            let (Facts { name, size, params }, place) = (&facts, runner.place());
            writeln!(
                out,
                "| {name} | {size} | {params} | {place} | {test} | {rate:.2} ± {spread:.2} | {gigabytes} |"
            )?;
            if args.experts {
                writeln!(out, "{}", runner.travelled()?)?;
            }
            out.flush()?;
        }
        if args.stages {
            stages::write(&mut out, &mut runner, &args.tests())?;
        }
    }
    Ok(())
}

/// What the table says about a file.
struct Facts {
    name: String,
    size: String,
    params: String,
}

impl Facts {
    fn read(model: &ModelArgs) -> Result<Self, Failure> {
        let Some(path) = &model.model else {
            return Ok(Self { name: "demo".to_owned(), size: String::new(), params: String::new() });
        };
        let gguf = Gguf::open(path)
            .map_err(|error| Failure::from(bloomery_core::LoadError::from(error)).about(path.display()))?;
        let values: u64 = gguf.tensors().map(|tensor| tensor.elements()).sum();
        Ok(Self {
            name: file_name(model),
            size: Bytes(gguf.tensors().map(|tensor| tensor.bytes()).sum()).to_string(),
            params: format!("{:.2} M", values as f64 / 1e6),
        })
    }
}

/// The file's name without its ending.
fn file_name(model: &ModelArgs) -> String {
    let stem = model.model.as_ref().and_then(|path| path.file_stem());
    stem.map_or_else(|| "demo".to_owned(), |stem| stem.to_string_lossy().into_owned())
}
