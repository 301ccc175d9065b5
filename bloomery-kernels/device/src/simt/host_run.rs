//! The twin's threads: every thread of a block is a coroutine, all of them on one thread of the system.
//!
//! A thread runs until it waits for others. Who goes on then changes from turn to turn, forwards and backwards: a kernel that
//! lacks a barrier reads what has not been written yet, or what is written too early.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use super::WARP;

/// Products that lanes exchange at once, at most.
pub(super) const MOST: usize = 16;

/// The stack of a thread: unrolled kernels have frames of some 10 KiB.
const STACK_BYTES: usize = 256 << 10;

/// An operand of a product in a lane.
type Words = [Cell<u32>; 6];

/// What a warp's lanes exchange.
pub(super) struct Warp {
    pub(super) barrier: Barrier,
    pub(super) slots: [Cell<u32>; WARP as usize],
    /// Fragments of matrices.
    pub(super) words: [Words; WARP as usize],
    /// Operands of products: two sets of six words a lane for each.
    pub(super) products: [Box<[[Words; MOST]; WARP as usize]>; 2],
}

impl Warp {
    fn new() -> Self {
        let words = || Box::new([const { [const { [const { Cell::new(0) }; 6] }; MOST] }; 32]);
        Self {
            barrier: Barrier::new(WARP),
            slots: [const { Cell::new(0) }; 32],
            words: [const { [const { Cell::new(0) }; 6] }; 32],
            products: [words(), words()],
        }
    }
}

/// Where threads wait until all of them have come.
pub(super) struct Barrier {
    threads: u32,
    waiting: Cell<u32>,
    /// How often all had come.
    opened: Rc<Cell<u32>>,
}

impl Barrier {
    fn new(threads: u32) -> Self {
        Self { threads, waiting: Cell::new(0), opened: Rc::default() }
    }

    pub(super) fn wait(&self) {
        self.waiting.set(self.waiting.get() + 1);
        if self.waiting.get() == self.threads {
            self.waiting.set(0);
            self.opened.set(self.opened.get() + 1);
        } else {
            suspend(Wait::Opened(self.opened.clone(), self.opened.get()));
        }
    }
}

/// What a thread waits for.
enum Wait {
    /// Nothing but that others have had a turn.
    Turn,
    /// That a barrier has opened more often.
    Opened(Rc<Cell<u32>>, u32),
}

impl Wait {
    fn is_over(&self) -> bool {
        match self {
            Self::Turn => true,
            Self::Opened(opened, before) => opened.get() != *before,
        }
    }
}

/// The shared memory of a block, filled with NaNs at first.
pub(super) struct Memory {
    pub(super) bytes: *mut u8,
    layout: Layout,
}

impl Memory {
    fn new(bytes: u32) -> Self {
        let layout = Layout::from_size_align((bytes as usize).max(16), 16).expect("a small size");
        // SAFETY: the size is not 0; all of it is written before use.
        unsafe {
            let bytes = alloc(layout);
            assert!(!bytes.is_null());
            bytes.write_bytes(0xff, layout.size());
            Self { bytes, layout }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `new`.
        unsafe { dealloc(self.bytes, self.layout) }
    }
}

/// A thread of the block.
pub(super) struct Place {
    pub(super) thread: u32,
    pub(super) threads: u32,
    pub(super) block: u32,
    pub(super) blocks: u32,
    pub(super) memory: Rc<Memory>,
    pub(super) barrier: Rc<Barrier>,
    pub(super) warp: Rc<Warp>,
    /// Which set of operands the last product used.
    pub(super) turn: bool,
    /// Copies started, and groups of copies that were closed.
    pub(super) open: Vec<(u32, u64, u32)>,
    pub(super) groups: VecDeque<Vec<(u32, u64, u32)>>,
    /// Whether lanes copy for their warps; the copies that wait for their barriers: `(barrier, to, from)`.
    pub(super) bulk: bool,
    pub(super) bulks: Vec<(u32, u32, u64)>,
    /// Bytes announced to barriers.
    pub(super) announced: HashMap<u32, u32>,
    /// Of its coroutine, once it has started.
    yielder: *const Yielder<(), Wait>,
}

thread_local! {
    /// The threads of the block that runs, and which of them has its turn.
    static PLACES: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
    static TURN: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn with<T>(f: impl FnOnce(&mut Place) -> T) -> T {
    PLACES.with_borrow_mut(|places| f(places.get_mut(TURN.get()).expect("kernels run in `run`")))
}

/// Gives the turn away.
fn suspend(wait: Wait) {
    let yielder = with(|place| place.yielder);
    // SAFETY: it lives on the stack of the coroutine that this runs on.
    unsafe { (*yielder).suspend(wait) }
}

/// Lets other threads go on, for one that looks again and again at what they write.
pub(super) fn yield_now() {
    suspend(Wait::Turn);
}

/// Runs `kernel` in every thread of `blocks` blocks of `threads`, block after block.
pub(crate) fn run(bulk: bool, (blocks, threads, shared_bytes): (u32, u32, u32), kernel: &dyn Fn()) {
    assert!(threads.is_multiple_of(WARP) && threads > 0, "{threads} threads");
    let stack = |_| DefaultStack::new(STACK_BYTES).expect("memory of a stack");
    let mut stacks: Vec<DefaultStack> = (0..threads).map(stack).collect();
    for block in 0..blocks {
        let (memory, barrier) = (Rc::new(Memory::new(shared_bytes)), Rc::new(Barrier::new(threads)));
        let warps: Vec<Rc<Warp>> = (0..threads / WARP).map(|_| Rc::new(Warp::new())).collect();
        let place = |thread: u32| Place {
            thread,
            threads,
            block,
            blocks,
            memory: memory.clone(),
            barrier: barrier.clone(),
            warp: warps[(thread / WARP) as usize].clone(),
            turn: false,
            open: Vec::new(),
            groups: VecDeque::new(),
            bulk,
            bulks: Vec::new(),
            announced: HashMap::new(),
            yielder: std::ptr::null(),
        };
        PLACES.set((0..threads).map(place).collect());
        take_turns(&mut stacks, kernel);
        PLACES.take();
    }
}

/// Runs a block's threads to their ends.
fn take_turns(stacks: &mut [DefaultStack], kernel: &dyn Fn()) {
    let threads = stacks.len();
    let start = |yielder: &Yielder<(), Wait>, ()| {
        with(|place| place.yielder = yielder);
        kernel();
    };
    let mut coroutines: Vec<_> = stacks
        .iter_mut()
        // SAFETY: what `start` borrows outlives this function, which ends all coroutines before it returns.
        .map(|stack| unsafe { Coroutine::<(), Wait, (), _>::with_stack_unchecked(stack, start) })
        .collect();
    let mut waits: Vec<Option<Wait>> = (0..threads).map(|_| Some(Wait::Turn)).collect();
    let (mut left, mut round) = (threads, 0_usize);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        while left > 0 {
            let mut moved = false;
            for i in 0..threads {
                // From another thread on every time, and backwards every other time.
                let i = (i + 11 * round) % threads;
                let i = if round.is_multiple_of(2) { i } else { threads - 1 - i };
                if waits[i].as_ref().is_some_and(Wait::is_over) {
                    TURN.set(i);
                    waits[i] = coroutines[i].resume(()).as_yield();
                    left -= usize::from(waits[i].is_none());
                    moved = true;
                }
            }
            assert!(moved, "{left} of {threads} threads wait for others that do not come");
            round += 1;
        }
    }));
    if let Err(panic) = outcome {
        for coroutine in &mut coroutines {
            // SAFETY: what is left on the stacks is never used again; nothing there has to be dropped.
            unsafe { coroutine.force_reset() };
        }
        resume_unwind(panic);
    }
}
