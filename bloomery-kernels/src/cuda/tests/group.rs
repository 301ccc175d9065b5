//! Pairs by expert, against a stable sort.

use super::super::testing::places;
use super::super::{Group, Tiles};
use crate::cpu::testing::Rng;

#[test]
fn pairs_are_sorted_and_cut_into_tiles() {
    let mut place = places().pop().unwrap();
    let mut cases = vec![(1, 1, 32), (10, 8, 32), (2048, 128, 64), (2049, 60, 128), (5000, 512, 32)];
    if place.is_card() {
        cases.push((65_536, 128, 128));
        cases.push((65_529, 512, 64));
    }
    for (pairs, count, size) in cases {
        let mut rng = Rng::new(pairs as u64);
        // Some experts have many pairs and some have none; some numbers are no experts.
        let experts: Vec<u32> = (0..pairs)
            .map(|pair| match pair % 11 {
                3 => u32::MAX,
                5 => count as u32,
                6..8 => count as u32 / 2,
                _ => (rng.below(count) as u32 * 3) % count as u32,
            })
            .collect();
        let mut order: Vec<u32> = (0..pairs as u32).filter(|p| experts[*p as usize] < count as u32).collect();
        order.sort_by_key(|pair| experts[*pair as usize]);
        let mut offsets = vec![0_u32; count + 1];
        for pair in &order {
            offsets[experts[*pair as usize] as usize + 1] += 1;
        }
        let mut tiles = Vec::new();
        for expert in 0..count {
            let own = offsets[expert + 1];
            offsets[expert + 1] += offsets[expert];
            for first in (0..own).step_by(size) {
                let rest = (own - first).min(size as u32);
                tiles.extend([expert as u32, offsets[expert] + first, rest, 0]);
            }
        }
        let most = Group::most_tiles(pairs, count, size);
        assert!(tiles.len() <= 4 * most);

        let numbers = place.buffer(&experts);
        let (got_offsets, got_order) = (place.poison::<u32>(count + 1), place.poison::<u32>(pairs));
        let (list, tile_count) = (place.poison::<u32>(4 * most), place.poison::<u32>(1));
        let scratch = place.poison::<u32>(Group::scratch_len(pairs, count));
        let op = Group {
            experts: numbers.span(),
            count,
            offsets: got_offsets.span(),
            order: got_order.span(),
            tiles: Tiles { size, list: list.span(), count: tile_count.span() },
            scratch: scratch.span(),
        };
        for _ in 0..2 {
            let launches = op.launches(place.info()).unwrap();
            assert_eq!(launches.len(), if pairs > 2048 { 2 } else { 1 });
            launches.iter().for_each(|launch| place.run(launch));
            let name = format!("{pairs} pairs, {count} experts");
            assert_eq!(place.read(&got_offsets), offsets, "{name}");
            let got = place.read(&got_order);
            assert_eq!(got[..order.len()], order, "{name}");
            assert!(got[order.len()..].iter().all(|pair| *pair == u32::MAX), "{name}");
            assert_eq!(place.read(&tile_count), [tiles.len() as u32 / 4], "{name}");
            assert_eq!(place.read(&list)[..tiles.len()], tiles, "{name}");
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().pop().unwrap();
    let values = place.buffer(&[0_u32; 64]);
    let part = |len: usize| values.slice(0..len).unwrap();
    let op = Group {
        experts: part(8),
        count: 4,
        offsets: part(5),
        order: part(8),
        tiles: Tiles { size: 32, list: part(16), count: part(1) },
        scratch: part(0),
    };
    assert_eq!(op.launches(place.info()).unwrap().len(), 1);
    let refused = |op: Group| op.launches(place.info()).unwrap_err().to_string();
    assert_eq!(refused(Group { offsets: part(4), ..op.clone() }), "group: offsets is 4, must be 5");
    assert_eq!(refused(Group { count: 513, ..op.clone() }), "group: experts is 513, must be 1 to 512");
    assert_eq!(refused(Group { order: part(7), ..op.clone() }), "group: places is 7, must be 8");
    let tiles = Tiles { size: 48, ..op.tiles.clone() };
    assert_eq!(refused(Group { tiles, ..op.clone() }), "group: pairs of a tile is 48, must be 32, 64 or 128");
    let tiles = Tiles { list: part(15), ..op.tiles.clone() };
    let expected = "group: values of the tiles is 15, must be at least 16";
    assert_eq!(refused(Group { tiles, ..op }), expected);
}
