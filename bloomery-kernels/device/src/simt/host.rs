//! The twin for tests: what a thread of [`run`] can do.
//!
//! Nothing here is inlined: kernels call it thousands of times when their loops are unrolled, and would take minutes to compile.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use super::host_run::run;
use super::host_run::{with, yield_now};
use super::{WARP, lane};

#[inline(never)]
pub(crate) fn thread() -> u32 {
    with(|place| place.thread)
}

#[inline(never)]
pub(crate) fn threads() -> u32 {
    with(|place| place.threads)
}

#[inline(never)]
pub(crate) fn block() -> u32 {
    with(|place| place.block)
}

#[inline(never)]
pub(crate) fn blocks() -> u32 {
    with(|place| place.blocks)
}

#[inline(never)]
pub(crate) fn shared_base() -> u32 {
    0
}

#[inline(never)]
pub(crate) unsafe fn barrier() {
    with(|place| place.barrier.clone()).wait();
}

#[inline(never)]
pub(crate) unsafe fn warp_barrier() {
    with(|place| place.warp.clone()).barrier.wait();
}

#[inline(never)]
pub(crate) unsafe fn await_predecessors() {}

#[inline(never)]
pub(crate) unsafe fn release_successor() {}

/// The value, of which the compiler knows nothing more.
pub(crate) fn unknown(value: u32) -> u32 {
    value
}

/// What `pick` makes of the values of all threads of the warp.
fn exchange<T>(value: u32, pick: impl FnOnce(&[Cell<u32>; 32], usize) -> T) -> T {
    let (warp, lane) = with(|place| (place.warp.clone(), (place.thread % WARP) as usize));
    warp.slots[lane].set(value);
    warp.barrier.wait();
    let out = pick(&warp.slots, lane);
    warp.barrier.wait();
    out
}

#[inline(never)]
pub(crate) unsafe fn shfl_xor(value: u32, mask: u32) -> u32 {
    exchange(value, |slots, lane| slots[lane ^ mask as usize].get())
}

#[inline(never)]
pub(crate) unsafe fn shfl(value: u32, from: u32) -> u32 {
    exchange(value, |slots, _| slots[from as usize].get())
}

#[inline(never)]
pub(crate) unsafe fn warp_max(value: u32) -> u32 {
    exchange(value, |slots, _| slots.iter().map(|slot| slot.get()).max().unwrap_or(0))
}

#[inline(never)]
pub(crate) unsafe fn ballot(value: bool) -> u32 {
    exchange(value.into(), |slots, _| slots.iter().enumerate().map(|(i, slot)| slot.get() << i).sum())
}

/// `T` at a place of shared memory that is checked to be inside and aligned.
fn shared<T>(at: u32) -> *mut T {
    with(|place| {
        let (at, size) = (at as usize, size_of::<T>());
        assert!(at + size <= place.memory.len(), "{at} + {size} of {}", place.memory.len());
        assert!(at.is_multiple_of(size), "{size} bytes at {at}");
        // SAFETY: inside the allocation, as checked.
        unsafe { place.memory.bytes.add(at).cast() }
    })
}

pub(super) fn global<T>(at: u64) -> *mut T {
    assert!(at != 0 && at.is_multiple_of(size_of::<T>() as u64), "{} bytes at {at:#x}", size_of::<T>());
    at as *mut T
}

#[inline(never)]
pub(crate) unsafe fn ld_shared_u8(at: u32) -> u32 {
    shared::<u8>(at).read_volatile().into()
}

#[inline(never)]
pub(crate) unsafe fn ld_shared_u16(at: u32) -> u16 {
    shared::<u16>(at).read_volatile()
}

#[inline(never)]
pub(crate) unsafe fn ld_shared_u32(at: u32) -> u32 {
    shared::<u32>(at).read_volatile()
}

#[inline(never)]
pub(crate) unsafe fn ld_shared_u32x2(at: u32) -> [u32; 2] {
    shared::<[u32; 2]>(at).read_volatile()
}

#[inline(never)]
pub(crate) unsafe fn ld_shared_u32x4(at: u32) -> [u32; 4] {
    shared::<[u32; 4]>(at).read_volatile()
}

#[inline(never)]
pub(crate) unsafe fn st_shared_u8(at: u32, value: u32) {
    shared::<u8>(at).write_volatile(value as u8);
}

#[inline(never)]
pub(crate) unsafe fn st_shared_u16(at: u32, value: u32) {
    shared::<u16>(at).write_volatile(value as u16);
}

#[inline(never)]
pub(crate) unsafe fn st_shared_u32(at: u32, value: u32) {
    shared::<u32>(at).write_volatile(value);
}

#[inline(never)]
pub(crate) unsafe fn st_shared_u32x2(at: u32, value: [u32; 2]) {
    shared::<[u32; 2]>(at).write_volatile(value);
}

#[inline(never)]
pub(crate) unsafe fn st_shared_u32x4(at: u32, value: [u32; 4]) {
    shared::<[u32; 4]>(at).write_volatile(value);
}

#[inline(never)]
pub(crate) unsafe fn copy_async16(to: u32, from: u64) {
    let _ = (shared::<[u32; 4]>(to), global::<[u32; 4]>(from));
    with(|place| place.open.push((to, from, 16)));
}

#[inline(never)]
pub(crate) unsafe fn copy_commit() {
    with(|place| {
        let group = std::mem::take(&mut place.open);
        place.groups.push_back(group);
    });
}

#[inline(never)]
pub(crate) unsafe fn copy_wait(left: u32) {
    loop {
        let group =
            with(|place| if place.groups.len() > left as usize { place.groups.pop_front() } else { None });
        let Some(group) = group else { return };
        for (to, from, bytes) in group {
            match bytes {
                16 => shared::<[u32; 4]>(to).write_volatile(global::<[u32; 4]>(from).read()),
                _ => shared::<u32>(to).write_volatile(global::<u32>(from).read()),
            }
        }
    }
}

#[inline(never)]
pub(crate) fn bulk_copies() -> bool {
    with(|place| place.bulk)
}

#[inline(never)]
pub(crate) unsafe fn bulk_barrier(at: u32) {
    let _ = shared::<u64>(at);
}

#[inline(never)]
pub(crate) unsafe fn bulk_copy(to: u32, from: u64, bytes: u32, barrier: u32) {
    assert!(bytes.is_multiple_of(16) && barrier.is_multiple_of(8), "{bytes} bytes, barrier at {barrier}");
    for at in (0..bytes).step_by(16) {
        let _ = (shared::<[u32; 4]>(to + at), global::<[u32; 4]>(from + u64::from(at)));
        with(|place| place.bulks.push((barrier, to + at, from + u64::from(at))));
    }
}

#[inline(never)]
pub(crate) unsafe fn bulk_announce(barrier: u32, bytes: u32) {
    with(|place| {
        assert!(!place.bulks.iter().any(|bulk| bulk.0 == barrier), "announced before the barrier has opened");
        place.announced.insert(barrier, bytes);
    });
}

#[inline(never)]
pub(crate) unsafe fn bulk_wait(barrier: u32, _odd: u32) {
    let due = with(|place| place.bulks.extract_if(.., |bulk| bulk.0 == barrier).collect::<Vec<_>>());
    if lane() == 0 {
        let announced = with(|place| place.announced.remove(&barrier));
        assert_eq!(announced, Some(16 * due.len() as u32), "bytes announced to the barrier at {barrier}");
    }
    for (_, to, from) in due {
        shared::<[u32; 4]>(to).write_volatile(global::<[u32; 4]>(from).read());
    }
    warp_barrier();
}

#[inline(never)]
pub(crate) unsafe fn ld_global_u32(at: u64) -> u32 {
    global::<u32>(at).read_volatile()
}

#[inline(never)]
pub(crate) unsafe fn ld_global_f32(at: u64) -> f32 {
    global::<f32>(at).read_volatile()
}

#[inline(never)]
pub(crate) unsafe fn ld_global_f32x4(at: u64) -> [f32; 4] {
    global::<[f32; 4]>(at).read_volatile()
}

#[inline(never)]
pub(crate) unsafe fn st_global_u16(at: u64, value: u32) {
    global::<u16>(at).write_volatile(value as u16);
}

#[inline(never)]
pub(crate) unsafe fn st_global_u32(at: u64, value: u32) {
    global::<u32>(at).write_volatile(value);
}

#[inline(never)]
pub(crate) unsafe fn st_global_u32x2(at: u64, value: [u32; 2]) {
    global::<[u32; 2]>(at).write_volatile(value);
}

#[inline(never)]
pub(crate) unsafe fn st_global_f32(at: u64, value: f32) {
    st_global_u32(at, value.to_bits());
}

#[inline(never)]
pub(crate) unsafe fn st_global_f32x4(at: u64, value: [f32; 4]) {
    global::<[f32; 4]>(at).write_volatile(value);
}

#[inline(never)]
pub(crate) fn dp4a(a: u32, b: u32, c: i32) -> i32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    a.iter().zip(b).map(|(&a, b)| i32::from(a as i8) * i32::from(b as i8)).sum::<i32>() + c
}

#[inline(never)]
pub(crate) fn dp4a_us(a: u32, b: u32, c: i32) -> i32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    a.iter().zip(b).map(|(&a, b)| i32::from(a) * i32::from(b as i8)).sum::<i32>() + c
}

#[inline(never)]
pub(crate) fn dp2a_low(a: u32, b: u32, c: i32) -> i32 {
    let b = b.to_le_bytes();
    i32::from(a as i16) * i32::from(b[0]) + i32::from((a >> 16) as i16) * i32::from(b[1]) + c
}

#[inline(never)]
pub(crate) fn dp2a_high(a: u32, b: u32, c: i32) -> i32 {
    dp2a_low(a, b >> 16, c)
}

#[inline(never)]
pub(crate) fn permute(a: u32, b: u32, choice: u32) -> u32 {
    assert_eq!(choice & 0x8888, 0, "a choice of {choice:#x} would spread signs");
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    u32::from_le_bytes(std::array::from_fn(|i| bytes[(choice >> (4 * i)) as usize & 7]))
}

#[inline(never)]
pub(crate) fn funnel(low: u32, high: u32, shift: u32) -> u32 {
    assert!(shift < 32);
    ((u64::from(high) << 32 | u64::from(low)) >> shift) as u32
}

pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

#[inline(never)]
pub(crate) fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

#[inline(never)]
pub(crate) fn round(x: f32) -> i32 {
    x.round_ties_even() as i32
}

#[inline(never)]
pub(crate) fn half(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32()
}

/// A word that threads share.
unsafe fn atomic<'a>(at: *mut u32) -> &'a AtomicU32 {
    AtomicU32::from_ptr(at)
}

pub(crate) unsafe fn ld_relaxed_u32(at: u64) -> u32 {
    yield_now();
    atomic(global(at)).load(Ordering::Relaxed)
}

pub(crate) unsafe fn ld_relaxed_u32x4(at: u64) -> [u32; 4] {
    let _ = global::<[u32; 4]>(at);
    std::array::from_fn(|i| ld_relaxed_u32(at + 4 * i as u64))
}

pub(crate) unsafe fn st_relaxed_u32(at: u64, value: u32) {
    atomic(global(at)).store(value, Ordering::Relaxed);
}

pub(crate) unsafe fn st_global_u32x4(at: u64, value: [u32; 4]) {
    global::<[u32; 4]>(at).write_volatile(value);
}

pub(crate) unsafe fn add_shared_u32(at: u32, value: u32) -> u32 {
    atomic(shared(at)).fetch_add(value, Ordering::Relaxed)
}

pub(crate) unsafe fn warp_add(value: u32) -> u32 {
    exchange(value, |slots, _| slots.iter().fold(0_u32, |sum, slot| sum.wrapping_add(slot.get())))
}

pub(crate) unsafe fn warp_match(value: u32) -> u32 {
    exchange(value, |slots, _| {
        let same = |slot: &Cell<u32>| u32::from(slot.get() == value);
        slots.iter().enumerate().map(|(i, slot)| same(slot) << i).sum()
    })
}

pub(crate) fn sub_halves(a: u32, b: u32) -> u32 {
    let one = |a: u32, b: u32| u32::from(to_half(half(a as u16) - half(b as u16)));
    one(a, b) | one(a >> 16, b >> 16) << 16
}

pub(crate) fn to_half(x: f32) -> u16 {
    half::f16::from_f32(x).to_bits()
}

pub(crate) fn signed_byte(word: u32, i: u32) -> i32 {
    i32::from((word >> (8 * i)) as i8)
}

pub(crate) unsafe fn ld_global_u16(at: u64) -> u32 {
    u32::from(*global::<u16>(at))
}

pub(crate) unsafe fn ld_global_u8(at: u64) -> u32 {
    global::<u8>(at).read_volatile().into()
}

pub(crate) unsafe fn copy_async4(to: u32, from: u64) {
    let _ = (shared::<u32>(to), global::<u32>(from));
    with(|place| place.open.push((to, from, 4)));
}

pub(crate) unsafe fn prefetch(at: u64) {
    let _ = global::<u8>(at);
}
