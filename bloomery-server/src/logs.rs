//! Log lines: what, where to, and how they look. Nothing here ever sees a prompt.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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

/// One line for a request that has been answered: for information where it ran the model, else a detail. `tokens` are the
/// generated ones where they are known.
pub fn access(method: &Method, path: &str, status: StatusCode, took: Duration, tokens: Option<usize>) {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let (status, tokens) = (status.as_u16(), tokens.map(|tokens| tokens as u64));
    if method == Method::POST {
        tracing::info!(%method, path, status, ms, tokens, "request");
    } else {
        tracing::debug!(%method, path, status, ms, tokens, "request");
    }
}
