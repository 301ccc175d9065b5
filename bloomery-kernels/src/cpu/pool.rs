//! Worker threads. (Serial for the moment.)

use std::num::NonZeroUsize;

/// Runs the tasks of one kernel on all threads.
#[derive(Debug)]
pub struct Pool {
    threads: NonZeroUsize,
}

impl Pool {
    /// A pool of `threads` threads, the caller's included.
    #[must_use]
    pub fn new(threads: NonZeroUsize) -> Self {
        Self { threads }
    }

    /// Threads, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.get()
    }

    /// Calls `task(i)` once for every `i < tasks`, in any order and on any thread, and returns when all are done.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}
