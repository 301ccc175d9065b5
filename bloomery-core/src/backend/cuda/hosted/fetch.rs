//! Which of the experts that a layer lacks come over the bus, while the host computes the others.

use std::cmp::Reverse;

use bloomery_kernels::cuda::{CudaError, Desk};

use super::copier::Copier;
use super::measure::Measured;
use super::slots::Pool;
use crate::weights::{StackId, Weights};

/// Seconds from a layer's question until the first byte of a copy, and from its last one until the card has multiplied: a call of the
/// driver, tiles, and two kernels more.
const LATENCY: f64 = 60e-6;
/// What the host keeps of its rate while the bus reads its memory too: on 16 cores 0.87 (`cuda_link_bench`).
const BESIDE: f64 = 0.87;
/// Seconds that the kernels of a fetch cost a layer, whether it brings something or not.
const COST: f64 = 8e-6;
/// What a new layer counts in the mean of what was saved.
const NEW: f64 = 1.0 / 64.0;

/// The way by which experts come while a layer is served.
pub(super) struct Bus<'a> {
    pub(super) copier: &'a mut Copier,
    /// Where they go to: a half that waves do not use meanwhile.
    pub(super) pool: &'a Pool,
    pub(super) measured: &'a Measured,
    pub(super) fetching: &'a mut Fetching,
    /// Whether the step has kernels for it, and nothing else is on the way.
    pub(super) is_open: bool,
}

/// Experts that come for a layer.
pub(super) struct Brought<'a> {
    /// Ascending; they go to the slots of the first half of `pool` in turn.
    pub(super) experts: Vec<u32>,
    /// The seats of the layer's pairs.
    pub(super) seats: Vec<u32>,
    pub(super) copier: &'a mut Copier,
    pub(super) pool: &'a Pool,
}

impl Brought<'_> {
    /// Queues the copies, and tells the card.
    pub(super) fn queue(
        self,
        desk: &Desk,
        layer: usize,
        (weights, ids): (&Weights, [StackId; 3]),
    ) -> Result<(), CudaError> {
        let Self { experts, seats, copier, pool } = self;
        copier.bring(weights, ids, &experts, (pool, pool.first_of(0)))?;
        desk.fetch(layer, Some((&seats, &mut copier.stream)))
    }
}

/// What is saved by it, as far as it was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fetching {
    /// Seconds a layer, on average, whether they were saved or might have been.
    saved: f64,
    /// What a new layer counts in it.
    new: f64,
}

impl Default for Fetching {
    /// Hopes.
    fn default() -> Self {
        Self { saved: 4.0 * COST, new: NEW }
    }
}

impl Fetching {
    /// For engines that do the same whatever they did before: what layers save that lack so many experts.
    pub(super) fn fixed(saved: impl ExactSizeIterator<Item = f64>) -> Self {
        let layers = saved.len().max(1);
        Self { saved: saved.sum::<f64>() / layers as f64, new: 0.0 }
    }

    /// Whether it is worth its kernels.
    pub(super) fn pays(self) -> bool {
        self.saved > COST
    }

    /// A layer would have saved so many seconds.
    pub(super) fn saw(&mut self, saved: f64) {
        self.saved += self.new * (saved - self.saved);
    }
}

/// The `count` of `lacking` experts and their rows whose rows are most, ascending.
pub(super) fn pick(mut lacking: Vec<(u32, u32)>, count: usize) -> Vec<u32> {
    lacking.sort_unstable_by_key(|&(expert, rows)| (Reverse(rows), expert));
    let mut experts: Vec<u32> = lacking.into_iter().take(count).map(|(expert, _)| expert).collect();
    experts.sort_unstable();
    experts
}

/// How many of `missing` experts `rows` rows lack that choose `used` of `experts` each.
pub(super) fn lacked(missing: usize, rows: usize, used: usize, experts: usize) -> usize {
    let spared = (1.0 - used as f64 / experts.max(1) as f64).powi(rows as i32);
    (missing as f64 * (1.0 - spared)).round() as usize
}

/// How many of `lacking` experts of `bytes` bytes are brought, at most `most`: where the slower of both sides is done first. And the seconds
/// that this saves.
pub(super) fn share(measured: &Measured, lacking: usize, bytes: u64, most: usize) -> (usize, f64) {
    let time = |rate: f64, experts: usize| (experts as u64 * bytes) as f64 / rate.max(1.0);
    let alone = time(measured.read, lacking);
    if measured.link <= 0.0 || measured.read <= 0.0 {
        return (0, 0.0);
    }
    let with = |brought: usize| {
        let host = time(BESIDE * measured.read, lacking - brought);
        host.max(LATENCY + time(measured.link, brought))
    };
    let best = (1..=lacking.min(most)).map(|brought| (brought, with(brought)));
    match best.min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((brought, seconds)) if seconds < alone => (brought, alone - seconds),
        _ => (0, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Measured = Measured { link: 50e9, read: 100e9, crossover: 100 };

    #[test]
    fn both_sides_end_at_about_the_same_time() {
        let bytes = 16 << 20;
        let brought: Vec<usize> = (0..=9).map(|lacking| share(&MEASURED, lacking, bytes, 100).0).collect();
        assert_eq!(brought, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]);
        for lacking in 1..9 {
            let (fewer, more) =
                (share(&MEASURED, lacking, bytes, 100), share(&MEASURED, lacking + 1, bytes, 100));
            assert!(fewer.0 <= more.0 && fewer.1 >= 0.0);
        }
    }

    #[test]
    fn experts_of_most_rows_are_brought() {
        let lacking = vec![(3, 1), (5, 4), (8, 1), (9, 4), (11, 2)];
        assert!(pick(lacking.clone(), 0).is_empty());
        assert_eq!(pick(lacking.clone(), 2), [5, 9]);
        assert_eq!(pick(lacking.clone(), 4), [3, 5, 9, 11]);
        assert_eq!(pick(lacking, 9), [3, 5, 8, 9, 11]);
    }

    #[test]
    fn small_experts_are_not_worth_a_copy() {
        // 2 us with the host.
        assert_eq!(share(&MEASURED, 8, 200_000, 100), (0, 0.0));
    }

    #[test]
    fn a_slow_host_has_all_of_them_brought_as_far_as_there_is_room() {
        let slow = Measured { read: 5e9, ..MEASURED };
        let (brought, saved) = share(&slow, 8, 16 << 20, 100);
        assert_eq!(brought, 8);
        assert!(saved > 0.02);
        assert_eq!(share(&slow, 8, 16 << 20, 3).0, 3);
        assert_eq!(share(&slow, 8, 16 << 20, 0), (0, 0.0));
        // What was never measured gives nothing.
        assert_eq!(share(&Measured::default(), 0, 16 << 20, 3), (0, 0.0));
    }

    #[test]
    fn what_saves_nothing_is_given_up_and_taken_up_again() {
        let mut fetching = Fetching::default();
        assert!(fetching.pays());
        (0..300).for_each(|_| fetching.saw(0.0));
        assert!(!fetching.pays());
        (0..20).for_each(|_| fetching.saw(150e-6));
        assert!(fetching.pays());
    }

    #[test]
    fn what_is_fixed_stays() {
        for saved in [0.0, 100e-6] {
            let mut fetching = Fetching::fixed([saved, saved].into_iter());
            (0..300).for_each(|_| fetching.saw(100e-6 - saved));
            assert_eq!(fetching.pays(), saved > 0.0);
        }
        assert!(!Fetching::fixed([].into_iter()).pays());
    }

    #[test]
    fn more_rows_lack_more_experts() {
        let lacked = [1, 2, 8, 64, 1000].map(|rows| lacked(100, rows, 8, 200));
        assert_eq!(lacked, [4, 8, 28, 93, 100]);
        assert_eq!(super::lacked(0, 7, 8, 0), 0);
    }
}
