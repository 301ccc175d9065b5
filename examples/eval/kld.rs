//! Divergence of one run from another.

use std::io::{self, Write};
use std::path::PathBuf;

use bloomery_core::{Engine, Session};
use bloomery_examples::stats::log_softmax;
use bloomery_examples::{Failure, ModelArgs, Output, Status, check_ids, load};

use crate::base::{self, Base};
use crate::divergence::Divergence;
use crate::perplexity::{TextArgs, missing_text};
use crate::text::Chunks;

/// Save the distributions of a run over a text, or compare a run with saved ones
///
/// `kld -m BASE.gguf -f TEXT --save FILE` writes 2 bytes per scored token and vocabulary entry; `kld -m OTHER.gguf
/// --base FILE` runs the same tokens and prints how far its distributions are from the saved ones.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    text: TextArgs,
    /// Save the distributions of this run
    #[arg(long, value_name = "FILE", required_unless_present = "base")]
    save: Option<PathBuf>,
    /// Compare this run with saved distributions
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "file"])]
    base: Option<PathBuf>,
    /// Activations are not rounded, cached keys and values are f32
    #[arg(long)]
    exact: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match (&args.base, &args.save) {
        (Some(path), _) => compare(args, Base::open(path)?),
        (None, Some(path)) => save(args, path),
        (None, None) => Err(Failure::new(Status::Usage, "--save FILE or --base FILE is needed")),
    }
}

fn save(args: &Args, path: &std::path::Path) -> Result<(), Failure> {
    let file = args.text.file.as_ref().ok_or_else(missing_text)?;
    let context = args.text.ctx_size as usize;
    let (engine, mut session) = start(args, context)?;
    let chunks = Chunks::read(file, engine.tokenizer(), context, args.text.chunk_limit())?;
    let mut output = Output::create(path)?;
    base::write_header(&mut output, engine.model().vocab, &chunks)?;
    for chunk in 0..chunks.count() {
        chunks.score(&engine, &mut session, chunk, |logits, _| {
            output.write(&base::encode(&log_softmax(logits)))
        })?;
    }
    output.finish()
}

fn compare(args: &Args, mut base: Base) -> Result<(), Failure> {
    let (engine, mut session) = start(args, base.chunks.context)?;
    let vocab = engine.model().vocab;
    if vocab != base.vocab {
        let message = format!("the base has a vocabulary of {}, the model one of {vocab}", base.vocab);
        return Err(Failure::new(Status::Data, message));
    }
    let chunks = base.chunks.clone();
    check_ids(&chunks.tokens, vocab)?;
    let mut divergence = Divergence::default();
    for chunk in 0..chunks.count().min(args.text.chunk_limit().unwrap_or(usize::MAX)) {
        chunks.score(&engine, &mut session, chunk, |logits, target| {
            divergence.add(&base.next()?, &log_softmax(logits), target);
            Ok(())
        })?;
    }
    write!(io::stdout(), "{divergence}")?;
    Ok(())
}

fn start(args: &Args, context: usize) -> Result<(Engine, Session), Failure> {
    let engine = load(args.model.plan_for(context, args.exact)?)?;
    let session = engine.session()?;
    Ok((engine, session))
}
