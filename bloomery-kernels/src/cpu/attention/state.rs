//! The running softmax of a tile's query vectors: `[query][o: value_dim][l: 16 lanes][m, then padding]`.

use super::{Job, Tile};
use crate::cpu::lanes::{LANES, Lanes};
use crate::cpu::math::exp_one;

/// Values of one query vector's state.
pub(super) fn stride(dim: usize) -> usize {
    dim + 2 * LANES
}

/// The state before any position.
#[inline(always)]
pub(super) fn clear(state: &mut [f32], dim: usize) {
    state.fill(0.0);
    for query in state.chunks_exact_mut(stride(dim)) {
        query[dim + LANES] = f32::NEG_INFINITY;
    }
}

/// Adds the state `part` of a chunk to `total` (whose `l` is in its first lane), for the first `queries`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn merge<V: Lanes>(total: &mut [f32], part: &[f32], dim: usize, queries: usize) {
    let stride = stride(dim);
    let pairs = total.chunks_exact_mut(stride).zip(part.chunks_exact(stride));
    for (total, part) in pairs.take(queries) {
        let (m_total, m_part) = (total[dim + LANES], part[dim + LANES]);
        if m_part == f32::NEG_INFINITY {
            continue;
        }
        let m = if m_total > m_part { m_total } else { m_part };
        let (c_total, c_part) = (exp_one(m_total - m), exp_one(m_part - m));
        // SAFETY: `l` has 16 values and `o` a multiple of 16; the instruction set is this function's own contract.
        unsafe {
            let l = V::load(part[dim..].as_ptr()).sum();
            total[dim] = l.mul_add(c_part, total[dim] * c_total);
            total[dim + LANES] = m;
            let (c_total, c_part) = (V::splat(c_total), V::splat(c_part));
            let (to, from) = (total[..dim].as_chunks_mut::<LANES>().0, part[..dim].as_chunks::<LANES>().0);
            for (to, from) in to.iter_mut().zip(from) {
                let sum = V::load(from.as_ptr()).fma(c_part, V::load(to.as_ptr()).mul(c_total));
                sum.store(to.as_mut_ptr());
            }
        }
    }
}

/// Adds the sinks, divides, and writes the tile's part of the output.
///
/// # Safety
/// The machine has the instruction set of `V`; `tile` belongs to `job` and to the calling task alone.
#[inline(always)]
pub(super) unsafe fn finish<V: Lanes>(job: &Job<'_>, tile: &Tile, total: &[f32]) {
    let dim = job.cache.shape.value_dim();
    for (index, query) in total.chunks_exact(stride(dim)).take(tile.rows * job.group).enumerate() {
        let (row, head) = (tile.first + index / job.group, tile.head * job.group + index % job.group);
        let (mut l, m, mut c) = (query[dim], query[dim + LANES], 1.0);
        if let Some(sinks) = job.spec.sinks {
            let larger = if m > sinks[head] { m } else { sinks[head] };
            c = exp_one(m - larger);
            l = l.mul_add(c, exp_one(sinks[head] - larger));
        }
        if let Some(sums) = &job.sums {
            let at = row * job.spec.heads + head;
            // SAFETY: `attention_part` sized the sums; rows and heads of a tile are its own.
            unsafe { sums.part(at..at + 1)[0] = if l > 0.0 { m + l.ln() } else { f32::NEG_INFINITY } }
        }
        // SAFETY: `check` sized the output; rows and heads of a tile are its own; the instruction set is this function's
        // own contract.
        unsafe {
            let at = (row * job.spec.heads + head) * dim;
            let to = job.out.part(at..at + dim).as_mut_ptr();
            // Only parts have rows that see nothing.
            let inverse = if l > 0.0 { c / l } else { 0.0 };
            let (inverse, zero) = (V::splat(inverse), V::splat(0.0));
            for (i, o) in query[..dim].as_chunks::<LANES>().0.iter().enumerate() {
                // The zero turns a negative one, which rows beside this one could cause, into a positive one.
                V::load(o.as_ptr()).fma(inverse, zero).store(to.add(i * LANES));
            }
        }
    }
}
