//! Prompts: every expert that the card has not, once over the bus for all rows of a step.
//!
//! A layer's missing experts come in *waves* of as many as half of the ring has slots. While the card multiplies with one half,
//! the other fills.

use std::ops::Range;

use crate::residency::NOWHERE;

/// One wave: experts that stream through a half, and the layer's residents, if it is the middle one of the layer's. In the first
/// they would keep its half from the bus for as long as they are multiplied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wave {
    pub(super) layer: usize,
    pub(super) pool: usize,
    /// Which half of the pool's ring.
    pub(super) half: usize,
    /// Ascending.
    pub(super) experts: Vec<u32>,
    /// The wave before that used the same half.
    pub(super) after: Option<usize>,
}

/// A routed layer as far as waves need it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) layer: usize,
    pub(super) pool: usize,
    /// Slots of a half of the pool, and the first slot of each.
    pub(super) half: usize,
    pub(super) first_of: [usize; 2],
}

/// All waves of a step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::backend::cuda) struct Waves {
    pub(super) list: Vec<Wave>,
    /// Waves of every layer.
    pub(super) of_layer: Vec<Range<usize>>,
    /// Slots by expert during each wave, one wave after the other.
    pub(super) maps: Vec<u32>,
    /// Where each wave's begins.
    starts: Vec<usize>,
}

impl Waves {
    /// For steps through `places`, one for each of `layers` layers that has a pool; `map` gives a layer's residents.
    pub(super) fn new<'m>(layers: usize, places: &[Place], map: impl Fn(usize) -> &'m [u32]) -> Self {
        let mut waves = Self { of_layer: vec![0..0; layers], ..Self::default() };
        // For every pool, the last wave of each half, and the half whose turn it is.
        let pools = places.iter().map(|place| place.pool + 1).max().unwrap_or(0);
        let mut last: Vec<([Option<usize>; 2], usize)> = vec![([None; 2], 0); pools];
        for place in places {
            let homes = map(place.layer);
            let missing: Vec<u32> =
                (0..homes.len() as u32).filter(|&expert| homes[expert as usize] == NOWHERE).collect();
            let first = waves.list.len();
            // A layer without missing experts has one wave, of its residents.
            let count = missing.len().div_ceil(place.half.max(1)).max(1);
            for part in 0..count {
                let from = (part * place.half).min(missing.len());
                let experts = &missing[from..missing.len().min(from + place.half)];
                let (used, turn) = &mut last[place.pool];
                let (half, index) = (*turn, waves.list.len());
                let after = if experts.is_empty() { None } else { used[half].replace(index) };
                *turn = if experts.is_empty() { half } else { 1 - half };
                waves.starts.push(waves.maps.len());
                waves.maps.extend(homes.iter().map(|&home| if part == count / 2 { home } else { NOWHERE }));
                let at = waves.maps.len() - homes.len();
                for (i, &expert) in experts.iter().enumerate() {
                    waves.maps[at + expert as usize] = (place.first_of[half] + i) as u32;
                }
                let (layer, pool) = (place.layer, place.pool);
                waves.list.push(Wave { layer, pool, half, experts: experts.to_vec(), after });
            }
            waves.of_layer[place.layer] = first..waves.list.len();
        }
        waves
    }

    /// Where a wave's slots begin in [`maps`](Self::maps).
    pub(super) fn start(&self, wave: usize) -> usize {
        self.starts[wave]
    }

    /// Words of the maps, at most.
    pub(super) fn most_words(places: &[Place], experts: impl Fn(usize) -> usize) -> usize {
        let words = |place: &Place| {
            let count = experts(place.layer);
            count * count.div_ceil(place.half.max(1)).max(1)
        };
        places.iter().map(words).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [Place; 3] = [
        Place { layer: 0, pool: 0, half: 2, first_of: [10, 12] },
        Place { layer: 1, pool: 1, half: 8, first_of: [0, 8] },
        Place { layer: 3, pool: 0, half: 2, first_of: [10, 12] },
    ];

    fn waves(maps: &[[u32; 6]; 4]) -> Waves {
        Waves::new(4, &PLACES, |layer| &maps[layer])
    }

    #[test]
    fn every_expert_has_a_slot_in_exactly_one_wave_of_its_layer() {
        let mut maps = [[NOWHERE; 6]; 4];
        (maps[0][2], maps[3][0], maps[3][5]) = (4, 5, 6);
        let waves = waves(&maps);
        assert_eq!(waves.of_layer, [0..3, 3..4, 0..0, 4..6]);
        for place in &PLACES {
            let mut seen = [0; 6];
            for wave in waves.of_layer[place.layer].clone() {
                let map = &waves.maps[waves.start(wave)..][..6];
                let mut slots: Vec<u32> = map.iter().copied().filter(|&slot| slot != NOWHERE).collect();
                slots.sort_unstable();
                slots.dedup();
                assert_eq!(slots.len(), map.iter().filter(|&&slot| slot != NOWHERE).count(), "no slot twice");
                let middle = &waves.of_layer[place.layer];
                let has_homes = wave == middle.start + middle.len() / 2;
                for (expert, &slot) in map.iter().enumerate() {
                    seen[expert] += usize::from(slot != NOWHERE);
                    let home = maps[place.layer][expert];
                    assert!(home == NOWHERE || slot == if has_homes { home } else { NOWHERE });
                }
            }
            assert_eq!(seen, [1; 6], "layer {}", place.layer);
        }
    }

    #[test]
    fn halves_take_turns_and_wait_for_their_last_use() {
        let waves = waves(&[[NOWHERE; 6]; 4]);
        let halves: Vec<(usize, usize, Option<usize>)> =
            waves.list.iter().map(|wave| (wave.pool, wave.half, wave.after)).collect();
        let expected = [
            (0, 0, None),
            (0, 1, None),
            (0, 0, Some(0)),
            (1, 0, None),
            (0, 1, Some(1)),
            (0, 0, Some(2)),
            (0, 1, Some(4)),
        ];
        assert_eq!(halves, expected);
        assert_eq!(waves.list[0].experts, [0, 1]);
        assert_eq!(&waves.maps[..6], &[10, 11, NOWHERE, NOWHERE, NOWHERE, NOWHERE]);
        assert_eq!(&waves.maps[waves.start(2)..][..6], &[NOWHERE, NOWHERE, NOWHERE, NOWHERE, 10, 11]);
    }

    #[test]
    fn a_layer_that_is_all_on_the_card_streams_nothing() {
        let mut maps = [[NOWHERE; 6]; 4];
        maps[0] = [0, 1, 2, 3, 4, 5];
        let waves = waves(&maps);
        assert_eq!(waves.of_layer[0], 0..1);
        assert!(waves.list[0].experts.is_empty());
        assert_eq!(&waves.maps[..6], &maps[0]);
        assert_eq!((waves.list[2].half, waves.list[2].after), (0, None), "the ring was not used");
        assert!(Waves::most_words(&PLACES, |_| 6) >= waves.maps.len());
    }
}
