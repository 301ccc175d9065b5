//! Which device a model lives on.

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::{KvType, Numerics};

use super::cards::{Card, Cards};
use super::fit::{Demand, Fit, Room, fit};
use super::{Context, HostFacts, Placement, Split};
use crate::def::ModelDef;
use crate::error::{PlanError, Term};
use crate::program::Program;
use crate::state::PAGE;
use crate::units::Bytes;
use crate::weights::Weights;

/// A model and the options that its memory depends on.
pub(super) struct Question<'a> {
    pub(super) gguf: &'a Gguf,
    pub(super) def: &'a ModelDef,
    pub(super) program: &'a Program,
    pub(super) weights: &'a Weights,
    pub(super) context: Context,
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
    pub(super) host: HostFacts,
}

/// Rows a step may have: long enough that unpacking weights costs little, short enough for a first-level scratch.
const STEP_ROWS: usize = 512;
/// On a card, whose experts otherwise have few rows each: a prompt of 4096 tokens of a model with 128 experts takes 1.4 times as
/// long in steps of 512.
#[cfg(feature = "cuda")]
const CARD_STEP_ROWS: usize = 2048;
/// Most of a card's free memory that the scratch of so many rows may take: a 16th.
#[cfg(feature = "cuda")]
const CARD_SCRATCH_SHARE: u64 = 16;

/// Where the model goes.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) placement: Placement,
    pub(super) card: Option<Card>,
    pub(super) split: Option<Split>,
    pub(super) fit: Fit,
    pub(super) step_rows: usize,
    /// What the plan takes of host memory.
    pub(super) host_need: Bytes,
    pub(super) available: Bytes,
    /// Why it is not the fastest there could be.
    pub(super) why: Option<String>,
}

impl Question<'_> {
    /// What `placement` comes to.
    pub(super) fn choose(&self, placement: Placement, cards: &Cards) -> Result<Choice, PlanError> {
        match placement {
            Placement::Cpu => self.on_cpu(None),
            Placement::Card(number) => {
                self.supported()?;
                let card = cards.card(number);
                let card = card.map_err(|why| PlanError::NoCard { card: number, why })?;
                self.on_card(number, card)
            }
            Placement::Split(_) | Placement::Fill(_) | Placement::Several(_) => {
                Err(PlanError::NotOnCard { why: "splits are not planned yet".to_owned() })
            }
            Placement::Auto => {
                let mut why = match cards.count() {
                    0 => cards.card(0).err(),
                    _ => self.supported().err().map(|error| error.to_string()),
                };
                if why.is_none() {
                    for number in 0..cards.count() {
                        let on_card = cards
                            .card(number)
                            .map_err(|why| PlanError::NoCard { card: number, why })
                            .and_then(|card| self.on_card(number, card));
                        match on_card {
                            Ok(choice) => return Ok(choice),
                            Err(error) => why = why.or(Some(error.to_string())),
                        }
                    }
                }
                self.on_cpu(why)
            }
        }
    }

    fn demand(&self, before: Vec<Term>, after: Vec<Term>) -> Demand {
        Demand {
            before,
            after,
            position: Bytes(self.page_bytes.0 / PAGE as u64),
            trained: self.def.context,
            sessions: self.sessions,
            pool: self.pool,
            page: PAGE,
        }
    }

    /// Prefixes outside the pool, wherever the model is.
    fn parked(&self) -> Option<Term> {
        let detail = "at most".to_owned();
        (self.cache_ram > Bytes(0)).then_some(Term { what: "parked prefixes", bytes: self.cache_ram, detail })
    }

    fn host_room(&self) -> Room {
        Room { device: "host memory".to_owned(), free: self.host.available, holders: Vec::new() }
    }

    fn on_cpu(&self, why: Option<String>) -> Result<Choice, PlanError> {
        let term = |what, bytes, detail: &str| Term { what, bytes, detail: detail.to_owned() };
        let before = vec![
            term("file", Bytes(self.gguf.file_bytes()), "mapped"),
            term("norms and biases", self.weights.vector_bytes(), ""),
        ];
        let step_rows = self.step_rows.unwrap_or(STEP_ROWS);
        let scratch = self.program.buffer_bytes(step_rows, step_rows.min(self.sessions));
        let mut after = vec![term("scratch", scratch, "")];
        after.extend(self.parked());
        let fit = fit(self.demand(before, after), self.context, &self.host_room())?;
        let host_need = fit.terms.iter().map(|term| term.bytes).sum();
        let available = self.host.available;
        Ok(Choice {
            placement: Placement::Cpu,
            card: None,
            split: None,
            fit,
            step_rows,
            host_need,
            available,
            why,
        })
    }

    #[cfg(feature = "cuda")]
    fn supported(&self) -> Result<(), PlanError> {
        let unsupported =
            crate::backend::cuda::unsupported(self.program, self.weights, self.gguf, self.kv, self.numerics);
        unsupported.map_or(Ok(()), |why| Err(PlanError::NotOnCard { why }))
    }

    #[cfg(not(feature = "cuda"))]
    fn supported(&self) -> Result<(), PlanError> {
        Err(PlanError::NotOnCard { why: "this build has no kernels for cards".to_owned() })
    }

    #[cfg(feature = "cuda")]
    fn on_card(&self, number: usize, card: Card) -> Result<Choice, PlanError> {
        use crate::backend::cuda::Sizes;

        let facts = &card.facts;
        let weights = crate::backend::cuda::weight_bytes(self.program, self.weights, self.gguf);
        let pages = match self.context {
            Context::Auto => self.def.context,
            Context::Tokens(n) => n,
        }
        .div_ceil(PAGE);
        let sizes_for = |rows| Sizes::of(self.program, self.weights, self.kv, (rows, self.sessions));
        let step_rows = self.step_rows.unwrap_or_else(|| {
            let scratch = sizes_for(CARD_STEP_ROWS).bytes(self.program, pages);
            if scratch.0 <= facts.free.0 / CARD_SCRATCH_SHARE { CARD_STEP_ROWS } else { STEP_ROWS }
        });
        let sizes = sizes_for(step_rows);
        let scratch = (sizes.bytes(self.program, pages), sizes.rows);
        let (before, after) = facts.terms(weights, scratch);
        let device = format!("card {number} ({})", facts.name);
        let room = Room { device, free: facts.free, holders: facts.holders.clone() };
        let fit = fit(self.demand(before, after), self.context, &room)?;
        let parked: Vec<Term> = self.parked().into_iter().collect();
        self.host_room().check(&parked)?;
        let (available, host_need) = (facts.free, parked.iter().map(|term| term.bytes).sum());
        Ok(Choice {
            placement: Placement::Card(number),
            card: Some(card),
            split: None,
            fit,
            step_rows,
            host_need,
            available,
            why: None,
        })
    }

    #[cfg(not(feature = "cuda"))]
    fn on_card(&self, number: usize, _: Card) -> Result<Choice, PlanError> {
        Err(PlanError::NoCard { card: number, why: "this build has no kernels for cards".to_owned() })
    }
}
