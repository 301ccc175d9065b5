//! What a download tells while it runs.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use super::HubError;
use crate::units::Bytes;

/// What happens. Prints as a line for people who wait.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Bytes arrive. Told about ten times a second, and once at the end of a file.
    Transfer(Transfer<'a>),
    /// All bytes of a file are there and are still being hashed.
    Checking {
        /// The file.
        file: &'a str,
    },
    /// Another process downloads the file; this one waits for it.
    Waiting {
        /// The file.
        file: &'a str,
    },
    /// A request failed and is made again after a pause.
    Retrying {
        /// What went wrong.
        why: &'a HubError,
        /// The pause.
        pause: Duration,
    },
    /// The hub cannot be reached, and the model is taken from the cache as it was found last.
    Unreachable {
        /// What went wrong.
        why: &'a HubError,
    },
}

/// How far a download is. Prints as the file, percent, bytes, speed and time left.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Transfer<'a> {
    /// The file that is being read.
    pub file: &'a str,
    /// Its number, from 1.
    pub number: usize,
    /// Files of the download.
    pub files: usize,
    /// Bytes of all files that are there.
    pub done: Bytes,
    /// Bytes of all files.
    pub total: Bytes,
    /// Bytes a second, over the last seconds.
    pub rate: f64,
    /// Time left at this rate; `None` where nothing moves.
    pub left: Option<Duration>,
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transfer(transfer) => write!(f, "downloading {transfer}"),
            Self::Checking { file } => write!(f, "checking {file}"),
            Self::Waiting { file } => write!(f, "waiting for another process that downloads {file}"),
            Self::Retrying { why, pause } => {
                write!(f, "{why}; trying again in {:.1} s", pause.as_secs_f32())
            }
            Self::Unreachable { why } => write!(f, "{why}; using what is in the cache"),
        }
    }
}

impl fmt::Display for Transfer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, number, files, done, total, rate, left } = self;
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

/// Seconds that the rate is taken over.
const WINDOW: Duration = Duration::from_secs(5);

/// Speed over the last seconds.
#[derive(Debug, Default)]
pub(super) struct Meter {
    samples: VecDeque<(Instant, u64)>,
}

impl Meter {
    /// Bytes a second, after `done` bytes at `now`.
    pub(super) fn rate(&mut self, now: Instant, done: u64) -> f64 {
        if self.samples.back().is_some_and(|(_, last)| *last > done) {
            // The download has started over.
            self.samples.clear();
        }
        self.samples.push_back((now, done));
        while self.samples.len() > 2 && now - self.samples[1].0 >= WINDOW {
            self.samples.pop_front();
        }
        let (began, first) = self.samples[0];
        let seconds = (now - began).as_secs_f64();
        if seconds > 0.0 { (done - first) as f64 / seconds } else { 0.0 }
    }
}

/// Time that `bytes` take.
pub(super) fn left(bytes: u64, rate: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(bytes as f64 / rate).ok().filter(|_| rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_print_as_lines() {
        let (done, total) = (Bytes(1 << 20), Bytes(4 << 20));
        let left = Some(Duration::from_secs(3));
        let transfer = Transfer { file: "a.gguf", number: 1, files: 2, done, total, rate: 1048576.0, left };
        assert_eq!(
            Event::Transfer(transfer).to_string(),
            "downloading a.gguf (1 of 2): 25 % (1.00 MiB of 4.00 MiB), 1.00 MiB/s, 3 s left"
        );
        let event = Event::Retrying { why: &HubError::Cancelled, pause: Duration::from_millis(1500) };
        assert_eq!(event.to_string(), format!("{}; trying again in 1.5 s", HubError::Cancelled));
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let (mut meter, start) = (Meter::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(meter.rate(at(0), 1000), 0.0);
        assert_eq!(meter.rate(at(1), 1500), 500.0);
        for second in 2..20 {
            meter.rate(at(second), 1500);
        }
        assert_eq!(meter.rate(at(20), 1500), 0.0, "nothing moved for long");
        assert_eq!(meter.rate(at(21), 0), 0.0, "it started over");
        assert_eq!(meter.rate(at(22), 10), 10.0);
        assert_eq!((left(100, 50.0), left(100, 0.0)), (Some(Duration::from_secs(2)), None));
    }
}
