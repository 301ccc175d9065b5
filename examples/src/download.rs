//! Downloading with a progress bar.

use std::sync::Mutex;
use std::sync::PoisonError;

use bloomery_core::hub::{Event, Hub};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The hub, with a bar on stderr where that is a terminal. What goes wrong meanwhile is said above it.
pub(crate) fn watched(hub: Hub) -> Hub {
    let bar: Mutex<Option<ProgressBar>> = Mutex::new(None);
    hub.watch(move |event| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Transfer(moved) if moved.done == moved.total => {
                if let Some(bar) = bar.take() {
                    bar.finish_and_clear();
                }
            }
            Event::Transfer(moved) => {
                let bar = bar.get_or_insert_with(|| new_bar(moved.total.0, moved.done.0));
                let name = moved.file.rsplit('/').next().unwrap_or(moved.file);
                bar.set_message(match moved.files {
                    1 => name.to_owned(),
                    files => format!("{name} ({} of {files})", moved.number),
                });
                bar.set_position(moved.done.0);
            }
            Event::Waiting { .. } | Event::Retrying { .. } | Event::Unreachable { .. } => {
                say(bar.as_ref(), &event.to_string());
            }
            _ => {}
        }
    })
}

fn new_bar(total: u64, done: u64) -> ProgressBar {
    // indicatif's stderr target draws nothing where stderr is no terminal.
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_position(done);
    bar.reset_eta();
    bar
}

fn say(bar: Option<&ProgressBar>, text: &str) {
    // A bar that is not drawn prints nothing by itself.
    match bar.filter(|bar| !bar.is_hidden()) {
        Some(bar) => bar.println(text),
        None => eprint(text),
    }
}

/// That stderr cannot be written is no reason to stop a download.
fn eprint(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}
