//! Small inputs of a step on their way to the card.

use bytemuck::Pod;
use cudarc::driver::result;

use super::{Buffer, CudaError, Event, Pinned, Span, Stream};

/// Values that go to the same place on the card again and again, without waiting for the copy.
pub struct Upload<T> {
    staged: Pinned<T>,
    to: Buffer<T>,
    /// The end of the last copy.
    sent: Option<Event>,
}

impl<T: Pod> Upload<T> {
    /// Room for `len` values.
    ///
    /// # Errors
    /// [`CudaError::Memory`] or [`CudaError::Driver`].
    pub fn new(stream: &Stream, len: usize) -> Result<Self, CudaError> {
        let device = stream.device();
        Ok(Self { staged: device.pinned(len)?, to: device.alloc(len)?, sent: None })
    }

    /// Where the values arrive.
    #[must_use]
    pub fn span(&self) -> Span<T> {
        self.to.span()
    }

    /// Queues a copy of `values` to the start of the buffer; what follows in the stream finds them there.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there is no room, [`CudaError::Driver`].
    pub fn send(&mut self, stream: &mut Stream, values: &[T]) -> Result<(), CudaError> {
        self.send_made(stream, values.len(), |staged| staged.copy_from_slice(values))
    }

    /// As [`send`](Self::send), of `len` values that `make` writes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_made(
        &mut self,
        stream: &mut Stream,
        len: usize,
        make: impl FnOnce(&mut [T]),
    ) -> Result<(), CudaError> {
        let room = self.to.len();
        let rule = || format!("at most {room}");
        CudaError::require("upload", "values", len as u64, len <= room, rule)?;
        self.wait()?;
        make(&mut self.staged.values_mut()[..len]);
        let staged = &self.staged.values()[..len];
        stream.device().clone().bind()?;
        // SAFETY: both sides have room for the values. `staged` is neither written to nor freed before `wait`.
        unsafe { result::memcpy_htod_async(self.to.span().address(), staged, stream.raw()) }
            .map_err(CudaError::driver("cuMemcpyHtoDAsync"))?;
        self.sent = Some(stream.mark()?);
        Ok(())
    }

    /// Waits for the last copy.
    fn wait(&mut self) -> Result<(), CudaError> {
        self.sent.take().map_or(Ok(()), |event| event.wait())
    }
}

impl<T> Drop for Upload<T> {
    fn drop(&mut self) {
        if let Some(event) = self.sent.take() {
            // An error here is one of earlier work, which its caller sees at the next call.
            let _ = event.wait();
        }
    }
}

impl<T> std::fmt::Debug for Upload<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an upload to {:?}", self.to)
    }
}
