//! `POST /slots/{id}`: slots to files and back.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomery_core::{EngineError, Snapshot};
use serde_json::json;
use tokio::sync::oneshot;

use super::fields::{self, Fields};
use super::ids;
use super::prompt::off_thread;
use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::http::{Reply, Request};

/// Saves, restores or erases the slot `id`.
pub(super) async fn act(app: &Arc<App>, id: &str, request: &Request) -> Result<Reply, ApiError> {
    let Some(directory) = app.options.slot_save_path.clone() else {
        return Err(ApiError::not_supported(
            "This server does not support slots action. Start it with `--slot-save-path`",
        ));
    };
    let slots = app.scheduler.options().slots;
    let slot: usize = id.parse().map_err(|_| ApiError::invalid(format!("Invalid slot ID: {id}")))?;
    if slot >= slots {
        return Err(EngineError::NoSuchSlot { slot, slots }.into());
    }
    match request.query.get("action") {
        Some("save") => save(app, slot, &directory, &file_name(request)?).await,
        Some("restore") => restore(app, slot, &directory, &file_name(request)?).await,
        Some("erase") => {
            let erased = erase(app, slot).await?;
            Ok(Reply::json(&json!({"id_slot": slot, "n_erased": erased})))
        }
        other => Err(ApiError::invalid(format!(
            "Invalid action: {} (one of save, restore, erase)",
            other.unwrap_or("none was given")
        ))),
    }
}

async fn save(app: &Arc<App>, slot: usize, directory: &Path, name: &str) -> Result<Reply, ApiError> {
    let start = Instant::now();
    let snapshot = ask(|answer| app.scheduler.save(slot, answer)).await?;
    let saved = snapshot.tokens().len();
    let (target, directory, file) = (directory.join(name), directory.to_owned(), name.to_owned());
    let written = off_thread(true, move || {
        write(&snapshot, &directory, &target)
            .map_err(|error| ApiError::new(ErrorKind::Server, format!("cannot write {file}: {error}")))
    })
    .await?;
    Ok(Reply::json(&json!({
        "id_slot": slot,
        "filename": name,
        "n_saved": saved,
        "n_written": written,
        "timings": {"save_ms": milliseconds(start.elapsed())},
    })))
}

/// Writes beside the target and renames, so that the target is the old file or the whole new one.
fn write(snapshot: &Snapshot, directory: &Path, target: &Path) -> std::io::Result<u64> {
    let draft = directory.join(format!(".bloomery-{}.tmp", ids::random(16)));
    let whole = || {
        let mut out = BufWriter::with_capacity(1 << 20, File::create_new(&draft)?);
        snapshot.write_to(&mut out)?;
        out.flush()?;
        let file = out.into_inner().map_err(|error| error.into_error())?;
        // A full disk may only show here.
        file.sync_all()?;
        fs::rename(&draft, target)?;
        Ok(file.metadata()?.len())
    };
    whole().inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

async fn restore(app: &Arc<App>, slot: usize, directory: &Path, name: &str) -> Result<Reply, ApiError> {
    let start = Instant::now();
    let (path, file) = (directory.join(name), name.to_owned());
    let unusable =
        move |why: &dyn std::fmt::Display| ApiError::invalid(format!("cannot restore {file}: {why}"));
    let read = off_thread(true, move || read(&path).map_err(|why| unusable(&why))).await;
    let restored = match read {
        Ok((snapshot, bytes)) => {
            let tokens = ask(|answer| app.scheduler.restore(slot, snapshot, answer)).await;
            tokens.map(|tokens| (tokens, bytes)).map_err(|error| match error.kind {
                // Whatever the engine says of it, the file is what is wrong.
                ErrorKind::Unavailable => error,
                _ => ApiError::invalid(format!("cannot restore {name}: {}", error.message)),
            })
        }
        Err(error) => Err(error),
    };
    match restored {
        Ok((tokens, bytes)) => Ok(Reply::json(&json!({
            "id_slot": slot,
            "filename": name,
            "n_restored": tokens,
            "n_read": bytes,
            "timings": {"restore_ms": milliseconds(start.elapsed())},
        }))),
        Err(error) => {
            // As llama-server does: a slot after a failed restore is empty, not what it was.
            erase(app, slot).await?;
            Err(error)
        }
    }
}

fn read(path: &Path) -> Result<(Snapshot, u64), String> {
    let facts = fs::metadata(path).map_err(|error| error.to_string())?;
    if !facts.is_file() {
        return Err("it is not a file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    let mut input = BufReader::with_capacity(1 << 20, file);
    Snapshot::read_from(&mut input, bytes)
        .map(|snapshot| (snapshot, bytes))
        .map_err(|error| error.to_string())
}

async fn erase(app: &App, slot: usize) -> Result<usize, ApiError> {
    ask(|answer| app.scheduler.erase(slot, answer)).await
}

/// Waits for the scheduler's answer; a busy slot lets it wait for its job's end.
async fn ask<T: Send + 'static>(
    command: impl FnOnce(Box<dyn FnOnce(Result<T, EngineError>) + Send>),
) -> Result<T, ApiError> {
    let (sender, receiver) = oneshot::channel();
    command(Box::new(move |result| {
        // Who has gone away needs no answer.
        let _ = sender.send(result);
    }));
    receiver.await.unwrap_or(Err(EngineError::Stopped)).map_err(ApiError::from)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn file_name(request: &Request) -> Result<String, ApiError> {
    let body = fields::object(request)?;
    let name = Fields(&body).string("filename")?.unwrap_or_default();
    if is_file_name(name) { Ok(name.to_owned()) } else { Err(ApiError::invalid("Invalid filename")) }
}

/// Whether this is the name of a file in a directory, on every system.
fn is_file_name(name: &str) -> bool {
    (1..=255).contains(&name.len())
        && name.trim_matches(' ') == name
        && !name.ends_with('.')
        && !name.chars().any(|c| c.is_control() || r#"/\:*?"<>|"#.contains(c))
}

#[cfg(test)]
mod tests {
    use super::is_file_name;

    #[test]
    fn names_stay_inside_the_directory() {
        for good in ["x.bin", "a b", ".hidden", "한국어", "a..b", &"x".repeat(255)] {
            assert!(is_file_name(good), "{good}");
        }
        let long = "x".repeat(256);
        for bad in [
            "", ".", "..", "../x", "a/b", "a\\b", "c:", "a*", "a\n", "a\0", " a", "a ", "a.", "a\u{85}",
            &long,
        ] {
            assert!(!is_file_name(bad), "{bad:?}");
        }
    }
}
