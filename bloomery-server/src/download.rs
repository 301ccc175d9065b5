//! A model of the Hugging Face hub, before it is loaded.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bloomery_core::hub::{Event, HubError, Reference};

use crate::args::{HubOptions, Settings};
use crate::exit::Failure;

/// How often a download says how far it is.
const PROGRESS: Duration = Duration::from_secs(2);

/// Downloads the model that the settings name, if they name one, and the head, and puts their paths there.
///
/// # Errors
/// Whatever is wrong with the name, the hub, the connection or the disk.
pub(crate) fn fetch(settings: &mut Settings) -> Result<(), Failure> {
    let (model, head) = (&settings.hub.reference, &settings.hub.head);
    if model.is_none() && head.is_none() {
        return Ok(());
    }
    let said = Mutex::new(Instant::now());
    let hub = settings.hub.hub()?.watch(move |event| log(event, &said));
    let about = |name: &Reference, error: HubError| Failure::from(error).about(name.repo());
    if let Some(head) = head {
        settings.engine.head = Some(hub.head(head).map_err(|error| about(head, error))?);
    }
    if let Some(model) = model {
        let path = hub.model(model).map_err(|error| about(model, error))?;
        settings.serve.model_path = path.display().to_string();
        settings.engine.model = Some(path);
    }
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
                tracing::info!("{event}");
            }
        }
        Event::Retrying { .. } | Event::Unreachable { .. } => tracing::warn!("{event}"),
        _ => tracing::info!("{event}"),
    }
}
