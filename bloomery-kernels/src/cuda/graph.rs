//! Captured work.

use std::sync::Arc;

use cudarc::driver::{CudaGraph, sys};

use super::CudaError;
use super::memory::Allocation;

/// Work that runs as a whole, as often as wanted. Keeps the memory alive that it uses.
pub struct Graph {
    graph: CudaGraph,
    nodes: usize,
    _uses: Vec<Arc<Allocation>>,
}

// SAFETY: the driver wants calls on one graph in turn; all that make some take `&mut self`.
unsafe impl Send for Graph {}

impl Graph {
    pub(super) fn new(graph: Option<CudaGraph>, mut uses: Vec<Arc<Allocation>>) -> Result<Self, CudaError> {
        let graph = graph.ok_or_else(|| CudaError::Driver {
            call: "cuStreamEndCapture",
            code: 0,
            text: "nothing was captured".to_owned(),
        })?;
        uses.sort_unstable_by_key(Arc::as_ptr);
        uses.dedup_by_key(|memory| Arc::as_ptr(memory));
        let mut nodes = 0;
        // SAFETY: the graph lives; without a place to write to, only the number is returned.
        unsafe { sys::cuGraphGetNodes(graph.cu_graph(), std::ptr::null_mut(), &raw mut nodes) }
            .result()
            .map_err(CudaError::driver("cuGraphGetNodes"))?;
        Ok(Self { graph, nodes, _uses: uses })
    }

    /// Kernels, copies and fills in it.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Queues all of it on the stream that it was captured from.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn launch(&mut self) -> Result<(), CudaError> {
        self.graph.launch().map_err(CudaError::driver("cuGraphLaunch"))
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a graph of {} nodes", self.nodes)
    }
}
