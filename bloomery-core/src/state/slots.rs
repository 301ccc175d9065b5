//! Slots for recurrent states: what a sequence has become in the layers that keep no rows of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::StateId;

/// A state in a slot, as long as the slot is not given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StateRef {
    id: StateId,
    serial: u64,
}

impl StateRef {
    pub(crate) fn id(self) -> StateId {
        self.id
    }
}

/// Where the tree of prefixes has a state: a node, and the rows of it that are part of the state.
pub(crate) type Kept = (u32, usize);

/// Who has a slot.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Of all states there ever were in it, which one this is.
    serial: u64,
    /// Sequences that know it.
    owners: u32,
    /// Those that go on from it, and steps that write it. Without any it may be taken away.
    ends: u32,
    kept: Option<Kept>,
    used: u64,
    /// Nobody expects to come back to it.
    passing: bool,
    /// Somebody who did not make it has come back to it.
    served: bool,
}

/// A state that may be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Idle {
    pub(crate) id: StateId,
    pub(crate) kept: Option<Kept>,
    pub(crate) passing: bool,
    pub(crate) used: u64,
}

/// Hands out slots. Only the state that a sequence goes on from is sure to stay: all others can be computed again from an
/// earlier one, so they are taken away when a slot is needed, and who knew them finds them gone.
#[derive(Debug)]
pub(crate) struct StatePool {
    slots: Vec<Slot>,
    /// The lowest is taken first, as of pages.
    free: BinaryHeap<Reverse<StateId>>,
    /// Free slots that are for the moments of a step, as long as there are others.
    reserve: usize,
}

impl StatePool {
    /// No slots at all are for models that have no recurrent state.
    pub(crate) fn new(slots: u32, reserve: usize) -> Self {
        Self {
            slots: vec![Slot::default(); slots as usize],
            free: (0..slots).map(Reverse).collect(),
            reserve,
        }
    }

    /// Whether sequences have recurrent states.
    pub(crate) fn is_used(&self) -> bool {
        !self.slots.is_empty()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn available(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn reserve(&self) -> usize {
        self.reserve
    }

    /// States that may be taken away and that nobody expects to come back to.
    pub(crate) fn passing(&self) -> usize {
        self.slots.iter().filter(|slot| slot.ends == 0 && slot.passing && slot.is_taken()).count()
    }

    /// A free slot, with one owner that goes on from it.
    pub(crate) fn take(&mut self, now: u64) -> Option<StateRef> {
        let Reverse(id) = self.free.pop()?;
        let slot = &mut self.slots[id as usize];
        *slot = Slot { serial: slot.serial + 1, owners: 1, ends: 1, used: now, ..Slot::default() };
        Some(StateRef { id, serial: slot.serial })
    }

    /// Whether the slot still holds this state.
    pub(crate) fn has(&self, state: StateRef) -> bool {
        self.slots.get(state.id as usize).is_some_and(|slot| slot.serial == state.serial && slot.is_taken())
    }

    pub(crate) fn share(&mut self, state: StateRef) {
        self.change(state, |slot| slot.owners += 1);
    }

    pub(crate) fn release(&mut self, state: StateRef) {
        self.change(state, |slot| slot.owners -= 1);
    }

    /// An owner goes on from the state: it stays.
    pub(crate) fn pin(&mut self, state: StateRef) {
        debug_assert!(self.has(state), "a state was lost that a sequence goes on from");
        self.change(state, |slot| slot.ends += 1);
    }

    pub(crate) fn unpin(&mut self, state: StateRef) {
        self.change(state, |slot| slot.ends -= 1);
    }

    /// Whether one sequence goes on from it and no other.
    pub(crate) fn is_end_of_one(&self, state: StateRef) -> bool {
        self.has(state) && self.slots[state.id as usize].ends == 1
    }

    /// The tree of prefixes has it.
    pub(crate) fn keep(&mut self, state: StateRef, at: Kept) {
        debug_assert!(self.kept(state).is_none(), "a state is of one node");
        self.change(state, |slot| slot.kept = Some(at));
    }

    /// Ends what [`keep`](Self::keep) began.
    pub(crate) fn drop_kept(&mut self, state: StateRef) {
        self.change(state, |slot| slot.kept = None);
    }

    pub(crate) fn kept(&self, state: StateRef) -> Option<Kept> {
        if self.has(state) { self.slots[state.id as usize].kept } else { None }
    }

    pub(crate) fn last_use(&self, state: StateRef) -> u64 {
        self.slots[state.id as usize].used
    }

    pub(crate) fn touch(&mut self, state: StateRef, now: u64) {
        self.change(state, |slot| (slot.used, slot.passing, slot.served) = (now, false, true));
    }

    /// Says that who made it does not expect to come back to it.
    pub(crate) fn pass(&mut self, state: StateRef) {
        self.change(state, |slot| slot.passing = !slot.served);
    }

    /// What to take away first: what nobody expects to come back to, then what was not used for longest.
    pub(crate) fn idle(&self) -> Option<Idle> {
        let idle = (0..).zip(&self.slots).filter(|(_, slot)| slot.ends == 0 && slot.is_taken());
        let (id, slot) = idle.min_by_key(|(_, slot)| (!slot.passing, slot.used))?;
        Some(Idle { id, kept: slot.kept, passing: slot.passing, used: slot.used })
    }

    /// Takes a state away from all who know it, if any do. The tree of prefixes does not any more.
    pub(crate) fn revoke(&mut self, id: StateId) {
        let slot = &mut self.slots[id as usize];
        debug_assert!(slot.ends == 0);
        if slot.is_taken() {
            *slot = Slot { serial: slot.serial + 1, ..Slot::default() };
            self.free.push(Reverse(id));
        }
    }

    /// Lets the one sequence that goes on from a state write over it. All others find it gone; the tree of prefixes knows.
    pub(crate) fn overwrite(&mut self, state: StateRef, now: u64) -> StateRef {
        debug_assert!(self.is_end_of_one(state) && self.kept(state).is_none());
        let slot = &mut self.slots[state.id as usize];
        *slot = Slot { serial: slot.serial + 1, owners: 1, ends: 1, used: now, ..Slot::default() };
        StateRef { id: state.id, serial: slot.serial }
    }

    /// Nothing happens to a state that is gone.
    fn change(&mut self, state: StateRef, change: impl FnOnce(&mut Slot)) {
        if !self.has(state) {
            return;
        }
        let slot = &mut self.slots[state.id as usize];
        change(slot);
        if !slot.is_taken() {
            debug_assert!(slot.ends == 0);
            *slot = Slot { serial: slot.serial + 1, ..Slot::default() };
            self.free.push(Reverse(state.id));
        }
    }

    /// Owners of a slot, those of them that go on from it, and whether the tree of prefixes has it.
    #[cfg(test)]
    pub(crate) fn holders(&self, id: StateId) -> (u32, u32, Option<Kept>) {
        let slot = self.slots[id as usize];
        (slot.owners, slot.ends, slot.kept)
    }
}

impl Slot {
    fn is_taken(&self) -> bool {
        self.owners > 0 || self.kept.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_when_nobody_has_it() {
        let mut pool = StatePool::new(2, 0);
        let a = pool.take(1).unwrap();
        pool.share(a);
        pool.keep(a, (5, 3));
        pool.unpin(a);
        pool.release(a);
        pool.release(a);
        assert!(pool.has(a) && pool.available() == 1);
        pool.drop_kept(a);
        assert!(!pool.has(a) && pool.available() == 2);
        // Who still knows it does no harm.
        pool.release(a);
        pool.touch(a, 9);
        let b = pool.take(2).unwrap();
        assert_eq!(b.id(), a.id());
        assert!(!pool.has(a) && pool.has(b));
    }

    #[test]
    fn what_is_passing_goes_first_and_ends_stay() {
        let mut pool = StatePool::new(3, 0);
        let [a, b, c] = [1, 2, 3].map(|now| pool.take(now).unwrap());
        assert_eq!(pool.idle(), None);
        pool.unpin(a);
        pool.unpin(b);
        assert_eq!(pool.idle().unwrap().id, a.id());
        pool.pass(b);
        assert_eq!((pool.idle().unwrap().id, pool.passing()), (b.id(), 1));
        pool.touch(b, 4);
        pool.revoke(pool.idle().unwrap().id);
        assert!(!pool.has(a) && pool.has(b) && pool.has(c));
        pool.share(c);
        let over = pool.overwrite(c, 5);
        assert!(pool.has(over) && !pool.has(c), "the other owner finds it gone");
        pool.release(c);
        assert_eq!(pool.holders(over.id()), (1, 1, None));
    }
}
