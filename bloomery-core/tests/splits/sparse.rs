//! Files of large models without their weights: a header, and a hole where the data would be.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bloomery_gguf::Format;

/// A mixture-of-experts model by its sizes.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) layers: u64,
    pub(crate) hidden: u64,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) experts: u64,
    pub(crate) width: u64,
    pub(crate) vocab: u64,
    /// Of the down projections, by layer.
    pub(crate) down: fn(u64) -> Format,
}

const HEAD_DIM: u64 = 128;
const ALIGNMENT: u64 = 32;

/// Q4_K_M gives half of the down projections more bits.
pub(crate) fn medium(layer: u64) -> Format {
    if layer.is_multiple_of(2) { Format::Q6_K } else { Format::Q4_K }
}

/// Qwen3-30B-A3B in Q4_K_M: 18.6 GB.
pub(crate) const SMALL: Shape = Shape {
    layers: 48,
    hidden: 2048,
    heads: 32,
    kv_heads: 4,
    experts: 128,
    width: 768,
    vocab: 151_936,
    down: medium,
};

/// A model of 354 GB.
pub(crate) const LARGE: Shape =
    Shape { layers: 62, hidden: 6144, heads: 96, kv_heads: 8, experts: 160, width: 3072, ..SMALL };

/// A file that is there for one test.
pub(crate) struct Sparse(PathBuf);

impl Sparse {
    pub(crate) fn new(name: &str, shape: Shape) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.gguf", std::process::id()));
        write(&path, shape).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Sparse {
    fn drop(&mut self) {
        // What is left in the folder of temporary files takes no room.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn tensors(shape: Shape) -> Vec<(String, Vec<u64>, Format)> {
    let Shape { layers, hidden, heads, kv_heads, experts, width, vocab, down } = shape;
    let mut all = vec![
        ("token_embd.weight".to_owned(), vec![hidden, vocab], Format::Q4_K),
        ("output.weight".to_owned(), vec![hidden, vocab], Format::Q6_K),
        ("output_norm.weight".to_owned(), vec![hidden], Format::F32),
    ];
    for layer in 0..layers {
        let mut push = |name: &str, dims: &[u64], format| {
            all.push((format!("blk.{layer}.{name}.weight"), dims.to_vec(), format));
        };
        push("attn_norm", &[hidden], Format::F32);
        push("ffn_norm", &[hidden], Format::F32);
        push("attn_q_norm", &[HEAD_DIM], Format::F32);
        push("attn_k_norm", &[HEAD_DIM], Format::F32);
        push("attn_q", &[hidden, heads * HEAD_DIM], Format::Q4_K);
        push("attn_k", &[hidden, kv_heads * HEAD_DIM], Format::Q4_K);
        push("attn_v", &[hidden, kv_heads * HEAD_DIM], Format::Q6_K);
        push("attn_output", &[heads * HEAD_DIM, hidden], Format::Q4_K);
        push("ffn_gate_inp", &[hidden, experts], Format::F32);
        push("ffn_gate_exps", &[hidden, width, experts], Format::Q4_K);
        push("ffn_up_exps", &[hidden, width, experts], Format::Q4_K);
        push("ffn_down_exps", &[width, hidden, experts], down(layer));
    }
    all
}

fn write(path: &Path, shape: Shape) -> std::io::Result<()> {
    fn text(head: &mut Vec<u8>, text: &str) {
        head.extend((text.len() as u64).to_le_bytes());
        head.extend(text.as_bytes());
    }
    let numbers = [
        ("block_count", shape.layers),
        ("embedding_length", shape.hidden),
        ("context_length", 262_144),
        ("vocab_size", shape.vocab),
        ("attention.head_count", shape.heads),
        ("attention.head_count_kv", shape.kv_heads),
        ("attention.key_length", HEAD_DIM),
        ("expert_count", shape.experts),
        ("expert_used_count", 8),
        ("expert_feed_forward_length", shape.width),
    ];
    let (string, unsigned, float) = (8u32, 4u32, 6u32);
    let tensors = tensors(shape);
    let mut head = b"GGUF".to_vec();
    head.extend(3u32.to_le_bytes());
    head.extend((tensors.len() as u64).to_le_bytes());
    head.extend((numbers.len() as u64 + 2).to_le_bytes());
    text(&mut head, "general.architecture");
    head.extend(string.to_le_bytes());
    text(&mut head, "qwen3moe");
    text(&mut head, "qwen3moe.attention.layer_norm_rms_epsilon");
    head.extend(float.to_le_bytes());
    head.extend(1e-6f32.to_le_bytes());
    for (key, value) in numbers {
        text(&mut head, &format!("qwen3moe.{key}"));
        head.extend(unsigned.to_le_bytes());
        head.extend((value as u32).to_le_bytes());
    }
    let mut offset = 0u64;
    for (name, dims, format) in tensors {
        text(&mut head, &name);
        head.extend((dims.len() as u32).to_le_bytes());
        dims.iter().for_each(|dim| head.extend(dim.to_le_bytes()));
        head.extend(format.id().to_le_bytes());
        head.extend(offset.to_le_bytes());
        let blocks = dims.iter().product::<u64>() / format.block_len() as u64;
        offset += (blocks * format.block_bytes() as u64).next_multiple_of(ALIGNMENT);
    }
    let start = (head.len() as u64).next_multiple_of(ALIGNMENT);
    let mut file = File::create(path)?;
    file.write_all(&head)?;
    file.set_len(start + offset)
}
