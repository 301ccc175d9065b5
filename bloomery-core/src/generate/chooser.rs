//! The choice of the next token.

use crate::constrain::{Constraint, Next};
use crate::engine::Readout;
use crate::error::EngineError;
use crate::sampling::{Needs, Sampled, Sampler};

/// Chooses tokens: a sampler, under a constraint if there is one.
#[derive(Debug)]
pub(crate) struct Chooser {
    pub(crate) sampler: Sampler,
    pub(crate) constraint: Option<Box<dyn Constraint>>,
}

impl Chooser {
    /// How much of the logits the next choice looks at. What a constraint allows is known only then.
    pub(crate) fn needs(&self) -> Needs {
        if self.constraint.is_some() { Needs::All } else { self.sampler.needs() }
    }

    /// The next token from row `index` of `count`, or `None` when the constraint says that the text is complete.
    pub(crate) fn choose(
        &mut self,
        readout: &Readout,
        row: (usize, usize),
    ) -> Result<Option<Sampled>, EngineError> {
        let sampled = match self.constraint.as_mut().map(|constraint| constraint.next()).transpose()? {
            None | Some(Next::Any) => readout.sample(row, &mut self.sampler, None)?,
            Some(Next::Among(mask)) => readout.sample(row, &mut self.sampler, Some(mask))?,
            Some(Next::Only(id)) => self.sampler.forced(readout.row(row), id)?,
            Some(Next::End) => return Ok(None),
        };
        self.sampler.accept(sampled.id);
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(sampled.id)?;
        }
        Ok(Some(sampled))
    }
}
