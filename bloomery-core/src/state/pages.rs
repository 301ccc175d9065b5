//! Pages of key/value cache, counted by how many sequences share them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::StatePool;

/// Positions in a page. 64 rows of a 128-wide f16 head are 16 KiB, a third of a first-level cache.
pub(crate) const PAGE: usize = bloomery_kernels::cpu::PAGE;

/// A page, the same in the caches of all layers.
pub(crate) type PageId = u32;

/// Who has a page, and how far it is filled.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    owners: u32,
    /// Rows that may mean something to an owner. Those after them are free to be written.
    written: usize,
    /// Rows that the tree of prefixes needs, if it is one of the owners.
    kept: Option<usize>,
    /// The first row that layers behind a program's cut have no right keys of, if there is one.
    shallow: Option<usize>,
}

impl Page {
    fn is_idle(self) -> bool {
        self.kept.is_some() && self.owners == 1
    }
}

/// Hands out pages.
#[derive(Debug)]
pub(crate) struct PagePool {
    pages: Vec<Page>,
    /// The lowest is taken first: a short session's cache stays in little memory, and a pool can be made smaller.
    free: BinaryHeap<Reverse<PageId>>,
    idle: usize,
    /// What sequences have beside pages, in models with recurrent states.
    pub(crate) states: StatePool,
}

impl PagePool {
    pub(crate) fn new(pages: u32, states: StatePool) -> Self {
        Self {
            pages: vec![Page::default(); pages as usize],
            free: (0..pages).map(Reverse).collect(),
            idle: 0,
            states,
        }
    }

    /// For models without recurrent states.
    #[cfg(test)]
    pub(crate) fn of_pages(pages: u32) -> Self {
        Self::new(pages, StatePool::new(0, 0))
    }

    pub(crate) fn available(&self) -> usize {
        self.free.len()
    }

    /// Pages that nobody but the tree of prefixes has.
    pub(crate) fn idle(&self) -> usize {
        self.idle
    }

    pub(crate) fn capacity(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn take(&mut self) -> Option<PageId> {
        let Reverse(page) = self.free.pop()?;
        self.pages[page as usize] = Page { owners: 1, ..Page::default() };
        Some(page)
    }

    pub(crate) fn share(&mut self, page: PageId) {
        self.change(page, |page| page.owners += 1);
    }

    pub(crate) fn release(&mut self, page: PageId) {
        self.change(page, |page| page.owners -= 1);
        if self.pages[page as usize].owners == 0 {
            self.free.push(Reverse(page));
        }
    }

    /// Pages up to the last that a sequence has: a pool cannot have fewer.
    pub(crate) fn held(&self) -> usize {
        self.pages.iter().rposition(|page| page.owners > 0 && !page.is_idle()).map_or(0, |last| last + 1)
    }

    /// Gives an idle page another number, that of the lowest free page, which is then free in its place.
    pub(crate) fn renumber(&mut self, page: PageId) -> Option<PageId> {
        debug_assert!(self.is_idle(page), "a sequence knows its pages by number");
        let Reverse(to) = self.free.pop()?;
        self.pages[to as usize] = std::mem::take(&mut self.pages[page as usize]);
        self.free.push(Reverse(page));
        Some(to)
    }

    /// Has so many pages from now on; fewer only as far as nobody has those at the end.
    pub(crate) fn resize(&mut self, pages: u32) {
        let (before, after) = (self.pages.len() as u32, pages);
        debug_assert!(self.pages.iter().skip(after as usize).all(|page| page.owners == 0));
        self.pages.resize(after as usize, Page::default());
        self.free.retain(|Reverse(page)| *page < after);
        self.free.extend((before..after).map(Reverse));
    }

    /// Makes the tree of prefixes an owner that needs the first `rows`.
    pub(crate) fn keep(&mut self, page: PageId, rows: usize) {
        debug_assert!(self.pages[page as usize].kept.is_none(), "a page is of one node");
        self.change(page, |page| (page.owners, page.kept) = (page.owners + 1, Some(rows)));
    }

    /// The tree of prefixes has the page and needs more of it.
    pub(crate) fn keep_more(&mut self, page: PageId, rows: usize) {
        self.pages[page as usize].kept = Some(rows);
    }

    /// Ends what [`keep`](Self::keep) began.
    pub(crate) fn drop_kept(&mut self, page: PageId) {
        self.change(page, |page| page.kept = None);
        self.release(page);
    }

    pub(crate) fn is_idle(&self, page: PageId) -> bool {
        self.pages[page as usize].is_idle()
    }

    /// Whether the tree of prefixes and one sequence have the page, and nobody else.
    pub(crate) fn is_kept_for_one(&self, page: PageId) -> bool {
        let page = self.pages[page as usize];
        page.kept.is_some() && page.owners == 2
    }

    /// Whether a sequence that has the page up to `row` may write there: nobody else's part reaches it.
    pub(crate) fn may_write(&self, page: PageId, row: usize) -> bool {
        let page = self.pages[page as usize];
        match (page.owners, page.kept) {
            (1, _) => true,
            // Rows that a sequence wrote and took back are written again.
            (2, Some(kept)) => row >= kept,
            _ => row >= page.written,
        }
    }

    /// An owner that [may](Self::may_write) writes rows up to `end`.
    pub(crate) fn wrote(&mut self, page: PageId, end: usize) {
        self.pages[page as usize].written = end;
    }

    /// Rows from `row` on were written: all layers have right keys of them, if they are `sound`.
    pub(crate) fn wrote_keys(&mut self, page: PageId, row: usize, sound: bool) {
        let shallow = &mut self.pages[page as usize].shallow;
        *shallow = match sound {
            // Rows after those that were written mean nothing to the one who may write.
            true => shallow.filter(|&first| first < row),
            false => Some(shallow.map_or(row, |first| first.min(row))),
        };
    }

    /// Of the first `rows` rows, those before the first that not all layers have right keys of.
    pub(crate) fn sound_rows(&self, page: PageId, rows: usize) -> usize {
        self.pages[page as usize].shallow.map_or(rows, |first| first.min(rows))
    }

    /// `to` holds what `from` held.
    pub(crate) fn copied(&mut self, from: PageId, to: PageId) {
        self.pages[to as usize].shallow = self.pages[from as usize].shallow;
    }

    #[cfg(test)]
    pub(crate) fn owners(&self, page: PageId) -> usize {
        self.pages[page as usize].owners as usize
    }

    fn change(&mut self, page: PageId, change: impl FnOnce(&mut Page)) {
        let page = &mut self.pages[page as usize];
        self.idle -= usize::from(page.is_idle());
        change(page);
        self.idle += usize::from(page.is_idle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_free_again_when_its_last_owner_lets_go() {
        let mut pool = PagePool::of_pages(2);
        let page = pool.take().unwrap();
        pool.share(page);
        pool.release(page);
        assert_eq!(pool.available(), 1);
        pool.release(page);
        assert_eq!(pool.available(), 2);
        assert!(pool.take().is_some() && pool.take().is_some() && pool.take().is_none());
    }

    #[test]
    fn a_pool_changes_its_size_at_its_end() {
        let mut pool = PagePool::of_pages(3);
        let pages = [0; 3].map(|_| pool.take().unwrap());
        assert_eq!((pages, pool.held()), ([0, 1, 2], 3));
        pool.release(1);
        pool.keep(2, 7);
        pool.release(2);
        assert_eq!((pool.held(), pool.idle()), (1, 1));
        assert_eq!(pool.renumber(2), Some(1));
        assert!(pool.is_idle(1) && !pool.is_idle(2));
        pool.resize(2);
        assert_eq!((pool.capacity(), pool.available(), pool.idle()), (2, 0, 1));
        assert_eq!(pool.renumber(1), None);
        pool.resize(5);
        assert_eq!([0; 4].map(|_| pool.take()), [Some(2), Some(3), Some(4), None], "the lowest first");
        assert_eq!(pool.held(), 5);
        pool.drop_kept(1);
        assert_eq!(pool.take(), Some(1));
    }

    #[test]
    fn a_kept_page_is_idle_when_no_sequence_has_it() {
        let mut pool = PagePool::of_pages(1);
        let page = pool.take().unwrap();
        pool.wrote(page, 20);
        pool.keep(page, 10);
        assert!(!pool.is_idle(page) && pool.is_kept_for_one(page));
        assert!(!pool.may_write(page, 9) && pool.may_write(page, 10));
        pool.keep_more(page, 12);
        assert!(!pool.may_write(page, 10));
        pool.release(page);
        assert_eq!((pool.available(), pool.idle()), (0, 1));
        pool.share(page);
        assert_eq!(pool.idle(), 0);
        pool.release(page);
        pool.drop_kept(page);
        assert_eq!((pool.available(), pool.idle()), (1, 0));
    }

    #[test]
    fn rows_after_all_parts_may_be_written_by_one_owner() {
        let mut pool = PagePool::of_pages(1);
        let page = pool.take().unwrap();
        pool.wrote(page, 10);
        assert!(pool.may_write(page, 3), "alone");
        pool.share(page);
        assert!(!pool.may_write(page, 9) && pool.may_write(page, 10));
        pool.wrote(page, 12);
        assert!(!pool.may_write(page, 10), "the other owner was first");
    }
}
