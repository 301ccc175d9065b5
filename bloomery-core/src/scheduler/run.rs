//! One job in a slot: what it has fed and generated, and how its next token is chosen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::embedding::Embedding;
use super::job::{Event, Job, Outcome, Pooling, Progress, SinkState, Token};
use super::status::SlotStatus;
use crate::decide::part;
use crate::draft::{Drafter, Offer, Price, Step};
use crate::engine::{Engine, Guess, Logits, Readout, Turn};
use crate::error::EngineError;
use crate::generate::{Chooser, Params, StopReason};
use crate::plan::Placement;
use crate::sampling::StopMatcher;
use crate::session::Session;
use crate::tokenizer::Detokenizer;

/// A job between its submission and its end. Without a session it waits, also after it was preempted.
pub(super) struct Run {
    pub(super) task: u64,
    pub(super) job: Job,
    pub(super) session: Option<Session>,
    /// The prompt and what was generated. What the session does not hold of it has to be computed.
    pub(super) tokens: Vec<u32>,
    pub(super) progress: Progress,
    pub(super) new_line: bool,
    /// The job whose prompt begins like this one's, and how many tokens they have in common.
    pub(super) follows: Option<(u64, usize)>,
    drafter: Option<Drafter>,
    /// What the next step runs where there are guesses: the newest token and they.
    guessed: Vec<u32>,
    /// Guesses that the last step checked, and those that were right.
    pub(super) checked: (usize, usize),
    chooser: Chooser,
    detokenizer: Detokenizer,
    stops: StopMatcher,
    embedding: Option<Embedding>,
    clock: Clock,
    /// The last event. Its reader gets it when the slot is free and the status says so.
    ending: Option<Event>,
    /// Given back when the job is over.
    place: Place,
}

/// A place among the jobs that may run or wait.
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    pub(super) fn reserve(jobs: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |jobs| (jobs < most).then_some(jobs + 1);
        jobs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(Arc::clone(jobs)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the rows of a step led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walked {
    /// The job goes on after the newest token.
    GoesOn,
    /// The newest token was the last.
    Ended,
    /// The last row gave no token: the text is complete.
    Complete,
}

/// Bytes of the longest character, and so the most tokens that can be missing of one.
const LONGEST_CHARACTER: usize = 4;

/// When the job's two phases began.
#[derive(Default)]
struct Clock {
    started: Option<Instant>,
    first_token: Option<Instant>,
}

impl Run {
    pub(super) fn new(engine: &Engine, task: u64, mut job: Job, place: Place) -> Result<Self, EngineError> {
        let sampler = engine.sampler(&job.params, &job.prompt)?;
        Ok(Self {
            task,
            session: None,
            tokens: job.prompt.clone(),
            progress: Progress::default(),
            new_line: false,
            follows: None,
            drafter: match job.embed {
                None => Drafter::new(&job.params.drafts, engine.most_guesses(), &job.prompt),
                Some(_) => None,
            },
            guessed: Vec::new(),
            checked: (0, 0),
            chooser: Chooser { sampler, constraint: job.constraint.take() },
            detokenizer: engine.tokenizer().continuation(job.params.special),
            stops: StopMatcher::new(job.params.stop.iter().cloned()),
            embedding: job.embed.map(Embedding::new),
            clock: Clock::default(),
            ending: None,
            place,
            job,
        })
    }

    /// Takes a slot: a session that knows as much of the tokens as anything does.
    pub(super) fn start(&mut self, engine: &Engine, slot: usize) -> Result<(), EngineError> {
        let mut session = engine.session()?;
        // Hidden states are not kept, so every token has to be computed.
        self.job.reuse &= self.embedding.is_none();
        let known = if self.job.reuse { session.adopt(&self.tokens)? } else { 0 };
        self.session = Some(session);
        if self.clock.started.is_none() {
            self.clock.started = Some(Instant::now());
            self.progress.cached = known;
            self.job.sink.send(Event::Started { slot, cached: known });
        }
        Ok(())
    }

    /// Looks again for what others have computed of the prompt.
    pub(super) fn adopt_more(&mut self) -> Result<(), EngineError> {
        let Some(session) = self.session.as_mut().filter(|_| self.job.reuse) else { return Ok(()) };
        let before = session.len();
        let known = session.adopt(&self.tokens)?;
        if self.progress.generated == 0 {
            let most = self.job.prompt.len() - self.progress.prompt;
            self.progress.cached = (self.progress.cached + known.saturating_sub(before)).min(most);
        }
        Ok(())
    }

    /// Positions that the session holds.
    pub(super) fn known(&self) -> usize {
        self.session.as_ref().map_or(0, Session::len)
    }

    /// Tokens that the session does not hold yet.
    pub(super) fn pending(&self) -> usize {
        self.tokens.len() - self.known()
    }

    /// Tokens of the next step, of those that are pending, where no other prompt is there: fewer than it could take where
    /// somebody reads one part while the next is on a card.
    pub(super) fn part(&self, engine: &Engine, pending: usize) -> usize {
        let card = matches!(engine.placement(), Placement::Card(_));
        match self.job.embed {
            Some(Pooling::Parts) if card => part::next(pending, engine.step_rows()),
            _ => pending,
        }
    }

    /// Guesses at most `most` tokens after the newest.
    pub(super) fn propose(&mut self, engine: &Engine, most: usize) {
        // Where the budget is used up inside a character, one more token is all that is known to be wanted.
        let left = self.remaining().unwrap_or(usize::MAX).max(1);
        let most = if self.session.as_ref().is_some_and(Session::owes) { 0 } else { most };
        let room = left.min(engine.context() - self.known()).saturating_sub(1).min(most);
        if let Some(drafter) = &mut self.drafter {
            drafter.propose(room);
        }
    }

    /// What was guessed, for the price to choose from.
    pub(super) fn offer(&self) -> Offer<'_> {
        self.drafter.as_ref().map_or(Offer::NONE, Drafter::offer)
    }

    /// What the model's block has to guess before `length` guesses can be checked, if anything.
    pub(super) fn block_guess(&mut self, length: usize) -> Option<Guess<'_>> {
        let wants = self.drafter.as_ref().map_or(0, |drafter| drafter.wants(length));
        let (&newest, session) = (self.tokens.last()?, self.session.as_mut()?);
        (wants > 0).then(|| Guess::new(session, newest, wants))
    }

    /// Takes in what the block guesses.
    pub(super) fn fill(&mut self, guesses: &[u32]) {
        if let Some(drafter) = &mut self.drafter {
            drafter.fill(guesses);
        }
    }

    /// Has the next step check the first `length` guesses. Returns how many there are.
    pub(super) fn guess(&mut self, length: usize) -> usize {
        self.guessed.clear();
        if let (Some(drafter), Some(&newest)) = (&self.drafter, self.tokens.last())
            && length > 0
        {
            self.guessed.push(newest);
            self.guessed.extend_from_slice(drafter.guesses(length));
        }
        self.guessed.len().saturating_sub(1)
    }

    /// Takes in what the last step took.
    pub(super) fn settle(&mut self, price: &Price, step: Step) {
        if let Some(drafter) = &mut self.drafter {
            drafter.settle(price, step, self.checked);
        }
    }

    /// Computes the next `rows` pending tokens, or the newest and guesses.
    pub(super) fn turn(&mut self, rows: usize) -> Option<Turn<'_>> {
        let session = self.session.as_mut()?;
        if !self.guessed.is_empty() {
            return Some(Turn::new(session, &self.guessed, Logits::All).checking());
        }
        let (start, end) = (session.len(), session.len() + rows);
        let tokens = &self.tokens[start..end];
        let (goal, next) = (self.tokens.len(), &self.tokens[end..]);
        if self.embedding.is_some() {
            return Some(Turn::new(session, tokens, Logits::All).hidden().toward(goal).before(next));
        }
        let want = if end == goal { Logits::Last } else { Logits::None };
        Some(Turn::new(session, tokens, want).needing(self.chooser.needs()).toward(goal).before(next))
    }

    /// Lets others use what is computed so far.
    pub(super) fn publish_running(&mut self) {
        self.known_to_others().for_each(Session::publish_running);
    }

    /// Lets others go on where the job ends.
    pub(super) fn publish(&mut self) {
        self.known_to_others().for_each(Session::publish);
    }

    /// The session, unless its text is only read: nobody goes on after it, and states of it would push out those of conversations.
    fn known_to_others(&mut self) -> impl Iterator<Item = &mut Session> {
        self.session.iter_mut().filter(|_| self.job.embed.is_none())
    }

    /// Says that another job's prompt begins with the first `len` tokens.
    pub(super) fn is_followed_to(&mut self, len: usize) {
        self.session.iter_mut().for_each(|session| session.branch_at(len));
    }

    pub(super) fn show(&self, status: &mut SlotStatus) {
        status.busy = true;
        status.task = Some(self.task);
        status.prompt = self.job.prompt.len();
        status.progress = self.progress;
        status.remaining = self.remaining();
        status.new_line = self.new_line;
        if !same(&status.tag, &self.job.tag) {
            status.tag.clone_from(&self.job.tag);
        }
    }

    /// Whether only the newest token has to be computed.
    pub(super) fn is_generating(&self) -> bool {
        self.progress.generated > 0 && self.pending() == 1
    }

    pub(super) fn sink_state(&self) -> SinkState {
        self.job.sink.state()
    }

    pub(super) fn params(&self) -> &Params {
        &self.job.params
    }

    /// Tokens that may still be generated.
    pub(super) fn remaining(&self) -> Option<usize> {
        self.params().max_tokens.map(|most| most.saturating_sub(self.progress.generated))
    }

    /// Takes in a step that computed tokens of this job; `readout` is of the last token when that was among them, or
    /// the hidden states of all of them. Returns whether the job has ended.
    pub(super) fn advance(&mut self, engine: &Engine, readout: Readout) -> bool {
        let prompt = self.progress.generated == 0;
        if prompt {
            // After a preemption some of it is computed again, and counts once.
            let computed = self.known().saturating_sub(self.progress.cached);
            self.progress.prompt = self.progress.prompt.max(computed);
            self.progress.prompt_time = self.since_start();
            self.job.sink.send(Event::Prompt(self.progress));
        }
        if self.embedding.is_some() {
            return self.take_rows(engine.model().hidden, readout.into_rows());
        }
        if readout.is_none() {
            return false;
        }
        if prompt && self.params().max_tokens == Some(0) {
            self.finish(StopReason::MaxTokens, None);
            return true;
        }
        let before = self.tokens.len();
        let walked = self.walk(engine, &readout);
        let cut = self.cut(before, matches!(walked, Ok(Walked::Complete) | Err(_)));
        match walked.and_then(|walked| cut.map(|()| walked)) {
            Ok(walked) => !matches!(walked, Walked::GoesOn),
            Err(error) => {
                self.fail(error);
                true
            }
        }
    }

    /// Chooses a token from the first row of `readout`, and from the next ones as long as they follow what was chosen.
    fn walk(&mut self, engine: &Engine, readout: &Readout) -> Result<Walked, EngineError> {
        let guesses = self.guessed.len().saturating_sub(1);
        self.progress.drafted += guesses;
        self.checked = (guesses, 0);
        for row in 0..=guesses {
            let guess = self.guessed.get(row + 1).copied();
            match self.choose(engine, readout, (row, guesses + 1), guess)? {
                Walked::GoesOn => {}
                ended => return Ok(ended),
            }
            // A reader that is slow or gone gets nothing more; what was computed for it is computed again.
            if self.checked.1 <= row || self.sink_state() != SinkState::Open {
                break;
            }
        }
        Ok(Walked::GoesOn)
    }

    /// Cuts wrong guesses off the session: it has all tokens then but the newest, or all where the last row gave none.
    fn cut(&mut self, before: usize, none: bool) -> Result<(), EngineError> {
        self.guessed.clear();
        let newest = usize::from(!none && self.tokens.len() > before);
        let held = self.tokens.len() - newest;
        match &mut self.session {
            Some(session) if session.len() > held => session.truncate(held),
            _ => Ok(()),
        }
    }

    /// Takes in hidden states. Returns whether they were the last.
    fn take_rows(&mut self, width: usize, rows: Vec<f32>) -> bool {
        let pending = self.pending() > 0;
        // After a preemption they begin before the end of what is there.
        let first = self.known() - rows.len() / width;
        match &mut self.embedding {
            Some(_) if self.job.embed == Some(Pooling::Parts) => {
                self.job.sink.send(Event::Rows { first, rows });
            }
            Some(embedding) => embedding.add(first * width, &rows),
            None => {}
        }
        if pending {
            return false;
        }
        if let Some(embedding) = self.embedding.take().filter(|_| self.job.embed != Some(Pooling::Parts)) {
            self.job.sink.send(Event::Embedding(embedding.finish(width)));
        }
        self.finish(StopReason::End, None);
        true
    }

    fn choose(
        &mut self,
        engine: &Engine,
        readout: &Readout,
        row: (usize, usize),
        guess: Option<u32>,
    ) -> Result<Walked, EngineError> {
        let Some(sampled) = self.chooser.choose(readout, row)? else {
            self.finish(StopReason::End, None);
            return Ok(Walked::Complete);
        };
        if let Some(drafter) = &mut self.drafter {
            drafter.push(sampled.id);
        }
        let right = usize::from(guess == Some(sampled.id));
        self.checked.1 += right;
        self.progress.accepted += right;
        let now = Instant::now();
        let first = *self.clock.first_token.get_or_insert(now);
        self.tokens.push(sampled.id);
        self.progress.generated += 1;
        self.progress.generate_time = now - first;
        let ended = !self.params().ignore_end && engine.tokenizer().is_end_of_generation(sampled.id);
        let text = self.detokenizer.push(sampled.id);
        self.new_line |= text.contains('\n');
        let step = self.stops.push(&text);
        self.job.sink.send(Event::Token(Token { sampled, text: step.emit, progress: self.progress }));
        let reason = if step.stopped.is_some() {
            StopReason::StopText
        } else if ended {
            StopReason::End
        } else if self.tokens.len() >= engine.context() {
            StopReason::ContextFull
        } else if self.is_at_limit() {
            StopReason::MaxTokens
        } else {
            return Ok(Walked::GoesOn);
        };
        self.finish(reason, step.stopped);
        Ok(Walked::Ended)
    }

    /// Whether the budget is used up. A character that has begun may overrun it by its own bytes.
    fn is_at_limit(&self) -> bool {
        let over = self.params().max_tokens.and_then(|most| self.progress.generated.checked_sub(most));
        over.is_some_and(|over| over >= LONGEST_CHARACTER || !self.detokenizer.is_inside_character())
    }

    fn finish(&mut self, mut reason: StopReason, mut stop: Option<usize>) {
        let mut text = String::new();
        if stop.is_none() {
            // A character that never became whole is dropped.
            let step = self.stops.push("");
            text = step.emit;
            stop = step.stopped;
            match stop {
                Some(_) => reason = StopReason::StopText,
                None => text.push_str(&self.stops.finish()),
            }
        }
        let (progress, held, seed) = (self.progress, self.tokens.len(), self.chooser.sampler.seed());
        self.ending = Some(Event::Done(Outcome { reason, text, stop, progress, held, seed }));
    }

    pub(super) fn fail(&mut self, error: EngineError) {
        self.ending = Some(Event::Failed(error));
    }

    /// Tells the reader how the job ended, if it has, when there is room for another job: it may be asked for at once.
    pub(super) fn tell_ending(self) {
        let Self { ending, place, mut job, .. } = self;
        drop(place);
        if let Some(event) = ending {
            job.sink.send(event);
        }
    }

    fn since_start(&self) -> Duration {
        self.clock.started.map_or(Duration::ZERO, |started| started.elapsed())
    }
}

/// Whether two tags are one.
fn same<T: ?Sized>(a: &Option<Arc<T>>, b: &Option<Arc<T>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}
