//! All of it for few rows: a block for each head of a sequence.

use super::super::abi::delta::{DIM, DeltaArgs, FEW_BATCH, TAPS, WARP_ROWS, row_bytes};
use super::super::simt::{
    atomic_add, await_predecessors, barrier, block, divide, fence, lane, ld_shared_u32, ld_shared_u32x4,
    release_successor, shared_base, sqrt, st_global_f32x4, st_global_u32, st_shared_f32, st_shared_u32,
    st_shared_u32x4, thread, warp,
};
use super::convolve::{Channels, gates, kept, scaled, warp_dot};
use super::finish::Head;
use super::sequences::{saved, sequence, state};
use super::slice::{Gates, Inputs, QUADS, Slice, keys};

/// Bytes of a row's inputs.
const fn row_len(channels: bool) -> u32 {
    row_bytes(2 * DIM, channels)
}

/// Where a row's v, what its result is multiplied by, its gates, and what each key keeps are.
const V: u32 = 8 * DIM;
const FACTORS: u32 = V + 4 * DIM;
const GATES: u32 = FACTORS + 4 * DIM;
const KEPT: u32 = row_bytes(2 * DIM, false);
/// Rows of a ring, at most.
const RING: u32 = TAPS - 1;

/// The kernel.
///
/// The blocks of value heads that share a key head all read its channels of the ring, and the state may be written in place:
/// the last of them to have read writes these channels.
///
/// # Safety
/// The contract of `Delta`: the launch before this one leaves states, slots and starts as they are, for they are read before that has
/// ended; `FEW_THREADS` threads and [`few_bytes`](super::super::abi::delta::few_bytes) of shared memory.
#[inline(always)]
pub(crate) unsafe fn few<const CHANNELS: bool>(args: DeltaArgs) {
    let row_len = row_len(CHANNELS);
    let (index, head) = divide(block(), args.value_heads);
    let key_head = divide(head, args.key_heads).1;
    let of = sequence(&args, index);
    let own = WARP_ROWS * warp();
    let base = shared_base();
    let flag = base + FEW_BATCH * row_len;
    let used = of.first < of.end;
    let mut s = Slice::load(&args, if used { of.from } else { 0 }, head, own);
    // Four warps for each row of a batch: of q, k, v, and of the gates.
    let (turn, role) = (warp() / 4, warp() % 4);
    let width = args.key_heads * args.key_dim;
    let (start, dim) = if role == 2 {
        (2 * width + head * args.value_dim, args.value_dim)
    } else {
        (role % 3 * width + key_head * args.key_dim, if role < 2 { args.key_dim } else { 0 })
    };
    if used && turn == 0 {
        Channels::prefetch::<CHANNELS>(&args, of, start, dim);
    }
    await_predecessors();
    release_successor();
    let group = divide(args.value_heads, args.key_heads).0;
    let (mut first, mut last) = (of.first, group == 1);
    let own_row = base + turn * row_len + 16 * lane();
    let window = base + FEW_BATCH * row_len + 16 + 512 * (RING * warp()) + 16 * lane();
    while first < of.end {
        let rows = (of.end - first).min(FEW_BATCH);
        let mut to = 0;
        let mut channels = Channels::new::<CHANNELS>(&args, start, dim);
        if turn < rows {
            let row = first + turn;
            to = saved(&args, row);
            if role == 3 {
                if lane() == 0 {
                    put(base + turn * row_len + GATES, gates::<CHANNELS>(&args, row, head));
                }
                if CHANNELS {
                    put(own_row + KEPT, kept(&args, row, head));
                }
                put(own_row + FACTORS, Head::new(&args, row, head).factors(&args));
            } else {
                channels.enter::<CHANNELS>(&args, of, row);
                let mixed = channels.mixed();
                if role == 0 {
                    put(own_row, scaled(mixed, 1.0 / sqrt(args.key_dim as f32)));
                } else if role == 1 {
                    put(own_row + 4 * DIM, scaled(mixed, 1.0));
                } else {
                    put(own_row + V, mixed);
                }
                let mut i = 0;
                while i < RING {
                    put(window + 512 * i, channels.window[i as usize + 1]);
                    i += 1;
                }
            }
        }
        barrier();
        // Nobody in this block reads the ring of the state any more.
        if role == 2 && to != 0 && channels.exist {
            save(&args, channels.at, window, to);
        }
        if first == of.first && group > 1 && thread() == 0 {
            fence();
            let word = args.readers + 4 * u64::from(index * args.key_heads + key_head);
            let before = atomic_add(word, 1);
            if before + 1 == group {
                st_global_u32(word, 0);
            }
            st_shared_u32(flag, (before + 1 == group) as u32);
        }
        scan::<CHANNELS>(&args, &mut s, rows, head);
        barrier();
        if first == of.first && group > 1 {
            last = ld_shared_u32(flag) != 0;
        }
        if role < 2 && last && to != 0 && channels.exist {
            save(&args, channels.at, window, to);
        }
        if warp() < rows {
            let at = base + warp() * row_len + 16 * lane();
            let [o, factors] = [at + V, at + FACTORS].map(|at| ld_shared_u32x4(at).map(f32::from_bits));
            Head::new(&args, first + warp(), head).finish(&args, o, factors);
        }
        first += rows;
        if first < of.end {
            barrier();
        }
    }
}

/// The rows of a batch; results take the places of v.
#[inline(always)]
unsafe fn scan<const CHANNELS: bool>(args: &DeltaArgs, s: &mut Slice, rows: u32, head: u32) {
    let own = WARP_ROWS * warp();
    let (mut at, mut i) = (shared_base(), 0);
    while i < rows {
        let v = at + V + 4 * own;
        let quad = |at: u32| ld_shared_u32x4(at + 16 * lane()).map(f32::from_bits);
        let kq = warp_dot(quad(at + 4 * DIM), quad(at));
        let [decay, beta, slot, _] = ld_shared_u32x4(at + GATES);
        let gates = Gates { decay: f32::from_bits(decay), beta: f32::from_bits(beta), kq };
        let kept = if CHANNELS { keys(at + KEPT) } else { [[0.0; 4]; QUADS] };
        let k = (&keys(at + 4 * DIM), &kept);
        let (o, ()) = s.step::<CHANNELS, _>(k, Inputs { q: at, v }, gates, || ());
        if lane() < WARP_ROWS {
            st_shared_f32(v + 4 * lane(), if own + lane() < args.value_dim { o } else { 0.0 });
        }
        let to = state(args, slot);
        if to != 0 {
            s.store(args, to, head, own);
        }
        at += row_len(CHANNELS);
        i += 1;
    }
}

/// Writes four channels of the rows at `window` to the ring at `to`.
#[inline(always)]
unsafe fn save(args: &DeltaArgs, channels: u32, window: u32, to: u64) {
    let (mut i, mut at) = (RING + 1 - args.taps, to + 16 * u64::from(channels));
    while i < RING {
        st_global_f32x4(at, ld_shared_u32x4(window + 512 * i).map(f32::from_bits));
        at += 4 * u64::from(args.channels());
        i += 1;
    }
}

#[inline(always)]
unsafe fn put(at: u32, values: [f32; 4]) {
    st_shared_u32x4(at, values.map(f32::to_bits));
}
