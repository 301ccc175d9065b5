//! Our side of a benchmark.

use std::time::Instant;

use bloomery_core::sampling::Needs;
use bloomery_core::{Context, Engine, EngineError, Logits, Placement, Session, StageTime, Turn};
use bloomery_examples::{Failure, ModelArgs, Random, load};

use crate::args::Args;
use crate::test::{Kind, Test};

/// What comes back of a step of one token a sequence: as much as greedy choice looks at.
const GREEDY: Needs = Needs::Top(1);

/// An engine with the sessions that the widest test needs.
pub(crate) struct Runner {
    engine: Engine,
    sessions: Vec<Session>,
    random: Random,
    threads: usize,
    place: String,
    plan: String,
}

impl Runner {
    /// Loads a model for all tests.
    pub(crate) fn new(args: &Args, model: &ModelArgs) -> Result<Self, Failure> {
        let builder = model.builder()?.context(Context::Tokens(args.context())).sessions(args.sessions());
        let builder = builder.step_rows(args.ubatch_size as usize);
        let plan = builder.plan().map_err(|error| Failure::from(error).about(model.name()))?;
        let threads = plan.threads().get();
        let place = match plan.placement() {
            Placement::Card(number) => format!("CUDA{number}"),
            Placement::Split(number) => format!("CUDA{number} + {threads} threads"),
            _ => format!("{threads} threads"),
        };
        let text = plan.to_string();
        let engine = load(plan).map_err(|failure| failure.about(model.name()))?;
        let sessions = (0..args.sessions()).map(|_| engine.session()).collect::<Result<_, _>>()?;
        Ok(Self { engine, sessions, random: Random::new(1), threads, place, plan: text })
    }

    /// The plan, and what its experts did so far.
    pub(crate) fn travelled(&self) -> Result<String, EngineError> {
        let Some(traffic) = self.engine.traffic()? else { return Ok(self.plan.clone()) };
        Ok(format!("{}\nhits {:.3}, {traffic:?}", self.plan, traffic.hit_rate()))
    }

    /// CPU threads of the engine.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// The card, or how many threads of the CPU.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The stages of one step of a test; none on the CPU. Of a prompt, the last step.
    pub(crate) fn stages(&mut self, test: Test) -> Result<Vec<StageTime>, Failure> {
        self.fill(test)?;
        let count = match test.kind {
            Kind::Prompt => test.tokens.min(self.engine.step_rows()),
            Kind::Generate => 1,
        };
        let ids = self.ids(count * test.parallel, false);
        let pairs = self.sessions.iter_mut().zip(ids.chunks_exact(count));
        let mut turns: Vec<Turn<'_>> =
            pairs.map(|(session, ids)| Turn::new(session, ids, Logits::Last).timed()).collect();
        self.engine.step(&mut turns)?;
        Ok(turns[0].stages().to_vec())
    }

    /// One unmeasured round: a whole prompt, or as many steps as a card takes to capture one.
    pub(crate) fn warm_up(&mut self, test: Test) -> Result<(), Failure> {
        let tokens = match test.kind {
            Kind::Prompt => test.tokens,
            Kind::Generate => test.tokens.min(3),
        };
        self.rate(Test { tokens, ..test }).map(|_| ())
    }

    /// Tokens per second of one round, all sequences together. Filling the context is not part of it.
    pub(crate) fn rate(&mut self, test: Test) -> Result<f64, Failure> {
        self.fill(test)?;
        let ids = self.ids(test.tokens * test.parallel, test.depth == 0);
        let start = Instant::now();
        match test.kind {
            Kind::Prompt => {
                self.sessions[0].prefill(&ids)?;
            }
            Kind::Generate => {
                for step in ids.chunks_exact(test.parallel) {
                    self.step(step)?;
                }
            }
        }
        Ok((test.tokens * test.parallel) as f64 / start.elapsed().as_secs_f64())
    }

    /// Brings the test's sessions to its depth and empties all others.
    fn fill(&mut self, test: Test) -> Result<(), EngineError> {
        for index in 0..self.sessions.len() {
            let depth = if index < test.parallel { test.depth } else { 0 };
            let len = self.sessions[index].len();
            if len < depth {
                let ids = self.ids(depth - len, len == 0);
                self.sessions[index].prefill(&ids)?;
            } else {
                // Where a recurrent state is not known any more, the step after brings it back: not one that is timed.
                let known = depth.saturating_sub(1);
                self.sessions[index].truncate(known)?;
                if known < depth {
                    let ids = self.ids(1, known == 0);
                    self.sessions[index].prefill(&ids)?;
                }
            }
        }
        Ok(())
    }

    /// Random ids. Those that open a sequence begin with the BOS where the model wants one.
    fn ids(&mut self, count: usize, opens: bool) -> Vec<u32> {
        let tokenizer = self.engine.tokenizer();
        let bos = tokenizer.bos().filter(|_| opens && tokenizer.adds_bos());
        let mut ids = self.random.ids(count, self.engine.model().vocab);
        if let (Some(first), Some(bos)) = (ids.first_mut(), bos) {
            *first = bos;
        }
        ids
    }

    /// One token in each of the first sessions, in one pass.
    fn step(&mut self, tokens: &[u32]) -> Result<(), EngineError> {
        let pairs = self.sessions.iter_mut().zip(tokens);
        let mut turns: Vec<Turn<'_>> = pairs
            .map(|(session, token)| {
                Turn::new(session, std::slice::from_ref(token), Logits::Last).needing(GREEDY)
            })
            .collect();
        self.engine.step(&mut turns)
    }

    /// Weights read per second in units of 1e9 bytes, where that is a simple product.
    pub(crate) fn gigabytes(&self, test: Test, rate: f64) -> String {
        match (test.kind, test.parallel) {
            (Kind::Generate, 1) => format!("{:.2}", self.engine.bytes_per_token().0 as f64 * rate / 1e9),
            _ => String::new(),
        }
    }
}
