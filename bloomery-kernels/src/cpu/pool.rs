//! Worker threads for fork-join regions of a few microseconds.
//!
//! A decode step runs hundreds of parallel regions, tens of microseconds apart, so what counts is the latency of one
//! region. Workers stay hot between regions (they spin, then yield, then park), and a region does not wait for
//! workers that never joined it: on a busy machine a worker without a CPU costs nothing.
//!
//! Two tasks that wait for each other, on two cores of a Xeon (median, `examples/pool_bench.rs`): 0.8 us back to
//! back, 0.9 us after 20 us of serial work; `rayon::join` inside its own pool 0.8 us and 23 us (its workers sleep
//! after a few microseconds), 28 us when entered from outside. Two empty tasks, which the caller may take both: 80 ns.
//!
//! # One region
//!
//! `gate` is one word: `epoch << 32 | OPEN | workers inside`.
//!
//! ```text
//! caller                                        worker
//! 1 write job, next = 0                         1 load gate until it is OPEN in an epoch not served yet
//! 2 gate = epoch + 1, OPEN, 0 inside (Release)  2 gate: inside += 1 by compare-exchange (Acquire)
//! 3 claim tasks from `next` until none is left  3 read job, claim tasks from `next` until none is left
//! 4 gate &= !OPEN                               4 gate: inside -= 1 (Release)
//! 5 load gate (Acquire) until nobody is inside
//! ```
//!
//! * A worker reads `job` only after a compare-exchange that saw OPEN; that reads the caller's store of step 2 or a
//!   read-modify-write after it (one release sequence), so step 1 happens before the read.
//! * After step 4 no compare-exchange can enter: it expects OPEN. After step 5 every worker that entered has done its
//!   step 4, and all those are read-modify-writes on one word, so the final load synchronises with each of them.
//!   Hence nobody holds the job when `run` returns, the results are visible to the caller, and the next region's
//!   step 1 races with nobody.
//! * The epoch keeps a worker from entering a region twice. If it wraps around while a worker sleeps, the worker
//!   at worst ignores one region, which is always allowed.
//! * Parking is Dekker's pattern, all sequentially consistent: the worker counts itself in `sleepers`, then looks at
//!   `gate` once more under the lock; the caller opens `gate`, then looks at `sleepers` and notifies under the lock.
//!   One of them sees the other.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::affinity;

const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;
const EPOCH: u32 = 32;

/// A worker without work spins this long before it starts to give up its time slices. Ops of a decode step are
/// tens of microseconds apart, sampling takes up to a millisecond; a slice given up on a busy machine is 3 ms.
const IDLE_SPIN: Duration = Duration::from_millis(1);
/// A worker parks after this long without work.
const LINGER: Duration = Duration::from_millis(3);
/// The caller spins this long for the last worker of a region: if that one lost its CPU, it may need the caller's.
const JOIN_SPIN: Duration = Duration::from_micros(50);
/// A claim counter at or beyond this hands out no more tasks; half the range leaves room for every later increment.
const EXHAUSTED: usize = usize::MAX / 2;

type Task<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Worker threads that run the tasks of one kernel together with the calling thread.
///
/// Regions that start from several threads at once run one after the other. A region started inside a task runs
/// serially on the thread of that task.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held for the length of a region.
    region: Mutex<()>,
}

#[derive(Debug)]
struct Shared {
    gate: Padded<AtomicU64>,
    next: Padded<AtomicUsize>,
    sleepers: Padded<AtomicUsize>,
    job: UnsafeCell<Option<Job>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
    bed: Mutex<()>,
    wake: Condvar,
}

// SAFETY: `job` is the only field that is not Sync by itself; it is written only while nobody is inside the region
// and read only from inside (the argument stands in the module's documentation).
unsafe impl Sync for Shared {}
// SAFETY: the pointer inside `job` refers to a Sync closure.
unsafe impl Send for Shared {}

/// Two cache lines, which the adjacent-line prefetcher fetches together.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

#[derive(Debug, Clone, Copy)]
struct Job {
    tasks: usize,
    call: *const Task<'static>,
}

thread_local! {
    /// Whether this thread is inside a region, where another one would deadlock.
    static INSIDE_TASK: Cell<bool> = const { Cell::new(false) };
}

impl Pool {
    /// A pool of `threads` threads, the caller's included. Where the system refuses a thread, the pool has fewer.
    #[must_use]
    pub fn new(threads: NonZeroUsize) -> Self {
        Self::build(threads, &[])
    }

    /// As [`Pool::new`], with worker `i` (from 1) bound to the `i`-th CPU this thread may use; thread 0 is whoever
    /// calls [`Pool::run`] and stays free. Binds nothing where the system cannot.
    #[must_use]
    pub fn pinned(threads: NonZeroUsize) -> Self {
        Self::build(threads, &affinity::allowed())
    }

    fn build(threads: NonZeroUsize, cpus: &[usize]) -> Self {
        let shared = Arc::new(Shared {
            gate: Padded(AtomicU64::new(0)),
            next: Padded(AtomicUsize::new(EXHAUSTED)),
            sleepers: Padded(AtomicUsize::new(0)),
            job: UnsafeCell::new(None),
            panic: Mutex::new(None),
            stop: AtomicBool::new(false),
            bed: Mutex::new(()),
            wake: Condvar::new(),
        });
        let workers = (1..threads.get()).map_while(|index| {
            let (shared, cpu) = (Arc::clone(&shared), cpus.get(index).copied());
            let body = move || {
                if let Some(cpu) = cpu {
                    affinity::bind(cpu);
                }
                shared.work(index);
            };
            std::thread::Builder::new().name(format!("bloomery-{index}")).spawn(body).ok()
        });
        let workers = workers.collect();
        Self { shared, workers, region: Mutex::new(()) }
    }

    /// Threads, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task(i)` once for every `i < tasks`, in any order and on any thread, and returns when all are done.
    ///
    /// A panic of a task skips the tasks that have not started and goes on in the caller.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.run_on(tasks, &|index, _| task(index));
    }

    /// As [`Pool::run`], passing `task(i, t)` the number `t < self.threads()` of the thread it runs on; no two tasks
    /// of this region that run at the same time see the same `t`, so it may index scratch memory.
    pub fn run_on(&self, tasks: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        self.region(tasks, task, &mut || {});
    }

    /// As [`Pool::run`]; the calling thread calls `beside` once before it takes a task, while the others run theirs.
    pub fn run_beside(&self, beside: &mut dyn FnMut(), tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.region(tasks, &|index, _| task(index), beside);
    }

    fn region(&self, tasks: usize, task: &Task<'_>, beside: &mut dyn FnMut()) {
        if tasks <= 1 || self.workers.is_empty() || INSIDE_TASK.get() {
            beside();
            return (0..tasks).for_each(|index| task(index, 0));
        }
        assert!(tasks < EXHAUSTED, "{tasks} tasks in one region");
        let region = self.region.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = self.shared.fork_join(tasks, task, beside, self.workers.len());
        drop(region);
        if let Some(payload) = outcome {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(self.shared.bed.lock());
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its tasks, so there is nothing to learn from the result.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Runs one region and returns the payload of the first task that panicked. The caller holds the region lock.
    fn fork_join(
        &self,
        tasks: usize,
        task: &Task<'_>,
        beside: &mut dyn FnMut(),
        workers: usize,
    ) -> Option<Box<dyn Any + Send>> {
        // SAFETY: only the lifetime changes; nobody holds the pointer when this function returns (module docs).
        let call = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(task) };
        // SAFETY: the last region has ended and the region lock keeps others out, so nobody else looks at `job`.
        unsafe { *self.job.get() = Some(Job { tasks, call }) };
        self.next.0.store(0, Ordering::Relaxed);
        let epoch = (self.gate.0.load(Ordering::Relaxed) >> EPOCH).wrapping_add(1);
        self.gate.0.store(epoch << EPOCH | OPEN, Ordering::SeqCst);
        self.rouse(tasks - 1, workers);

        self.attempt(beside);
        self.claim(Job { tasks, call }, 0);

        self.gate.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut pause = Backoff::new(JOIN_SPIN);
        while self.gate.0.load(Ordering::Acquire) & INSIDE != 0 {
            pause.snooze();
        }
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Wakes parked workers until `wanted` are up.
    fn rouse(&self, wanted: usize, workers: usize) {
        let asleep = self.sleepers.0.load(Ordering::SeqCst);
        let missing = wanted.saturating_sub(workers - asleep.min(workers)).min(asleep);
        if missing == 0 {
            return;
        }
        drop(self.bed.lock());
        if missing == asleep {
            self.wake.notify_all();
        } else {
            (0..missing).for_each(|_| self.wake.notify_one());
        }
    }

    /// Runs tasks of `job` until none is left to start.
    fn claim(&self, job: Job, thread: usize) {
        // SAFETY: this thread is inside the region, so the closure behind the pointer is still borrowed by `run_on`.
        let call = unsafe { &*job.call };
        self.attempt(|| {
            loop {
                let index = self.next.0.fetch_add(1, Ordering::Relaxed);
                if index >= job.tasks {
                    return;
                }
                call(index, thread);
            }
        });
    }

    /// Runs a part of a region. After a panic no more tasks start, and the region still ends as it should.
    fn attempt(&self, part: impl FnOnce()) {
        INSIDE_TASK.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(part));
        INSIDE_TASK.set(false);
        if let Err(payload) = outcome {
            self.next.0.store(EXHAUSTED, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }

    /// The life of a worker.
    fn work(&self, thread: usize) {
        let mut served = 0;
        let mut pause = Backoff::new(IDLE_SPIN);
        while !self.stop.load(Ordering::Relaxed) {
            let gate = self.gate.0.load(Ordering::Acquire);
            if gate & OPEN == 0 || gate >> EPOCH == served {
                if pause.snooze() {
                    self.park(served);
                    pause = Backoff::new(IDLE_SPIN);
                }
                continue;
            }
            if self
                .gate
                .0
                .compare_exchange_weak(gate, gate + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
            {
                std::hint::spin_loop();
                continue;
            }
            served = gate >> EPOCH;
            // SAFETY: this thread is inside the region (the exchange above), where `job` is not written.
            if let Some(job) = unsafe { *self.job.get() } {
                self.claim(job, thread);
            }
            self.gate.0.fetch_sub(1, Ordering::Release);
            pause = Backoff::new(IDLE_SPIN);
        }
    }

    /// Sleeps until a region opens that was not `served`, or the pool ends.
    fn park(&self, served: u64) {
        let mut bed = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.0.fetch_add(1, Ordering::SeqCst);
        loop {
            let gate = self.gate.0.load(Ordering::SeqCst);
            if self.stop.load(Ordering::SeqCst) || (gate & OPEN != 0 && gate >> EPOCH != served) {
                break;
            }
            bed = self.wake.wait(bed).unwrap_or_else(PoisonError::into_inner);
            if gate != self.gate.0.load(Ordering::SeqCst) {
                // Roused for a region that may be over by now: stay up for the next one.
                break;
            }
        }
        self.sleepers.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waiting that starts with pause instructions and goes over to giving up the time slice.
struct Backoff {
    spin: Duration,
    spins: u32,
    since: Option<Instant>,
}

impl Backoff {
    /// Yields after `spin`.
    fn new(spin: Duration) -> Self {
        Self { spin, spins: 0, since: None }
    }

    /// Waits a moment; true when [`LINGER`] is over.
    fn snooze(&mut self) -> bool {
        if self.spins < 16 {
            self.spins += 1;
            std::hint::spin_loop();
            return false;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited < self.spin {
            self.spins = 0;
        } else {
            std::thread::yield_now();
        }
        waited > LINGER
    }
}

#[cfg(test)]
mod tests;
