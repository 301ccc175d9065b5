//! How often what is chosen is found on the card, beside other policies.

use super::rivals::{even, late_lru, lru, oracle};
use super::trace::{Skew, Trace};
use crate::residency::{LayerShape, PoolShape, Residency, Rules, Shape};

/// One pool of `slots` for all layers of a trace.
pub(super) fn shape(trace: &Trace, slots: usize, ring: usize) -> Shape {
    let layer = LayerShape { experts: trace.experts, used: trace.used, pool: Some(0), resident: true };
    Shape { layers: vec![layer; trace.layers], pools: vec![PoolShape { slots, ring, expert_bytes: 1 }] }
}

/// Decodes all rows from `first` on; percent of their choices that were on the card, and moves a row.
pub(super) fn decode(residency: &mut Residency, trace: &Trace, first: usize) -> (f64, f64) {
    let before = residency.stats();
    let mut rows = 0;
    for (step, row) in (0..).zip(trace.rows()).skip(first) {
        residency.land(step);
        row.enumerate().for_each(|(layer, chosen)| residency.decoded(layer, chosen));
        residency.plan(step);
        rows += 1;
    }
    let after = residency.stats();
    let chosen = (after.chosen - before.chosen) as f64;
    let moves = (after.moves - before.moves) as f64 / f64::from(rows);
    (100.0 * (after.on_card - before.on_card) as f64 / chosen, moves)
}

/// Percent of hits and moves a row, when it begins with nothing, and when it begins with the heat of an earlier run.
fn ours(trace: &Trace, slots: usize, ring: usize, rules: Rules) -> [(f64, f64); 2] {
    let shape = shape(trace, slots, ring);
    let mut cold = Residency::new(shape.clone(), rules, None);
    let begun_cold = decode(&mut cold, trace, 0);
    [begun_cold, decode(&mut Residency::new(shape, rules, Some(&cold.heat())), trace, 0)]
}

const BASE: Skew = Skew {
    name: "128/8, repeats",
    layers: 48,
    experts: 128,
    used: 8,
    rows: 1000,
    zipf: 100,
    again: 45,
    topic: 300,
    reshuffled: 50,
};

fn traces() -> Vec<Trace> {
    vec![
        Trace::stories(),
        BASE.trace(1),
        Skew { name: "128/8, more repeats", again: 60, ..BASE }.trace(2),
        Skew { name: "128/8, no repeats", again: 0, ..BASE }.trace(3),
        Skew { name: "128/8, less skew", zipf: 50, ..BASE }.trace(4),
        Skew { name: "128/8, topics of 100", topic: 100, ..BASE }.trace(5),
        Skew { name: "256/6, repeats", layers: 40, experts: 256, used: 6, ..BASE }.trace(6),
    ]
}

#[test]
fn hits_are_as_many_as_with_the_best_other_policy() {
    let rules = Rules::default();
    println!(
        "percent of choices on the card; LRU* copies at once and for nothing, warm begins with the heat of cold"
    );
    println!("{:<22} slots   even oracle   LRU*    LRU   cold moves   warm", "");
    for trace in traces() {
        for share in [5, 15, 30, 50] {
            let slots = trace.layers * trace.experts * share / 100;
            let ring = (slots / 8).clamp(16, 2 * trace.experts);
            let [(cold, moves), (warm, _)] = ours(&trace, slots, ring, rules);
            let (even, oracle, free) = (even(&trace, slots), oracle(&trace, slots), lru(&trace, slots));
            let late = late_lru(&trace, slots, rules.moves, rules.delay as usize);
            let name = trace.name;
            print!("{name:<22} {share:>4}% {even:>6.1} {oracle:>6.1} {free:>6.1} {late:>6.1}");
            println!(" {cold:>6.1} {moves:>5.1} {warm:>6.1}");
            let best = even.max(oracle).max(late);
            // The oracle knows the whole trace before it begins. To learn it takes up to 2500 moves, 16 a row. Where experts differ
            // little in the long run, what the last 100 rows chose says less than that.
            assert!(warm > best - 2.0 && cold > best - 3.0, "{name} with {share} %");
            assert!(warm > cold - 0.2, "{name} with {share} %: heat is a good beginning");
            // Where a row chooses about as many experts as there are slots, LRU has nothing left when it is needed.
            if slots <= trace.layers * trace.used {
                assert!(cold > free + 10.0 && cold > late + 5.0, "{name} with {share} %");
            }
        }
    }
}

/// Of a model with 128 experts, 45 % of the choices are reported to be made again by the next row and 80 % by one of the next
/// eight.
#[test]
fn made_up_traces_repeat_as_models_do() {
    for trace in traces()
        .into_iter()
        .filter(|trace| trace.name.starts_with("128/8") && trace.name.ends_with("repeats"))
    {
        let (next, eight) = (trace.again(1), trace.again(8));
        println!("{}: {next:.1} % again in the next row, {eight:.1} % in the next eight", trace.name);
        let none = trace.name.contains("no ");
        assert!(none || (next - 45.0).abs() < 5.0 && (eight - 80.0).abs() < 6.0, "{next} {eight}");
    }
}

#[test]
fn where_copies_cost_nothing_the_rules_can_be_those_of_lru() {
    let rules = Rules { moves: usize::MAX, delay: 1, half_life: 4, margin: 128, ..Rules::default() };
    for trace in traces().into_iter().filter(|trace| trace.layers > 4) {
        for share in [30, 50] {
            let slots = trace.layers * trace.experts * share / 100;
            let [(ours, _), _] = ours(&trace, slots, 2 * trace.layers * trace.experts, rules);
            let free = lru(&trace, slots);
            assert!(ours > free - 1.0, "{} with {share} %: {ours} for {free}", trace.name);
        }
    }
}

#[test]
fn a_prompt_says_what_its_answer_will_choose() {
    const PROMPT: usize = 256;
    let trace = Skew { rows: PROMPT + 24, topic: 10_000, ..BASE }.trace(7);
    let slots = trace.layers * trace.experts * 15 / 100;
    let answered = |told: bool| {
        let mut residency = Residency::new(shape(&trace, slots, 256), Rules::default(), None);
        if told {
            let mut counts = vec![vec![0; trace.experts]; trace.layers];
            for row in trace.rows().take(PROMPT) {
                for (counts, chosen) in counts.iter_mut().zip(row) {
                    chosen.iter().for_each(|expert| counts[*expert as usize] += 1);
                }
            }
            counts.iter().enumerate().for_each(|(layer, counts)| residency.prompted(layer, counts));
            residency.plan_at_most(0, usize::MAX);
        }
        decode(&mut residency, &trace, PROMPT).0
    };
    let (told, untold) = (answered(true), answered(false));
    println!("the first 24 rows after a prompt: {told:.1} %, without its counts {untold:.1} %");
    assert!(told > untold + 5.0, "{told} {untold}");
}
