//! 16-bit floats as bits.

/// An IEEE half-precision number as its two little-endian file bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub [u8; 2]);

impl F16 {
    /// The value; exact for every bit pattern.
    #[inline(always)]
    #[must_use]
    pub const fn to_f32(self) -> f32 {
        f16_to_f32(u16::from_le_bytes(self.0))
    }

    /// The nearest half (ties to even); beyond 65 504 an infinity.
    #[inline]
    #[must_use]
    pub const fn from_f32(value: f32) -> Self {
        Self(f32_to_f16(value).to_le_bytes())
    }
}

/// The value of the half-precision number with these bits; exact.
#[inline(always)]
#[must_use]
pub const fn f16_to_f32(bits: u16) -> f32 {
    let sign = ((bits & 0x8000) as u32) << 16;
    let exponent = (bits >> 10) & 31;
    let fraction = (bits & 0x3ff) as u32;
    let magnitude = match exponent {
        // 2^-24 is the unit of the subnormals: the product is exact and a normal f32.
        0 => (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        31 => 0x7f80_0000 | fraction << 13,
        _ => ((exponent as u32 + 112) << 23) | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// The bits of the half-precision number nearest to `value`, ties to even; beyond 65 504 an infinity, NaN a quiet NaN.
#[inline]
#[must_use]
pub const fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    // 65 520 is the first value that rounds up to 2^16.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    let half = if magnitude >= 0x3880_0000 {
        // Normal: rebias the exponent, then round 13 bits away. A carry into the exponent is the right answer.
        let rebased = magnitude - (112 << 23);
        (rebased + 0xfff + ((rebased >> 13) & 1)) >> 13
    } else if magnitude >= 0x3300_0000 {
        // Subnormal: the significand in units of 2^-24, shifted by 14 (just below 2^-14) to 24 places.
        let significand = (magnitude & 0x7f_ffff) | 0x80_0000;
        let shift = 126 - (magnitude >> 23);
        let rest = significand & ((1 << shift) - 1);
        let tie = 1 << (shift - 1);
        let floor = significand >> shift;
        floor + (rest > tie || (rest == tie && floor & 1 == 1)) as u32
    } else {
        0
    };
    sign | half as u16
}

/// The value of the bfloat16 number with these bits: the upper half of an `f32`; exact.
#[inline(always)]
#[must_use]
pub const fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The bits of the bfloat16 number nearest to `value`, ties to even; NaN becomes a quiet NaN.
#[inline]
#[must_use]
pub const fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return (bits >> 16) as u16 | 0x40;
    }
    // The largest finite bits plus the rounding term stay below 2^32.
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}
