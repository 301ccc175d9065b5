//! Numbers that look random and are the same every time.

/// The high bits of a multiplicative hash of `0..count`.
fn scrambled(count: usize) -> impl Iterator<Item = u32> {
    (0..count as u32).map(|i| (i ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b1) >> 8)
}

/// `count` token ids below `vocab`.
#[must_use]
pub fn ids(count: usize, vocab: usize) -> Vec<u32> {
    scrambled(count).map(|number| number % vocab as u32).collect()
}

/// `count` values between -1 and 1.
#[must_use]
pub fn values(count: usize) -> Vec<f32> {
    scrambled(count).map(|number| number as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// `count` logits with the shape of a model's: most in a bell around 0, of width 2.5, and the rest in a tail of which a
/// few stand out. The best token has a probability of about a half.
#[must_use]
pub fn logits(count: usize) -> Vec<f32> {
    let mut logits: Vec<f32> =
        values(4 * count).chunks_exact(4).map(|four| four.iter().sum::<f32>() * 2.2).collect();
    let places = ids(40, count);
    for (rank, place) in places.into_iter().enumerate() {
        logits[place as usize] = 20.0 - 0.9 * rank as f32;
    }
    logits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_fill_their_ranges() {
        let ids = ids(10_000, 100);
        assert!((0..100).all(|id| ids.contains(&id)));
        let values = values(10_000);
        assert!(values.iter().all(|value| (-1.0..=1.0).contains(value)));
        assert!(values.iter().sum::<f32>().abs() < 200.0, "no lean to one side");
    }

    #[test]
    fn some_logits_stand_out() {
        let logits = logits(150_000);
        let sum: f32 = logits.iter().map(|logit| (logit - 20.0).exp()).sum();
        assert!((1.5..2.5).contains(&sum), "the best token has a probability of {}", 1.0 / sum);
        assert!(logits.iter().filter(|logit| **logit > 10.0).count() < 20);
    }
}
