//! Which device a model lives on.

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::{KvType, Numerics};

use super::cards::{Card, Cards};
use super::fit::{Demand, Fit, Room, fit};
use super::{CardPick, Context, HostFacts, Placement, Split, SplitOptions, StateSlots};
use crate::decide::HeadPlan;
use crate::def::ModelDef;
use crate::error::{PlanError, Term};
use crate::program::Program;
use crate::state::PAGE;
use crate::units::Bytes;
use crate::weights::Weights;

/// A model and the options that its memory depends on.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) gguf: &'a Gguf,
    pub(super) def: &'a ModelDef,
    pub(super) program: &'a Program,
    /// The program without its block, if it has one.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "the CPU runs the block"))]
    pub(super) trunk: Option<&'a Program>,
    pub(super) weights: &'a Weights,
    /// Of a decision model.
    pub(super) head: Option<&'a HeadPlan>,
    pub(super) context: Context,
    /// Shortest context that the plan may choose.
    pub(super) floor: usize,
    pub(super) sessions: usize,
    pub(super) pool: Option<usize>,
    pub(super) cache_ram: Bytes,
    /// Most rows of a step, unless that is for the plan to choose.
    pub(super) step_rows: Option<usize>,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "the CPU has kernels for all"))]
    pub(super) numerics: Numerics,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "the CPU has kernels for all"))]
    pub(super) kv: KvType,
    /// Keys and values of a page in all layers.
    pub(super) page_bytes: Bytes,
    /// One recurrent state over all layers.
    pub(super) state_bytes: Bytes,
    /// States of its past that each session can come back to, unless that is for the plan to choose.
    pub(super) checkpoints: Option<usize>,
    pub(super) host: HostFacts,
    pub(super) options: &'a SplitOptions,
}

/// Rows a step may have: long enough that unpacking weights costs little, short enough for a first-level scratch.
pub(super) const STEP_ROWS: usize = 512;

/// Where the model goes.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) placement: Placement,
    pub(super) card: Option<Card>,
    pub(super) split: Option<Split>,
    pub(super) fit: Fit,
    pub(super) states: StateSlots,
    pub(super) step_rows: usize,
    /// What the plan takes of host memory beside a card's.
    pub(super) host_terms: Vec<Term>,
    pub(super) available: Bytes,
    /// Why it is not the fastest there could be.
    pub(super) why: Option<String>,
    /// Why the model's block for the next tokens is left out, if it is.
    pub(super) no_block: Option<String>,
}

impl Choice {
    /// Experts that have a place on the card.
    #[cfg(feature = "cuda")]
    pub(super) fn resident_experts(&self) -> usize {
        self.split.iter().flat_map(|split| &split.pools).map(|pool| pool.slots).sum()
    }
}

impl Question<'_> {
    /// What `placement` comes to.
    pub(super) fn choose(&self, placement: Placement, cards: &Cards) -> Result<Choice, PlanError> {
        match placement {
            Placement::Cpu => self.on_cpu(Vec::new()),
            Placement::Card(number) => self.whole_alone(number, cards),
            Placement::Split(number) => self.split(number, self.card(number, cards)?),
            Placement::Fill(pick) => self.fill(self.pick(pick, cards)?, cards),
            Placement::Several(wanted) => Err(PlanError::SeveralCards { wanted, cards: cards.names() }),
            Placement::Auto => self.auto(cards),
        }
    }

    /// The first card with room for everything; the split on the card with most; the CPU.
    fn auto(&self, cards: &Cards) -> Result<Choice, PlanError> {
        if cards.count() == 0 {
            return self.on_cpu(cards.card(0).err().into_iter().collect());
        }
        let mut first = None;
        for number in 0..cards.count() {
            match self.fast(number, cards)? {
                Ok(choice) => return Ok(choice),
                Err(why) => first = first.or(Some(why)),
            }
        }
        let mut tried: Vec<String> = first.into_iter().collect();
        let usable = (0..cards.count()).filter_map(|number| Some((number, self.card(number, cards).ok()?)));
        if let Some((number, card)) =
            usable.reduce(|best, next| if next.1.facts.free > best.1.facts.free { next } else { best })
            && self.is_routed()
        {
            match self.split(number, card) {
                Ok(choice) => return Ok(Choice { why: Some(tried.join("; ")), ..choice }),
                Err(error @ PlanError::Invalid { .. }) => return Err(error),
                // What nothing on a card would help was said already.
                Err(error) if tried.contains(&error.to_string()) => {}
                Err(error) => tried.push(error.to_string()),
            }
        }
        self.on_cpu(tried)
    }

    /// Everything on this card, or what does not fit; the inner error is why not.
    fn fast(&self, number: usize, cards: &Cards) -> Result<Result<Choice, String>, PlanError> {
        let card = match self.card(number, cards) {
            Ok(card) => card,
            Err(error) => return Ok(Err(error.to_string())),
        };
        match self.kept(number)? {
            0 => Ok(self.whole(number, card).map_err(|error| error.to_string())),
            count => Ok(Err(format!("the experts of {count} layers are kept in host memory"))),
        }
    }

    /// Everything on this card and nothing else.
    fn whole_alone(&self, number: usize, cards: &Cards) -> Result<Choice, PlanError> {
        match self.kept(number)? {
            0 => self.whole(number, self.card(number, cards)?),
            count => Err(PlanError::Invalid {
                option: "placement",
                value: Placement::Card(number).to_string(),
                why: format!("everything on one card, with the experts of {count} layers in host memory"),
            }),
        }
    }

    /// Everything on this card, or as much as fits.
    fn fill(&self, number: usize, cards: &Cards) -> Result<Choice, PlanError> {
        let card = self.card(number, cards)?;
        let why = match self.kept(number)? {
            0 => match self.whole(number, card.clone()) {
                Err(error) if self.is_routed() => error.to_string(),
                whole => return whole,
            },
            count => format!("the experts of {count} layers are kept in host memory"),
        };
        match self.split(number, card) {
            Ok(choice) => Ok(Choice { why: Some(why), ..choice }),
            Err(error) => Err(error.after([why])),
        }
    }

    fn pick(&self, pick: CardPick, cards: &Cards) -> Result<usize, PlanError> {
        let number = match pick {
            CardPick::Number(number) => return Ok(number),
            CardPick::Largest => cards.sized(|next, best| next > best),
            CardPick::Smallest => cards.sized(|next, best| next < best),
        };
        number.map_err(|why| PlanError::NoCard { card: 0, why })
    }

    /// A card as far as it may be used.
    fn card(&self, number: usize, cards: &Cards) -> Result<Card, PlanError> {
        let mut card = cards.card(number).map_err(|why| PlanError::NoCard { card: number, why })?;
        if let Some(budget) = self.options.card_budget {
            card.facts = card.facts.within(budget);
        }
        Ok(card)
    }

    pub(super) fn demand(&self, before: Vec<Term>, after: Vec<Term>) -> Demand {
        Demand {
            before,
            after,
            position: Bytes(self.page_bytes.0 / PAGE as u64),
            trained: self.def.context,
            sessions: self.sessions,
            pool: self.pool,
            page: PAGE,
            floor: self.floor,
            share: 1,
        }
    }

    /// Slots for recurrent states where weights leave so much memory.
    pub(super) fn states(&self, memory: Bytes) -> (StateSlots, Option<Term>) {
        let states = StateSlots::of(self.state_bytes, self.sessions, self.checkpoints, memory);
        (states, states.term(self.state_bytes))
    }

    /// Prefixes outside the pool.
    fn parked(&self) -> Option<Term> {
        let detail = "at most".to_owned();
        (self.cache_ram > Bytes(0)).then_some(Term { what: "parked prefixes", bytes: self.cache_ram, detail })
    }

    /// What is in host memory wherever the model is.
    pub(super) fn beside(&self) -> impl Iterator<Item = Term> {
        self.head.map(|head| head.term(self.def.context, self.sessions)).into_iter().chain(self.parked())
    }

    pub(super) fn host_room(&self) -> Room {
        Room { device: "host memory".to_owned(), free: self.host.available, holders: Vec::new() }
    }

    pub(super) fn file_term(&self) -> Term {
        // Of tables of n-grams a token reads some pages, which the system may drop.
        let tables = self.program.ngrams.iter().filter_map(|layer| self.weights.tensor(layer.table));
        let on_disk: Bytes = tables.map(|table| Bytes(self.gguf.data(table).len() as u64)).sum();
        let detail = match on_disk.0 {
            0 => "mapped".to_owned(),
            _ => format!("mapped, but for {on_disk} of n-grams"),
        };
        Term { what: "file", bytes: Bytes(self.gguf.file_bytes()).saturating_sub(on_disk), detail }
    }

    fn on_cpu(&self, tried: Vec<String>) -> Result<Choice, PlanError> {
        let term = |what, bytes| Term { what, bytes, detail: String::new() };
        let before = vec![self.file_term(), term("norms and biases", self.weights.vector_bytes())];
        let step_rows = self.step_rows.unwrap_or(STEP_ROWS);
        let scratch = self.program.buffer_bytes(step_rows, step_rows.min(self.sessions));
        let weights = before.iter().map(|term| term.bytes).sum();
        let (states, term_of_states) = self.states(self.host.available.saturating_sub(weights));
        let mut after: Vec<Term> = term_of_states.into_iter().collect();
        after.push(term("scratch", scratch));
        after.extend(self.beside());
        let why = (!tried.is_empty()).then(|| tried.join("; "));
        let fit = fit(self.demand(before, after), self.context, &self.host_room())
            .map_err(|error| error.after(tried))?;
        Ok(Choice {
            placement: Placement::Cpu,
            card: None,
            split: None,
            fit,
            states,
            step_rows,
            host_terms: Vec::new(),
            available: self.host.available,
            why,
            no_block: None,
        })
    }
}
