//! Random sequences of everything that sessions do, several of them, with little room.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use super::layered::{Counts, PAGE_BYTES, Room, engine, furnish, logits_of, results_of};
use crate::engine::{Engine, Logits, Turn};
use crate::error::EngineError;
use crate::session::Session;
use crate::state::{PAGE, Snapshot};

const SESSIONS: usize = 4;
const BRANCHES: [(usize, usize); 6] = [(0, 0), (0, 5), (0, 200), (0, 450), (3, 600), (3, 590)];
const LONGEST: usize = 14 * PAGE;

fn prompt(branch: usize, len: usize) -> Vec<u32> {
    let (parent, common) = BRANCHES[branch];
    let mut tokens = if branch == 0 { Vec::new() } else { prompt(parent, common.min(len)) };
    tokens.extend((tokens.len()..len).map(|position| (900 * branch + position) as u32 % 3000));
    tokens
}

#[derive(Debug, Clone)]
enum Deed {
    Open,
    /// So many tokens, toward an end that may be further away.
    Feed {
        who: usize,
        branch: usize,
        count: usize,
        then: usize,
    },
    /// A token each, and of one session many, in one step.
    Decode {
        many: usize,
    },
    Guess {
        who: usize,
        guesses: usize,
        right: usize,
    },
    All {
        who: usize,
        count: usize,
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
    Shorten {
        who: usize,
        less: usize,
    },
    Fork {
        who: usize,
    },
    Publish {
        who: usize,
        ended: bool,
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
    let feed = (who.clone(), branch.clone(), 0usize..700, prop_oneof![Just(0usize), 0usize..700]);
    prop_oneof![
        3 => Just(Deed::Open),
        10 => feed.prop_map(|(who, branch, count, then)| Deed::Feed { who, branch, count, then }),
        4 => prop_oneof![Just(1), 1usize..500].prop_map(|many| Deed::Decode { many }),
        3 => (who.clone(), 1usize..8, 0usize..8).prop_map(|(who, guesses, right)| Deed::Guess { who, guesses, right: right.min(guesses) }),
        1 => (who.clone(), 1usize..150).prop_map(|(who, count)| Deed::All { who, count }),
        6 => place.clone().prop_map(|(who, branch, len)| Deed::Adopt { who, branch, len }),
        1 => place.prop_map(|(who, branch, len)| Deed::KeepCommon { who, branch, len }),
        4 => (who.clone(), len.clone()).prop_map(|(who, len)| Deed::Truncate { who, len }),
        3 => (who.clone(), 0usize..100).prop_map(|(who, less)| Deed::Shorten { who, less }),
        2 => who.clone().prop_map(|who| Deed::Fork { who }),
        5 => (who.clone(), any::<bool>()).prop_map(|(who, ended)| Deed::Publish { who, ended }),
        2 => who.clone().prop_map(|who| Deed::Close { who }),
        2 => (who.clone(), who.clone()).prop_map(|(from, to)| Deed::Restore { from, to }),
        1 => (0usize..4).prop_map(|steps| Deed::Fail { steps }),
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

    /// The logits of the last `count` rows of a text.
    fn expected(&self, tokens: &[u32], count: usize) -> Vec<f32> {
        let results = results_of(tokens);
        results[tokens.len() - count..]
            .iter()
            .flat_map(|&result| logits_of(result, self.engine.model().vocab))
            .collect()
    }

    fn execute(&mut self, deed: &Deed) {
        let open = self.sessions.len();
        match *deed {
            Deed::Open if open < SESSIONS => self.sessions.push((self.engine.session().unwrap(), Vec::new())),
            Deed::Feed { who, branch, count, then } if who < open => self.feed(who, branch, (count, then)),
            Deed::Decode { many } if open > 0 => self.decode(many),
            Deed::Guess { who, guesses, right } if who < open => self.guess(who, guesses, right),
            Deed::All { who, count } if who < open && self.sessions[who].1.len() + count < LONGEST => {
                let more: Vec<u32> = (0..count as u32).map(|row| 2000 + row).collect();
                let result = self.sessions[who].0.feed((&more, &[]), Logits::All, |turn| turn);
                if let Some(readout) = self.fine(result) {
                    self.sessions[who].1.extend(more);
                    assert!(readout.rows() == self.expected(&self.sessions[who].1, count));
                }
            }
            Deed::Adopt { who, branch, len } if who < open => {
                let wanted = prompt(branch, len);
                let (session, tokens) = &mut self.sessions[who];
                let known = session.adopt(&wanted).unwrap();
                assert!(known <= len.saturating_sub(1));
                *tokens = wanted[..known].to_vec();
            }
            Deed::KeepCommon { who, branch, len } if who < open => {
                let wanted = prompt(branch, len);
                let (session, tokens) = &mut self.sessions[who];
                let known = session.keep_common(&wanted).unwrap();
                assert!(tokens.starts_with(&wanted[..known]));
                tokens.truncate(known);
            }
            Deed::Truncate { who, len } if who < open => {
                let (session, tokens) = &mut self.sessions[who];
                let len = len.min(tokens.len());
                session.truncate(len).unwrap();
                tokens.truncate(len);
            }
            Deed::Shorten { who, less } if who < open => {
                let len = self.sessions[who].1.len().saturating_sub(less);
                self.execute(&Deed::Truncate { who, len });
            }
            Deed::Fork { who } if who < open && open < SESSIONS => {
                let (session, tokens) = &self.sessions[who];
                let fork = (session.fork().unwrap(), tokens.clone());
                self.sessions.push(fork);
            }
            Deed::Publish { who, ended: true } if who < open => self.sessions[who].0.publish(),
            Deed::Publish { who, .. } if who < open => self.sessions[who].0.publish_running(),
            Deed::Close { who } if who < open => drop(self.sessions.remove(who)),
            Deed::Restore { from, to } if from < open && to < open => {
                let bytes = self.sessions[from].0.snapshot().unwrap().to_bytes();
                let restored = self.sessions[to].0.restore(&Snapshot::from_bytes(&bytes).unwrap());
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

    fn feed(&mut self, who: usize, branch: usize, (count, then): (usize, usize)) {
        let (session, tokens) = &mut self.sessions[who];
        let end = LONGEST.min(tokens.len() + count);
        let more = prompt(branch, end).split_off(tokens.len().min(end));
        if more.is_empty() {
            return;
        }
        let want = if then > 0 { Logits::None } else { Logits::Last };
        let result = session.feed((&more, &[]), want, |turn| turn.toward(end + then));
        if let Some(readout) = self.fine(result) {
            self.sessions[who].1.extend(more);
            if want == Logits::Last {
                assert!(readout.rows() == self.expected(&self.sessions[who].1, 1), "after {end}");
            }
        }
    }

    fn decode(&mut self, many: usize) {
        let many =
            |who: usize, len: usize| if who == 1 { many.min(LONGEST.saturating_sub(len)).max(1) } else { 1 };
        let each = self.sessions.iter().enumerate();
        let tokens: Vec<Vec<u32>> =
            each.map(|(who, (_, tokens))| vec![900 + who as u32; many(who, tokens.len())]).collect();
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
                self.sessions[who].1.extend(&tokens[who]);
                assert!(logits == self.expected(&self.sessions[who].1, 1), "session {who}");
            }
        }
    }

    fn guess(&mut self, who: usize, guesses: usize, right: usize) {
        let rows: Vec<u32> = (0..=guesses as u32).map(|row| 700 + row).collect();
        let result = self.sessions[who].0.feed((&rows, &[]), Logits::All, |turn| turn.checking());
        let Some(readout) = self.fine(result) else { return };
        let past = [&self.sessions[who].1[..], &rows].concat();
        assert!(readout.rows() == self.expected(&past, rows.len()));
        let kept = 1 + right.min(guesses);
        let (session, tokens) = &mut self.sessions[who];
        tokens.extend_from_slice(&rows[..kept]);
        session.ahead = rows.len() - kept;
        session.settle();
    }

    /// Everything that must hold between operations.
    fn check(&self) {
        for (session, tokens) in &self.sessions {
            assert_eq!(session.tokens(), tokens);
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2500,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn no_row_that_is_wanted_meets_a_missing_key() {
    let (engine, _) = engine(Room::of(SESSIONS));
    let room =
        (prop_oneof![Just(4 * 14usize + 4), 14usize..60], prop_oneof![Just(0), 0usize..40 * PAGE_BYTES]);
    let deeds = prop::collection::vec(deed(), 1..50);
    let done = Cell::new((0, 0));
    let run = |((pages, parked), deeds): ((usize, usize), Vec<Deed>)| {
        let counts = furnish(&engine, Room { pages, parked, ..Room::of(SESSIONS) });
        let mut world = World { engine: &engine, counts: &counts, sessions: Vec::new() };
        for deed in &deeds {
            world.execute(deed);
            world.check();
        }
        counts.fuse.store(0, Ordering::Relaxed);
        world.decode(1);
        world.sessions.clear();
        engine.clear_prefixes();
        prop_assert_eq!(engine.prefix_stats().free_pages, pages);
        let ((rows, deep), (all, past)) = (counts.take(), done.get());
        done.set((all + rows, past + deep));
        Ok(())
    };
    TestRunner::new(config()).run(&(room, deeds), run).unwrap();
    let (rows, deep) = done.get();
    assert!(deep < rows * 9 / 10, "{deep} of {rows} rows went past the cut");
}
