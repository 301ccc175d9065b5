//! Host memory from elsewhere that the card copies from, such as a file's mapping.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use cudarc::driver::{result, sys};

use super::{CudaError, Device, Span, Stream};

/// Bytes of the host that the driver holds in memory, so that the card copies them at the full speed of the bus while the host goes on.
pub struct Registered {
    /// Of `owner`, whose address does not change as long as that is held.
    bytes: &'static [u8],
    device: Device,
    _owner: Arc<dyn Send + Sync>,
}

impl Registered {
    /// Registers `part` of what `owner` holds. The driver takes whole pages: two parts that are registered share none.
    ///
    /// # Errors
    /// [`CudaError::Driver`] where the driver or the memory does not allow it, such as a mapping for reading on a card that cannot
    /// register those, or more than the process may lock. Copies through [`Staging`](super::Staging) are possible then.
    pub fn new<O: Send + Sync + 'static>(
        device: &Device,
        owner: &Arc<O>,
        part: impl FnOnce(&O) -> &[u8],
    ) -> Result<Self, CudaError> {
        let owner = owner.clone();
        let bytes = part(&owner);
        // SAFETY: the slice lives as long as its borrow of what `owner` points to, and that is neither moved, changed nor dropped
        // before `owner`, which the new value holds; nobody gets at the slice but through it.
        let bytes: &'static [u8] = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        CudaError::require("memory to register", "bytes", bytes.len() as u64, !bytes.is_empty(), || {
            "1 or more".to_owned()
        })?;
        device.bind()?;
        let attribute = Attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
        let reads = device.context().attribute(attribute).unwrap_or(0) != 0;
        let only = if reads { sys::CU_MEMHOSTREGISTER_READ_ONLY } else { 0 };
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | only;
        // SAFETY: the bytes live until `drop` takes the registration back; the card only reads them.
        unsafe { sys::cuMemHostRegister_v2(bytes.as_ptr().cast_mut().cast(), bytes.len(), flags) }
            .result()
            .map_err(CudaError::driver("cuMemHostRegister"))?;
        Ok(Self { bytes, device: device.clone(), _owner: owner })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Copies may be on their way. An error is one of earlier work, which its caller sees at the next call.
        let _ = self.device.synchronize();
        // SAFETY: registered in `new`, and taken back only here.
        let _ = unsafe { sys::cuMemHostUnregister(self.bytes.as_ptr().cast_mut().cast()) };
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} registered bytes", self.bytes.len())
    }
}

impl Stream {
    /// Queues a copy of some of the bytes to the card and returns at once. It cannot be part of a graph, which would outlive the
    /// registration.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for a range that is not inside or that is not as long as `to`, and in a capture;
    /// [`CudaError::Driver`].
    pub fn copy_from_host(
        &mut self,
        from: &Registered,
        range: Range<usize>,
        to: &Span<u8>,
    ) -> Result<(), CudaError> {
        let has = from.bytes.len();
        let inside = range.start <= range.end && range.end <= has;
        let rule = || format!("at most {has}");
        CudaError::require("a copy from the host", "its end", range.end as u64, inside, rule)?;
        CudaError::equal("a copy from the host", "bytes", to.len() as u64, range.len() as u64)?;
        let captured = u64::from(self.captures());
        CudaError::equal("a copy from the host", "captures under way", captured, 0)?;
        self.device().clone().bind()?;
        // SAFETY: both sides have as many bytes. The host's live until `Registered::drop` has waited for the copy, and never change;
        // freeing the card's waits for queued work.
        unsafe { result::memcpy_htod_async(to.address(), &from.bytes[range], self.raw()) }
            .map_err(CudaError::driver("cuMemcpyHtoDAsync"))
    }
}
