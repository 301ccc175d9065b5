//! What comes back of a step: the only time that the host waits for the card.

use bloomery_kernels::cuda::{CudaError, Device, Pinned, Stream};

use super::frame::Frame;
use super::ops::candidates::{self, Layout};
use super::sizes::Sizes;
use super::walk::head;
use crate::backend::{Answer, Readback};
use crate::program::Program;

/// Host memory that results arrive in.
#[derive(Debug)]
pub(super) struct Reader {
    /// `[logit_rows][vocab]`, or so many hidden states.
    pinned: Pinned<f32>,
    words: Pinned<u32>,
    /// Longer results.
    rows: Vec<f32>,
    ids: Vec<u32>,
    logits: Vec<f32>,
}

impl Reader {
    pub(super) fn new(device: &Device, program: &Program, sizes: &Sizes) -> Result<Self, CudaError> {
        Ok(Self {
            pinned: device.pinned(sizes.logit_rows * program.logits.cols)?,
            words: device.pinned(sizes.candidate_words())?,
            rows: Vec::new(),
            ids: Vec::new(),
            logits: Vec::new(),
        })
    }

    /// Waits for the step of `frame` and returns what was wanted of it.
    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        frame: &Frame<'_>,
        want: Readback,
    ) -> Result<Answer<'_>, CudaError> {
        let logits = frame.model.program.logits;
        let most = self.pinned.values().len() / logits.cols;
        match want {
            _ if frame.outputs == 0 => {
                stream.synchronize()?;
                Ok(Answer::Rows(&[]))
            }
            Readback::Hidden => {
                let hidden = frame.span(frame.model.program.hidden.buffer)?;
                if let Some(to) = self.pinned.values_mut().get_mut(..hidden.len()) {
                    stream.download(&hidden, to)?;
                    return Ok(Answer::Rows(&self.pinned.values()[..hidden.len()]));
                }
                self.rows.resize(hidden.len(), 0.0);
                stream.download(&hidden, &mut self.rows)?;
                Ok(Answer::Rows(&self.rows))
            }
            _ if frame.outputs > most => self.windows(stream, frame, most),
            Readback::Top(k) => self.top(stream, frame, k),
            Readback::Logits => self.all(stream, frame),
        }
    }

    fn all(&mut self, stream: &mut Stream, frame: &Frame<'_>) -> Result<Answer<'_>, CudaError> {
        let from = frame.span(frame.model.program.logits)?;
        let to = &mut self.pinned.values_mut()[..from.len()];
        stream.download(&from, to)?;
        Ok(Answer::Rows(&self.pinned.values()[..from.len()]))
    }

    /// Computes the head for as many outputs as there is room for, reads them, and goes on.
    fn windows(
        &mut self,
        stream: &mut Stream,
        frame: &Frame<'_>,
        most: usize,
    ) -> Result<Answer<'_>, CudaError> {
        let logits = frame.model.program.logits;
        self.rows.resize(frame.outputs * logits.cols, 0.0);
        for first in (0..frame.outputs).step_by(most) {
            let count = most.min(frame.outputs - first);
            head(frame, first, count)?.launches.iter().try_for_each(|kernel| stream.launch(kernel))?;
            let to = &mut self.rows[first * logits.cols..(first + count) * logits.cols];
            stream.download(&frame.part(logits, 0, count)?, to)?;
        }
        Ok(Answer::Rows(&self.rows))
    }

    /// The largest logits; all of them where some cannot be compared, so that the sampler can say which.
    fn top(&mut self, stream: &mut Stream, frame: &Frame<'_>, k: usize) -> Result<Answer<'_>, CudaError> {
        let layout = Layout { rows: frame.outputs, k };
        for kernel in candidates::launches(frame, layout)? {
            stream.launch(&kernel)?;
        }
        let words = &mut self.words.values_mut()[..layout.words()];
        stream.download(&frame.memory.candidates.slice(0..layout.words())?, words)?;
        let float = |word: &u32| f32::from_bits(*word);
        if !words[layout.sums()].iter().map(float).all(f32::is_finite) {
            return self.all(stream, frame);
        }
        self.ids.clear();
        self.ids.extend_from_slice(&words[layout.ids()]);
        self.logits.clear();
        self.logits.extend(words[layout.logits()].iter().map(float));
        Ok(Answer::Top { k, ids: &self.ids, logits: &self.logits })
    }
}
