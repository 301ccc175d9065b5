//! The same questions in a build without kernels for cards.

use super::cards::Card;
use super::choose::{Choice, Question};
use crate::error::PlanError;

impl Question<'_> {
    pub(super) fn is_routed(&self) -> bool {
        false
    }

    pub(super) fn kept(&self, _: usize) -> Result<usize, PlanError> {
        Ok(0)
    }

    pub(super) fn whole(&self, _: usize, _: Card) -> Result<Choice, PlanError> {
        Err(none())
    }

    pub(super) fn split(&self, _: usize, _: Card) -> Result<Choice, PlanError> {
        Err(none())
    }
}

fn none() -> PlanError {
    PlanError::NotOnCard { why: "this build has no kernels for cards".to_owned() }
}
