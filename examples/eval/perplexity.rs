//! Perplexity of a text.

use std::io::{self, Write};
use std::path::PathBuf;

use bloomery_examples::stats::log_softmax;
use bloomery_examples::{Failure, ModelArgs, load};

use crate::text::{Chunks, Likelihood};

/// Perplexity of a text by llama-perplexity's method: the running value after every chunk, then the estimate
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    text: TextArgs,
    /// Activations are not rounded, cached keys and values are f32
    #[arg(long)]
    exact: bool,
}

/// The text to score and how to cut it.
#[derive(Debug, clap::Args)]
pub(crate) struct TextArgs {
    /// UTF-8 text
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) file: Option<PathBuf>,
    /// Tokens of a chunk
    #[arg(short, long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(3..), allow_negative_numbers = true)]
    pub(crate) ctx_size: u32,
    /// Chunks to score [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) chunks: Option<u32>,
}

impl TextArgs {
    pub(crate) fn chunk_limit(&self) -> Option<usize> {
        self.chunks.map(|n| n as usize)
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let file = args.text.file.as_ref().ok_or_else(missing_text)?;
    let context = args.text.ctx_size as usize;
    let engine = load(args.model.plan_for(context, args.exact)?)?;
    let chunks = Chunks::read(file, engine.tokenizer(), context, args.text.chunk_limit())?;
    let mut session = engine.session()?;
    let mut likelihood = Likelihood::default();
    let mut out = io::stdout().lock();
    for chunk in 0..chunks.count() {
        chunks.score(&engine, &mut session, chunk, |logits, target| {
            likelihood.add(log_softmax(logits)[target as usize]);
            Ok(())
        })?;
        write!(out, "[{}]{:.4},", chunk + 1, likelihood.perplexity())?;
        out.flush()?;
    }
    writeln!(out, "\nFinal estimate: PPL = {:.4} +/- {:.5}", likelihood.perplexity(), likelihood.error())?;
    Ok(())
}

pub(crate) fn missing_text() -> Failure {
    Failure::new(bloomery_examples::Status::Usage, "a text is needed: --file TEXT")
}
