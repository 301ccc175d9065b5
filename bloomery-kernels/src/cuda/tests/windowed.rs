//! Keys that are values too on their way to the cache, and parts of attention to one, against the CPU's.

use super::super::testing::{Place, places};
use super::super::{Blend, BlendPart, KvCache, Rope, RopeAngles, SharedAppend};
use super::paged::Sequences;
use crate::abi::attention::PAGE;
use crate::cpu::testing::{Rng, bits, cpus};
use crate::cpu::{AttendedPart, HeadSpec, KvType, Norm, Pairs, RopeSpec, RopeTable};

const P: usize = PAGE as usize;
const EPS: f32 = 1e-6;

fn rope(place: &mut Place, spec: &RopeSpec, first: usize) -> Rope {
    let angles = RopeAngles::new(spec, 1024).unwrap();
    let (low, high) = (place.buffer(&angles.low).span(), place.buffer(&angles.high).span());
    Rope { pairs: angles.pairs, half: angles.half, first, low, high }
}

#[test]
fn keys_are_values_too() {
    let mut place = places().remove(0);
    for (heads, dim, dims, pairs, normed) in
        [(64, 512, 64, Pairs::Norm, false), (3, 128, 16, Pairs::Norm, true), (1, 64, 64, Pairs::Neox, true)]
    {
        for count in [1, 2, 7, 9, 33] {
            let (rows, first) = ((0..count).map(|i| (0, 250 + i)).collect::<Vec<_>>(), dim - dims);
            let mut rng = Rng::new((dim + count) as u64);
            let shape = KvCache::new(1, dim, dim, KvType::F32).unwrap();
            let sequences = Sequences::new(&mut rng, shape, &[250 + count]);
            let (mut q, k) = (rng.normals(count * heads * dim), rng.normals(count * dim));
            let gains =
                [(); 2].map(|()| rng.normals(dim).iter().map(|x| 1.0 + 0.1 * x).collect::<Vec<f32>>());
            let (cache, pages) = sequences.buffers(&mut place, &rows);
            let queries = place.buffer(&q);
            let spec = RopeSpec::new(pairs, dims, 10_000.0);
            let op = SharedAppend {
                q: queries.span(),
                k: place.buffer(&k).span(),
                rows: count,
                heads,
                q_norm: normed.then(|| (place.buffer(&gains[0]).span(), EPS)),
                k_norm: Some((place.buffer(&gains[1]).span(), EPS)),
                rope: rope(&mut place, &spec, first),
                cache,
            };
            let launch = op.launch(place.info()).unwrap();
            place.run(&launch);

            let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
            let table = RopeTable::new(&spec, &positions).unwrap();
            let (cpu, mut of) = (cpus().remove(0), HeadSpec::rope(&table));
            of.rope_first = first;
            of.q_norm = normed.then_some(Norm { gain: &gains[0], eps: EPS });
            cpu.turn_heads(&mut q, (count, dim), &of).unwrap();
            let mut keys = k.clone();
            of.q_norm = Some(Norm { gain: &gains[1], eps: EPS });
            cpu.turn_heads(&mut keys, (count, dim), &of).unwrap();
            // A norm of order 1 in another order of sums, and angles that are good to 3e-7.
            let close = |got: &[f32], expected: &[f32], what: &str| {
                for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
                    let off = (got - expected).abs();
                    assert!(off <= 4e-6 * expected.abs().max(1.0), "{what} {i}: {got} {expected}");
                }
            };
            close(&place.read(&queries), &q, "query");
            let read = |place: &mut Place, i: usize| -> Vec<f32> {
                bytemuck::pod_collect_to_vec(&place.read(&pages[i]))
            };
            let (all_keys, all_values) = (read(&mut place, 0), read(&mut place, 1));
            for (i, row) in rows.iter().enumerate() {
                let base = sequences.table[row.1 / P] as usize * P * dim;
                let offset = row.1 % P;
                let key = &all_keys[base + offset * dim..][..dim];
                close(key, &keys[i * dim..][..dim], "key");
                let at = |d: usize| all_values[base + (offset / 4 * dim + d) * 4 + offset % 4];
                assert_eq!(bits(&(0..dim).map(at).collect::<Vec<f32>>()), bits(key), "value of row {i}");
            }
        }
    }
}

#[test]
fn parts_become_one_and_turn_back() {
    let mut place = places().remove(0);
    for (heads, dim, dims, pairs) in
        [(64, 512, 64, Pairs::Norm), (3, 128, 16, Pairs::Norm), (1, 64, 64, Pairs::Neox)]
    {
        for count in [1, 2, 9, 33] {
            let (mut rng, first) = (Rng::new((dim + count) as u64), dim - dims);
            let len = count * heads * dim;
            let values = [(); 2].map(|()| rng.normals(len));
            let mut sums = [(); 2].map(|()| rng.normals(count * heads));
            // A part may see nothing.
            sums[1][0] = f32::NEG_INFINITY;
            values[1][..0].iter().for_each(drop);
            let sinks = rng.normals(heads);
            let positions: Vec<u32> = (0..count as u32).map(|i| 300 + 7 * i).collect();
            let spec = RopeSpec::new(pairs, dims, 10_000.0);
            let (turn, at) = (rope(&mut place, &spec, first), place.buffer(&positions).span());
            for parts in 0..=2 {
                let memory = values.each_ref().map(|values| place.buffer(values));
                let of_sums = sums.each_ref().map(|sums| place.buffer(sums));
                // One part is blended where it is.
                let out = if parts == 2 { place.poison::<f32>(len) } else { place.buffer(&values[0]) };
                let mut list: Vec<BlendPart> = (0..parts)
                    .map(|i| BlendPart { values: memory[i].span(), sums: of_sums[i].span() })
                    .collect();
                if parts == 1 {
                    list[0].values = out.span();
                }
                let blend = Blend {
                    parts: list,
                    sinks: (parts > 0).then(|| place.buffer(&sinks).span()),
                    rope: Some(turn.clone()),
                    positions: at.clone(),
                    heads,
                    out: out.span(),
                };
                let launch = blend.launch(place.info()).unwrap();
                place.run(&launch);

                let none = vec![f32::NEG_INFINITY; count * heads];
                let mut expected = values[0].clone();
                if parts > 0 {
                    let second = if parts == 2 { &sums[1] } else { &none };
                    let of = [
                        AttendedPart { values: &values[0], sums: &sums[0] },
                        AttendedPart { values: &values[1], sums: second },
                    ];
                    cpus().remove(0).blend(of, &sinks, dim, &mut expected).unwrap();
                }
                let table = RopeTable::new(&spec, &positions).unwrap().reversed();
                let mut head = HeadSpec::rope(&table);
                head.rope_first = first;
                cpus().remove(0).turn_heads(&mut expected, (count, dim), &head).unwrap();
                for (i, (got, expected)) in place.read(&out).iter().zip(&expected).enumerate() {
                    let off = (got - expected).abs();
                    assert!(off <= 2e-6 * expected.abs().max(1.0), "{parts} parts, {i}: {got} {expected}");
                }
            }
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let x = place.poison::<f32>(4096).span();
    let spec = RopeSpec::new(Pairs::Norm, 16, 10_000.0);
    let blend = Blend {
        parts: Vec::new(),
        sinks: None,
        rope: Some(rope(&mut place, &spec, 48)),
        positions: place.buffer(&[3_u32, 4]).span(),
        heads: 2,
        out: x.slice(0..256).unwrap(),
    };
    assert!(blend.launch(place.info()).is_ok());
    let refused = |op: Blend| op.launch(place.info()).unwrap_err().to_string();
    let part = BlendPart { values: x.slice(256..512).unwrap(), sums: x.slice(512..516).unwrap() };
    let text = refused(Blend { parts: vec![part.clone()], ..blend.clone() });
    assert!(text.contains("sinks of parts is 0, must be 1"), "{text}");
    let sinks = Some(x.slice(516..517).unwrap());
    let text = refused(Blend { parts: vec![part], sinks, ..blend.clone() });
    assert!(text.contains("sinks is 1, must be 2"), "{text}");
    let text = refused(Blend { out: x.slice(0..255).unwrap(), ..blend });
    assert!(text.contains("values of the output is 255"), "{text}");
    assert!(Blend::check(64, 8, 46).is_err());
    assert!(SharedAppend::check(576, 576).is_err());
    assert!(SharedAppend::check(512, 256).is_err());
}
