//! Ops as launches: one file each, the only places that know the kernels' arguments.

pub(super) mod add_norm;
pub(super) mod attend;
pub(super) mod candidates;
pub(super) mod carry;
pub(super) mod delta;
pub(super) mod embed;
pub(super) mod feed_forward;
pub(super) mod gate;
pub(super) mod hyper;
pub(super) mod index;
pub(super) mod latent;
pub(super) mod ngrams;
pub(super) mod norm;
pub(super) mod pair;
pub(super) mod per_head;
pub(super) mod project;
pub(super) mod rope;
pub(super) mod route;
pub(super) mod streams;
pub(super) mod summaries;
pub(super) mod take;
pub(super) mod windowed;
