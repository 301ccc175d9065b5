//! Rows that stand for groups of positions (compressed keys of DeepSeek-V4, 2026).
//!
//! ```text
//! row of group g = norm(sum over its members, column by column, of softmax(gate + place) value)
//! members           the positions of the group; where groups overlap, those of the group before too, which have columns of
//!                   their own: of a position's values the first half is for the next group, the second for its own
//! page of a layer   f32 [positions kept][channels] values, then as many gates
//! ```
//!
//! Values and gates stay, so that a sequence which is cut inside a group and goes on makes the group's row anew. Of plain groups
//! the last position is not kept: who has it completes the group.

use super::kv::{PAGE, RowSlot};
use super::math::exp_one;
use super::shared::Shared;
use super::streams::squares;
use super::{Cpu, KernelError, Norm, RowView};

/// Shape of one layer's groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupShape {
    width: usize,
    positions: usize,
    overlap: bool,
}

impl GroupShape {
    /// Rows of `width` values for groups of `positions`. With `overlap` a group's row is also of the group before.
    ///
    /// # Errors
    /// [`KernelError::Shape`] unless there is a width, and the positions divide a page or are several pages.
    pub fn new(width: usize, positions: usize, overlap: bool) -> Result<Self, KernelError> {
        if width == 0 {
            let rule = "at least 1";
            return Err(KernelError::Shape { what: "width of a group's row", value: width, rule });
        }
        let fits = positions > 0 && (PAGE.is_multiple_of(positions) || positions.is_multiple_of(PAGE));
        if !fits {
            let rule = "a divisor or a multiple of 64";
            return Err(KernelError::Shape { what: "positions of a group", value: positions, rule });
        }
        Ok(Self { width, positions, overlap })
    }

    /// Values, and gates, of a position.
    #[must_use]
    pub fn channels(&self) -> usize {
        if self.overlap { 2 * self.width } else { self.width }
    }

    /// Values of a page.
    #[must_use]
    pub fn page_len(&self) -> usize {
        2 * self.kept() * self.channels()
    }

    /// Whether the last position of a group is kept, too.
    fn keeps_last(&self) -> bool {
        self.overlap || self.positions > PAGE
    }

    /// Positions of a page that are kept.
    fn kept(&self) -> usize {
        if self.keeps_last() { PAGE } else { PAGE / self.positions * (self.positions - 1) }
    }

    /// Where the position at `offset` of a page is among those that are kept.
    fn place(&self, offset: usize) -> Option<usize> {
        let (group, at) = (offset / self.positions, offset % self.positions);
        match self.keeps_last() {
            true => Some(offset),
            false => (at + 1 < self.positions).then(|| group * (self.positions - 1) + at),
        }
    }
}

/// How groups become rows.
#[derive(Debug, Clone, Copy)]
pub struct GroupSpec<'a> {
    /// Added to gates by the place in the group: `[positions][channels]`.
    pub places: Option<&'a [f32]>,
    /// Of the rows.
    pub norm: Norm<'a>,
}

/// What positions give to their groups: `[rows][channels]` each.
#[derive(Debug, Clone, Copy)]
pub struct GroupInput<'a> {
    /// What is summed.
    pub values: &'a [f32],
    /// What weighs it; none where a group is one position.
    pub gates: Option<&'a [f32]>,
}

impl Cpu {
    /// Puts what rows give to groups into their slots of `pages`, and writes to `out` (`[rows][width]`) the rows of the groups that
    /// end with one of them, zeros for the others. Rows are those of `views`, at `slots`.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers that do not fit, [`KernelError::OutOfRange`] for a slot or page outside the cache.
    pub fn group_rows(
        &self,
        shape: GroupShape,
        (input, spec): (GroupInput<'_>, &GroupSpec<'_>),
        pages: &mut [f32],
        (views, slots): (&[RowView<'_>], &[RowSlot]),
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        check(shape, &input, spec, pages, (views, slots), out)?;
        let (channels, page_len) = (shape.channels(), shape.page_len());
        if let Some(gates) = input.gates.filter(|_| page_len > 0) {
            let half = page_len / 2;
            for (row, slot) in slots.iter().enumerate() {
                let Some(place) = shape.place(slot.offset as usize) else { continue };
                let page = &mut pages[slot.page as usize * page_len..][..page_len];
                let of_row = row * channels..(row + 1) * channels;
                page[place * channels..][..channels].copy_from_slice(&input.values[of_row.clone()]);
                page[half + place * channels..][..channels].copy_from_slice(&gates[of_row]);
            }
        }
        let (pages, shared) = (&*pages, Shared::new(out));
        self.pool.run(views.len(), &|row| {
            // SAFETY: each task has its own row.
            let out = unsafe { shared.part(row * shape.width..(row + 1) * shape.width) };
            out.fill(0.0);
            let len = views[row].len as usize;
            if !len.is_multiple_of(shape.positions) {
                return;
            }
            match input.gates {
                None => out.copy_from_slice(&input.values[row * channels..][..channels]),
                Some(gates) => {
                    let last = [input.values, gates].map(|all| &all[row * channels..][..channels]);
                    Group { shape, spec, pages, list: views[row].pages, last, len }.sum(out);
                }
            }
            let size = 1.0 / (squares(out) / shape.width as f32 + spec.norm.eps).sqrt();
            out.iter_mut().zip(spec.norm.gain).for_each(|(out, gain)| *out = *out * size * gain);
        });
        Ok(())
    }

    /// Bits of the last positions of all whole groups that rows see.
    pub fn group_ends(&self, positions: usize, rows: &[RowView<'_>], masks: &mut super::Masks) {
        masks.of_ends(positions, rows);
    }
}

/// A group that is complete.
struct Group<'a> {
    shape: GroupShape,
    spec: &'a GroupSpec<'a>,
    pages: &'a [f32],
    list: &'a [u32],
    /// Values and gates of its last position.
    last: [&'a [f32]; 2],
    /// Positions up to its end.
    len: usize,
}

impl Group<'_> {
    /// The sum of its members with the softmax of their gates as weights, column by column.
    fn sum(&self, out: &mut [f32]) {
        let GroupShape { width, positions, overlap } = self.shape;
        let first = self.len - positions;
        let own = if overlap { width } else { 0 };
        let before = (overlap && first >= positions).then(|| (first - positions..first, 0));
        let members = before.into_iter().chain([(first..self.len, own)]);
        let members: Vec<(usize, usize)> =
            members.flat_map(|(range, column)| range.map(move |position| (position, column))).collect();
        let mut most = vec![f32::NEG_INFINITY; width];
        let mut total = vec![0.0; width];
        let gate = |position: usize, column: usize, at: usize| {
            let place = position % positions * self.shape.channels() + column + at;
            self.member(position, 1)[column + at] + self.spec.places.map_or(0.0, |places| places[place])
        };
        for &(position, column) in &members {
            for (at, most) in most.iter_mut().enumerate() {
                *most = most.max(gate(position, column, at));
            }
        }
        for &(position, column) in &members {
            let values = &self.member(position, 0)[column..column + width];
            for (at, value) in values.iter().enumerate() {
                let weight = exp_one(gate(position, column, at) - most[at]);
                total[at] += weight;
                out[at] += weight * value;
            }
        }
        out.iter_mut().zip(total).for_each(|(out, total)| *out /= total);
    }

    /// Values (0) or gates (1) of a position.
    fn member(&self, position: usize, kind: usize) -> &[f32] {
        let channels = self.shape.channels();
        match self.shape.place(position % PAGE) {
            Some(place) => {
                let page = self.list[position / PAGE] as usize * self.shape.page_len();
                let start = page + kind * self.shape.page_len() / 2 + place * channels;
                &self.pages[start..start + channels]
            }
            None => self.last[kind],
        }
    }
}

fn check(
    shape: GroupShape,
    input: &GroupInput<'_>,
    spec: &GroupSpec<'_>,
    pages: &[f32],
    (views, slots): (&[RowView<'_>], &[RowSlot]),
    out: &[f32],
) -> Result<(), KernelError> {
    let (rows, channels) = (slots.len(), shape.channels());
    KernelError::length("rows of groups", rows, views.len())?;
    KernelError::length("values of groups", rows * channels, input.values.len())?;
    KernelError::length("rows that stand for groups", rows * shape.width, out.len())?;
    KernelError::length("gain of groups", shape.width, spec.norm.gain.len())?;
    match input.gates {
        Some(gates) => KernelError::length("gates of groups", rows * channels, gates.len())?,
        None if shape.positions > 1 || shape.overlap => {
            KernelError::length("gates of groups", rows * channels, 0)?;
        }
        None => {}
    }
    if let Some(places) = spec.places {
        KernelError::length("gates of places", shape.positions * channels, places.len())?;
    }
    let count = pages.len().checked_div(shape.page_len()).unwrap_or(usize::MAX);
    for (view, slot) in views.iter().zip(slots) {
        KernelError::below("cache page", slot.page as usize, count)?;
        KernelError::below("position of a page", slot.offset as usize, PAGE)?;
        let (len, span) = (view.len as usize, shape.positions * if shape.overlap { 2 } else { 1 });
        let of_group = len.saturating_sub(span) / PAGE..len.div_ceil(PAGE);
        KernelError::below("page of a group", of_group.end, view.pages.len() + 1)?;
        for &page in &view.pages[of_group] {
            KernelError::below("cache page", page as usize, count)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
