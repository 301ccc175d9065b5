//! Attention to chosen blocks against double precision; what was not chosen is poison.

use super::super::testing::{Place, card, places};
use super::super::{Attend, AttendScratch, Chosen, KvCache, Sight};
use super::paged::Sequences;
use crate::abi::attention::PAGE;
use crate::cpu::KvType;
use crate::cpu::testing::{Rng, bits};

const P: usize = PAGE as usize;

struct Case {
    kind: KvType,
    kv_heads: usize,
    group: usize,
    /// Of keys and values.
    dim: usize,
    block: usize,
    keep: usize,
}

/// A random choice of a row: the positions that it sees.
fn choice(rng: &mut Rng, case: &Case, position: usize) -> Vec<usize> {
    let whole = (position + 1) / case.block;
    let mut blocks: Vec<usize> = (0..whole).collect();
    while blocks.len() > case.keep {
        blocks.remove(rng.below(blocks.len()));
    }
    let of = |block: usize| block * case.block..(block + 1) * case.block;
    blocks.into_iter().flat_map(of).chain(whole * case.block..=position).collect()
}

fn attend(
    place: &mut Place,
    case: &Case,
    sequences: &Sequences,
    (rows, seen): (&[(usize, usize)], &[Vec<usize>]),
    q: &[f32],
) -> Vec<f32> {
    let (shape, heads) = (sequences.shape, case.kv_heads * case.group);
    // All that is not chosen by any row is poison.
    let (mut k, mut v) = (sequences.k.clone(), sequences.v.clone());
    for (s, len) in sequences.lens.iter().enumerate() {
        for p in 0..*len {
            let is_seen = rows.iter().zip(seen).any(|(row, seen)| row.0 == s && seen.contains(&p));
            if !is_seen {
                for (values, dim) in [(&mut k[s], shape.key_dim()), (&mut v[s], shape.value_dim())] {
                    values[p * case.kv_heads * dim..][..case.kv_heads * dim].fill(f32::NAN);
                }
            }
        }
    }
    let poisoned = sequences.with(k, v);
    let (cache, _pages) = poisoned.buffers(place, rows);
    let mut places = vec![u32::MAX; rows.len() * (case.keep + 1)];
    for ((line, row), seen) in places.chunks_mut(case.keep + 1).zip(rows).zip(seen) {
        let firsts = seen.iter().filter(|&&p| p.is_multiple_of(case.block));
        for (place, p) in line.iter_mut().zip(firsts) {
            *place = sequences.table[row.0 * sequences.stride + p / P] * PAGE + (p % P) as u32;
        }
    }
    let few = rows.len().min(Attend::FEW);
    let partials = place.poison::<f32>(AttendScratch::floats(&shape, heads, few));
    let tickets = place.buffer(&vec![0_u32; AttendScratch::tickets(&shape, heads, few)]);
    let out = place.poison::<f32>(rows.len() * heads * shape.value_dim());
    let op = Attend {
        q: place.buffer(q).span(),
        cache,
        out: out.span(),
        rows: rows.len(),
        heads,
        scale: (case.dim as f32).sqrt().recip(),
        window: None,
        sight: Sight::Chosen(Chosen {
            places: place.buffer(&places).span(),
            keep: case.keep,
            block: case.block,
            ends: false,
        }),
        sums: None,
        scratch: AttendScratch { partials: partials.span(), tickets: tickets.span() },
        tiles: None,
    };
    op.launches(place.info()).unwrap().iter().for_each(|launch| place.run(launch));
    assert!(place.read(&tickets).iter().all(|ticket| *ticket == 0), "tickets are left");
    place.read(&out)
}

fn verify(place: &mut Place, case: &Case, lens: &[usize], rows: &[(usize, usize)]) {
    let Case { kind, kv_heads, group, dim, block, keep } = *case;
    let name = format!("{kind:?} {kv_heads} x {group} heads of {dim}, {keep} blocks of {block}");
    let shape = KvCache::new(kv_heads, dim, dim, kind).unwrap();
    let mut rng = Rng::new((dim + group + rows.len()) as u64);
    let sequences = Sequences::new(&mut rng, shape, lens);
    let heads = kv_heads * group;
    let q = rng.normals(rows.len() * heads * dim);
    let seen: Vec<Vec<usize>> = rows.iter().map(|row| choice(&mut rng, case, row.1)).collect();
    let out = attend(place, case, &sequences, (rows, &seen), &q);
    let scale = (dim as f32).sqrt().recip();
    // Many rows of the widest heads may have weights of 11 bits.
    let wide = dim > 256 && group >= 16 && kind != KvType::F32;
    let weight_bits = if rows.len() > Attend::FEW && wide { 11 } else { 22 };
    for (i, row) in rows.iter().enumerate() {
        for head in 0..heads {
            let part = (i * heads + head) * dim..(i * heads + head + 1) * dim;
            let to = (row.0, &seen[i][..]);
            let (exact, bound) =
                sequences.attention_to(&q[part.clone()], to, head / group, scale, weight_bits);
            for ((got, exact), bound) in out[part].iter().zip(exact).zip(bound) {
                let off = (f64::from(*got) - exact).abs();
                assert!(off <= bound, "{name}, row {row:?}, head {head}: {got} {exact} > {bound}");
            }
        }
    }
    // In other company of as many, or alone where few are few.
    let few = rows.len() <= Attend::FEW;
    let half = if few { rows.len() / 2..rows.len() / 2 + 1 } else { 0..Attend::FEW + 1 };
    let (rows, seen) = (&rows[half.clone()], &seen[half.clone()]);
    let part = half.start * heads * dim..half.end * heads * dim;
    let alone = attend(place, case, &sequences, (rows, seen), &q[part.clone()]);
    assert_eq!(bits(&alone), bits(&out[part]), "{name}, rows {half:?} alone");
}

const CASES: [(KvType, usize, usize, usize, usize, usize); 8] = [
    (KvType::F16, 2, 12, 256, 4, 33),
    (KvType::Q8_0, 1, 3, 256, 8, 20),
    (KvType::F32, 2, 3, 64, 4, 9),
    (KvType::F16, 1, 2, 64, 64, 2),
    (KvType::Q8_0, 2, 9, 64, 16, 5),
    (KvType::F16, 1, 16, 512, 4, 40),
    (KvType::Q8_0, 1, 3, 512, 4, 9),
    (KvType::F32, 1, 2, 512, 8, 3),
];

fn of((kind, kv_heads, group, dim, block, keep): (KvType, usize, usize, usize, usize, usize)) -> Case {
    Case { kind, kv_heads, group, dim, block, keep }
}

#[test]
fn few_rows_see_chosen_blocks() {
    let mut place = places().remove(0);
    for values in CASES {
        let case = of(values);
        // Rows that see everything, those at the border, neighbours, and long sequences.
        let border = case.block * case.keep;
        let lens = [1, border, border + case.block, 500];
        let rows = [
            (0, 0),
            (1, border - 1),
            (2, border),
            (2, border + 1),
            (2, border + case.block - 1),
            (3, 450),
            (3, 451),
            (3, 452),
            (3, 499),
        ];
        verify(&mut place, &case, &lens, &rows);
    }
}

#[test]
fn any_number_of_rows_see_chosen_blocks() {
    let mut place = places().remove(0);
    let case = Case { group: 2, ..of(CASES[3]) };
    for count in [1, 2, 7, 8, 31, 32, 33, 64] {
        let rows: Vec<(usize, usize)> = (0..count).map(|i| (0, 230 + i)).collect();
        verify(&mut place, &case, &[300], &rows);
    }
    for values in CASES {
        let case = Case { group: values.2.min(3), ..of(values) };
        let rows: Vec<(usize, usize)> = (0..34).map(|i| (0, 160 + i)).chain([(1, 3)]).collect();
        verify(&mut place, &case, &[194, 4], &rows);
    }
}

#[test]
fn many_rows_of_many_heads_of_latents() {
    let mut place = places().remove(0);
    for (kind, group, dim) in [(KvType::F16, 33, 512), (KvType::Q8_0, 16, 288)] {
        let rows: Vec<(usize, usize)> = (0..34).map(|i| (0, 160 + i)).chain([(1, 3)]).collect();
        verify(&mut place, &of((kind, 1, group, dim, 4, 34)), &[194, 4], &rows);
    }
}

/// Shapes of models and lengths that only a card has the time for.
#[test]
fn long_rows_see_chosen_blocks() {
    let Some(_) = card() else { return };
    let mut place = places().remove(0);
    for (kv_heads, group, dim) in [(2, 12, 256), (1, 64, 512)] {
        for kind in [KvType::F16, KvType::Q8_0] {
            let case = of((kind, kv_heads, group, dim, 4, 512));
            verify(&mut place, &case, &[20_000], &[(0, 2047), (0, 2048), (0, 2051), (0, 19_998)]);
            let rows: Vec<(usize, usize)> = (0..40).map(|i| (0, 5000 + i)).collect();
            verify(&mut place, &case, &[5040], &rows);
        }
    }
}

#[test]
fn many_heads_of_latents_have_several_launches() {
    let mut place = places().remove(0);
    let case = Case { group: 256, ..of(CASES[6]) };
    verify(&mut place, &case, &[60], &[(0, 50), (0, 51), (0, 52), (0, 59)]);
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let shape = KvCache::new(1, 64, 64, KvType::F16).unwrap();
    let sequences = Sequences::new(&mut Rng::new(1), shape, &[40]);
    let (cache, _pages) = sequences.buffers(&mut place, &[(0, 39)]);
    let x = place.poison::<f32>(1 << 16).span();
    let places = place.poison::<u32>(5).span();
    let op = Attend {
        q: x.slice(0..64).unwrap(),
        cache,
        out: x.slice(64..128).unwrap(),
        rows: 1,
        heads: 1,
        scale: 1.0,
        window: None,
        sight: Sight::Chosen(Chosen { places: places.clone(), keep: 4, block: 4, ends: false }),
        sums: None,
        scratch: AttendScratch { partials: x, tickets: place.buffer(&[0_u32; 32]).span() },
        tiles: None,
    };
    let refused = |op: Attend| op.launches(place.info()).unwrap_err().to_string();
    let chosen = |keep: usize, block: usize| {
        let chosen = Chosen { places: places.clone(), keep, block, ends: false };
        Attend { sight: Sight::Chosen(chosen), ..op.clone() }
    };
    assert!(refused(chosen(3, 4)).contains("words of chosen blocks is 5, must be 4"));
    assert!(refused(chosen(4, 2)).contains("positions of a chosen block is 2"));
    assert!(refused(chosen(0, 4)).contains("chosen blocks is 0"));
    assert!(refused(Attend { window: Some(9), ..op.clone() }).contains("a window of chosen blocks is 9"));
    assert!(op.launches(place.info()).is_ok());
    let wide = KvCache::new(1, 576, 512, KvType::F16).unwrap();
    let text = Attend::check_chosen(&wide).unwrap_err().to_string();
    assert!(text.contains("heads of chosen blocks is 576, must be at most 512"), "{text}");
}
