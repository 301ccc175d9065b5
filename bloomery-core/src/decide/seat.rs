//! A model that decides: its head, and the rows of its vocabulary that options are compared with.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bloomery_gguf::{Gguf, Tensor};
use bloomery_kernels::cpu::{Cpu, Isa, Numerics, Pool};

use super::encode::Prompt;
use super::error::DecideError;
use super::head::{Head, HeadPlan};
use crate::error::{EngineError, LoadError};

/// What a loaded decision model has beyond a language model.
pub(crate) struct Seat {
    pub(super) head: Head,
    pub(super) cpu: Cpu,
    /// The matrix of the language model's head: a row for each token.
    words: Tensor,
    gguf: Arc<Gguf>,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("dims", &self.head.dims).finish_non_exhaustive()
    }
}

impl Seat {
    pub(crate) fn load(
        plan: &HeadPlan,
        gguf: &Arc<Gguf>,
        threads: NonZeroUsize,
        isa: Isa,
    ) -> Result<Self, LoadError> {
        let words = gguf.tensor("output.weight").or_else(|| gguf.tensor("token_embd.weight"));
        let none = || LoadError::MissingTensor { name: "output.weight".to_owned() };
        Ok(Self {
            head: plan.load(gguf)?,
            words: words.ok_or_else(none)?.clone(),
            cpu: Cpu::new(Pool::new(threads), isa, Numerics::Exact),
            gguf: Arc::clone(gguf),
        })
    }

    /// For every option the mean of its tokens' rows, at the precision they are stored in.
    pub(super) fn lexical(&self, prompt: &Prompt) -> Result<Vec<f32>, DecideError> {
        let width = self.head.dims.hidden;
        let format = self.words.format;
        let bytes = width / format.block_len() * format.block_bytes();
        let (data, vocab) = (self.gguf.data(&self.words), self.words.rows() as usize);
        let options = prompt.fields.iter().flat_map(|field| &field.options);
        let (mut means, mut row) = (Vec::new(), vec![0.0; width]);
        for option in options {
            let mut sum = vec![0.0f64; width];
            for &id in &prompt.tokens[option.span.clone()] {
                let at = id as usize * bytes;
                let stored = data.get(at..at + bytes).ok_or(EngineError::UnknownToken { id, vocab })?;
                if bloomery_gguf::dequantize(format, stored, &mut row).is_err() {
                    // A block of a damaged file: the logits will not be finite.
                    row.fill(f32::NAN);
                }
                sum.iter_mut().zip(&row).for_each(|(sum, &x)| *sum += f64::from(x));
            }
            let count = option.span.len() as f64;
            means.extend(sum.into_iter().map(|sum| (sum / count) as f32));
        }
        Ok(means)
    }
}
