//! How attention of many rows cuts them, once for layers that cut alike.

use bloomery_kernels::cpu::KvType;
use bloomery_kernels::cuda::{Attend, AttendTiles, CudaError, DeviceInfo, KvCache};

use super::ops::attend;
use crate::program::{AttentionId, Program};

/// The ways of cutting, and that of every attention layer.
#[derive(Debug)]
pub(super) struct Tilings {
    distinct: Vec<AttendTiles>,
    of_layer: Vec<usize>,
    /// Whether there are kernels that want any.
    wanted: bool,
}

impl Tilings {
    pub(super) fn new(info: &DeviceInfo, program: &Program, kv: KvType) -> Result<Self, CudaError> {
        let mut known: Vec<(KvCache, usize)> = Vec::new();
        let (mut distinct, mut of_layer) = (Vec::new(), Vec::new());
        for attention in &program.attentions {
            let key = (attend::shape(attention, kv)?, attention.heads);
            let index = match known.iter().position(|other| *other == key) {
                Some(index) => index,
                None => {
                    distinct.push(AttendTiles::new(info, &key.0, key.1)?);
                    known.push(key);
                    known.len() - 1
                }
            };
            of_layer.push(index);
        }
        Ok(Self { distinct, of_layer, wanted: kv != KvType::F32 })
    }

    /// How many ways there are.
    pub(super) fn count(&self) -> usize {
        self.distinct.len()
    }

    pub(super) fn of(&self, id: AttentionId) -> usize {
        self.of_layer[id.0]
    }

    /// The tiles of a step, for every way; none where few rows do without.
    pub(super) fn lists(&self, positions: &[u32], sequences: &[u32]) -> Vec<Vec<u32>> {
        if !self.wanted || positions.len() <= Attend::FEW {
            return Vec::new();
        }
        self.distinct.iter().map(|tiles| tiles.list(positions, sequences)).collect()
    }
}
