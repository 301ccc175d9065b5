//! `eval`: how good the numbers of a model are.
#![forbid(unsafe_code)]

mod base;
mod divergence;
mod fixtures;
mod golden;
mod kld;
mod logits;
mod perplexity;
mod routes;
mod text;

use std::process::ExitCode;

use bloomery_examples::{Failure, MODEL_ALIASES, run};
use clap::{Parser, Subcommand};

const CODES: &str = "Exit codes (sysexits.h): 0 done; 1 fixtures disagree; 64 wrong usage; 65 ids or texts that make no sense; \
66 a file is missing, broken or not supported; 69 the model does not fit this machine; 70 the engine failed; \
74 an output cannot be written. Output files are whole or not there.";

/// Logits, expert routes, perplexity and divergence of GGUF models.
#[derive(Debug, Parser)]
#[command(name = "eval", version, after_help = CODES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Logits(logits::Args),
    Routes(routes::Args),
    Perplexity(perplexity::Args),
    Kld(kld::Args),
    Fixtures(fixtures::Args),
}

fn main() -> ExitCode {
    run(&MODEL_ALIASES, eval)
}

fn eval(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Logits(args) => logits::run(&args),
        Command::Routes(args) => routes::run(&args),
        Command::Perplexity(args) => perplexity::run(&args),
        Command::Kld(args) => kld::run(&args),
        Command::Fixtures(args) => fixtures::run(&args),
    }
}
