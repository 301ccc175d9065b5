//! Decay and step of a head's row.

use super::super::math::{exp, sigmoid, softplus};

/// `e^g` with `g = bound sigmoid(-a (alpha + dt))`, of one channel.
#[inline(always)]
pub(super) fn channel_decay(bound: f32, a: f32, alpha: f32, dt: f32) -> f32 {
    exp(bound * sigmoid(-(a * (alpha + dt))))
}

/// `e^g` with `g = a softplus(alpha + dt)`.
#[inline(always)]
pub(super) fn decay(a: f32, alpha: f32, dt: f32) -> f32 {
    exp(a * softplus(alpha + dt))
}
