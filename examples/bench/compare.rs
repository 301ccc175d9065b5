//! Side by side: a round of ours, a round of theirs, and so on, so that both meet the same noise.

use std::io::{self, Write};
use std::path::Path;

use bloomery_core::Placement;
use bloomery_examples::stats::median;
use bloomery_examples::{CacheType, Failure, ModelArgs, Status};

use crate::args::Args;
use crate::file_name;
use crate::ours::Runner;
use crate::test::Test;
use crate::theirs::Theirs;

pub(crate) fn run(args: &Args, program: &Path) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "| model | on | test | bloomery t/s | llama.cpp t/s | ratio | GB/s |")?;
    writeln!(out, "|---|---|---|---:|---:|---:|---:|")?;
    let mut low = Vec::new();
    for model in args.models() {
        let mut runner = Runner::new(args, &model)?;
        let theirs = theirs(args, program, &model, runner.threads())?;
        let (name, place) = (file_name(&model), runner.place().to_owned());
        for test in args.tests() {
            let (ours, theirs) = rounds(&mut runner, &theirs, test, args.repetitions)?;
            let gigabytes = runner.gigabytes(test, ours);
            let Some(theirs) = theirs else {
                writeln!(out, "| {name} | {place} | {test} | {ours:.2} | | | {gigabytes} |")?;
                continue;
            };
            let ratio = ours / theirs;
            writeln!(
                out,
                "| {name} | {place} | {test} | {ours:.2} | {theirs:.2} | {ratio:.2} | {gigabytes} |"
            )?;
            out.flush()?;
            if args.min_ratio.is_some_and(|least| ratio < least) {
                low.push(format!("{name} {test} {ratio:.2}"));
            }
        }
    }
    match low.is_empty() {
        true => Ok(()),
        false => {
            let least = args.min_ratio.unwrap_or_default();
            Err(Failure::new(Status::Failed, format!("below the ratio of {least}: {}", low.join(", "))))
        }
    }
}

/// Medians of both sides.
fn rounds(
    runner: &mut Runner,
    theirs: &Theirs<'_>,
    test: Test,
    count: u32,
) -> Result<(f64, Option<f64>), Failure> {
    runner.warm_up(test)?;
    let (mut our_rates, mut their_rates) = (Vec::new(), Vec::new());
    for _ in 0..count {
        our_rates.push(runner.rate(test)?);
        their_rates.extend(theirs.rate(test)?);
    }
    Ok((median(&our_rates), (!their_rates.is_empty()).then(|| median(&their_rates))))
}

fn theirs<'a>(
    args: &Args,
    program: &'a Path,
    model: &ModelArgs,
    threads: usize,
) -> Result<Theirs<'a>, Failure> {
    let Some(file) = model.model.clone() else {
        return Err(Failure::new(Status::Usage, "--against needs a model file: -m FILE"));
    };
    let extra = args.against_args.as_deref().unwrap_or_default();
    Ok(Theirs {
        program,
        model: file,
        threads,
        cache: model.cache()?.unwrap_or(CacheType::F16),
        ubatch: args.ubatch_size,
        cpu_only: model.placement()? == Placement::Cpu,
        extra: extra.split_whitespace().map(str::to_owned).collect(),
    })
}
