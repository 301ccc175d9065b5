//! What this machine has: memory that is free for us, and cores.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use crate::units::{Bytes, Rate};

/// The host as the planner sees it. Plans are pure functions of these facts, so tests make them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFacts {
    /// Memory that can be used without pushing out other programs, cgroup limits included.
    pub available: Bytes,
    /// Physical cores this process may run on.
    pub cores: NonZeroUsize,
    /// What all cores together read of memory, if that was measured.
    pub read_rate: Option<Rate>,
}

impl HostFacts {
    /// Reads the facts of this machine. Where the system does not tell, memory counts as unlimited.
    #[must_use]
    pub fn read() -> Self {
        let meminfo = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_available(&text));
        let limits = [meminfo, cgroup_available(Path::new("/sys/fs/cgroup"))];
        let available = limits.into_iter().flatten().min().unwrap_or(Bytes(u64::MAX));
        Self { available, cores: cores(), read_rate: None }
    }

    /// A machine of this size.
    #[must_use]
    pub fn new(available: Bytes, cores: NonZeroUsize) -> Self {
        Self { available, cores, read_rate: None }
    }
}

fn mem_available(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib.saturating_mul(1024)))
}

/// What a cgroup (version 2, or 1 below `memory/`) leaves us. Its page cache counts as free: the kernel gives that
/// back before it kills anything.
fn cgroup_available(root: &Path) -> Option<Bytes> {
    let number = |path: &str| fs::read_to_string(root.join(path)).ok()?.trim().parse::<u64>().ok();
    let stat = |path: &str, key: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok())
    };
    let (limit, used, cache) = match number("memory.max") {
        Some(limit) => (limit, number("memory.current")?, stat("memory.stat", "inactive_file ")),
        None => (
            number("memory/memory.limit_in_bytes")?,
            number("memory/memory.usage_in_bytes")?,
            stat("memory/memory.stat", "total_inactive_file "),
        ),
    };
    Some(Bytes(limit.saturating_sub(used.saturating_sub(cache.unwrap_or(0)))))
}

/// Physical cores among those this process may use: two threads of one core share its vector units, so a second one
/// only adds waiting.
fn cores() -> NonZeroUsize {
    let allowed = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let read = |cpu: usize, name: &str| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}")).ok()
    };
    let mut seen = HashSet::new();
    for cpu in 0.. {
        match (read(cpu, "physical_package_id"), read(cpu, "core_id")) {
            (Some(package), Some(core)) => seen.insert((package, core)),
            _ => break,
        };
    }
    NonZeroUsize::new(seen.len()).map_or(allowed, |physical| physical.min(allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_kib() {
        let text = "MemTotal:       24596788 kB\nMemAvailable:   22000000 kB\n";
        assert_eq!(mem_available(text), Some(Bytes(22_000_000 * 1024)));
        assert_eq!(mem_available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn cgroups_of_both_versions_limit_memory() {
        let root = std::env::temp_dir().join(format!("bloomery-cgroup-{}", std::process::id()));
        fs::create_dir_all(root.join("memory")).unwrap();
        assert_eq!(cgroup_available(&root), None);
        fs::write(root.join("memory/memory.limit_in_bytes"), "1000\n").unwrap();
        fs::write(root.join("memory/memory.usage_in_bytes"), "600\n").unwrap();
        fs::write(root.join("memory/memory.stat"), "cache 1\ntotal_inactive_file 100\n").unwrap();
        assert_eq!(cgroup_available(&root), Some(Bytes(500)));
        fs::write(root.join("memory.max"), "max\n").unwrap();
        assert_eq!(cgroup_available(&root), Some(Bytes(500)), "version 2 without a limit");
        fs::write(root.join("memory.max"), "5000\n").unwrap();
        fs::write(root.join("memory.current"), "4900\n").unwrap();
        fs::write(root.join("memory.stat"), "inactive_file 300\n").unwrap();
        assert_eq!(cgroup_available(&root), Some(Bytes(400)));
        fs::remove_dir_all(&root).unwrap();
    }
}
