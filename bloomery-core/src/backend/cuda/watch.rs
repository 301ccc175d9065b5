//! Steps that are looked at while they run: stage by stage, never as graphs.

use bloomery_kernels::cuda::Stream;

use super::hosted::Hosted;
use super::lookup::Lookup;
use super::memory::Memory;
use super::walk::{Hand, Stage, launch};
use crate::backend::{RouteTrace, StageTime};
use crate::error::EngineError;

/// What is to be reported.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    pub(super) trace: Option<&'a mut RouteTrace>,
    pub(super) times: Option<&'a mut Vec<StageTime>>,
}

impl Watch<'_> {
    pub(super) fn is_on(&self) -> bool {
        self.trace.is_some() || self.times.is_some()
    }

    /// Forgets earlier reports.
    pub(super) fn clear(&mut self) {
        self.trace.iter_mut().for_each(|trace| trace.layers.clear());
        self.times.iter_mut().for_each(|times| times.clear());
    }

    /// Queues the kernels and reports.
    pub(super) fn run(
        &mut self,
        stream: &mut Stream,
        stages: &[Stage],
        memory: &Memory,
        host: (&mut Option<Lookup>, &mut Option<Hosted>),
    ) -> Result<(), EngineError> {
        let (Self { trace, times }, (lookup, hosted)) = (self, host);
        let mut events = Vec::new();
        for stage in stages {
            if times.is_some() {
                events.push(stream.event()?);
            }
            one(stream, stage, lookup, hosted)?;
            if let (Some(trace), Some((used, rows))) = (trace.as_mut(), stage.routed) {
                let mut experts = vec![0; used * rows];
                stream.download(&memory.experts.slice(0..used * rows)?, &mut experts)?;
                trace.layers.push((used, experts));
            }
        }
        let Some(times) = times else { return Ok(()) };
        events.push(stream.event()?);
        for (stage, ends) in stages.iter().zip(events.windows(2)) {
            let micros = ends[1].micros_since(&ends[0])?;
            let bytes = stage.launches.iter().map(|launch| launch.bytes()).sum();
            times.push(StageTime { name: stage.name, kernels: stage.launches.len(), micros, bytes });
        }
        Ok(())
    }
}

/// Queues the kernels of a stage, and does the host's part in it.
pub(super) fn one(
    stream: &mut Stream,
    stage: &Stage,
    lookup: &mut Option<Lookup>,
    hosted: &mut Option<Hosted>,
) -> Result<(), EngineError> {
    // The card has the layers before to do meanwhile.
    if let (Some(Hand::Find(id)), Some(lookup)) = (stage.hand, lookup) {
        lookup.find(stream, id)?;
    }
    let Some(hosted) = hosted else { return Ok(launch(stream, std::slice::from_ref(stage))?) };
    hosted.before(stream, stage.hand)?;
    launch(stream, std::slice::from_ref(stage))?;
    hosted.after(stream, stage.hand)
}
