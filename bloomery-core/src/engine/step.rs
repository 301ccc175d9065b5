//! Steps over several sessions at once.

use std::ops::Range;
use std::sync::Arc;

use super::{Engine, Readout};
use crate::backend::{Answer, Backend, Batch, Deep, Readback, RouteTrace, StageTime};
use crate::error::EngineError;
use crate::residency::Traffic;
use crate::sampling::{Needs, TopLogits};
use crate::session::Session;

/// Which logits a turn brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Logits {
    /// None: the tokens are only remembered.
    None,
    /// Those after the last token.
    Last,
    /// Those after every token.
    All,
}

/// What one session wants done: `tokens` appended, and some logits back.
#[derive(Debug)]
pub struct Turn<'a> {
    pub(super) session: &'a mut Session,
    pub(super) tokens: &'a [u32],
    /// How many tokens the session owes, and they with `tokens`.
    owed: (usize, Vec<u32>),
    pub(super) want: Logits,
    /// The first position that has to go past the program's cut.
    pub(super) first_deep: usize,
    /// Positions that the session is going to have soon.
    pub(super) goal: Option<usize>,
    /// Tokens of the turns after it.
    next: &'a [u32],
    /// Whether it may go back to any of the tokens.
    pub(super) checks: bool,
    hidden: bool,
    /// How much of the logits is looked at.
    needs: Needs,
    pub(super) trace: bool,
    timed: bool,
    readout: Readout,
    routes: RouteTrace,
    stages: Vec<StageTime>,
    travelled: Option<Travelled>,
}

/// What travelled where experts are on two sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Travelled {
    /// In the steps of one call.
    pub(crate) steps: Traffic,
    /// Since the engine's start.
    pub(crate) all: Traffic,
}

impl<'a> Turn<'a> {
    /// Appends `tokens` to `session`.
    pub fn new(session: &'a mut Session, tokens: &'a [u32], want: Logits) -> Self {
        Self {
            session,
            tokens,
            owed: (0, Vec::new()),
            want,
            first_deep: 0,
            goal: None,
            next: &[],
            checks: false,
            hidden: false,
            needs: Needs::All,
            trace: false,
            timed: false,
            readout: Readout::None,
            routes: RouteTrace::default(),
            stages: Vec::new(),
            travelled: None,
        }
    }

    /// Brings back normed hidden states, the model's width each, in place of logits.
    pub(crate) fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    /// Brings back as much of the logits after the last token as a [sampler needs](crate::sampling::Sampler::needs). A card
    /// then [selects](Self::top) them; all of them come back where that is no harder, or where others in the step need them.
    #[must_use]
    pub fn needing(self, needs: Needs) -> Self {
        Self { needs: if self.want == Logits::All { Needs::All } else { needs }, ..self }
    }

    /// Says that these tokens are a part: the session will soon have so many positions.
    pub(crate) fn toward(self, goal: usize) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// Says which tokens come next.
    pub(crate) fn before(self, next: &'a [u32]) -> Self {
        Self { next, ..self }
    }

    /// Says that the session will be cut back to one of the tokens: all after the first are guesses.
    pub(crate) fn checking(self) -> Self {
        Self { checks: true, ..self }
    }

    /// Also reports the experts chosen for every token whose logits are wanted.
    #[must_use]
    pub fn traced(self) -> Self {
        Self { trace: true, ..self }
    }

    /// Also reports how long the stages of its steps took, where weights are on a card. Such steps are slower than others:
    /// each kernel waits for the one before.
    #[must_use]
    pub fn timed(self) -> Self {
        Self { timed: true, ..self }
    }

    /// The stages of all steps that the turn took part in.
    #[must_use]
    pub fn stages(&self) -> &[StageTime] {
        &self.stages
    }

    /// What its steps have done where [experts are on two sides](Engine::traffic). Rows of other turns are part of it.
    #[must_use]
    pub fn traffic(&self) -> Option<Traffic> {
        self.travelled.map(|travelled| travelled.steps)
    }

    pub(crate) fn travelled(&self) -> Option<Travelled> {
        self.travelled
    }

    /// The largest logits after the last token, where no more than those came back.
    #[must_use]
    pub fn top(&self) -> Option<&TopLogits> {
        match &self.readout {
            Readout::Top(top) => Some(top),
            _ => None,
        }
    }

    /// The logits asked for, one row of the vocabulary's size after the other.
    #[must_use]
    pub fn logits(&self) -> &[f32] {
        self.readout.rows()
    }

    /// Of every routed layer: experts per token, and their ids token by token.
    #[must_use]
    pub fn routes(&self) -> &[(usize, Vec<u32>)] {
        &self.routes.layers
    }

    pub(crate) fn into_readout(self) -> Readout {
        self.readout
    }

    /// What is run: tokens that the session owes, then those of the turn.
    pub(super) fn fed(&self) -> &[u32] {
        if self.owed.0 == 0 { self.tokens } else { &self.owed.1 }
    }

    /// What comes after these of the tokens that are run: no more than the next step is likely to have.
    fn following(&self, run: Range<usize>) -> &[u32] {
        let rest = if run.end < self.fed().len() { &self.fed()[run.end..] } else { self.next };
        &rest[..rest.len().min(run.len())]
    }

    /// Takes up what the session owes.
    fn begin(&mut self) {
        let owed = self.session.state.owed();
        if !owed.is_empty() && !self.tokens.is_empty() {
            self.owed = (owed.len(), [owed, self.tokens].concat());
        }
    }

    /// Whether the logits after token `index` of what is run are wanted.
    fn wants(&self, index: usize) -> bool {
        match self.want {
            Logits::None => false,
            Logits::Last => index + 1 == self.fed().len(),
            Logits::All => index >= self.owed.0,
        }
    }
}

/// What one turn has in a step: its tokens `start..end`.
pub(super) struct Share {
    pub(super) turn: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Share {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }
}

impl Engine {
    /// Runs the turns together: every step takes rows of all of them until all are done. A session appears once.
    /// When a turn is impossible (context full, unknown token) or there is no room for all of them, none is begun; when
    /// a step fails, all sessions are as they were.
    pub fn step(&self, turns: &mut [Turn<'_>]) -> Result<(), EngineError> {
        for turn in turns.iter_mut() {
            turn.session.settle();
            self.check(turn)?;
            self.aim(turn);
            turn.begin();
        }
        let mut backend = self.inner.backend()?;
        let before: Vec<usize> = turns.iter().map(|turn| turn.session.state.len()).collect();
        self.make_room(turns, &before, backend.as_mut())?;
        let traffic = backend.traffic();
        let mut done = vec![0; turns.len()];
        loop {
            let mut shares = self.shares(turns, &done);
            if shares.is_empty() {
                // Both looks are taken by who has the backend, so that nobody else's steps are between them.
                let travelled = backend
                    .traffic()
                    .zip(traffic)
                    .map(|(all, before)| Travelled { steps: all.since(&before), all });
                turns.iter_mut().for_each(|turn| turn.travelled = travelled);
                return Ok(());
            }
            if let Err(error) = self.run(backend.as_mut(), turns, &before, &mut shares) {
                let mut cache = self.inner.cache();
                for (turn, len) in turns.iter_mut().zip(before) {
                    turn.session.state.take_back(len, len + turn.owed.0, &mut cache.pool);
                }
                return Err(error);
            }
            shares.iter().for_each(|share| done[share.turn] = share.end);
        }
    }

    fn check(&self, turn: &Turn<'_>) -> Result<(), EngineError> {
        if !Arc::ptr_eq(&turn.session.engine.inner, &self.inner) {
            return Err(EngineError::ForeignSession);
        }
        let (len, adding, context) = (turn.session.len(), turn.tokens.len(), self.context());
        if len + adding > context {
            return Err(EngineError::ContextFull { len, adding, context });
        }
        let vocab = self.inner.model.vocab;
        match turn.tokens.iter().find(|&&id| id as usize >= vocab) {
            Some(&id) => Err(EngineError::UnknownToken { id, vocab }),
            None => Ok(()),
        }
    }

    /// Grows every turn's session by its tokens, or none.
    fn make_room(
        &self,
        turns: &mut [Turn<'_>],
        before: &[usize],
        backend: &mut dyn Backend,
    ) -> Result<(), EngineError> {
        let mut cache = self.inner.cache();
        let mut needed = 0;
        for index in 0..turns.len() {
            let Turn { session, tokens, owed, .. } = &mut turns[index];
            let fed = if owed.0 == 0 { *tokens } else { &owed.1 };
            needed += session.state.needs(fed.len(), &cache.pool);
            if cache.grow(&mut session.state, fed, backend) {
                continue;
            }
            let rest = turns[index + 1..].iter();
            needed += rest.map(|turn| turn.session.state.needs(turn.fed().len(), &cache.pool)).sum::<usize>();
            for (turn, &len) in turns[..index].iter_mut().zip(before) {
                turn.session.state.take_back(len, len + turn.owed.0, &mut cache.pool);
            }
            let (free, total) = (cache.obtainable(), cache.pool.capacity());
            return Err(EngineError::PoolExhausted { needed, free, total });
        }
        Ok(())
    }

    /// Splits the step's rows: turns with the fewest tokens left first, so that a long prompt does not hold up a
    /// decode.
    fn shares(&self, turns: &[Turn<'_>], done: &[usize]) -> Vec<Share> {
        let mut order: Vec<usize> = (0..turns.len()).filter(|&i| done[i] < turns[i].fed().len()).collect();
        // A step brings back one kind of rows.
        if let Some(hidden) = order.first().map(|&i| turns[i].hidden) {
            order.retain(|&i| turns[i].hidden == hidden);
        }
        order.sort_by_key(|&i| turns[i].fed().len() - done[i]);
        let mut rows = self.step_rows();
        let mut shares = Vec::with_capacity(order.len());
        for turn in order {
            let start = done[turn];
            let end = turns[turn].fed().len().min(start + rows);
            if start == end {
                break;
            }
            rows -= end - start;
            shares.push(Share { turn, start, end });
        }
        shares
    }

    fn run(
        &self,
        backend: &mut dyn Backend,
        turns: &mut [Turn<'_>],
        before: &[usize],
        shares: &mut Vec<Share>,
    ) -> Result<(), EngineError> {
        let states = self.assign_states(backend, turns, before, shares)?;
        let shallow = self.shallow_rows(turns, before, shares);
        let (mut tokens, mut positions, mut sequences, mut outputs) = (vec![], vec![], vec![], vec![]);
        for (sequence, share) in shares.iter().enumerate() {
            let (turn, first) = (&turns[share.turn], before[share.turn]);
            for index in share.start..share.end {
                if turn.wants(index) {
                    outputs.push(tokens.len());
                }
                tokens.push(turn.fed()[index]);
                positions.push((first + index) as u32);
                sequences.push(sequence);
            }
        }
        let want = self.readback(turns, shares);
        let pages: Vec<&[u32]> = shares.iter().map(|share| turns[share.turn].session.state.pages()).collect();
        let past =
            |share: &Share| &turns[share.turn].session.state.tokens()[..before[share.turn] + share.start];
        let past: Vec<&[u32]> = shares.iter().map(past).collect();
        let following: Vec<&[u32]> =
            shares.iter().map(|share| turns[share.turn].following(share.start..share.end)).collect();
        let after: Vec<usize> = outputs.iter().map(|output| output.wrapping_sub(shallow)).collect();
        let mut left = shallow;
        let kept = shares.iter().map(|share| {
            let skipped = left.min(share.len());
            left -= skipped;
            &turns[share.turn].session.state.tokens()[..before[share.turn] + share.start + skipped]
        });
        let kept: Vec<&[u32]> = kept.collect();
        let deep = self.inner.narrow.filter(|_| shallow > 0);
        let deep = deep.map(|narrow| Deep { narrow, first: shallow, before: &kept, outputs: &after });
        let mut trace = turns.iter().any(|turn| turn.trace).then(RouteTrace::default);
        let mut stages = turns.iter().any(|turn| turn.timed).then(Vec::new);
        let batch = Batch {
            tokens: &tokens,
            positions: &positions,
            sequences: &sequences,
            before: &past,
            following: &following,
            pages: &pages,
            states: &states.from,
            saves: &states.saves,
            outputs: &outputs,
            want,
            deep,
            trace: trace.as_mut(),
            stages: stages.as_mut(),
        };
        let result = backend.step(batch);
        self.take_states(turns, shares, states, result.is_ok());
        let answer = result?;
        self.note_keys(turns, before, shares, shallow);
        let width = if want == Readback::Hidden { self.inner.model.hidden } else { self.inner.model.vocab };
        self.deliver(turns, shares, (&sequences, &outputs), (answer, width), trace.as_ref());
        for share in shares {
            let turn = &mut turns[share.turn];
            if let Some(stages) = stages.as_ref().filter(|_| turn.timed) {
                turn.stages.extend_from_slice(stages);
            }
        }
        Ok(())
    }

    /// What the step brings back: the most that one of its turns needs.
    fn readback(&self, turns: &[Turn<'_>], shares: &[Share]) -> Readback {
        let turns = || shares.iter().map(|share| (share, &turns[share.turn]));
        if turns().any(|(_, turn)| turn.hidden) {
            return Readback::Hidden;
        }
        // Tokens before the last of a turn's have nobody who looks at them.
        let needs = turns().filter(|(share, turn)| (share.start..share.end).any(|index| turn.wants(index)));
        match needs.map(|(_, turn)| turn.needs).max() {
            Some(Needs::Top(k)) => Readback::Top(k.min(self.inner.model.vocab)),
            Some(Needs::All) | None => Readback::Logits,
        }
    }

    /// Hands every turn its rows of logits and routes.
    fn deliver(
        &self,
        turns: &mut [Turn<'_>],
        shares: &[Share],
        (sequences, outputs): (&[usize], &[usize]),
        (answer, width): (Answer<'_>, usize),
        trace: Option<&RouteTrace>,
    ) {
        let mut end = 0;
        for group in outputs.chunk_by(|&a, &b| sequences[a] == sequences[b]) {
            let these = end..end + group.len();
            end = these.end;
            let turn = &mut turns[shares[sequences[group[0]]].turn];
            match (answer, &mut turn.readout) {
                (Answer::Top { k, ids, logits }, readout) => {
                    let part = (end - 1) * k..end * k;
                    *readout = Readout::Top(TopLogits::new(&ids[part.clone()], &logits[part]));
                }
                (Answer::Rows(rows), Readout::Rows(values)) => {
                    values.extend_from_slice(&rows[these.start * width..these.end * width]);
                }
                (Answer::Rows(rows), readout) => {
                    *readout = Readout::Rows(rows[these.start * width..these.end * width].to_vec());
                }
            }
        }
        for (layer, (used, experts)) in trace.iter().flat_map(|trace| trace.layers.iter().enumerate()) {
            let rows = experts.len() / used;
            // The last layer routes output rows only, all others every row.
            let last = rows == outputs.len() && rows != sequences.len();
            for (index, ids) in experts.chunks_exact(*used).enumerate() {
                let row = if last { outputs[index] } else { index };
                let turn = &mut turns[shares[sequences[row]].turn];
                if turn.trace && outputs.binary_search(&row).is_ok() {
                    turn.routes.layers.resize_with(turn.routes.layers.len().max(layer + 1), Default::default);
                    turn.routes.layers[layer].0 = *used;
                    turn.routes.layers[layer].1.extend_from_slice(ids);
                }
            }
        }
    }
}
