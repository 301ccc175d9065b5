//! The append of multi-head latent attention: one key for all heads, whose first part is the value.

use super::{HeadSpec, RopeTable, VALUES_PER_TASK, check_slots};
use crate::cpu::kv::{KvLayerMut, KvShape, RowSlot, write_key, write_value};
use crate::cpu::lanes::{Kernel, Lanes, dispatch};
use crate::cpu::norm::in_place;
use crate::cpu::shared::Shared;
use crate::cpu::{Cpu, KernelError, Norm, split};

impl Cpu {
    /// For every row: turns the last dimensions of each head of `q` (`[rows][any number of heads][key_dim]`) in place; of `kv`
    /// (`[rows][key_dim]`), in place, the first `value_dim` values, the latent, are normed, and the last ones turned; the
    /// whole is the row's key in the cache, the latent its value. Of rows with one slot the last one stays.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers, a gain or a table that do not fit, [`KernelError::OutOfRange`] for a slot outside the
    /// cache, [`KernelError::Shape`] for a cache of several heads or a rotation that is wider than what follows the latent.
    /// Nothing is changed then.
    pub fn latent_append(
        &self,
        q: &mut [f32],
        kv: &mut [f32],
        norm: Norm<'_>,
        table: &RopeTable,
        cache: &mut KvLayerMut<'_>,
        slots: &[RowSlot],
    ) -> Result<(), KernelError> {
        let (shape, rows) = (cache.shape, slots.len());
        check(q, kv, norm, table, cache, slots)?;
        if rows == 0 {
            return Ok(());
        }
        let dim = shape.key_dim();
        let spec = HeadSpec { rope_first: dim - 2 * table.half, ..HeadSpec::rope(table) };
        let width = q.len() / rows;
        let block = split::rows_per_task(rows, width + dim, VALUES_PER_TASK, self.pool.threads());
        let (q, kv_rows) = (Shared::new(q), Shared::new(kv));
        self.pool.run(rows.div_ceil(block), &|task| {
            let rows = task * block..rows.min((task + 1) * block);
            // SAFETY: tasks have different rows.
            let (q, kv) = unsafe {
                (q.part(rows.start * width..rows.end * width), kv_rows.part(rows.start * dim..rows.end * dim))
            };
            let (first, rows, latent) = (rows.start, rows.len(), shape.value_dim());
            dispatch(self.isa, Turn { spec: &spec, norm, dim, latent, first, rows, q, kv });
        });
        let (keys, values) = (Shared::new(cache.keys), Shared::new(cache.values));
        let append = |rows: std::ops::Range<usize>| {
            dispatch(self.isa, Append { cache: (&keys, &values), shape, kv: &*kv, slots, rows });
        };
        // Neighbouring rows of a page are one task; a page that comes back later makes all rows one.
        let starts: Vec<usize> =
            (0..rows).filter(|&i| i == 0 || slots[i].page != slots[i - 1].page).chain([rows]).collect();
        let mut pages: Vec<u32> = starts[..starts.len() - 1].iter().map(|&i| slots[i].page).collect();
        pages.sort_unstable();
        if pages.windows(2).any(|pair| pair[0] == pair[1]) {
            append(0..rows);
        } else {
            self.pool.run(pages.len(), &|task| append(starts[task]..starts[task + 1]));
        }
        Ok(())
    }
}

/// The contract of `latent_append`.
fn check(
    q: &[f32],
    kv: &[f32],
    norm: Norm<'_>,
    table: &RopeTable,
    cache: &KvLayerMut<'_>,
    slots: &[RowSlot],
) -> Result<(), KernelError> {
    let (shape, rows) = (cache.shape, slots.len());
    let (dim, latent) = (shape.key_dim(), shape.value_dim());
    if shape.heads() != 1 {
        let rule = "1: all heads share a latent";
        return Err(KernelError::Shape { what: "number of KV heads", value: shape.heads(), rule });
    }
    if latent > dim || 2 * table.half > dim - latent {
        let rule = "at most the key width less the latent";
        return Err(KernelError::Shape { what: "rotary width", value: 2 * table.half, rule });
    }
    let heads = q.len() / (rows * dim).max(1);
    KernelError::length("queries", rows * heads * dim, q.len())?;
    KernelError::length("latents and keys", rows * dim, kv.len())?;
    KernelError::length("gain of a latent", latent, norm.gain.len())?;
    if table.half > 0 {
        KernelError::length("rows of the rope table", rows, table.rows())?;
    }
    check_slots(cache, slots)
}

struct Turn<'a> {
    spec: &'a HeadSpec<'a>,
    norm: Norm<'a>,
    dim: usize,
    latent: usize,
    first: usize,
    rows: usize,
    q: &'a mut [f32],
    kv: &'a mut [f32],
}

impl Kernel for Turn<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let heads = self.q.len() / (self.rows * self.dim);
        for (i, head) in self.q.chunks_exact_mut(self.dim).enumerate() {
            // SAFETY: the instruction set is the caller's promise.
            unsafe { self.spec.apply::<V>(None, self.first + i / heads, head) }
        }
        for (i, row) in self.kv.chunks_exact_mut(self.dim).enumerate() {
            // SAFETY: as above.
            unsafe {
                in_place::<V>(&mut row[..self.latent], self.norm);
                self.spec.apply::<V>(None, self.first + i, row);
            }
        }
    }
}

struct Append<'a> {
    cache: (&'a Shared<'a, u8>, &'a Shared<'a, u8>),
    shape: KvShape,
    kv: &'a [f32],
    slots: &'a [RowSlot],
    rows: std::ops::Range<usize>,
}

impl Kernel for Append<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let (shape, dim) = (self.shape, self.shape.key_dim());
        let (key_bytes, value_bytes) = (shape.key_head_bytes(), shape.value_head_bytes());
        for row in self.rows {
            let (page, offset) = (self.slots[row].page as usize, self.slots[row].offset as usize);
            let key = &self.kv[row * dim..(row + 1) * dim];
            // SAFETY: no other task has rows of this page; the offset is inside a page (`check_slots`); the instruction
            // set is the caller's promise.
            unsafe {
                let at = self.cache.0.part(page * key_bytes..(page + 1) * key_bytes).as_mut_ptr();
                write_key::<V>(at, shape.key_type(), offset, key);
                let at = self.cache.1.part(page * value_bytes..(page + 1) * value_bytes).as_mut_ptr();
                write_value::<V>(at, shape.value_type(), offset, &key[..shape.value_dim()]);
            }
        }
    }
}
