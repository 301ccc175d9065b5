//! Pages of key/value cache, counted by how many sequences share them.

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
    free: Vec<PageId>,
    idle: usize,
}

impl PagePool {
    pub(crate) fn new(pages: u32) -> Self {
        // Popped from the back: low pages first keeps a short session's cache in little memory.
        Self { pages: vec![Page::default(); pages as usize], free: (0..pages).rev().collect(), idle: 0 }
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
        let page = self.free.pop()?;
        self.pages[page as usize] = Page { owners: 1, ..Page::default() };
        Some(page)
    }

    pub(crate) fn share(&mut self, page: PageId) {
        self.change(page, |page| page.owners += 1);
    }

    pub(crate) fn release(&mut self, page: PageId) {
        self.change(page, |page| page.owners -= 1);
        if self.pages[page as usize].owners == 0 {
            self.free.push(page);
        }
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
        let mut pool = PagePool::new(2);
        let page = pool.take().unwrap();
        pool.share(page);
        pool.release(page);
        assert_eq!(pool.available(), 1);
        pool.release(page);
        assert_eq!(pool.available(), 2);
        assert!(pool.take().is_some() && pool.take().is_some() && pool.take().is_none());
    }

    #[test]
    fn a_kept_page_is_idle_when_no_sequence_has_it() {
        let mut pool = PagePool::new(1);
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
        let mut pool = PagePool::new(1);
        let page = pool.take().unwrap();
        pool.wrote(page, 10);
        assert!(pool.may_write(page, 3), "alone");
        pool.share(page);
        assert!(!pool.may_write(page, 9) && pool.may_write(page, 10));
        pool.wrote(page, 12);
        assert!(!pool.may_write(page, 10), "the other owner was first");
    }
}
