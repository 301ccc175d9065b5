//! Latency of an empty region: hot (both threads meet in the region), hot without meeting, and after a pause.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bloomery_kernels::cpu::Pool;

/// Median and minimum nanoseconds of `body` over `rounds` calls.
fn time(rounds: usize, mut body: impl FnMut()) -> (u128, u128) {
    let mut all: Vec<u128> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            body();
            start.elapsed().as_nanos()
        })
        .collect();
    all.sort_unstable();
    (all[rounds / 2], all[0])
}

fn main() {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let pool = Pool::new(threads);
    let arrived = AtomicUsize::new(0);
    // Every task waits for all others, so that each thread must take part.
    let meet = |_: usize| {
        let ticket = arrived.fetch_add(1, Ordering::AcqRel);
        let target = (ticket / threads + 1) * threads.get();
        while arrived.load(Ordering::Acquire) < target {
            std::hint::spin_loop();
        }
    };
    let (median, least) = time(100_000, || pool.run(threads.get(), &|_| {}));
    println!("{threads} empty tasks           median {median:>7} ns, least {least} ns");
    let (median, least) = time(100_000, || pool.run(threads.get(), &meet));
    println!("{threads} tasks that meet, hot  median {median:>7} ns, least {least} ns");
    for gap in [20, 200, 1000, 5000] {
        let mut spent = Vec::new();
        for _ in 0..200 {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(gap) {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            pool.run(threads.get(), &meet);
            spent.push(start.elapsed().as_nanos());
        }
        spent.sort_unstable();
        println!(
            "{threads} tasks that meet, after {gap:>4} us  median {:>7} ns, least {} ns",
            spent[100], spent[0]
        );
    }
}
