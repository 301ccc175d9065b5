//! Rotary position embedding, the head norms before it, and the append to the cache.

mod latent;
mod table;

use super::kv::{KvLayerMut, KvShape, PAGE, RowSlot, write_key, write_value};
use super::lanes::{Kernel, Lanes, dispatch};
use super::norm::in_place;
use super::shared::Shared;
use super::split;
use super::{Cpu, KernelError, Norm};

pub use table::{Pairs, RopeSpec, RopeTable, Yarn};

/// What happens to queries and keys before attention.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct HeadSpec<'a> {
    /// Norm of each query head over its width.
    pub q_norm: Option<Norm<'a>>,
    /// Norm of each key head over its width.
    pub k_norm: Option<Norm<'a>>,
    /// Rotation after the norms, row by row; none leaves positions out.
    pub rope: Option<&'a RopeTable>,
    /// The dimension of a head with which the turning part begins.
    pub rope_first: usize,
}

impl<'a> HeadSpec<'a> {
    /// Rotation without norms.
    #[must_use]
    pub fn rope(table: &'a RopeTable) -> Self {
        Self { rope: Some(table), ..Self::default() }
    }

    /// The same with norms of query and key heads before the rotation.
    #[must_use]
    pub fn with_norms(self, q_norm: Norm<'a>, k_norm: Norm<'a>) -> Self {
        Self { q_norm: Some(q_norm), k_norm: Some(k_norm), ..self }
    }

    /// Norm and rotation of one head.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn apply<V: Lanes>(&self, norm: Option<Norm<'_>>, row: usize, head: &mut [f32]) {
        if let Some(norm) = norm {
            // SAFETY: the instruction set is this function's own contract.
            unsafe { in_place::<V>(head, norm) }
        }
        if let Some(table) = self.rope {
            table.turn(row, &mut head[self.rope_first..]);
        }
    }
}

/// Values of queries and keys one task is worth.
const VALUES_PER_TASK: usize = 16 * 1024;

impl Cpu {
    /// Norms (`spec.q_norm`) and rotates the heads of `q` (`[rows][any number of heads][dim]`) in place.
    ///
    /// # Errors
    /// [`KernelError::Length`] for a buffer, a gain or a table that does not fit, [`KernelError::Shape`] for a rotation wider than
    /// a head. Nothing is changed then.
    pub fn turn_heads(
        &self,
        q: &mut [f32],
        (rows, dim): (usize, usize),
        spec: &HeadSpec<'_>,
    ) -> Result<(), KernelError> {
        let width = q.len() / rows.max(1);
        let heads = width / dim.max(1);
        KernelError::length("heads that turn", rows * heads * dim, q.len())?;
        if let Some(norm) = spec.q_norm {
            KernelError::length("gain of heads", dim, norm.gain.len())?;
        }
        if let Some(table) = spec.rope {
            if spec.rope_first + 2 * table.half > dim {
                let rule = "at most the width of a head";
                return Err(KernelError::Shape { what: "rotary width", value: 2 * table.half, rule });
            }
            if table.half > 0 {
                KernelError::length("rows of the rope table", rows, table.rows())?;
            }
        }
        let block = split::rows_per_task(rows, width, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, q, width, block, &|first, q| {
            dispatch(self.isa, Turn { spec, dim, first, rows: q.len() / width, q, k: &mut [] });
        });
        Ok(())
    }

    /// Norms and rotates each head of `q` (`[rows][heads][key_dim]`, any number of heads) and of `k`
    /// (`[rows][kv_heads][key_dim]`) in place, then writes row `i` of `k` and of `v` (`[rows][kv_heads][value_dim]`) to
    /// slot `i` of the cache. Of rows with one slot the last one stays.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers, gains or a table that do not fit the shapes, [`KernelError::OutOfRange`] for
    /// a slot outside the cache, [`KernelError::Shape`] for a rotation wider than a head. Nothing is changed then.
    pub fn rope_append(
        &self,
        q: &mut [f32],
        k: &mut [f32],
        v: &[f32],
        spec: &HeadSpec<'_>,
        cache: &mut KvLayerMut<'_>,
        slots: &[RowSlot],
    ) -> Result<(), KernelError> {
        let (shape, rows) = (cache.shape, slots.len());
        let dim = shape.key_dim();
        check(q, k, v, spec, cache, slots)?;
        if rows == 0 {
            return Ok(());
        }
        let (q_width, k_width) = (q.len() / rows, k.len() / rows);
        let block = split::rows_per_task(rows, q_width + k_width, VALUES_PER_TASK, self.pool.threads());
        let (q_shared, k_shared) = (Shared::new(q), Shared::new(k));
        self.pool.run(rows.div_ceil(block), &|task| {
            let rows = task * block..rows.min((task + 1) * block);
            let part = |width: usize| rows.start * width..rows.end * width;
            // SAFETY: tasks have different rows.
            let (q, k) = unsafe { (q_shared.part(part(q_width)), k_shared.part(part(k_width))) };
            dispatch(self.isa, Turn { spec, dim, first: rows.start, rows: rows.len(), q, k });
        });
        self.write_slots(k, v, cache, slots);
        Ok(())
    }

    /// As [`rope_append`](Self::rope_append) with keys that are values too, after norm and rotation.
    ///
    /// # Errors
    /// Those of [`rope_append`](Self::rope_append).
    pub fn append_shared(
        &self,
        k: &mut [f32],
        spec: &HeadSpec<'_>,
        cache: &mut KvLayerMut<'_>,
        slots: &[RowSlot],
    ) -> Result<(), KernelError> {
        let (dim, rows) = (cache.shape.key_dim(), slots.len());
        check(&[], k, k, spec, cache, slots)?;
        let width = k.len() / rows.max(1);
        let block = split::rows_per_task(rows, width, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, k, width, block, &|first, k| {
            dispatch(self.isa, Turn { spec, dim, first, rows: k.len() / width, q: &mut [], k });
        });
        self.write_slots(k, k, cache, slots);
        Ok(())
    }

    /// Row after row of what was checked.
    fn write_slots(&self, k: &[f32], v: &[f32], cache: &mut KvLayerMut<'_>, slots: &[RowSlot]) {
        let shape = cache.shape;
        let (keys, values) = (Shared::new(cache.keys), Shared::new(cache.values));
        let append = |heads: std::ops::Range<usize>| {
            for head in heads {
                // A task owns its heads in every page, so rows with one slot do no harm.
                dispatch(self.isa, Append { cache: (&keys, &values), shape, head, k, v, slots });
            }
        };
        if k.len() + v.len() < VALUES_PER_TASK {
            append(0..shape.heads());
        } else {
            self.pool.run(shape.heads(), &|head| append(head..head + 1));
        }
    }
}

/// The contract of `rope_append`.
fn check(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    spec: &HeadSpec<'_>,
    cache: &KvLayerMut<'_>,
    slots: &[RowSlot],
) -> Result<(), KernelError> {
    let (shape, rows) = (cache.shape, slots.len());
    let dim = shape.key_dim();
    let q_heads = q.len() / (rows * dim).max(1);
    KernelError::length("queries", rows * q_heads * dim, q.len())?;
    KernelError::length("keys", rows * shape.heads() * dim, k.len())?;
    KernelError::length("values", rows * shape.heads() * shape.value_dim(), v.len())?;
    for norm in [spec.q_norm, spec.k_norm].into_iter().flatten() {
        KernelError::length("gain of a head norm", dim, norm.gain.len())?;
    }
    if let Some(table) = spec.rope {
        let end = spec.rope_first.saturating_add(2 * table.half);
        if end > dim {
            let rule = "at most the key width";
            return Err(KernelError::Shape { what: "end of the rotary part", value: end, rule });
        }
        if table.half > 0 {
            KernelError::length("rows of the rope table", rows, table.rows())?;
        }
    }
    check_slots(cache, slots)
}

/// An error unless all slots are in the cache.
fn check_slots(cache: &KvLayerMut<'_>, slots: &[RowSlot]) -> Result<(), KernelError> {
    for slot in slots {
        KernelError::below("cache page", slot.page as usize, cache.pages)?;
        KernelError::below("offset in a cache page", slot.offset as usize, PAGE)?;
    }
    Ok(())
}

struct Turn<'a> {
    spec: &'a HeadSpec<'a>,
    dim: usize,
    first: usize,
    rows: usize,
    q: &'a mut [f32],
    k: &'a mut [f32],
}

impl Kernel for Turn<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let spec = self.spec;
        for (values, norm) in [(self.q, spec.q_norm), (self.k, spec.k_norm)] {
            let heads = values.len() / (self.rows * self.dim);
            for (i, head) in values.chunks_exact_mut(self.dim).enumerate() {
                // SAFETY: the instruction set is the caller's promise.
                unsafe { spec.apply::<V>(norm, self.first + i / heads, head) }
            }
        }
    }
}

struct Append<'a> {
    cache: (&'a Shared<'a, u8>, &'a Shared<'a, u8>),
    shape: KvShape,
    head: usize,
    k: &'a [f32],
    v: &'a [f32],
    slots: &'a [RowSlot],
}

impl Kernel for Append<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let Self { shape, head, .. } = self;
        let (key_dim, value_dim) = (shape.key_dim(), shape.value_dim());
        for (row, slot) in self.slots.iter().enumerate() {
            let part = slot.page as usize * shape.heads() + head;
            let index = row * shape.heads() + head;
            let key = &self.k[index * key_dim..(index + 1) * key_dim];
            let value = &self.v[index * value_dim..(index + 1) * value_dim];
            let (key_bytes, value_bytes) = (shape.key_head_bytes(), shape.value_head_bytes());
            // SAFETY: no other task has this head, so nobody else touches its parts; the offset is inside a page
            // (`check`); the instruction set is the caller's promise.
            unsafe {
                let at = self.cache.0.part(part * key_bytes..(part + 1) * key_bytes).as_mut_ptr();
                write_key::<V>(at, shape.key_type(), slot.offset as usize, key);
                let at = self.cache.1.part(part * value_bytes..(part + 1) * value_bytes).as_mut_ptr();
                write_value::<V>(at, shape.value_type(), slot.offset as usize, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
