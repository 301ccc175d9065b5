//! Rows of a table of n-grams.

use super::Batch;
use crate::def::Ngrams;

impl Ngrams {
    /// The rows of all heads for every row of a step.
    pub(super) fn rows(&self, batch: &Batch<'_>) -> Vec<u32> {
        let mut ids = Vec::with_capacity(batch.tokens.len() * self.heads.len());
        let mut first = 0;
        for same in batch.sequences.chunk_by(|a, b| a == b) {
            let past = batch.before.get(same[0]).copied().unwrap_or(&[]);
            let tokens = &batch.tokens[first..first + same.len()];
            (0..tokens.len()).for_each(|at| self.rows_of(past, &tokens[..=at], &mut ids));
            first += same.len();
        }
        ids
    }

    /// The rows for what follows a step.
    pub(super) fn following(&self, batch: &Batch<'_>) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut first = 0;
        for same in batch.sequences.chunk_by(|a, b| a == b) {
            let before = batch.before.get(same[0]).copied().unwrap_or(&[]);
            let next = batch.following.get(same[0]).copied().unwrap_or(&[]);
            // Of what is before an n-gram's last token, no more than the longest has.
            let most = self.multipliers.len().min(before.len());
            let past = [&before[before.len() - most..], &batch.tokens[first..first + same.len()]].concat();
            (0..next.len()).for_each(|at| self.rows_of(&past, &next[..=at], &mut ids));
            first += same.len();
        }
        ids
    }

    /// Appends the rows of all heads for the last of `tokens`, before which `past` is.
    fn rows_of(&self, past: &[u32], tokens: &[u32], ids: &mut Vec<u32>) {
        let each = self.heads.len() / (self.multipliers.len() - 1).max(1);
        let folded = |&token: &u32| match &self.folded {
            Some(map) => map.get(token as usize).copied().unwrap_or(token),
            None => token,
        };
        let mut newest = tokens.iter().rev().chain(past.iter().rev()).map(folded);
        let mut hash = u64::from(newest.next().unwrap_or(self.boundary)).wrapping_mul(self.multipliers[0]);
        let mut is_cut = false;
        for (multiplier, heads) in self.multipliers[1..].iter().zip(self.heads.chunks(each.max(1))) {
            let token = newest.next().filter(|_| !is_cut).unwrap_or(self.boundary);
            // Behind a boundary there is nothing.
            is_cut |= self.cuts && token == self.boundary;
            hash ^= u64::from(token).wrapping_mul(*multiplier);
            ids.extend(
                heads.iter().map(|&(first, size)| u32::try_from(hash % size + first).unwrap_or(u32::MAX)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::def::{NgramKind, Ngrams};

    /// Those of the published model, in order, of the last of some tokens.
    fn rows(tokens: &[u32]) -> Vec<u32> {
        let sizes =
            [3, 23, 33, 47, 59, 63, 69, 77, 81, 93, 107, 147, 153, 159, 161, 171].map(|n| 20_000_000 + n);
        let starts = sizes.iter().scan(0, |next, size| Some(std::mem::replace(next, *next + size)));
        let hash = Ngrams {
            layer: 1,
            width: 160,
            multipliers: vec![23_703_573_157_769, 20_109_073_645_365, 8_052_911_324_071],
            heads: starts.zip(sizes).collect(),
            boundary: 248_044,
            cuts: true,
            folded: None,
            kind: NgramKind::PerLayer { taps: 4 },
        };
        let mut ids = Vec::new();
        let (past, now) = tokens.split_at(tokens.len() - 1);
        hash.rows_of(past, now, &mut ids);
        let mut again = Vec::new();
        hash.rows_of(&[], tokens, &mut again);
        assert_eq!(ids, again, "wherever a step begins");
        ids
    }

    #[test]
    fn hashes_are_those_of_the_published_model() {
        let first = [16410909, 39682429, 55103279, 60931720, 87006904, 116506179, 131512017, 152932897];
        let rest = [169641436, 182022480, 209277433, 237891023, 256841529, 277007269, 290665954, 300984276];
        assert_eq!(rows(&[9707]), [first, rest].concat());
        let first = [18158303, 36390029, 45652312, 70783524, 98191154, 114024957, 127804916, 159566246];
        let rest = [175132467, 192583600, 217919476, 237199054, 259336807, 261799367, 289359313, 307699687];
        assert_eq!(rows(&[9707, 11]), [first, rest].concat());
        let first = [6380558, 26411572, 56460672, 78566983, 94693008, 106742196, 124822692, 148942556];
        let rest = [164226950, 190352573, 210933682, 238908951, 242182004, 265475238, 299910982, 312121804];
        assert_eq!(rows(&[9707, 11, 1879]), [first, rest].concat());
        let first = [14335253, 31790438, 54927662, 68258502, 92842377, 101977718, 126562683, 147655513];
        let rest = [179956454, 199940401, 205271818, 232253011, 243356986, 275519406, 299808830, 303018794];
        assert_eq!(rows(&[5, 6, 248_044]), [first, rest].concat());
        // A boundary hides what is behind it.
        assert_eq!(rows(&[1, 2, 248_044, 7]), rows(&[9, 248_044, 7]));
        assert_eq!(rows(&[248_044, 7]), rows(&[7]));
    }

    /// Those of DeepSeek-V4.1's first table, of folded tokens, oldest first.
    fn engrams(tokens: &[u32]) -> Vec<u32> {
        let ends = [
            57, 79, 81, 97, 121, 129, 133, 183, 189, 207, 211, 253, 277, 289, 307, 321, 339, 381, 393, 399,
            403, 409, 447, 463,
        ];
        let sizes = ends.map(|end| 16_000_000 + end);
        let starts = sizes.iter().scan(0, |next, size| Some(std::mem::replace(next, *next + size)));
        let hash = Ngrams {
            layer: 1,
            width: 256,
            multipliers: vec![76_632_096_046_245, 4_839_876_093_313, 35_959_672_319_349, 73_987_337_458_391],
            heads: starts.zip(sizes).collect(),
            boundary: 2,
            cuts: false,
            folded: Some((0..50).collect()),
            kind: NgramKind::Engram,
        };
        let mut ids = Vec::new();
        hash.rows_of(&[], tokens, &mut ids);
        ids
    }

    #[test]
    fn engrams_are_those_of_the_published_model() {
        let expected = [
            10_250_667,
            16_051_853,
            42_761_335,
            48_437_066,
            64_953_759,
            91_793_642,
            97_213_675,
            124_972_355,
            130_904_169,
            147_647_512,
            174_479_789,
            176_217_609,
            193_213_014,
            209_711_443,
            226_459_680,
            248_375_762,
            266_647_502,
            284_737_834,
            292_200_621,
            319_934_002,
            327_756_510,
            339_491_046,
            365_830_131,
            381_142_068,
        ];
        assert_eq!(engrams(&[40, 30, 20, 10]), expected);
        let expected =
            [5_412_672, 18_319_159, 35_492_627, 60_880_252, 74_962_984, 95_657_733, 98_005_115, 127_351_390];
        assert_eq!(engrams(&[5])[..8], expected);
        // What is before the first token may be a token too, and hides nothing then.
        assert_ne!(engrams(&[7, 2, 5]), engrams(&[9, 2, 5]));
        assert_eq!(engrams(&[2, 2, 2, 5]), engrams(&[5]));
    }
}
