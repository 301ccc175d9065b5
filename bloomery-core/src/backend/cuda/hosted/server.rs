//! The host's part of a step: experts that the card has no slot for, computed by the CPU where they lie in the file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::{Activation, Cpu, Experts, KernelError, NO_EXPERT, Routes, Scratch};
use bloomery_kernels::cuda::Desk;

use super::fetch::{Brought, Bus, pick, share};
use super::layers::RoutedLayer;
use crate::def::Act;
use crate::error::EngineError;
use crate::residency::NOWHERE;
use crate::weights::Weights;

/// The card is given up when it asks for nothing for so long: a step takes a second at the very most.
const PATIENCE: Duration = Duration::from_secs(20);
/// Looks at the clock once in so many turns of waiting: a turn takes about as long as a read of memory.
const TURNS: u32 = 1 << 12;

/// The CPU's kernels and what they work on.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) cpu: Cpu,
    pub(super) gguf: Arc<Gguf>,
    pub(super) weights: Weights,
    pub(super) layers: Vec<RoutedLayer>,
    routes: Routes,
    scratch: Scratch,
    /// Rows of the desk on their way in and out.
    input: Vec<f32>,
    sums: Vec<f32>,
    pub(super) spent: Spent,
    /// A layer at which a thread panics.
    #[cfg(test)]
    pub(super) fault: Option<usize>,
}

/// Time and work of the host since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// Waiting for the card to ask.
    pub(super) waiting: Duration,
    /// Computing.
    pub(super) computing: Duration,
    /// Bytes of experts that were read, each once for all rows of a step.
    pub(super) bytes: u64,
}

impl Server {
    pub(super) fn new(cpu: Cpu, gguf: Arc<Gguf>, weights: Weights, layers: Vec<RoutedLayer>) -> Self {
        let (routes, scratch, spent) = (Routes::default(), Scratch::default(), Spent::default());
        Self {
            cpu,
            gguf,
            weights,
            layers,
            routes,
            scratch,
            input: Vec::new(),
            sums: Vec::new(),
            spent,
            #[cfg(test)]
            fault: None,
        }
    }

    /// Waits until the card asks for `layer` in a step of `rows` rows, and answers. `map` says which experts the card has; some of the
    /// others come over `bus`.
    ///
    /// # Errors
    /// [`EngineError::HostExperts`]; the step is broken off then, so that the card waits for nothing.
    pub(super) fn serve(
        &mut self,
        desk: &Desk,
        (layer, rows): (usize, usize),
        map: &[u32],
        mut bus: Option<Bus<'_>>,
    ) -> Result<(), EngineError> {
        let start = Instant::now();
        let outcome = wait(desk, layer).and_then(|missing| {
            let asked = Instant::now();
            self.spent.waiting += asked - start;
            if missing == 0 {
                bus.iter_mut().for_each(|bus| bus.fetching.saw(0.0));
                return Ok(());
            }
            // A panic must not leave the card waiting; what it leaves behind here is written before it is read.
            let answer = catch_unwind(AssertUnwindSafe(|| self.answer(desk, (layer, rows), map, bus)));
            self.spent.computing += asked.elapsed();
            match answer {
                Ok(answer) => answer.map_err(|error| error.to_string()),
                Err(panic) => Err(words(&*panic)),
            }
        });
        outcome.map_err(|why| {
            desk.abort();
            self.scratch = Scratch::default();
            EngineError::HostExperts { layer, why }
        })
    }

    fn answer(
        &mut self,
        desk: &Desk,
        (layer, rows): (usize, usize),
        map: &[u32],
        bus: Option<Bus<'_>>,
    ) -> Result<(), EngineError> {
        let RoutedLayer { used, normed, stacks, .. } = self.layers[layer];
        let ids = self.layers[layer].ids();
        let (cols, outputs) = (normed.cols, self.weights.stack_rows(stacks.down));
        self.routes.rows = rows;
        self.routes.used = used;
        self.routes.experts.resize(rows * used, NO_EXPERT);
        desk.experts(layer, &mut self.routes.experts)?;
        for expert in &mut self.routes.experts {
            if map.get(*expert as usize).is_none_or(|slot| *slot != NOWHERE) {
                *expert = NO_EXPERT;
            }
        }
        // Whoever lacks an expert gets a sum, be it one of zeros because all that it lacks comes over the bus.
        let lacks = |row: &usize| {
            self.routes.experts[row * used..(row + 1) * used].iter().any(|&one| one != NO_EXPERT)
        };
        let asking: Vec<usize> = (0..rows).filter(lacks).collect();
        let mut brought = bus.and_then(|bus| self.choose(layer, bus));
        if brought.is_none() {
            desk.fetch(layer, None)?;
        }
        self.routes.weights.resize(rows * used, 0.0);
        desk.weights(layer, &mut self.routes.weights)?;
        let mut input = std::mem::take(&mut self.input);
        let mut sums = std::mem::take(&mut self.sums);
        input.resize(rows * cols, 0.0);
        sums.clear();
        sums.resize(rows * outputs, 0.0);
        for &row in &asking {
            desk.row(row, &mut input[row * cols..(row + 1) * cols])?;
        }
        #[cfg(test)]
        if self.fault == Some(layer) {
            self.cpu.pool().run(4, &|_| panic!("planted"));
        }
        // The driver takes about 100 us for it: the others compute meanwhile.
        let mut queued = Ok(());
        self.run(layer, (&input, &mut sums), &mut |weights| {
            if let Some(brought) = brought.take() {
                queued = brought.queue(desk, layer, (weights, ids));
            }
        })?;
        queued?;
        for &row in &asking {
            desk.set_sum(row, &sums[row * outputs..(row + 1) * outputs])?;
        }
        (self.input, self.sums) = (input, sums);
        Ok(desk.answer(layer)?)
    }

    /// Chooses a part of the experts of `self.routes` that is brought, and leaves the others.
    fn choose<'b>(&mut self, layer: usize, bus: Bus<'b>) -> Option<Brought<'b>> {
        let Bus { copier, pool, measured, fetching, is_open } = bus;
        let lacking = self.lacking();
        let (count, saved) = share(measured, lacking.len(), self.expert_bytes(layer), pool.half);
        fetching.saw(saved);
        if count == 0 || !is_open {
            return None;
        }
        let (experts, first) = (pick(lacking, count), pool.first_of(0));
        let seats = self.routes.experts.iter_mut().map(|expert| match experts.binary_search(expert) {
            Ok(at) => {
                *expert = NO_EXPERT;
                (first + at) as u32
            }
            Err(_) => NOWHERE,
        });
        Some(Brought { seats: seats.collect(), experts, copier, pool })
    }

    /// The layer's experts for `self.routes`, added to `out`; this thread calls `beside` meanwhile.
    fn run(
        &mut self,
        layer: usize,
        (normed, out): (&[f32], &mut [f32]),
        beside: &mut dyn FnMut(&Weights),
    ) -> Result<(), KernelError> {
        let RoutedLayer { stacks, .. } = self.layers[layer];
        let stack = |id| self.weights.stack(&self.gguf, id);
        let experts = Experts {
            gate: stack(stacks.gate)?,
            up: stack(stacks.up)?,
            down: stack(stacks.down)?,
            activation: match stacks.act {
                Act::Silu => Activation::Silu,
                Act::GeluTanh => Activation::GeluTanh,
                Act::ClampedSilu { limit } => Activation::ClampedSilu { limit },
            },
        };
        self.spent.bytes += self.lacking().len() as u64 * self.expert_bytes(layer);
        let mut beside = || beside(&self.weights);
        self.cpu.experts_beside(&mut beside, normed, &self.routes, &experts, out, &mut self.scratch)
    }

    /// The experts of `self.routes`, ascending, and how many rows each has.
    fn lacking(&self) -> Vec<(u32, u32)> {
        let experts = self.routes.experts.iter().copied();
        let mut numbers: Vec<u32> = experts.filter(|&expert| expert != NO_EXPERT).collect();
        numbers.sort_unstable();
        numbers.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
    }

    /// Bytes of an expert of a layer in the file.
    pub(super) fn expert_bytes(&self, layer: usize) -> u64 {
        self.layers[layer].ids().iter().map(|id| self.weights.expert_bytes(*id).0).sum()
    }

    /// How long `rows` rows of the layer take that spread evenly over its experts.
    pub(super) fn time(&mut self, layer: usize, rows: usize) -> Result<Duration, KernelError> {
        let RoutedLayer { experts, used, normed, stacks, .. } = self.layers[layer];
        let outputs = self.weights.stack_rows(stacks.down);
        self.routes = Routes {
            rows,
            used,
            // Neighbouring rows choose different ones, no row one twice.
            experts: (0..rows * used).map(|pair| (pair % experts) as u32).collect(),
            weights: vec![1.0 / used as f32; rows * used],
        };
        let input: Vec<f32> = (0..rows * normed.cols).map(|i| (i % 17) as f32 / 8.0 - 1.0).collect();
        let mut out = vec![0.0; rows * outputs];
        let start = Instant::now();
        let before = self.spent;
        self.run(layer, (&input, &mut out), &mut |_| {})?;
        self.spent = before;
        Ok(start.elapsed())
    }
}

/// Waits until the card asks; how many pairs it lacks.
fn wait(desk: &Desk, layer: usize) -> Result<usize, String> {
    let (start, mut turn) = (Instant::now(), 0_u32);
    loop {
        if let Some(missing) = desk.asked(layer) {
            return Ok(missing);
        }
        std::hint::spin_loop();
        turn += 1;
        if !turn.is_multiple_of(TURNS) {
            continue;
        }
        if let Some(before) = desk.failed() {
            return Err(format!("the card had waited for layer {before} in vain"));
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("the card asked for nothing in {} s", PATIENCE.as_secs()));
        }
    }
}

/// A panic's message.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a thread panicked: {}", text.unwrap_or_else(|| "without a message".to_owned()))
}
