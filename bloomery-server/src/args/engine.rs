//! From flags to a plan.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use bloomery_core::scheduler::SchedulerOptions;
use bloomery_core::{Context, Engine, EngineBuilder, KvType, ModelSource, Placement, Plan, PlanError};

/// Slots where the command line does not say.
const AUTO_SLOTS: usize = 4;

/// Jobs that run or wait, where the command line does not say.
const AUTO_JOBS: usize = 64;

/// Contexts of slots are multiples of this, as in llama.cpp.
const STEP: usize = 256;

/// What the engine is planned with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// The file; without one, the demo model.
    pub model: Option<PathBuf>,
    /// Positions of all slots together; 0 is what the model was trained for, as memory allows.
    pub context: usize,
    /// Jobs that run at the same time; `None` is for the server to choose.
    pub slots: Option<usize>,
    /// Whether each slot may use the whole context; `None`: where the number of slots was not given.
    pub unified: Option<bool>,
    /// Most positions of one slot.
    pub per_slot: Option<usize>,
    /// Jobs that may wait; `None` is for the server to choose.
    pub queue_depth: Option<usize>,
    /// MiB for prefixes that no slot holds; -1 is no limit, `None` is for the server to choose.
    pub cache_ram: Option<i64>,
    /// Most tokens of one step, by either name; 0 is no limit of its own.
    pub batch: usize,
    /// See `batch`.
    pub ubatch: usize,
    /// Type of cached keys and values.
    pub kv: KvType,
    /// Threads; `None` is one for each physical core.
    pub threads: Option<NonZeroUsize>,
    /// Where weights and caches live.
    pub placement: Placement,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            model: None,
            context: 0,
            slots: None,
            unified: None,
            per_slot: None,
            queue_depth: None,
            cache_ram: None,
            batch: 2048,
            ubatch: 512,
            kv: KvType::F16,
            threads: None,
            placement: Placement::Auto,
        }
    }
}

impl EngineOptions {
    /// Jobs that run at the same time.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.unwrap_or(AUTO_SLOTS)
    }

    /// Whether each slot may use the whole context.
    #[must_use]
    pub fn unified(&self) -> bool {
        self.unified.unwrap_or(self.slots.is_none())
    }

    /// Jobs that may wait.
    #[must_use]
    pub fn queue_depth(&self) -> usize {
        self.queue_depth.unwrap_or_else(|| AUTO_JOBS.saturating_sub(self.slots()).max(1))
    }

    /// Positions that one slot may use.
    #[must_use]
    pub fn slot_context(&self) -> Context {
        let all = match self.context {
            0 => None,
            n if self.unified() => Some(n),
            n => Some(n / self.slots()),
        };
        let tokens = match (all, self.per_slot) {
            (Some(all), Some(slot)) => all.min(slot),
            (Some(n), None) | (None, Some(n)) => n,
            (None, None) => return Context::Auto,
        };
        Context::Tokens(tokens.max(1).next_multiple_of(STEP))
    }

    /// Most rows of a step.
    #[must_use]
    pub fn step_rows(&self) -> usize {
        let limits = [self.batch, self.ubatch].into_iter().filter(|&rows| rows > 0);
        limits.min().unwrap_or(Self::default().batch)
    }

    /// How the scheduler divides the engine.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerOptions {
        SchedulerOptions { slots: self.slots(), queue_depth: self.queue_depth() }
    }

    /// Reads the file's header and plans. The only place where options become an engine's.
    ///
    /// # Errors
    /// Those of [`EngineBuilder::plan`].
    pub fn plan(&self) -> Result<Plan, PlanError> {
        self.builder().plan()
    }

    fn builder(&self) -> EngineBuilder {
        let source =
            self.model.as_ref().map_or_else(ModelSource::demo, |path| ModelSource::File(path.clone()));
        let builder = Engine::builder(source)
            .placement(self.placement)
            .context(self.slot_context())
            .sessions(self.slots())
            .step_rows(self.step_rows())
            .kv(self.kv);
        match self.threads {
            Some(threads) => builder.threads(threads),
            None => builder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(
        context: usize,
        slots: Option<usize>,
        unified: Option<bool>,
        per_slot: Option<usize>,
    ) -> Context {
        EngineOptions { context, slots, unified, per_slot, ..EngineOptions::default() }.slot_context()
    }

    #[test]
    fn slots_divide_or_share_the_context() {
        let tokens = Context::Tokens;
        assert_eq!(context(0, None, None, None), Context::Auto);
        assert_eq!(context(0, Some(2), None, None), Context::Auto);
        assert_eq!(context(4096, None, None, None), tokens(4096), "auto slots share");
        assert_eq!(context(4096, Some(2), None, None), tokens(2048));
        assert_eq!(context(4096, Some(3), None, None), tokens(1536), "1365 rounded up to 256");
        assert_eq!(context(4096, Some(2), Some(true), None), tokens(4096));
        assert_eq!(context(4096, None, Some(false), None), tokens(1024));
        assert_eq!(context(100, Some(8), None, None), tokens(256));
        assert_eq!(context(0, Some(2), None, Some(512)), tokens(512));
        assert_eq!(context(4096, None, None, Some(512)), tokens(512));
    }

    #[test]
    fn what_is_not_given_is_chosen() {
        let options = EngineOptions::default();
        assert_eq!((options.slots(), options.queue_depth(), options.step_rows()), (4, 60, 512));
        let many = EngineOptions { slots: Some(100), batch: 64, ubatch: 0, ..EngineOptions::default() };
        assert_eq!((many.queue_depth(), many.step_rows()), (1, 64));
    }
}
