//! Pages of key/value cache, counted by how many sequences share them.

/// Positions in a page. 64 rows of a 128-wide f16 head are 16 KiB, a third of a first-level cache.
pub(crate) const PAGE: usize = bloomery_kernels::cpu::PAGE;

/// A page, the same in the caches of all layers.
pub(crate) type PageId = u32;

/// Hands out pages.
#[derive(Debug)]
pub(crate) struct PagePool {
    owners: Vec<u32>,
    free: Vec<PageId>,
}

impl PagePool {
    pub(crate) fn new(pages: u32) -> Self {
        // Popped from the back: low pages first keeps a short session's cache in little memory.
        Self { owners: vec![0; pages as usize], free: (0..pages).rev().collect() }
    }

    pub(crate) fn available(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.owners.len()
    }

    pub(crate) fn take(&mut self) -> Option<PageId> {
        let page = self.free.pop()?;
        self.owners[page as usize] = 1;
        Some(page)
    }

    pub(crate) fn share(&mut self, page: PageId) {
        self.owners[page as usize] += 1;
    }

    pub(crate) fn is_shared(&self, page: PageId) -> bool {
        self.owners[page as usize] > 1
    }

    pub(crate) fn release(&mut self, page: PageId) {
        let owners = &mut self.owners[page as usize];
        *owners -= 1;
        if *owners == 0 {
            self.free.push(page);
        }
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
        assert!(pool.is_shared(page));
        pool.release(page);
        assert_eq!((pool.available(), pool.is_shared(page)), (1, false));
        pool.release(page);
        assert_eq!(pool.available(), 2);
        assert!(pool.take().is_some() && pool.take().is_some() && pool.take().is_none());
    }
}
