//! Loading with a progress bar.

use std::time::{Duration, Instant};

use bloomery_core::{Engine, Plan};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Failure;

/// Loads faster than this show no bar.
const PATIENCE: Duration = Duration::from_millis(200);

/// Loads a plan. A load that takes long shows a bar on stderr, where that is a terminal.
pub fn load(plan: Plan) -> Result<Engine, Failure> {
    let start = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    let engine = plan.load(|progress| {
        if progress.done == progress.total {
            if let Some(bar) = &bar {
                bar.finish_and_clear();
            }
        } else if start.elapsed() > PATIENCE {
            bar.get_or_insert_with(|| new_bar(progress.total.0)).set_position(progress.done.0);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(engine?)
}

fn new_bar(total: u64) -> ProgressBar {
    // indicatif's stderr target draws nothing where stderr is no terminal.
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("loading {bar:40} {bytes}/{total_bytes}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
