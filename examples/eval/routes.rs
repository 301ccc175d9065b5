//! The experts chosen for every id of a list.

use std::io::{self, Write};
use std::path::PathBuf;

use bloomery_core::def::Ffn;
use bloomery_core::{Engine, EngineError, Logits, Turn};
use bloomery_examples::{Failure, ModelArgs, check_ids, load, read_ids};
use serde_json::{Map, Value, json};

use crate::text::rows_at_a_time;

/// Print the chosen experts as JSON: {"layer": [[experts of id 0], [experts of id 1], ...]}, likeliest first
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// JSON array of token ids, fed as they are: no BOS is added
    #[arg(long, value_name = "FILE")]
    ids: PathBuf,
    /// Activations are not rounded, cached keys and values are f32
    #[arg(long)]
    exact: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let ids = read_ids(&args.ids)?;
    let plan = args.model.plan_for(ids.len(), args.exact)?;
    check_ids(&ids, plan.model().vocab)?;
    let engine = load(plan)?;
    let layers: Map<String, Value> = routes(&engine, &ids)?
        .into_iter()
        .map(|routed| (routed.layer.to_string(), json!(routed.rows)))
        .collect();
    writeln!(io::stdout(), "{}", Value::Object(layers))?;
    Ok(())
}

/// The experts that one layer chose.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Routed {
    /// The layer's index in the model.
    pub(crate) layer: usize,
    /// Experts of every id.
    pub(crate) rows: Vec<Vec<u32>>,
}

/// The choices of every routed layer. Empty for dense models.
pub(crate) fn routes(engine: &Engine, ids: &[u32]) -> Result<Vec<Routed>, EngineError> {
    let layers = engine.model().layers.iter().enumerate();
    let mut routes: Vec<Routed> = layers
        .filter(|(_, layer)| matches!(layer.ffn, Ffn::Moe(_)))
        .map(|(layer, _)| Routed { layer, rows: Vec::with_capacity(ids.len()) })
        .collect();
    let mut session = engine.session()?;
    for part in ids.chunks(rows_at_a_time(engine.model().vocab)) {
        let mut turn = [Turn::new(&mut session, part, Logits::All).traced()];
        engine.step(&mut turn)?;
        for (routed, (used, experts)) in routes.iter_mut().zip(turn[0].routes()) {
            routed.rows.extend(experts.chunks_exact((*used).max(1)).map(<[u32]>::to_vec));
        }
    }
    Ok(routes)
}
