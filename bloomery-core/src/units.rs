//! Units that print themselves.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

/// A number of bytes. Prints in the largest binary unit that keeps three digits.
///
/// ```
/// use bloomery_core::Bytes;
/// assert_eq!(Bytes(1536).to_string(), "1.50 KiB");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `count` values of `size` bytes each; saturates.
    #[must_use]
    pub fn of(count: usize, size: usize) -> Self {
        Self((count as u64).saturating_mul(size as u64))
    }

    /// What is left after taking `other` away, or zero.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 { write!(f, "{} B", self.0) } else { write!(f, "{value:.2} {}", UNITS[unit]) }
    }
}

/// Text that is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a size with its unit, such as 12G or 512M")]
pub struct SizeError;

/// A number and a unit: `512K`, `1.5G`, `12GiB`. Units are powers of 1024, however they are spelled.
impl FromStr for Bytes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().to_ascii_lowercase();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match &text[digits.len()..] {
            "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(SizeError),
        };
        let number = digits.trim().parse::<f64>().map_err(|_| SizeError)?;
        let sensible = number.is_finite() && number >= 0.0;
        if sensible { Ok(Self((number * (1u64 << shift) as f64) as u64)) } else { Err(SizeError) }
    }
}

/// Bytes a second. Prints in powers of 1000, as rates of memory and links are named.
///
/// ```
/// use bloomery_core::Rate;
/// assert_eq!(Rate(22_000_000_000).to_string(), "22.0 GB/s");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// Seconds that so many bytes take.
    #[must_use]
    pub fn seconds(self, bytes: Bytes) -> f64 {
        bytes.0 as f64 / self.0.max(1) as f64
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} GB/s", self.0 as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("12G", 12 << 30),
            ("12GiB", 12 << 30),
            ("12 gb", 12 << 30),
            ("1.5g", 3 << 29),
            ("512M", 512 << 20),
            ("64k", 64 << 10),
            ("2T", 2 << 40),
            ("7B", 7),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "12", "G", "x", "-1G", "12X", "1e999G", "12GG", "nan", "infg", "é"] {
            assert_eq!(text.parse::<Bytes>(), Err(SizeError), "{text}");
        }
    }
}
