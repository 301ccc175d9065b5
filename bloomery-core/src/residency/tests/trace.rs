//! What rows chose, layer by layer.

use std::collections::VecDeque;
use std::path::PathBuf;

/// Choices of rows, one after the other.
pub(super) struct Trace {
    pub(super) name: &'static str,
    pub(super) layers: usize,
    pub(super) experts: usize,
    pub(super) used: usize,
    /// `used` experts of each layer of each row.
    pub(super) choices: Vec<u32>,
}

impl Trace {
    /// What the demo model chose while it told sixteen stories. `tests/routes.rs` says how it was recorded.
    pub(super) fn stories() -> Self {
        let path: PathBuf =
            [env!("CARGO_MANIFEST_DIR"), "tests", "data", "traces", "stories.bin"].iter().collect();
        let bytes = std::fs::read(path).unwrap();
        let choices = bytes.iter().flat_map(|pair| [u32::from(pair & 15), u32::from(pair >> 4)]).collect();
        Self { name: "stories", layers: 4, experts: 16, used: 2, choices }
    }

    /// Percent of choices that one of the last `rows` rows made too.
    pub(super) fn again(&self, rows: usize) -> f64 {
        let width = self.layers * self.used;
        let all: Vec<&[u32]> = self.choices.chunks_exact(self.used).collect();
        let again = (self.layers..all.len()).flat_map(|at| all[at].iter().map(move |expert| (at, expert)));
        let again = again.filter(|(at, expert)| {
            (1..=rows)
                .filter_map(|age| at.checked_sub(age * self.layers))
                .any(|before| all[before].contains(expert))
        });
        100.0 * again.count() as f64 / (self.choices.len() - width) as f64
    }

    /// Row by row, the experts of layer after layer.
    pub(super) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = &[u32]>> {
        self.choices.chunks_exact(self.layers * self.used).map(|row| row.chunks_exact(self.used))
    }
}

/// A small generator that gives the same numbers everywhere.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// How a made up model chooses.
pub(super) struct Skew {
    pub(super) name: &'static str,
    pub(super) layers: usize,
    pub(super) experts: usize,
    pub(super) used: usize,
    pub(super) rows: usize,
    /// In hundredths: 100 is the harmonic distribution, 0 an even one.
    pub(super) zipf: i32,
    /// Percent of choices that are those of an earlier row: half of them of the row before, a quarter of the one before that.
    pub(super) again: usize,
    /// Rows after which the topic changes, and percent of the experts that get another rank then.
    pub(super) topic: usize,
    pub(super) reshuffled: usize,
}

impl Skew {
    pub(super) fn trace(&self, seed: u64) -> Trace {
        let mut random = Random::new(seed);
        let mut sums = Vec::with_capacity(self.experts);
        let mut sum = 0.0;
        for rank in 1..=self.experts {
            sum += f64::from(rank as u32).powf(f64::from(-self.zipf) / 100.0);
            sums.push(sum);
        }
        let mut ranks: Vec<Vec<u32>> = (0..self.layers).map(|_| (0..self.experts as u32).collect()).collect();
        ranks.iter_mut().for_each(|ranks| reshuffle(ranks, 100, &mut random));
        let mut last: Vec<VecDeque<Vec<u32>>> = vec![VecDeque::new(); self.layers];
        let mut choices = Vec::with_capacity(self.rows * self.layers * self.used);
        for row in 0..self.rows {
            if row > 0 && row % self.topic == 0 {
                ranks.iter_mut().for_each(|ranks| reshuffle(ranks, self.reshuffled, &mut random));
            }
            for (last, ranks) in last.iter_mut().zip(&ranks) {
                let mut chosen: Vec<u32> = Vec::with_capacity(self.used);
                while chosen.len() < self.used {
                    let expert = if !last.is_empty() && random.percent(self.again) {
                        let age = (random.next() >> 32).trailing_zeros() as usize;
                        last[age.min(last.len() - 1)][random.below(self.used)]
                    } else {
                        let at = random.below(1 << 30) as f64 / f64::from(1 << 30) * sum;
                        ranks[sums.partition_point(|sum| *sum <= at).min(self.experts - 1)]
                    };
                    if !chosen.contains(&expert) {
                        chosen.push(expert);
                    }
                }
                choices.extend(&chosen);
                last.push_front(chosen);
                last.truncate(8);
            }
        }
        Trace { name: self.name, layers: self.layers, experts: self.experts, used: self.used, choices }
    }
}

fn reshuffle(ranks: &mut [u32], percent: usize, random: &mut Random) {
    for rank in 0..ranks.len() {
        if random.percent(percent) {
            ranks.swap(rank, random.below(ranks.len()));
        }
    }
}
