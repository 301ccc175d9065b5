//! Who holds a card's memory.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys;
use libloading::Library;

use super::Device;

/// A process that uses a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number, as the driver knows it: not always this system's where processes are kept apart.
    pub pid: u32,
    /// Bytes of the card's memory that it holds.
    pub bytes: Option<u64>,
    /// What it runs.
    pub name: Option<String>,
}

/// The processes that hold memory of a card, this one among them, by number. Empty where the driver does not say.
#[must_use]
pub fn holders(device: &Device) -> Vec<Holder> {
    bus_id(device).and_then(|bus_id| Management::open()?.holders(&bus_id)).unwrap_or_default()
}

/// Where the card is: `0000:01:00.0`.
fn bus_id(device: &Device) -> Option<Vec<c_char>> {
    let mut text: Vec<c_char> = vec![0; 32];
    // SAFETY: the driver writes a string that ends with a zero into 32 bytes.
    let asked = unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), 32, device.context().cu_device()) };
    asked.result().ok().map(|()| text)
}

/// The driver's library of card management.
const NAME: &str = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };
/// Its success.
const SUCCESS: c_int = 0;
/// Its answer when there are more processes than room.
const INSUFFICIENT_SIZE: c_int = 7;
/// Processes at most.
const MOST: usize = 4096;

/// `nvmlProcessInfo_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Process {
    pid: c_uint,
    /// All bits set: unknown.
    used: u64,
    instances: [c_uint; 2],
}

type Card = *mut c_void;
type Plain = unsafe extern "C" fn() -> c_int;
type CardByBusId = unsafe extern "C" fn(*const c_char, *mut Card) -> c_int;
type Processes = unsafe extern "C" fn(Card, *mut c_uint, *mut Process) -> c_int;
type ProcessName = unsafe extern "C" fn(c_uint, *mut c_char, c_uint) -> c_int;

/// The library, started.
struct Management(Library);

impl Management {
    fn open() -> Option<Self> {
        // SAFETY: the driver's own library, whose initialisers have no conditions.
        let library = unsafe { Library::new(NAME) }.ok()?;
        // SAFETY: the type is the function's.
        let start = unsafe { library.get::<Plain>(c"nvmlInit_v2") }.ok()?;
        // SAFETY: it takes nothing and may be called at any time.
        (unsafe { start() } == SUCCESS).then(|| Self(library))
    }

    fn holders(&self, bus_id: &[c_char]) -> Option<Vec<Holder>> {
        // SAFETY: the type is the function's.
        let find = unsafe { self.0.get::<CardByBusId>(c"nvmlDeviceGetHandleByPciBusId_v2") }.ok()?;
        let mut card: Card = std::ptr::null_mut();
        // SAFETY: a string that ends with a zero, and a place for the handle.
        if unsafe { find(bus_id.as_ptr(), &raw mut card) } != SUCCESS {
            return None;
        }
        let computing =
            [c"nvmlDeviceGetComputeRunningProcesses_v3", c"nvmlDeviceGetComputeRunningProcesses_v2"];
        let drawing =
            [c"nvmlDeviceGetGraphicsRunningProcesses_v3", c"nvmlDeviceGetGraphicsRunningProcesses_v2"];
        let mut all: Vec<Holder> = [computing, drawing]
            .iter()
            .filter_map(|names| names.iter().find_map(|name| self.processes(card, name)))
            .flatten()
            .map(|process| Holder {
                pid: process.pid,
                bytes: (process.used != u64::MAX).then_some(process.used),
                name: self.name(process.pid),
            })
            .collect();
        // A process that does both is listed twice, with the same memory.
        all.sort_by_key(|holder| (holder.pid, std::cmp::Reverse(holder.bytes)));
        all.dedup_by_key(|holder| holder.pid);
        Some(all)
    }

    fn processes(&self, card: Card, name: &CStr) -> Option<Vec<Process>> {
        // SAFETY: the type is that of each of the functions; their second and third versions have one structure.
        let ask = unsafe { self.0.get::<Processes>(name) }.ok()?;
        let mut room = 64;
        loop {
            let mut processes = vec![Process { pid: 0, used: u64::MAX, instances: [0; 2] }; room];
            let mut count = room as c_uint;
            // SAFETY: a card's handle, and room for as many processes as `count` says.
            match unsafe { ask(card, &raw mut count, processes.as_mut_ptr()) } {
                SUCCESS => {
                    processes.truncate(count as usize);
                    return Some(processes);
                }
                // More may have started meanwhile.
                INSUFFICIENT_SIZE if room < MOST => room *= 4,
                _ => return None,
            }
        }
    }

    fn name(&self, pid: u32) -> Option<String> {
        // SAFETY: the type is the function's.
        let ask = unsafe { self.0.get::<ProcessName>(c"nvmlSystemGetProcessName") }.ok()?;
        let mut text: Vec<c_char> = vec![0; 1024];
        // SAFETY: room for as many bytes as the call says, the last of them a zero.
        if unsafe { ask(pid, text.as_mut_ptr(), text.len() as c_uint - 1) } != SUCCESS {
            return None;
        }
        // SAFETY: ends with a zero.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
        (!text.is_empty()).then_some(text)
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        // SAFETY: the type is the function's.
        if let Ok(end) = unsafe { self.0.get::<Plain>(c"nvmlShutdown") } {
            // SAFETY: started once in `open`.
            let _ = unsafe { end() };
        }
    }
}

const _: () = assert!(size_of::<Process>() == 24);

#[cfg(test)]
mod tests {
    use super::super::testing::card;
    use super::*;

    #[test]
    fn whoever_is_listed_is_listed_once() {
        // A machine without the library has no answer; with it, no card is where no card can be.
        let nowhere: Vec<c_char> = c"ffff:ff:1f.7".to_bytes_with_nul().iter().map(|b| *b as c_char).collect();
        let found = Management::open().and_then(|management| management.holders(&nowhere));
        assert_eq!(found, None);
        let Some(device) = card() else { return };
        let memory = device.alloc::<u8>(1 << 20).unwrap();
        let all = holders(&device);
        println!("{all:?}");
        assert!(all.windows(2).all(|pair| pair[0].pid < pair[1].pid));
        drop(memory);
    }
}
