//! Memory of a card from experts to sessions and back, while the engine runs.

use std::time::{Duration, Instant};

use super::Engine;
use crate::error::EngineError;
use crate::state::PAGE;

/// How a card's memory is divided after [`Engine::rebalance`], and how it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Rebalanced {
    /// Positions of all sessions together: whole pages.
    pub pool_tokens: usize,
    /// The same before.
    pub pool_tokens_before: usize,
    /// Slots for experts.
    pub slots: usize,
    /// The same before.
    pub slots_before: usize,
    /// Pages of prefixes that had to leave the pool.
    pub evicted_pages: u64,
    /// How long no step could run.
    pub time: Duration,
}

impl Engine {
    /// Makes the pool that sessions take their pages from as large as `pool_tokens` positions, at least one session's context,
    /// and gives all other memory that [`EngineBuilder::pool`](crate::EngineBuilder::pool) and slots for experts had to slots.
    /// Sessions and a [`Scheduler`](crate::scheduler::Scheduler) go on: steps wait meanwhile. What a smaller pool has no room for of
    /// prefixes goes as where room is needed otherwise; [`terms`](Self::terms) stay those of the plan.
    ///
    /// # Errors
    /// [`EngineError::NotSplit`] where not a card and the host share the experts, [`EngineError::PoolTooLarge`],
    /// [`EngineError::PoolInUse`]: nothing has changed then, but that slots may be fewer where another program has taken memory
    /// of the card. After an error of the card itself the engine is [`EngineError::Poisoned`].
    pub fn rebalance(&self, pool_tokens: usize) -> Result<Rebalanced, EngineError> {
        let mut backend = self.inner.backend()?;
        let start = Instant::now();
        let slots =
            |backend: &dyn crate::backend::Backend| backend.traffic().map_or(0, |traffic| traffic.slots);
        let most = backend.most_pages().ok_or(EngineError::NotSplit)?.min(u32::MAX as usize);
        let pages = pool_tokens.max(self.context()).div_ceil(PAGE);
        let too_large = |most: usize| EngineError::PoolTooLarge { wanted: pages * PAGE, most: most * PAGE };
        if pages > most {
            return Err(too_large(most));
        }
        let before = self.inner.cache().pool.capacity();
        let mut done = Rebalanced {
            pool_tokens_before: before * PAGE,
            slots_before: slots(backend.as_ref()),
            ..Rebalanced::default()
        };
        let mut now = before;
        if pages < before {
            let shrunk = self.inner.cache().shrink(pages as u32, backend.as_mut());
            let in_use = |held: usize| EngineError::PoolInUse { wanted: pages * PAGE, held: held * PAGE };
            done.evicted_pages = shrunk.map_err(in_use)?;
        }
        if pages != before {
            now = backend.rebalance(pages)?;
            // While the backend is held, others only give pages back.
            self.inner.cache().pool.resize(now as u32);
        }
        if now < pages {
            return Err(too_large(now));
        }
        (done.pool_tokens, done.slots) = (now * PAGE, slots(backend.as_ref()));
        done.time = start.elapsed();
        Ok(done)
    }
}
