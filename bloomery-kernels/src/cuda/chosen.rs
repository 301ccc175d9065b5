//! Attention of rows that see chosen blocks of positions.

use super::attention::NAME;
use super::module::{CHOSEN, Entry};
use super::{Attend, CudaError, KvCache};
use crate::abi::attention::{AttendArgs, BROAD_QUERIES, PAGE, Paged};
use crate::cpu::KvType;

/// The widest heads that there are kernels for.
const WIDEST: usize = 512;

/// The kernel of a shape, and the width of heads that it is made for.
pub(super) fn entry(shape: &KvCache) -> Result<(u32, Entry<AttendArgs>), CudaError> {
    let widest = shape.key_dim().max(shape.value_dim());
    let rule = || format!("at most {WIDEST}");
    CudaError::require(NAME, "the width of heads of chosen blocks", widest as u64, widest <= WIDEST, rule)?;
    let names = match shape.kind() {
        KvType::Q8_0 => ["chosen_q8_256", "chosen_q8_512"],
        KvType::F16 => ["chosen_f16_256", "chosen_f16_512"],
        KvType::F32 => ["chosen_float", "chosen_float_wide"],
    };
    let wide = widest > 256;
    Ok((if wide { 512 } else { 256 }, Entry::new(&CHOSEN, names[usize::from(wide)])))
}

impl Attend {
    /// Whether there are kernels for chosen blocks in such a cache.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there are none.
    pub fn check_chosen(shape: &KvCache) -> Result<(), CudaError> {
        entry(shape).map(drop)
    }

    /// The kernel for many rows of the widest heads and its blocks for the heads of a row, if it is theirs: a block has 32 heads of one row,
    /// and with less than half of them it is no better than the one for few rows.
    pub(super) fn chosen_many(&self) -> Result<Option<(Entry<AttendArgs>, u32)>, CudaError> {
        let shape = &self.cache.shape;
        let group = (self.heads / shape.kv_heads()) as u32;
        if self.chosen.is_none() {
            return Ok(None);
        }
        let (width, _) = entry(shape)?;
        if self.rows <= Self::FEW || width < WIDEST as u32 || group < BROAD_QUERIES / 2 {
            return Ok(None);
        }
        let name = if shape.kind() == KvType::Q8_0 { "chosen_many_q8" } else { "chosen_many_f16" };
        Ok(Some((Entry::new(&CHOSEN, name), group.div_ceil(BROAD_QUERIES))))
    }

    /// The address of places, blocks of a row, and the logarithm of a block's positions.
    pub(super) fn chosen_arguments(&self, paged: &Paged) -> Result<(u64, u32, u32), CudaError> {
        let Some(chosen) = &self.chosen else { return Ok((0, 0, 0)) };
        let require = |what, found: usize, holds: bool, rule: &str| {
            CudaError::require(NAME, what, found as u64, holds, || rule.to_owned())
        };
        let (block, keep) = (chosen.block, chosen.keep);
        let holds = block >= 4 && (PAGE as usize).is_multiple_of(block);
        require("positions of a chosen block", block, holds, "a divisor of 64, at least 4")?;
        require("chosen blocks", keep, keep > 0 && keep < 1 << 20, "1 to 2^20 - 1")?;
        require("a window of chosen blocks", self.window.unwrap_or(0), self.window.is_none(), "none")?;
        let pages = paged.pages as usize;
        require("pages", pages, pages < 1 << 26, "below 2^26")?;
        let (found, expected) = (chosen.places.len() as u64, (self.rows * (keep + 1)) as u64);
        CudaError::equal(NAME, "words of chosen blocks", found, expected)?;
        Ok((chosen.places.address(), keep as u32, block.ilog2()))
    }
}
