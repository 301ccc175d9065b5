//! Inputs of the benchmarks. The table that compares with llama.cpp is `bench`, among the examples.
#![forbid(unsafe_code)]

use bloomery_core::{Context, Engine, Error, ModelSource};

/// The demo model with room for `tokens` positions.
pub fn demo(tokens: usize) -> Result<Engine, Error> {
    Ok(Engine::builder(ModelSource::demo()).context(Context::Tokens(tokens)).plan()?.load(|_| {})?)
}

/// `count` numbers that look random and are the same every time: the high bits of a multiplicative hash of `0..count`.
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
}
