//! Products of rows of weights that a warp's [stages](super::stages) bring in.

use super::abi::shape::Shape;
use super::activations::Layout;
use super::dots::Format;
use super::simt::{lane, shfl_xor_f32, warps};
use super::stages::{Ring, Supply};

/// `R` times `shape.side()` rows of weights and `T` rows of activations, whose chunks are the ring's next stages.
pub(crate) struct Item<'a, const R: usize, const T: usize> {
    pub(crate) shape: &'a Shape,
    /// Where this lane's rows start in a stage, but for `low % 16`.
    pub(crate) offset: [u32; R],
    /// The low bits of the addresses of the spans that the rows are in.
    pub(crate) low: [u32; R],
    pub(crate) layout: Layout,
    /// The rows of activations in shared memory.
    pub(crate) x: [u32; T],
}

/// This lane's row among those side by side, and its place in the row.
#[inline(always)]
pub(crate) fn side_and_place(shape: &Shape) -> (u32, u32) {
    (lane() >> shape.lanes_log, lane() & (shape.lanes() - 1))
}

/// The sums of a row's lanes, `R` times `T` of them: lane `place` has sums [`Sums::index`] `..`.
pub(crate) struct Sums<const R: usize, const T: usize>([f32; 16]);

impl<const R: usize, const T: usize> Sums<R, T> {
    /// Halvings: as often as a lane passes on half of its sums.
    const LEVELS: u32 = if R * T >= 8 { 3 } else { (R * T).ilog2() };
    /// Sums of a lane.
    pub(crate) const HELD: usize = (R * T) >> Self::LEVELS;

    /// The number of the first sum of a lane, if it is the one lane that delivers it: `r * T + t`.
    #[inline(always)]
    pub(crate) fn index(shape: &Shape) -> Option<u32> {
        let (_, place) = side_and_place(shape);
        let below = shape.lanes_log - Self::LEVELS;
        if place & ((1 << below) - 1) == 0 { Some((place >> below) * Self::HELD as u32) } else { None }
    }

    /// Sum `i` of this lane.
    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> f32 {
        self.0[i]
    }

    /// Adds the lanes: a tree over the distances `lanes / 2`, `lanes / 4`, .. 1, in which a lane keeps the half of its sums
    /// that its bit of the distance names.
    #[inline(always)]
    unsafe fn new(acc: &[[f32; T]; R], shape: &Shape) -> Self {
        let mut sums = [0.0; 16];
        let mut i = 0;
        while i < R * T {
            sums[i] = acc[i / T][i % T];
            i += 1;
        }
        let (half, mut count) = (shape.lanes() / 2, R * T);
        let mut level = 0;
        while level < 5 {
            let mask = half >> level;
            if level < Self::LEVELS {
                count /= 2;
                let upper = lane() & mask != 0;
                let mut i = 0;
                while i < count {
                    let (low, high) = (sums[i], sums[i + count]);
                    let (mine, other) = if upper { (high, low) } else { (low, high) };
                    sums[i] = mine + shfl_xor_f32(other, mask);
                    i += 1;
                }
            } else if level < 3 || level < shape.lanes_log {
                let mut i = 0;
                while i < Self::HELD {
                    sums[i] += shfl_xor_f32(sums[i], mask);
                    i += 1;
                }
            }
            level += 1;
        }
        Self(sums)
    }
}

/// The products.
///
/// # Safety
/// Every lane of the warp gets here; the contract of [`dots`](super::dots) for the chunks that `supply` fills in.
#[inline(always)]
pub(crate) unsafe fn products<F: Format, const R: usize, const T: usize>(
    item: &Item<'_, R, T>,
    ring: &mut Ring,
    supply: &mut impl Supply,
) -> Sums<R, T> {
    let shape = item.shape;
    let (_, place) = side_and_place(shape);
    let mut acc = [[0.0; T]; R];
    let mut chunk = 0;
    while chunk < shape.chunks {
        let stage = ring.take();
        let mut w = [0; R];
        let mut r = 0;
        while r < R {
            w[r] = stage + item.offset[r] + ((item.low[r] + chunk * shape.chunk_bytes) & 15);
            r += 1;
        }
        let first = chunk * shape.chunk_units;
        let left = shape.units - first;
        let units = if left < shape.chunk_units { left } else { shape.chunk_units };
        let mut u = place;
        while u < units {
            F::add(&w, u, first + u, item.layout, &item.x, &mut acc);
            u += shape.lanes();
        }
        ring.give_back(supply);
        chunk += 1;
    }
    Sums::new(&acc, shape)
}

/// A warp's turns among the items of several groups of equally many: `first`, `first + warps`, and so on.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    pub(crate) group: u32,
    /// In its group.
    pub(crate) item: u32,
    of_group: u32,
    /// What a turn adds to both.
    groups: u32,
    items: u32,
}

impl Walk {
    /// # Safety
    /// `of_group` is not 0.
    #[inline(always)]
    pub(crate) unsafe fn new(first: u32, of_group: u32) -> Self {
        let (group, item) = super::simt::divide(first, of_group);
        let (groups, items) = super::simt::divide(warps(), of_group);
        Self { group, item, of_group, groups, items }
    }

    /// The next turn. Returns whether it is in another group.
    #[inline(always)]
    pub(crate) fn step(&mut self) -> bool {
        let before = self.group;
        self.group += self.groups;
        self.item += self.items;
        if self.item >= self.of_group {
            self.item -= self.of_group;
            self.group += 1;
        }
        self.group != before
    }
}
