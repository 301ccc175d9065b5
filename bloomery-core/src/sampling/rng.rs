//! xoshiro256++ (Blackman and Vigna), seeded through SplitMix64.

use super::Seed;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The generator; a clone continues with the same numbers.
#[derive(Debug, Clone)]
pub(super) struct Rng {
    state: [u64; 4],
}

impl Rng {
    pub(super) fn new(seed: u32) -> Self {
        let mut x = u64::from(seed);
        let state = [(); 4].map(|()| {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        });
        Self { state }
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (-53f64).exp2()
    }
}

impl Seed {
    /// The seed itself, or one from the random keys of the standard library's hash maps.
    pub(super) fn resolve(self) -> u32 {
        match self {
            Self::Fixed(seed) => seed,
            // u32::MAX is the wire's word for "random": a seed that is reported must not be that
            Self::Random => (RandomState::new().build_hasher().finish() >> 32) as u32 & 0x7FFF_FFFF,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers() {
        // the published sequence of state 1, 2, 3, 4
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first = [
            41943041,
            58720359,
            3588806011781223,
            3591011842654386,
            9228616714210784205,
            9973669472204895162,
            14011001112246962877,
            12406186145184390807,
            15849039046786891736,
            10450023813501588000,
        ];
        assert_eq!(first.map(|_| rng.next()), first);
        // SplitMix64 from 0
        assert_eq!(Rng::new(0).state[0], 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn random_seeds_differ() {
        let seeds: std::collections::HashSet<u32> = (0..16).map(|_| Seed::Random.resolve()).collect();
        assert!(seeds.len() > 8);
        assert!(!seeds.contains(&u32::MAX));
    }
}
