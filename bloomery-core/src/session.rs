//! One conversation's state.

use crate::engine::{Engine, Logits, Readout, Turn};
use crate::error::EngineError;
use crate::prefix::SlotUse;
use crate::state::{Keep, Known, PAGE, SavedState, SequenceState, Snapshot};

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

    /// Copies the session's state out of the engine.
    pub fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let mut backend = self.engine.inner.backend()?;
        let mut held = self.state.len().min(self.len());
        let mut state = None;
        if backend.state_bytes() > 0 {
            let known = self.state.state_at(held, &self.engine.inner.cache().pool);
            held = known.map_or(0, |(len, _)| len);
            state = Some(SavedState { len: held, bytes: Vec::new() });
            if let (Some((_, known)), Some(state)) = (known, &mut state) {
                backend.read_state(known.id(), &mut state.bytes);
            }
        }
        let read = |&page: &u32| {
            let mut bytes = Vec::with_capacity(backend.page_bytes());
            backend.read_page(page, &mut bytes);
            bytes
        };
        Ok(Snapshot {
            model: self.engine.inner.fingerprint(),
            tokens: self.tokens().to_vec(),
            pages: self.state.pages()[..held.div_ceil(PAGE)].iter().map(read).collect(),
            state,
        })
    }

    /// Replaces the session's state by a saved one. On error the session is empty or as it was.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        let bad = |why: String| Err(EngineError::BadSnapshot { why });
        if snapshot.model != self.engine.inner.fingerprint() {
            return bad("it was taken of another model or with another cache type".to_owned());
        }
        let (len, context) = (snapshot.tokens.len(), self.engine.context());
        if len > context {
            return Err(EngineError::ContextFull { len: 0, adding: len, context });
        }
        let mut backend = self.engine.inner.backend()?;
        let vocab = self.engine.model().vocab;
        if let Some(&id) = snapshot.tokens.iter().find(|&&id| id as usize >= vocab) {
            return Err(EngineError::UnknownToken { id, vocab });
        }
        let (size, state_size) = (backend.page_bytes(), backend.state_bytes());
        let held = snapshot.state.as_ref().map_or(len, |state| state.len);
        match &snapshot.state {
            None if state_size > 0 => return bad("it has no recurrent state".to_owned()),
            Some(_) if state_size == 0 => return bad("it has a recurrent state".to_owned()),
            Some(state) if held > len || state.bytes.len() != if held > 0 { state_size } else { 0 } => {
                let bytes = state.bytes.len();
                return bad(format!(
                    "a state of {held} of {len} positions has {bytes} bytes, not {state_size}"
                ));
            }
            _ => {}
        }
        let wanted = held.div_ceil(PAGE);
        if snapshot.pages.len() != wanted || snapshot.pages.iter().any(|page| page.len() != size) {
            return bad(format!("{} pages where {wanted} of {size} bytes are needed", snapshot.pages.len()));
        }
        let mut cache = self.engine.inner.cache();
        self.state.truncate(0, &mut cache.pool);
        (self.unfed, self.ahead) = (None, 0);
        let (tokens, owed) = snapshot.tokens.split_at(held);
        if !cache.grow(&mut self.state, tokens, backend.as_mut()) {
            let (free, total) = (cache.obtainable(), cache.pool.capacity());
            return Err(EngineError::PoolExhausted { needed: wanted, free, total });
        }
        if let Some(state) = snapshot.state.as_ref().filter(|state| state.len > 0) {
            let Some(slot) = cache.state_slot(SlotUse::End, backend.as_mut()) else {
                self.state.cut(0, &mut cache.pool);
                return Err(EngineError::NoStateSlot { total: cache.pool.states.capacity() });
            };
            backend.write_state(slot.id(), &state.bytes);
            let known = Known { len: held, state: slot, keep: Keep::Spaced };
            self.state.recurrent().advance(&[known], &mut cache.pool.states);
        }
        self.state.owe(owed);
        drop(cache);
        for (&page, bytes) in self.state.pages().iter().zip(&snapshot.pages) {
            backend.write_page(page, bytes);
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.state.truncate(0, &mut self.engine.inner.cache().pool);
        self.engine.inner.close_session();
    }
}
