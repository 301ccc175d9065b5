//! Random sequences of everything that sessions do.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::World;
use crate::state::PAGE;

/// Prompts that begin alike up to some position and then part.
const BRANCHES: [(usize, usize); 7] = [(0, 0), (0, 5), (0, 64), (0, 100), (3, 130), (3, 128), (4, 190)];
const LONGEST: usize = 5 * PAGE;

fn prompt(branch: usize, len: usize) -> Vec<u32> {
    let (parent, common) = BRANCHES[branch];
    let mut tokens = if branch == 0 { Vec::new() } else { prompt(parent, common.min(len)) };
    tokens.extend((tokens.len()..len).map(|position| (1000 * branch + position) as u32));
    tokens
}

#[derive(Debug, Clone)]
enum Deed {
    Open,
    Feed { sequence: usize, branch: usize, count: usize },
    Adopt { sequence: usize, branch: usize, len: usize },
    Truncate { sequence: usize, len: usize },
    Fork { sequence: usize },
    Publish { sequence: usize },
    Close { sequence: usize },
    Forget { branch: usize, len: usize },
    Clear,
    Resize { pages: u32 },
}

fn deed() -> impl Strategy<Value = Deed> {
    let (branch, len, count) = (0..BRANCHES.len(), 0..LONGEST, 0..2 * PAGE);
    prop_oneof![
        2 => Just(Deed::Open),
        8 => (0usize..4, branch.clone(), count).prop_map(|(sequence, branch, count)| Deed::Feed { sequence, branch, count }),
        6 => (0usize..4, branch.clone(), len.clone()).prop_map(|(sequence, branch, len)| Deed::Adopt { sequence, branch, len }),
        2 => (0usize..4, len.clone()).prop_map(|(sequence, len)| Deed::Truncate { sequence, len }),
        1 => (0usize..4).prop_map(|sequence| Deed::Fork { sequence }),
        4 => (0usize..4).prop_map(|sequence| Deed::Publish { sequence }),
        2 => (0usize..4).prop_map(|sequence| Deed::Close { sequence }),
        1 => (branch, len).prop_map(|(branch, len)| Deed::Forget { branch, len }),
        1 => Just(Deed::Clear),
        2 => (1u32..24).prop_map(|pages| Deed::Resize { pages }),
    ]
}

/// Does what a deed says where there is a session to do it with. Returns a sequence whose beginnings are remembered
/// from now on.
fn execute(world: &mut World, deed: &Deed) -> Option<Vec<u32>> {
    let sessions = world.sequences.len();
    match *deed {
        Deed::Open if sessions < 4 => {
            world.open();
        }
        Deed::Feed { sequence, branch, count } if sequence < sessions => {
            let state = &world.sequences[sequence];
            let (start, end) = (state.len(), LONGEST.min(state.len() + count));
            let needed = state.needs(end - start, &world.cache.pool);
            let copied = state.copied_page(end - start, &world.cache.pool);
            let spared = copied.is_some_and(|page| world.cache.pool.is_kept_for_one(page));
            let fits = needed - usize::from(spared) <= world.cache.obtainable();
            assert_eq!(world.feed(sequence, &prompt(branch, end)[start..]), fits, "{needed} pages");
        }
        Deed::Adopt { sequence, branch, len } if sequence < sessions => {
            let tokens = prompt(branch, len);
            let old = world.sequences[sequence].tokens().to_vec();
            let own = old.iter().zip(&tokens).take_while(|(a, b)| a == b).count();
            let adopted = world.adopt(sequence, &tokens);
            assert!(adopted >= own);
            assert_eq!(world.sequences[sequence].tokens(), &tokens[..adopted]);
            return Some(old);
        }
        Deed::Truncate { sequence, len } if sequence < sessions => {
            world.truncate(sequence, len.min(world.sequences[sequence].len()));
        }
        Deed::Fork { sequence } if sequence < sessions && sessions < 4 => {
            let fork = world.sequences[sequence].fork(&mut world.cache.pool);
            world.sequences.push(fork);
        }
        Deed::Publish { sequence } if sequence < sessions => {
            world.publish(sequence);
            return Some(world.sequences[sequence].tokens().to_vec());
        }
        Deed::Close { sequence } if sequence < sessions => world.close(sequence),
        Deed::Forget { branch, len } => {
            let tokens = prompt(branch, len);
            world.cache.forget(&tokens);
        }
        Deed::Clear => {
            world.cache.clear();
            assert_eq!((world.stats().resident_pages, world.stats().parked_pages), (0, 0));
        }
        Deed::Resize { pages } => {
            let held =
                world.sequences.iter().flat_map(|state| state.pages()).max().map_or(0, |page| page + 1);
            assert_eq!(world.resize(pages), held <= pages, "{held} of {pages} pages");
        }
        _ => {}
    }
    None
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 3000,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pages_add_up_and_hold_what_they_should(
        pages in 1u32..24, parked in 0usize..12, deeds in prop::collection::vec(deed(), 1..80),
    ) {
        let mut world = World::new(pages, parked);
        for deed in &deeds {
            execute(&mut world, deed);
            world.check();
        }
        world.cache.clear();
        while !world.sequences.is_empty() {
            world.close(0);
        }
        prop_assert_eq!(world.stats().free_pages, world.stats().total_pages);
    }

    #[test]
    fn with_room_for_all_the_longest_beginning_is_found(
        parked in prop_oneof![Just(0usize), Just(1000)], deeds in prop::collection::vec(deed(), 1..60),
    ) {
        // Four open sequences always find room beside whatever must be parked.
        let mut world = World::new(if parked == 0 { 2000 } else { 4 * 5 + 5 }, parked);
        let mut remembered = Vec::<Vec<u32>>::new();
        let keeps = |deed: &&Deed| !matches!(deed, Deed::Forget { .. } | Deed::Clear | Deed::Resize { .. });
        for deed in deeds.iter().filter(keeps) {
            if let Deed::Adopt { sequence, branch, len } = *deed && sequence < world.sequences.len() {
                let (tokens, own) = (prompt(branch, len), world.sequences[sequence].tokens().to_vec());
                let common = |a: &Vec<u32>| a.iter().zip(&tokens).take_while(|(a, b)| a == b).count();
                let longest = remembered.iter().chain([&own]).map(common).max().unwrap_or(0);
                remembered.extend(execute(&mut world, deed));
                prop_assert_eq!(world.sequences[sequence].len(), longest);
            } else {
                remembered.extend(execute(&mut world, deed));
            }
            world.check();
        }
        prop_assert_eq!(world.stats().dropped, 0);
    }
}
