//! Prices on made-up machines: what a text gains where guesses are right, and what it loses where they are not.

use crate::draft::drafter::{Drafter, Step};
use crate::draft::source::{Proposal, Source};
use crate::draft::{MOST_ROWS, MOST_TOKENS, Price};

/// Numbers that look random.
struct Noise(u64);

impl Noise {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Guesses the same token over and over; the test says what the next token is.
#[derive(Debug)]
struct Constant;

impl Source for Constant {
    fn push(&mut self, _: u32) {}

    fn propose(&mut self, most: usize, out: &mut Proposal) {
        (0..most).for_each(|_| out.push(1, 0));
    }

    fn priors(&self) -> &'static [f64] {
        &[0.5]
    }
}

/// Seconds of a step by rows.
type Machine = fn(usize) -> f64;

/// A card with room to spare, one that changes kernels at two rows, a card whose experts are in host memory, a small CPU.
const MACHINES: [(&str, Machine); 5] = [
    ("flat", |rows| 1.0 + 0.01 * (rows - 1) as f64),
    ("a step at two rows", |rows| if rows == 1 { 1.0 } else { 1.5 + 0.02 * rows as f64 }),
    ("experts", |rows| 0.3 + 0.7 * 16.0 * (1.0 - (1.0 - 1.0 / 16.0f64).powi(rows as i32))),
    ("compute", |rows| rows as f64),
    ("steep", |rows| 1.0 + 3.0 * (rows - 1) as f64),
];

/// Steps of `streams` texts; a guess of text `i` is right with chance `right(i)`. Returns tokens per second relative to steps
/// without guesses.
fn gain(machine: Machine, streams: usize, warming: u32, right: impl Fn(usize) -> f64) -> f64 {
    let (mut price, mut noise) = (Price::new(warming), Noise(7));
    let mut drafters: Vec<Drafter> =
        (0..streams).map(|_| Drafter::with_source(Box::new(Constant), MOST_TOKENS, true)).collect();
    let mut seen = [0u32; MOST_ROWS + 1];
    let (mut tokens, mut seconds, mut plain) = (0.0, 0.0, 0.0);
    while tokens < 5000.0 * streams as f64 {
        drafters.iter_mut().for_each(|drafter| drafter.propose(MOST_TOKENS));
        let offers: Vec<_> = drafters.iter().map(Drafter::offer).collect();
        let lengths = price.lengths(streams, &offers, 512);
        let guessed: usize = lengths.iter().sum();
        let rows = streams + guessed;
        // One step in ten is disturbed; on a card the first of a shape load and capture.
        let slow = if noise.next() < 0.1 { 1.0 + 2.0 * noise.next() } else { 1.0 + 0.1 * noise.next() };
        let loading = if seen[rows] < warming { 5.0 } else { 1.0 };
        seen[rows] += 1;
        let took = machine(rows) * slow * loading;
        let mut checked = Vec::new();
        for (who, (drafter, &length)) in drafters.iter_mut().zip(&lengths).enumerate() {
            let mut good = 0;
            loop {
                let hit = noise.next() < right(who);
                drafter.push(u32::from(hit));
                tokens += 1.0;
                if !hit || good == length {
                    break;
                }
                good += 1;
            }
            // What the tokens would have taken one by one, disturbed alike.
            plain += (1 + good) as f64 * machine(streams) * slow / streams as f64;
            checked.push((length, good));
        }
        seconds += took;
        price.measured(rows, took);
        for (drafter, checked) in drafters.iter_mut().zip(checked) {
            drafter.settle(&price, Step { streams, guessed, seconds: took, drafting: 0.0 }, checked);
        }
    }
    plain / seconds
}

/// The same for the best fixed length.
fn best(machine: Machine, right: f64) -> f64 {
    let of = |length: usize| {
        let expected: f64 = (0..=length).map(|i| right.powi(i as i32)).sum();
        expected / machine(1 + length) * machine(1)
    };
    (0..=MOST_TOKENS).map(of).fold(0.0, f64::max)
}

#[test]
fn guesses_that_are_wrong_cost_next_to_nothing() {
    for (name, machine) in MACHINES {
        for streams in [1, 4] {
            for warming in [0, 2] {
                for right in [0.0, 0.02, 0.1, 0.2] {
                    let gain = gain(machine, streams, warming, |_| right);
                    assert!(gain > 0.97, "{name}, {streams} streams, {right} right: {gain:.3}");
                }
            }
        }
    }
}

#[test]
fn guesses_that_are_right_are_used_as_far_as_they_pay() {
    for (name, machine) in MACHINES {
        for right in [0.4, 0.6, 0.8, 0.95] {
            let (gain, best) = (gain(machine, 1, 0, |_| right), best(machine, right));
            println!("{name}, {right} right: {gain:.2} of {best:.2}");
            assert!(gain > 0.88 * best, "{name}, {right} right: {gain:.2} of {best:.2}");
        }
    }
}

#[test]
fn one_stream_does_not_hold_up_the_others() {
    for (name, machine) in MACHINES {
        let gain = gain(machine, 4, 0, |who| if who == 0 { 0.95 } else { 0.0 });
        println!("{name}: {gain:.2}");
        assert!(gain > 0.97, "{name}: {gain:.2}");
    }
}
