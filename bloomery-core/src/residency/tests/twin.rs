//! The slow twin: the same rules with sets that are searched from end to end.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::simulate::shape;
use super::trace::{Random, Skew, Trace};
use crate::residency::score::Scores;
use crate::residency::{Expert, Residency, Rules};

/// An expert that comes, one that goes, the slot in between, and the step. Experts are flat numbers.
type Moved = (u32, u32, u32, u64);

struct Twin {
    rules: Rules,
    ring: usize,
    scores: Scores,
    seats: Vec<Option<u32>>,
    staying: BTreeSet<u32>,
    candidates: BTreeSet<u32>,
    free: BTreeSet<u32>,
    moving: Vec<Moved>,
}

impl Twin {
    fn new(trace: &Trace, slots: usize, ring: usize, rules: Rules) -> Self {
        let count = trace.layers * trace.experts;
        // As many of each layer, lowest numbers first.
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|flat| (flat % trace.experts, flat / trace.experts));
        let staying: BTreeSet<u32> = order.into_iter().take(slots).map(|flat| flat as u32).collect();
        let mut seats = vec![None; count];
        staying.iter().zip(0..).for_each(|(flat, slot)| seats[*flat as usize] = Some(slot));
        let free = (staying.len()..slots + ring).map(|slot| slot as u32).collect();
        let (scores, candidates) = (Scores::new(count, rules.half_life), BTreeSet::new());
        Self { rules, ring, scores, seats, staying, candidates, free, moving: Vec::new() }
    }

    fn choose(&mut self, flat: u32) {
        self.scores.add(flat, self.scores.weight());
        if self.seats[flat as usize].is_none() && !self.moving.iter().any(|moved| moved.0 == flat) {
            self.candidates.insert(flat);
        }
    }

    fn coldest(&self) -> Option<u32> {
        self.staying.iter().copied().min_by_key(|flat| (self.scores.get(*flat), *flat))
    }

    fn plan(&mut self, step: u64) -> Vec<Moved> {
        let margin = ((self.scores.weight() * u64::from(self.rules.margin)) >> 8).max(1);
        let mut moves = Vec::new();
        for turn in 0..=self.rules.moves {
            let room = self.moving.len() < self.ring.div_ceil(2) && !self.free.is_empty();
            let Some(coldest) = self.coldest().filter(|_| room && turn < self.rules.moves) else { break };
            let needed = self.scores.get(coldest) + margin;
            if turn == 0 {
                self.candidates.retain(|flat| self.scores.get(*flat) >= needed);
            }
            let hottest =
                self.candidates.iter().copied().max_by_key(|flat| (self.scores.get(*flat), Reverse(*flat)));
            let Some(hottest) = hottest.filter(|flat| self.scores.get(*flat) >= needed) else { break };
            self.candidates.remove(&hottest);
            self.staying.remove(&coldest);
            let Some(slot) = self.free.pop_first() else { break };
            moves.push((hottest, coldest, slot, step + self.rules.delay.max(1)));
            self.moving.push((hottest, coldest, slot, step + self.rules.delay.max(1)));
        }
        self.scores.pass(1);
        moves
    }

    fn land(&mut self, step: u64) {
        let landed: Vec<Moved> = self.moving.extract_if(.., |moved| moved.3 <= step).collect();
        for (comes, goes, slot, _) in landed {
            self.seats[comes as usize] = Some(slot);
            self.free.extend(self.seats[goes as usize].take());
            self.staying.insert(comes);
        }
    }
}

fn compare(trace: &Trace, slots: usize, ring: usize, rules: Rules) -> usize {
    let mut residency = Residency::new(shape(trace, slots, ring), rules, None);
    let mut twin = Twin::new(trace, slots, ring, rules);
    let flat = |expert: Expert| flat_number(trace, expert.layer, expert.expert);
    let mut moves = 0;
    for (step, row) in (0..).zip(trace.rows()) {
        residency.land(step);
        twin.land(step);
        assert!(
            residency.map().iter().zip(&twin.seats).all(|(slot, seat)| *slot == seat.unwrap_or(u32::MAX))
        );
        for (layer, chosen) in row.enumerate() {
            residency.decoded(layer, chosen);
            chosen.iter().for_each(|expert| twin.choose(flat_number(trace, layer as u32, *expert)));
        }
        let said: Vec<Moved> = residency
            .plan(step)
            .iter()
            .map(|moved| (flat(moved.expert), flat(moved.evicts.0), moved.slot, moved.lands))
            .collect();
        assert_eq!(said, twin.plan(step), "step {step} of {}", trace.name);
        moves += said.len();
    }
    moves
}

fn flat_number(trace: &Trace, layer: u32, expert: u32) -> u32 {
    layer * trace.experts as u32 + expert
}

#[test]
fn moves_are_those_of_the_slow_twin() {
    let mut moves = 0;
    for slots in [1, 9, 20, 45, 63] {
        moves += compare(&Trace::stories(), slots, 16, Rules { margin: 64, ..Rules::default() });
    }
    let mut random = Random::new(11);
    for seed in 0..20 {
        let skew = Skew {
            name: "twin",
            layers: 1 + random.below(4),
            experts: 8 + random.below(40),
            used: 1 + random.below(6),
            rows: 600,
            zipf: 50 + random.below(100) as i32,
            again: random.below(70),
            topic: 50 + random.below(200),
            reshuffled: 50,
        };
        let rules = Rules {
            // Short half-lives, so that scores are rebased often.
            half_life: 1 + random.below(12) as u32,
            margin: random.below(500) as u32,
            moves: random.below(20),
            delay: random.below(4) as u64,
            ..Rules::default()
        };
        let trace = skew.trace(seed);
        let slots = 1 + random.below(skew.layers * skew.experts);
        moves += compare(&trace, slots, random.below(40), rules);
    }
    assert!(moves > 5_000, "{moves}");
}
