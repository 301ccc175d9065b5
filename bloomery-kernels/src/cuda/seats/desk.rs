//! Where kernels leave work for the host, and the host its answers.
//!
//! All of it is memory of the host that kernels reach, but for the words that only kernels use. What both look at changes eight bytes
//! at a time, in one piece:
//!
//! ```text
//! asked    [layers]  a cache line each: the step, and how many pairs have no seat
//! done     [layers]  a cache line each: the step, and whether it was broken off
//! told     [layers]  a cache line each: the step, and the number of what was brought
//! failed             a cache line: the step that was given up, and the layer where, plus 1
//! pairs    [layers][rows][used]   an expert and its weight
//! rows     [rows][cols]           f32, the normalised rows; of one layer at a time
//! sums     [rows][outputs]        f32
//! fetched  [rows][used]           the seat of an expert that was brought; of one layer at a time
//! ```
//!
//! The kernel of an offer writes pairs and rows, then the layer's `asked`. The host sees that, computes, writes sums, then `done`. The
//! collecting kernel sees that and reads the sums. So nobody reads what somebody else writes, as long as the host keeps to its turn;
//! where it does not, it reads wrong numbers and nothing worse, since everything is an atomic word.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::super::{Buffer, CudaError, Device, Span, Stream};
use super::fetch::arrival;
use super::shape::{DeskShape, LINE, NAME, Places};

/// The place where kernels ask the host to compute experts that have no seats on the card, layer by layer, while a step runs.
///
/// A step: [`begin`](Self::begin), the step's kernels, with a [`Seat`](super::Seat) and a [`Collect`](super::Collect) for every layer, and,
/// meanwhile, for each layer in turn: [`asked`](Self::asked) until it says how many pairs have no seat; if there are some,
/// [`experts`](Self::experts), [`weights`](Self::weights), [`row`](Self::row), [`set_sum`](Self::set_sum) for every row that has such a
/// pair, and [`answer`](Self::answer). Layers with a [`Fetch`](super::Fetch) want [`fetch`](Self::fetch) first. Who waits for `asked` looks at
/// [`failed`](Self::failed) too: a step that was given up asks no more.
#[derive(Debug)]
pub struct Desk {
    shape: DeskShape,
    places: Places,
    /// The host's memory, as the card sees it.
    shared: Span<u64>,
    /// Where it is on the host.
    host: u64,
    /// The step's number, and again until the host was given up; the number of what has arrived; then every layer's ticket and states.
    words: Buffer<u64>,
    step: u32,
    begun: bool,
    /// Number of what was brought last.
    brought: AtomicU32,
}

/// Words before those of the layers.
const HEAD: usize = 2;

impl Desk {
    /// A desk for the kernels of one card.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for a shape out of range, [`CudaError::Memory`], [`CudaError::Driver`].
    pub fn new(device: &Device, shape: DeskShape) -> Result<Self, CudaError> {
        shape.check()?;
        let (shared, host) = Buffer::mapped(device, shape.places().end)?;
        let words = device.alloc::<u64>(HEAD + shape.layers * shape.states_len())?;
        arrival(&words.slice(1..2)?, 0).load(device)?;
        Ok(Self::of(shape, shared.span(), host, words))
    }

    /// A desk for kernels that run on the host.
    #[cfg(test)]
    pub(in super::super) fn on_host(shape: DeskShape) -> Result<Self, CudaError> {
        shape.check()?;
        let shared = Buffer::on_host(&vec![0_u64; shape.places().end]).span();
        let host = shared.address();
        let words = Buffer::on_host(&vec![0_u64; HEAD + shape.layers * shape.states_len()]);
        Ok(Self::of(shape, shared, host, words))
    }

    fn of(shape: DeskShape, shared: Span<u64>, host: u64, words: Buffer<u64>) -> Self {
        Self {
            shape,
            places: shape.places(),
            shared,
            host,
            words,
            step: 0,
            begun: false,
            brought: AtomicU32::new(0),
        }
    }

    /// What there is room for.
    #[must_use]
    pub fn shape(&self) -> DeskShape {
        self.shape
    }

    /// Queues the step's number, which must be another one than those just before; what is queued behind this belongs to the step.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn begin(&mut self, stream: &mut Stream, step: u32) -> Result<(), CudaError> {
        if !self.begun {
            // A kernel that collects looks at states before the offer has written them: none may be of this step. Zeros are.
            for layer in 0..self.shape.layers {
                let end = HEAD + (layer + 1) * self.shape.states_len();
                let states = self.words.slice(end - self.shape.rows..end)?;
                stream.fill_words(&states.cast(), step.wrapping_sub(1))?;
            }
        }
        self.number(step);
        stream.fill_words(&self.words.slice(0..1)?.cast(), step)
    }

    /// [`begin`](Self::begin) for kernels that run on the host.
    #[cfg(test)]
    pub(in super::super) fn begin_on_host(&mut self, step: u32) {
        self.number(step);
        // SAFETY: the first of the words, which are memory of the host; no kernel runs.
        unsafe { AtomicU64::from_ptr(self.words.span().address() as *mut u64) }
            .store(u64::from(step) << 32 | u64::from(step), Ordering::Relaxed);
    }

    fn number(&mut self, step: u32) {
        if !self.begun {
            // Zeros are the number of a step, too.
            for layer in 0..self.shape.layers {
                for at in [0, self.places.done, self.places.told].map(|first| first + layer * LINE) {
                    self.word(at).store(step.wrapping_sub(1).into(), Ordering::Relaxed);
                }
            }
        }
        self.word(self.places.failed).store(0, Ordering::Relaxed);
        (self.step, self.begun) = (step, true);
    }

    /// How many pairs of the layer have no seat, once the layer has asked.
    #[must_use]
    pub fn asked(&self, layer: usize) -> Option<usize> {
        if layer >= self.shape.layers {
            return None;
        }
        let word = self.word(layer * LINE).load(Ordering::Acquire);
        (word as u32 == self.step && self.begun).then_some((word >> 32) as usize)
    }

    /// The experts of the layer's pairs: all of them, as the router chose them. Where all have seats, the numbers are there when
    /// the step has ended; until the next step begins they stay.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for a layer or more pairs than there is room for.
    pub fn experts(&self, layer: usize, into: &mut [u32]) -> Result<(), CudaError> {
        let words = self.pairs(layer, into.len())?;
        into.iter_mut().zip(words).for_each(|(to, at)| *to = self.word(at).load(Ordering::Relaxed) as u32);
        Ok(())
    }

    /// The weights of the layer's pairs, as [`experts`](Self::experts).
    ///
    /// # Errors
    /// As there.
    pub fn weights(&self, layer: usize, into: &mut [f32]) -> Result<(), CudaError> {
        let words = self.pairs(layer, into.len())?;
        let high = |at| f32::from_bits((self.word(at).load(Ordering::Relaxed) >> 32) as u32);
        into.iter_mut().zip(words).for_each(|(to, at)| *to = high(at));
        Ok(())
    }

    /// The normalised row `row` of the layer that waits, if it has a pair without a seat. `into` has all of its values.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for a row, or more values, than there is room for.
    pub fn row(&self, row: usize, into: &mut [f32]) -> Result<(), CudaError> {
        let first = self.part(self.places.rows, (row, into.len()), self.shape.cols)?;
        for (at, pair) in (first..).zip(into.chunks_exact_mut(2)) {
            let word = self.word(at).load(Ordering::Relaxed);
            pair[0] = f32::from_bits(word as u32);
            pair[1] = f32::from_bits((word >> 32) as u32);
        }
        Ok(())
    }

    /// What is to be added to row `row` of the layer that waits. Rows without a pair that lacks a seat are not looked at.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for a row, or more values, than there is room for.
    pub fn set_sum(&self, row: usize, values: &[f32]) -> Result<(), CudaError> {
        let first = self.part(self.places.sums, (row, values.len()), self.shape.outputs)?;
        for (at, pair) in (first..).zip(values.chunks_exact(2)) {
            let word = u64::from(pair[0].to_bits()) | u64::from(pair[1].to_bits()) << 32;
            self.word(at).store(word, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Says which of the layer's pairs have experts that are on their way to seats: for all pairs the seat, or
    /// [`NOWHERE`](super::NOWHERE), and the stream in which their copies are queued; or that there are none. A layer with a
    /// [`Fetch`](super::Fetch) waits for it.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for a layer or more pairs than there is room for; [`CudaError::Driver`].
    pub fn fetch(&self, layer: usize, brought: Option<(&[u32], &mut Stream)>) -> Result<(), CudaError> {
        let number = match brought {
            None => 0,
            Some((seats, stream)) => {
                let number = self.seat(layer, seats)?;
                stream.launch(&arrival(&self.words.slice(1..2)?, number))?;
                number
            }
        };
        self.tell(layer, number)
    }

    /// [`fetch`](Self::fetch) for kernels that run on the host, of experts that have arrived, or of some that never do.
    #[cfg(test)]
    pub(in super::super) fn fetch_on_host(
        &self,
        layer: usize,
        seats: &[u32],
        arrive: bool,
    ) -> Result<(), CudaError> {
        let number = self.seat(layer, seats)?;
        let arrived = if arrive { number } else { number.wrapping_sub(1) };
        // SAFETY: the second of the words, which are memory of the host; no kernel runs.
        unsafe { AtomicU64::from_ptr((self.words.span().address() as *mut u64).add(1)) }
            .store(arrived.into(), Ordering::Relaxed);
        self.tell(layer, number)
    }

    /// Writes the pairs' seats; the number of what is brought.
    fn seat(&self, layer: usize, seats: &[u32]) -> Result<u32, CudaError> {
        self.pairs(layer, seats.len())?;
        for (pair, seat) in seats.iter().enumerate() {
            self.word(self.places.fetched + pair).store((*seat).into(), Ordering::Relaxed);
        }
        // Zero is the number of nothing.
        let number = self.brought.load(Ordering::Relaxed).checked_add(1).unwrap_or(1);
        self.brought.store(number, Ordering::Relaxed);
        Ok(number)
    }

    fn tell(&self, layer: usize, number: u32) -> Result<(), CudaError> {
        self.layer(layer)?;
        let word = u64::from(number) << 32 | u64::from(self.step);
        self.word(self.places.told + layer * LINE).store(word, Ordering::Release);
        Ok(())
    }

    /// The layer's sums are there.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there is no such layer.
    pub fn answer(&self, layer: usize) -> Result<(), CudaError> {
        self.layer(layer)?;
        self.word(self.places.done + layer * LINE).store(self.step.into(), Ordering::Release);
        Ok(())
    }

    /// Breaks the step off: no layer of it waits any more, and its results are worth nothing.
    pub fn abort(&self) {
        for layer in 0..self.shape.layers {
            let word = 1 << 32 | u64::from(self.step);
            self.word(self.places.told + layer * LINE).store(self.step.into(), Ordering::Release);
            self.word(self.places.done + layer * LINE).store(word, Ordering::Release);
        }
    }

    /// The layer that has waited for longer than its limit, if one has: the step went on without the host, and its results are worth
    /// nothing.
    #[must_use]
    pub fn failed(&self) -> Option<usize> {
        let word = self.word(self.places.failed).load(Ordering::Acquire);
        let layer = (word >> 32) as usize;
        if word as u32 == self.step { layer.checked_sub(1) } else { None }
    }

    /// The words of the layer's pairs.
    fn pairs(&self, layer: usize, count: usize) -> Result<std::ops::Range<usize>, CudaError> {
        self.layer(layer)?;
        let most = self.shape.rows * self.shape.used;
        CudaError::require(NAME, "pairs", count as u64, count <= most, || format!("at most {most}"))?;
        let first = self.places.pairs + layer * self.places.pairs_len;
        Ok(first..first + count)
    }

    fn layer(&self, layer: usize) -> Result<(), CudaError> {
        let layers = self.shape.layers;
        CudaError::require(NAME, "the layer", layer as u64, layer < layers, || format!("less than {layers}"))
    }

    /// The first word of a row of `cols` values.
    fn part(&self, start: usize, (row, cols): (usize, usize), most: usize) -> Result<usize, CudaError> {
        let rows = self.shape.rows;
        CudaError::require(NAME, "the row", row as u64, row < rows, || format!("less than {rows}"))?;
        let fits = cols <= most && cols.is_multiple_of(4);
        CudaError::require(NAME, "values of a row", cols as u64, fits, || {
            format!("a multiple of 4, at most {most}")
        })?;
        Ok(start + row * cols / 2)
    }

    /// Word `at` of the host's memory.
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.places.end, "word {at} of {}", self.places.end);
        // SAFETY: inside the memory, as was checked, which `shared` keeps; everybody on the host reads and writes it as atomic words.
        unsafe { AtomicU64::from_ptr((self.host as *mut u64).add(at)) }
    }

    pub(super) fn places_of(&self, layer: usize) -> Result<LayerPlaces, CudaError> {
        self.layer(layer)?;
        let (shared, places) = (|at: usize| self.shared.address() + 8 * at as u64, self.places);
        let words = self.words.span().address();
        let ticket = words + 8 * (HEAD + layer * self.shape.states_len()) as u64;
        Ok(LayerPlaces {
            asked: shared(layer * LINE),
            done: shared(places.done + layer * LINE),
            told: shared(places.told + layer * LINE),
            fetched: shared(places.fetched),
            arrived: words + 8,
            failed: shared(places.failed),
            pairs: shared(places.pairs + layer * places.pairs_len),
            rows: shared(places.rows),
            sums: shared(places.sums),
            step: words,
            ticket,
            states: ticket + 8,
        })
    }

    pub(super) fn uses(&self) -> [std::sync::Arc<super::super::memory::Allocation>; 2] {
        [self.shared.memory().clone(), self.words.span().memory().clone()]
    }
}

/// What the kernels of a layer use, as the card sees it.
pub(super) struct LayerPlaces {
    pub(super) asked: u64,
    pub(super) done: u64,
    pub(super) told: u64,
    pub(super) fetched: u64,
    pub(super) arrived: u64,
    pub(super) failed: u64,
    pub(super) pairs: u64,
    pub(super) rows: u64,
    pub(super) sums: u64,
    pub(super) step: u64,
    pub(super) ticket: u64,
    pub(super) states: u64,
}
