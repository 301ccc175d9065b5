//! One kernel with its arguments.

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use super::memory::Allocation;
use super::module::{Entry, Family};
use super::{CudaError, Device, Stream};

/// A kernel, its arguments, and how many threads run it: made by the launchers, which check what the kernel relies on.
pub struct Launch {
    pub(super) family: &'static Family,
    pub(super) name: &'static str,
    pub(super) blocks: u32,
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
    #[cfg_attr(not(test), expect(dead_code, reason = "holds what `pointer` leads to"))]
    pub(super) arguments: Arc<dyn Any + Send + Sync>,
    /// Of `arguments`.
    pub(super) pointer: Pointer,
    /// Bytes of weights and activations that have to move.
    pub(super) bytes: u64,
    pub(super) uses: Vec<Arc<Allocation>>,
}

/// Where the arguments lie.
#[derive(Clone, Copy)]
pub(super) struct Pointer(*mut c_void);

// SAFETY: leads into the arguments that the launch keeps; the driver only reads them.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

/// Blocks, threads and shared memory of a launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) blocks: u32,
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
}

/// What a launch is made of, for kernels that do the work of several.
pub(super) struct Share<A> {
    pub(super) args: A,
    pub(super) blocks: u32,
    /// Bytes that have to move.
    pub(super) bytes: u64,
    pub(super) uses: Vec<Arc<Allocation>>,
}

impl Launch {
    /// `uses` is the memory that addresses in `arguments` lead to.
    pub(super) fn new<A: Copy + Send + Sync + 'static>(
        entry: Entry<A>,
        grid: Grid,
        arguments: A,
        bytes: u64,
        uses: Vec<Arc<Allocation>>,
    ) -> Self {
        let arguments = Arc::new(arguments);
        let pointer = Pointer(Arc::as_ptr(&arguments).cast_mut().cast());
        let Grid { blocks, threads, shared_bytes } = grid;
        let (family, name) = (entry.family, entry.name);
        Self { family, name, blocks, threads, shared_bytes, arguments, pointer, bytes, uses }
    }

    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Bytes that the kernel has to move: what its speed is measured by.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Blocks, threads of each, and shared memory of each.
    #[must_use]
    pub fn grid(&self) -> (u32, u32, u32) {
        (self.blocks, self.threads, self.shared_bytes)
    }

    /// The arguments, if they are of this type.
    #[cfg(test)]
    pub(super) fn arguments<A: Copy + 'static>(&self) -> A {
        *self.arguments.downcast_ref::<A>().unwrap_or_else(|| panic!("other arguments of {}", self.name))
    }

    /// Loads the kernel, unless it is loaded. The driver may wait until the card is idle for that, so what runs beside a kernel that
    /// waits for the host is loaded before (CUDA programming guide, "Lazy Loading", potential hazards).
    ///
    /// # Errors
    /// [`CudaError::Module`] if it does not load.
    pub fn load(&self, device: &Device) -> Result<(), CudaError> {
        device.modules().function(device, self.family, self.name).map(|_| ())
    }

    /// Registers of a thread and local memory of the kernel, as the driver compiled it.
    ///
    /// # Errors
    /// [`CudaError::Module`] if it does not load.
    pub fn resources(&self, device: &Device) -> Result<(u32, u32), CudaError> {
        let function = device.modules().function(device, self.family, self.name)?;
        let resources = device.modules().resources(function)?;
        Ok((resources.registers, resources.local_bytes))
    }
}

impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {} blocks of {}, {} bytes shared",
            self.name, self.blocks, self.threads, self.shared_bytes
        )
    }
}

impl Stream {
    /// Queues a kernel. Where the card can, the kernel starts while its predecessor in the stream still runs, and waits for
    /// it before it touches what the predecessor wrote.
    ///
    /// # Errors
    /// [`CudaError::Driver`], also for work queued before that failed; [`CudaError::Module`] if the kernel does not load.
    pub fn launch(&mut self, launch: &Launch) -> Result<(), CudaError> {
        use cudarc::driver::sys;

        let device = self.device();
        device.bind()?;
        let function = device.modules().function(device, launch.family, launch.name)?;
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: launch.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared_bytes,
            hStream: self.raw(),
            attrs: &raw mut attribute,
            numAttrs: u32::from(device.info().overlaps()),
        };
        let mut parameters = [launch.pointer.0];
        // SAFETY: the launcher that made `launch` checked the kernel's contract and passed arguments of the type that the
        // kernel takes, and the memory that they lead to lives: `uses` holds it, as a graph being captured does from here on.
        let queued = unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                function.0,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        queued.result().map_err(CudaError::driver(launch.name))?;
        self.keep(&launch.uses);
        Ok(())
    }
}
