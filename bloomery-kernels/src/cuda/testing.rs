//! Tests of kernels: on a card where there is one, emulated on the host where there is none.

use std::sync::OnceLock;

use bloomery_gguf::Format;
use bytemuck::Pod;

use super::{Buffer, CudaError, Device, DeviceInfo, Launch, Pack, Stream, Weight, WeightStack, emulated};

/// Where a test's kernels run.
pub(super) enum Place {
    /// Emulated, with few processors so that every block has much to do.
    Host(DeviceInfo),
    Card(Stream),
}

/// The first card. Without one, says once why and returns `None`.
pub(super) fn card() -> Option<Device> {
    static FOUND: OnceLock<Result<Device, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        Device::open(0).map_err(|error| {
            assert!(matches!(error, CudaError::NoDevice { .. }), "{error}");
            println!("skipped on a card: {error}");
            error.to_string()
        })
    });
    found.as_ref().ok().cloned()
}

/// The card, or the host in its place. A list, so that there may be more than one.
pub(super) fn places() -> Vec<Place> {
    match card() {
        Some(device) => vec![Place::Card(device.stream().unwrap())],
        // Both ways of copying weights.
        None => vec![Place::Host(DeviceInfo::emulated((8, 0))), Place::Host(DeviceInfo::emulated((9, 0)))],
    }
}

impl DeviceInfo {
    /// A small card that does not exist.
    pub(super) fn emulated(capability: (u32, u32)) -> Self {
        Self {
            ordinal: 0,
            name: format!("emulated {}.{}", capability.0, capability.1),
            capability,
            processors: 3,
            memory: 1 << 30,
            memory_rate: 0,
            l2: 1 << 20,
            shared_per_block: 227 << 10,
            shared_per_processor: 228 << 10,
            copies_mappings: true,
        }
    }
}

impl Place {
    pub(super) fn info(&self) -> &DeviceInfo {
        match self {
            Self::Host(info) => info,
            Self::Card(stream) => stream.device().info(),
        }
    }

    pub(super) fn is_card(&self) -> bool {
        matches!(self, Self::Card(_))
    }

    pub(super) fn buffer<T: Pod>(&mut self, values: &[T]) -> Buffer<T> {
        match self {
            Self::Host(_) => Buffer::on_host(values),
            Self::Card(stream) => {
                let buffer = stream.device().alloc(values.len()).unwrap();
                stream.upload(values, &buffer.span()).unwrap();
                buffer
            }
        }
    }

    /// `len` values that no kernel would write: 0xff in every byte, which is a NaN in floats.
    pub(super) fn poison<T: Pod>(&mut self, len: usize) -> Buffer<T> {
        let values: Vec<T> = vec![bytemuck::pod_read_unaligned(&vec![0xff; size_of::<T>()]); len];
        self.buffer(&values)
    }

    pub(super) fn run(&mut self, launch: &Launch) {
        match self {
            Self::Host(info) => emulated::run(info, launch),
            Self::Card(stream) => stream.launch(launch).unwrap(),
        }
    }

    /// Matrices as products want them.
    pub(super) fn stack(
        &mut self,
        format: Format,
        count: usize,
        rows: usize,
        cols: usize,
        data: &[u8],
    ) -> WeightStack {
        let from = self.buffer(data).span();
        if !Pack::has_tiles(format) {
            return WeightStack::new(format, count, rows, cols, from).unwrap();
        }
        let to = self.poison::<u8>(Pack::bytes(format, count, rows, cols)).span();
        let pack = Pack { format, count, rows, cols, from, to: to.clone() };
        self.run(&pack.launch(self.info()).unwrap());
        WeightStack::tiles(format, count, rows, cols, to).unwrap()
    }

    /// A matrix as products want it.
    pub(super) fn weight(&mut self, format: Format, rows: usize, cols: usize, data: &[u8]) -> Weight {
        let stack = self.stack(format, 1, rows, cols, data);
        let data = stack.data().clone();
        match Pack::has_tiles(format) {
            true => Weight::tiles(format, rows, cols, data).unwrap(),
            false => Weight::new(format, rows, cols, data).unwrap(),
        }
    }

    pub(super) fn read<T: Pod>(&mut self, buffer: &Buffer<T>) -> Vec<T> {
        match self {
            Self::Host(_) => buffer.host_values(),
            Self::Card(stream) => {
                let mut values = vec![T::zeroed(); buffer.len()];
                stream.download(&buffer.span(), &mut values).unwrap();
                values
            }
        }
    }
}
