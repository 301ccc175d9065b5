//! The k largest of a vocabulary.

use super::candidates::{Candidate, by_rank};

/// The k largest logits above -inf, unsorted, ties to the lower id. One pass: a block of logits is
/// looked at closely only if one of them beats the k-th best so far.
pub(super) fn select_top(logits: &[f32], k: usize, out: &mut Vec<Candidate>) {
    const BLOCK: usize = 64;
    out.clear();
    if k == 0 {
        return;
    }
    let room = k.saturating_mul(2).max(64);
    let mut floor = f32::NEG_INFINITY;
    for (block, start) in logits.chunks(BLOCK).zip((0u32..).step_by(BLOCK)) {
        // no early exit, so that it vectorises
        if !block.iter().fold(false, |any, &l| any | (l > floor)) {
            continue;
        }
        for (id, &logit) in (start..).zip(block) {
            if logit > floor {
                out.push(Candidate { id, logit, p: 0.0 });
                if out.len() == room {
                    out.select_nth_unstable_by(k - 1, by_rank);
                    floor = out[k - 1].logit;
                    out.truncate(k);
                }
            }
        }
    }
    if out.len() > k {
        out.select_nth_unstable_by(k - 1, by_rank);
        out.truncate(k);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_sort(some in prop::collection::vec(0u8..30, 0..400), times in 1usize..4, k in 0usize..500) {
            // 0 stands for -inf
            let logits: Vec<f32> = some
                .repeat(times)
                .into_iter()
                .map(|l| if l == 0 { f32::NEG_INFINITY } else { f32::from(l) - 15.0 })
                .collect();
            let mut out = Vec::new();
            select_top(&logits, k, &mut out);
            out.sort_by(by_rank);
            let mut all: Vec<Candidate> = (0..)
                .zip(&logits)
                .map(|(id, &logit)| Candidate { id, logit, p: 0.0 })
                .filter(|c| c.logit > f32::NEG_INFINITY)
                .collect();
            all.sort_by(by_rank);
            all.truncate(k);
            prop_assert_eq!(out, all);
        }
    }
}
