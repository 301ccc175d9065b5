//! The demo model: 14 million parameters of Qwen3-MoE, trained on stories for this project.

/// Keeps the bytes where the file format's alignment of 32 holds.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!("../demo/bloomery-demo-q4_k_m.gguf"));

/// The whole GGUF file.
pub(crate) fn bytes() -> &'static [u8] {
    &MODEL.0
}
