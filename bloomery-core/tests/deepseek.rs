//! DeepSeek-V4.1 where its small model does not go by itself: candidates that bind, the other names that files have, and what is
//! refused.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "this binary uses a part of it")]
mod common;

use bloomery_core::{Context, Engine, Numerics, Placement, PlanError};
use bloomery_gguf::{Gguf, Value, Writer};
use common::{Fixture, all_logits, argmax, data_path, max_abs, model_path};

const SMALL: &str = "deepseek41-small-bf16";

/// Other keys, and other names of keys and tensors.
struct Change<'a> {
    set: &'a [(&'a str, u32)],
    named: &'a [(&'a str, &'a str)],
    without: &'a [&'a str],
}

const NOTHING: Change<'static> = Change { set: &[], named: &[], without: &[] };

fn load(test: &str, change: &Change<'_>) -> Result<Engine, PlanError> {
    let gguf = Gguf::open(model_path(SMALL)).unwrap();
    let named = |name: &str| {
        let rename = |name: String, (from, to): &(&str, &str)| name.replace(from, to);
        change.named.iter().fold(name.to_owned(), rename)
    };
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter() {
        writer.set(named(key), value.clone());
    }
    for &(key, value) in change.set {
        writer.set(format!("deepseek41.{key}"), Value::U32(value));
    }
    for tensor in gguf.tensors().filter(|tensor| !change.without.contains(&tensor.name.as_str())) {
        let data = gguf.data(tensor).to_vec();
        writer.tensor(named(&tensor.name), &tensor.dims, tensor.format, data).unwrap();
    }
    let path = std::env::temp_dir().join(format!("bloomery-deepseek-{test}-{}.gguf", std::process::id()));
    writer.write_file(&path).unwrap();
    let builder = Engine::builder(path.as_path()).context(Context::Tokens(512)).placement(Placement::Cpu);
    let plan = builder.numerics(Numerics::Exact).plan();
    let engine = plan.map(|plan| plan.load(|_| {}).unwrap());
    std::fs::remove_file(&path).unwrap();
    engine
}

const CANDIDATES: [(&str, u32); 3] = [
    ("attention.candidate_source_layer_id", 4),
    ("attention.candidate_block_size", 2),
    ("attention.candidate_topk_blocks", 7),
];

/// Spans of two rows of which seven are kept: after 14 rows they limit what layer 6 chooses. The reference is a program in float64
/// (tests/data/models/candidates.py); without the limit logits are off by 2.5.
#[test]
fn candidates_bind() {
    let fixture = Fixture::read(SMALL);
    let engine = load("candidates", &Change { set: &CANDIDATES, ..NOTHING }).unwrap();
    let golden = std::fs::read(data_path("models/deepseek41-candidates.logits.f32")).unwrap();
    let golden: Vec<f32> = golden.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let whole = all_logits(&engine, &fixture.ids, usize::MAX);
    for (&row, expected) in fixture.rows.iter().zip(golden.chunks_exact(fixture.vocab)) {
        let found = &whole[row * fixture.vocab..][..fixture.vocab];
        let off = max_abs(expected, found);
        assert!(off <= 1e-3 && argmax(expected) == argmax(found), "row {row}: {off:e}");
    }
    for chunk in [1, 7] {
        assert!(all_logits(&engine, &fixture.ids, chunk) == whole, "chunks of {chunk}");
    }
}

/// The names of the other conversions are the same model.
#[test]
fn other_names_are_the_same_model() {
    let fixture = Fixture::read(SMALL);
    let named = [
        ("engram.head_count", "engram.n_heads"),
        ("engram.key_length", "engram.head_dim"),
        ("engram.pad_id", "engram.pad_token_id"),
        ("engram_embd", "engram_embed"),
        ("indexer.attn_k.", "indexer_compressor_kv."),
        ("indexer.k_norm.", "indexer_compressor_norm."),
    ];
    let engine = load("names", &Change { named: &named, ..NOTHING }).unwrap();
    let same = fixture.engine(Numerics::Exact);
    let logits = |engine: &Engine| all_logits(engine, &fixture.ids[..80], usize::MAX);
    assert!(logits(&engine) == logits(&same));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let refusal = |test: &str, change: Change<'_>| load(test, &change).map(drop).expect_err(test).to_string();
    let few = [("attention.candidate_topk_blocks", 1)];
    let text = refusal("few", Change { set: &few, ..NOTHING });
    assert!(text.contains("candidate_topk_blocks") && text.contains('1'), "{text}");
    // Of nobody's ratio: layer 4 makes rows of single positions, layer 3 shares pairs.
    let text = refusal("ratios", Change { without: &["blk.4.attn_compressor_kv.weight"], ..NOTHING });
    assert!(text.contains("blk.4") && text.contains('2'), "{text}");
    let text = refusal("source", Change { without: &["blk.1.attn_compressor_kv.weight"], ..NOTHING });
    assert!(text.contains("blk.1.attn_compressor_kv.weight"), "{text}");
    let text = refusal("hashed", Change { set: &[("hash_layer_count", 1)], ..NOTHING });
    assert!(text.contains("hash_layer_count"), "{text}");
    let text = refusal("gating", Change { set: &[("expert_gating_func", 2)], ..NOTHING });
    assert!(text.contains("expert_gating_func") && text.contains("root of softplus"), "{text}");
    let text = refusal("heads", Change { set: &[("engram.head_count", 3)], ..NOTHING });
    assert!(text.contains("engram.primes"), "{text}");
    let text =
        refusal("no candidates", Change { set: &[("attention.candidate_source_layer_id", 2)], ..NOTHING });
    assert!(text.contains("candidate_source_layer_id") && text.contains('2'), "{text}");
}
