//! Which tokens, taken in order, first make up a probability mass: a selection, not a sort.

use std::cmp::Ordering;

/// A token with its place in the order and its probability.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weighted {
    /// Taken in ascending order.
    pub(super) cost: f32,
    pub(super) id: u32,
    pub(super) p: f32,
}

/// Lower cost first, then lower id.
pub(super) fn order(a: &Weighted, b: &Weighted) -> Ordering {
    a.cost.total_cmp(&b.cost).then(a.id.cmp(&b.id))
}

/// Above this many items a pass over buckets comes first: at 151,936 items it takes the selection from
/// 10 ms to 2.
const BUCKETED: usize = 4096;

/// 8192 buckets in ascending order of cost, which is not negative: a float's upper bits.
fn bucket(w: &Weighted) -> usize {
    (w.cost.to_bits() >> 18) as usize
}

/// The last token to take so that `enough` accepts mass and number of those taken; None if all of them
/// are not enough. `enough` must hold from some point of the order on. Linear time; `items` are shuffled.
pub(super) fn last_needed(items: &mut [Weighted], enough: impl Fn(f64, usize) -> bool) -> Option<Weighted> {
    let (mut mass, mut count, mut reached) = (0f64, 0, false);
    let mut rest = items;
    if rest.len() > BUCKETED {
        let mut buckets = vec![(0f64, 0usize); 1 << 13];
        for w in rest.iter() {
            let b = &mut buckets[bucket(w)];
            b.0 += f64::from(w.p);
            b.1 += 1;
        }
        let last = buckets.iter().position(|b| {
            reached = enough(mass + b.0, count + b.1);
            if !reached {
                mass += b.0;
                count += b.1;
            }
            reached
        })?;
        let mut members = 0;
        for i in 0..rest.len() {
            if bucket(&rest[i]) == last {
                rest.swap(members, i);
                members += 1;
            }
        }
        rest = &mut rest[..members];
    }
    while rest.len() > 64 {
        let half = rest.len() / 2;
        rest.select_nth_unstable_by(half, order);
        let (head, tail) = rest.split_at_mut(half);
        let head_mass: f64 = head.iter().map(|w| f64::from(w.p)).sum();
        if enough(mass + head_mass, count + half) {
            reached = true;
            rest = head;
        } else {
            mass += head_mass;
            count += half;
            rest = tail;
        }
    }
    rest.sort_unstable_by(order);
    let found = rest.iter().copied().find(|w| {
        mass += f64::from(w.p);
        count += 1;
        enough(mass, count)
    });
    // the sum of a part that was enough may come out a rounding smaller token by token
    found.or_else(|| rest.last().copied().filter(|_| reached))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_sort_and_a_walk(
            some in prop::collection::vec((0u8..40, 1u8..20), 0..700), times in prop::sample::select(vec![1, 1, 1, 12]),
            part in 0f64..1.1, least in 0usize..800,
        ) {
            let raw = some.repeat(times);
            let mut items: Vec<Weighted> = raw.iter().zip(0..)
                // eighths add up exactly, whatever the order
                .map(|(r, id)| Weighted { cost: r.0.into(), id, p: f32::from(r.1) / 8.0 })
                .collect();
            let total: f64 = items.iter().map(|w| f64::from(w.p)).sum();
            let enough = |mass: f64, count: usize| mass >= part * total && count >= least;
            let mut sorted = items.clone();
            sorted.sort_by(order);
            let mut mass = 0.0;
            let expected = sorted.iter().enumerate().find(|(i, w)| {
                mass += f64::from(w.p);
                enough(mass, i + 1)
            });
            prop_assert_eq!(last_needed(&mut items, enough).map(|w| w.id), expected.map(|e| e.1.id));
        }
    }
}
