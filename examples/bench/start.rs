//! How long a model takes to start.

use std::io::{self, Write};
use std::time::Instant;

use bloomery_core::Context;
use bloomery_examples::stats::median;
use bloomery_examples::{Failure, ModelArgs};

use crate::args::Args;
use crate::file_name;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "| model | plan ms | load ms | first token ms |")?;
    writeln!(out, "|---|---:|---:|---:|")?;
    for model in args.models() {
        let starts = (0..args.repetitions).map(|_| start(args, &model)).collect::<Result<Vec<_>, _>>()?;
        let [plan, load, first] =
            [0, 1, 2].map(|part| median(&starts.iter().map(|start| start[part]).collect::<Vec<_>>()));
        writeln!(out, "| {} | {plan:.1} | {load:.1} | {first:.1} |", file_name(&model))?;
        out.flush()?;
    }
    Ok(())
}

/// Milliseconds until the plan is made, then until weights are loaded, then until the first token is computed.
fn start(args: &Args, model: &ModelArgs) -> Result<[f64; 3], Failure> {
    let about = |failure: Failure| failure.about(model.name());
    let mut last = Instant::now();
    let mut lap = || {
        let now = Instant::now();
        1e3 * (now - std::mem::replace(&mut last, now)).as_secs_f64()
    };
    let builder = model.builder()?.context(Context::Tokens(args.context()));
    let plan = builder.plan().map_err(|error| about(error.into()))?;
    let planned = lap();
    let engine = plan.load(|_| {}).map_err(|error| about(error.into()))?;
    let loaded = lap();
    engine.session()?.prefill(&[0])?;
    Ok([planned, loaded, lap()])
}
