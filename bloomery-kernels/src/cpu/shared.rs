//! A buffer that the tasks of one region write, each its own parts.

use std::marker::PhantomData;
use std::ops::Range;

/// Hands out disjoint parts of an exclusively borrowed slice to several threads.
pub(super) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: the slice stays borrowed exclusively for 'a, and `part` makes its callers keep parts apart; so this moves
// `&mut T` between threads, which `T: Send` allows.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as for `Send`; a shared `Shared` offers nothing but `part`.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    /// The values of `range`.
    ///
    /// # Safety
    /// No other part that overlaps `range` is in use while the returned slice is: in a region, the ranges of different
    /// tasks are disjoint, and a task holds one part at a time.
    ///
    /// # Panics
    /// When the range is not inside the slice.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the callers' promise")]
    pub(super) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "part {range:?} of {}", self.len);
        // SAFETY: inside the borrowed slice by the assertion, and unaliased by this function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// Where the values of `range` begin, for tasks that read the same ones.
    ///
    /// # Panics
    /// When the range is not inside the slice.
    pub(super) fn at(&self, range: Range<usize>) -> *mut T {
        assert!(range.start <= range.end && range.end <= self.len, "part {range:?} of {}", self.len);
        self.start.wrapping_add(range.start)
    }
}
