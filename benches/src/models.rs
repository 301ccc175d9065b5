//! Models to measure with.

use std::num::NonZeroUsize;
use std::path::Path;

use bloomery_core::{Context, Engine, EngineBuilder, Error, ModelSource};
use bloomery_gguf::{Format, GgufError, Writer};

use crate::{Qwen3, values};

/// The demo model with room for `tokens` positions, on one thread: what a core does, also where others are busy.
pub fn demo(tokens: usize) -> EngineBuilder {
    Engine::builder(ModelSource::demo()).context(Context::Tokens(tokens)).threads(NonZeroUsize::MIN)
}

/// Writes a model of one narrow layer with the vocabulary of Qwen3 and loads it: for what depends on the vocabulary alone.
///
/// # Errors
/// When the file cannot be written or read.
pub fn large_vocabulary(path: &Path, qwen3: &Qwen3) -> Result<Engine, Error> {
    write(path, qwen3).map_err(|error| Error::Load(error.into()))?;
    Ok(Engine::builder(path).context(Context::Tokens(64)).plan()?.load(|_| {})?)
}

fn write(path: &Path, qwen3: &Qwen3) -> Result<(), GgufError> {
    const WIDTH: usize = 32;
    let mut writer = Writer::new();
    writer.set("general.architecture", "llama");
    let counts = [
        ("context_length", 64),
        ("embedding_length", WIDTH as u32),
        ("block_count", 1),
        ("feed_forward_length", WIDTH as u32),
        ("attention.head_count", 1),
    ];
    for (key, count) in counts {
        writer.set(format!("llama.{key}"), count);
    }
    writer
        .set("llama.attention.layer_norm_rms_epsilon", 1e-5f32)
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.pre", "qwen2")
        .set("tokenizer.ggml.tokens", qwen3.tokens.clone())
        .set("tokenizer.ggml.token_type", qwen3.kinds.clone())
        .set("tokenizer.ggml.merges", qwen3.merges.clone())
        .set("tokenizer.ggml.eos_token_id", Qwen3::EOS);
    let floats = |count| values(count).into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    let width = WIDTH as u64;
    let vocab = qwen3.tokens.len();
    writer.tensor("token_embd.weight", &[width, vocab as u64], Format::F32, floats(vocab * WIDTH))?;
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
        let name = format!("blk.0.{name}.weight");
        writer.tensor(name, &[width, width], Format::F32, floats(WIDTH * WIDTH))?;
    }
    for name in ["blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"] {
        writer.tensor(name, &[width], Format::F32, floats(WIDTH))?;
    }
    writer.write_file(path)
}
