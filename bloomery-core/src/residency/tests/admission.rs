//! Who comes in, who goes, and when.

use crate::residency::{Expert, Heat, LayerShape, NOWHERE, PoolShape, Residency, Rules, Shape};

fn layer(experts: usize) -> LayerShape {
    LayerShape { experts, used: 1, pool: Some(0), resident: true }
}

fn shape(layers: Vec<LayerShape>, slots: usize, ring: usize) -> Shape {
    Shape { layers, pools: vec![PoolShape { slots, ring, expert_bytes: 10 }] }
}

fn expert(layer: u32, expert: u32) -> Expert {
    Expert { layer, expert }
}

#[test]
fn without_heat_layers_share_evenly() {
    let residency = Residency::new(shape(vec![layer(4), layer(4), layer(2)], 5, 2), Rules::default(), None);
    let seats: Vec<(Expert, u32)> = residency.residents().collect();
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)].map(|(layer, at)| expert(layer, at));
    assert_eq!(seats, expected.into_iter().zip(0..).collect::<Vec<_>>());
    assert_eq!(residency.free(0), [5, 6]);
    assert_eq!([0, 1, 2].map(|layer| residency.start(layer)), [0, 4, 8]);
}

#[test]
fn with_heat_the_hottest_of_all_layers_are_seated() {
    let heat = Heat { layers: vec![vec![0, 512, 0, 256], vec![4096, 0, 3840, 3584]] };
    let residency = Residency::new(shape(vec![layer(4), layer(4)], 4, 2), Rules::default(), Some(&heat));
    let seats: Vec<Expert> = residency.residents().map(|(expert, _)| expert).collect();
    assert_eq!(seats, [expert(0, 1), expert(1, 0), expert(1, 2), expert(1, 3)]);
    assert_eq!(residency.heat(), heat);
}

#[test]
fn a_move_reserves_its_slot_and_lands_at_its_step() {
    let rules = Rules { delay: 3, ..Rules::default() };
    let mut residency = Residency::new(shape(vec![layer(4)], 2, 2), rules, None);
    assert!(!residency.land(7).iter().any(|_| true));
    residency.decoded(0, &[3, 0]);
    let moves = residency.plan(7);
    assert_eq!(moves.len(), 1);
    let started = moves[0];
    assert_eq!((started.expert, started.slot, started.lands), (expert(0, 3), 2, 10));
    assert_eq!(started.evicts, (expert(0, 1), 1), "0 was chosen, 1 was not");
    assert_eq!(residency.free(0), [3]);
    // While it is on its way it is not asked for again, and who leaves is still there.
    for step in 8..10 {
        assert!(residency.land(step).is_empty());
        assert_eq!(residency.map(), [0, 1, NOWHERE, NOWHERE]);
        residency.decoded(0, &[3, 3, 1]);
        assert!(residency.plan(step).is_empty());
    }
    assert_eq!(residency.land(10), [started]);
    assert_eq!(residency.map(), [0, NOWHERE, NOWHERE, 2]);
    assert_eq!(residency.free(0), [1, 3]);
    let stats = residency.stats();
    assert_eq!((stats.chosen, stats.on_card, stats.moves, stats.moved_bytes), (8, 3, 1, 10));
}

#[test]
fn chosen_once_is_not_enough_against_residents_in_use() {
    let mut residency = Residency::new(shape(vec![layer(6)], 2, 4), Rules::default(), None);
    for step in 0..20 {
        residency.land(step);
        residency.decoded(0, &[0, 1, 2 + step as u32 % 4]);
        assert!(residency.plan(step).is_empty(), "{step}");
    }
    // What is chosen from now on overtakes what is not any more.
    let mut moved = Vec::new();
    for step in 20..60 {
        residency.land(step);
        residency.decoded(0, &[0, 5]);
        moved.extend(residency.plan(step));
    }
    assert_eq!(
        moved.iter().map(|moved| (moved.expert.expert, moved.evicts.0.expert)).collect::<Vec<_>>(),
        [(5, 1)]
    );
}

#[test]
fn the_coldest_of_all_layers_goes_for_the_hottest() {
    let rules = Rules { moves: 2, ..Rules::default() };
    let mut residency = Residency::new(shape(vec![layer(4), layer(4)], 4, 8), rules, None);
    residency.decoded(0, &[0, 1]);
    residency.decoded(1, &[0, 2, 3, 3, 3, 2]);
    let moves = residency.plan(0);
    let pairs: Vec<_> = moves.iter().map(|started| (started.expert, started.evicts.0)).collect();
    // One resident was not chosen; all others are as hot as a margin lets two choices be.
    assert_eq!(pairs, [(expert(1, 3), expert(1, 1)), (expert(1, 2), expert(0, 0))]);
}

#[test]
fn pools_keep_to_themselves_and_share_the_moves() {
    let other = LayerShape { pool: Some(1), ..layer(4) };
    let host = LayerShape { pool: None, ..layer(4) };
    let streamed = LayerShape { resident: false, ..layer(4) };
    let pool = PoolShape { slots: 2, ring: 4, expert_bytes: 10 };
    let layers = vec![layer(4), other, host, streamed];
    let rules = Rules { moves: 3, ..Rules::default() };
    let mut residency = Residency::new(Shape { layers, pools: vec![pool, pool] }, rules, None);
    for layer in 0..4 {
        residency.decoded(layer, &[2, 3, 3]);
    }
    let moves = residency.plan(0);
    let experts: Vec<Expert> = moves.iter().map(|started| started.expert).collect();
    assert_eq!(experts, [expert(0, 3), expert(1, 3), expert(0, 2)]);
    assert!(moves.iter().all(|started| started.expert.layer == started.evicts.0.layer));
}

#[test]
fn a_prompt_counts_as_few_rows() {
    let rules = Rules { prompt_rows: 4, ..Rules::default() };
    let shape = || shape(vec![LayerShape { used: 2, ..layer(4) }], 2, 2);
    // 1000 rows that all chose 2, and 3 in half of the cases: as much as four rows of decoding, two of them with 3.
    let mut prompted = Residency::new(shape(), rules, None);
    prompted.prompted(0, &[0, 500, 1000, 500]);
    let mut decoded = Residency::new(shape(), rules, None);
    decoded.decoded(0, &[2, 1, 2, 1, 2, 3, 2, 3]);
    assert_eq!(prompted.heat(), decoded.heat());
    assert_eq!(prompted.plan(0), decoded.plan(0));
    // Nobody's hits: a prompt's rows are streamed.
    assert_eq!((prompted.stats().chosen, decoded.stats().chosen), (0, 8));
    // A short prompt is what it is.
    let mut short = Residency::new(shape(), rules, None);
    short.prompted(0, &[0, 1, 2, 1]);
    assert_eq!(short.heat().layers, [[0, 256, 512, 256]]);
}

#[test]
fn other_numbers_of_slots_go_to_who_is_hottest_now() {
    let pool = |slots| vec![PoolShape { slots, ring: 2, expert_bytes: 10 }];
    let seats = |residency: &Residency| -> Vec<u32> {
        residency.residents().map(|(expert, slot)| expert.expert * 10 + slot).collect()
    };
    for adaptive in [true, false] {
        let rules = Rules { adaptive, ..Rules::default() };
        let mut residency = Residency::new(shape(vec![layer(8)], 3, 2), rules, None);
        assert_eq!(seats(&residency), [0, 11, 22]);
        for step in 0..9 {
            residency.decoded(0, &[7, 5, 7]);
            residency.plan(step);
        }
        let stats = residency.stats();
        residency.resize(pool(2));
        // Where nothing moves, equal slots have equal experts whatever was chosen.
        assert_eq!(seats(&residency), if adaptive { [50, 71] } else { [0, 11] });
        assert_eq!(residency.free(0), [2, 3]);
        assert!(residency.land(u64::MAX).is_empty(), "what was under way is forgotten");
        residency.resize(pool(20));
        assert_eq!(residency.residents().count(), 8);
        residency.resize(pool(0));
        assert_eq!((residency.residents().count(), residency.free(0)), (0, [0, 1].as_slice()));
        assert_eq!(residency.stats(), stats);
    }
}
