//! What residency takes of a step.

use std::time::{Duration, Instant};

use super::simulate::shape;
use super::trace::Skew;
use crate::residency::{Residency, Rules};

#[test]
fn a_step_of_48_layers_takes_microseconds() {
    let skew = Skew {
        name: "",
        layers: 48,
        experts: 128,
        used: 8,
        rows: 2000,
        zipf: 100,
        again: 45,
        topic: 300,
        reshuffled: 50,
    };
    let trace = skew.trace(1);
    let rows: Vec<Vec<&[u32]>> = trace.rows().map(Iterator::collect).collect();
    for share in [5, 15, 50] {
        let slots = trace.layers * trace.experts * share / 100;
        let mut residency = Residency::new(shape(&trace, slots, 64), Rules::default(), None);
        let mut times = Vec::new();
        for (step, row) in (0..).zip(&rows) {
            let start = Instant::now();
            residency.land(step);
            row.iter().enumerate().for_each(|(layer, chosen)| residency.decoded(layer, chosen));
            residency.plan(step);
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let (median, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("{share} % of 6144 experts: {median:?} a step, 99 % below {most:?}");
        // Ten times what it takes on one Xeon core, for machines that do something else too.
        assert!(median < Duration::from_micros(200), "{median:?}");
    }
}
