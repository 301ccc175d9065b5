//! The logits after every id of a list.

use std::path::PathBuf;

use bloomery_core::{Logits, Turn};
use bloomery_examples::{Failure, ModelArgs, Output, check_ids, load, read_ids};

use crate::text::rows_at_a_time;

/// Write the logits after every id: little-endian f32, one row of the vocabulary's size per id
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// JSON array of token ids, fed as they are: no BOS is added
    #[arg(long, value_name = "FILE")]
    ids: PathBuf,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Activations are not rounded, cached keys and values are f32
    #[arg(long)]
    exact: bool,
    /// Ids to feed at a time; the result does not depend on it [default: what keeps the logits below 64 MiB]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: Option<u32>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let ids = read_ids(&args.ids)?;
    let plan = args.model.plan_for(ids.len(), args.exact)?;
    let vocab = plan.model().vocab;
    check_ids(&ids, vocab)?;
    let engine = load(plan)?;
    let mut session = engine.session()?;
    let mut output = Output::create(&args.out)?;
    for part in ids.chunks(args.chunk.map_or(rows_at_a_time(vocab), |n| n as usize)) {
        let mut turn = [Turn::new(&mut session, part, Logits::All)];
        engine.step(&mut turn)?;
        output.write_f32s(turn[0].logits())?;
    }
    output.finish()
}
