//! Large data on its way to the card, and copies inside it.

use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::result;

use super::memory::Allocation;
use super::{CudaError, Device, Event, Pinned, Span, Stream};

/// Host memory that one piece of data after the other passes through. With several of them, some are filled while others are
/// copied.
pub struct Staging {
    memory: Pinned<u8>,
    /// The end of the last copy, and where it goes.
    sent: Option<(Event, Arc<Allocation>)>,
}

impl Staging {
    /// Room for `len` bytes.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn new(device: &Device, len: usize) -> Result<Self, CudaError> {
        Ok(Self { memory: device.pinned(len)?, sent: None })
    }

    /// The bytes, to write: waits until the last copy has read them.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if that copy failed.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], CudaError> {
        self.wait()?;
        Ok(self.memory.values_mut())
    }

    /// Queues a copy of as many bytes as `to` has from the start of the memory.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there are not as many, [`CudaError::Driver`].
    pub fn send(&mut self, stream: &mut Stream, to: &Span<u8>) -> Result<(), CudaError> {
        self.wait()?;
        let room = self.memory.values().len();
        let rule = || format!("at most {room}");
        CudaError::require("staging", "bytes", to.len() as u64, to.len() <= room, rule)?;
        let staged = &self.memory.values()[..to.len()];
        stream.device().clone().bind()?;
        // SAFETY: both sides have as many bytes. `memory` is neither written to nor freed before `wait`, and `sent` holds
        // what `to` lies in.
        unsafe { result::memcpy_htod_async(to.address(), staged, stream.raw()) }
            .map_err(CudaError::driver("cuMemcpyHtoDAsync"))?;
        self.sent = Some((stream.mark()?, to.memory().clone()));
        Ok(())
    }

    fn wait(&mut self) -> Result<(), CudaError> {
        self.sent.take().map_or(Ok(()), |(event, _)| event.wait())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // An error here is one of earlier work, which its caller sees at the next call.
        let _ = self.wait();
    }
}

impl std::fmt::Debug for Staging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "staging of {:?}", self.memory)
    }
}

impl Stream {
    /// Queues a copy from one place of the card to another. Where the two overlap, the result is either's bytes.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for other than as many values, [`CudaError::Driver`].
    pub fn copy<T: Pod>(&mut self, from: &Span<T>, to: &Span<T>) -> Result<(), CudaError> {
        CudaError::equal("copy", "values", from.len() as u64, to.len() as u64)?;
        self.device().clone().bind()?;
        let bytes = from.len() * size_of::<T>();
        // SAFETY: both places have as many bytes and live: freeing them waits for queued work.
        unsafe { result::memcpy_dtod_async(to.address(), from.address(), bytes, self.raw()) }
            .map_err(CudaError::driver("cuMemcpyDtoDAsync"))?;
        self.keep(&[from.memory().clone(), to.memory().clone()]);
        Ok(())
    }

    /// Copies places of the card to the host, one after the other, and waits once. Into [`Pinned`] memory that is as fast as
    /// the bus.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for other than as many values, [`CudaError::Driver`] also if earlier work failed.
    pub fn gather<T: Pod>(&mut self, from: &[Span<T>], to: &mut [T]) -> Result<(), CudaError> {
        let len = from.iter().map(Span::len).sum::<usize>();
        CudaError::equal("gather", "values", to.len() as u64, len as u64)?;
        self.device().clone().bind()?;
        let mut rest = &mut *to;
        let queued = from.iter().try_for_each(|from| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(from.len());
            rest = later;
            // SAFETY: as many values on both sides; `to` is borrowed until the wait below, which an error does not skip.
            unsafe { result::memcpy_dtoh_async(now, from.address(), self.raw()) }
                .map_err(CudaError::driver("cuMemcpyDtoHAsync"))
        });
        queued.and(self.synchronize())
    }

    /// Copies what [`gather`](Self::gather) gave to places of the card; returns when `from` may change again.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatter<T: Pod>(&mut self, from: &[T], to: &[Span<T>]) -> Result<(), CudaError> {
        let len = to.iter().map(Span::len).sum::<usize>();
        CudaError::equal("scatter", "values", from.len() as u64, len as u64)?;
        self.device().clone().bind()?;
        let mut rest = from;
        let queued = to.iter().try_for_each(|to| {
            let (now, later) = rest.split_at(to.len());
            rest = later;
            // SAFETY: as many values on both sides; `from` is borrowed until the wait below, which an error does not skip.
            unsafe { result::memcpy_htod_async(to.address(), now, self.raw()) }
                .map_err(CudaError::driver("cuMemcpyHtoDAsync"))
        });
        queued.and(self.synchronize())
    }
}
