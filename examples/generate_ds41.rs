//! DeepSeek-V4.1-Flash, ids in and greedy ids out: `generate_ds41 -m FILE [-md FILE] --ids FILE.json [-n N] [--place WORD]` prints a JSON array,
//! and on stderr what is where and how fast it was.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bloomery_core::Params;
use bloomery_examples::{Failure, MODEL_ALIASES, ModelArgs, Status, check_ids, load, read_ids, run};
use clap::Parser;

/// The architectures that this is about.
const ARCHITECTURES: [&str; 2] = ["deepseek41", "deepseek4"];

/// Continue token ids with the likeliest ones, on a DeepSeek-V4 or V4.1. Control tokens do not end the continuation.
#[derive(Debug, Parser)]
#[command(name = "generate_ds41", version)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// JSON array of token ids, fed as they are: no BOS is added
    #[arg(long, value_name = "FILE")]
    ids: PathBuf,
    /// Ids to generate
    #[arg(short = 'n', long, alias = "n-predict", value_name = "N", default_value_t = 32)]
    predict: usize,
    /// Activations are not rounded, cached keys and values are f32
    #[arg(long)]
    exact: bool,
}

fn main() -> ExitCode {
    run(&MODEL_ALIASES, generate)
}

fn generate(args: Args) -> Result<(), Failure> {
    let ids = read_ids(&args.ids)?;
    let plan = args.model.plan_for(ids.len().saturating_add(args.predict), args.exact)?;
    let found = &plan.model().architecture;
    if !ARCHITECTURES.contains(&found.as_str()) {
        let message = format!("the model is a {found}; this program runs {}", ARCHITECTURES.join(" and "));
        return Err(Failure::new(Status::NoInput, message));
    }
    check_ids(&ids, plan.model().vocab)?;
    let facts = plan.to_string();
    let engine = load(plan)?;
    writeln!(io::stderr(), "{facts}")?;
    let mut session = engine.session()?;
    let params = Params { max_tokens: Some(args.predict), ignore_end: true, ..Params::greedy() };
    let start = Instant::now();
    let mut first = None;
    let mut generated = Vec::with_capacity(args.predict);
    let mut generation = session.generate_tokens(&ids, &params)?;
    for piece in generation.by_ref() {
        generated.extend(piece?.token);
        first.get_or_insert_with(|| start.elapsed());
    }
    let timings = generation.timings();
    writeln!(io::stdout(), "{}", serde_json::json!(generated))?;
    if let Some(prompt) = first {
        writeln!(io::stderr(), "prompt: {} tokens, {:.2} tokens/s", ids.len(), rate(ids.len(), prompt))?;
        let (steps, rest) = (generated.len().saturating_sub(1), start.elapsed().saturating_sub(prompt));
        writeln!(io::stderr(), "generation: {} tokens, {:.2} tokens/s", generated.len(), rate(steps, rest))?;
    }
    if timings.drafted > 0 {
        writeln!(io::stderr(), "guesses: {} of {} were right", timings.accepted, timings.drafted)?;
    }
    Ok(())
}

/// Tokens of a second.
fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}
