//! Recurrent states under a scheduler.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};

use super::hybrid::{Counts, Room, engine, logits_of};
use crate::draft::{Drafts, Ngram};
use crate::engine::Engine;
use crate::generate::Params;
use crate::scheduler::{Event, Job, Outcome, Scheduler, SchedulerOptions, Sink, SinkState};
use crate::state::Snapshot;

struct Channel(mpsc::Sender<Event>);

impl Sink for Channel {
    fn state(&self) -> SinkState {
        SinkState::Open
    }

    fn send(&mut self, event: Event) {
        let _ = self.0.send(event);
    }
}

fn scheduler(room: Room) -> (Scheduler, Arc<Counts>) {
    let (engine, counts) = engine(room);
    let options = SchedulerOptions { slots: room.sessions, ..SchedulerOptions::default() };
    (Scheduler::new(engine, options).unwrap(), counts)
}

/// What the model writes after `prompt`, a token at a time and from the beginning.
fn expected(engine: &Engine, prompt: &[u32], count: usize) -> Vec<u32> {
    let mut tokens = prompt.to_vec();
    for _ in 0..count {
        let logits = logits_of(&tokens, engine.model().vocab);
        tokens.push((0..).zip(&logits).max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0);
    }
    tokens.split_off(prompt.len())
}

fn submit(scheduler: &Scheduler, prompt: &[u32], count: usize, drafts: Drafts) -> Receiver<Event> {
    let (sender, events) = mpsc::channel();
    let params = Params { max_tokens: Some(count), ignore_end: true, drafts, ..Params::greedy() };
    scheduler.submit(Job::new(prompt.to_vec(), params, Box::new(Channel(sender)))).unwrap();
    events
}

fn finish(events: &Receiver<Event>) -> (Vec<u32>, Outcome) {
    let mut tokens = Vec::new();
    loop {
        match events.recv().unwrap() {
            Event::Token(token) => tokens.push(token.sampled.id),
            Event::Done(outcome) => return (tokens, outcome),
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

fn prompt(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|position| (position * (seed + 3) + position * position) % 2000).collect()
}

fn all() -> Drafts {
    Drafts::Ngram(Ngram { priced: false, shortest: 1, ..Ngram::default() })
}

#[test]
fn jobs_that_guess_write_what_single_steps_write() {
    for (slots, reserve, guessing) in [(60, 40, true), (12, 6, true), (4, 0, false), (3, 0, false)] {
        let (scheduler, counts) = scheduler(Room { slots, reserve, ..Room::of(3) });
        let prompts: Vec<Vec<u32>> = (0..5).map(|seed| prompt(seed, 200 + 77 * seed as usize)).collect();
        let jobs: Vec<_> = prompts.iter().map(|prompt| submit(&scheduler, prompt, 150, all())).collect();
        let (mut drafted, mut accepted) = (0, 0);
        for (prompt, job) in prompts.iter().zip(&jobs) {
            let (tokens, outcome) = finish(job);
            assert_eq!(tokens, expected(scheduler.engine(), prompt, 150), "{slots} slots");
            drafted += outcome.progress.drafted;
            accepted += outcome.progress.accepted;
        }
        assert!(drafted > 0 || !guessing, "{slots} slots");
        assert!(accepted > 0 || !guessing, "{accepted} of {drafted} right with {slots} slots");
        if slots == 60 {
            let rows = counts.rows.load(Ordering::Relaxed);
            let prompts: usize = prompts.iter().map(Vec::len).sum();
            assert!(rows <= prompts + 5 * 150 + drafted, "{rows}: a guess that was wrong costs itself alone");
        }
    }
}

#[test]
fn jobs_with_one_beginning_compute_it_once() {
    let (scheduler, counts) = scheduler(Room::of(4));
    let system = prompt(9, 1000);
    let prompts: Vec<Vec<u32>> = (0..4).map(|seed| [&system[..], &prompt(seed + 20, 100)].concat()).collect();
    let jobs: Vec<_> = prompts.iter().map(|prompt| submit(&scheduler, prompt, 5, Drafts::Off)).collect();
    for (prompt, job) in prompts.iter().zip(&jobs) {
        assert_eq!(finish(job).0, expected(scheduler.engine(), prompt, 5));
    }
    let rows = counts.rows.load(Ordering::Relaxed);
    assert!(rows < 1000 + 4 * (64 + 100 + 5), "{rows}");
}

#[test]
fn jobs_that_have_to_give_way_go_on_where_they_were() {
    for parked in [0, 1 << 20] {
        let (scheduler, _) = scheduler(Room { pages: 30, slots: 7, reserve: 2, parked, ..Room::of(3) });
        let prompts: Vec<Vec<u32>> = (0..4).map(|seed| prompt(seed + 40, 500)).collect();
        let jobs: Vec<_> = prompts.iter().map(|prompt| submit(&scheduler, prompt, 400, all())).collect();
        for (prompt, job) in prompts.iter().zip(&jobs) {
            assert_eq!(finish(job).0, expected(scheduler.engine(), prompt, 400), "{parked} bytes");
        }
        assert!(scheduler.status().counters.preempted > 0);
    }
}

#[test]
fn conversations_and_edits_reuse_what_jobs_have_computed() {
    let (scheduler, _) = scheduler(Room::of(2));
    let mut conversation = prompt(5, 4000);
    let (answer, _) = finish(&submit(&scheduler, &conversation, 100, Drafts::default()));
    conversation.extend(&answer);
    // The last token of an answer is not run.
    let held = conversation.len() - 1;
    let longer = [&conversation[..], &prompt(6, 50)].concat();
    let (tokens, outcome) = finish(&submit(&scheduler, &longer, 10, Drafts::default()));
    assert_eq!(tokens, expected(scheduler.engine(), &longer, 10));
    assert_eq!(outcome.progress.cached, held);
    let mut edited = prompt(5, 4000);
    edited[3900] += 1;
    let (tokens, outcome) = finish(&submit(&scheduler, &edited, 10, Drafts::default()));
    assert_eq!(tokens, expected(scheduler.engine(), &edited, 10));
    assert!(outcome.progress.prompt < 400, "{:?}", outcome.progress);
}

#[test]
fn slots_are_saved_with_their_states() {
    let (source, _) = scheduler(Room::of(1));
    let tokens = prompt(7, 700);
    let (answer, _) = finish(&submit(&source, &tokens, 30, Drafts::Off));
    let (sender, answers) = mpsc::channel();
    source.save(0, move |snapshot| sender.send(snapshot.unwrap().to_bytes()).unwrap());
    let bytes = answers.recv().unwrap();
    assert!(bytes.starts_with(b"BLMSNAP2"));
    let (target, _) = scheduler(Room::of(1));
    let (sender, answers) = mpsc::channel();
    target.restore(0, Snapshot::from_bytes(&bytes).unwrap(), move |held| sender.send(held.unwrap()).unwrap());
    assert_eq!(answers.recv().unwrap(), 729);
    let longer = [&tokens[..], &answer, &[1, 2, 3]].concat();
    let (tokens, outcome) = finish(&submit(&target, &longer, 20, Drafts::Off));
    assert_eq!(tokens, expected(target.engine(), &longer, 20));
    assert_eq!((outcome.progress.cached, outcome.progress.prompt), (729, 4));
}
