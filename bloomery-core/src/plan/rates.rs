//! How fast this machine reads memory, measured in the time that a person does not notice.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::units::{Bytes, Rate};

/// What all threads read together, at least: more than caches hold.
const TOTAL: usize = 256 << 20;
/// What a thread reads, at least: machines of many cores have larger caches.
const EACH: usize = 32 << 20;
const TIME: Duration = Duration::from_millis(40);

/// Memory that a measurement takes.
pub(super) fn memory(threads: NonZeroUsize) -> Bytes {
    Bytes::of(threads.get(), each(threads))
}

fn each(threads: NonZeroUsize) -> usize {
    (TOTAL / threads).max(EACH)
}

/// What so many threads together read of memory of their own.
pub(super) fn read_rate(threads: NonZeroUsize) -> Rate {
    let words = each(threads) / size_of::<u64>();
    let start = Barrier::new(threads.get());
    let rates = thread::scope(|scope| {
        let work = || {
            // Ones, since pages of zeros would all be the same one.
            let memory = vec![1u64; words];
            start.wait();
            let began = Instant::now();
            let mut read = 0;
            while began.elapsed() < TIME {
                black_box(memory.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word)));
                read += size_of_val(memory.as_slice());
            }
            read as f64 / began.elapsed().as_secs_f64()
        };
        let all: Vec<_> = (0..threads.get()).map(|_| scope.spawn(work)).collect();
        all.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum::<f64>()
    });
    Rate(rates as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_at_a_rate_that_exists() {
        let rate = read_rate(NonZeroUsize::MIN);
        assert!((Rate(100 << 20)..Rate(2_000_000_000_000)).contains(&rate), "{rate}");
    }
}
