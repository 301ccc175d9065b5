//! Random sequences of everything that sessions do, several of them, with little room.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use super::hybrid::{Counts, Room, engine, furnish, hash_of, logits_of, words};
use crate::engine::{Engine, Logits, Turn};
use crate::error::EngineError;
use crate::session::Session;
use crate::state::{PAGE, StateId, StateRef};

const SESSIONS: usize = 4;
const BRANCHES: [(usize, usize); 6] = [(0, 0), (0, 5), (0, 64), (0, 300), (3, 400), (3, 390)];
const LONGEST: usize = 9 * PAGE;

fn prompt(branch: usize, len: usize) -> Vec<u32> {
    let (parent, common) = BRANCHES[branch];
    let mut tokens = if branch == 0 { Vec::new() } else { prompt(parent, common.min(len)) };
    tokens.extend((tokens.len()..len).map(|position| (600 * branch + position) as u32 % 3000));
    tokens
}

#[derive(Debug, Clone)]
enum Deed {
    Open,
    Feed {
        who: usize,
        branch: usize,
        count: usize,
    },
    /// A token each, in one step.
    Decode,
    /// Guesses of which so many are right.
    Guess {
        who: usize,
        guesses: usize,
        right: usize,
    },
    Adopt {
        who: usize,
        branch: usize,
        len: usize,
    },
    KeepCommon {
        who: usize,
        branch: usize,
        len: usize,
    },
    Truncate {
        who: usize,
        len: usize,
    },
    Fork {
        who: usize,
    },
    Publish {
        who: usize,
        ended: bool,
    },
    Branch {
        who: usize,
        len: usize,
    },
    Close {
        who: usize,
    },
    Restore {
        from: usize,
        to: usize,
    },
    /// The step after the next `steps` fails.
    Fail {
        steps: usize,
    },
    Forget {
        branch: usize,
        len: usize,
    },
    Clear,
}

fn deed() -> impl Strategy<Value = Deed> {
    let (who, branch, len) = (0..SESSIONS, 0..BRANCHES.len(), 0..LONGEST);
    let place = (who.clone(), branch.clone(), len.clone());
    prop_oneof![
        3 => Just(Deed::Open),
        8 => (who.clone(), branch.clone(), 0usize..200).prop_map(|(who, branch, count)| Deed::Feed { who, branch, count }),
        6 => Just(Deed::Decode),
        4 => (who.clone(), 1usize..8, 0usize..8).prop_map(|(who, guesses, right)| Deed::Guess { who, guesses, right: right.min(guesses) }),
        6 => place.clone().prop_map(|(who, branch, len)| Deed::Adopt { who, branch, len }),
        1 => place.prop_map(|(who, branch, len)| Deed::KeepCommon { who, branch, len }),
        3 => (who.clone(), len.clone()).prop_map(|(who, len)| Deed::Truncate { who, len }),
        2 => who.clone().prop_map(|who| Deed::Fork { who }),
        4 => (who.clone(), any::<bool>()).prop_map(|(who, ended)| Deed::Publish { who, ended }),
        1 => (who.clone(), len.clone()).prop_map(|(who, len)| Deed::Branch { who, len }),
        2 => who.clone().prop_map(|who| Deed::Close { who }),
        2 => (who.clone(), who.clone()).prop_map(|(from, to)| Deed::Restore { from, to }),
        1 => (0usize..3).prop_map(|steps| Deed::Fail { steps }),
        1 => (branch, len).prop_map(|(branch, len)| Deed::Forget { branch, len }),
        1 => Just(Deed::Clear),
    ]
}

struct World<'a> {
    engine: &'a Engine,
    counts: &'a Counts,
    /// Sessions, and the tokens that they should have.
    sessions: Vec<(Session, Vec<u32>)>,
}

impl World<'_> {
    /// Whether the step was run; if not, nothing may have happened.
    fn fine<T>(&self, result: Result<T, EngineError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(EngineError::Stopped | EngineError::PoolExhausted { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn vocab(&self) -> usize {
        self.engine.model().vocab
    }

    fn execute(&mut self, deed: &Deed) {
        let open = self.sessions.len();
        match *deed {
            Deed::Open if open < SESSIONS => self.sessions.push((self.engine.session().unwrap(), Vec::new())),
            Deed::Feed { who, branch, count } if who < open && count > 0 => {
                let vocab = self.vocab();
                let (session, tokens) = &mut self.sessions[who];
                let end = LONGEST.min(tokens.len() + count);
                let more = prompt(branch, end).split_off(tokens.len().min(end));
                if more.is_empty() {
                    return;
                }
                let result = session.prefill(&more).map(<[f32]>::to_vec);
                if let Some(logits) = self.fine(result) {
                    let tokens = &mut self.sessions[who].1;
                    tokens.extend(more);
                    assert_eq!(logits, logits_of(tokens, vocab));
                }
            }
            Deed::Decode if open > 0 => self.decode(),
            Deed::Guess { who, guesses, right } if who < open => self.guess(who, guesses, right),
            Deed::Adopt { who, branch, len } if who < open => {
                let wanted = prompt(branch, len);
                let (session, tokens) = &mut self.sessions[who];
                let known = session.adopt(&wanted).unwrap();
                assert!(known <= len.saturating_sub(1) && !session.owes());
                *tokens = wanted[..known].to_vec();
            }
            Deed::KeepCommon { who, branch, len } if who < open => {
                let wanted = prompt(branch, len);
                let (session, tokens) = &mut self.sessions[who];
                let known = session.keep_common(&wanted).unwrap();
                assert!(tokens.starts_with(&wanted[..known]) && !session.owes());
                tokens.truncate(known);
            }
            Deed::Truncate { who, len } if who < open => {
                let (session, tokens) = &mut self.sessions[who];
                let len = len.min(tokens.len());
                session.truncate(len).unwrap();
                tokens.truncate(len);
            }
            Deed::Fork { who } if who < open && open < SESSIONS => {
                let (session, tokens) = &self.sessions[who];
                let fork = (session.fork().unwrap(), tokens.clone());
                self.sessions.push(fork);
            }
            Deed::Publish { who, ended: true } if who < open => self.sessions[who].0.publish(),
            Deed::Publish { who, .. } if who < open => self.sessions[who].0.publish_running(),
            Deed::Branch { who, len } if who < open => self.sessions[who].0.branch_at(len),
            Deed::Close { who } if who < open => drop(self.sessions.remove(who)),
            Deed::Restore { from, to } if from < open && to < open => {
                let snapshot = self.sessions[from].0.snapshot().unwrap();
                let restored = self.sessions[to].0.restore(&snapshot);
                let tokens =
                    if self.fine(restored).is_some() { self.sessions[from].1.clone() } else { Vec::new() };
                self.sessions[to].1 = tokens;
            }
            Deed::Fail { steps } => self.counts.fuse.store(1 + steps, Ordering::Relaxed),
            Deed::Forget { branch, len } => self.engine.forget_prefix(&prompt(branch, len)),
            Deed::Clear => self.engine.clear_prefixes(),
            _ => {}
        }
    }

    fn decode(&mut self) {
        let vocab = self.vocab();
        let tokens: Vec<[u32; 1]> = (0..self.sessions.len()).map(|who| [900 + who as u32]).collect();
        let mut turns: Vec<Turn<'_>> = self
            .sessions
            .iter_mut()
            .zip(&tokens)
            .map(|((session, _), tokens)| Turn::new(session, tokens, Logits::Last))
            .collect();
        let result = self.engine.step(&mut turns);
        let logits: Vec<Vec<f32>> = turns.iter().map(|turn| turn.logits().to_vec()).collect();
        drop(turns);
        if self.fine(result).is_some() {
            for (who, logits) in logits.into_iter().enumerate() {
                self.sessions[who].1.push(tokens[who][0]);
                assert_eq!(logits, logits_of(&self.sessions[who].1, vocab));
            }
        }
    }

    fn guess(&mut self, who: usize, guesses: usize, right: usize) {
        let vocab = self.vocab();
        let (session, _) = &mut self.sessions[who];
        let guesses = guesses.min(self.engine.guess_room(1));
        let owed = session.owes();
        let rows: Vec<u32> = (0..=guesses as u32).map(|row| 700 + row).collect();
        let result = session.feed((&rows, &[]), Logits::All, |turn| turn.checking());
        let Some(readout) = self.fine(result) else { return };
        let (session, tokens) = &mut self.sessions[who];
        for row in 0..=guesses {
            let past = [&tokens[..], &rows[..=row]].concat();
            assert_eq!(readout.row((row, guesses + 1)), logits_of(&past, vocab));
        }
        let kept = 1 + right.min(guesses);
        tokens.extend_from_slice(&rows[..kept]);
        session.ahead = rows.len() - kept;
        assert_eq!(session.len(), tokens.len());
        session.settle();
        assert!(owed || !session.owes(), "a state is missing after {kept} of {} rows", rows.len());
    }

    /// Everything that must hold between operations.
    fn check(&self) {
        let mut backend = self.engine.inner.backend().unwrap();
        let cache = self.engine.inner.cache();
        let mut holders = BTreeMap::<StateId, (u32, u32, bool)>::new();
        let mut content = |state: StateRef| {
            let mut bytes = Vec::new();
            backend.read_state(state.id(), &mut bytes);
            words(&bytes)
        };
        for (session, tokens) in &self.sessions {
            assert_eq!(session.tokens(), tokens);
            let state = &session.state;
            let known = state.known();
            assert_eq!(known.last().map_or(0, |last| last.len), state.len(), "it goes on from its end");
            assert!(known.is_sorted_by(|a, b| a.len < b.len), "{known:?}");
            for (index, known) in known.iter().enumerate() {
                let last = index + 1 == state.known().len();
                assert!(!last || cache.pool.states.has(known.state), "the end is gone");
                if cache.pool.states.has(known.state) {
                    let expected = (known.len as u64, hash_of(&tokens[..known.len]));
                    assert_eq!(content(known.state), expected);
                    let holder = holders.entry(known.state.id()).or_default();
                    (holder.0, holder.1) = (holder.0 + 1, holder.1 + u32::from(last));
                }
            }
        }
        let (mut parked, mut resident) = (0, 0);
        for (tokens, place) in cache.checkpoints() {
            let expected = (tokens.len() as u64, hash_of(&tokens));
            match place {
                Ok(state) => {
                    assert!(cache.pool.states.has(state));
                    assert_eq!(content(state), expected);
                    holders.entry(state.id()).or_default().2 = true;
                    resident += 1;
                }
                Err(bytes) => {
                    assert_eq!(words(bytes), expected);
                    parked += 1;
                }
            }
        }
        let stats = cache.stats();
        assert_eq!((stats.resident_states, stats.parked_states), (resident, parked));
        assert!(stats.parked_bytes <= stats.budget);
        assert_eq!(stats.free_states + holders.len(), stats.total_states, "slots that nobody has");
        for (id, holder) in holders {
            let (owners, ends, kept) = cache.pool.states.holders(id);
            assert_eq!((owners, ends, kept.is_some()), holder, "slot {id}");
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1500,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn no_step_ever_meets_a_state_of_another_text() {
    let (engine, _) = engine(Room::of(SESSIONS));
    let room = (
        0usize..16,
        0usize..6,
        prop_oneof![Just(4 * 9usize + 4), 10usize..40],
        prop_oneof![Just(0), 0usize..20_000],
    );
    let deeds = prop::collection::vec(deed(), 1..60);
    let run = |((extra, reserve, pages, parked), deeds): ((usize, usize, usize, usize), Vec<Deed>)| {
        let room = Room { pages, slots: SESSIONS + extra, reserve, parked, ..Room::of(SESSIONS) };
        let counts = furnish(&engine, room);
        let mut world = World { engine: &engine, counts: &counts, sessions: Vec::new() };
        for deed in &deeds {
            world.execute(deed);
            world.check();
        }
        counts.fuse.store(0, Ordering::Relaxed);
        world.decode();
        world.sessions.clear();
        engine.clear_prefixes();
        world.check();
        prop_assert_eq!(engine.prefix_stats().free_states, room.slots);
        Ok(())
    };
    TestRunner::new(config()).run(&(room, deeds), run).unwrap();
}
