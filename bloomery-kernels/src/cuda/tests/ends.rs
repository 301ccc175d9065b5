//! Attention to the ends of groups, and sums of it, against double precision; what rows do not see is poison.

use super::super::testing::{Place, places};
use super::super::{Attend, AttendScratch, AttendTiles, Chosen, KvCache, Sight};
use super::paged::Sequences;
use crate::abi::attention::PAGE;
use crate::cpu::KvType;
use crate::cpu::testing::{Rng, bits};

const P: usize = PAGE as usize;

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: KvType,
    group: usize,
    dim: usize,
    /// Positions of a group; none: all positions of a window.
    every: Option<usize>,
    /// Chosen groups, or the window.
    keep: Option<usize>,
}

impl Case {
    /// What a row sees.
    fn seen(&self, rng: &mut Rng, position: usize) -> Vec<usize> {
        let Some(every) = self.every else {
            let low = (position + 1).saturating_sub(self.keep.unwrap_or(usize::MAX));
            return (low..=position).collect();
        };
        let mut ends: Vec<usize> = (1..=(position + 1) / every).map(|group| group * every - 1).collect();
        while self.keep.is_some_and(|keep| ends.len() > keep) {
            ends.remove(rng.below(ends.len()));
        }
        ends
    }

    fn sight(
        &self,
        place: &mut Place,
        sequences: &Sequences,
        rows: &[(usize, usize)],
        seen: &[Vec<usize>],
    ) -> Sight {
        match (self.every, self.keep) {
            (None, _) => Sight::All,
            (Some(every), None) => Sight::Ends(every),
            (Some(block), Some(keep)) => {
                let line = Chosen::line(keep, true);
                let mut places = vec![u32::MAX; rows.len() * line];
                for ((line, row), seen) in places.chunks_mut(line).zip(rows).zip(seen) {
                    for (place, p) in line.iter_mut().zip(seen) {
                        *place = sequences.table[row.0 * sequences.stride + p / P] * PAGE + (p % P) as u32;
                    }
                }
                Sight::Chosen(Chosen { places: place.buffer(&places).span(), keep, block, ends: true })
            }
        }
    }
}

/// Values and sums.
fn attend(
    place: &mut Place,
    case: &Case,
    sequences: &Sequences,
    (rows, seen): (&[(usize, usize)], &[Vec<usize>]),
    q: &[f32],
) -> [Vec<f32>; 2] {
    let (shape, heads) = (sequences.shape, case.group);
    let mut k = sequences.k.clone();
    for (s, len) in sequences.lens.iter().enumerate() {
        for p in 0..*len {
            // Of a window's first page everything may be read.
            let sees = |seen: &[usize]| match case.every {
                Some(_) => seen.contains(&p),
                None => seen.first().is_some_and(|first| (first / P * P..=seen[seen.len() - 1]).contains(&p)),
            };
            let is_seen = rows.iter().zip(seen).any(|(row, seen)| row.0 == s && sees(seen));
            if !is_seen {
                k[s][p * case.dim..][..case.dim].fill(f32::NAN);
            }
        }
    }
    // Of ends, even the values' own pages are not read.
    let mut v = k.clone();
    if case.every.is_some() && case.kind != KvType::F32 {
        v.iter_mut().for_each(|v| v.fill(f32::NAN));
    }
    let poisoned = sequences.with(k, v);
    let (cache, _pages) = poisoned.buffers(place, rows);
    let few = rows.len().min(Attend::FEW);
    let partials = place.poison::<f32>(AttendScratch::floats(&shape, heads, few));
    let tickets = place.buffer(&vec![0_u32; AttendScratch::tickets(&shape, heads, few)]);
    let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
    let of: Vec<u32> = rows.iter().map(|row| row.0 as u32).collect();
    let tiles = AttendTiles::new(place.info(), &shape, heads).unwrap().list(&positions, &of);
    let (out, sums) = (place.poison::<f32>(q.len()), place.poison::<f32>(rows.len() * heads));
    let op = Attend {
        q: place.buffer(q).span(),
        cache,
        out: out.span(),
        rows: rows.len(),
        heads,
        scale: (case.dim as f32).sqrt().recip(),
        window: if case.every.is_none() { case.keep } else { None },
        sight: case.sight(place, sequences, rows, seen),
        sums: Some(sums.span()),
        scratch: AttendScratch { partials: partials.span(), tickets: tickets.span() },
        tiles: Some(place.buffer(&tiles).span()),
    };
    op.launches(place.info()).unwrap().iter().for_each(|launch| place.run(launch));
    assert!(place.read(&tickets).iter().all(|ticket| *ticket == 0), "tickets are left");
    [place.read(&out), place.read(&sums)]
}

fn verify(place: &mut Place, case: &Case, lens: &[usize], rows: &[(usize, usize)]) {
    let Case { kind, group, dim, .. } = *case;
    let shape = KvCache::new(1, dim, dim, kind).unwrap();
    let mut rng = Rng::new((dim + group + rows.len()) as u64);
    let sequences = Sequences::new(&mut rng, shape, lens).shared();
    let q = rng.normals(rows.len() * group * dim);
    let seen: Vec<Vec<usize>> = rows.iter().map(|row| case.seen(&mut rng, row.1)).collect();
    let [out, sums] = attend(place, case, &sequences, (rows, &seen), &q);
    let scale = (dim as f32).sqrt().recip();
    for (i, row) in rows.iter().enumerate() {
        for head in 0..group {
            let at = i * group + head;
            let (part, to) = (at * dim..(at + 1) * dim, (row.0, &seen[i][..]));
            let what = format!("{case:?}, row {row:?}, head {head}");
            if seen[i].is_empty() {
                assert!(out[part].iter().all(|x| *x == 0.0), "{what}: not zeros");
                assert_eq!(sums[at], f32::NEG_INFINITY, "{what}");
                continue;
            }
            let sum = sequences.log_sum(&q[part.clone()], to, 0, scale);
            assert!(
                (f64::from(sums[at]) - sum).abs() < 2e-6 * sum.abs().max(1.0) + 2e-6,
                "{what}: {} {sum}",
                sums[at]
            );
            // Kernels for many rows, and the widest ones of bytes, have weights of 11 bits.
            let (exact, bound) =
                sequences.attention_to(&q[part.clone()], to, 0, scale, weight_bits(case, rows));
            for ((got, exact), bound) in out[part].iter().zip(exact).zip(bound) {
                let off = (f64::from(*got) - exact).abs();
                assert!(off <= bound, "{what}: {got} {exact} > {bound}");
            }
        }
    }
    if rows.len() <= Attend::FEW {
        let half = rows.len() / 2..rows.len() / 2 + 1;
        let each = half.start * group * dim..half.end * group * dim;
        let alone =
            attend(place, case, &sequences, (&rows[half.clone()], &seen[half.clone()]), &q[each.clone()]);
        assert_eq!(bits(&alone[0]), bits(&out[each]), "{case:?}, row {half:?} alone");
        assert_eq!(
            bits(&alone[1]),
            bits(&sums[half.start * group..half.end * group]),
            "{case:?}, sums alone"
        );
    }
}

fn weight_bits(case: &Case, rows: &[(usize, usize)]) -> i32 {
    let many = rows.len() > Attend::FEW && (case.every.is_none() || case.group >= 16);
    let only = case.kind == KvType::Q8_0 && case.every.is_some();
    if case.kind != KvType::F32 && (many || only) { 11 } else { 22 }
}

const CASES: [(KvType, usize, usize); 6] = [
    (KvType::F16, 4, 512),
    (KvType::Q8_0, 9, 512),
    (KvType::F16, 3, 128),
    (KvType::Q8_0, 2, 256),
    (KvType::F32, 2, 128),
    (KvType::F32, 1, 512),
];

#[test]
fn few_rows_see_ends() {
    let mut place = places().remove(0);
    let lens = [1, 9, 300, 131];
    let rows = [(0, 0), (1, 6), (1, 7), (1, 8), (2, 250), (2, 251), (2, 299), (3, 127), (3, 130)];
    for (i, (kind, group, dim)) in CASES.into_iter().enumerate() {
        for (every, keep) in [(1, Some(150)), (2, Some(12)), (4, Some(512)), (128, None), (4, None)] {
            // Small heads are quick.
            if dim < 512 || every % 3 == i % 2 + 1 {
                let case = Case { kind, group, dim, every: Some(every), keep };
                verify(&mut place, &case, &lens, &rows);
            }
        }
    }
}

#[test]
fn any_number_of_rows_see_ends() {
    let mut place = places().remove(0);
    for count in [1, 2, 7, 8, 31, 33] {
        let rows: Vec<(usize, usize)> = (0..count).map(|i| (0, i)).collect();
        let case = Case { kind: KvType::F16, group: 1, dim: 64, every: Some(2), keep: Some(5) };
        verify(&mut place, &case, &[40], &rows);
    }
    let rows: Vec<(usize, usize)> = (0..34).map(|i| (0, 100 + i)).chain([(1, 1)]).collect();
    for (kind, group, dim) in
        [(KvType::F16, 17, 512), (KvType::Q8_0, 3, 512), (KvType::F16, 2, 256), (KvType::F32, 1, 64)]
    {
        for (every, keep) in [(1, Some(130)), (128, None)] {
            verify(&mut place, &Case { kind, group, dim, every: Some(every), keep }, &[134, 2], &rows);
        }
    }
}

#[test]
fn windows_have_sums() {
    let mut place = places().remove(0);
    for (kind, group, dim) in CASES {
        let case = Case { kind, group, dim, every: None, keep: Some(128) };
        verify(&mut place, &case, &[1, 300], &[(0, 0), (1, 127), (1, 128), (1, 299)]);
        if dim < 512 || kind == KvType::F16 {
            let rows: Vec<(usize, usize)> = (0..33).map(|i| (0, i)).chain([(1, 60)]).collect();
            verify(&mut place, &Case { keep: Some(24), ..case }, &[33, 61], &rows);
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let case = Case { kind: KvType::F16, group: 1, dim: 64, every: Some(2), keep: Some(5) };
    let sequences = Sequences::new(&mut Rng::new(1), KvCache::new(1, 64, 64, case.kind).unwrap(), &[40]);
    let (cache, _pages) = sequences.buffers(&mut place, &[(0, 39)]);
    let x = place.poison::<f32>(1 << 16).span();
    let words = place.poison::<u32>(8).span();
    let chosen = |keep: usize| Chosen { places: words.clone(), keep, block: 2, ends: true };
    let op = Attend {
        q: x.slice(0..64).unwrap(),
        cache,
        out: x.slice(64..128).unwrap(),
        rows: 1,
        heads: 1,
        scale: 1.0,
        window: None,
        sight: Sight::Chosen(chosen(5)),
        sums: Some(x.slice(128..129).unwrap()),
        scratch: AttendScratch { partials: x, tickets: place.buffer(&[0_u32; 32]).span() },
        tiles: None,
    };
    assert!(op.launches(place.info()).is_ok());
    let refused = |op: Attend| op.launches(place.info()).unwrap_err().to_string();
    let text = refused(Attend { sums: None, ..op.clone() });
    assert!(text.contains("sums of what rows see is 0, must be 1"), "{text}");
    let text = refused(Attend { sight: Sight::Chosen(chosen(9)), ..op.clone() });
    assert!(text.contains("words of chosen blocks is 8, must be 12"), "{text}");
    let text = refused(Attend { sight: Sight::Ends(0), ..op.clone() });
    assert!(text.contains("positions of a group is 0"), "{text}");
    let text = refused(Attend { window: Some(3), ..op });
    assert!(text.contains("a window of chosen blocks is 3"), "{text}");
    assert!(Attend::check_ends(&KvCache::new(1, 576, 512, KvType::F16).unwrap()).is_err());
    assert!(Attend::check_ends(&KvCache::new(1, 64, 32, KvType::F16).unwrap()).is_err());
}
