//! A model on a card, with all of its experts or with a part of them.

use bloomery_kernels::cuda::DeskShape;

use super::cards::{Card, CardFacts};
use super::choose::{Choice, Question, STEP_ROWS};
use super::experts::RoutedLayer;
use super::fit::{Room, fit};
use super::slots::{Routed, Shape};
use super::{Context, LayerSplit, Placement};
use crate::backend::cuda::{self, Sizes};
use crate::def::Ffn;
use crate::error::{PlanError, Term};
use crate::program::{ExpertStacks, Op};
use crate::state::PAGE;
use crate::units::Bytes;
use crate::weights::Packed;

/// Steps of a card have more rows than the CPU's, since experts otherwise have few rows each: a prompt of 4096 tokens of a
/// model with 128 experts takes 1.4 times as long in steps of 512.
const CARD_STEP_ROWS: usize = 2048;
/// Most of a card's free memory that the scratch of so many rows may take: a 16th.
const CARD_SCRATCH_SHARE: u64 = 16;
/// Steps of a split: its experts come over the bus once a step, whatever its rows.
const SPLIT_STEP_ROWS: usize = 4096;
/// Most of what dense weights and kernels leave that the scratch of a split may take: an eighth.
const SPLIT_SCRATCH_SHARE: u64 = 8;
/// Most of a split's experts that may give way to the block for the next tokens: an eighth.
const BLOCK_SHARE: usize = 8;
/// A context that was not asked for takes a quarter of what a split could have of experts.
const SPLIT_CONTEXT_SHARE: u64 = 4;

impl Question<'_> {
    pub(super) fn is_routed(&self) -> bool {
        self.program.ops.iter().any(|op| matches!(op, Op::Experts { .. }))
    }

    /// Layers whose experts were to stay in host memory, where the model is on this card.
    pub(super) fn kept(&self, number: usize) -> Result<usize, PlanError> {
        Ok(self.host_layers(number)?.into_iter().filter(|host| *host).count())
    }

    fn host_layers(&self, number: usize) -> Result<Vec<bool>, PlanError> {
        let stacks: Vec<Packed<'_>> = self.weights.packed_stacks(self.gguf).collect();
        let numbers = self.def.layers.iter().enumerate();
        let numbers =
            numbers.filter_map(|(number, layer)| matches!(layer.ffn, Ffn::Moe(_)).then_some(number));
        let routed: Vec<RoutedLayer<'_>> = numbers
            .zip(self.experts())
            .map(|(layer, experts)| RoutedLayer {
                layer,
                stacks: [experts.gate, experts.up, experts.down].map(|id| stacks[id.index()].name),
            })
            .collect();
        let tensors = self.gguf.tensors().map(|tensor| tensor.name.as_str());
        self.options.host_experts.layers(number, &routed, tensors)
    }

    /// Of all routed layers, in the program's order.
    fn experts(&self) -> impl Iterator<Item = &ExpertStacks> {
        self.program.ops.iter().filter_map(|op| match op {
            Op::Experts { experts, .. } => Some(experts),
            _ => None,
        })
    }

    /// Everything on the card; a block that it cannot run, or has no room for, is left out.
    pub(super) fn whole(&self, number: usize, card: Card) -> Result<Choice, PlanError> {
        let trunk = self.without_block();
        if let Some(why) = trunk.unsupported() {
            return Err(PlanError::NotOnCard { why });
        }
        let no_block = match (self.unsupported(), self.trunk) {
            (None, None) => return self.whole_program(number, card),
            (None, Some(_)) => match self.whole_program(number, card.clone()) {
                Err(PlanError::DoesNotFit { .. }) => Some("there is no room for it".to_owned()),
                fits => return fits,
            },
            (why, _) => why,
        };
        Ok(Choice { no_block, ..trunk.whole_program(number, card)? })
    }

    /// The same model without its block for the next tokens.
    fn without_block(&self) -> Self {
        let Some(program) = self.trunk else { return *self };
        let page_bytes = program.page_bytes(self.kv).unwrap_or(self.page_bytes);
        Self { program, trunk: None, page_bytes, state_bytes: program.state_bytes(), ..*self }
    }

    fn unsupported(&self) -> Option<String> {
        cuda::unsupported(self.program, self.weights, self.gguf, self.kv, self.numerics)
    }

    fn whole_program(&self, number: usize, card: Card) -> Result<Choice, PlanError> {
        let facts = &card.facts;
        let step_rows = self.step_rows.unwrap_or_else(|| {
            let scratch = self.scratch(CARD_STEP_ROWS).0;
            if scratch.0 <= facts.free.0 / CARD_SCRATCH_SHARE { CARD_STEP_ROWS } else { STEP_ROWS }
        });
        let weights = cuda::weight_bytes(self.program, self.weights, self.gguf);
        let before = vec![term("weights", weights, String::new())];
        let (states, term) = self.states(facts.free.saturating_sub(weights));
        let mut after: Vec<Term> = term.into_iter().collect();
        after.push(self.scratch_term(step_rows));
        after.extend(self.fixed(facts));
        let room = self.room(facts, format!("card {number} ({})", facts.name));
        let fit = fit(self.demand(before, after), self.context, &room)?;
        let host_terms: Vec<Term> = self.beside().collect();
        self.host_room().check(&host_terms)?;
        let available = facts.free;
        Ok(Choice {
            placement: Placement::Card(number),
            card: Some(card),
            split: None,
            fit,
            states,
            step_rows,
            host_terms,
            available,
            why: None,
            no_block: None,
        })
    }

    /// All but experts on the card, and as many of them as fit. A block for the next tokens is there with its own experts, unless it
    /// takes the room of too many of the others.
    pub(super) fn split(&self, number: usize, card: Card) -> Result<Choice, PlanError> {
        let without = self.without_block().split_program(number, card.clone())?;
        if self.trunk.is_none() {
            return Ok(without);
        }
        let why = match self.unsupported_block() {
            Some(why) => why,
            None => match self.split_program(number, card) {
                Ok(with) => {
                    let [before, left] = [&without, &with].map(Choice::resident_experts);
                    if left * BLOCK_SHARE >= before * (BLOCK_SHARE - 1) {
                        return Ok(with);
                    }
                    format!("it would leave room for {left} of {before} experts")
                }
                Err(PlanError::DoesNotFit { .. }) => "there is no room for it".to_owned(),
                Err(error) => return Err(error),
            },
        };
        Ok(Choice { no_block: Some(why), ..without })
    }

    /// Why the block cannot run on a card, if it cannot.
    fn unsupported_block(&self) -> Option<String> {
        let stacks: Vec<Packed<'_>> = self.weights.packed_stacks(self.gguf).collect();
        let experts = self.program.draft.iter().flat_map(|draft| &draft.ops).find_map(|op| match op {
            Op::Experts { experts, .. } => {
                let three = [experts.gate, experts.up, experts.down].map(|id| &stacks[id.index()]);
                cuda::unsupported_experts(three)
            }
            _ => None,
        });
        experts.or_else(|| {
            cuda::unsupported_dense(self.program, self.weights, self.gguf, self.kv, self.numerics)
        })
    }

    fn split_program(&self, number: usize, card: Card) -> Result<Choice, PlanError> {
        if !self.is_routed() {
            return Err(PlanError::NotOnCard { why: "a model without experts is not split".to_owned() });
        }
        let dense = cuda::unsupported_dense(self.program, self.weights, self.gguf, self.kv, self.numerics);
        if let Some(why) = dense {
            return Err(PlanError::NotOnCard { why });
        }
        let facts = &card.facts;
        let routed = self.routed(number)?;
        let dense = cuda::dense_bytes(self.program, self.weights, self.gguf)
            + cuda::guess_bytes(self.program, self.weights, self.gguf);
        let step_rows = self.step_rows.unwrap_or_else(|| {
            let others: Bytes = self.fixed(facts).into_iter().map(|term| term.bytes).sum();
            let most = facts.free.saturating_sub(dense + others).0 / SPLIT_SCRATCH_SHARE;
            let halves = std::iter::successors(Some(SPLIT_STEP_ROWS), |rows| Some(rows / 2));
            let mut enough = halves.take_while(|&rows| rows > STEP_ROWS);
            enough.find(|&rows| self.scratch(rows).0.0 <= most).unwrap_or(STEP_ROWS)
        });
        // A layer that cannot come to the card is served whatever the rows, and the desk has places for so many.
        let served = routed.layers.iter().any(|layer| layer.pool.is_none());
        let step_rows = if served { step_rows.min(cuda::DESK_ROWS) } else { step_rows };
        let before = vec![term("dense weights", dense, String::new())];
        let (states, states_term) = self.states(facts.free.saturating_sub(dense));
        let mut after: Vec<Term> = states_term.into_iter().collect();
        after.extend([self.scratch_term(step_rows), term("ring", routed.least(), "at least".to_owned())]);
        after.extend(self.fixed(facts));
        let room = self.room(facts, format!("card {number} ({}) even without its experts", facts.name));
        let share = if routed.has_residents() { SPLIT_CONTEXT_SHARE } else { 1 };
        let mut fit = fit(super::fit::Demand { share, ..self.demand(before, after) }, self.context, &room)?;
        let others: Bytes = fit.terms.iter().filter(|term| term.what != "ring").map(|term| term.bytes).sum();
        let split = routed.spread(facts.free.saturating_sub(others));
        let at = fit.terms.iter().position(|term| term.what == "ring").unwrap_or(fit.terms.len());
        fit.terms.splice(at..=at, routed.terms(&split));
        let mut host_terms = vec![self.file_term(), self.desk_term(&routed, step_rows)];
        host_terms.extend(self.beside());
        self.host_room().check(&host_terms)?;
        let available = facts.free;
        Ok(Choice {
            placement: Placement::Split(number),
            card: Some(card),
            split: Some(split),
            fit,
            states,
            step_rows,
            host_terms,
            available,
            why: None,
            no_block: None,
        })
    }

    /// The experts by their shapes.
    fn routed(&self, number: usize) -> Result<Routed, PlanError> {
        let stacks: Vec<Packed<'_>> = self.weights.packed_stacks(self.gguf).collect();
        let host = self.host_layers(number)?;
        let mut keys = Vec::new();
        let mut routed = Routed { shapes: Vec::new(), layers: Vec::new(), experts: 0, used: self.used() };
        for (experts, host) in self.experts().zip(host) {
            let three = [experts.gate, experts.up, experts.down].map(|id| &stacks[id.index()]);
            let count = three[0].count;
            routed.experts += count;
            if cuda::unsupported_experts(three).is_some() {
                routed.layers.push(LayerSplit { pool: None, resident: false });
                continue;
            }
            let key = three.map(|stack| (stack.format, stack.rows, stack.cols));
            let pool = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                keys.push(key);
                let expert = Bytes(three.map(cuda::expert_bytes).into_iter().sum());
                routed.shapes.push(Shape { expert, experts: 0, layers: 0, residents: 0 });
                keys.len() - 1
            });
            let shape = &mut routed.shapes[pool];
            shape.experts = shape.experts.max(count);
            if !host {
                shape.layers += 1;
                shape.residents += count;
            }
            routed.layers.push(LayerSplit { pool: Some(pool), resident: !host });
        }
        Ok(routed)
    }

    /// Most experts of a row.
    fn used(&self) -> usize {
        let used = self.program.ops.iter().filter_map(|op| match op {
            Op::Route { used, .. } => Some(*used),
            _ => None,
        });
        used.max().unwrap_or(1)
    }

    /// Memory of the buffers of steps of up to so many rows, and the rows.
    fn scratch(&self, rows: usize) -> (Bytes, usize) {
        let pages = match self.context {
            Context::Auto | Context::Trained => self.def.context,
            Context::Tokens(n) => n,
        }
        .div_ceil(PAGE);
        let sizes = Sizes::of(self.program, self.weights, self.kv, (rows, self.sessions));
        (sizes.bytes(self.program, pages), sizes.rows)
    }

    fn scratch_term(&self, rows: usize) -> Term {
        let (bytes, rows) = self.scratch(rows);
        term("scratch", bytes, format!("steps of up to {rows} rows"))
    }

    /// What the card needs whatever the model.
    fn fixed(&self, facts: &CardFacts) -> [Term; 2] {
        [
            term("kernels", facts.overhead, "with the driver's share".to_owned()),
            term("margin", self.options.card_margin.unwrap_or(facts.margin()), String::new()),
        ]
    }

    fn room(&self, facts: &CardFacts, device: String) -> Room {
        Room { device, free: facts.free, holders: facts.holders.clone() }
    }

    /// Host memory where the card asks for experts that it has no slot for, in steps of up to `step_rows` rows.
    fn desk_term(&self, routed: &Routed, step_rows: usize) -> Term {
        let widest = self.def.hidden;
        let (layers, used) = (routed.layers.len(), routed.used);
        let rows = match routed.layers.iter().all(|layer| layer.pool.is_some()) {
            true => step_rows.min(cuda::MOST_SERVED_ROWS),
            false => step_rows,
        };
        let shape = DeskShape { layers, rows, used, cols: widest, outputs: widest };
        term("desk", Bytes(shape.bytes() as u64), format!("steps of up to {rows} rows"))
    }
}

fn term(what: &'static str, bytes: Bytes, detail: String) -> Term {
    Term { what, bytes, detail }
}
