//! The thread that runs the steps.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::command::{Command, SlotCommand};
use super::job::SinkState;
use super::pace::Pace;
use super::run::Run;
use super::slot::Slot;
use super::status::Status;
use crate::draft::{Offer, Step};
use crate::engine::{Engine, Guess, Readout, Turn};
use crate::error::EngineError;

/// How often readers are looked at while all jobs wait for them. A full sink holds tens of tokens, so its reader does not
/// run dry in this time.
const READER_POLL: Duration = Duration::from_millis(1);

/// Prompts shorter than this do not wait for another job that computes the same beginning.
const WORTH_WAITING: usize = 32;

pub(super) struct Worker {
    engine: Engine,
    slots: Vec<Slot>,
    waiting: VecDeque<Run>,
    /// Slot commands that wait until their slot is idle.
    deferred: Vec<(usize, SlotCommand)>,
    pace: Pace,
    status: Arc<Mutex<Status>>,
    /// Jobs that ended in this round.
    over: Vec<Run>,
    /// Jobs ended so far.
    ended: u64,
    /// The page pool was too small for all; no job starts before one has ended.
    starved: bool,
}

/// What one job does in a step: `rows` of its pending tokens.
struct Share {
    slot: usize,
    rows: usize,
}

impl Worker {
    pub(super) fn new(engine: Engine, slots: usize, status: Arc<Mutex<Status>>) -> Self {
        Self {
            engine,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            waiting: VecDeque::new(),
            deferred: Vec::new(),
            pace: Pace::default(),
            status,
            over: Vec::new(),
            ended: 0,
            starved: false,
        }
    }

    /// Runs until every sender of `commands` is gone.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        while self.take_commands(commands) {
            let start = Instant::now();
            self.end_abandoned();
            self.run_slot_commands();
            self.admit();
            let engine_time = self.step();
            let own = start.elapsed().saturating_sub(engine_time);
            self.publish_status(engine_time, own);
            self.over.drain(..).for_each(Run::tell_ending);
        }
        let running = self.slots.iter_mut().filter_map(|slot| slot.run.take());
        for mut run in running.chain(self.waiting.drain(..)) {
            run.fail(EngineError::Stopped);
            run.tell_ending();
        }
    }

    /// Takes in what callers want; waits where there is nothing else to do. False when no caller is left.
    fn take_commands(&mut self, commands: &Receiver<Command>) -> bool {
        if self.slots.iter().all(|slot| slot.run.is_none()) && self.waiting.is_empty() {
            match commands.recv() {
                Ok(command) => self.take(command),
                Err(_) => return false,
            }
        } else if !self.slots.iter().any(Slot::can_run) {
            match commands.recv_timeout(READER_POLL) {
                Ok(command) => self.take(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        loop {
            match commands.try_recv() {
                Ok(command) => self.take(command),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Slot(slot, command) => self.deferred.push((slot, command)),
            Command::Job(run) => self.waiting.push_back(*run),
        }
    }

    /// Ends jobs that nobody reads any more.
    fn end_abandoned(&mut self) {
        let mut cancelled = 0;
        for id in 0..self.slots.len() {
            if self.slots[id].run.as_ref().is_some_and(|run| run.sink_state() == SinkState::Closed) {
                self.release(id);
                cancelled += 1;
            }
        }
        let before = self.waiting.len();
        self.waiting.retain(|run| run.sink_state() != SinkState::Closed);
        cancelled += (before - self.waiting.len()) as u64;
        if cancelled > 0 {
            self.status().counters.cancelled += cancelled;
        }
    }

    /// Ends a slot's job.
    fn release(&mut self, id: usize) {
        self.ended += 1;
        self.starved = false;
        let run = self.slots[id].release(self.ended);
        self.over.extend(run);
        self.status().counters.jobs += 1;
    }

    fn run_slot_commands(&mut self) {
        for (id, command) in std::mem::take(&mut self.deferred) {
            match self.slots.get_mut(id) {
                Some(slot) if slot.run.is_some() => self.deferred.push((id, command)),
                Some(slot) => slot.execute(&self.engine, command),
                None => command.refuse(EngineError::NoSuchSlot { slot: id, slots: self.slots.len() }),
            }
        }
    }

    /// Gives idle slots to waiting jobs, in order of arrival; a job that wants a busy slot lets others pass.
    fn admit(&mut self) {
        let mut index = 0;
        while !self.starved && index < self.waiting.len() && self.slots.iter().any(|slot| slot.run.is_none())
        {
            let run = &self.waiting[index];
            let chosen = match run.job.slot.filter(|&wanted| wanted < self.slots.len()) {
                Some(wanted) => self.slots[wanted].run.is_none().then_some(wanted),
                None => self.best_slot(&run.tokens),
            };
            match chosen.and_then(|slot| Some((slot, self.waiting.remove(index)?))) {
                Some((slot, run)) => self.start(slot, run),
                None => index += 1,
            }
        }
    }

    /// The idle slot whose last tokens begin most like `tokens`; where none does, the one idle for longest.
    fn best_slot(&self, tokens: &[u32]) -> Option<usize> {
        let idle = self.slots.iter().enumerate().filter(|(_, slot)| slot.run.is_none());
        let rank = |slot: &Slot| {
            let common = common(&slot.tokens, tokens);
            (if common * 10 > tokens.len() { common } else { 0 }, std::cmp::Reverse(slot.idle_since))
        };
        idle.max_by_key(|(id, slot)| (rank(slot), std::cmp::Reverse(*id))).map(|(id, _)| id)
    }

    fn start(&mut self, id: usize, mut run: Run) {
        if let Err(error) = run.start(&self.engine, id) {
            run.fail(error);
            self.over.push(run);
            return;
        }
        run.follows = self
            .slots
            .iter()
            .filter_map(|slot| slot.run.as_ref())
            .filter(|other| other.job.reuse && run.job.reuse)
            .map(|other| (other.task, common(&other.tokens, &run.tokens).min(run.tokens.len() - 1)))
            .max_by_key(|&(_, common)| common)
            .filter(|&(_, common)| common > run.known() + WORTH_WAITING);
        if let Some((leader, common)) = run.follows {
            let others = self.slots.iter_mut().filter_map(|slot| slot.run.as_mut());
            others.filter(|other| other.task == leader).for_each(|other| other.is_followed_to(common));
        }
        self.slots[id].run = Some(run);
    }

    /// Runs one step of everything that can go on. Returns the time inside the engine.
    fn step(&mut self) -> Duration {
        let (streams, rows, mut shares) = self.plan();
        if shares.is_empty() {
            return Duration::ZERO;
        }
        let mut start = Instant::now();
        let (mut guessed, drafting) = match self.guess_where(rows == 0, &mut shares) {
            Ok(guessed) => guessed,
            Err(error) => {
                self.fail(&shares, &error);
                return start.elapsed();
            }
        };
        let (mut result, mut time) = self.execute(&shares);
        if guessed > 0 && matches!(result, Err(EngineError::PoolExhausted { .. })) {
            // Guesses are worth no memory that a job needs.
            start = Instant::now();
            guessed = 0;
            shares.iter_mut().for_each(|share| self.set_guesses(share, 0));
            (result, time) = self.execute(&shares);
        }
        match result {
            Ok(readouts) => {
                self.pace.measured(streams, rows, time);
                for (share, readout) in shares.iter().zip(readouts) {
                    self.advance(share, readout);
                }
                if rows == 0 {
                    let seconds = start.elapsed().saturating_sub(drafting).as_secs_f64();
                    let drafting = drafting.as_secs_f64();
                    self.settle(&shares, Step { streams, guessed, seconds, drafting });
                }
            }
            Err(EngineError::PoolExhausted { .. }) if self.preempt() => {}
            Err(error) => self.fail(&shares, &error),
        }
        time
    }

    /// What the next step computes: generating streams, prompt rows, and the shares of all jobs.
    fn plan(&mut self) -> (usize, usize, Vec<Share>) {
        let most = self.engine.step_rows();
        let runs = |slots: &[Slot], generating: bool| {
            let wanted = move |slot: &&Slot| slot.can_run() && slot.is_generating() == generating;
            let of = |id: usize, slot: &Slot| (slot.task(), id);
            let mut list: Vec<_> = slots
                .iter()
                .enumerate()
                .filter(|(_, slot)| wanted(slot))
                .map(|(id, slot)| of(id, slot))
                .collect();
            list.sort_unstable();
            list.into_iter().map(|(_, id)| id).collect::<Vec<usize>>()
        };
        let streams = runs(&self.slots, true);
        let prompts = runs(&self.slots, false);
        let mut shares: Vec<Share> = streams.iter().take(most).map(|&slot| Share { slot, rows: 1 }).collect();
        let streams = shares.len();
        let budget = self.pace.rows(streams, most - streams);
        if budget > 0 {
            shares.extend(self.divide(&prompts, budget));
        }
        let rows = shares[streams..].iter().map(|share| share.rows).sum();
        (streams, rows, shares)
    }

    /// Has the streams of a step without prompts check what they guess, as far as that pays. Returns how many guesses there are,
    /// and how long the model's block took for them.
    fn guess_where(
        &mut self,
        no_prompts: bool,
        shares: &mut [Share],
    ) -> Result<(usize, Duration), EngineError> {
        if !no_prompts {
            return Ok((0, Duration::ZERO));
        }
        let room = (self.engine.step_rows() - shares.len()).min(self.engine.guess_room(shares.len()));
        for share in shares.iter() {
            if let Some(run) = &mut self.slots[share.slot].run {
                run.propose(&self.engine, room);
            }
        }
        let offer = |share: &Share| self.slots[share.slot].run.as_ref().map_or(Offer::NONE, Run::offer);
        let offers: Vec<Offer<'_>> = shares.iter().map(offer).collect();
        let lengths = self.engine.inner.price().lengths(shares.len(), &offers, room);
        let drafting = self.ask_block(shares, &lengths)?;
        let mut guessed = 0;
        for (share, &length) in shares.iter_mut().zip(&lengths) {
            self.set_guesses(share, length);
            guessed += share.rows - 1;
        }
        Ok((guessed, drafting))
    }

    /// Has the model's block make the guesses that are to be checked. Returns how long it took.
    fn ask_block(&mut self, shares: &[Share], lengths: &[usize]) -> Result<Duration, EngineError> {
        let start = Instant::now();
        let mut wanted = vec![0; self.slots.len()];
        shares.iter().zip(lengths).for_each(|(share, &length)| wanted[share.slot] = length);
        let slots = self.slots.iter_mut().zip(&wanted).enumerate();
        let (ids, mut guesses): (Vec<usize>, Vec<Guess<'_>>) = slots
            .filter_map(|(id, (slot, &length))| Some((id, slot.run.as_mut()?.block_guess(length)?)))
            .unzip();
        if guesses.is_empty() {
            return Ok(Duration::ZERO);
        }
        let guessed = self.engine.guess(&mut guesses)?;
        let passes = guessed.iter().map(Vec::len).max().unwrap_or(0);
        for (id, guesses) in ids.into_iter().zip(guessed) {
            if let Some(run) = &mut self.slots[id].run {
                run.fill(&guesses);
            }
        }
        let time = start.elapsed();
        self.engine.inner.price().passed(passes, time.as_secs_f64());
        Ok(time)
    }

    fn set_guesses(&mut self, share: &mut Share, length: usize) {
        if let Some(run) = &mut self.slots[share.slot].run {
            share.rows = 1 + run.guess(length);
        }
    }

    /// Learns from a step without prompts.
    fn settle(&mut self, shares: &[Share], step: Step) {
        let mut price = self.engine.inner.price();
        price.measured(step.streams + step.guessed, step.seconds);
        for share in shares {
            if let Some(run) = &mut self.slots[share.slot].run {
                run.settle(&price, step);
            }
        }
    }

    /// Divides prompt rows: half is the oldest prompt's, so that none waits for ever; the rest goes to the shortest first,
    /// so that a short question does not wait for a long document.
    fn divide(&mut self, prompts: &[usize], budget: usize) -> Vec<Share> {
        let mut open: Vec<(usize, usize)> = Vec::with_capacity(prompts.len());
        for &id in prompts {
            if !self.waits_for_leader(id) {
                open.push((id, self.slots[id].pending()));
            }
        }
        if let [(id, pending)] = &mut open[..]
            && let Some(run) = &self.slots[*id].run
        {
            *pending = run.part(&self.engine, *pending);
        }
        let Some(&(oldest, needed)) = open.first() else { return Vec::new() };
        let reserved = needed.min(budget.div_ceil(2));
        let mut left = budget - reserved;
        open[1..].sort_by_key(|&(_, pending)| pending);
        let mut shares = vec![Share { slot: oldest, rows: reserved }];
        for &(slot, pending) in &open[1..] {
            let rows = pending.min(left);
            left -= rows;
            shares.push(Share { slot, rows });
        }
        shares[0].rows += left.min(needed - reserved);
        shares.retain(|share| share.rows > 0);
        shares
    }

    /// Whether a job leaves the beginning of its prompt to another one that is computing the same tokens.
    fn waits_for_leader(&mut self, id: usize) -> bool {
        let Some(run) = &self.slots[id].run else { return false };
        let Some((leader, common)) = run.follows else { return false };
        let leader =
            self.slots.iter().filter_map(|slot| slot.run.as_ref()).find(|other| other.task == leader);
        if leader.is_some_and(|leader| leader.known() < common && leader.sink_state() == SinkState::Open) {
            return true;
        }
        if let Some(run) = &mut self.slots[id].run {
            run.follows = None;
            if let Err(error) = run.adopt_more() {
                run.fail(error);
                self.release(id);
                return true;
            }
        }
        false
    }

    /// What every share brings back, nothing where a prompt goes on, and the time the engine took.
    fn execute(&mut self, shares: &[Share]) -> (Result<Vec<Readout>, EngineError>, Duration) {
        let mut rows = vec![0; self.slots.len()];
        shares.iter().for_each(|share| rows[share.slot] = share.rows);
        let mut turns: Vec<Option<Turn<'_>>> = self
            .slots
            .iter_mut()
            .zip(&rows)
            .map(|(slot, &rows)| slot.run.as_mut().filter(|_| rows > 0)?.turn(rows))
            .collect();
        let order: Vec<usize> =
            turns.iter().enumerate().filter_map(|(id, turn)| turn.as_ref().map(|_| id)).collect();
        let mut active: Vec<Turn<'_>> = turns.iter_mut().filter_map(Option::take).collect();
        let start = Instant::now();
        let result = self.engine.step(&mut active);
        let time = start.elapsed();
        let travelled = active.first().and_then(Turn::travelled);
        let mut by_slot = vec![Readout::None; rows.len()];
        for (id, turn) in order.into_iter().zip(active) {
            by_slot[id] = turn.into_readout();
        }
        let readouts = shares.iter().map(|share| std::mem::take(&mut by_slot[share.slot])).collect();
        if let Some(travelled) = travelled {
            for share in shares {
                if let Some(run) = &mut self.slots[share.slot].run {
                    run.progress.add(&travelled.steps);
                }
            }
            self.status().traffic = Some(travelled.all);
        }
        (result.map(|()| readouts), time)
    }

    fn advance(&mut self, share: &Share, readout: Readout) {
        let Some(run) = &mut self.slots[share.slot].run else { return };
        let before = run.progress;
        run.checked = (0, 0);
        let ended = run.advance(&self.engine, readout);
        run.publish_running();
        let (now, held, checked) = (run.progress, run.tokens.len(), run.checked);
        if ended {
            self.release(share.slot);
        }
        let mut status = self.status();
        let counters = &mut status.counters;
        counters.prompt_tokens += (now.prompt - before.prompt) as u64;
        counters.prompt_time += now.prompt_time - before.prompt_time;
        counters.generated_tokens += (now.generated - before.generated) as u64;
        counters.generate_time += now.generate_time - before.generate_time;
        counters.drafts += u64::from(checked.0 > 0);
        counters.drafted_tokens += checked.0 as u64;
        counters.accepted_tokens += checked.1 as u64;
        counters.accepted_at.iter_mut().take(checked.1).for_each(|count| *count += 1);
        counters.most_tokens = counters.most_tokens.max(held as u64);
        counters.busy_slots += 1;
        if ended {
            counters.cached_tokens += now.cached as u64;
        }
    }

    /// Takes the memory of the youngest job, which goes on when others have ended. False when it is the only one.
    fn preempt(&mut self) -> bool {
        let running = self.slots.iter().enumerate().filter(|(_, slot)| slot.run.is_some());
        if running.clone().count() < 2 {
            return false;
        }
        let Some((id, _)) = running.max_by_key(|(_, slot)| slot.task()) else { return false };
        if let Some(run) = self.slots[id].preempt() {
            self.waiting.push_front(run);
            self.starved = true;
            self.status().counters.preempted += 1;
        }
        true
    }

    /// Ends the jobs of a step that failed.
    fn fail(&mut self, shares: &[Share], error: &EngineError) {
        for share in shares {
            if let Some(run) = &mut self.slots[share.slot].run {
                run.fail(match *error {
                    EngineError::PoolExhausted { needed, free, total } => {
                        EngineError::PoolExhausted { needed, free, total }
                    }
                    _ => EngineError::StepFailed { message: error.to_string() },
                });
            }
            self.release(share.slot);
        }
        if matches!(error, EngineError::Poisoned) {
            self.status().failure = Some(error.to_string());
        }
    }

    fn publish_status(&mut self, engine_time: Duration, own_time: Duration) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.waiting = self.waiting.len();
        status.counters.steps += u64::from(!engine_time.is_zero());
        status.counters.engine_time += engine_time;
        status.counters.own_time += own_time;
        for (slot, shown) in self.slots.iter().zip(&mut status.slots) {
            slot.show(shown);
        }
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
