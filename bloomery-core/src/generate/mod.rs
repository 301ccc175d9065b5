//! Text from a session: prompt in, pieces out.

mod ahead;
mod chat;
mod chooser;
mod params;

use ahead::Ahead;
pub use chat::Conversation;
pub(crate) use chooser::Chooser;
pub use params::Params;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::constrain::Constraint;
use crate::engine::{Engine, Logits, Readout};
use crate::error::EngineError;
use crate::sampling::{Breakers, Sampler, StopMatcher};
use crate::session::Session;
use crate::tokenizer::{Detokenizer, Specials};

/// Ends a generation from another thread: it stops before its next step.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the generation to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Some text of a generation. A piece may be empty when a token ends inside a character or a possible stop text.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Piece {
    /// The text that is certain with this token.
    pub text: String,
    /// The token; `None` for text that was held back until the end.
    pub token: Option<u32>,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The model ended its turn, or a constraint says that the text is complete.
    End,
    /// A stop text appeared.
    StopText,
    /// [`Params::max_tokens`] were generated.
    MaxTokens,
    /// The session has no room left.
    ContextFull,
    /// [`Cancel::cancel`] was called.
    Cancelled,
}

/// How much was done, and how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Prompt tokens that the session held already.
    pub cached: usize,
    /// Prompt tokens that were run.
    pub prompt: usize,
    /// Time the prompt took.
    pub prompt_time: Duration,
    /// Tokens generated.
    pub generated: usize,
    /// Time they took.
    pub generate_time: Duration,
    /// Tokens that were guessed and checked; see [`Params::drafts`].
    pub drafted: usize,
    /// Those that were right.
    pub accepted: usize,
}

impl Timings {
    /// Prompt tokens per second.
    #[must_use]
    pub fn prompt_rate(&self) -> f64 {
        rate(self.prompt, self.prompt_time)
    }

    /// Generated tokens per second.
    #[must_use]
    pub fn generate_rate(&self) -> f64 {
        rate(self.generated, self.generate_time)
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

/// A running generation: an iterator of pieces. The session is left with everything that was fed and generated, but for
/// the last token, which is run when [`Session::generate`] goes on.
#[derive(Debug)]
pub struct Generation<'s> {
    session: &'s mut Session,
    prompt: Vec<u32>,
    fed: usize,
    readout: Readout,
    ahead: Ahead,
    chooser: Chooser,
    detokenizer: Detokenizer,
    stops: StopMatcher,
    limit: usize,
    ignore_end: bool,
    cancel: Cancel,
    timings: Timings,
    ended: Option<StopReason>,
}

impl Session {
    /// Continues raw text after whatever the session holds; an empty session starts with the model's BOS token where
    /// it has one. No chat template is applied: see [`Conversation`] for that.
    pub fn generate(&mut self, text: &str, params: &Params) -> Result<Generation<'_>, EngineError> {
        let tokenizer = self.engine.tokenizer();
        let mut tokens: Vec<u32> = self.unfed.into_iter().collect();
        tokens.extend(match self.is_empty() {
            true => tokenizer.encode_prompt(text, Specials::AsText)?,
            false => tokenizer.encode(text, Specials::AsText)?,
        });
        self.generate_after(tokens, 0, params)
    }

    /// Generates after exactly `tokens`. What is known of them is not run again; see [`Session::adopt`]. Everything else
    /// the session holds is forgotten.
    pub fn generate_tokens(
        &mut self,
        tokens: &[u32],
        params: &Params,
    ) -> Result<Generation<'_>, EngineError> {
        let (adding, context) = (tokens.len(), self.engine.context());
        if adding > context {
            return Err(EngineError::ContextFull { len: 0, adding, context });
        }
        let kept = self.adopt(tokens)?;
        self.generate_after(tokens[kept..].to_vec(), kept, params)
    }

    /// Generates after what the session holds and `tokens`.
    fn generate_after(
        &mut self,
        tokens: Vec<u32>,
        cached: usize,
        params: &Params,
    ) -> Result<Generation<'_>, EngineError> {
        if tokens.is_empty() {
            return Err(EngineError::NoTokens { what: "a generation" });
        }
        if tokens.len() > self.room() {
            let (len, adding, context) = (self.len(), tokens.len(), self.engine.context());
            return Err(EngineError::ContextFull { len, adding, context });
        }
        let mut past = self.tokens().to_vec();
        past.extend_from_slice(&tokens);
        let sampler = self.engine.sampler(params, &past)?;
        let engine = self.engine.clone();
        Ok(Generation {
            detokenizer: self.engine.tokenizer().continuation(params.special),
            stops: StopMatcher::new(params.stop.iter().cloned()),
            limit: params.max_tokens.unwrap_or(usize::MAX),
            ignore_end: params.ignore_end,
            session: self,
            prompt: tokens,
            fed: 0,
            readout: Readout::None,
            ahead: Ahead::new(&engine, &params.drafts, &past),
            chooser: Chooser { sampler, constraint: None },
            cancel: Cancel::default(),
            timings: Timings { cached, ..Timings::default() },
            ended: None,
        })
    }
}

impl Engine {
    /// A sampler that has seen `past`: penalties look at the whole context.
    pub(crate) fn sampler(&self, params: &Params, past: &[u32]) -> Result<Sampler, EngineError> {
        let mut sampler = Sampler::new(&params.sampling, self.context())?;
        if params.sampling.dry_active() {
            sampler = sampler.with_breakers(self.breakers(&params.sampling.dry_sequence_breakers));
        }
        past.iter().for_each(|&token| sampler.accept(token));
        Ok(sampler)
    }

    /// The tokens that a repetition does not reach across.
    fn breakers(&self, texts: &[String]) -> Breakers {
        let tokenizer = self.tokenizer();
        let pieces = (0..tokenizer.vocab_size() as u32).map(|id| tokenizer.token_bytes(id, true));
        // A text that the vocabulary cannot spell cannot be generated either.
        Breakers::from_texts(texts, pieces, |text| {
            tokenizer.encode(text, Specials::AsText).unwrap_or_default()
        })
    }
}

impl Generation<'_> {
    /// A handle that stops the generation.
    #[must_use]
    pub fn cancel_handle(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Stops when `cancel` says so, instead of the generation's own handle.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Keeps the text within `constraint`, which is at its beginning; the generation ends when the text is complete.
    ///
    /// ```
    /// use bloomery_core::constrain::Grammar;
    /// use bloomery_core::{Engine, ModelSource, Params};
    ///
    /// let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
    /// let animal = engine.constraint(&Grammar::gbnf(r#"root ::= "fox" | "owl""#))?;
    /// let mut session = engine.session()?;
    /// let mut text = String::new();
    /// for piece in session.generate("Once upon a time there was a", &Params::greedy())?.constrained_by(animal) {
    ///     text += &piece?.text;
    /// }
    /// assert!(text == "fox" || text == "owl");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn constrained_by(mut self, constraint: Box<dyn Constraint>) -> Self {
        self.chooser.constraint = Some(constraint);
        self
    }

    /// What was done so far.
    #[must_use]
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Why the generation ended, once it has.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.ended
    }

    /// Runs the next part of the prompt: at most one step, so that a cancel is seen between steps. Returns how much
    /// of it has been run; generating starts by itself when the iterator is asked for a piece.
    pub fn feed_some(&mut self) -> Result<usize, EngineError> {
        let start = Instant::now();
        let end = self.prompt.len().min(self.fed + self.session.engine.step_rows());
        if self.fed < end {
            let goal = self.session.len() + self.prompt.len() - self.fed;
            let needs = self.chooser.needs();
            // Nobody looks at logits before the last.
            let want = if end == self.prompt.len() { Logits::Last } else { Logits::None };
            self.readout =
                self.session.feed(self.prompt[self.fed..].split_at(end - self.fed), want, |turn| {
                    turn.needing(needs).toward(goal)
                })?;
            self.timings.prompt += end - self.fed;
            self.timings.prompt_time += start.elapsed();
            self.fed = end;
        }
        Ok(self.fed)
    }

    /// Tokens of the prompt.
    #[must_use]
    pub fn prompt_len(&self) -> usize {
        self.prompt.len()
    }

    fn advance(&mut self) -> Result<Option<Piece>, EngineError> {
        while self.fed < self.prompt.len() {
            if self.cancel.is_cancelled() {
                return Ok(self.end(StopReason::Cancelled));
            }
            self.feed_some()?;
        }
        let start = Instant::now();
        if self.cancel.is_cancelled() {
            return Ok(self.end(StopReason::Cancelled));
        }
        if self.timings.generated >= self.limit {
            return Ok(self.end(StopReason::MaxTokens));
        }
        let row = match self.ahead.row() {
            Some(row) => row,
            None if self.session.room() == 0 => return Ok(self.end(StopReason::ContextFull)),
            None => self.check()?,
        };
        // Everything up to the row is certain now.
        (self.session.unfed, self.session.ahead) = (None, row.1 - 1 - row.0);
        let Some(token) = self.chooser.choose(&self.readout, row)?.map(|sampled| sampled.id) else {
            return Ok(self.end(StopReason::End));
        };
        self.take(token);
        self.timings.generated += 1;
        self.timings.generate_time += start.elapsed();
        self.ahead.spent(start.elapsed());
        if !self.ignore_end && self.session.engine.tokenizer().is_end_of_generation(token) {
            return Ok(self.end(StopReason::End));
        }
        let step = self.stops.push(&self.detokenizer.push(token));
        if step.stopped.is_some() {
            self.ended = Some(StopReason::StopText);
        }
        Ok(Some(Piece { text: step.emit, token: Some(token) }))
    }

    /// Marks the end and gives out the text that was held back.
    fn end(&mut self, reason: StopReason) -> Option<Piece> {
        self.ended = Some(reason);
        let step = self.stops.push(&self.detokenizer.finish());
        let mut text = step.emit;
        if step.stopped.is_some() {
            self.ended = Some(StopReason::StopText);
        } else {
            text.push_str(&self.stops.finish());
        }
        (!text.is_empty()).then_some(Piece { text, token: None })
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Piece, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended.is_some() {
            return None;
        }
        match self.advance() {
            Ok(piece) => piece.map(Ok),
            Err(error) => {
                self.ended = Some(StopReason::Cancelled);
                Some(Err(error))
            }
        }
    }
}
