//! What a file says of its model that no computation needs.

use bloomery_gguf::Gguf;

use crate::error::LoadError;
use crate::units::Bytes;

/// Numbers and names for people and for clients that list models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Facts {
    /// Values in all tensors.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub weights: Bytes,
    /// `general.file_type`: the number of the mixture of formats.
    pub file_type: Option<u32>,
    /// `tokenizer.ggml.model`.
    pub vocabulary: String,
}

impl Facts {
    pub(super) fn of(gguf: &Gguf) -> Result<Self, LoadError> {
        let meta = gguf.metadata();
        Ok(Self {
            parameters: gguf.tensors().map(|tensor| tensor.elements()).sum(),
            weights: Bytes(gguf.tensors().map(|tensor| tensor.bytes()).sum()),
            file_type: meta.scoped("general").opt_u32("file_type")?,
            vocabulary: meta.scoped("tokenizer.ggml").str("model")?.to_owned(),
        })
    }
}
