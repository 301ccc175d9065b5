//! Logits as integers of the same order.

/// What stands for a NaN. No logit has the key 0.
pub(super) const NAN: u32 = 1;
/// The key of minus infinity.
pub(super) const LEAST: u32 = !0xff80_0000;

/// Larger for larger logits; the two zeros have the same.
#[inline(always)]
pub(super) fn key(logit: f32) -> u32 {
    let bits = logit.to_bits();
    // Not by an addition: the logit is a product, and the two would be fused.
    let bits = if bits == 0x8000_0000 { 0 } else { bits };
    let key = if bits >> 31 == 0 { bits | 0x8000_0000 } else { !bits };
    if logit.is_nan() { NAN } else { key }
}

/// The logit of a key.
#[inline(always)]
pub(super) fn logit(key: u32) -> f32 {
    let bits = if key >> 31 == 0 { !key } else { key & 0x7fff_ffff };
    if key == NAN { f32::NAN } else { f32::from_bits(bits) }
}
