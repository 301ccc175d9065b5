//! Kernels for up to 8 rows, which are what one operand of the tensor cores has room for: a decode step of a few streams.
//!
//! The time of such a step is that of its weights on their way and of a hundred kernels in a chain. So a warp loads its first
//! tile before the predecessor has ended, each block normalises and rounds the rows for itself, and nothing is written to
//! memory but results.

pub(crate) mod down;
pub(crate) mod gate_up;
pub(crate) mod project;

use super::abi::routes::{Routes, TOKENS};
use super::groups::{Asked, Group, Groups};
use super::simt::{divide, lane, ld_shared_f32, st_shared_f32};

/// Of `all` things in turn: the first of part `i` of `parts`, and how many it has.
#[inline(always)]
unsafe fn share(all: u32, i: u32, parts: u32) -> (u32, u32) {
    let (each, extra) = divide(all, parts);
    let more = if i < extra { i } else { extra };
    (i * each + more, each + (i < extra) as u32)
}

/// The groups' table, of one token or several.
///
/// # Safety
/// As [`Groups::new`], of at most [`PAIRS`](super::abi::routes::PAIRS) pairs.
#[inline(always)]
unsafe fn table(asked: Asked, routes: &Routes, tokens: u32, at: u32) -> Groups {
    let groups = Groups::new(asked, routes, tokens, at);
    if tokens == 1 && routes.used <= 32 { groups.of_one(asked) } else { groups.of_several(asked, TOKENS) }
}

/// What tiles add to sums, in shared memory: `[items][tokens][16 rows]`.
#[derive(Clone, Copy)]
struct Sums {
    at: u32,
    tokens: u32,
}

impl Sums {
    /// Keeps what an item gave.
    #[inline(always)]
    unsafe fn put(self, item: u32, sums: [f32; 4]) {
        let (g, t) = (lane() / 4, lane() % 4);
        let mut i = 0;
        while i < 4 {
            let (row, token) = (g + 8 * (i / 2), 2 * t + i % 2);
            if token < self.tokens {
                st_shared_f32(self.at + 4 * (16 * (item * self.tokens + token) + row), sums[i as usize]);
            }
            i += 1;
        }
    }

    /// Keeps what a block gave for the members of a group, each at its own place among `tokens`.
    #[inline(always)]
    unsafe fn put_members(self, block: u32, group: &Group, sums: [f32; 4]) {
        let (g, t) = (lane() / 4, lane() % 4);
        let mut i = 0;
        while i < 4 {
            let (row, member) = (g + 8 * (i / 2), 2 * t + i % 2);
            if member < group.members {
                let place = 16 * (block * self.tokens + group.member(member)) + row;
                st_shared_f32(self.at + 4 * place, sums[i as usize]);
            }
            i += 1;
        }
    }

    /// Items `first, first + step ..`, `count` of them, of a row and token, added in order.
    #[inline(always)]
    unsafe fn of_row(self, first: u32, (step, count): (u32, u32), token: u32, row: u32) -> f32 {
        let mut at = self.at + 4 * (16 * (first * self.tokens + token) + row);
        let stride = 64 * step * self.tokens;
        let (mut sum, mut item) = (0.0, 0);
        // Four loads on their way at a time.
        while item + 4 <= count {
            let values = [0, 1, 2, 3].map(|i| ld_shared_f32(at + i * stride));
            sum = sum + values[0] + values[1] + values[2] + values[3];
            at += 4 * stride;
            item += 4;
        }
        while item < count {
            sum += ld_shared_f32(at);
            at += stride;
            item += 1;
        }
        sum
    }
}
