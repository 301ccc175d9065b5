//! From flags to a plan.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use bloomery_core::scheduler::SchedulerOptions;
use bloomery_core::{
    Bytes, CardPick, Cards, Context, Engine, EngineBuilder, HostExperts, HostFacts, KvType, ModelSource,
    Placement, Plan, PlanError, ResidencyMode,
};

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
    /// The head of a decision model, where it is not in the model's file.
    pub head: Option<PathBuf>,
    /// Its configuration, where it is not beside it.
    pub head_config: Option<PathBuf>,
    /// The block for the next tokens, where it is not in the model's file.
    pub block: Option<PathBuf>,
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
    /// States of recurrent layers that each slot can come back to; `None` is for the engine to choose.
    pub checkpoints: Option<usize>,
    /// Most tokens of one step, by either name; 0 is no limit of its own.
    pub batch: usize,
    /// See `batch`; `None` is for the engine to choose.
    pub ubatch: Option<usize>,
    /// Type of cached keys and values.
    pub kv: KvType,
    /// Threads; `None` is one for each physical core.
    pub threads: Option<NonZeroUsize>,
    /// Where weights and caches live.
    pub placement: Placement,
    /// Most memory of a card.
    pub card_budget: Option<Bytes>,
    /// Memory of a card that stays free; `None` is for the engine to choose.
    pub card_margin: Option<Bytes>,
    /// Layers whose experts stay in host memory.
    pub host_experts: HostExperts,
    /// Whether experts move between host and card.
    pub residency: ResidencyMode,
    /// Where counts of chosen experts are kept.
    pub heat: Option<PathBuf>,
    /// Whether memory may cut a context that was not given.
    pub fit: bool,
    /// Shortest context that it may cut one to.
    pub fit_floor: usize,
    /// Layers were to go to a card, so that it is worth a word if there is none for them.
    pub asked_for_card: bool,
}

/// What plans are made for, read once.
#[derive(Debug, Clone)]
struct Machine {
    host: HostFacts,
    cards: Cards,
    placement: Placement,
}

impl Machine {
    /// A card that was chosen stays chosen when a longer plan does not fit it.
    fn settled(&self, plan: &Plan) -> Self {
        let placement = match plan.placement() {
            card @ Placement::Card(_) => card,
            // It says why it is not whole.
            Placement::Split(number) if self.placement != Placement::Split(number) => {
                Placement::Fill(CardPick::Number(number))
            }
            _ => self.placement,
        };
        Self { placement, ..self.clone() }
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            model: None,
            head: None,
            head_config: None,
            block: None,
            context: 0,
            slots: None,
            unified: None,
            per_slot: None,
            queue_depth: None,
            cache_ram: None,
            checkpoints: None,
            batch: 2048,
            ubatch: None,
            kv: KvType::F16,
            threads: None,
            placement: Placement::Auto,
            card_budget: None,
            card_margin: None,
            host_experts: HostExperts::AsNeeded,
            residency: ResidencyMode::Adaptive,
            heat: None,
            fit: true,
            fit_floor: 4096,
            asked_for_card: false,
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
            (None, None) if self.fit => return Context::Auto,
            (None, None) => return Context::Trained,
        };
        Context::Tokens(tokens.max(1).next_multiple_of(STEP))
    }

    /// Most rows of a step; `None` is for the engine to choose.
    #[must_use]
    pub fn step_rows(&self) -> Option<usize> {
        /// What an engine may choose.
        const MOST: usize = 2048;
        let limits = [Some(self.batch), self.ubatch].into_iter().flatten().filter(|&rows| rows > 0);
        let limit = limits.min().unwrap_or(MOST);
        (self.ubatch.is_some() || limit < MOST).then_some(limit)
    }

    /// How the scheduler divides the engine.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerOptions {
        SchedulerOptions { slots: self.slots(), queue_depth: self.queue_depth() }
    }

    /// Positions of all slots together, where they share them and the number is given.
    fn pool(&self) -> Option<usize> {
        let given = match (self.context, self.per_slot) {
            (0, Some(slot)) => slot.next_multiple_of(STEP) * self.slots(),
            (0, None) => return None,
            (n, _) => n.next_multiple_of(STEP),
        };
        self.unified().then_some(given)
    }

    /// Reads the file's header and plans. The only place where options become an engine's.
    ///
    /// # Errors
    /// Those of [`EngineBuilder::plan`].
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let cards = match self.placement {
            Placement::Cpu => Cards::none("the CPU was asked for"),
            _ => Cards::read(),
        };
        self.plan_on(&Machine { host: HostFacts::read(), cards, placement: self.placement })
    }

    fn plan_on(&self, machine: &Machine) -> Result<Plan, PlanError> {
        let (plan, pool) = self.settle(machine)?;
        let machine = machine.settled(&plan);
        let parked = self.parked(machine.host.available.saturating_sub(plan.host_need()));
        if parked == Bytes(0) {
            return Ok(plan);
        }
        let builder = self.builder(&machine).context(Context::Tokens(plan.context())).cache_ram(parked);
        match pool {
            Some(pool) => builder.pool(pool).plan(),
            None => builder.plan(),
        }
    }

    /// The plan without memory for parked prefixes, and the positions that all slots share if they do.
    fn settle(&self, machine: &Machine) -> Result<(Plan, Option<usize>), PlanError> {
        let context = self.slot_context();
        if !self.unified() {
            return Ok((self.builder(machine).context(context).plan()?, None));
        }
        if let Some(pool) = self.pool() {
            return Ok((self.builder(machine).context(context).pool(pool).plan()?, Some(pool)));
        }
        // As much as one session alone would get.
        let alone = self.builder(machine).context(context).sessions(1).plan()?;
        let (machine, mut pool) = (machine.settled(&alone), alone.context());
        let shortest = if self.fit { self.fit_floor } else { usize::MAX };
        loop {
            match self.builder(&machine).context(Context::Tokens(pool)).pool(pool).plan() {
                // The other sessions' scratch.
                Err(PlanError::DoesNotFit { .. }) if pool > shortest => {
                    pool = (pool - pool / 16).max(shortest)
                }
                plan => return Ok((plan?, Some(pool))),
            }
        }
    }

    /// Memory for parked prefixes, of what the plan leaves free. It is a limit and not a need, so it never makes a plan
    /// fail.
    fn parked(&self, free: Bytes) -> Bytes {
        const MIB: u64 = 1 << 20;
        let wanted = match self.cache_ram {
            None => (8192 * MIB).min(free.0 / 2),
            Some(mib) => u64::try_from(mib).map_or(free.0 / 8 * 7, |mib| mib.saturating_mul(MIB)),
        };
        Bytes(wanted.min(free.0))
    }

    fn builder(&self, machine: &Machine) -> EngineBuilder {
        let source =
            self.model.as_ref().map_or_else(ModelSource::demo, |path| ModelSource::File(path.clone()));
        let builder = Engine::builder(source)
            .host(machine.host)
            .cards(machine.cards.clone())
            .placement(machine.placement)
            .sessions(self.slots())
            .kv(self.kv)
            .host_experts(self.host_experts.clone())
            .residency(self.residency)
            .context_floor(self.fit_floor);
        let builder = self.card_budget.into_iter().fold(builder, EngineBuilder::card_budget);
        let builder = self.card_margin.into_iter().fold(builder, EngineBuilder::card_margin);
        let builder = self.checkpoints.into_iter().fold(builder, EngineBuilder::checkpoints);
        let builder = self.head.iter().fold(builder, EngineBuilder::head);
        let builder = self.head_config.iter().fold(builder, EngineBuilder::head_config);
        let builder = self.block.iter().fold(builder, EngineBuilder::block);
        let builder = self.heat.iter().fold(builder, EngineBuilder::heat);
        let builder = self.step_rows().into_iter().fold(builder, EngineBuilder::step_rows);
        self.threads.into_iter().fold(builder, EngineBuilder::threads)
    }
}

#[cfg(test)]
mod tests {
    use bloomery_core::CardFacts;

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

    fn terms(options: &EngineOptions, mib: u64) -> Vec<String> {
        let host = HostFacts { available: Bytes(mib << 20), ..HostFacts::read() };
        let machine = Machine { host, cards: Cards::none("a test"), placement: Placement::Auto };
        options.plan_on(&machine).unwrap().terms().iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn has(terms: &[String], wanted: &str) {
        assert!(terms.iter().any(|term| term.contains(wanted)), "{wanted}: {terms:?}");
    }

    #[test]
    fn auto_slots_share_one_pool() {
        let auto = EngineOptions::default();
        has(&terms(&auto, 1024), "1024 positions of 2.00 KiB for 4 of up to 1024");
        let given = EngineOptions { context: 4096, ..auto.clone() };
        has(&terms(&given, 1024), "4096 positions of 2.00 KiB for 4 of up to 4096");
        let slot = EngineOptions { per_slot: Some(512), ..auto.clone() };
        has(&terms(&slot, 1024), "2048 positions of 2.00 KiB for 4 of up to 512");
        let divided = EngineOptions { context: 4096, slots: Some(2), ..auto };
        has(&terms(&divided, 1024), "2 x 2048 positions");
    }

    #[test]
    fn parked_prefixes_take_what_the_plan_leaves() {
        let with = |cache_ram| EngineOptions { cache_ram, ..EngineOptions::default() };
        has(&terms(&with(Some(100)), 1024), "parked prefixes 100.00 MiB");
        has(&terms(&with(None), 100_000), "parked prefixes 8.00 GiB");
        has(&terms(&with(Some(8192)), 64), "parked prefixes 5");
        assert!(!terms(&with(Some(0)), 1024).join(" ").contains("parked"));
        assert_eq!(with(None).parked(Bytes(10)), Bytes(5));
        assert_eq!(with(Some(-1)).parked(Bytes(80)), Bytes(70));
        assert_eq!(with(Some(i64::MAX)).parked(Bytes(80)), Bytes(80));
    }

    /// A card with room for the demo model's dense weights and a part of its experts.
    fn small_card() -> Machine {
        let card = CardFacts { overhead: Bytes(0), ..CardFacts::new("small", Bytes(275 << 20)) };
        let host = HostFacts { available: Bytes(1 << 30), ..HostFacts::read() };
        Machine { host, cards: Cards::given([card]), placement: Placement::Auto }
    }

    #[test]
    fn a_model_that_is_split_stays_split_and_says_why() {
        let plan = EngineOptions::default().plan_on(&small_card()).unwrap();
        assert_eq!(plan.placement(), Placement::Split(0), "{plan}");
        assert!(plan.why().unwrap().starts_with("does not fit card 0 (small)"), "{plan}");
        let parked = plan.host_terms().iter().any(|term| term.what == "parked prefixes");
        assert!(parked && plan.host_need() <= Bytes(1 << 30), "{plan}");
        let explicit = Machine { placement: Placement::Split(0), ..small_card() };
        assert_eq!(EngineOptions::default().plan_on(&explicit).unwrap().why(), None);
        let kept = EngineOptions { host_experts: HostExperts::All, ..EngineOptions::default() };
        assert!(kept.plan_on(&small_card()).unwrap().to_string().contains("(0 of 64 experts"));
        let whole = EngineOptions { card_margin: Some(Bytes(0)), ..EngineOptions::default() };
        assert_eq!(whole.plan_on(&small_card()).unwrap().placement(), Placement::Card(0));
    }

    #[test]
    fn a_context_that_may_not_be_cut_is_the_models_or_refused() {
        let small = HostFacts { available: Bytes(14 << 20), ..HostFacts::read() };
        let machine = Machine { host: small, cards: Cards::none("a test"), placement: Placement::Auto };
        let with = |fit| EngineOptions { fit, fit_floor: 64, kv: KvType::F32, ..EngineOptions::default() };
        assert!(matches!(with(false).plan_on(&machine), Err(PlanError::DoesNotFit { .. })));
        let cut = with(true).plan_on(&machine).unwrap().context();
        assert!((500..1000).contains(&cut), "{cut}");
    }

    #[test]
    fn what_is_not_given_is_chosen() {
        let options = EngineOptions::default();
        assert_eq!((options.slots(), options.queue_depth(), options.step_rows()), (4, 60, None));
        let many = EngineOptions { slots: Some(100), batch: 64, ubatch: Some(0), ..EngineOptions::default() };
        assert_eq!((many.queue_depth(), many.step_rows()), (1, Some(64)));
    }
}
