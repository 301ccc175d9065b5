//! Recurrent states of one layer in host memory.

use bloomery_kernels::cpu::Aligned;

use crate::state::StateId;

/// Slots of equal size. Those that no sequence reaches are never used.
pub(super) struct LayerStates {
    memory: Aligned,
    /// Bytes of one.
    size: usize,
}

impl LayerStates {
    /// Of `len` values each.
    pub(super) fn new(len: usize, slots: usize) -> Self {
        let size = len * size_of::<f32>();
        Self { memory: Aligned::zeroed(slots * size), size }
    }

    /// All slots, for the kernel.
    pub(super) fn values(&mut self) -> &mut [f32] {
        self.memory.values_mut()
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.size
    }

    pub(super) fn slot(&self, state: StateId) -> &[u8] {
        &self.memory.bytes()[state as usize * self.size..][..self.size]
    }

    pub(super) fn slot_mut(&mut self, state: StateId) -> &mut [u8] {
        &mut self.memory.bytes_mut()[state as usize * self.size..][..self.size]
    }
}
