//! Experts on both sides of a card, against the CPU and against themselves. Without a card, every test says so and ends.

mod rebalance;

use std::sync::{Mutex, PoisonError};

use bloomery_kernels::cuda::Pack;

use super::super::CudaBackend;
use super::*;
use crate::backend::{Answer, Backend, Batch, CpuBackend, Readback};
use crate::error::EngineError;
use crate::plan::{Cards, LayerSplit, Placement, Plan, SlotPool};
use crate::state::PageId;
use crate::units::Bytes;
use crate::{Context, Engine, ModelSource};

const PAGES: usize = 4;
static TURN: Mutex<()> = Mutex::new(());

fn plan(cards: &Cards, placement: Placement) -> Plan {
    let builder = Engine::builder(ModelSource::demo()).context(Context::Tokens(PAGES * 64)).sessions(2);
    builder.placement(placement).cards(cards.clone()).plan().expect("the demo model fits")
}

/// A split of the demo model, four layers of 16 experts, into pools as its layers are stored.
fn split(cards: &Cards, slots: usize, ring: usize) -> Plan {
    let mut plan = plan(cards, Placement::Card(0));
    let layers = routed_layers(&plan.program, &plan.weights);
    let mut shapes: Vec<[(bloomery_gguf::Format, usize, usize); 3]> = Vec::new();
    let mut parts = Vec::new();
    for layer in &layers {
        let shape = [layer.stacks.gate, layer.stacks.up, layer.stacks.down].map(|id| {
            (plan.weights.stack_format(id), plan.weights.stack_rows(id), plan.weights.stack_cols(id))
        });
        let pool = shapes.iter().position(|other| *other == shape).unwrap_or_else(|| {
            shapes.push(shape);
            shapes.len() - 1
        });
        parts.push(LayerSplit { pool: Some(pool), resident: true });
    }
    let pools = vec![SlotPool { slots, ring, expert: Bytes(1) }; shapes.len()];
    if slots + ring == 0 {
        // What cannot stream is served, and the desk has 1024 rows.
        plan.step_rows = 512;
    }
    plan.split = Some(Split { pools, layers: parts });
    plan.placement = Placement::Split(0);
    plan
}

fn with_card(test: impl FnOnce(&Cards)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cards = Cards::read();
    match cards.facts(0) {
        Ok(_) => test(&cards),
        Err(why) => println!("skipped: {why}"),
    }
}

/// Logits of the last of `tokens`, which are at the positions from `first` on.
fn step(backend: &mut dyn Backend, tokens: &[u32], first: usize) -> Result<Vec<f32>, EngineError> {
    let pages: Vec<PageId> = (0..PAGES as PageId).collect();
    let positions: Vec<u32> = (first as u32..).take(tokens.len()).collect();
    let batch = Batch {
        before: &[],
        following: &[],
        tokens,
        positions: &positions,
        sequences: &vec![0; tokens.len()],
        pages: &[&pages],
        states: &[],
        saves: &[],
        outputs: &[tokens.len() - 1],
        want: Readback::Logits,
        deep: None,
        trace: None,
        stages: None,
    };
    match backend.step(batch)? {
        Answer::Rows(rows) => Ok(rows.to_vec()),
        Answer::Top { .. } => unreachable!("logits were asked for"),
    }
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 7919 + 13) % 3000).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[track_caller]
fn close(what: &str, a: &[f32], b: &[f32]) {
    let most = distance(a, b);
    assert!(most < 0.5, "{what}: {most}");
}

/// Half of the positions are as near to the CPU as rounded activations allow for k-quants (`limits` of the card's tests). Others are
/// near ties between experts, where rounding decides and all that follows is another text.
#[track_caller]
fn near(what: &str, mut distances: Vec<f32>) {
    distances.sort_by(f32::total_cmp);
    let (median, ninth) = (distances[distances.len() / 2], distances[distances.len() * 9 / 10]);
    assert!(median < 0.5 && ninth < 3.0, "{what}: median {median}, nine of ten below {ninth}");
}

/// Every resident's slots hold what its bytes in the file become.
fn check_slots(hosted: &mut Hosted, stream: &mut Stream) {
    let device = stream.device().clone();
    let residents: Vec<_> = hosted.residency.residents().collect();
    for (expert, slot) in residents {
        let layer = &hosted.server.layers[expert.layer as usize];
        let pool = &hosted.slots.pools[hosted.slots.layers[expert.layer as usize].pool.unwrap()];
        for (bank, id) in pool.banks.iter().zip(layer.ids()) {
            let number = expert.expert as usize;
            let pieces = hosted.server.weights.experts(&hosted.server.gguf, id, number..number + 1);
            let raw = device.alloc::<u8>(pieces[0].len()).unwrap();
            stream.upload(pieces[0], &raw.span()).unwrap();
            let expected = device.alloc::<u8>(bank.shape.card_bytes()).unwrap();
            let pack = Pack {
                format: bank.shape.format,
                count: 1,
                rows: bank.shape.rows,
                cols: bank.shape.cols,
                from: raw.span(),
                to: expected.span(),
            };
            stream.launch(&pack.launch(device.info()).unwrap()).unwrap();
            let (mut a, mut b) = (vec![0; expected.len()], vec![0; expected.len()]);
            stream.download(&expected.span(), &mut a).unwrap();
            stream.download(&bank.slots(slot as usize, 1).unwrap(), &mut b).unwrap();
            assert!(a == b, "{expert:?} in slot {slot}");
        }
    }
}

#[test]
fn any_share_of_slots_gives_the_logits_of_the_cpu() {
    with_card(|cards| {
        let prompt = tokens(100);
        let mut cpu = CpuBackend::new(plan(cards, Placement::Cpu), PAGES).unwrap();
        let expected = step(&mut cpu, &prompt, 0).unwrap();
        let mut all = CudaBackend::load(plan(cards, Placement::Card(0)), (0, 0), PAGES, |_| {}).unwrap();
        close("all", &step(&mut all, &prompt, 0).unwrap(), &expected);
        let next: Vec<Vec<f32>> = (100..130).map(|at| step(&mut cpu, &[at as u32], at).unwrap()).collect();
        for (slots, ring) in [(0, 0), (0, 4), (0, 32), (5, 8), (24, 16), (64, 16)] {
            for crossover in [0, 50, 1000] {
                let mut some = CudaBackend::load(split(cards, slots, ring), (0, 0), PAGES, |_| {}).unwrap();
                some.hosted.as_mut().unwrap().measured.crossover = crossover;
                let what = format!("{slots} slots, ring {ring}, crossover {crossover}");
                close(&what, &step(&mut some, &prompt, 0).unwrap(), &expected);
                let found = (100..)
                    .zip(&next)
                    .map(|(at, expected)| distance(&step(&mut some, &[at as u32], at).unwrap(), expected));
                near(&what, found.collect());
            }
        }
    });
}

/// What a layer lacks comes over the bus, all of it or what there is room for, and the host computes what is left.
#[test]
fn experts_that_come_while_the_host_computes_are_what_they_are() {
    with_card(|cards| {
        let prompt = tokens(60);
        let mut cpu = CpuBackend::new(plan(cards, Placement::Cpu), PAGES).unwrap();
        let expected = step(&mut cpu, &prompt, 0).unwrap();
        let next: Vec<Vec<f32>> = (60..90).map(|at| step(&mut cpu, &[at as u32], at).unwrap()).collect();
        for (slots, ring) in [(0, 4), (0, 32), (24, 16), (64, 16)] {
            let mut plan = split(cards, slots, ring);
            plan.split_options.residency = ResidencyMode::Off;
            let mut some = CudaBackend::load(plan, (0, 0), PAGES, |_| {}).unwrap();
            let hosted = some.hosted.as_mut().unwrap();
            hosted.measured = Measured { link: 1e15, read: 1.0, crossover: 1000 };
            hosted.fetching = [1, 60].map(|rows| hosted.fetching_of(rows));
            let copied = hosted.copier.bytes;
            let what = format!("{slots} slots, ring {ring}");
            close(&what, &step(&mut some, &prompt, 0).unwrap(), &expected);
            let hosted = some.hosted.as_mut().unwrap();
            let lacks = slots < 64;
            assert_eq!([hosted.fetches(), hosted.copier.bytes > copied], [lacks; 2], "{what}");
            let (copied, read) = (hosted.copier.bytes, hosted.server.spent.bytes);
            let found = (60..)
                .zip(&next)
                .map(|(at, expected)| distance(&step(&mut some, &[at as u32], at).unwrap(), expected));
            near(&what, found.collect());
            let hosted = some.hosted.as_mut().unwrap();
            assert_eq!([hosted.fetches(), hosted.copier.bytes > copied], [lacks; 2], "{what}");
            // With room for all of a row nothing is left for the host.
            assert_eq!(hosted.server.spent.bytes > read, ring == 4, "{what}");
            // Where it never pays, steps have no kernels for it.
            hosted.fetching = [Fetching::default(); 2];
            hosted.measured = Measured { link: 1.0, read: 1e15, ..hosted.measured };
            let copied = hosted.copier.bytes;
            (0..100).for_each(|_| drop(step(&mut some, &[5], 90).unwrap()));
            let hosted = some.hosted.as_mut().unwrap();
            assert!(!hosted.fetches(), "{what}");
            assert_eq!(hosted.copier.bytes, copied, "{what}");
        }
    });
}

#[test]
fn experts_that_move_while_steps_run_stay_what_they_are() {
    with_card(|cards| {
        let mut cpu = CpuBackend::new(plan(cards, Placement::Cpu), PAGES).unwrap();
        let mut some = CudaBackend::load(split(cards, 11, 16), (0, 0), PAGES, |_| {}).unwrap();
        let rules = Rules { margin: 0, moves: 6, delay: 2, ..Rules::default() };
        some.hosted.as_mut().unwrap().residency.set_rules(rules);
        let (mut random, mut moved) = (1_u64, 0);
        for round in 0..12 {
            let mut distances = Vec::new();
            for at in 0..100 {
                let hosted = some.hosted.as_mut().unwrap();
                for layer in 0..hosted.slots.layers.len() {
                    let counts: Vec<u32> = (0..16)
                        .map(|_| {
                            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            (random >> 60) as u32
                        })
                        .collect();
                    hosted.residency.prompted(layer, &counts);
                }
                let token = tokens(100)[at] + round;
                let found = step(&mut some, &[token], at).unwrap();
                let expected = step(&mut cpu, &[token], at).unwrap();
                distances.push(distance(&found, &expected));
            }
            near(&format!("round {round}"), distances);
            let CudaBackend { stream, hosted, .. } = &mut some;
            let hosted = hosted.as_mut().unwrap();
            check_slots(hosted, stream);
            moved = hosted.residency.stats().moves;
        }
        assert!(moved > 2000, "{moved} moves");
    });
}

#[test]
fn a_step_repeats_to_the_bit_while_nothing_moves() {
    with_card(|cards| {
        let mut plan = split(cards, 9, 8);
        plan.split_options.residency = ResidencyMode::Off;
        let mut some = CudaBackend::load(plan, (0, 0), PAGES, |_| {}).unwrap();
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let first = bits(step(&mut some, &[17], 0).unwrap());
        for _ in 0..50 {
            assert_eq!(bits(step(&mut some, &[17], 0).unwrap()), first, "eager and graph");
        }
        assert_eq!(some.hosted.as_ref().unwrap().residency.stats().moves, 0);
    });
}

#[test]
fn a_host_that_fails_is_an_error_and_the_engine_goes_on() {
    with_card(|cards| {
        let mut some = CudaBackend::load(split(cards, 0, 8), (0, 0), PAGES, |_| {}).unwrap();
        let expected = step(&mut some, &[17], 0).unwrap();
        for graph in [false, true] {
            for layer in 0..4 {
                some.hosted.as_mut().unwrap().server.fault = Some(layer);
                let error = step(&mut some, &[17], 0).unwrap_err();
                let text = error.to_string();
                assert!(matches!(error, EngineError::HostExperts { .. }), "{text}");
                assert!(text.contains("planted"), "{text}");
                some.hosted.as_mut().unwrap().server.fault = None;
                assert_eq!(step(&mut some, &[17], 0).unwrap(), expected, "graph: {graph}");
            }
        }
    });
}
