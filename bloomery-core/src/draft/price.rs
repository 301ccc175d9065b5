//! What steps take, and how many guesses are worth checking.

use super::MOST_ROWS;

/// Measurements of a number of rows that are kept. The lower quarter counts: what disturbs a step makes it longer.
const KEPT: usize = 7;

/// Steps after which a measurement of a step without guesses is too old to compare with: contexts grow.
const PLAIN_STALE: u64 = 128;

/// Measurements of steps without guesses before anything is compared with them.
const PLAIN_LEAST: usize = 3;

/// Steps after which one measurement of a number of rows is not believed any more, and what was too dear may be tried again. Of
/// `n` it is `n * n` times as many: one may have been disturbed.
const STALE: u64 = 64;

/// What a row more is thought to add to a step, as a share of what a row of it takes, until it was measured. It is an optimist's
/// share, for what is never tried is never known.
const ROW_SHARE: f64 = 0.25;

/// What a pass of the block is thought to take, as a share of a step, until it was measured.
const PASS_SHARE: f64 = 0.1;

/// The least that guesses have to promise, as a factor of tokens per second: less than that is noise.
const WORTH: f64 = 1.02;

/// Most that a step may take longer for guesses of some of its streams, as a factor, when others have none.
const PATIENCE: f64 = 1.5;

/// Seconds of steps by their number of rows.
#[derive(Debug)]
pub(crate) struct Price {
    /// By rows.
    times: Vec<Times>,
    /// Steps measured.
    clock: u64,
    /// First measurements of every number of rows that say nothing.
    warming: u32,
    /// A pass of the block.
    pass: Times,
}

#[derive(Debug, Clone, Default)]
struct Times {
    /// Newest last.
    seconds: Vec<f64>,
    usual: f64,
    last: u64,
    /// Measurements so far that were left out.
    left_out: u32,
}

impl Times {
    fn measured(&mut self, seconds: f64, clock: u64, warming: u32) {
        if self.left_out < warming {
            self.left_out += 1;
            return;
        }
        self.last = clock;
        if self.seconds.len() == KEPT {
            self.seconds.remove(0);
        }
        self.seconds.push(seconds);
        let mut sorted = self.seconds.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        self.usual = sorted[(sorted.len() - 1) / 4];
    }
}

/// What one stream of a step could have checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer<'a> {
    /// How likely the first `i + 1` guesses are all right. Descends.
    pub(crate) chances: &'a [f64],
    /// Fewer guesses are not checked.
    pub(crate) least: usize,
    /// Whether prices decide; else all are checked as far as there is room.
    pub(crate) priced: bool,
    /// Whether the block has to make them, a pass for each.
    pub(crate) by_block: bool,
}

impl Offer<'_> {
    /// Nothing to check.
    pub(crate) const NONE: Self = Self { chances: &[], least: 0, priced: true, by_block: false };
}

impl Price {
    /// Leaves out the first `warming` measurements of every number of rows: a card still loads kernels then.
    pub(crate) fn new(warming: u32) -> Self {
        Self { times: vec![Times::default(); MOST_ROWS + 1], clock: 0, warming, pass: Times::default() }
    }

    /// Takes in what a step of so many rows took, all of which were read.
    pub(crate) fn measured(&mut self, rows: usize, seconds: f64) {
        self.clock += 1;
        let (clock, warming) = (self.clock, self.warming);
        let Some(times) = self.times.get_mut(rows).filter(|_| rows > 0) else { return };
        times.measured(seconds, clock, warming);
    }

    /// Takes in what so many passes of the block took.
    pub(crate) fn passed(&mut self, passes: usize, seconds: f64) {
        if passes > 0 {
            self.pass.measured(seconds / passes as f64, self.clock, self.warming);
        }
    }

    /// What a step without guesses takes, if that was measured lately.
    pub(crate) fn plain(&self, streams: usize) -> Option<f64> {
        let times = self.times.get(streams).filter(|times| times.seconds.len() >= PLAIN_LEAST)?;
        (self.clock - times.last < PLAIN_STALE).then_some(times.usual)
    }

    /// What a step of so many rows takes, as far as it was measured lately.
    pub(crate) fn known(&self, rows: usize) -> Option<f64> {
        let times = self.times.get(rows).filter(|times| !times.seconds.is_empty())?;
        (self.clock - times.last <= STALE * (times.seconds.len() as u64).pow(2)).then_some(times.usual)
    }

    /// What a step of more rows than `plain` may take: measured, between two that were, or guessed.
    fn of(&self, rows: usize, (plain_rows, plain): (usize, f64)) -> f64 {
        let time = self.known(rows).unwrap_or_else(|| {
            let below = (plain_rows..rows).rev().find_map(|rows| Some((rows, self.known(rows)?)));
            let (low, low_time) = below.unwrap_or((plain_rows, plain));
            let above = (rows + 1..=MOST_ROWS).find_map(|rows| Some((rows, self.known(rows)?)));
            let slope = ROW_SHARE * plain / plain_rows as f64;
            let slope = match above {
                Some((high, high_time)) => (high_time - low_time) / (high - low) as f64,
                // Prices can have steps, so the dearest stretch is not taken to go on.
                None if low > plain_rows => slope.min((low_time - plain) / (low - plain_rows) as f64),
                None => slope,
            };
            low_time + slope.max(0.0) * (rows - low) as f64
        });
        time.max(plain)
    }

    /// The largest number of rows to try: twice as many as are known, so that what is learned is paid in small pieces.
    fn horizon(&self, streams: usize) -> usize {
        2 * (streams..=MOST_ROWS).rev().find(|&rows| self.known(rows).is_some()).unwrap_or(streams)
    }

    /// How many guesses of each of `offers` to check in a step of `streams`, with at most `room` rows for guesses: those that
    /// promise the most tokens per second.
    pub(crate) fn lengths(&self, streams: usize, offers: &[Offer<'_>], room: usize) -> Vec<usize> {
        let room = room.min(MOST_ROWS.saturating_sub(streams));
        let mut lengths = vec![0; offers.len()];
        let mut left = room;
        for (length, offer) in lengths.iter_mut().zip(offers).filter(|(_, offer)| !offer.priced) {
            *length = offer.chances.len().min(left);
            left -= *length;
        }
        if let Some(plain) = self.plain(streams) {
            self.choose((streams, plain), offers, &mut lengths, left);
        }
        for (length, offer) in lengths.iter_mut().zip(offers) {
            *length = if *length < offer.least { 0 } else { *length };
        }
        lengths
    }

    fn choose(&self, base: (usize, f64), offers: &[Offer<'_>], lengths: &mut [usize], room: usize) {
        let (streams, plain) = base;
        let mut rows: Vec<(f64, usize)> = Vec::new();
        for (who, offer) in offers.iter().enumerate().filter(|(_, offer)| offer.priced) {
            rows.extend(offer.chances.iter().map(|&chance| (chance, who)));
        }
        // Chances of a stream descend, so its rows stay in order, and the best set of rows is a beginning.
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        rows.truncate(room.min(self.horizon(streams).saturating_sub(streams)));
        let mut guessing = vec![false; offers.len()];
        // A pass guesses a token for each stream that wants one.
        let pass = if self.pass.seconds.is_empty() { PASS_SHARE * plain } else { self.pass.usual };
        let (mut wanted, mut passes) = (vec![0_usize; offers.len()], 0);
        let (mut expected, mut best, mut rate) = (streams as f64, 0, WORTH * streams as f64 / plain);
        for (index, &(chance, who)) in rows.iter().enumerate() {
            expected += chance;
            guessing[who] = true;
            wanted[who] += usize::from(offers[who].by_block);
            passes = passes.max(wanted[who]);
            let time = self.of(streams + index + 1, base) + passes as f64 * pass;
            let all = guessing.iter().filter(|&&guessing| guessing).count() == streams;
            if expected / time > rate && (all || time <= PATIENCE * plain) {
                (best, rate) = (index + 1, expected / time);
            }
        }
        rows[..best].iter().for_each(|&(_, who)| lengths[who] += 1);
    }
}
