//! The state of one sequence. Everything that grows or shrinks with it goes through here.

use std::ops::Range;

use super::recurrent::Recurrent;
use super::{Keep, Known, PAGE, PageId, PagePool, StateRef};
use crate::prefix::Mark;

/// Tokens of a sequence, the pages that hold their keys and values, and the recurrent states it knows of its past.
///
/// Keys and values of a position depend on earlier positions only, so cutting is forgetting: pages wholly past the
/// cut are released, the rest is overwritten when the sequence grows again. A recurrent state cannot be cut: the sequence
/// goes back to the nearest it knows, and *owes* the tokens from there to the cut. They are run again before any others.
#[derive(Debug, Default)]
pub(crate) struct SequenceState {
    /// Those that are held, then those that are owed.
    tokens: Vec<u32>,
    owed: usize,
    pages: Vec<PageId>,
    /// How far the tree of prefixes is known to have the full pages.
    mark: Option<Mark>,
    recurrent: Recurrent,
    /// In models with a cut: rows from here on have right keys in all layers, as far as they go past the cut. None: nobody has looked.
    sound_from: Option<usize>,
}

/// A page whose contents must be copied before the sequence may write to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageCopy {
    pub(crate) from: PageId,
    pub(crate) to: PageId,
}

impl SequenceState {
    /// Positions that are held.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len() - self.owed
    }

    /// Tokens that are held.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens[..self.len()]
    }

    /// Tokens that have to be run again before others.
    pub(crate) fn owed(&self) -> &[u32] {
        &self.tokens[self.len()..]
    }

    /// Tokens that are held, and those that are owed.
    pub(crate) fn all(&self) -> &[u32] {
        &self.tokens
    }

    pub(crate) fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Pages that [`grow`](Self::grow) by `adding` tokens takes from the pool.
    pub(crate) fn needs(&self, adding: usize, pool: &PagePool) -> usize {
        let fresh = (self.len() + adding).div_ceil(PAGE).saturating_sub(self.pages.len());
        fresh + usize::from(self.copied_page(adding, pool).is_some())
    }

    /// The page that the sequence goes on in, if another owner's part of it would be written over.
    pub(crate) fn copied_page(&self, adding: usize, pool: &PagePool) -> Option<PageId> {
        let (open, row) = (self.len() / PAGE, self.len() % PAGE);
        self.pages.get(open).copied().filter(|&page| adding > 0 && !pool.may_write(page, row))
    }

    /// Makes room for `tokens` after what is held: first those that are owed, which are then held again. Returns `None` and
    /// leaves all as it was when the pool is empty; otherwise the copy to make before the page the sequence goes on in is
    /// written to.
    pub(crate) fn grow(&mut self, tokens: &[u32], pool: &mut PagePool) -> Option<Option<PageCopy>> {
        if pool.available() < self.needs(tokens.len(), pool) {
            return None;
        }
        debug_assert!(tokens.starts_with(self.owed()));
        if tokens.is_empty() {
            return Some(None);
        }
        let (open, end) = (self.len() / PAGE, self.len() + tokens.len());
        let mut copy = None;
        if let Some(from) = self.copied_page(tokens.len(), pool) {
            let to = pool.take()?;
            pool.release(from);
            pool.copied(from, to);
            self.pages[open] = to;
            copy = Some(PageCopy { from, to });
        }
        while self.pages.len() < end.div_ceil(PAGE) {
            self.pages.push(pool.take()?);
        }
        self.forget_owed();
        self.tokens.extend_from_slice(tokens);
        for (index, &page) in self.pages.iter().enumerate().skip(open) {
            pool.wrote(page, PAGE.min(end - index * PAGE));
        }
        Some(copy)
    }

    /// Puts a page behind the end, a page boundary: `tokens` are what it holds. The caller made the sequence an owner.
    pub(crate) fn append(&mut self, page: PageId, tokens: &[u32]) {
        debug_assert!(self.tokens.len() == self.pages.len() * PAGE && tokens.len() <= PAGE && self.owed == 0);
        self.pages.push(page);
        self.tokens.extend_from_slice(tokens);
    }

    /// Takes `page`, which holds the same, in place of the one at `index`.
    pub(crate) fn replace(&mut self, index: usize, page: PageId, pool: &mut PagePool) {
        pool.share(page);
        pool.release(std::mem::replace(&mut self.pages[index], page));
    }

    pub(crate) fn mark(&self) -> Option<Mark> {
        self.mark
    }

    pub(crate) fn set_mark(&mut self, mark: Option<Mark>) {
        self.mark = mark;
    }

    /// Forgets all positions from `len` on. With recurrent states fewer are held, and the rest is owed.
    pub(crate) fn truncate(&mut self, len: usize, pool: &mut PagePool) {
        self.take_back(len, len, pool);
    }

    /// As [`truncate`](Self::truncate), and holds no more than `held` positions: the others are owed.
    pub(crate) fn take_back(&mut self, held: usize, len: usize, pool: &mut PagePool) {
        let mut held = self.len().min(held).min(len);
        if pool.states.is_used() {
            held = self.recurrent.truncate(held, &mut pool.states);
        }
        self.tokens.truncate(len);
        self.owed = self.tokens.len() - held;
        self.mark = self.mark.filter(|mark| mark.pages * PAGE <= held);
        for page in self.pages.drain(held.div_ceil(PAGE)..) {
            pool.release(page);
        }
        self.sound_from = None;
    }

    /// As [`truncate`](Self::truncate), but nothing is owed: the sequence ends where it knows its state.
    pub(crate) fn cut(&mut self, len: usize, pool: &mut PagePool) {
        self.truncate(len, pool);
        self.forget_owed();
    }

    fn forget_owed(&mut self) {
        self.tokens.truncate(self.len());
        self.owed = 0;
    }

    /// Adds tokens to those that are owed.
    pub(crate) fn owe(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        self.owed += tokens.len();
    }

    /// A second sequence with the same past. Pages are shared until one of the two writes to them.
    pub(crate) fn fork(&self, pool: &mut PagePool) -> Self {
        for &page in &self.pages {
            pool.share(page);
        }
        Self {
            tokens: self.tokens.clone(),
            owed: self.owed,
            pages: self.pages.clone(),
            mark: self.mark,
            recurrent: self.recurrent.fork(&mut pool.states),
            sound_from: self.sound_from,
        }
    }

    /// Whether all layers have right keys of the `reach` positions before `len`.
    pub(crate) fn is_sound(&self, len: usize, reach: usize, pool: &PagePool) -> bool {
        (len.saturating_sub(reach) / PAGE..len.div_ceil(PAGE)).all(|index| {
            let rows = PAGE.min(len - index * PAGE);
            pool.sound_rows(self.pages[index], rows) == rows
        })
    }

    pub(crate) fn sound_from(&self) -> Option<usize> {
        self.sound_from
    }

    pub(crate) fn set_sound_from(&mut self, position: usize) {
        self.sound_from = Some(position);
    }

    /// Notes which layers have right keys of positions that were run.
    pub(crate) fn wrote_keys(&self, positions: Range<usize>, pool: &mut PagePool) {
        let sound_from = self.sound_from.unwrap_or(0);
        for (index, &page) in self.pages.iter().enumerate().skip(positions.start / PAGE) {
            let start = positions.start.max(index * PAGE);
            let end = positions.end.min((index + 1) * PAGE);
            if start >= end {
                break;
            }
            pool.wrote_keys(page, start - index * PAGE, start >= sound_from);
        }
    }

    /// The recurrent states it knows of its past, ascending. It goes on from the last.
    pub(crate) fn known(&self) -> &[Known] {
        self.recurrent.known()
    }

    pub(crate) fn recurrent(&mut self) -> &mut Recurrent {
        &mut self.recurrent
    }

    /// The last state it knows of its first `len` positions.
    pub(crate) fn state_at(&self, len: usize, pool: &PagePool) -> Option<(usize, StateRef)> {
        let known = self.known().iter().rev();
        known
            .filter(|known| known.len <= len && pool.states.has(known.state))
            .map(|k| (k.len, k.state))
            .next()
    }

    /// Whether the state after `len` positions is worth keeping where the sequence is to have `goal`.
    pub(crate) fn wants_state(&self, len: usize, goal: usize) -> Keep {
        self.recurrent.wants(len, goal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grow_truncate_and_fork_account_for_every_page() {
        let mut pool = PagePool::of_pages(4);
        let mut a = SequenceState::default();
        assert_eq!(a.grow(&[7; PAGE + 1], &mut pool), Some(None));
        let mut b = a.fork(&mut pool);
        assert_eq!(pool.available(), 2);
        assert_eq!(b.grow(&[8], &mut pool), Some(None), "nobody's part reaches the row");
        let copy = a.grow(&[9], &mut pool).unwrap().expect("the fork wrote there");
        assert_eq!((copy.from, copy.to), (b.pages()[1], a.pages()[1]));
        assert_eq!(a.pages()[0], b.pages()[0]);
        assert_eq!(b.grow(&[9; 2 * PAGE], &mut pool), None, "one page is left, two are needed");
        assert_eq!(b.len(), PAGE + 2);
        b.truncate(PAGE, &mut pool);
        assert_eq!((b.pages().len(), pool.available()), (1, 2));
        assert_eq!(b.grow(&[1], &mut pool), Some(None), "a full shared page is not written to");
        b.truncate(0, &mut pool);
        a.truncate(0, &mut pool);
        assert_eq!(pool.available(), 4);
    }

    #[test]
    fn a_cut_inside_a_shared_page_copies_before_writing() {
        let mut pool = PagePool::of_pages(3);
        let mut a = SequenceState::default();
        a.grow(&[1; PAGE], &mut pool).unwrap();
        let mut b = a.fork(&mut pool);
        b.truncate(PAGE / 2, &mut pool);
        assert!(b.grow(&[2], &mut pool).unwrap().is_some());
    }
}
