//! What holds whatever happens, after thousands of random calls.

use std::collections::BTreeSet;

use super::trace::Random;
use crate::residency::policy::Move;
use crate::residency::{Expert, LayerShape, NOWHERE, PoolShape, Residency, Rules, Shape, Stats};

fn random_shape(random: &mut Random) -> Shape {
    let count = 1 + random.below(3);
    let pools = (0..count)
        .map(|_| PoolShape {
            slots: random.below(40),
            ring: random.below(12),
            expert_bytes: 1 + random.below(9) as u64,
        })
        .collect();
    let layers = (0..1 + random.below(6))
        .map(|_| LayerShape {
            experts: random.below(24),
            used: 1 + random.below(4),
            pool: Some(random.below(count + 1)).filter(|pool| *pool < count),
            resident: random.below(8) > 0,
        })
        .collect();
    Shape { layers, pools }
}

/// A residency, and what it must be by what it said.
struct World {
    shape: Shape,
    residency: Residency,
    map: Vec<u32>,
    moving: Vec<Move>,
    step: u64,
}

impl World {
    fn new(shape: Shape, rules: Rules) -> Self {
        let residency = Residency::new(shape.clone(), rules, None);
        let map = residency.map().to_vec();
        Self { shape, residency, map, moving: Vec::new(), step: 0 }
    }

    fn at(&self, expert: Expert) -> usize {
        self.residency.start(expert.layer as usize) + expert.expert as usize
    }

    fn pool(&self, expert: Expert) -> Option<usize> {
        let layer = self.shape.layers[expert.layer as usize];
        layer.pool.filter(|_| layer.resident)
    }

    /// One random call.
    fn act(&mut self, random: &mut Random) {
        let layer = random.below(self.shape.layers.len());
        let experts = self.shape.layers[layer].experts;
        match random.below(6) {
            0 | 1 => {
                // Few experts much, so that there are hot ones; now and then a number that is none.
                let chosen: Vec<u32> =
                    (0..random.below(9)).map(|_| random.below(1 + experts / (1 + layer)) as u32).collect();
                self.residency.decoded(layer, &chosen);
            }
            2 => {
                let counts: Vec<u32> =
                    (0..experts).map(|_| random.below(4) as u32 * random.below(999) as u32).collect();
                self.residency.prompted(layer, &counts);
            }
            3 => {
                let most = random.below(20);
                let moves = self.residency.plan_at_most(self.step, most);
                assert!(moves.len() <= most);
                self.moving.extend(moves);
            }
            4 if random.below(8) == 0 => {
                for pool in &mut self.shape.pools {
                    (pool.slots, pool.ring) = (random.below(40), random.below(12));
                }
                let stats = self.residency.stats();
                self.residency.resize(self.shape.pools.clone());
                assert_eq!(self.residency.stats(), stats);
                self.moving.clear();
                self.map = self.residency.map().to_vec();
            }
            _ => {
                self.step += 1 + random.below(2) as u64;
                for landed in self.residency.land(self.step) {
                    assert!(landed.lands <= self.step);
                    assert_eq!(self.moving.remove(0), landed);
                    let (comes, goes) = (self.at(landed.expert), self.at(landed.evicts.0));
                    assert_eq!((self.map[comes], self.map[goes]), (NOWHERE, landed.evicts.1));
                    self.map[goes] = NOWHERE;
                    self.map[comes] = landed.slot;
                }
                assert!(self.moving.iter().all(|moving| moving.lands > self.step));
            }
        }
    }

    /// Every slot is somebody's, free or awaited, and nothing of it twice.
    fn check(&self) {
        assert_eq!(self.residency.map(), self.map);
        let residents: Vec<(Expert, u32)> = self.residency.residents().collect();
        assert_eq!(residents.len(), self.map.iter().filter(|slot| **slot != NOWHERE).count());
        for (pool, shape) in self.shape.pools.iter().enumerate() {
            let ours = |expert: &Expert| self.pool(*expert) == Some(pool);
            let taken = residents.iter().filter(|(expert, _)| ours(expert)).map(|(expert, slot)| {
                assert_eq!(self.map[self.at(*expert)], *slot);
                *slot
            });
            let awaited = self.moving.iter().filter(|moving| ours(&moving.expert));
            let free = self.residency.free(pool);
            assert!(free.is_sorted());
            let seated = taken.clone().count();
            let eligible: usize = self
                .shape
                .layers
                .iter()
                .filter(|layer| layer.pool == Some(pool) && layer.resident)
                .map(|layer| layer.experts)
                .sum();
            assert_eq!(seated, shape.slots.min(eligible));
            assert!(free.len() >= shape.ring / 2, "prompts have half of the ring");
            let slots: Vec<u32> =
                taken.chain(awaited.map(|moving| moving.slot)).chain(free.iter().copied()).collect();
            assert_eq!(slots.len(), shape.slots + shape.ring);
            let distinct: BTreeSet<u32> = slots.into_iter().collect();
            assert_eq!(distinct.len(), shape.slots + shape.ring);
            assert!(distinct.iter().all(|slot| (*slot as usize) < shape.slots + shape.ring));
        }
        for moving in &self.moving {
            assert_eq!(self.pool(moving.expert), self.pool(moving.evicts.0));
        }
    }
}

/// Two thousand calls on each of fifty shapes. What was said and done in all, to compare runs.
fn run(seed: u64, adaptive: bool) -> (Vec<Move>, Stats) {
    let mut random = Random::new(seed);
    let rules = Rules {
        adaptive,
        delay: random.below(5) as u64,
        half_life: random.below(40) as u32,
        margin: random.below(600) as u32,
        ..Rules::default()
    };
    let mut world = World::new(random_shape(&mut random), rules);
    let mut said = Vec::new();
    world.check();
    for _ in 0..2000 {
        let before = world.moving.len();
        world.act(&mut random);
        said.extend(world.moving.iter().skip(before));
        world.check();
    }
    (said, world.residency.stats())
}

#[test]
fn map_slots_and_moves_always_agree() {
    let mut moves = 0;
    for seed in 0..50 {
        let (said, stats) = run(seed, true);
        assert_eq!(said.len() as u64, stats.moves);
        assert!(stats.on_card <= stats.chosen && stats.moved_bytes >= stats.moves);
        moves += said.len();
    }
    assert!(moves > 4_000, "{moves}");
}

#[test]
fn equal_inputs_give_equal_moves() {
    for seed in 0..10 {
        assert_eq!(run(seed, true), run(seed, true));
    }
}

#[test]
fn nothing_moves_that_should_not() {
    for seed in 0..10 {
        let (said, stats) = run(seed, false);
        assert_eq!((said.len(), stats.moves, stats.moved_bytes), (0, 0, 0));
    }
}
