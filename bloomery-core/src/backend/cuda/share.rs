//! Memory of a card that caches and slots for experts divide.

use crate::units::Bytes;

/// How much there is, and what pages of caches take of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Of caches and slots together.
    pub(super) all: Bytes,
    /// A page of all caches.
    pub(super) page: Bytes,
    /// Of the largest one.
    pub(super) largest: Bytes,
    /// Memory that is free while caches change, as slots are, and is not theirs afterwards.
    pub(super) ring: Bytes,
}

impl Share {
    /// Most pages there can be where there are `pages`. Caches grow one after the other, and while one does, it is there twice.
    pub(super) fn most_pages(&self, pages: usize) -> usize {
        let twice = Bytes::of(pages, self.largest.0 as usize).saturating_sub(self.ring);
        let most = self.all.saturating_sub(twice).0 / self.page.0.max(1);
        usize::try_from(most).unwrap_or(usize::MAX).max(pages)
    }

    /// What caches of so many bytes leave for slots.
    pub(super) fn slots(&self, caches: Bytes) -> Bytes {
        self.all.saturating_sub(caches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Share = Share { all: Bytes(1000), page: Bytes(10), largest: Bytes(4), ring: Bytes(40) };

    #[test]
    fn caches_can_have_all_but_what_is_there_twice() {
        assert_eq!(SHARE.most_pages(0), 100);
        assert_eq!(SHARE.most_pages(10), 100, "in place of the ring");
        assert_eq!(SHARE.most_pages(20), 96);
        assert_eq!(Share { ring: Bytes(0), ..SHARE }.most_pages(99), 99, "what there is already");
        assert_eq!(Share { page: Bytes(0), ..SHARE }.most_pages(7), 1000, "a model without caches");
    }

    #[test]
    fn slots_have_the_rest() {
        assert_eq!(SHARE.slots(Bytes(300)), Bytes(700));
        assert_eq!(SHARE.slots(Bytes(1001)), Bytes(0));
    }
}
