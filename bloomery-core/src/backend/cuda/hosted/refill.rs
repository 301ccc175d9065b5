//! Slots of other numbers while the engine runs: everything that lies in them is with the host as well.

use bloomery_kernels::cuda::{CudaError, Device, Stream};

use super::Hosted;
use super::layers::RoutedLayer;
use super::slots::{Pool, spare};
use super::waves::Place;
use crate::plan::{SlotPool, Split};
use crate::residency::PoolShape;
use crate::units::Bytes;
use crate::weights::Weights;

/// Memory for the slots of a split.
pub(super) fn pools(
    device: &Device,
    split: &Split,
    layers: &[RoutedLayer],
    weights: &Weights,
) -> Result<Vec<Pool>, CudaError> {
    let pools = split.pools.iter().enumerate().map(|(index, pool)| {
        // One that no layer has is shaped like any.
        let first = split.layers.iter().position(|layer| layer.pool == Some(index)).unwrap_or(0);
        Pool::new(device, *pool, spare(pool.ring), &layers[first], weights)
    });
    pools.collect()
}

/// The same as residency sees it.
pub(super) fn shapes(split: &Split) -> Vec<PoolShape> {
    let shape = |pool: &SlotPool| PoolShape {
        slots: pool.slots,
        ring: spare(pool.ring),
        expert_bytes: pool.expert.0,
    };
    split.pools.iter().map(shape).collect()
}

/// The layers that can stream, and where.
pub(super) fn places(split: &Split, pools: &[Pool]) -> Vec<Place> {
    let place = |(layer, pool): (usize, Option<usize>)| {
        let pool = pool?;
        let half = pools[pool].half;
        let first_of = [0, 1].map(|half| pools[pool].first_of(half));
        (half > 0).then_some(Place { layer, pool, half, first_of })
    };
    split.layers.iter().map(|layer| layer.pool).enumerate().filter_map(place).collect()
}

impl Hosted {
    /// Gives the memory of all slots back, once nothing uses it. Until [`refill`](Self::refill) there are no steps.
    pub(in crate::backend::cuda) fn clear(&mut self) -> Result<(), CudaError> {
        self.copier.stream.synchronize()?;
        self.moving.clear();
        self.arrived.clear();
        self.done.clear();
        self.slots.pools.clear();
        Ok(())
    }

    /// Takes memory for slots, up to so much, and brings the hottest experts. With less memory than that there are fewer.
    pub(in crate::backend::cuda) fn refill(
        &mut self,
        stream: &mut Stream,
        memory: Bytes,
    ) -> Result<(), CudaError> {
        let experts: Vec<usize> = self.slots.layers.iter().map(|layer| layer.experts).collect();
        let mut split = self.split.resized(&experts, memory);
        self.slots.pools = loop {
            match pools(stream.device(), &split, &self.server.layers, &self.server.weights) {
                Err(CudaError::Memory { .. }) if split.slot_bytes() > Bytes(0) => {
                    split = split.resized(&experts, Bytes(split.slot_bytes().0 / 8 * 7));
                }
                pools => break pools?,
            }
        };
        self.places = places(&split, &self.slots.pools);
        self.residency.resize(shapes(&split));
        self.split = split;
        let copied = self.copier.bytes;
        self.bring_residents(stream)?;
        // What is told as copied is what steps ask for.
        self.copier.bytes = copied;
        Ok(())
    }
}
