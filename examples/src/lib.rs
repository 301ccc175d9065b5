//! What the command line programs share: exit codes, model flags, loading, files.
#![forbid(unsafe_code)]

mod args;
mod download;
mod exit;
mod ids;
mod load;
mod model;
mod output;
mod random;
mod split;
pub mod stats;

pub use args::{Alias, expand};
pub use exit::{Failure, Status, run};
pub use ids::{check_ids, read_ids};
pub use load::load;
pub use model::{CacheType, MODEL_ALIASES, ModelArgs};
pub use output::Output;
pub use random::Random;
pub use split::{Residency, SplitArgs};
