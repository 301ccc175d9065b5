//! Queues of work.

use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaEvent, CudaStream, result, sys};

use super::memory::Allocation;
use super::{CudaError, Device, Graph, Span};

/// Work in order. Everything queued runs after what was queued before.
pub struct Stream {
    device: Device,
    stream: Arc<CudaStream>,
    /// What a graph being captured will use.
    captured: Option<Vec<Arc<Allocation>>>,
}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Self, CudaError> {
        let stream = device.context().new_stream().map_err(CudaError::driver("cuStreamCreate"))?;
        Ok(Self { device: device.clone(), stream, captured: None })
    }

    pub(super) fn urgent(device: &Device) -> Result<Self, CudaError> {
        device.bind()?;
        let range = result::stream::get_priority_range();
        let (_, most) = range.map_err(CudaError::driver("cuCtxGetStreamPriorityRange"))?;
        let stream = device.context().new_stream_with_priority(most);
        let stream = stream.map_err(CudaError::driver("cuStreamCreateWithPriority"))?;
        Ok(Self { device: device.clone(), stream, captured: None })
    }

    /// The card.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }

    /// Holds memory for the graph being captured, if one is.
    pub(super) fn keep(&mut self, uses: &[Arc<Allocation>]) {
        if let Some(captured) = &mut self.captured {
            captured.extend_from_slice(uses);
        }
    }

    /// Whether what is queued becomes part of a graph.
    pub(super) fn captures(&self) -> bool {
        self.captured.is_some()
    }

    /// Waits for everything queued.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if some of it failed.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(CudaError::driver("cuStreamSynchronize"))
    }

    /// Copies `from` to the card; returns when `from` may change again.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for other than as many values, [`CudaError::Driver`].
    pub fn upload<T: Pod>(&mut self, from: &[T], to: &Span<T>) -> Result<(), CudaError> {
        CudaError::equal("upload", "values", from.len() as u64, to.len() as u64)?;
        self.device.bind()?;
        // SAFETY: `to` has room for as many values and lives; `from` lives until the wait below.
        unsafe { result::memcpy_htod_async(to.address(), from, self.raw()) }
            .map_err(CudaError::driver("cuMemcpyHtoDAsync"))?;
        self.synchronize()
    }

    /// Copies `from` to the host and waits for it.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for other than as many values, [`CudaError::Driver`] also if earlier work failed.
    pub fn download<T: Pod>(&mut self, from: &Span<T>, to: &mut [T]) -> Result<(), CudaError> {
        CudaError::equal("download", "values", to.len() as u64, from.len() as u64)?;
        self.device.bind()?;
        // SAFETY: as many values on both sides; `to` is borrowed until the wait below.
        unsafe { result::memcpy_dtoh_async(to, from.address(), self.raw()) }
            .map_err(CudaError::driver("cuMemcpyDtoHAsync"))?;
        self.synchronize()
    }

    /// Queues setting every byte.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn fill<T: Pod>(&mut self, to: &Span<T>, byte: u8) -> Result<(), CudaError> {
        self.device.bind()?;
        // SAFETY: the span's memory lives and has as many bytes.
        unsafe { result::memset_d8_async(to.address(), byte, to.len() * size_of::<T>(), self.raw()) }
            .map_err(CudaError::driver("cuMemsetD8Async"))?;
        self.keep(std::slice::from_ref(to.memory()));
        Ok(())
    }

    /// Queues setting every word to the same value.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn fill_words(&mut self, to: &Span<u32>, word: u32) -> Result<(), CudaError> {
        self.device.bind()?;
        // SAFETY: the span's memory lives and has as many words.
        unsafe { sys::cuMemsetD32Async(to.address(), word, to.len(), self.raw()) }
            .result()
            .map_err(CudaError::driver("cuMemsetD32Async"))?;
        self.keep(std::slice::from_ref(to.memory()));
        Ok(())
    }

    /// Queues a mark for [`Event::micros_since`].
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn event(&mut self) -> Result<Event, CudaError> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Event(self.stream.record_event(flags).map_err(CudaError::driver("cuEventRecord"))?))
    }

    /// Queues a mark that can be waited for, here and in other streams; it has no time, which makes it cheaper.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn mark(&mut self) -> Result<Event, CudaError> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        Ok(Event(self.stream.record_event(flags).map_err(CudaError::driver("cuEventRecord"))?))
    }

    /// Queues a mark in place of an earlier one, so that no new one has to be made. Who waits for that already waits for the
    /// earlier moment.
    ///
    /// # Errors
    /// [`CudaError::Driver`], also for an event of another card.
    pub fn mark_again(&mut self, event: &mut Event) -> Result<(), CudaError> {
        event.0.record(&self.stream).map_err(CudaError::driver("cuEventRecord"))
    }

    /// What is queued after this starts when `event`, a moment in another stream, has come. The host does not wait.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn wait(&mut self, event: &Event) -> Result<(), CudaError> {
        self.stream.wait(&event.0).map_err(CudaError::driver("cuStreamWaitEvent"))
    }

    /// Everything that `work` queues as a graph, which runs again as a whole. Nothing of it runs now.
    ///
    /// # Errors
    /// What `work` returns; [`CudaError::Driver`] if it does something that cannot be captured.
    pub fn capture(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), CudaError>,
    ) -> Result<Graph, CudaError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(CudaError::driver("cuStreamBeginCapture"))?;
        self.captured = Some(Vec::new());
        let done = work(self);
        let uses = self.captured.take().unwrap_or_default();
        let ended = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        done?;
        Graph::new(ended.map_err(CudaError::driver("cuStreamEndCapture"))?, uses)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a stream of {}", self.device.info().name)
    }
}

/// A moment in a stream.
pub struct Event(CudaEvent);

impl Event {
    /// Waits for this moment.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if work queued before failed.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.0.synchronize().map_err(CudaError::driver("cuEventSynchronize"))
    }

    /// Whether this moment has come.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if work queued before failed.
    pub fn is_over(&self) -> Result<bool, CudaError> {
        self.0.try_is_complete().map_err(CudaError::driver("cuEventQuery"))
    }

    /// Waits for this moment and returns the time since an earlier one.
    ///
    /// # Errors
    /// [`CudaError::Driver`] also if work queued before failed.
    pub fn micros_since(&self, earlier: &Self) -> Result<f64, CudaError> {
        let millis = earlier.0.elapsed_ms(&self.0).map_err(CudaError::driver("cuEventElapsedTime"))?;
        Ok(f64::from(millis) * 1e3)
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an event")
    }
}
