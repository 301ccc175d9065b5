//! Memory of a card, and host memory that it reaches.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{DriverError, result, sys};

use super::{CudaError, Device};

/// Allocations end at a multiple of this: kernels read the 16-byte pieces that the ends of weights lie in.
const GRANULE: usize = 256;

/// A piece of memory that lives as long as something uses it.
pub(super) struct Allocation {
    address: u64,
    owner: Owner,
}

enum Owner {
    Card(Device),
    /// Memory of the host that kernels reach, at this address there.
    Mapped(Device, u64),
    /// In place of a card: kernels run on the host in tests.
    #[cfg(test)]
    Host(#[expect(dead_code, reason = "keeps the memory")] Vec<[u128; 16]>),
}

impl Drop for Allocation {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Card(device) => {
                // An error here is one of earlier work, which its caller sees at the next call.
                let _ = device.bind();
                // SAFETY: allocated by `Buffer::new` and freed only here. The driver waits for queued work that may use it.
                let _ = unsafe { result::free_sync(self.address) };
            }
            Owner::Mapped(device, host) => {
                // As above. The driver does not wait for kernels that use memory of the host, so this does.
                let _ = device.synchronize();
                // SAFETY: allocated by `Allocation::mapped` and freed only here; no work is queued that may use it.
                let _ = unsafe { result::free_host(*host as *mut _) };
            }
            #[cfg(test)]
            Owner::Host(_) => {}
        }
    }
}

impl Allocation {
    /// Host memory of `bytes` bytes, all 0, that kernels read and write in place, and its address on the host.
    fn mapped(device: &Device, bytes: usize) -> Result<(Self, u64), CudaError> {
        device.bind()?;
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: allocates and clears `bytes` bytes, which `drop` frees.
        let start = unsafe {
            let start = result::malloc_host(bytes, flags).map_err(CudaError::driver("cuMemHostAlloc"))?;
            start.cast::<u8>().write_bytes(0, bytes);
            start
        };
        let mut address = 0;
        // SAFETY: `start` was allocated for this, and `address` is there to be written to.
        let asked = unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut address, start, 0) }.result();
        let memory = Self { address, owner: Owner::Mapped(device.clone(), start as u64) };
        asked.map_err(CudaError::driver("cuMemHostGetDevicePointer"))?;
        Ok((memory, start as u64))
    }
}

/// Values of type `T` in the memory of a card.
pub struct Buffer<T> {
    all: Span<T>,
}

impl<T: Pod> Buffer<T> {
    pub(super) fn new(device: &Device, len: usize) -> Result<Self, CudaError> {
        device.bind()?;
        let bytes = (len * size_of::<T>()).next_multiple_of(GRANULE).max(GRANULE);
        // SAFETY: allocates and clears `bytes` bytes, which the `Allocation` frees.
        let address = unsafe {
            let address = result::malloc_sync(bytes).map_err(|error| refused(device, bytes as u64, error))?;
            result::memset_d8_sync(address, 0, bytes).map_err(CudaError::driver("cuMemsetD8"))?;
            // The call returns before the bytes are cleared, and other streams do not wait for them.
            result::stream::synchronize(result::stream::null())
                .map_err(CudaError::driver("cuStreamSynchronize"))?;
            address
        };
        let memory = Arc::new(Allocation { address, owner: Owner::Card(device.clone()) });
        Ok(Self { all: Span { memory, offset: 0, len, values: PhantomData } })
    }

    /// Memory of the host in the buffer's place, which kernels read and write over the bus; and its address on the host.
    pub(super) fn mapped(device: &Device, len: usize) -> Result<(Self, u64), CudaError> {
        let bytes = (len * size_of::<T>()).next_multiple_of(GRANULE).max(GRANULE);
        let (memory, host) = Allocation::mapped(device, bytes)?;
        Ok((Self { all: Span { memory: Arc::new(memory), offset: 0, len, values: PhantomData } }, host))
    }

    /// Host memory in place of a card's, with the same alignment and padding.
    #[cfg(test)]
    pub(super) fn on_host(values: &[T]) -> Self {
        let mut memory = vec![[0_u128; 16]; size_of_val(values).div_ceil(GRANULE).max(1)];
        bytemuck::cast_slice_mut::<_, u8>(&mut memory)[..size_of_val(values)]
            .copy_from_slice(bytemuck::cast_slice(values));
        let memory = Arc::new(Allocation { address: memory.as_ptr() as u64, owner: Owner::Host(memory) });
        Self { all: Span { memory, offset: 0, len: values.len(), values: PhantomData } }
    }

    /// The values of host memory.
    #[cfg(test)]
    pub(super) fn host_values(&self) -> Vec<T> {
        assert!(matches!(self.all.memory.owner, Owner::Host(_)));
        // SAFETY: host memory of `len` values that only finished kernels have written to.
        unsafe { std::slice::from_raw_parts(self.all.address() as *const T, self.len()) }.to_vec()
    }

    /// Values held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.len == 0
    }

    /// All values.
    #[must_use]
    pub fn span(&self) -> Span<T> {
        self.all.clone()
    }

    /// Some of the values.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if the range is not inside.
    pub fn slice(&self, range: Range<usize>) -> Result<Span<T>, CudaError> {
        self.all.slice(range)
    }
}

fn refused(device: &Device, need: u64, error: DriverError) -> CudaError {
    let info = device.info();
    match (error.0, device.free_memory()) {
        (sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY, Ok(free)) => {
            CudaError::Memory { device: info.name.clone(), need, free, total: info.memory }
        }
        _ => CudaError::driver("cuMemAlloc")(error),
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.all, f)
    }
}

/// Neighbouring values of a buffer. Keeps the buffer alive; clones are the same values.
pub struct Span<T> {
    memory: Arc<Allocation>,
    /// In bytes.
    offset: usize,
    len: usize,
    values: PhantomData<T>,
}

impl<T> Clone for Span<T> {
    fn clone(&self) -> Self {
        Self { memory: self.memory.clone(), ..*self }
    }
}

impl<T: Pod> Span<T> {
    /// Values held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Some of the values.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if the range is not inside.
    pub fn slice(&self, range: Range<usize>) -> Result<Self, CudaError> {
        let holds = range.start <= range.end && range.end <= self.len;
        let rule = || format!("at most {}", self.len);
        CudaError::require("a part of a buffer", "its end", range.end as u64, holds, rule)?;
        let offset = self.offset + range.start * size_of::<T>();
        Ok(Self { memory: self.memory.clone(), offset, len: range.len(), values: PhantomData })
    }

    /// The same bytes as values of another type; as many as fit.
    #[must_use]
    pub fn cast<U: Pod>(&self) -> Span<U> {
        let len = self.len * size_of::<T>() / size_of::<U>().max(1);
        Span { memory: self.memory.clone(), offset: self.offset, len, values: PhantomData }
    }

    /// Where the values are, as the card sees it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address + self.offset as u64
    }

    pub(super) fn memory(&self) -> &Arc<Allocation> {
        &self.memory
    }
}

impl<T> fmt::Debug for Span<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, len, .. } = self;
        write!(f, "{len} x {} at {:#x} + {offset}", std::any::type_name::<T>(), self.memory.address)
    }
}

/// Host memory that the card copies at the full speed of the bus.
pub struct Pinned<T> {
    start: *mut T,
    len: usize,
    device: Device,
}

// SAFETY: owns its memory, as a `Vec` does.
unsafe impl<T: Send> Send for Pinned<T> {}
// SAFETY: shared references only read.
unsafe impl<T: Sync> Sync for Pinned<T> {}

impl<T: Pod> Pinned<T> {
    pub(super) fn new(device: &Device, len: usize) -> Result<Self, CudaError> {
        device.bind()?;
        let bytes = (len * size_of::<T>()).max(1);
        // SAFETY: allocates and clears `bytes` bytes, which `drop` frees; page alignment is enough for every `Pod`.
        let start = unsafe {
            let start = result::malloc_host(bytes, 0).map_err(CudaError::driver("cuMemHostAlloc"))?;
            start.cast::<u8>().write_bytes(0, bytes);
            start.cast()
        };
        Ok(Self { start, len, device: device.clone() })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &[T] {
        // SAFETY: `len` initialised values that this owns. Copies from the card have ended: `Stream::download` waits.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The values, to write.
    pub fn values_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `values`, borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        // Errors here are those of earlier work, which its caller sees at the next call.
        let _ = self.device.bind();
        // SAFETY: allocated in `new` and freed only here.
        let _ = unsafe { result::free_host(self.start.cast()) };
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} pinned", self.len, std::any::type_name::<T>())
    }
}
