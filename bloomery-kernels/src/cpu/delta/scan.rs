//! The delta rule, row after row.

use std::ops::Range;

use super::{Call, DeltaRun, DeltaScratch, DeltaShape};
use crate::cpu::Cpu;
use crate::cpu::lanes::{Kernel, LANES, Lanes, dispatch, prefetch};
use crate::cpu::shared::Shared;

/// Bytes of a slice of a state that stays in the first-level cache while rows go over it.
const SLICE_BYTES: usize = 16 << 10;
/// Rows from which on slices are made that small.
const MANY_ROWS: usize = 4;
/// Value rows of a slice are a multiple of this.
const GROUP: usize = 4;
/// Tasks wanted for each thread.
const TASKS_PER_THREAD: usize = 4;
/// Values that are asked for ahead of use.
const AHEAD: usize = 1024;
/// Channels of a task that copies rows into a state.
const RING_CHANNELS: usize = 2048;

impl Cpu {
    /// Goes over all rows: writes the heads' results before their norm, and the states to be saved.
    pub(super) fn scan(&self, call: &Call<'_>, scratch: &mut DeltaScratch, out: &mut [f32]) {
        let shape = call.delta.shape;
        let DeltaScratch { mixed, gates, kept, order, work, .. } = scratch;
        let longest = order.first().map_or(0, |&run| call.runs[run].rows);
        let threads = self.pool.threads();
        let slice = slice(shape, longest, call.runs.len(), threads);
        let slices = shape.head_dim / slice;
        let len = slice * shape.head_dim;
        let (work, out) = (Shared::new(work.floats(threads * len)), Shared::new(out));
        let scans = call.runs.len() * shape.value_heads * slices;
        // A task's channels are of one kind: each kind is divided by itself.
        let keys = shape.key_heads * shape.head_dim;
        let part = |first: usize, len: usize| {
            (0..len).step_by(RING_CHANNELS).map(move |at| first + at..first + len.min(at + RING_CHANNELS))
        };
        let rings: Vec<Range<usize>> =
            part(0, keys).chain(part(keys, keys)).chain(part(2 * keys, shape.width())).collect();
        self.pool.run_on(scans + call.runs.len() * rings.len(), &|task, thread| {
            if let Some(ring) = task.checked_sub(scans) {
                return save_rows(call, &call.runs[ring / rings.len()], rings[ring % rings.len()].clone());
            }
            let (part, run) = (task % slices, &call.runs[order[task / slices / shape.value_heads]]);
            // SAFETY: `work` has `len` values a thread, and no two running tasks share a thread number.
            let work = unsafe { work.part(thread * len..(thread + 1) * len) };
            let head = task / slices % shape.value_heads;
            let rows = part * slice..(part + 1) * slice;
            dispatch(self.isa, Slice { call, run, head, rows, mixed, gates, kept, work, out: &out });
        });
    }
}

/// Value rows of a task. Only speed depends on it.
fn slice(shape: DeltaShape, longest: usize, runs: usize, threads: usize) -> usize {
    let dim = shape.head_dim;
    let mut slice = dim;
    while slice.is_multiple_of(2 * GROUP) {
        let large = longest >= MANY_ROWS && slice * dim * size_of::<f32>() > SLICE_BYTES;
        let few = runs * shape.value_heads * (dim / slice) < TASKS_PER_THREAD * threads;
        if !(large || few) {
            break;
        }
        slice /= 2;
    }
    slice
}

/// Puts the rows before a convolution, channels `columns`, into the states that the run saves.
fn save_rows(call: &Call<'_>, run: &DeltaRun<'_>, columns: Range<usize>) {
    let shape = call.delta.shape;
    let (channels, kept) = (shape.channels(), shape.taps - 1);
    let at = |slot: usize, index: usize| {
        let start = slot * shape.state_len() + index * channels;
        call.states.at(start + columns.start..start + columns.end)
    };
    let save = |&(row, slot): &(usize, usize)| {
        let passed = row - run.first + 1;
        // Ascending, so that a state that is shifted in place is read before it is overwritten.
        for index in 0..kept {
            let to = at(slot, index);
            let from = if passed + index >= kept {
                let row = run.first + passed + index - kept;
                call.input.qkv.part(shape, row, columns.clone()).as_ptr()
            } else if let Some(from) = run.from {
                at(from, passed + index).cast_const()
            } else {
                // SAFETY: as below.
                unsafe { to.write_bytes(0, columns.len()) }
                continue;
            };
            // SAFETY: `at` checked the bounds; this run alone writes to the slot, no other reads it (`check`), and this
            // task has these channels of the run's states to itself, which no slice of S overlaps. Source and target are
            // different rows of a state, or of different memory.
            unsafe { to.copy_from_nonoverlapping(from, columns.len()) }
        }
    };
    // The state that the run began with is overwritten last.
    let own = |save: &&(usize, usize)| run.from == Some(save.1);
    run.saves.iter().filter(|save| !own(save)).for_each(save);
    run.saves.iter().filter(own).for_each(save);
}

/// Some value rows of one head of one run.
struct Slice<'a> {
    call: &'a Call<'a>,
    run: &'a DeltaRun<'a>,
    head: usize,
    rows: Range<usize>,
    mixed: &'a [f32],
    gates: &'a [[f32; 2]],
    kept: &'a [f32],
    /// The slice's part of S where it is not saved.
    work: &'a mut [f32],
    out: &'a Shared<'a, f32>,
}

impl Kernel for Slice<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let Self { call, run, head, rows, mixed, gates, kept, work, out } = self;
        let shape = call.delta.shape;
        let (dim, key_head) = (shape.head_dim, head % shape.key_heads);
        let slot = |slot: usize| {
            let start = slot * shape.state_len() + shape.ring_len() + (head * dim + rows.start) * dim;
            call.states.at(start..start + rows.len() * dim)
        };
        let work = match run.from {
            Some(_) => work.as_mut_ptr(),
            None => {
                work.fill(0.0);
                work.as_mut_ptr()
            }
        };
        let mut state = run.from.map_or(work, slot).cast_const();
        let mut saves = run.saves.iter().peekable();
        for row in run.range() {
            let heads = &mixed[row * shape.channels()..(row + 1) * shape.channels()];
            let value = (2 * shape.key_heads + head) * dim;
            let next = saves.next_if(|save| save.0 == row).map_or(work, |save| slot(save.1));
            let start = (row * shape.value_heads + head) * dim;
            // SAFETY: this task has these values of the row to itself.
            let out = unsafe { out.part(start + rows.start..start + rows.end) };
            let step = Row {
                q: &heads[key_head * dim..][..dim],
                k: &heads[(shape.key_heads + key_head) * dim..][..dim],
                v: &heads[value + rows.start..value + rows.end],
                gates: gates[row * shape.value_heads + head],
                kept: kept.get(start..start + dim),
                out,
            };
            // SAFETY: both states have `rows.len() * dim` values, which are this task's; they are the same memory or
            // do not overlap; the instruction set is the caller's promise.
            unsafe {
                let ahead = row == run.first;
                match (V::TILE, ahead, step.kept) {
                    (4, true, None) => step.run::<V, 2>(state, next, true),
                    (4, false, None) => step.run::<V, 2>(state, next, false),
                    (_, true, None) => step.run::<V, GROUP>(state, next, true),
                    (_, false, None) => step.run::<V, GROUP>(state, next, false),
                    (4, _, Some(kept)) => step.run_channels::<V, 2>(kept, state, next),
                    (_, _, Some(kept)) => step.run_channels::<V, GROUP>(kept, state, next),
                }
            }
            state = next.cast_const();
        }
    }
}

/// One row for some values of a head.
struct Row<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    gates: [f32; 2],
    /// What each channel keeps, where that differs.
    kept: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl Row<'_> {
    /// From the state before to the state after the row, `R` value rows at once. `ahead`: asks for what is used next, where the
    /// state is in no cache yet.
    ///
    /// # Safety
    /// Both states have `v.len()` rows of `k.len()` values and are the same or do not overlap; `v` and `out` have a multiple
    /// of `R` values, `q` and `k` the same multiple of 16; the machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn run<V: Lanes, const R: usize>(self, before: *const f32, after: *mut f32, ahead: bool) {
        let Self { q, k, v, gates: [beta, keep], out, .. } = self;
        let (dim, q, k) = (k.len(), q.as_ptr(), k.as_ptr());
        // SAFETY: this function's own contract.
        unsafe {
            let mut both = V::splat(0.0);
            for at in (0..dim).step_by(LANES) {
                both = V::load(k.add(at)).fma(V::load(q.add(at)), both);
            }
            let both = both.sum();
            let kept = V::splat(keep);
            let groups = v.as_chunks::<R>().0.iter().zip(out.as_chunks_mut::<R>().0);
            for (group, (v, out)) in groups.enumerate() {
                let (before, after) = (before.add(group * R * dim), after.add(group * R * dim));
                let (mut stored, mut read) = ([V::splat(0.0); R], [V::splat(0.0); R]);
                for at in (0..dim).step_by(LANES) {
                    let (key, query) = (V::load(k.add(at)), V::load(q.add(at)));
                    for (r, (stored, read)) in stored.iter_mut().zip(&mut read).enumerate() {
                        let from = before.add(r * dim + at);
                        let state = V::load(from);
                        if ahead {
                            prefetch(from.wrapping_add(AHEAD).cast());
                        }
                        *stored = state.fma(key, *stored);
                        *read = state.fma(query, *read);
                    }
                }
                let mut writes = [V::splat(0.0); R];
                let [stored, read] = V::sums([stored, read]);
                for r in 0..R {
                    let write = beta * (v[r] - keep * stored[r]);
                    out[r] = write.mul_add(both, keep * read[r]);
                    writes[r] = V::splat(write);
                }
                for at in (0..dim).step_by(LANES) {
                    let key = V::load(k.add(at));
                    for (r, write) in writes.iter().enumerate() {
                        let state = V::load(before.add(r * dim + at));
                        key.fma(*write, state.mul(kept)).store(after.add(r * dim + at));
                    }
                }
            }
        }
    }

    /// As [`run`](Self::run), where every channel keeps a share of its own.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `kept` has as many values as `k`.
    #[inline(always)]
    unsafe fn run_channels<V: Lanes, const R: usize>(
        self,
        kept: &[f32],
        before: *const f32,
        after: *mut f32,
    ) {
        let Self { q, k, v, gates: [beta, _], out, .. } = self;
        let (dim, q, k, kept) = (k.len(), q.as_ptr(), k.as_ptr(), kept.as_ptr());
        // SAFETY: this function's own contract.
        unsafe {
            let mut both = V::splat(0.0);
            for at in (0..dim).step_by(LANES) {
                both = V::load(k.add(at)).fma(V::load(q.add(at)), both);
            }
            let both = both.sum();
            let groups = v.as_chunks::<R>().0.iter().zip(out.as_chunks_mut::<R>().0);
            for (group, (v, out)) in groups.enumerate() {
                let (before, after) = (before.add(group * R * dim), after.add(group * R * dim));
                let (mut stored, mut read) = ([V::splat(0.0); R], [V::splat(0.0); R]);
                for at in (0..dim).step_by(LANES) {
                    let (key, query, kept) = (V::load(k.add(at)), V::load(q.add(at)), V::load(kept.add(at)));
                    for (r, (stored, read)) in stored.iter_mut().zip(&mut read).enumerate() {
                        let state = V::load(before.add(r * dim + at)).mul(kept);
                        *stored = state.fma(key, *stored);
                        *read = state.fma(query, *read);
                    }
                }
                let mut writes = [V::splat(0.0); R];
                let [stored, read] = V::sums([stored, read]);
                for r in 0..R {
                    let write = beta * (v[r] - stored[r]);
                    out[r] = write.mul_add(both, read[r]);
                    writes[r] = V::splat(write);
                }
                for at in (0..dim).step_by(LANES) {
                    let (key, kept) = (V::load(k.add(at)), V::load(kept.add(at)));
                    for (r, write) in writes.iter().enumerate() {
                        let state = V::load(before.add(r * dim + at)).mul(kept);
                        key.fma(*write, state).store(after.add(r * dim + at));
                    }
                }
            }
        }
    }
}
