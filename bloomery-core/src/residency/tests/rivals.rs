//! What residency is compared with. Hits in percent of the choices of a whole trace.

use std::collections::{BTreeSet, VecDeque};

use super::trace::Trace;

/// A hundredth of a percent would be noise.
pub(super) fn percent(hits: usize, trace: &Trace) -> f64 {
    100.0 * hits as f64 / trace.choices.len() as f64
}

/// Every choice as a flat number.
pub(super) fn flats(trace: &Trace) -> impl Iterator<Item = usize> {
    trace.rows().flat_map(move |row| {
        row.enumerate().flat_map(move |(layer, chosen)| {
            chosen.iter().map(move |expert| layer * trace.experts + *expert as usize)
        })
    })
}

/// As many experts of each layer, those with the lowest numbers, for ever.
pub(super) fn even(trace: &Trace, slots: usize) -> f64 {
    let seated = |flat: usize| (flat % trace.experts) * trace.layers + flat / trace.experts < slots;
    percent(flats(trace).filter(|flat| seated(*flat)).count(), trace)
}

/// The experts that the trace will turn out to choose most, for ever.
pub(super) fn oracle(trace: &Trace, slots: usize) -> f64 {
    let mut counts = vec![0; trace.layers * trace.experts];
    flats(trace).for_each(|flat| counts[flat] += 1);
    counts.sort_unstable_by_key(|count| usize::MAX - count);
    percent(counts.iter().take(slots).sum(), trace)
}

/// Whatever is chosen comes in at once and for nothing, in the place of what was not used for longest.
pub(super) fn lru(trace: &Trace, slots: usize) -> f64 {
    let mut used = vec![0; trace.layers * trace.experts];
    let mut seated = BTreeSet::new();
    let mut hits = 0;
    for (now, flat) in (1..).zip(flats(trace)) {
        hits += usize::from(seated.remove(&(used[flat], flat)));
        used[flat] = now;
        seated.insert((now, flat));
        if seated.len() > slots {
            seated.pop_first();
        }
    }
    percent(hits, trace)
}

/// The same by the rules of real copies: after each row the `moves` last missed start, and are there `delay` rows later.
pub(super) fn late_lru(trace: &Trace, slots: usize, moves: usize, delay: usize) -> f64 {
    let count = trace.layers * trace.experts;
    let mut used = vec![0; count];
    // As many of each layer at first, as residency has them without heat.
    let mut seated: BTreeSet<(usize, usize)> = (0..count)
        .filter(|flat| (flat % trace.experts) * trace.layers + flat / trace.experts < slots)
        .map(|flat| (0, flat))
        .collect();
    let mut coming: VecDeque<Vec<usize>> = VecDeque::from(vec![Vec::new(); delay - 1]);
    let (mut hits, mut now) = (0, 0);
    for row in trace.rows() {
        let mut missed = Vec::new();
        for (layer, chosen) in row.enumerate() {
            for expert in chosen {
                let flat = layer * trace.experts + *expert as usize;
                now += 1;
                if seated.remove(&(used[flat], flat)) {
                    hits += 1;
                    seated.insert((now, flat));
                } else if !coming.iter().flatten().any(|other| *other == flat) {
                    missed.push(flat);
                }
                used[flat] = now;
            }
        }
        coming.push_back(missed.split_off(missed.len().saturating_sub(moves)));
        for flat in coming.pop_front().into_iter().flatten() {
            seated.pop_first();
            seated.insert((used[flat], flat));
        }
    }
    percent(hits, trace)
}
