//! Sessions into snapshots, and back.

use super::Session;
use crate::error::EngineError;
use crate::prefix::SlotUse;
use crate::state::{Keep, Known, PAGE, SavedState, Skipped, Snapshot};

impl Session {
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
        let (pages, skipped) = (&self.state.pages()[..held.div_ceil(PAGE)], self.skipped(held));
        let read = |&page: &u32| {
            let mut bytes = Vec::with_capacity(backend.page_bytes());
            backend.read_page(page, &mut bytes);
            bytes
        };
        Ok(Snapshot {
            model: self.engine.inner.fingerprint(),
            tokens: self.tokens().to_vec(),
            pages: pages.iter().map(read).collect(),
            state,
            skipped,
        })
    }

    /// What layers have skipped of the first `held` positions; none, if that is nothing and no more is owed.
    fn skipped(&self, held: usize) -> Option<Skipped> {
        let cache = self.engine.inner.cache();
        if cache.pool.states.is_used() {
            return None;
        }
        let rows = |index: usize| PAGE.min(held - index * PAGE);
        let pages = self.state.pages()[..held.div_ceil(PAGE)].iter().enumerate();
        let sound: Vec<usize> =
            pages.map(|(index, &page)| cache.pool.sound_rows(page, rows(index))).collect();
        let is_whole = held == self.len() && sound.iter().sum::<usize>() == held;
        let sound = sound.into_iter().map(|rows| rows as u8).collect();
        (!is_whole).then_some(Skipped { len: held, sound })
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
        let skipped = snapshot.skipped.as_ref();
        let held =
            snapshot.state.as_ref().map_or(skipped.map_or(len, |skipped| skipped.len), |state| state.len);
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
        if skipped.is_some_and(|skipped| held > len || skipped.sound.len() != wanted) {
            let marks = skipped.map_or(0, |skipped| skipped.sound.len());
            return bad(format!("{marks} marks for {held} of {len} positions"));
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
        for (&page, &sound) in
            self.state.pages().iter().zip(skipped.iter().flat_map(|skipped| &skipped.sound))
        {
            if usize::from(sound) < PAGE {
                cache.pool.wrote_keys(page, usize::from(sound), false);
            }
        }
        self.state.owe(owed);
        drop(cache);
        for (&page, bytes) in self.state.pages().iter().zip(&snapshot.pages) {
            backend.write_page(page, bytes);
        }
        Ok(())
    }
}
