//! What the card shares with the host: here both are the host.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use super::host::{global, ld_global_f32x4};
use super::host_run::yield_now;

unsafe fn atomic<'a>(at: u64) -> &'a AtomicU64 {
    AtomicU64::from_ptr(global(at))
}

pub(crate) unsafe fn fence_system() {
    fence(Ordering::SeqCst);
}

pub(crate) unsafe fn ld_system_acquire_u64(at: u64) -> u64 {
    yield_now();
    atomic(at).load(Ordering::Acquire)
}

pub(crate) unsafe fn ld_system_f32x4(at: u64) -> [f32; 4] {
    ld_global_f32x4(at)
}

pub(crate) unsafe fn st_system_u64(at: u64, value: u64) {
    atomic(at).store(value, Ordering::Relaxed);
}

pub(crate) unsafe fn ld_relaxed_u64(at: u64) -> u64 {
    atomic(at).load(Ordering::Relaxed)
}

pub(crate) unsafe fn st_relaxed_u64(at: u64, value: u64) {
    atomic(at).store(value, Ordering::Relaxed);
}

pub(crate) unsafe fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
