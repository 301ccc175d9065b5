//! What is evicted first, what comes back, and what a flood of prompts costs.

use std::time::{Duration, Instant};

use super::World;
use crate::state::PAGE;
use crate::units::Bytes;

/// `pages` full pages that have nothing in common with those of another `seed`.
fn pages(seed: u32, pages: usize) -> Vec<u32> {
    (0..(pages * PAGE) as u32).map(|position| seed * 100_000 + position).collect()
}

#[test]
fn what_was_used_last_stays() {
    let mut world = World::new(6, 0);
    (0..3).for_each(|seed| world.remember(&pages(seed, 2)));
    let sequence = world.open();
    assert_eq!(world.adopt(sequence, &pages(0, 2)), 2 * PAGE);
    world.close(sequence);
    world.remember(&pages(3, 1));
    world.check();
    // The end of the least recently used goes first.
    assert_eq!([0, 1, 2, 3].map(|seed| world.known(&pages(seed, 2)) / PAGE), [2, 1, 2, 1]);
    world.remember(&pages(4, 3));
    assert_eq!([0, 1, 2, 3, 4].map(|seed| world.known(&pages(seed, 3)) / PAGE), [2, 0, 0, 1, 3]);
    world.check();
}

#[test]
fn a_common_beginning_outlives_its_branches() {
    let mut world = World::new(4, 0);
    let branch = |seed| [pages(0, 1), pages(seed, 1)].concat();
    (1..=3).for_each(|seed| world.remember(&branch(seed)));
    assert_eq!(world.stats().free_pages, 0);
    world.remember(&pages(9, 2));
    assert_eq!([1, 2, 3].map(|seed| world.known(&branch(seed)) / PAGE), [1, 1, 2]);
    world.check();
}

#[test]
fn pages_in_use_are_not_evicted() {
    let mut world = World::new(3, 0);
    let sequence = world.open();
    assert!(world.feed(sequence, &pages(0, 2)));
    world.publish(sequence);
    let other = world.open();
    assert!(!world.feed(other, &pages(1, 2)), "one page is free");
    assert_eq!(world.known(&pages(0, 2)), 2 * PAGE, "nothing was evicted in vain");
    world.check();
    world.close(sequence);
    assert!(world.feed(other - 1, &pages(1, 2)));
    world.check();
}

#[test]
fn parked_pages_come_back_as_they_were() {
    let mut world = World::new(4, 8);
    (0..3).for_each(|seed| world.remember(&pages(seed, 4)));
    let stats = world.stats();
    assert_eq!((stats.evicted, stats.parked_pages, stats.dropped), (8, 8, 0));
    let sequence = world.open();
    for seed in [0, 1, 2, 1, 0] {
        assert_eq!(world.adopt(sequence, &pages(seed, 4)), 4 * PAGE, "{seed}");
        world.check();
    }
    assert_eq!(world.stats().restored, 20);
}

#[test]
fn the_least_recently_parked_is_dropped_for_more_recent_ones() {
    let mut world = World::new(2, 3);
    (0..3).for_each(|seed| world.remember(&pages(seed, 2)));
    world.check();
    assert_eq!([0, 1, 2].map(|seed| world.known(&pages(seed, 2)) / PAGE), [1, 2, 2]);
    let stats = world.stats();
    assert_eq!((stats.parked_pages, stats.dropped, stats.parked_bytes), (3, 1, stats.budget));
}

#[test]
fn a_beginning_is_shorter_where_there_is_no_room_to_bring_it_back() {
    let mut world = World::new(4, 8);
    world.remember(&pages(0, 4));
    let blocker = world.open();
    assert!(world.feed(blocker, &pages(1, 2)));
    let (sequence, wanted) = (world.open(), pages(0, 4));
    assert_eq!(world.known(&wanted), 4 * PAGE);
    assert_eq!(world.adopt(sequence, &wanted), 2 * PAGE);
    world.check();
    assert_eq!(world.known(&wanted), 4 * PAGE, "the rest is still parked");
    world.close(blocker);
    assert_eq!(world.adopt(sequence - 1, &wanted), 4 * PAGE);
    world.check();
}

#[test]
fn the_beginning_of_what_is_used_is_as_recent_as_its_end() {
    let mut world = World::new(4, 3);
    let (sequence, growing) = (world.open(), pages(0, 3));
    for end in 1..=3 {
        if end == 3 {
            world.remember(&pages(1, 1));
        }
        assert!(world.feed(sequence, &growing[(end - 1) * PAGE..end * PAGE]));
        world.publish(sequence);
    }
    world.close(sequence);
    world.remember(&pages(2, 4));
    world.check();
    assert_eq!((world.known(&growing), world.known(&pages(1, 1))), (3 * PAGE, 0));
}

#[test]
fn nothing_is_dropped_for_what_was_used_before_it() {
    let mut world = World::new(2, 1);
    let sequence = world.open();
    assert!(world.feed(sequence, &pages(0, 1)));
    world.publish(sequence);
    world.remember(&pages(1, 1));
    world.remember(&pages(2, 1));
    world.close(sequence);
    world.remember(&pages(3, 1));
    world.check();
    assert_eq!([0, 1, 2, 3].map(|seed| world.known(&pages(seed, 1)) / PAGE), [0, 1, 1, 1]);
}

#[test]
fn what_a_sequence_has_is_not_lost_to_a_longer_match_that_cannot_come_back() {
    let mut world = World::new(4, 8);
    let prompt = [pages(0, 1), pages(1, 1)[..20].to_vec()].concat();
    let sequence = world.open();
    assert!(world.feed(sequence, &prompt[..PAGE + 6]));
    world.remember(&prompt);
    world.publish(sequence);
    let blocker = world.open();
    assert!(world.feed(blocker, &pages(2, 2)));
    assert_eq!((world.known(&prompt), world.stats().parked_pages), (prompt.len(), 1));
    assert_eq!(world.adopt(sequence, &prompt), PAGE + 6);
    world.check();
}

#[test]
fn a_page_under_one_in_use_makes_room_too() {
    let mut world = World::new(3, 8);
    let prompt = pages(0, 2);
    world.remember(&prompt[..PAGE]);
    let original = world.open();
    assert!(world.feed(original, &prompt[..PAGE + 10]));
    let fork = world.sequences[original].fork(&mut world.cache.pool);
    world.sequences.push(fork);
    world.publish(original + 1);
    world.close(original + 1);
    let stats = world.stats();
    assert_eq!((stats.free_pages, stats.idle_pages, stats.resident_pages), (0, 1, 2));
    let other = world.open();
    assert!(world.feed(other, &pages(1, 1)));
    world.check();
}

#[test]
fn a_parked_page_is_replaced_by_one_computed_again() {
    let mut world = World::new(4, 8);
    world.remember(&pages(0, 4));
    world.remember(&pages(1, 4));
    assert_eq!(world.stats().parked_pages, 4);
    let sequence = world.open();
    assert!(world.feed(sequence, &pages(0, 3)));
    world.publish(sequence);
    let stats = world.stats();
    assert_eq!((stats.restored, stats.parked_pages), (0, 4), "three came, three went");
    world.check();
}

#[test]
fn sequences_of_the_same_tokens_end_up_with_the_same_pages() {
    let mut world = World::new(8, 0);
    let prompt = [pages(0, 2), vec![7; 10]].concat();
    for sequence in 0..2 {
        world.open();
        assert!(world.feed(sequence, &prompt));
    }
    assert_eq!(world.stats().free_pages, 2);
    world.publish(0);
    world.publish(1);
    assert_eq!(world.sequences[0].pages()[..2], world.sequences[1].pages()[..2]);
    assert_eq!(world.stats().free_pages, 4, "each has an end of its own");
    world.check();
}

#[test]
fn publishing_an_open_page_costs_no_copy() {
    let mut world = World::new(3, 0);
    let sequence = world.open();
    let prompt = pages(0, 2);
    for position in 0..prompt.len() {
        assert!(world.feed(sequence, &prompt[position..=position]));
        world.publish(sequence);
        assert_eq!(world.known(&prompt), position + 1);
        assert_eq!(world.stats().free_pages, 3 - (position + 1).div_ceil(PAGE));
    }
    world.check();
}

#[test]
fn drafts_that_are_taken_back_cost_no_copy() {
    let mut world = World::new(1, 0);
    let (sequence, tokens) = (world.open(), pages(0, 1));
    for position in 0..50 {
        world.truncate(sequence, position);
        assert!(world.feed(sequence, &tokens[position..position + 9]));
        world.truncate(sequence, position + 1);
        world.publish(sequence);
    }
    assert_eq!(world.known(&tokens), 50);
    world.check();
}

#[test]
fn a_full_pool_lets_its_only_sequence_write_to_a_page_that_the_tree_has() {
    let mut world = World::new(1, 0);
    let sequence = world.open();
    assert!(world.feed(sequence, &pages(0, 1)));
    world.publish(sequence);
    world.truncate(sequence, 10);
    assert!(world.feed(sequence, &[1, 2, 3]));
    world.check();
    assert_eq!(world.known(&pages(0, 1)), 0);
}

#[test]
fn forgetting_stops_where_another_sequence_branches_off() {
    let mut world = World::new(20, 0);
    let (a, b) = ([pages(0, 2), pages(1, 2)].concat(), [pages(0, 2), pages(2, 1), vec![5; 3]].concat());
    world.remember(&a);
    world.remember(&b);
    world.cache.forget(&a);
    world.check();
    assert_eq!((world.known(&a), world.known(&b)), (2 * PAGE, b.len()));
    world.cache.forget(&b[..b.len() - 1]);
    assert_eq!(world.known(&b), b.len(), "a longer sequence needs all of it");
    world.cache.forget(&b);
    world.check();
    assert_eq!(world.stats().free_pages, 20);
}

#[test]
fn a_flood_of_prompts_stays_in_bounds_and_is_searched_fast() {
    const PROMPTS: u32 = 10_000;
    const POOL: u32 = 11_000;
    // All begin alike, so that all are children of one node, and differ from the second token of their page on.
    let prompt = |seed: u32| {
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        let mut tokens = pages(0, 1);
        tokens.push(1);
        tokens.extend((0..40).map(|_| random()));
        tokens
    };
    let mut world = World::new(POOL, 50);
    let start = Instant::now();
    (0..PROMPTS).for_each(|seed| world.remember(&prompt(seed)));
    let remembering = start.elapsed() / PROMPTS;
    world.check();
    assert_eq!(world.stats().resident_pages, PROMPTS as usize + 1);
    let prompts: Vec<_> = (0..PROMPTS).map(prompt).collect();
    let mut finding = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        assert!(prompts.iter().all(|prompt| world.known(prompt) == prompt.len()));
        finding = finding.min(start.elapsed() / PROMPTS);
    }
    println!("remembering {remembering:?}, finding {finding:?} a prompt");
    assert!(finding < Duration::from_micros(20), "{finding:?}");
    (PROMPTS..PROMPTS + 3000).for_each(|seed| world.remember(&prompt(seed)));
    let stats = world.stats();
    assert_eq!((stats.free_pages, stats.parked_pages), (0, 50));
    assert_eq!(world.cache.tree.nodes.iter().count(), POOL as usize + 50);
    assert!(stats.parked_bytes <= stats.budget && stats.budget > Bytes(0));
    world.check();
}
