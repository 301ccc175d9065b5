//! One conversation's state.

mod saved;

use crate::engine::{Engine, Logits, Readout, Turn};
use crate::error::EngineError;
use crate::state::{PAGE, SequenceState};

/// The tokens of one conversation and what the model remembers of them. `Send`: sessions may move between threads.
///
/// ```
/// use bloomery_core::{Engine, ModelSource};
///
/// let engine = Engine::builder(ModelSource::demo()).sessions(2).plan()?.load(|_| {})?;
/// let mut session = engine.session()?;
/// session.prefill(&[2638, 711, 258, 561])?;
/// let mut other = session.fork()?;
/// assert_eq!(session.step(463)?, other.step(463)?);
/// session.truncate(4)?;
/// assert_eq!((session.len(), other.len()), (4, 5));
/// # Ok::<(), bloomery_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    pub(crate) engine: Engine,
    pub(crate) state: SequenceState,
    /// Generated last and not yet run.
    pub(crate) unfed: Option<u32>,
    /// Positions at the end of the state that were guessed and are not part of the session: they go with the next use.
    pub(crate) ahead: usize,
    logits: Vec<f32>,
}

impl Session {
    pub(crate) fn new(engine: &Engine) -> Result<Self, EngineError> {
        engine.inner.open_session()?;
        let (engine, state) = (engine.clone(), SequenceState::default());
        Ok(Self { engine, state, unfed: None, ahead: 0, logits: Vec::new() })
    }

    /// The engine that runs this session.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Positions in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.all().len() - self.ahead
    }

    /// Whether nothing was fed yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Positions left.
    #[must_use]
    pub fn room(&self) -> usize {
        self.engine.context() - self.len()
    }

    /// Every token fed so far.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.state.all()[..self.len()]
    }

    /// Appends `tokens` and returns the logits after the last one: one value per id of the vocabulary. On error the
    /// session is as it was.
    pub fn prefill(&mut self, tokens: &[u32]) -> Result<&[f32], EngineError> {
        self.logits = self.feed((tokens, &[]), Logits::Last, |turn| turn)?.into_rows();
        Ok(&self.logits)
    }

    /// As [`prefill`](Self::prefill), in a turn with other options, before tokens that are known.
    pub(crate) fn feed(
        &mut self,
        (tokens, next): (&[u32], &[u32]),
        want: Logits,
        options: impl FnOnce(Turn<'_>) -> Turn<'_>,
    ) -> Result<Readout, EngineError> {
        if tokens.is_empty() {
            return Err(EngineError::NoTokens { what: "prefill" });
        }
        let engine = self.engine.clone();
        let mut turn = [options(Turn::new(self, tokens, want).before(next))];
        engine.step(&mut turn)?;
        let [turn] = turn;
        let readout = turn.into_readout();
        self.unfed = None;
        Ok(readout)
    }

    /// Appends one token and returns the logits after it.
    pub fn step(&mut self, token: u32) -> Result<&[f32], EngineError> {
        self.prefill(&[token])
    }

    /// Keeps the longest beginning of `tokens` that this session holds, and forgets the rest. Returns how many positions
    /// were kept; what is left to feed is `tokens[kept..]`. At least the last token is left, so that its logits can be
    /// had, and with recurrent layers those after the last state that the session knows. [`adopt`](Self::adopt) also looks at what other sessions have made known.
    pub fn keep_common(&mut self, tokens: &[u32]) -> Result<usize, EngineError> {
        let common = self.tokens().iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let kept = common.min(tokens.len().saturating_sub(1));
        self.state.cut(kept, &mut self.engine.inner.cache().pool);
        (self.unfed, self.ahead) = (None, 0);
        Ok(self.len())
    }

    /// Makes the session the longest known beginning of `tokens`: of what it holds itself, of what any session of the
    /// engine has [published](Self::publish), and of what sessions held before they adopted something else. Returns its
    /// length; what is left to feed is `tokens[length..]`. At least the last token is left, so that its logits can be
    /// had. Results are the same, to the bit, as if everything were run again.
    ///
    /// ```
    /// use bloomery_core::{Engine, ModelSource};
    ///
    /// let engine = Engine::builder(ModelSource::demo()).sessions(2).plan()?.load(|_| {})?;
    /// let mut first = engine.session()?;
    /// let logits = first.prefill(&[2638, 711, 258, 561, 463])?.to_vec();
    /// first.publish();
    ///
    /// let mut second = engine.session()?;
    /// assert_eq!(second.adopt(&[2638, 711, 258, 561, 463])?, 4);
    /// assert_eq!(second.prefill(&[463])?, logits);
    /// # Ok::<(), bloomery_core::Error>(())
    /// ```
    pub fn adopt(&mut self, tokens: &[u32]) -> Result<usize, EngineError> {
        self.adopt_all(&tokens[..tokens.len().saturating_sub(1)])
    }

    /// As [`adopt`](Self::adopt), with the last token where that is known: no logits are wanted.
    pub(crate) fn adopt_all(&mut self, tokens: &[u32]) -> Result<usize, EngineError> {
        self.settle();
        let mut backend = self.engine.inner.backend()?;
        self.unfed = None;
        self.engine.inner.cache().adopt(&mut self.state, tokens, backend.as_mut());
        Ok(self.len())
    }

    /// Makes everything the session holds known to [`adopt`](Self::adopt), also after the session is gone, for as long
    /// as there is room for it. Nothing is copied and only what is new is looked at, so that this may be called after
    /// every step.
    pub fn publish(&mut self) {
        self.settle();
        self.engine.inner.cache().publish(&mut self.state, true);
    }

    /// As [`publish`](Self::publish) in the middle of a text: nobody is expected to go on from its end.
    pub(crate) fn publish_running(&mut self) {
        self.settle();
        self.engine.inner.cache().publish(&mut self.state, false);
    }

    /// Forgets every position from `len` on. Where the model has recurrent layers and the state after `len` is not known,
    /// the next step begins with the tokens from the last that is: results are the same, to the bit.
    pub fn truncate(&mut self, len: usize) -> Result<(), EngineError> {
        if len > self.len() {
            return Err(EngineError::BadPosition { position: len, len: self.len() });
        }
        self.state.truncate(len, &mut self.engine.inner.cache().pool);
        (self.unfed, self.ahead) = (None, 0);
        Ok(())
    }

    /// Cuts off what is ahead of the session, and lets go of states that nobody comes back to.
    pub(crate) fn settle(&mut self) {
        if self.ahead > 0 {
            let len = self.len();
            self.state.truncate(len, &mut self.engine.inner.cache().pool);
            self.ahead = 0;
        }
        if self.state.recurrent().is_unsettled() {
            self.state.recurrent().settle(usize::MAX, &mut self.engine.inner.cache().pool.states);
        }
    }

    /// Says that others go on after the first `len` positions, which are run soon.
    pub(crate) fn branch_at(&mut self, len: usize) {
        // Of a page that is not full they may find another's.
        self.state.recurrent().branch_at(len / PAGE * PAGE);
    }

    /// Whether the next step has to run more than its own tokens.
    pub(crate) fn owes(&self) -> bool {
        !self.state.owed().is_empty()
    }

    /// A second session with the same past, which it shares until one of the two writes to it.
    pub fn fork(&self) -> Result<Self, EngineError> {
        self.engine.inner.open_session()?;
        let mut cache = self.engine.inner.cache();
        let mut state = self.state.fork(&mut cache.pool);
        state.truncate(self.len(), &mut cache.pool);
        drop(cache);
        Ok(Self { engine: self.engine.clone(), state, unfed: self.unfed, ahead: 0, logits: Vec::new() })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.state.truncate(0, &mut self.engine.inner.cache().pool);
        self.engine.inner.close_session();
    }
}
