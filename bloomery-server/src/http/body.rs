//! Bodies of requests: read whole, within limits of size, time and memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

/// Bodies up to this size do not count towards what all bodies may hold together.
const SMALL: usize = 64 << 10;

/// What bodies may cost.
#[derive(Debug, Clone)]
pub(super) struct BodyLimits {
    /// Bytes of one body.
    pub(super) size: usize,
    /// Silence within a body.
    pub(super) silence: Duration,
    /// Bytes a second, on average after the first `silence`.
    pub(super) rate: u32,
    /// Bytes that are read of a body which nobody wants.
    pub(super) discard: usize,
    /// Time for that.
    pub(super) discard_time: Duration,
}

/// KiB that bodies in memory may have together.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Semaphore>);

/// A whole body.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    /// Its part of the budget.
    pub(super) share: Option<OwnedSemaphorePermit>,
}

/// Why there is no whole body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    /// The client went away in the middle, or does not speak HTTP.
    Broken,
    TooLarge,
    TooSlow,
    /// Other bodies fill the budget.
    NoRoom,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes >> 10).min(Semaphore::MAX_PERMITS))))
    }

    /// Lets a body of `length` bytes grow by `more`.
    fn grow(
        &self,
        share: &mut Option<OwnedSemaphorePermit>,
        length: usize,
        more: usize,
    ) -> Result<(), BodyError> {
        let held = share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = (length + more).div_ceil(1 << 10);
        if length + more <= SMALL || wanted <= held {
            return Ok(());
        }
        let count = u32::try_from(wanted - held).map_err(|_| BodyError::NoRoom)?;
        let new = self.0.clone().try_acquire_many_owned(count).map_err(|_| BodyError::NoRoom)?;
        match share {
            Some(share) => share.merge(new),
            None => *share = Some(new),
        }
        Ok(())
    }
}

/// Reads a body to its end.
pub(super) async fn collect<B>(body: &mut B, limits: &BodyLimits, budget: &Budget) -> Result<Whole, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > limits.size as u64 {
        return Err(BodyError::TooLarge);
    }
    let (start, mut bytes, mut share) = (Instant::now(), BytesMut::new(), None);
    loop {
        let earned = Duration::from_secs_f64(bytes.len() as f64 / f64::from(limits.rate));
        let deadline = (start + limits.silence + earned).min(Instant::now() + limits.silence);
        let frame = timeout_at(deadline, body.frame()).await.map_err(|_| BodyError::TooSlow)?;
        let Some(frame) = frame else { return Ok(Whole { bytes: bytes.freeze(), share }) };
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if bytes.len() + data.len() > limits.size {
            return Err(BodyError::TooLarge);
        }
        budget.grow(&mut share, bytes.len(), data.len())?;
        bytes.extend_from_slice(&data);
    }
}

/// Reads a body that nobody wants, within bounds, so that the client comes to read our answer. Whether that was all of it.
pub(super) async fn discard<B>(body: &mut B, limits: &BodyLimits) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    let all = async {
        let mut left = limits.discard;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return false;
            }
        }
        true
    };
    timeout(limits.discard_time, all).await.unwrap_or(false)
}
