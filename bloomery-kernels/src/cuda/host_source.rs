//! Host memory that a card copies from in place.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::{CudaError, Device, Pinned, Span, Stream};

/// Bytes that do not change, at the full speed of the bus: those of a file's mapping, say, without a copy of their own.
pub struct HostSource<O> {
    owner: Arc<O>,
    device: Device,
    /// Addresses that the driver has pinned.
    ranges: Vec<Range<usize>>,
    /// Whether to release them.
    registered: bool,
}

impl<O> HostSource<O> {
    /// Pins what `bytes` names of the owner, which lives as long as the source does: pages of a shared, read-only mapping too. Takes
    /// 30 ms for each gigabyte in the page cache; others are read from the disk. A *private* mapping would be copied page by page.
    ///
    /// # Errors
    /// [`CudaError::Driver`] where the driver or the system refuses.
    pub fn registered(
        device: &Device,
        owner: Arc<O>,
        bytes: impl for<'a> Fn(&'a O) -> Vec<&'a [u8]>,
    ) -> Result<Self, CudaError> {
        device.bind()?;
        let mut source = Self { owner, device: device.clone(), ranges: Vec::new(), registered: true };
        let owner = source.owner.clone();
        for part in bytes(&owner).into_iter().filter(|part| !part.is_empty()) {
            let range = part.as_ptr().addr()..part.as_ptr().addr() + part.len();
            let flags = sys::CU_MEMHOSTREGISTER_READ_ONLY | sys::CU_MEMHOSTREGISTER_PORTABLE;
            // SAFETY: memory that `owner` keeps alive until `drop` has released it; the driver only reads it.
            unsafe { sys::cuMemHostRegister_v2(range.start as *mut _, part.len(), flags) }
                .result()
                .map_err(CudaError::driver("cuMemHostRegister"))?;
            source.ranges.push(range);
        }
        Ok(source)
    }

    /// Whose bytes they are.
    #[must_use]
    pub fn owner(&self) -> &Arc<O> {
        &self.owner
    }

    /// Queues a copy of `from`, a part of the source, to the card, and does not wait for it.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if `from` is no part of the source, or for other than as many bytes; [`CudaError::Driver`].
    pub fn copy(&self, stream: &mut Stream, from: &[u8], to: &Span<u8>) -> Result<(), CudaError> {
        CudaError::equal("copy from the host", "bytes", to.len() as u64, from.len() as u64)?;
        let (start, end) = (from.as_ptr().addr(), from.as_ptr().addr() + from.len());
        let inside = self.ranges.iter().any(|range| range.start <= start && end <= range.end);
        let rule = || "an address of the source".to_owned();
        CudaError::require("copy from the host", "its first byte", start as u64, inside, rule)?;
        let captured = u64::from(stream.captures());
        CudaError::equal("copy from the host", "captures under way", captured, 0)?;
        self.device.bind()?;
        // SAFETY: as many bytes on both sides. The source outlives the copy, since `drop` waits for it, and so does `to`, since
        // freeing it waits for queued work.
        unsafe { result::memcpy_htod_async(to.address(), from, stream.raw()) }
            .map_err(CudaError::driver("cuMemcpyHtoDAsync"))
    }
}

impl HostSource<Pinned<u8>> {
    /// Memory that the driver has allocated.
    #[must_use]
    pub fn pinned(memory: Arc<Pinned<u8>>) -> Self {
        let (device, bytes) = (memory.device().clone(), memory.values());
        let range = bytes.as_ptr().addr()..bytes.as_ptr().addr() + bytes.len();
        Self { owner: memory, device, ranges: vec![range], registered: false }
    }
}

impl<O> Drop for HostSource<O> {
    fn drop(&mut self) {
        // Errors here are those of earlier work, which its caller sees at the next call.
        let _ = self.device.synchronize();
        let _ = self.device.bind();
        for range in self.ranges.iter().filter(|_| self.registered) {
            // SAFETY: registered by `registered` and released only here; no copy from it is under way any more.
            let _ = unsafe { sys::cuMemHostUnregister(range.start as *mut _) }.result();
        }
    }
}

impl<O> fmt::Debug for HostSource<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: usize = self.ranges.iter().map(Range::len).sum();
        write!(f, "{bytes} bytes of the host for {}", self.device.info().name)
    }
}
