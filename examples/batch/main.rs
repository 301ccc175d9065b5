//! Many prompts from a JSONL file, several in every step: `batch IN.jsonl OUT.jsonl`. A line of the input is
//! `{"id": "a", "prompt": "...", "system": "...", "max_tokens": 64}`, the last two as you like. Results have the order of
//! the input. A batch that was interrupted goes on where it was when it is started again.
#![forbid(unsafe_code)]

mod answers;
mod question;
mod results;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use answers::{Answer, Answers};
use bloomery_core::scheduler::{Job, Scheduler, SchedulerOptions, Sink};
use bloomery_core::{Context, Params};
use bloomery_examples::{Failure, MODEL_ALIASES, ModelArgs, Status, load, run};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use question::Question;
use results::Results;

/// Answer every prompt of a JSONL file.
#[derive(Debug, Parser)]
#[command(name = "batch", version)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Prompts, one JSON object a line
    input: PathBuf,
    /// Results; ids that are there already are not answered again
    output: PathBuf,
    /// Prompts answered at the same time
    #[arg(long, value_name = "N", default_value_t = 8)]
    parallel: usize,
    /// Positions of a prompt and its answer
    #[arg(short, long, value_name = "N", default_value_t = 1024)]
    ctx_size: usize,
    /// Tokens of an answer whose line does not say
    #[arg(short = 'n', long, value_name = "N", default_value_t = 256)]
    predict: usize,
    /// Temperature [default: as the file recommends]
    #[arg(long, value_name = "T")]
    temp: Option<f32>,
    /// Seed of every answer
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    seed: u32,
}

fn main() -> ExitCode {
    run(&MODEL_ALIASES, batch)
}

fn batch(args: Args) -> Result<(), Failure> {
    let shown = args.input.display();
    let unreadable = |error: io::Error| Failure::new(Status::NoInput, format!("{shown}: {error}"));
    let input = File::open(&args.input).map_err(unreadable)?;
    let bar = progress_bar(input.metadata().map_err(unreadable)?.len());
    let mut results = Results::open(&args.output)?;
    let (scheduler, params) = start(&args)?;

    let (mut answers, mut seen, mut bad) = (Answers::new(), HashSet::new(), 0);
    for (number, line) in (1..).zip(BufReader::new(input).split(b'\n')) {
        let line = line.map_err(unreadable)?;
        let bytes = line.len() as u64 + 1;
        let submitted =
            Question::parse(&line, &mut seen).and_then(|question| match results.has(&question.id) {
                true => Ok(None),
                false => submit(&scheduler, question, &params, answers.sink(number)).map(Some),
            });
        match submitted {
            Ok(Some(id)) => answers.push(Answer::new(number, bytes, id)),
            Ok(None) => bar.inc(bytes),
            Err(failure) if failure.status == Status::Data => {
                bad += 1;
                bar.inc(bytes);
                bar.suspend(|| writeln!(io::stderr(), "batch: {shown}, line {number}: {}", failure.message))?;
            }
            Err(failure) => return Err(failure),
        }
        // Ended answers wait for older ones. With no more than there are slots, a long one would leave slots idle.
        while answers.len() >= scheduler.options().queue_depth {
            advance(&mut answers, &mut results, &bar)?;
        }
    }
    while answers.len() > 0 {
        advance(&mut answers, &mut results, &bar)?;
    }
    bar.finish_and_clear();
    let counters = scheduler.status().counters;
    let streams = counters.busy_slots as f64 / counters.steps.max(1) as f64;
    writeln!(io::stdout(), "{} tokens, {streams:.1} answers in a step", counters.generated_tokens)?;
    if bad > 0 { Err(Failure::new(Status::Data, format!("{shown}: bad lines: {bad}"))) } else { Ok(()) }
}

fn progress_bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent} %, {eta} left");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn start(args: &Args) -> Result<(Scheduler, Params), Failure> {
    let slots = args.parallel;
    let builder = args.model.builder()?.sessions(slots).context(Context::Tokens(args.ctx_size));
    let plan = builder.plan().map_err(|error| Failure::from(error).about(args.model.name()))?;
    let engine = load(plan)?;
    let mut params = engine.default_params();
    params.max_tokens = Some(args.predict);
    // A sampler of its own for every answer: none depends on what runs beside it.
    params.sampling.seed = args.seed.into();
    params.sampling.temperature = args.temp.unwrap_or(params.sampling.temperature);
    let options = SchedulerOptions { slots, queue_depth: slots.saturating_mul(8) };
    Ok((Scheduler::new(engine, options)?, params))
}

/// Queues a question's job and returns its id.
fn submit(
    scheduler: &Scheduler,
    question: Question,
    params: &Params,
    sink: Box<dyn Sink>,
) -> Result<String, Failure> {
    let prompt = question.tokens(scheduler.engine())?;
    scheduler.submit(Job::new(prompt, question.params(params), sink))?;
    Ok(question.id)
}

/// Waits for something to happen, and writes the oldest answer if it has ended.
fn advance(answers: &mut Answers, results: &mut Results, bar: &ProgressBar) -> Result<(), Failure> {
    if let Some(answer) = answers.next()? {
        answer.record().iter().try_for_each(|record| results.write(record))?;
        bar.inc(answer.bytes);
    }
    Ok(())
}
