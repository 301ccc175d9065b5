//! The map from experts to slots, and how it changes.

use std::collections::VecDeque;

use super::heat::{Heat, Totals};
use super::pool::Pool;
use super::score::Scores;
use super::shape::{Expert, LayerShape, PoolShape, Rules, Shape};
use super::stats::Stats;

/// The slot of an expert that has none.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// A copy of an expert to the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) expert: Expert,
    /// Where it is copied to. Free before, and nobody else's until the move lands.
    pub(crate) slot: u32,
    /// Who leaves, and the slot that becomes free, when the move lands.
    pub(crate) evicts: (Expert, u32),
    /// The number of the step before which the map changes.
    pub(crate) lands: u64,
}

/// What an expert without a slot is to the policy, or one with a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// May not have a slot.
    Outsider,
    /// May have a slot, and is not considered.
    Idle,
    /// Is considered.
    Candidate,
    /// On its way, on its way out, or a resident.
    Seated,
}

/// Residency of all experts of a model.
#[derive(Debug, Clone)]
pub(crate) struct Residency {
    rules: Rules,
    layers: Vec<LayerShape>,
    /// Of every layer, the flat number of its first expert; behind them, the number of experts.
    starts: Vec<u32>,
    /// By flat number, as all that follow.
    map: Vec<u32>,
    parts: Vec<Part>,
    scores: Scores,
    totals: Totals,
    pools: Vec<Pool>,
    /// In the order in which they land.
    moving: VecDeque<Move>,
    /// Rows that were decoded, and rows that prompts count as, since the last plan.
    passed: u32,
    stats: Stats,
}

impl Residency {
    /// Fills the slots: with the hottest experts, and where there is no heat with those of the lowest numbers, as many in
    /// each layer.
    pub(crate) fn new(shape: Shape, rules: Rules, heat: Option<&Heat>) -> Self {
        let mut starts = vec![0];
        for layer in &shape.layers {
            starts.push(starts[starts.len() - 1] + layer.experts as u32);
        }
        let count = starts[shape.layers.len()] as usize;
        let mut scores = Scores::new(count, rules.half_life);
        let totals = Totals::new(&shape.layers, heat);
        for (layer, start) in shape.layers.iter().zip(&starts) {
            let flats = *start..*start + layer.experts as u32;
            let expected = totals.expected(flats.clone(), layer.used, scores.window());
            flats.zip(expected).for_each(|(flat, choices)| scores.add(flat, scores.worth(choices)));
        }
        let mut residency = Self {
            rules,
            layers: shape.layers,
            starts,
            map: vec![NOWHERE; count],
            parts: vec![Part::Outsider; count],
            scores,
            totals,
            pools: Vec::new(),
            moving: VecDeque::new(),
            passed: 0,
            stats: Stats::default(),
        };
        residency.seat(shape.pools);
        residency
    }

    /// Has slots of other numbers from now on, with the experts in them that are hottest now; where nothing moves, those that were
    /// at the start. Moves under way are forgotten.
    pub(crate) fn resize(&mut self, pools: Vec<PoolShape>) {
        self.moving.clear();
        self.map.fill(NOWHERE);
        self.parts.fill(Part::Outsider);
        self.seat(pools);
    }

    fn seat(&mut self, pools: Vec<PoolShape>) {
        self.pools.clear();
        for (index, pool) in pools.into_iter().enumerate() {
            let residents = self.hottest(index, pool.slots);
            for (slot, flat) in residents.iter().enumerate() {
                self.map[*flat as usize] = slot as u32;
                self.parts[*flat as usize] = Part::Seated;
            }
            self.pools.push(Pool::new(pool, &residents));
        }
    }

    /// The hottest experts that may be residents of a pool, ascending.
    fn hottest(&mut self, pool: usize, most: usize) -> Vec<u32> {
        let mut ranked = Vec::new();
        for (layer, start) in self.layers.iter().zip(&self.starts) {
            if layer.pool == Some(pool) && layer.resident {
                ranked.extend((0..layer.experts as u32).map(|expert| (expert, start + expert)));
            }
        }
        ranked.iter().for_each(|(_, flat)| self.parts[*flat as usize] = Part::Idle);
        ranked.sort_by_key(|(expert, flat)| (u64::MAX - self.scores.get(*flat), *expert, *flat));
        let mut residents: Vec<u32> = ranked.iter().take(most).map(|(_, flat)| *flat).collect();
        residents.sort_unstable();
        residents
    }

    /// Other rules from now on.
    #[cfg(test)]
    pub(crate) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Slots by expert, all layers one after the other.
    pub(crate) fn map(&self) -> &[u32] {
        &self.map
    }

    /// Where a layer begins in the map.
    pub(crate) fn start(&self, layer: usize) -> usize {
        self.starts[layer] as usize
    }

    /// Experts with a slot, in the order of the map.
    pub(crate) fn residents(&self) -> impl Iterator<Item = (Expert, u32)> {
        let experts = self.layers.iter().zip(0..);
        let experts = experts
            .flat_map(|(shape, layer)| (0..shape.experts as u32).map(move |expert| Expert { layer, expert }));
        experts.zip(self.map.iter().copied()).filter(|(_, slot)| *slot != NOWHERE)
    }

    /// Slots of a pool that nobody has and no move is on its way to, ascending: at least half of the ring.
    #[cfg(test)]
    pub(crate) fn free(&self, pool: usize) -> &[u32] {
        self.pools[pool].free()
    }

    /// Takes in what rows chose that were decoded and kept.
    pub(crate) fn decoded(&mut self, layer: usize, experts: &[u32]) {
        let (shape, start) = (self.layers[layer], self.starts[layer]);
        let weight = self.scores.weight();
        let mut pool = shape.pool.and_then(|pool| self.pools.get_mut(pool));
        let mut on_card = 0;
        for expert in experts.iter().filter(|expert| (**expert as usize) < shape.experts) {
            let flat = start + expert;
            if self.rules.adaptive {
                self.scores.add(flat, weight);
            }
            self.totals.add(flat, 256);
            consider(&mut self.parts[flat as usize], flat, &mut pool);
            on_card += u64::from(self.map[flat as usize] != NOWHERE);
        }
        self.stats.chosen += experts.len() as u64;
        self.stats.on_card += on_card;
        self.passed = self.passed.max(1);
    }

    /// Takes in what the rows of a prompt chose: by expert, how many rows chose it. Says what the rows to come will be like,
    /// but not as surely as they do themselves, so that all rows together count as few.
    pub(crate) fn prompted(&mut self, layer: usize, counts: &[u32]) {
        let (shape, start) = (self.layers[layer], self.starts[layer]);
        let pairs: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let rows = (pairs / shape.used.max(1) as u64).max(1);
        let most = u64::from(self.rules.prompt_rows).min(rows);
        let mut pool = shape.pool.and_then(|pool| self.pools.get_mut(pool));
        for (flat, count) in (start..).zip(counts.iter().take(shape.experts)) {
            if *count == 0 {
                continue;
            }
            let choices = u64::from(*count) * 256 * most / rows;
            if self.rules.adaptive {
                self.scores.add(flat, self.scores.worth(choices));
            }
            self.totals.add(flat, choices);
            consider(&mut self.parts[flat as usize], flat, &mut pool);
        }
        self.passed = self.passed.max(most as u32);
    }

    /// After step `step`: copies to start now, at most as many as the rules say.
    pub(crate) fn plan(&mut self, step: u64) -> Vec<Move> {
        self.plan_at_most(step, self.rules.moves)
    }

    /// As [`plan`](Self::plan), for times at which more or fewer copies cost nothing.
    pub(crate) fn plan_at_most(&mut self, step: u64, most: usize) -> Vec<Move> {
        if !self.rules.adaptive {
            return Vec::new();
        }
        let moves = self.choose(step, most);
        if self.passed > 0 && self.scores.pass(self.passed) {
            self.pools.iter_mut().for_each(|pool| pool.rebase(&self.scores));
        }
        self.passed = 0;
        self.totals.age();
        moves
    }

    fn choose(&mut self, step: u64, most: usize) -> Vec<Move> {
        let margin = self.scores.worth(u64::from(self.rules.margin)).max(1);
        for pool in &mut self.pools {
            let room = pool.room().min(most);
            if room > 0 {
                let parts = &mut self.parts;
                pool.sift(&self.scores, margin, room, |flat| parts[flat as usize] = Part::Idle);
            }
        }
        let mut moves = Vec::new();
        while moves.len() < most {
            let mut best: Option<(u64, usize)> = None;
            for (index, pool) in self.pools.iter_mut().enumerate() {
                if pool.room() == 0 {
                    continue;
                }
                let gain = pool.gain(&self.scores, margin);
                if let Some(gain) = gain.filter(|gain| best.is_none_or(|(best, _)| *gain > best)) {
                    best = Some((gain, index));
                }
            }
            let Some(started) = best.and_then(|(_, index)| self.start_move(index, step)) else { break };
            moves.push(started);
        }
        moves
    }

    fn start_move(&mut self, pool: usize, step: u64) -> Option<Move> {
        let (comes, goes, slot) = self.pools[pool].start()?;
        self.parts[comes as usize] = Part::Seated;
        let started = Move {
            expert: self.expert(comes),
            slot,
            evicts: (self.expert(goes), self.map[goes as usize]),
            lands: step.saturating_add(self.rules.delay.max(1)),
        };
        self.moving.push_back(started);
        self.stats.moves += 1;
        self.stats.moved_bytes += self.pools[pool].shape.expert_bytes;
        Some(started)
    }

    /// Before step `step`: the moves that land, and with them the changes of the map.
    pub(crate) fn land(&mut self, step: u64) -> Vec<Move> {
        let mut landed = Vec::new();
        while let Some(next) = self.moving.front().copied().filter(|next| next.lands <= step) {
            self.moving.pop_front();
            let (comes, goes) = (self.flat(next.expert), self.flat(next.evicts.0));
            self.map[comes as usize] = next.slot;
            self.map[goes as usize] = NOWHERE;
            self.parts[goes as usize] = Part::Idle;
            if let Some(pool) = self.layers[next.expert.layer as usize].pool {
                self.pools[pool].finish(comes, self.scores.get(comes), next.evicts.1);
            }
            landed.push(next);
        }
        landed
    }

    /// What this was good for.
    pub(crate) fn stats(&self) -> Stats {
        self.stats
    }

    /// What to begin with the next time.
    pub(crate) fn heat(&self) -> Heat {
        self.totals.heat(&self.starts)
    }

    fn expert(&self, flat: u32) -> Expert {
        let layer = self.starts.partition_point(|start| *start <= flat) - 1;
        Expert { layer: layer as u32, expert: flat - self.starts[layer] }
    }

    fn flat(&self, expert: Expert) -> u32 {
        self.starts[expert.layer as usize] + expert.expert
    }
}

/// Makes a candidate of an expert that was chosen and could have a slot.
#[inline]
fn consider(part: &mut Part, flat: u32, pool: &mut Option<&mut Pool>) {
    if let (Part::Idle, Some(pool)) = (*part, pool) {
        *part = Part::Candidate;
        pool.want(flat);
    }
}
