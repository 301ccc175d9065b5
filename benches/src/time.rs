//! What is measured: the processor time of all threads of the process. Machines that run benchmarks run other things too, and
//! waiting for a core is no part of the work. Waits inside the work do not count either, which is why nothing here waits.

use std::time::Duration;

use cpu_time::ProcessTime as Clock;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};

/// Time that processors have spent on this process.
#[derive(Debug, Clone, Copy)]
pub struct ProcessTime;

/// Formats durations.
const FORMATTER: &WallTime = &WallTime;

impl Measurement for ProcessTime {
    type Intermediate = Clock;
    type Value = Duration;

    fn start(&self) -> Clock {
        Clock::now()
    }

    fn end(&self, start: Clock) -> Duration {
        start.elapsed()
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        FORMATTER.formatter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_no_time_and_working_does() {
        let start = ProcessTime.start();
        std::thread::sleep(Duration::from_millis(50));
        let slept = ProcessTime.end(start);
        let mut text = String::new();
        while ProcessTime.end(start) < slept + Duration::from_millis(20) {
            text.push('x');
        }
        assert!(slept < Duration::from_millis(40), "{slept:?}");
        assert!(!text.is_empty());
    }
}
