//! Attention of rows that see chosen blocks of positions, or the ends of groups.

use super::attention::NAME;
use super::module::{CHOSEN, Entry, Family, WINDOWED};
use super::{Attend, Chosen, CudaError, KvCache};
use crate::abi::attention::{AttendArgs, BROAD_QUERIES, PAGE, Paged};
use crate::cpu::KvType;

/// The kernel for any number of rows.
const ENDS_Q8: &str = "ends_many_q8";

/// Which positions rows see.
#[derive(Debug, Clone)]
pub enum Sight {
    /// All up to their own, or a window of these.
    All,
    /// Those that were chosen.
    Chosen(Chosen),
    /// The last ones of all whole groups of so many positions, whose keys are their values.
    Ends(usize),
}

impl Sight {
    /// Whether it is of positions that stand for others.
    pub(super) fn is_of_ends(&self) -> bool {
        matches!(self, Self::Ends(_) | Self::Chosen(Chosen { ends: true, .. }))
    }

    /// Of some rows.
    pub(super) fn some(&self, rows: std::ops::Range<usize>) -> Result<Self, CudaError> {
        match self {
            Self::Chosen(chosen) => Ok(Self::Chosen(chosen.some(rows)?)),
            other => Ok(other.clone()),
        }
    }

    /// Positions that a row of up to `stride` pages sees, at most.
    pub(super) fn most(&self, stride: usize) -> usize {
        let all = stride * PAGE as usize;
        match self {
            Self::All => all,
            Self::Ends(positions) => all / positions,
            Self::Chosen(Chosen { keep, ends: true, .. }) => all.min(*keep),
            Self::Chosen(Chosen { keep, block, .. }) => all.min((keep + 1) * block),
        }
    }
}

/// What kernels are told of places.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) address: u64,
    pub(super) line: u32,
    pub(super) keep: u32,
    pub(super) shift: u32,
    pub(super) every: u32,
}

/// The widest heads that there are kernels for.
const WIDEST: usize = 512;

/// The kernel of a shape, and the width of heads that it is made for.
pub(super) fn entry(shape: &KvCache, ends: bool) -> Result<(u32, Entry<AttendArgs>), CudaError> {
    let widest = shape.key_dim().max(shape.value_dim());
    let rule = || format!("at most {WIDEST}");
    CudaError::require(NAME, "the width of heads of chosen blocks", widest as u64, widest <= WIDEST, rule)?;
    if ends {
        let (key, value) = (shape.key_dim() as u64, shape.value_dim() as u64);
        CudaError::equal(NAME, "the width of values that are keys", value, key)?;
        let holds = key.is_multiple_of(32) || shape.kind() == KvType::F32;
        let rule = || "a multiple of 32".to_owned();
        CudaError::require(NAME, "the width of keys that are values", key, holds, rule)?;
    }
    let (family, names): (&'static Family, _) = match (shape.kind(), ends) {
        (KvType::Q8_0, false) => (&CHOSEN, ["chosen_q8_256", "chosen_q8_512"]),
        (KvType::F16, false) => (&CHOSEN, ["chosen_f16_256", "chosen_f16_512"]),
        (KvType::Q8_0, true) => (&WINDOWED, [ENDS_Q8; 2]),
        (KvType::F16, true) => (&WINDOWED, ["ends_f16_512"; 2]),
        (KvType::F32, _) => (&CHOSEN, ["chosen_float", "chosen_float_wide"]),
    };
    let wide = widest > 256 || (ends && shape.kind() != KvType::F32);
    Ok((if wide { 512 } else { 256 }, Entry::new(family, names[usize::from(wide)])))
}

/// The kernel for few rows of a shape that returns sums, and the width of heads that it is made for.
pub(super) fn part(shape: &KvCache) -> Result<(u32, Entry<AttendArgs>), CudaError> {
    let widest = shape.key_dim().max(shape.value_dim());
    let rule = || format!("at most {WIDEST}");
    CudaError::require(NAME, "the width of heads with sums", widest as u64, widest <= WIDEST, rule)?;
    let name = if shape.kind() == KvType::Q8_0 { "part_q8_512" } else { "part_f16_512" };
    // Models with such layers have heads that wide: narrower ones are not worth kernels of their own.
    Ok((WIDEST as u32, Entry::new(&WINDOWED, name)))
}

impl Attend {
    /// Whether there are kernels for chosen blocks in such a cache.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there are none.
    pub fn check_chosen(shape: &KvCache) -> Result<(), CudaError> {
        entry(shape, false).map(drop)
    }

    /// Whether there are kernels for the ends of groups in such a cache.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there are none.
    pub fn check_ends(shape: &KvCache) -> Result<(), CudaError> {
        entry(shape, true).map(drop)
    }

    /// Whether there are kernels that return sums for such a cache.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there are none.
    pub fn check_sums(shape: &KvCache) -> Result<(), CudaError> {
        part(shape).map(drop)
    }

    /// The kernel for many rows of the widest heads and its blocks for the heads of a row, if it is theirs: a block has 32 heads of one row,
    /// and with less than half of them it is no better than the one for few rows.
    pub(super) fn chosen_many(&self) -> Result<Option<(Entry<AttendArgs>, u32)>, CudaError> {
        let shape = &self.cache.shape;
        let group = (self.heads / shape.kv_heads()) as u32;
        if matches!(self.sight, Sight::All) {
            return Ok(None);
        }
        let ends = self.sight.is_of_ends();
        let (width, _) = entry(shape, ends)?;
        // The widest ends of bytes have no other: their scales, four words apart, leave no registers for pieces of few rows.
        let only = ends && shape.kind() == KvType::Q8_0;
        let few = self.rows <= Self::FEW || group < BROAD_QUERIES / 2;
        if width < WIDEST as u32 || shape.kind() == KvType::F32 || (few && !only) {
            return Ok(None);
        }
        let entry = match (shape.kind() == KvType::Q8_0, ends) {
            (true, false) => Entry::new(&CHOSEN, "chosen_many_q8"),
            (false, false) => Entry::new(&CHOSEN, "chosen_many_f16"),
            (true, true) => Entry::new(&WINDOWED, ENDS_Q8),
            (false, true) => Entry::new(&WINDOWED, "ends_many_f16"),
        };
        Ok(Some((entry, group.div_ceil(BROAD_QUERIES))))
    }

    /// Checks what rows see, and says where.
    pub(super) fn places(&self, paged: &Paged) -> Result<Places, CudaError> {
        // Kernels of blocks return no sums, and those of ends do.
        let (wants, ends) = (self.sums.is_some(), self.sight.is_of_ends());
        let holds = matches!(self.sight, Sight::All) || wants == ends;
        let rule = || format!("{}", u8::from(ends));
        CudaError::require(NAME, "sums of what rows see", u64::from(wants), holds, rule)?;
        let require = |what, found: usize, holds: bool, rule: &str| {
            CudaError::require(NAME, what, found as u64, holds, || rule.to_owned())
        };
        if matches!(self.sight, Sight::All) {
            return Ok(Places::default());
        }
        let window = self.window.unwrap_or(0);
        require("a window of chosen blocks", window, self.window.is_none(), "none")?;
        let pages = paged.pages as usize;
        require("pages", pages, pages < 1 << 26, "below 2^26")?;
        let chosen = match &self.sight {
            Sight::All => return Ok(Places::default()),
            Sight::Ends(positions) => {
                require(
                    "positions of a group",
                    *positions,
                    (1..1 << 24).contains(positions),
                    "1 to 2^24 - 1",
                )?;
                return Ok(Places { keep: u32::MAX, every: *positions as u32, ..Places::default() });
            }
            Sight::Chosen(chosen) => chosen,
        };
        let Chosen { block, keep, ends, ref places } = *chosen;
        let least = if ends { 1 } else { 4 };
        let holds = block >= least && (PAGE as usize).is_multiple_of(block);
        require(
            "positions of a chosen block",
            block,
            holds,
            "a divisor of 64, at least 4 where all are seen",
        )?;
        require("chosen blocks", keep, keep > 0 && keep < 1 << 20, "1 to 2^20 - 1")?;
        let line = Chosen::line(keep, ends);
        let (found, expected) = (places.len() as u64, (self.rows * line) as u64);
        CudaError::equal(NAME, "words of chosen blocks", found, expected)?;
        let address = places.address();
        let rule = || "a multiple of 16".to_owned();
        let holds = !ends || address.is_multiple_of(16);
        CudaError::require(NAME, "the places' address", address, holds, rule)?;
        let every = if ends { block as u32 } else { 0 };
        Ok(Places { address, line: line as u32, keep: keep as u32, shift: block.ilog2(), every })
    }
}
