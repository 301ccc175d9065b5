//! Steps that were captured and run again as a whole.

use std::collections::HashMap;

use bloomery_kernels::cuda::{CudaError, Graph, Stream};

use crate::backend::GraphFacts;

/// Most rows of a step that is worth a graph: with more, the kernels take longer than queueing them one by one.
pub(super) const GRAPH_ROWS: usize = 32;

/// Graphs kept. One of 336 nodes takes about a megabyte.
const MOST: usize = 64;

/// What the kernels of a graph depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) pass: Pass,
    pub(super) rows: usize,
    pub(super) outputs: usize,
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pass {
    /// Of a model with experts on two sides, with or without kernels for those that come meanwhile.
    Step { fetches: bool },
    /// The block's first guess, or one that goes on from the guess before.
    Guess { goes_on: bool },
}

/// A shape that has been seen.
#[derive(Debug, Default)]
struct Known {
    graph: Option<Graph>,
    last_use: u64,
}

/// Graphs by the shape of their steps.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    known: HashMap<Shape, Known>,
    clock: u64,
}

impl Graphs {
    /// Runs a step as a graph, captured when its shape is seen for the second time: a shape that comes once is not worth it, and
    /// the driver may still have to load its kernels, which it cannot do during a capture. False: `work` has to run as it is.
    pub(super) fn run(
        &mut self,
        stream: &mut Stream,
        shape: Shape,
        work: impl FnOnce(&mut Stream) -> Result<(), CudaError>,
    ) -> Result<bool, CudaError> {
        self.clock += 1;
        let Some(known) = self.known.get_mut(&shape) else {
            self.make_room();
            self.known.insert(shape, Known { graph: None, last_use: self.clock });
            return Ok(false);
        };
        known.last_use = self.clock;
        let graph = match &mut known.graph {
            Some(graph) => graph,
            none => none.insert(stream.capture(work)?),
        };
        graph.launch()?;
        Ok(true)
    }

    /// Drops what was captured: addresses are going to change. Shapes stay known.
    pub(super) fn forget(&mut self) {
        self.known.values_mut().for_each(|known| known.graph = None);
    }

    /// Those that were captured.
    pub(super) fn facts(&self) -> Vec<GraphFacts> {
        let graphs = self.known.iter().filter_map(|(shape, known)| Some((*shape, known.graph.as_ref()?)));
        let mut facts: Vec<GraphFacts> = graphs
            .map(|(shape, graph)| {
                let Shape { pass, rows, outputs } = shape;
                GraphFacts { guess: matches!(pass, Pass::Guess { .. }), rows, outputs, nodes: graph.nodes() }
            })
            .collect();
        facts.sort_unstable();
        facts
    }

    fn make_room(&mut self) {
        if self.known.len() < MOST {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, known)| known.last_use).map(|(shape, _)| *shape);
        if let Some(shape) = oldest {
            self.known.remove(&shape);
        }
    }
}
