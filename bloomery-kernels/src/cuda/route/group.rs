//! Pairs in the order of their experts.

use super::super::launch::Grid;
use super::super::module::{Entry, ROUTE};
use super::super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::route::{EXPERTS, GROUP_PAIRS, GROUP_THREADS, GroupArgs};

const COUNT: Entry<GroupArgs> = Entry::new(&ROUTE, "group_count");
const PLACE: Entry<GroupArgs> = Entry::new(&ROUTE, "group_place");

const NAME: &str = "group";

/// Where the tiles of a grouped product are listed.
#[derive(Debug, Clone)]
pub struct Tiles {
    /// Pairs of a tile, at most: 32, 64 or 128.
    pub size: usize,
    /// `[Group::most_tiles][4]`: expert, place of the first pair in the order, pairs, 0. By ascending expert.
    pub list: Span<u32>,
    /// One value: how many there are.
    pub count: Span<u32>,
}

/// Pairs of a token and one of its slots, `pair = token * used + slot`, by ascending expert and within an expert by ascending
/// number. A number that is no expert leaves its pair out.
#[derive(Debug, Clone)]
pub struct Group {
    /// `[tokens][used]`, as a router left them.
    pub experts: Span<u32>,
    /// Experts of the layer.
    pub count: usize,
    /// `[count + 1]`: the pairs of expert `e` have the places `offsets[e]..offsets[e + 1]`.
    pub offsets: Span<u32>,
    /// One value for every pair; those behind `offsets[count]` stay as they are.
    pub order: Span<u32>,
    /// Pieces of the order.
    pub tiles: Tiles,
    /// [`Group::scratch_len`] values or more.
    pub scratch: Span<u32>,
}

impl Group {
    /// Tiles that there may be.
    #[must_use]
    pub fn most_tiles(pairs: usize, count: usize, size: usize) -> usize {
        // Every expert that has pairs may have one tile that is not full.
        let partial = pairs.min(count);
        partial + (pairs - partial) / size.max(1)
    }

    /// Values of scratch memory.
    #[must_use]
    pub fn scratch_len(pairs: usize, count: usize) -> usize {
        let blocks = pairs.div_ceil(GROUP_PAIRS as usize);
        if blocks > 1 { blocks * count } else { 0 }
    }

    /// The kernels, in order: one for up to 2048 pairs, else two.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launches(&self, _info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let Self { experts, count, offsets, order, tiles, scratch } = self;
        let (pairs, count) = (experts.len(), *count);
        let require = |what, found: usize, holds, rule: &dyn Fn() -> String| {
            CudaError::require(NAME, what, found as u64, holds, rule)
        };
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(NAME, what, found as u64, expected as u64);
        let most = 1 << 20;
        require("pairs", pairs, pairs > 0 && pairs <= most, &|| format!("1 to {most}"))?;
        require("experts", count, count > 0 && count <= EXPERTS as usize, &|| format!("1 to {EXPERTS}"))?;
        let size = tiles.size;
        require("pairs of a tile", size, matches!(size, 32 | 64 | 128), &|| "32, 64 or 128".to_owned())?;
        equal("offsets", offsets.len(), count + 1)?;
        equal("places", order.len(), pairs)?;
        let room = 4 * Self::most_tiles(pairs, count, size);
        require("values of the tiles", tiles.list.len(), tiles.list.len() >= room, &|| {
            format!("at least {room}")
        })?;
        equal("numbers of tiles", tiles.count.len(), 1)?;
        let room = Self::scratch_len(pairs, count);
        require("scratch values", scratch.len(), scratch.len() >= room, &|| format!("at least {room}"))?;
        let address = tiles.list.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(NAME, "the tiles' address", address, address.is_multiple_of(16), rule)?;
        let blocks = (pairs as u32).div_ceil(GROUP_PAIRS);
        let args = GroupArgs {
            experts: experts.address(),
            counts: scratch.address(),
            offsets: offsets.address(),
            order: order.address(),
            tiles: address,
            tile_count: tiles.count.address(),
            pairs: pairs as u32,
            count: count as u32,
            tile: size as u32,
            blocks,
        };
        let uses: Vec<_> = [experts, offsets, order, &tiles.list, &tiles.count, scratch]
            .map(|span| span.memory().clone())
            .into();
        let warps = GROUP_THREADS / 32;
        let shared_bytes = 4 * warps * (count as u32 + 2);
        let grid = Grid { blocks, threads: GROUP_THREADS, shared_bytes };
        let bytes = 4 * pairs as u64;
        let place = Launch::new(PLACE, grid, args, 2 * bytes, uses.clone());
        Ok(if blocks == 1 { vec![place] } else { vec![Launch::new(COUNT, grid, args, bytes, uses), place] })
    }
}
