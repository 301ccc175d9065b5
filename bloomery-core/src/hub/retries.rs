//! How often a request is made again, and after which pause.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::HubError;
use super::client::Failure;

/// Pauses are not longer than this, unless the server asks for it.
const LONGEST: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(50);

/// How often, and after which pause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retries {
    pub(super) attempts: usize,
    pub(super) first_pause: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 5, first_pause: Duration::from_secs(1) }
    }
}

impl Retries {
    /// The pause after this many failures in a row: what the server asks for, or twice the one before.
    pub(super) fn pause(&self, failures: usize, asked: Option<Duration>) -> Duration {
        let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let pause = self.first_pause.saturating_mul(2_u32.saturating_pow(doublings));
        asked.unwrap_or_else(|| pause.min(LONGEST))
    }

    /// Makes a request until it succeeds or fails for good.
    pub(super) fn run<T>(
        &self,
        mut request: impl FnMut() -> Result<T, Failure>,
        tell: impl Fn(&HubError, Duration),
        cancelled: impl Fn() -> bool,
    ) -> Result<T, HubError> {
        let mut failures = 0;
        loop {
            let failure = match request() {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            failures += 1;
            if !failure.again || failures >= self.attempts {
                return Err(failure.error);
            }
            let pause = self.pause(failures, failure.after);
            tell(&failure.error, pause);
            let until = Instant::now() + pause;
            while Instant::now() < until {
                if cancelled() {
                    return Err(HubError::Cancelled);
                }
                sleep(TICK.min(until.saturating_duration_since(Instant::now())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let retries = Retries::default();
        let seconds = |failures| retries.pause(failures, None).as_secs();
        assert_eq!([1, 2, 3, 4, 9, usize::MAX].map(seconds), [1, 2, 4, 8, 30, 30]);
        assert_eq!(retries.pause(3, Some(Duration::from_secs(60))).as_secs(), 60);
    }
}
