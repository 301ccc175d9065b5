//! The kernels of a routed layer whose experts are on both sides.

use std::ops::Range;
use std::time::Duration;

use bloomery_kernels::cuda::{
    Buffer as CardBuffer, Collect, CudaError, Desk, FeedForward, Fetch, Launch, Numbers, Routed, Seat, Span,
};

use super::slots::Pool;
use super::waves::Waves;
use crate::backend::cuda::frame::Frame;
use crate::backend::cuda::ops::feed_forward;
use crate::backend::cuda::walk::{Hand, Stage};
use crate::def::Act;
use crate::program::{Buffer, Gated};

/// The card goes on without the host after so long, longer than any answer takes and than the host's own patience.
const LIMIT: Duration = Duration::from_secs(30);

/// What launches are made of.
#[derive(Debug)]
pub(in crate::backend::cuda) struct Slots {
    pub(super) pools: Vec<Pool>,
    pub(super) layers: Vec<Layer>,
    pub(super) desk: Desk,
    /// Slots by expert, all layers one after the other; and those of a prompt's waves.
    pub(super) map: Span<u32>,
    pub(super) wave_maps: Span<u32>,
    /// As `map`: how often each expert was chosen in a step with waves.
    pub(super) counts: CardBuffer<u32>,
    /// `[rows][used]`: what the kernels of the experts read in place of the router's choice.
    pub(super) seated: CardBuffer<u32>,
    /// As `seated`, of experts that came while the layer waited, and by expert where they are.
    pub(super) fetched: CardBuffer<u32>,
    pub(super) fetched_homes: CardBuffer<u32>,
}

/// Of a routed layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layer {
    pub(super) pool: Option<usize>,
    pub(super) experts: usize,
    /// Where it begins in the map.
    pub(super) start: usize,
}

impl Layer {
    /// Its part of what has a value for each expert of all layers.
    pub(super) fn part(&self) -> Range<usize> {
        self.start..self.start + self.experts
    }
}

/// Who has the experts that have no slot.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::cuda) enum Way<'a> {
    /// The host computes them; or, with kernels for it, has some of them brought.
    Served { fetches: bool },
    /// They come to the card.
    Streamed(&'a Waves),
}

/// What an op reads and writes.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::cuda) struct Experts<'a> {
    pub(in crate::backend::cuda) layer: usize,
    pub(in crate::backend::cuda) used: usize,
    pub(in crate::backend::cuda) normed: Buffer,
    pub(in crate::backend::cuda) act: Act,
    /// The network beside them.
    pub(in crate::backend::cuda) beside: Option<&'a Gated>,
    pub(in crate::backend::cuda) out: Buffer,
}

impl Slots {
    /// The stages of a layer: one, or one for each wave.
    pub(in crate::backend::cuda) fn stages(
        &self,
        frame: &Frame<'_>,
        way: Way<'_>,
        op: Experts<'_>,
    ) -> Result<Vec<Stage>, CudaError> {
        let layer = &self.layers[op.layer];
        match (way, layer.pool) {
            (Way::Streamed(waves), Some(pool)) => {
                let first = waves.of_layer[op.layer].start;
                let stage = |wave| {
                    let start = waves.start(wave);
                    let seats = self.wave_maps.slice(start..start + layer.experts)?;
                    let counts = self.counts.slice(layer.part())?;
                    let counts = (wave == first).then_some(counts);
                    let (seat, block) = self.block(frame, op, pool, &seats)?;
                    let mut launches = vec![Seat { counts, ..seat }.launch(frame.info, None)?];
                    launches.extend(block.launches(frame.info)?);
                    Ok(Stage { hand: Some(Hand::Wave(wave)), ..Stage::new("experts", launches) })
                };
                let mut stages = Vec::new();
                if let Some(gated) = op.beside {
                    let launches = feed_forward::dense(frame, op.normed, None, gated, op.out)?;
                    stages.push(Stage::new("feed-forward", launches));
                }
                for wave in waves.of_layer[op.layer].clone() {
                    stages.push(stage(wave)?);
                }
                Ok(stages)
            }
            (way, pool) => {
                let seats = self.map.slice(layer.part())?;
                let rows = frame.rows_of(op.normed.rows);
                let (seat, mut launches) = match pool {
                    Some(pool) => {
                        let (seat, block) = self.block(frame, op, pool, &seats)?;
                        (seat, feed_forward::with(frame, op.normed, (block, op.beside), op.out)?)
                    }
                    None => {
                        let launches = match op.beside {
                            Some(gated) => feed_forward::dense(frame, op.normed, None, gated, op.out)?,
                            None => Vec::new(),
                        };
                        (self.seat(frame, op, &seats, Numbers::Seats)?, launches)
                    }
                };
                let seat = Seat { normed: Some(frame.span(op.normed)?), ..seat };
                launches.insert(0, seat.launch(frame.info, Some((&self.desk, op.layer)))?);
                if let (Way::Served { fetches: true }, Some(pool)) =
                    (way, pool.filter(|&pool| self.pools[pool].half > 0))
                {
                    launches.extend(self.fetched(frame, op, pool)?);
                }
                let collect = Collect { out: frame.span(op.out)?, rows, limit: LIMIT };
                launches.push(collect.launch(frame.info, &self.desk, op.layer)?);
                Ok(vec![Stage { hand: Some(Hand::Serve(op.layer, rows)), ..Stage::new("experts", launches) }])
            }
        }
    }

    /// Experts that come while the layer waits.
    fn fetched(&self, frame: &Frame<'_>, op: Experts<'_>, pool: usize) -> Result<Vec<Launch>, CudaError> {
        let rows = frame.rows_of(op.normed.rows);
        let pairs = rows * op.used;
        let homes = self.fetched_homes.slice(0..self.layers[op.layer].experts)?;
        let (block, numbers) = self.seated_block(frame, op, pool, (&self.fetched, &homes))?;
        let fetch = Fetch {
            experts: frame.memory.experts.slice(0..pairs)?,
            rows,
            out: self.fetched.slice(0..pairs)?,
            homes: (numbers == Numbers::Experts).then_some(homes),
            limit: LIMIT,
        };
        let mut launches = vec![fetch.launch(frame.info, &self.desk, op.layer)?];
        launches.extend(block.launches(frame.info)?);
        Ok(launches)
    }

    fn seat(
        &self,
        frame: &Frame<'_>,
        op: Experts<'_>,
        seats: &Span<u32>,
        numbers: Numbers,
    ) -> Result<Seat, CudaError> {
        let pairs = frame.rows_of(op.normed.rows) * op.used;
        Ok(Seat {
            experts: frame.memory.experts.slice(0..pairs)?,
            weights: frame.memory.expert_weights.slice(0..pairs)?,
            used: op.used,
            seats: seats.clone(),
            out: self.seated.slice(0..pairs)?,
            numbers,
            counts: None,
            normed: None,
        })
    }

    /// The experts that have slots, and who is left to them.
    fn block(
        &self,
        frame: &Frame<'_>,
        op: Experts<'_>,
        pool: usize,
        seats: &Span<u32>,
    ) -> Result<(Seat, FeedForward), CudaError> {
        let (block, numbers) = self.seated_block(frame, op, pool, (&self.seated, seats))?;
        Ok((self.seat(frame, op, seats, numbers)?, block))
    }

    /// The products of experts of a pool, of which pairs' numbers are in `experts`, and which numbers these are.
    fn seated_block(
        &self,
        frame: &Frame<'_>,
        op: Experts<'_>,
        pool: usize,
        (experts, seats): (&CardBuffer<u32>, &Span<u32>),
    ) -> Result<(FeedForward, Numbers), CudaError> {
        let pairs = frame.rows_of(op.normed.rows) * op.used;
        let mut routed = Routed {
            experts: experts.slice(0..pairs)?,
            weights: frame.memory.expert_weights.slice(0..pairs)?,
            used: op.used,
            seats: None,
        };
        let stacks = (self.pools[pool].stacks(), op.act);
        let mut block = feed_forward::block(frame, op.normed, Some(routed.clone()), stacks, op.out)?;
        // Kernels for many rows sort them by expert, of which there are fewer than slots.
        if !block.sorts() {
            return Ok((block, Numbers::Seats));
        }
        routed.seats = Some(seats.clone());
        block.routed = Some(routed);
        Ok((block, Numbers::Experts))
    }
}
