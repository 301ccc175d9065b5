//! What is in the memory of a card, and a step's kernels over it.

use bloomery_kernels::cuda::{CudaError, DeviceInfo};

use super::frame::Frame;
use super::hosted::Hosted;
use super::inputs::Inputs;
use super::lookup::Lookup;
use super::memory::Memory;
use super::model::Model;
use super::pages::Caches;
use super::sizes::Sizes;
use super::states::States;
use super::walk::{Stage, before_cut, body, guess, head, past_cut, states};
use crate::backend::{Batch, Deep, Readback};

/// See above. Experts that come and go are apart.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) info: DeviceInfo,
    pub(super) model: Model,
    pub(super) memory: Memory,
    pub(super) inputs: Inputs,
    /// Where steps find rows of n-grams.
    pub(super) lookup: Option<Lookup>,
    pub(super) caches: Caches,
    pub(super) states: States,
    pub(super) sizes: Sizes,
}

impl Card {
    /// What a step's launches are made of.
    pub(super) fn frame<'a>(
        &'a self,
        hosted: Option<&'a Hosted>,
        (rows, outputs): (usize, usize),
    ) -> Frame<'a> {
        Frame {
            info: &self.info,
            model: &self.model,
            memory: &self.memory,
            inputs: &self.inputs,
            lookup: self.lookup.as_ref(),
            caches: &self.caches,
            states: &self.states,
            hosted: hosted.map(|hosted| (&hosted.slots, hosted.way())),
            rows,
            outputs,
            first: 0,
        }
    }

    /// A step's kernels up to the program's cut.
    pub(super) fn shallow(
        &self,
        hosted: Option<&Hosted>,
        (batch, deep): (&Batch<'_>, &Deep<'_>),
    ) -> Result<Vec<Stage>, CudaError> {
        before_cut(&self.frame(hosted, batch.shape()), deep.narrow)
    }

    /// A step's kernels; behind the cut, where `past` is the part of a step that goes past it.
    pub(super) fn stages(
        &self,
        hosted: Option<&Hosted>,
        batch: &Batch<'_>,
        past: Option<&Deep<'_>>,
    ) -> Result<Vec<Stage>, CudaError> {
        let first = past.map_or(0, |deep| deep.first);
        let frame = Frame { first, ..self.frame(hosted, batch.shape()) };
        let mut stages = match past {
            None => body(&frame)?,
            Some(deep) => past_cut(&frame, deep.narrow)?,
        };
        match batch.want {
            Readback::Hidden if frame.outputs > 0 => stages.push(states(&frame)?),
            Readback::Hidden => {}
            // Of more rows the head runs as they are read.
            _ if (1..=self.sizes.logit_rows).contains(&frame.outputs) => {
                stages.push(head(&frame, 0, frame.outputs)?);
            }
            _ => {}
        }
        Ok(stages)
    }

    /// A guess's kernels.
    pub(super) fn guess(&self, batch: &Batch<'_>, goes_on: bool) -> Result<Vec<Stage>, CudaError> {
        guess(&self.frame(None, batch.shape()), goes_on)
    }
}
