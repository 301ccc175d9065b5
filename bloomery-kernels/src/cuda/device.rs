//! Cards: finding them, what they can do, what is loaded on them.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use cudarc::driver::{CudaContext, result, sys};

use super::module::{ALL, Modules};
use super::{Buffer, CudaError, Pinned, Stream};

/// The oldest driver interface whose functions are used.
const DRIVER: i32 = 12_000;
/// The oldest architecture that there are kernels for.
const CAPABILITY: (u32, u32) = (8, 0);

/// What a card is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Number among the driver's cards.
    pub ordinal: usize,
    /// The driver's name for it.
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub processors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes a second that the clock and the width of the memory make; 0 if the driver does not say.
    pub memory_rate: u64,
    /// Bytes of second-level cache.
    pub l2: u64,
    /// Shared memory that one block may have.
    pub shared_per_block: u32,
    /// Shared memory of a multiprocessor.
    pub shared_per_processor: u32,
    /// Whether it copies from the pages of a file that is mapped for reading.
    pub copies_mappings: bool,
}

impl DeviceInfo {
    /// Whether a kernel may start while its predecessor still runs.
    #[must_use]
    pub fn overlaps(&self) -> bool {
        self.capability.0 >= 9
    }

    /// Shared memory for one block so that two such blocks fit beside each other, where that is worth while: the next
    /// kernel starts to read its weights while this one finishes.
    pub(super) fn shared_target(&self) -> u32 {
        /// What the driver takes for itself of every block's.
        const RESERVED: u32 = 1024;
        if self.overlaps() {
            (self.shared_per_processor / 2).saturating_sub(RESERVED).min(self.shared_per_block)
        } else {
            self.shared_per_block
        }
    }
}

/// A card. Clones are the same card.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<CudaContext>,
    info: DeviceInfo,
    modules: Modules,
}

impl Device {
    /// How many cards the driver knows.
    ///
    /// # Errors
    /// [`CudaError::NoDevice`] without a driver, or with one that is too old or does not work.
    pub fn count() -> Result<usize, CudaError> {
        start()?;
        let count = result::device::get_count().map_err(CudaError::driver("cuDeviceGetCount"))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Opens card `ordinal`.
    ///
    /// # Errors
    /// [`CudaError::NoDevice`] if it does not exist or is too old, [`CudaError::Driver`] if it cannot be used.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        let count = Self::count()?;
        if ordinal >= count {
            return Err(CudaError::NoDevice { why: format!("number {ordinal} of {count}") });
        }
        let context = CudaContext::new(ordinal).map_err(CudaError::driver("cuDevicePrimaryCtxRetain"))?;
        let info = info(&context, ordinal)?;
        if info.capability < CAPABILITY {
            let (major, minor) = info.capability;
            let why = format!("{} has compute capability {major}.{minor}; 8.0 is needed", info.name);
            return Err(CudaError::NoDevice { why });
        }
        let modules = Modules::new(info.overlaps());
        Ok(Self { inner: Arc::new(Inner { context, info, modules }) })
    }

    /// What the card is.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// Bytes of memory that nobody uses.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn free_memory(&self) -> Result<u64, CudaError> {
        let memory = self.inner.context.mem_get_info().map_err(CudaError::driver("cuMemGetInfo"))?;
        Ok(memory.0 as u64)
    }

    /// A new stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn stream(&self) -> Result<Stream, CudaError> {
        Stream::new(self)
    }

    /// A new stream whose work goes before that of others, and never stands in line behind it: streams of one urgency may share a queue of
    /// the card, in which a kernel that waits for its predecessor holds up everything behind it.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn urgent_stream(&self) -> Result<Stream, CudaError> {
        Stream::urgent(self)
    }

    /// Memory of the card for `len` values, all bytes 0.
    ///
    /// # Errors
    /// [`CudaError::Memory`] if there is not enough.
    pub fn alloc<T: bytemuck::Pod>(&self, len: usize) -> Result<Buffer<T>, CudaError> {
        Buffer::new(self, len)
    }

    /// Memory of the host for `len` values that copies to and from the card read at full speed, all bytes 0.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn pinned<T: bytemuck::Pod>(&self, len: usize) -> Result<Pinned<T>, CudaError> {
        Pinned::new(self, len)
    }

    /// Loads all kernels, in parallel: the driver takes seconds to compile them when it sees them for the first time. Without
    /// this, a family loads when it is first used.
    ///
    /// # Errors
    /// [`CudaError::Module`].
    pub fn load_kernels(&self) -> Result<(), CudaError> {
        let load = |family| self.inner.modules.load(self, family);
        std::thread::scope(|scope| {
            let all: Vec<_> = ALL.iter().map(|family| scope.spawn(move || load(family))).collect();
            all.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
        })
    }

    /// Waits for everything queued on the card.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if some of it failed.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.inner.context.synchronize().map_err(CudaError::driver("cuCtxSynchronize"))
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.inner.context
    }

    /// Makes the card the one that this thread's calls go to.
    pub(super) fn bind(&self) -> Result<(), CudaError> {
        self.inner.context.bind_to_thread().map_err(CudaError::driver("cuCtxSetCurrent"))
    }

    pub(super) fn modules(&self) -> &Modules {
        &self.inner.modules
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.inner.info).finish()
    }
}

/// Starts the driver.
fn start() -> Result<(), CudaError> {
    // SAFETY: opens the driver's library by its usual names, as every later call would.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDevice {
            why: "there is no CUDA driver (libcuda) on this machine".to_owned(),
        });
    }
    let mut version = 0;
    // SAFETY: the library is there and `version` is an int to write to.
    let asked = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
    if asked.is_err() || version < DRIVER {
        let name = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
        let why = format!("the driver knows CUDA {}; {} is needed", name(version), name(DRIVER));
        return Err(CudaError::NoDevice { why });
    }
    result::init().map_err(|error| {
        let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
        CudaError::NoDevice { why: text.unwrap_or_else(|_| "the driver does not start".to_owned()) }
    })
}

fn info(context: &Arc<CudaContext>, ordinal: usize) -> Result<DeviceInfo, CudaError> {
    let attribute = |attribute: Attribute| {
        let value = context.attribute(attribute).map_err(CudaError::driver("cuDeviceGetAttribute"))?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    // Kilohertz and bits; two transfers a cycle.
    let clock = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE).unwrap_or(0);
    let width = attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH).unwrap_or(0);
    Ok(DeviceInfo {
        ordinal,
        memory_rate: 2 * 1000 * u64::from(clock) * u64::from(width / 8),
        name: context.name().map_err(CudaError::driver("cuDeviceGetName"))?,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        memory: context.total_mem().map_err(CudaError::driver("cuDeviceTotalMem"))? as u64,
        l2: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        shared_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_per_processor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        copies_mappings: attribute(Attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)? != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_card_says_so() {
        // With a card the number is wrong, without one the card is missing: the same kind of error.
        let error = Device::open(1_000_000).unwrap_err();
        assert!(matches!(error, CudaError::NoDevice { .. }), "{error}");
        assert!(error.to_string().starts_with("no CUDA device: "), "{error}");
    }
}
