//! Which states of a sequence are worth keeping.

use super::PAGE;

/// Distances from the end of a prompt: an edit of the last question, of the one before, and so on.
const NEAREST: usize = 128;

/// While a text is generated nobody knows where it ends.
const EVERY: usize = 256;

/// Whether the state after `len` positions of a sequence that will first have `goal` is worth keeping.
///
/// Of a prompt it is the last page boundary, and those about 128, 256, 512 ... tokens before its end, so that an edit at some
/// distance of the end costs about that distance again.
pub(crate) fn is_wanted(len: usize, goal: usize) -> bool {
    if len == 0 || !len.is_multiple_of(PAGE) {
        return false;
    }
    if len >= goal {
        return len.is_multiple_of(EVERY);
    }
    let boundary = |distance: usize| goal.checked_sub(distance).map(|at| at / PAGE * PAGE);
    let distances = std::iter::successors(Some(NEAREST), |distance| distance.checked_mul(2));
    let mut boundaries = std::iter::once(boundary(1)).chain(distances.map(boundary)).map_while(|at| at);
    boundaries.any(|at| at == len)
}

/// Of ascending positions in a sequence of `len`, one that may go: without it an edit costs no more than a sequence twice as
/// long as what follows the edit. So about the logarithm of `len` stay.
pub(crate) fn surplus(positions: &[usize], len: usize) -> Option<usize> {
    positions.windows(3).position(|near| near[2] - near[0] <= len.saturating_sub(near[2])).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(goal: usize) -> Vec<usize> {
        (1..goal).filter(|&len| is_wanted(len, goal)).collect()
    }

    #[test]
    fn distances_grow_from_the_end() {
        assert_eq!(wanted(4000), [1920, 2944, 3456, 3712, 3840, 3968]);
        assert_eq!(wanted(4096), [2048, 3072, 3584, 3840, 3968, 4032]);
        assert!(wanted(64).is_empty());
        assert_eq!(wanted(65), [64]);
        assert_eq!(wanted(300), [128, 256]);
        // The end itself is the turn's own business, but for texts that go on and on.
        assert!(is_wanted(512, 512) && !is_wanted(320, 320));
    }

    #[test]
    fn a_long_text_keeps_about_its_logarithm() {
        let mut kept: Vec<usize> = Vec::new();
        for len in 1..=100_000 {
            if is_wanted(len, len) {
                kept.push(len);
                while let Some(at) = surplus(&kept, len) {
                    kept.remove(at);
                }
                assert!(kept.len() <= 24, "{len}: {kept:?}");
                // An edit costs at most as much again as what follows it, and the grid.
                for pair in kept.windows(2) {
                    assert!(pair[1] - pair[0] <= (len - pair[1]).max(EVERY), "{len}: {kept:?}");
                }
            }
        }
    }
}
