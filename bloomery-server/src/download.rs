//! A model of the Hugging Face hub, before it is loaded.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bloomery_core::Bytes;
use bloomery_core::hub::{Event, Transfer};

use crate::args::{HubOptions, Settings};
use crate::exit::Failure;

/// How often a download says how far it is.
const PROGRESS: Duration = Duration::from_secs(2);

/// Downloads the model that the settings name, if they name one, and puts its path there.
///
/// # Errors
/// Whatever is wrong with the name, the hub, the connection or the disk.
pub(crate) fn fetch(settings: &mut Settings) -> Result<(), Failure> {
    let Some(reference) = &settings.hub.reference else { return Ok(()) };
    let said = Mutex::new(Instant::now());
    let hub = settings.hub.hub()?.watch(move |event| log(event, &said));
    let path = hub.model(reference).map_err(|error| Failure::from(error).about(reference.repo()))?;
    settings.serve.model_path = path.display().to_string();
    settings.engine.model = Some(path);
    Ok(())
}

/// The models in the cache, for `--cache-list`.
///
/// # Errors
/// The cache cannot be read.
pub(crate) fn cached(variables: Vec<(String, String)>) -> Result<String, Failure> {
    let hub = HubOptions { variables, ..HubOptions::default() }.hub()?;
    let models = hub.cached()?;
    let head = format!("models in {}: {}\n", hub.cache().display(), models.len());
    let line = |text, (number, model): (usize, &bloomery_core::hub::CachedModel)| {
        format!("{text}{:4}. {} ({})\n", number + 1, model.name, model.bytes)
    };
    Ok(models.iter().enumerate().fold(head, line))
}

fn log(event: &Event<'_>, said: &Mutex<Instant>) {
    match event {
        Event::Transfer(moved) => {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.elapsed() > PROGRESS || moved.done == moved.total {
                *said = Instant::now();
                tracing::info!("downloading {}", Line(moved));
            }
        }
        Event::Checking { file } => tracing::info!("checking {file}"),
        Event::Waiting { file } => tracing::info!("waiting for another process that downloads {file}"),
        Event::Retrying { why, pause } => {
            tracing::warn!("{why}; trying again in {:.1} s", pause.as_secs_f32());
        }
        Event::Unreachable { why } => tracing::warn!("{why}; using what is in the cache"),
        _ => {}
    }
}

struct Line<'a>(&'a Transfer<'a>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transfer { file, number, files, done, total, rate, left, .. } = self.0;
        let percent = 100 * done.0 / total.0.max(1);
        write!(f, "{file}")?;
        if *files > 1 {
            write!(f, " ({number} of {files})")?;
        }
        write!(f, ": {percent} % ({done} of {total}), {}/s", Bytes(*rate as u64))?;
        match left.filter(|left| !left.is_zero()) {
            Some(left) => write!(f, ", {} s left", left.as_secs().max(1)),
            None => Ok(()),
        }
    }
}
