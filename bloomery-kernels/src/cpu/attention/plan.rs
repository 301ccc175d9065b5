//! Checking a call and grouping its rows into tiles.

use super::chunk::Tile;
use super::{AttentionSpec, CHUNK, RowView};
use crate::cpu::KernelError;
use crate::cpu::kv::{KvLayer, PAGE};

/// Positions of a chunk.
const CHUNK_POSITIONS: usize = CHUNK * PAGE;
/// Query vectors of a tile: enough that converting a page once costs little, few enough for the second-level cache.
const TILE_QUERIES: usize = 128;
/// Rows of a tile.
const TILE_ROWS: usize = 32;

/// The contract of `attention`.
pub(super) fn check(
    q: &[f32],
    spec: &AttentionSpec<'_>,
    cache: &KvLayer<'_>,
    rows: &[RowView<'_>],
    out: &[f32],
) -> Result<(), KernelError> {
    let (shape, heads) = (cache.shape, spec.heads);
    if heads == 0 || !heads.is_multiple_of(shape.heads()) {
        let rule = "a positive multiple of the KV heads";
        return Err(KernelError::Shape { what: "number of query heads", value: heads, rule });
    }
    KernelError::length("queries", rows.len() * heads * shape.key_dim(), q.len())?;
    KernelError::length("attention output", rows.len() * heads * shape.value_dim(), out.len())?;
    if let Some(sinks) = spec.sinks {
        KernelError::length("attention sinks", heads, sinks.len())?;
    }
    let mut before: Option<RowView<'_>> = None;
    for row in rows {
        let visible = row.visible(spec.window);
        if visible.is_empty() {
            let value = row.len as usize;
            return Err(KernelError::Shape { what: "visible positions", value, rule: "at least 1" });
        }
        // The rows of a chunk share their list: look at the pages of its longest row and of its first window only.
        let known = before.filter(|b| same_list(b, row)).map_or(0..0, |b| b.visible(spec.window));
        let pages = visible.start / PAGE..visible.end.div_ceil(PAGE);
        KernelError::below("page of a visible position", pages.end - 1, row.pages.len())?;
        if let Some(mask) = row.mask {
            KernelError::below("page of a visible position", pages.end - 1, mask.len())?;
        }
        let known = known.start / PAGE..known.end.div_ceil(PAGE);
        for page in pages.filter(|page| !known.contains(page)) {
            KernelError::below("cache page", row.pages[page] as usize, cache.pages)?;
        }
        before = Some(*row);
    }
    Ok(())
}

/// An error if a row sees nothing, of rows that were [checked](check).
pub(super) fn some_seen(spec: &AttentionSpec<'_>, rows: &[RowView<'_>]) -> Result<(), KernelError> {
    let blind = |row: &&RowView<'_>| {
        let visible = row.visible(spec.window);
        let pages = visible.start / PAGE..visible.end.div_ceil(PAGE);
        row.mask.is_some_and(|mask| mask[pages].iter().all(|&bits| bits == 0))
    };
    match rows.iter().find(blind) {
        Some(_) => Err(KernelError::Shape { what: "visible positions", value: 0, rule: "at least 1" }),
        None => Ok(()),
    }
}

fn same_list(a: &RowView<'_>, b: &RowView<'_>) -> bool {
    std::ptr::eq(a.pages, b.pages)
}

/// Groups neighbouring rows of a sequence, for each KV head. Only speed depends on the grouping.
pub(super) fn tile(
    rows: &[RowView<'_>],
    spec: &AttentionSpec<'_>,
    group: usize,
    kv_heads: usize,
    tiles: &mut Vec<Tile>,
) {
    tiles.clear();
    let most = (TILE_QUERIES / group).clamp(1, TILE_ROWS);
    let mut first = 0;
    while first < rows.len() {
        let list = &rows[first];
        let count = rows[first..].iter().take(most).take_while(|row| same_list(row, list)).count();
        let views = rows[first..first + count].iter().map(|row| row.visible(spec.window));
        let (start, end) = views.fold((usize::MAX, 0), |(s, e), v| (s.min(v.start), e.max(v.end)));
        tiles.extend((0..kv_heads).map(|head| Tile { first, rows: count, head, start, end }));
        first += count;
    }
}

impl Tile {
    /// Chunks with visible positions.
    pub(super) fn chunks(&self) -> std::ops::Range<usize> {
        self.start / CHUNK_POSITIONS..self.end.div_ceil(CHUNK_POSITIONS)
    }
}
