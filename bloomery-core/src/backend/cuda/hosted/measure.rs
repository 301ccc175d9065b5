//! From how many rows on a layer's experts come to the card faster than the host computes them.

use std::time::{Duration, Instant};

use super::copier::Copier;
use super::server::Server;
use super::slots::Pool;
use super::waves::Place;
use crate::error::LoadError;

/// Most rows that the host serves where it has the choice.
pub(crate) const MOST_ROWS: usize = 512;
/// Fewest rows that are streamed, less one: steps that decode a few streams stay graphs.
const LEAST_ROWS: usize = 8;
/// Bytes of the copy that is timed, at least: some milliseconds.
const COPY_BYTES: u64 = 128 << 20;

/// What was measured when the model was loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// Bytes a second from the host into slots.
    pub(super) link: f64,
    /// Bytes a second of experts that the CPU reads for one row.
    pub(super) read: f64,
    /// Most rows that the host serves.
    pub(super) crossover: usize,
}

impl Default for Measured {
    fn default() -> Self {
        Self { link: 0.0, read: 0.0, crossover: MOST_ROWS }
    }
}

/// Times both ways with the first layer that can go either.
pub(super) fn measure(
    server: &mut Server,
    copier: &mut Copier,
    pools: &[Pool],
    places: &[Place],
) -> Result<Measured, LoadError> {
    let mut measured = Measured::default();
    let Some(place) = places.first() else { return Ok(measured) };
    let (layer, pool) = (place.layer, &pools[place.pool]);
    let (ids, experts) = (server.layers[layer].ids(), server.layers[layer].experts);
    let used = server.layers[layer].used;
    let expert_bytes = server.expert_bytes(layer);

    let numbers: Vec<u32> = (0..place.half.min(experts) as u32).collect();
    let mut bring = |times: u64| -> Result<Duration, LoadError> {
        let start = Instant::now();
        for _ in 0..times {
            copier.bring(&server.weights, ids, &numbers, (pool, place.first_of[0]))?;
        }
        copier.stream.synchronize()?;
        Ok(start.elapsed())
    };
    // The first pass brings pages and kernels in.
    bring(1)?;
    let one = expert_bytes * numbers.len() as u64;
    let times = COPY_BYTES.div_ceil(one.max(1)).min(64);
    measured.link = (times * one) as f64 / bring(times)?.as_secs_f64();
    copier.bytes = 0;

    let all = (experts as u64 * expert_bytes) as f64;
    let streamed = all / measured.link;
    let mut time = |rows: usize| -> Result<f64, LoadError> {
        let times = [server.time(layer, rows)?, server.time(layer, rows)?];
        Ok(times.into_iter().min().unwrap_or_default().as_secs_f64())
    };
    // Rows that together choose every expert once.
    let spread = experts.div_ceil(used).max(1);
    measured.read = all / time(spread)?;
    let mut rows = spread.min(MOST_ROWS);
    while rows < MOST_ROWS && time(rows)? < streamed {
        rows *= 2;
    }
    // Fewer rows touch fewer experts, while a stream brings all of them.
    let mut fewer = rows;
    while fewer > LEAST_ROWS && time(fewer)? > streamed {
        fewer -= (rows / 16).max(1);
    }
    measured.crossover = fewer.clamp(LEAST_ROWS, MOST_ROWS);
    Ok(measured)
}
