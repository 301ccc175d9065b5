//! Ids in, greedy ids out: `generate -m FILE --ids FILE.json [-n N]` prints a JSON array.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use bloomery_core::Params;
use bloomery_examples::{Failure, MODEL_ALIASES, ModelArgs, check_ids, load, read_ids, run};
use clap::Parser;

/// Continue token ids with the likeliest ones. Control tokens do not end the continuation.
#[derive(Debug, Parser)]
#[command(name = "generate", version)]
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
    check_ids(&ids, plan.model().vocab)?;
    let engine = load(plan)?;
    let mut session = engine.session()?;
    let params = Params { max_tokens: Some(args.predict), ignore_end: true, ..Params::greedy() };
    let mut generated = Vec::with_capacity(args.predict);
    for piece in session.generate_tokens(&ids, &params)? {
        generated.extend(piece?.token);
    }
    writeln!(io::stdout(), "{}", serde_json::json!(generated))?;
    Ok(())
}
