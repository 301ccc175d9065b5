//! Log lines: what, where to, and how they look. Nothing here ever sees a prompt.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bloomery_core::scheduler::Progress;
use hyper::{Method, StatusCode};
use tracing::Dispatch;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};

/// How to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// 0 and 1: errors, 2: warnings, 3: information, 4: details, 5 and more: everything.
    pub verbosity: i64,
    /// Nothing at all.
    pub disabled: bool,
    /// A JSON object a line.
    pub json: bool,
    /// Colours; `None`: on a terminal.
    pub colours: Option<bool>,
    /// No colours unless they were asked for.
    pub no_colour: bool,
    /// Lines begin with the time.
    pub timestamps: bool,
    /// Lines begin with their level.
    pub prefix: bool,
    /// A file that gets the lines too.
    pub file: Option<PathBuf>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            verbosity: 3,
            disabled: false,
            json: false,
            colours: None,
            no_colour: false,
            timestamps: true,
            prefix: true,
            file: None,
        }
    }
}

impl LogOptions {
    fn level(&self) -> LevelFilter {
        match self.verbosity {
            _ if self.disabled => LevelFilter::OFF,
            ..=1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            5.. => LevelFilter::TRACE,
        }
    }

    /// Other crates have nothing to say until everything is asked for.
    fn targets(&self) -> Targets {
        let level = self.level();
        let others = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
        Targets::new().with_default(others).with_target("bloomery", level)
    }

    fn coloured(&self) -> bool {
        !self.json
            && self.file.is_none()
            && self.colours.unwrap_or_else(|| !self.no_colour && io::stderr().is_terminal())
    }
}

/// The log of these options, to stderr and the file.
///
/// # Errors
/// The file cannot be opened.
pub fn dispatch(options: &LogOptions) -> io::Result<Dispatch> {
    let writer = match &options.file {
        None => BoxMakeWriter::new(io::stderr),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            BoxMakeWriter::new(io::stderr.and(Arc::new(file)))
        }
    };
    Ok(dispatch_to(options, writer))
}

fn dispatch_to(
    options: &LogOptions,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> Dispatch {
    let layer =
        tracing_subscriber::fmt::layer().with_writer(writer).with_target(false).with_level(options.prefix);
    let layer = layer.with_ansi(options.coloured());
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match (options.json, options.timestamps) {
        (true, true) => layer.json().flatten_event(true).boxed(),
        (true, false) => layer.json().flatten_event(true).without_time().boxed(),
        (false, true) => layer.boxed(),
        (false, false) => layer.without_time().boxed(),
    };
    Dispatch::new(Registry::default().with(layer.with_filter(options.targets())))
}

/// One line for a request whose answer begins: for information where the method can run the model, else a detail.
pub fn access(method: &Method, path: &str, status: StatusCode, took: Duration) {
    let (status, ms) = (status.as_u16(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    if method == Method::POST {
        tracing::info!(%method, path, status, ms, "request");
    } else {
        tracing::debug!(%method, path, status, ms, "request");
    }
}

/// One line for a job that has ended well: tokens and milliseconds of the prompt and of the answer.
pub fn done(progress: &Progress) {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let Progress { cached, prompt, generated, .. } = *progress;
    let (prompt_ms, generated_ms) = (ms(progress.prompt_time), ms(progress.generate_time));
    tracing::info!(cached, prompt, prompt_ms, generated, generated_ms, "done");
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;

    use serde_json::Value;

    use super::*;

    #[derive(Debug, Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a few events look like.
    fn logged(options: &LogOptions) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        tracing::dispatcher::with_default(&dispatch_to(options, move || writer.clone()), || {
            tracing::warn!("careful");
            access(&Method::POST, "/completion", StatusCode::OK, Duration::from_millis(12));
            access(&Method::GET, "/health", StatusCode::OK, Duration::ZERO);
            done(&Progress { cached: 1, prompt: 2, generated: 3, ..Progress::default() });
            tracing::info!(target: "hyper", "somebody else");
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn plain() -> LogOptions {
        LogOptions { timestamps: false, colours: Some(false), ..LogOptions::default() }
    }

    #[test]
    fn lines_are_for_people_or_for_programs() {
        let text = logged(&plain());
        let request = "request method=POST path=\"/completion\" status=200 ms=12";
        let done = "done cached=1 prompt=2 prompt_ms=0 generated=3 generated_ms=0";
        assert_eq!(text, format!(" WARN careful\n INFO {request}\n INFO {done}\n"));
        let bare = logged(&LogOptions { prefix: false, ..plain() });
        assert!(bare.starts_with("careful\nrequest "), "{bare}");
        let json = logged(&LogOptions { json: true, ..plain() });
        let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["message"], "careful");
        assert_eq!(
            (&lines[1]["status"], &lines[1]["path"]),
            (&Value::from(200), &Value::from("/completion"))
        );
        let timed = logged(&LogOptions { json: true, timestamps: true, ..plain() });
        assert!(timed.contains("\"timestamp\""), "{timed}");
    }

    #[test]
    fn verbosity_decides_what_is_logged() {
        let count = |verbosity| logged(&LogOptions { verbosity, ..plain() }).lines().count();
        assert_eq!([0, 1, 2, 3, 4, 5, i64::MAX].map(count), [0, 0, 1, 3, 4, 5, 5]);
        assert_eq!(logged(&LogOptions { disabled: true, ..plain() }), "");
    }

    #[test]
    fn colours_are_for_terminals() {
        let coloured = |options: LogOptions| logged(&options).contains('\x1b');
        assert!(coloured(LogOptions { colours: Some(true), ..plain() }));
        assert!(!coloured(LogOptions { colours: Some(true), json: true, ..plain() }));
        assert!(!coloured(LogOptions { colours: Some(true), file: Some("x".into()), ..plain() }));
        assert!(!coloured(LogOptions { colours: None, no_colour: true, ..plain() }));
    }
}
