//! The state of one sequence. Everything that grows or shrinks with it goes through here.

use super::{PAGE, PageId, PagePool};

/// Tokens of a sequence and the pages that hold their keys and values.
///
/// Keys and values of a position depend on earlier positions only, so cutting is forgetting: pages wholly past the
/// cut are released, the rest is overwritten when the sequence grows again.
#[derive(Debug, Default)]
pub(crate) struct SequenceState {
    tokens: Vec<u32>,
    pages: Vec<PageId>,
}

/// A page whose contents must be copied before the sequence may write to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageCopy {
    pub(crate) from: PageId,
    pub(crate) to: PageId,
}

impl SequenceState {
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub(crate) fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Makes room for `tokens` after the end. Returns `None` and leaves all as it was when the pool is empty;
    /// otherwise the copy to make if the page the sequence goes on in is shared.
    pub(crate) fn grow(&mut self, tokens: &[u32], pool: &mut PagePool) -> Option<Option<PageCopy>> {
        let needed = (self.tokens.len() + tokens.len()).div_ceil(PAGE);
        let open = self.tokens.len() / PAGE;
        let copies = open < self.pages.len() && pool.is_shared(self.pages[open]);
        let fresh = needed.saturating_sub(self.pages.len());
        if pool.available() < fresh + usize::from(copies) {
            return None;
        }
        let mut copy = None;
        if copies {
            let (from, to) = (self.pages[open], pool.take()?);
            pool.release(from);
            self.pages[open] = to;
            copy = Some(PageCopy { from, to });
        }
        for _ in 0..fresh {
            self.pages.push(pool.take()?);
        }
        self.tokens.extend_from_slice(tokens);
        Some(copy)
    }

    /// Forgets all positions from `len` on.
    pub(crate) fn truncate(&mut self, len: usize, pool: &mut PagePool) {
        self.tokens.truncate(len);
        for page in self.pages.drain(self.tokens.len().div_ceil(PAGE)..) {
            pool.release(page);
        }
    }

    /// A second sequence with the same past. Pages are shared until one of the two writes to them.
    pub(crate) fn fork(&self, pool: &mut PagePool) -> Self {
        for &page in &self.pages {
            pool.share(page);
        }
        Self { tokens: self.tokens.clone(), pages: self.pages.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grow_truncate_and_fork_account_for_every_page() {
        let mut pool = PagePool::new(4);
        let mut a = SequenceState::default();
        assert_eq!(a.grow(&[7; PAGE + 1], &mut pool), Some(None));
        let mut b = a.fork(&mut pool);
        assert_eq!(pool.available(), 2);
        let copy = b.grow(&[8], &mut pool).unwrap().expect("the open page is shared");
        assert_eq!((copy.from, copy.to), (a.pages()[1], b.pages()[1]));
        assert_eq!(a.pages()[0], b.pages()[0]);
        assert_eq!(a.grow(&[9], &mut pool), Some(None), "the copy left the original to its owner");
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
        let mut pool = PagePool::new(3);
        let mut a = SequenceState::default();
        a.grow(&[1; PAGE], &mut pool).unwrap();
        let mut b = a.fork(&mut pool);
        b.truncate(PAGE / 2, &mut pool);
        assert!(b.grow(&[2], &mut pool).unwrap().is_some());
    }
}
