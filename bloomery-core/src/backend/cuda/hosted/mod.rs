//! Experts of which the card has a part, and the host all.
//!
//! ```text
//! few rows    router -> offer -> experts with slots -> collect -> ...     one graph
//!                         |                              ^
//!                         v  memory that both see        |
//!             host:      experts without slots, each once for all rows
//!
//!             bus:       some of these, to products of their own before the collection
//!
//! many rows   router -> wave 0 -> wave 1 -> ...         a layer's missing experts, once over the bus
//!             copies:  | half 0 | half 1 | half 0 ..
//! ```
//!
//! Where experts are is a map in the card's memory that kernels look into while they run, so that nothing is captured again
//! when one moves. It changes between steps, at a step that is fixed when a move begins.

mod copier;
mod fetch;
mod layers;
mod measure;
mod refill;
mod server;
mod slots;
mod source;
mod stages;
mod waves;

pub(super) use layers::routed_layers;
pub(crate) use measure::MOST_ROWS as MOST_SERVED_ROWS;
pub(super) use stages::{Experts, Slots, Way};

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::Cpu;
use bloomery_kernels::cuda::{CudaError, Desk, DeskShape, Device, Event, Stream, Upload};

use super::graphs::GRAPH_ROWS;
use super::walk::Hand;
use crate::error::{EngineError, LoadError};
use crate::plan::{ResidencyMode, Split};
use crate::program::Program;
use crate::residency::{Expert, Heat, LayerShape, NOWHERE, Residency, Rules, Shape, Stats, Traffic};
use crate::units::Bytes;
use crate::weights::Weights;
use copier::Copier;
use fetch::{Bus, Fetching, lacked, share};
use measure::Measured;
use server::Server;
use stages::Layer;
use waves::{Place, Waves};

/// Most rows of a step that can be asked for at the desk.
pub(crate) const DESK_ROWS: usize = 1024;

/// See above.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) slots: Slots,
    residency: Residency,
    copier: Copier,
    server: Server,
    map: Upload<u32>,
    wave_maps: Upload<u32>,
    /// Waves of the step under way; none, if the host serves it.
    waves: Option<Waves>,
    /// Layers that can stream.
    places: Vec<Place>,
    measured: Measured,
    /// In place of what is measured.
    served_rows: Option<usize>,
    /// What experts that come while the host computes have saved, in steps of up to [`GRAPH_ROWS`] rows and of more.
    fetching: [Fetching; 2],
    /// Whether the step under way has kernels for them.
    fetches: bool,
    mode: ResidencyMode,
    /// Layers that the host has served in the step under way, and their rows.
    served: Vec<(usize, usize)>,
    split: Split,
    /// Number of the last step.
    step: u32,
    /// Steps that decoded: the residency's time.
    clock: u64,
    /// When moves under way land, and when they have arrived.
    moving: VecDeque<(u64, Event)>,
    heat: Option<HeatFile>,
    served_steps: u64,
    streamed_steps: u64,
    /// Of the waves that are queued and done, in order.
    arrived: Vec<Event>,
    done: Vec<Option<Event>>,
}

/// What a split is made of.
pub(super) struct Parts<'a> {
    pub(super) split: Split,
    pub(super) program: &'a Program,
    pub(super) weights: Weights,
    pub(super) gguf: Arc<Gguf>,
    pub(super) cpu: Cpu,
    pub(super) step_rows: usize,
    pub(super) mode: ResidencyMode,
    pub(super) served_rows: Option<usize>,
    pub(super) heat: Option<HeatFile>,
}

/// Where counts of chosen experts outlive the engine.
#[derive(Debug)]
pub(super) struct HeatFile {
    pub(super) path: PathBuf,
    /// The model's fingerprint.
    pub(super) model: u64,
}

impl Hosted {
    /// Takes the card's memory for it. Experts come with [`fill`](Self::fill).
    pub(super) fn new(device: &Device, stream: &Stream, parts: Parts<'_>) -> Result<Self, LoadError> {
        let Parts { mut split, program, weights, gguf, cpu, step_rows, mode, served_rows, heat } = parts;
        for layer in &mut split.layers {
            // A pool without any slots is none.
            layer.pool = layer.pool.filter(|pool| split.pools[*pool].slots + split.pools[*pool].ring > 0);
        }
        let layers = routed_layers(program, &weights);
        let pools = refill::pools(device, &split, &layers, &weights)?;
        let shape = Shape {
            layers: layers
                .iter()
                .zip(&split.layers)
                .map(|(layer, part)| LayerShape {
                    experts: layer.experts,
                    used: layer.used,
                    pool: part.pool,
                    resident: part.resident,
                })
                .collect(),
            pools: refill::shapes(&split),
        };
        let rules = Rules { adaptive: mode == ResidencyMode::Adaptive, ..Rules::default() };
        let counts: Vec<usize> = layers.iter().map(|layer| layer.experts).collect();
        let kept = heat.as_ref().filter(|file| file.path.exists());
        let kept = kept.map(|file| Heat::read(&file.path, file.model, &counts)).transpose()?;
        let residency = Residency::new(shape, rules, kept.as_ref());
        let places = refill::places(&split, &pools);
        let map = Upload::new(stream, residency.map().len())?;
        let wave_maps = Upload::new(stream, Waves::most_words(&places, |layer| layers[layer].experts))?;
        let used = layers.iter().map(|layer| layer.used).max().unwrap_or(1);
        let widths = layers.iter().map(|layer| layer.normed.cols).max().unwrap_or(0);
        // Layers that cannot stream are served whatever the number of rows.
        let rows = if places.len() < layers.len() { step_rows } else { measure::MOST_ROWS.min(step_rows) };
        let desk = DeskShape { layers: layers.len(), rows, used, cols: widths, outputs: widths };
        let tables: Vec<_> = program.ngrams.iter().filter_map(|layer| weights.tensor(layer.table)).collect();
        let copier = Copier::new(device, (&gguf, &tables), &weights, &layers, &pools)?;
        let slots = Slots {
            layers: layers
                .iter()
                .zip(&split.layers)
                .enumerate()
                .map(|(index, (layer, part))| Layer {
                    pool: part.pool,
                    experts: layer.experts,
                    start: residency.start(index),
                })
                .collect(),
            pools,
            desk: Desk::new(device, desk)?,
            map: map.span(),
            wave_maps: wave_maps.span(),
            counts: device.alloc(residency.map().len())?,
            seated: device.alloc(step_rows * used)?,
            fetched: device.alloc(rows * used)?,
            fetched_homes: device.alloc(counts.iter().copied().max().unwrap_or(0))?,
        };
        let server = Server::new(cpu, gguf, weights, layers);
        Ok(Self {
            slots,
            residency,
            copier,
            server,
            map,
            wave_maps,
            waves: None,
            places,
            measured: Measured::default(),
            served_rows: served_rows.map(|rows| rows.min(desk.rows)),
            fetching: [Fetching::default(); 2],
            fetches: false,
            mode,
            served: Vec::new(),
            split,
            step: 0,
            clock: 0,
            moving: VecDeque::new(),
            heat,
            served_steps: 0,
            streamed_steps: 0,
            arrived: Vec::new(),
            done: Vec::new(),
        })
    }

    /// Brings the residents to their slots and measures what decides between serving and streaming.
    pub(super) fn fill(&mut self, stream: &mut Stream) -> Result<(), LoadError> {
        self.bring_residents(stream)?;
        self.measured =
            measure::measure(&mut self.server, &mut self.copier, &self.slots.pools, &self.places)?;
        self.measured.crossover = self.served_rows.unwrap_or(self.measured.crossover);
        if self.mode == ResidencyMode::Off {
            self.fetching = [1, 2 * GRAPH_ROWS].map(|rows| self.fetching_of(rows));
        }
        Ok(())
    }

    /// What experts that come meanwhile save where rows choose evenly among those of a layer.
    fn fetching_of(&self, rows: usize) -> Fetching {
        let saved = |place: &Place| {
            let layer = &self.slots.layers[place.layer];
            let (map, experts) = (&self.residency.map()[layer.part()], layer.experts);
            let missing = map.iter().filter(|&&slot| slot == NOWHERE).count();
            let lacking = lacked(missing, rows, self.server.layers[place.layer].used, experts);
            share(&self.measured, lacking, self.server.expert_bytes(place.layer), place.half).1
        };
        Fetching::fixed(self.places.iter().map(saved))
    }

    /// Brings all experts that have slots, and the map of them.
    fn bring_residents(&mut self, stream: &mut Stream) -> Result<(), CudaError> {
        let residents: Vec<_> = self.residency.residents().collect();
        for (expert, slot) in residents {
            self.bring_one(expert, slot)?;
        }
        self.map.send(stream, self.residency.map())?;
        stream.synchronize()?;
        self.copier.stream.synchronize()
    }

    /// What slots and rings take of the card.
    pub(super) fn split(&self) -> &Split {
        &self.split
    }

    fn bring_one(&mut self, expert: Expert, slot: u32) -> Result<(), CudaError> {
        let layer = expert.layer as usize;
        let Some(pool) = self.slots.layers[layer].pool else { return Ok(()) };
        let ids = self.server.layers[layer].ids();
        let to = (&self.slots.pools[pool], slot as usize);
        self.copier.bring(&self.server.weights, ids, &[expert.expert], to)
    }

    /// What the step's launches are made of.
    pub(super) fn way(&self) -> Way<'_> {
        self.waves.as_ref().map_or(Way::Served { fetches: self.fetches }, Way::Streamed)
    }

    /// Whether the step's experts come to the card.
    pub(super) fn streams(&self) -> bool {
        self.waves.is_some()
    }

    /// Whether the step's kernels are those that wait for experts on the bus.
    pub(super) fn fetches(&self) -> bool {
        self.fetches
    }

    /// Prepares a step of `rows` rows through the first `layers` routed layers: lands moves, and decides whether experts are served or
    /// streamed.
    pub(super) fn begin(&mut self, stream: &mut Stream, rows: usize, layers: usize) -> Result<(), CudaError> {
        if !self.residency.land(self.clock).is_empty() {
            while self.moving.front().is_some_and(|(lands, _)| *lands <= self.clock) {
                let Some((_, arrival)) = self.moving.pop_front() else { break };
                stream.wait(&arrival)?;
            }
            self.map.send(stream, self.residency.map())?;
        }
        self.step = self.step.wrapping_add(1);
        self.slots.desk.begin(stream, self.step)?;
        self.waves = None;
        self.fetches = self.fetching[usize::from(rows > GRAPH_ROWS)].pays();
        if rows > self.measured.crossover && !self.places.is_empty() {
            let map = self.residency.map();
            let layer = |layer: usize| &map[self.slots.layers[layer].part()];
            let places: Vec<Place> =
                self.places.iter().copied().filter(|place| place.layer < layers).collect();
            let waves = Waves::new(self.slots.layers.len(), &places, layer);
            self.wave_maps.send(stream, &waves.maps)?;
            stream.fill(&self.slots.counts.span(), 0)?;
            self.arrived.clear();
            self.done.clear();
            self.waves = Some(waves);
            self.queue_copies()?;
        }
        Ok(())
    }

    /// Queues the copies of all waves that need no half that is still in use.
    fn queue_copies(&mut self) -> Result<(), CudaError> {
        let Some(waves) = &self.waves else { return Ok(()) };
        while let Some(wave) = waves.list.get(self.arrived.len()) {
            match wave.after.map(|before| self.done.get(before)) {
                // Its half has not even been asked for by the card.
                Some(None | Some(None)) => break,
                Some(Some(Some(done))) => self.copier.stream.wait(done)?,
                None => {}
            }
            if !wave.experts.is_empty() {
                let pool = &self.slots.pools[wave.pool];
                let ids = self.server.layers[wave.layer].ids();
                let to = (pool, pool.first_of(wave.half));
                self.copier.bring(&self.server.weights, ids, &wave.experts, to)?;
            }
            self.arrived.push(self.copier.arrival()?);
        }
        Ok(())
    }

    /// Before the launches of a stage.
    pub(super) fn before(&mut self, stream: &mut Stream, hand: Option<Hand>) -> Result<(), CudaError> {
        match hand {
            Some(Hand::Wave(wave)) => stream.wait(&self.arrived[wave]),
            _ => Ok(()),
        }
    }

    /// After the launches of a stage: serves it, or lets the next wave come.
    pub(super) fn after(&mut self, stream: &mut Stream, hand: Option<Hand>) -> Result<(), EngineError> {
        match hand {
            None | Some(Hand::Find(_)) => Ok(()),
            Some(Hand::Wave(wave)) => {
                self.done.resize_with(wave + 1, || None);
                self.done[wave] = Some(stream.mark()?);
                Ok(self.queue_copies()?)
            }
            Some(Hand::Serve(layer, rows)) => self.serve(layer, rows),
        }
    }

    /// Answers the card's question of a layer.
    pub(super) fn serve(&mut self, layer: usize, rows: usize) -> Result<(), EngineError> {
        let own = &self.slots.layers[layer];
        let map = &self.residency.map()[own.part()];
        let pool = own.pool.map(|pool| &self.slots.pools[pool]).filter(|pool| pool.half > 0);
        let moving = self.moving.back().map(|(_, arrival)| arrival.is_over()).transpose()?;
        let bus = pool.map(|pool| Bus {
            copier: &mut self.copier,
            pool,
            measured: &self.measured,
            fetching: &mut self.fetching[usize::from(rows > GRAPH_ROWS)],
            is_open: self.fetches && moving.unwrap_or(true),
        });
        self.server.serve(&self.slots.desk, (layer, rows), map, bus)?;
        self.served.push((layer, rows));
        Ok(())
    }

    /// After a step of `rows` rows, which the host has seen the results of: starts moves.
    pub(super) fn end(&mut self, stream: &mut Stream, rows: usize) -> Result<(), EngineError> {
        if let Some(layer) = self.slots.desk.failed() {
            let why = "the card waited for the host in vain".to_owned();
            return Err(EngineError::HostExperts { layer, why });
        }
        for (layer, rows) in std::mem::take(&mut self.served) {
            let mut chosen = vec![0; rows * self.server.layers[layer].used];
            self.slots.desk.experts(layer, &mut chosen)?;
            if rows <= GRAPH_ROWS {
                self.residency.decoded(layer, &chosen);
            } else {
                let mut counts = vec![0; self.slots.layers[layer].experts];
                for one in chosen {
                    counts[one as usize] += 1;
                }
                self.residency.prompted(layer, &counts);
            }
        }
        let streamed = self.waves.take().is_some();
        self.served_steps += u64::from(!streamed);
        self.streamed_steps += u64::from(streamed);
        if streamed {
            let mut counts = vec![0; self.slots.counts.len()];
            stream.download(&self.slots.counts.span(), &mut counts)?;
            for (index, layer) in self.slots.layers.iter().enumerate() {
                self.residency.prompted(index, &counts[layer.part()]);
            }
        }
        // Decode steps after a prompt have time for more: nothing else is on the bus.
        let moves = match streamed {
            true => self.residency.plan_at_most(self.clock, usize::MAX),
            false => self.residency.plan(self.clock),
        };
        if let Some(lands) = moves.iter().map(|one| one.lands).max() {
            for one in &moves {
                self.bring_one(one.expert, one.slot)?;
            }
            self.moving.push_back((lands, self.copier.arrival()?));
        }
        if rows <= GRAPH_ROWS {
            self.clock += 1;
        }
        Ok(())
    }

    /// Brings card and host together again after an error in the middle of a step.
    pub(super) fn recover(&mut self, stream: &Stream) {
        self.slots.desk.abort();
        (self.waves, self.served) = (None, Vec::new());
        // What went wrong is known already.
        let _ = stream.synchronize();
    }

    /// What has travelled.
    pub(super) fn traffic(&self) -> Traffic {
        let Stats { chosen, on_card, moves, .. } = self.residency.stats();
        Traffic {
            card: self.copier.stream.device().info().ordinal,
            experts: self.slots.layers.iter().map(|layer| layer.experts).sum(),
            slots: self.split.pools.iter().map(|pool| pool.slots).sum(),
            chosen,
            on_card,
            moves,
            copied: Bytes(self.copier.bytes),
            host_read: Bytes(self.server.spent.bytes),
            host_time: self.server.spent.computing,
            wait_time: self.server.spent.waiting,
            streamed_steps: self.streamed_steps,
            served_steps: self.served_steps,
            served_rows: self.measured.crossover,
            link_rate: self.measured.link,
            host_rate: self.measured.read,
        }
    }

    /// Layers that the host serves in a step that runs as a graph, and their rows.
    pub(super) fn serve_all(&mut self, served: &[(usize, usize)]) -> Result<(), EngineError> {
        served.iter().try_for_each(|(layer, rows)| self.serve(*layer, *rows))
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        if let Some(HeatFile { path, model }) = &self.heat {
            // There is nobody to tell: what is lost is a better start the next time.
            let _ = self.residency.heat().write(path, *model);
        }
    }
}

#[cfg(test)]
mod tests;
