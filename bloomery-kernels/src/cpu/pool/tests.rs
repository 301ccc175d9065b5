//! Regions, panics, parking, nesting and crowds.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::*;

fn pool(threads: usize) -> Pool {
    Pool::new(NonZeroUsize::new(threads).unwrap())
}

#[test]
fn every_task_runs_once() {
    for threads in [1, 2, 3, 8] {
        let pool = pool(threads);
        for tasks in [0, 1, 2, 3, 7, 64, 1000] {
            let counts: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
            pool.run(tasks, &|task| {
                counts[task].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}

#[test]
fn results_are_visible_to_the_caller_over_many_regions() {
    let pool = pool(4);
    let cells: Vec<AtomicUsize> = (0..16).map(|_| AtomicUsize::new(0)).collect();
    for round in 0..20_000 {
        pool.run(cells.len(), &|task| cells[task].store(round + task, Ordering::Relaxed));
        assert!(cells.iter().enumerate().all(|(task, cell)| cell.load(Ordering::Relaxed) == round + task));
    }
}

#[test]
fn two_tasks_run_at_the_same_time() {
    let (pool, meet) = (pool(2), Barrier::new(2));
    for _ in 0..100 {
        pool.run(2, &|_| {
            meet.wait();
        });
    }
}

#[test]
fn parked_workers_wake() {
    let (pool, meet) = (pool(3), Barrier::new(3));
    for _ in 0..5 {
        std::thread::sleep(LINGER * 5);
        pool.run(3, &|_| {
            meet.wait();
        });
    }
}

#[test]
fn no_two_concurrent_tasks_share_a_thread_number() {
    let pool = pool(4);
    let busy: Vec<AtomicU32> = (0..pool.threads()).map(|_| AtomicU32::new(0)).collect();
    pool.run_on(1000, &|_, thread| {
        assert_eq!(busy[thread].fetch_add(1, Ordering::SeqCst), 0);
        std::thread::yield_now();
        busy[thread].fetch_sub(1, Ordering::SeqCst);
    });
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    for threads in [1, 2, 4] {
        let pool = pool(threads);
        for _ in 0..50 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(100, &|task| {
                    if task == 13 {
                        std::panic::panic_any(task);
                    }
                });
            }));
            assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&13_usize));
            let done = AtomicUsize::new(0);
            pool.run(100, &|_| {
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.into_inner(), 100);
        }
    }
}

#[test]
fn the_caller_has_something_else_to_do_first() {
    for threads in [1, 2, 4] {
        let (pool, me) = (pool(threads), std::thread::current().id());
        for tasks in [0, 1, 2, 100] {
            let (mut calls, done) = (0, AtomicUsize::new(0));
            let mut beside = || {
                calls += 1;
                assert_eq!(std::thread::current().id(), me);
                // With others there are tasks done before this ends; alone there are not.
                let start = Instant::now();
                while tasks > 1 && threads > 1 && done.load(Ordering::Relaxed) == 0 {
                    assert!(start.elapsed() < Duration::from_secs(10), "nobody else does anything");
                    std::thread::yield_now();
                }
            };
            pool.run_beside(&mut beside, tasks, &|_| {
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!((calls, done.into_inner()), (1, tasks));
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.run_beside(&mut || std::panic::panic_any(7_usize), 100, &|_| {});
        }));
        assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&7_usize));
        let done = AtomicUsize::new(0);
        pool.run(100, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 100);
    }
}

#[test]
fn a_nested_region_runs_on_its_own_thread() {
    let pool = pool(3);
    let done = AtomicUsize::new(0);
    pool.run(8, &|_| {
        let me = std::thread::current().id();
        pool.run(8, &|_| {
            assert_eq!(std::thread::current().id(), me);
            done.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(done.into_inner(), 64);
}

#[test]
fn regions_of_several_threads_do_not_mix() {
    let (pool, done) = (pool(3), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for tasks in 0..500 {
                    let mine = AtomicUsize::new(0);
                    pool.run(tasks, &|_| {
                        mine.fetch_add(1, Ordering::Relaxed);
                    });
                    assert_eq!(mine.load(Ordering::Relaxed), tasks);
                    done.fetch_add(tasks, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 4 * (499 * 500 / 2));
}

#[test]
fn pinned_workers_run() {
    let pool = Pool::pinned(NonZeroUsize::new(2).unwrap());
    let meet = Barrier::new(2);
    pool.run(2, &|_| {
        meet.wait();
    });
}

#[test]
fn more_workers_than_processors_make_progress() {
    let pool = pool(32);
    let done = AtomicUsize::new(0);
    for _ in 0..200 {
        pool.run(64, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(done.into_inner(), 200 * 64);
}
