//! The CPUs a thread may run on.

/// The CPUs this thread may run on, ascending; empty where the system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn allowed() -> Vec<usize> {
    // SAFETY: cpu_set_t is an array of integers, for which all zeros is a value: the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a cpu_set_t of the size passed with it; thread 0 is the calling one.
    let status = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if status != 0 {
        return Vec::new();
    }
    // SAFETY: CPU_ISSET checks the index against the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Binds this thread to one CPU; without effect where the system refuses.
#[cfg(target_os = "linux")]
pub(super) fn bind(cpu: usize) {
    if cpu >= libc::CPU_SETSIZE as usize {
        return;
    }
    // SAFETY: as in `allowed`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the pointer is to a cpu_set_t of the size passed with it; thread 0 is the calling one.
    let _ = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
}

/// Not known on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn allowed() -> Vec<usize> {
    Vec::new()
}

/// Without effect on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn bind(_cpu: usize) {}
