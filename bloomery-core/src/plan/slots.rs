//! How many experts a card has room for, as a pure function.

use super::{LayerSplit, SlotPool, Split};
use crate::error::Term;
use crate::units::Bytes;

/// Experts of equal formats, rows and columns, in however many layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// One expert in the order of the card's kernels.
    pub(super) expert: Bytes,
    /// Experts of one layer, of the layer with most.
    pub(super) experts: usize,
    /// Layers whose experts may stay on the card, and how many experts they have together.
    pub(super) layers: usize,
    pub(super) residents: usize,
}

/// What has to be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Routed {
    pub(super) shapes: Vec<Shape>,
    pub(super) layers: Vec<LayerSplit>,
    /// Experts of all layers, those that the card has no kernel for included.
    pub(super) experts: usize,
    /// Most experts of a row.
    pub(super) used: usize,
}

/// Bytes of half a ring, where memory allows: 5 ms of a link of 50 GB/s. While the card attends and routes, which takes longer in prompts,
/// the link fills both halves and waits. With half of this a prompt of 4096 took 1.5 % longer (DeepSeek-V4.1) and 7.5 % (GLM-5.3).
const WAVE: u64 = 256 << 20;
/// Experts of half a ring, at least.
const FEWEST: usize = 8;
/// Part of the memory for experts that rings may take beyond their least: what they take, residents lack.
const RING_SHARE: u64 = 12;

impl Routed {
    /// Whether any expert may stay.
    pub(super) fn has_residents(&self) -> bool {
        self.shapes.iter().any(|shape| shape.residents > 0)
    }

    fn least_wave(&self, shape: &Shape) -> usize {
        FEWEST.max(self.used).min(shape.experts)
    }

    /// The rings without which nothing runs.
    pub(super) fn least(&self) -> Bytes {
        let ring = |shape: &Shape| Bytes::of(2 * self.least_wave(shape), shape.expert.0 as usize);
        self.shapes.iter().map(ring).sum()
    }

    /// Divides memory, at least [`least`](Self::least): rings first, then the same number of slots for every layer, and with
    /// what is left one more for some, the lowest pool first.
    pub(super) fn spread(&self, memory: Bytes) -> Split {
        let share = if self.has_residents() { memory.0 / RING_SHARE } else { memory.0 };
        let wanted: Vec<usize> = self.shapes.iter().map(|shape| self.wave(shape)).collect();
        let total: u64 = self.shapes.iter().zip(&wanted).map(|(shape, &wave)| bytes(shape, 2 * wave)).sum();
        let rings: Vec<usize> = self
            .shapes
            .iter()
            .zip(wanted)
            .map(|(shape, wave)| {
                let scaled = u128::from(share) * wave as u128 / u128::from(total.max(1));
                let scaled = usize::try_from(scaled).unwrap_or(usize::MAX).min(wave);
                2 * scaled.max(self.least_wave(shape))
            })
            .collect();
        let taken: u64 = self.shapes.iter().zip(&rings).map(|(shape, &ring)| bytes(shape, ring)).sum();
        let slots = self.even(memory.0.saturating_sub(taken));
        let pools = self
            .shapes
            .iter()
            .zip(slots.iter().zip(rings))
            .map(|(shape, (&slots, ring))| SlotPool { slots, ring, expert: shape.expert })
            .collect();
        Split { pools, layers: self.layers.clone() }
    }

    fn wave(&self, shape: &Shape) -> usize {
        let wave = usize::try_from(WAVE.div_ceil(shape.expert.0.max(1))).unwrap_or(usize::MAX);
        wave.clamp(self.least_wave(shape), shape.experts)
    }

    /// Slots of each pool, of so many bytes.
    fn even(&self, memory: u64) -> Vec<usize> {
        let slots = |seats: usize| -> Vec<usize> {
            self.shapes.iter().map(|shape| shape.residents.min(seats.saturating_mul(shape.layers))).collect()
        };
        let cost = |slots: &[usize]| -> u64 {
            self.shapes.iter().zip(slots).map(|(shape, &n)| bytes(shape, n)).sum()
        };
        // The most seats of every layer that fit.
        let (mut low, mut high) = (0, self.shapes.iter().map(|shape| shape.experts).max().unwrap_or(0));
        while low < high {
            let seats = (low + high).div_ceil(2);
            if cost(&slots(seats)) <= memory { low = seats } else { high = seats - 1 }
        }
        let mut slots = slots(low);
        let mut left = memory.saturating_sub(cost(&slots));
        for (shape, slots) in self.shapes.iter().zip(&mut slots) {
            let fitting = usize::try_from(left / shape.expert.0.max(1)).unwrap_or(usize::MAX);
            let more = fitting.min(shape.residents - *slots).min(shape.layers);
            *slots += more;
            left -= bytes(shape, more);
        }
        slots
    }

    /// What a split takes of the card: slots that stay, and rings.
    pub(super) fn terms(&self, split: &Split) -> [Term; 2] {
        let slots: usize = split.pools.iter().map(|pool| pool.slots).sum();
        let layers: usize = self.shapes.iter().map(|shape| shape.layers).sum();
        let each = if layers == 0 { 0.0 } else { slots as f64 / layers as f64 };
        let (held, rings) = (split.slot_bytes(), split.ring_bytes());
        let ring = |pool: &SlotPool| format!("{} of {}", pool.ring, pool.expert);
        let term = |what, bytes, detail| Term { what, bytes, detail };
        [
            term("expert slots", held, format!("{slots} of {} experts, {each:.1} a layer", self.experts)),
            term("ring", rings, split.pools.iter().map(ring).collect::<Vec<_>>().join(", ")),
        ]
    }
}

impl Split {
    /// The same with so much memory for slots, while rings stay. `experts` are those of every layer.
    pub(crate) fn resized(&self, experts: &[usize], memory: Bytes) -> Self {
        let empty = |pool: &SlotPool| Shape { expert: pool.expert, experts: 0, layers: 0, residents: 0 };
        let mut shapes: Vec<Shape> = self.pools.iter().map(empty).collect();
        for (layer, &count) in self.layers.iter().zip(experts) {
            let Some(shape) = layer.pool.map(|pool| &mut shapes[pool]) else { continue };
            shape.experts = shape.experts.max(count);
            if layer.resident {
                shape.layers += 1;
                shape.residents += count;
            }
        }
        let routed = Routed { shapes, layers: Vec::new(), experts: 0, used: 1 };
        let slots = self.pools.iter().zip(routed.even(memory.0));
        Self { pools: slots.map(|(pool, slots)| SlotPool { slots, ..*pool }).collect(), ..self.clone() }
    }

    /// What slots take of the card.
    pub(crate) fn slot_bytes(&self) -> Bytes {
        self.pools.iter().map(|pool| Bytes::of(pool.slots, pool.expert.0 as usize)).sum()
    }

    /// What rings take of the card.
    pub(crate) fn ring_bytes(&self) -> Bytes {
        self.pools.iter().map(|pool| Bytes::of(pool.ring, pool.expert.0 as usize)).sum()
    }
}

fn bytes(shape: &Shape, experts: usize) -> u64 {
    shape.expert.0.saturating_mul(experts as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn shape(megabytes: u64, experts: usize, layers: usize) -> Shape {
        Shape { expert: Bytes(megabytes * MB), experts, layers, residents: experts * layers }
    }

    fn routed(shapes: &[Shape]) -> Routed {
        let experts = shapes.iter().map(|shape| shape.residents).sum();
        Routed { shapes: shapes.to_vec(), layers: Vec::new(), experts, used: 8 }
    }

    fn total(split: &Split) -> u64 {
        split.pools.iter().map(|pool| (pool.slots + pool.ring) as u64 * pool.expert.0).sum()
    }

    #[test]
    fn every_layer_gets_as_many_and_the_sum_fits() {
        let two = routed(&[shape(3, 128, 24), shape(4, 128, 24)]);
        for gigabytes in [1, 2, 5, 9, 17, 21, 22] {
            let memory = Bytes(gigabytes * 1000 * MB);
            let split = two.spread(memory);
            assert!(total(&split) <= memory.0, "{split:?}");
            let rings: u64 = split.pools.iter().map(|pool| pool.ring as u64 * pool.expert.0).sum();
            assert!(rings <= (memory.0 / RING_SHARE).max(two.least().0), "{split:?}");
            let seats: Vec<usize> = split.pools.iter().map(|pool| pool.slots / 24).collect();
            assert!(seats[0].abs_diff(seats[1]) <= 1, "{split:?}");
            // Nothing of use is left.
            assert!(memory.0 - total(&split) < 3 * MB || split.pools[0].slots == 128 * 24, "{split:?}");
        }
        let all = two.spread(Bytes(100_000 * MB));
        assert_eq!(all.pools.iter().map(|pool| pool.slots).collect::<Vec<_>>(), [3072, 3072]);
    }

    #[test]
    fn rings_hold_two_waves_and_shrink_with_memory() {
        let small = routed(&[shape(3, 128, 48)]);
        assert_eq!(small.spread(Bytes(10_000 * MB)).pools[0].ring, 2 * 90, "256 MiB are 90 experts");
        assert_eq!(small.spread(Bytes(1_000 * MB)).pools[0].ring, 2 * 13, "a twelfth");
        assert_eq!(
            small.spread(small.least()).pools[0],
            SlotPool { slots: 0, ring: 16, expert: Bytes(3 * MB) }
        );
        let large = routed(&[shape(27, 256, 58)]);
        assert_eq!(large.spread(Bytes(10_000 * MB)).pools[0].ring, 2 * 10);
        assert_eq!(large.spread(Bytes(1_000 * MB)).pools[0].ring, 16, "the least");
        let few = routed(&[shape(1, 4, 2)]);
        assert_eq!(few.spread(Bytes(1000 * MB)).pools[0], SlotPool { slots: 8, ring: 8, expert: Bytes(MB) });
    }

    #[test]
    fn slots_take_what_they_are_given_and_rings_stay() {
        let layers = |resident: [bool; 4]| {
            resident
                .iter()
                .enumerate()
                .map(|(i, &resident)| LayerSplit { pool: Some(i % 2), resident })
                .collect()
        };
        let pools = [3, 4].map(|size| SlotPool { slots: 9, ring: 16, expert: Bytes(size * MB) }).to_vec();
        let split = Split { pools, layers: layers([true; 4]) };
        let slots = |split: &Split, megabytes: u64| {
            let split = split.resized(&[128; 4], Bytes(megabytes * MB));
            assert!(split.slot_bytes() <= Bytes(megabytes * MB));
            assert_eq!(split.ring_bytes(), Bytes(16 * 7 * MB));
            [split.pools[0].slots, split.pools[1].slots]
        };
        assert_eq!(slots(&split, 0), [0, 0]);
        assert_eq!(slots(&split, 140), [20, 20]);
        assert_eq!(slots(&split, 149), [22, 20], "what is left is for the lowest pool");
        assert_eq!(slots(&split, 10_000), [256, 256], "all of them");
        let half = Split { layers: layers([true, true, false, true]), ..split };
        assert_eq!(slots(&half, 10_000), [128, 256]);
    }

    #[test]
    fn experts_that_may_not_stay_only_pass_through() {
        let none = routed(&[Shape { residents: 0, layers: 0, ..shape(3, 128, 48) }]);
        assert!(!none.has_residents());
        let split = none.spread(Bytes(200 * MB));
        assert_eq!((split.pools[0].slots, split.pools[0].ring), (0, 66), "{split:?}");
        let half = routed(&[Shape { residents: 128 * 24, layers: 24, ..shape(3, 128, 48) }]);
        assert_eq!(half.spread(Bytes(100_000 * MB)).pools[0].slots, 128 * 24);
        let [slots, _] = half.terms(&half.spread(Bytes(3_000 * MB)));
        assert_eq!(slots.detail, "918 of 3072 experts, 38.2 a layer");
        let nothing = routed(&[]).spread(Bytes(0));
        assert!(nothing.pools.is_empty());
    }
}
