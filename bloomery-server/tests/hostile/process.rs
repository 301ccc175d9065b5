//! What a process holds.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Memory, file handles, threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holdings {
    /// Resident memory that belongs to the process alone.
    pub(crate) kib: u64,
    pub(crate) files: usize,
    pub(crate) threads: usize,
}

impl Holdings {
    fn of(process: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
        };
        let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
        Self { kib: number("RssAnon:"), files, threads: number("Threads:") as usize }
    }

    /// Waits until they are no more than `goal`, or do not change any more. Idle threads of the runtime live for 10 s, and
    /// connections linger for 2.
    pub(crate) fn settled(process: u32, goal: Option<Self>) -> Self {
        let start = Instant::now();
        let (mut last, mut since) = (Self::of(process), Instant::now());
        while start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(100));
            let now = Self::of(process);
            if goal.is_some_and(|goal| now.files <= goal.files && now.threads <= goal.threads) {
                return now;
            }
            if (now.files, now.threads) != (last.files, last.threads) {
                since = Instant::now();
            }
            last = now;
            if goal.is_none() && since.elapsed() > Duration::from_secs(3) {
                return now;
            }
        }
        last
    }
}
