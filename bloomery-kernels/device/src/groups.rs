//! Which tokens share an expert.
//!
//! ```text
//! shared memory   0   groups of the pairs of each of 4 warps
//!                16   expert of every group           u32 x PAIRS
//!                     members of every group          u32 x PAIRS
//!                     pairs of every group            u8 x 8 x PAIRS
//!                     expert of every pair, or !0     u32 x PAIRS
//!                     weight of every pair            f32 x PAIRS
//! ```

use super::abi::routes::{PAIRS, Routes};
use super::simt::{
    ballot, barrier, divide, lane, ld_global_f32, ld_global_u32, ld_shared_f32, ld_shared_u32,
    ld_shared_u32x2, ld_shared_u32x4, st_shared_f32, st_shared_u8, st_shared_u32, thread, warp,
};

const EXPERTS: u32 = 16;
const MEMBERS: u32 = EXPERTS + 4 * PAIRS;
const LISTS: u32 = MEMBERS + 4 * PAIRS;
const CHOSEN: u32 = LISTS + 8 * PAIRS;
const WEIGHTS: u32 = CHOSEN + 4 * PAIRS;

/// The table of a block.
#[derive(Clone, Copy)]
pub(crate) struct Groups {
    at: u32,
    used: u32,
    pairs: u32,
}

/// The pairs of one expert.
pub(crate) struct Group {
    pub(crate) expert: u32,
    pub(crate) members: u32,
    list: [u32; 2],
}

impl Group {
    /// `members` tokens, each with a pair of its own number.
    #[inline(always)]
    pub(crate) fn of_all(members: u32) -> Self {
        Self { expert: 0, members, list: [0x0302_0100, 0x0706_0504] }
    }

    /// The pair of member `k`, of those past the end the first.
    #[inline(always)]
    pub(crate) fn member(&self, k: u32) -> u32 {
        let k = if k < self.members { k } else { 0 };
        let word = if k < 4 { self.list[0] } else { self.list[1] };
        (word >> (8 * (k % 4))) & 0xff
    }
}

/// A thread's pair: loaded before it is needed.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    expert: u32,
    weight: f32,
}

impl Groups {
    /// Loads what the router wrote of this thread's pair.
    ///
    /// # Safety
    /// The router has written `tokens` times `routes.used` numbers and weights, at most [`PAIRS`].
    #[inline(always)]
    pub(crate) unsafe fn ask(routes: &Routes, tokens: u32) -> Asked {
        let pair = thread();
        if pair >= tokens * routes.used {
            return Asked { expert: !0, weight: 0.0 };
        }
        if routes.experts == 0 {
            return Asked { expert: 0, weight: 1.0 };
        }
        let expert = ld_global_u32(routes.experts + 4 * u64::from(pair));
        let weight = ld_global_f32(routes.weights + 4 * u64::from(pair));
        Asked { expert: if expert < routes.count { expert } else { !0 }, weight }
    }

    /// Begins the table at `at`, to be ended by [`of_one`](Self::of_one) or [`of_several`](Self::of_several).
    ///
    /// # Safety
    /// Every thread of the block gets here, 128 at least; there is room for `GROUPS_BYTES` bytes, aligned to 16.
    #[inline(always)]
    pub(crate) unsafe fn new(asked: Asked, routes: &Routes, tokens: u32, at: u32) -> Self {
        let (pairs, pair) = (tokens * routes.used, thread());
        if pair < pairs {
            st_shared_u32(at + CHOSEN + 4 * pair, asked.expert);
            st_shared_f32(at + WEIGHTS + 4 * pair, asked.weight);
        }
        Self { at, used: routes.used, pairs }
    }

    /// Every pair is a group. Ends with a barrier.
    ///
    /// # Safety
    /// Every thread of the block gets here; there is one token, of at most 32 pairs.
    #[inline(always)]
    pub(crate) unsafe fn of_one(self, asked: Asked) -> Self {
        let Self { at, .. } = self;
        let expert = asked.expert;
        if warp() == 0 {
            let number = number(ballot(expert != !0), at);
            if expert != !0 {
                st_shared_u32(at + EXPERTS + 4 * number, expert);
                st_shared_u32(at + MEMBERS + 4 * number, 1);
                st_shared_u8(at + LISTS + 8 * number, thread());
            }
        } else if warp() < 4 && lane() == 0 {
            st_shared_u32(at + 4 * warp(), 0);
        }
        barrier();
        self
    }

    /// Groups of up to `most` (1 to 8) pairs of an expert. Ends with a barrier.
    ///
    /// # Safety
    /// Every thread of the block gets here; there are at most [`PAIRS`] pairs.
    #[inline(always)]
    pub(crate) unsafe fn of_several(self, asked: Asked, most: u32) -> Self {
        let Self { at, pairs, .. } = self;
        let (pair, expert) = (thread(), asked.expert);
        barrier();
        // Every `most`-th pair of an expert starts a group.
        let (mut same, mut other) = (0, 0);
        if expert != !0 {
            while other < pair {
                same += (ld_shared_u32(at + CHOSEN + 4 * other) == expert) as u32;
                other += 1;
            }
        }
        let first = expert != !0 && divide(same, most).1 == 0;
        // Groups are numbered in the order of their first pairs.
        let mut number_of = 0;
        if warp() < PAIRS / 32 {
            number_of = number(ballot(first), at);
        }
        barrier();
        if first {
            let before = ld_shared_u32x4(at);
            let mut w = 0;
            while w < 4 {
                number_of += if w < warp() { before[w as usize] } else { 0 };
                w += 1;
            }
            st_shared_u32(at + EXPERTS + 4 * number_of, expert);
            let (mut members, mut other) = (0, pair);
            while other < pairs {
                let same = other == pair || ld_shared_u32(at + CHOSEN + 4 * other) == expert;
                if same && members < most {
                    st_shared_u8(at + LISTS + 8 * number_of + members, other);
                    members += 1;
                }
                other += 1;
            }
            st_shared_u32(at + MEMBERS + 4 * number_of, members);
        }
        barrier();
        self
    }

    /// How many there are.
    #[inline(always)]
    pub(crate) unsafe fn count(self) -> u32 {
        let [a, b, c, d] = ld_shared_u32x4(self.at);
        a + b + c + d
    }

    /// The expert of a group.
    #[inline(always)]
    pub(crate) unsafe fn expert(self, group: u32) -> u32 {
        ld_shared_u32(self.at + EXPERTS + 4 * group)
    }

    /// A group.
    #[inline(always)]
    pub(crate) unsafe fn get(self, group: u32) -> Group {
        Group {
            expert: self.expert(group),
            members: ld_shared_u32(self.at + MEMBERS + 4 * group),
            list: ld_shared_u32x2(self.at + LISTS + 8 * group),
        }
    }

    /// Whether a pair has an expert, and its weight.
    #[inline(always)]
    pub(crate) unsafe fn weight(self, pair: u32) -> (bool, f32) {
        let chosen = ld_shared_u32(self.at + CHOSEN + 4 * pair) != !0;
        (chosen, ld_shared_f32(self.at + WEIGHTS + 4 * pair))
    }

    /// Experts of a token.
    #[inline(always)]
    pub(crate) fn used(self) -> u32 {
        self.used
    }
}

/// How many of the warp's `firsts` are before this lane; writes down how many there are.
#[inline(always)]
unsafe fn number(firsts: u32, at: u32) -> u32 {
    if lane() == 0 {
        st_shared_u32(at + 4 * warp(), firsts.count_ones());
    }
    (firsts & ((1 << lane()) - 1)).count_ones()
}
