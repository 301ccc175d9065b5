//! Files, options and requests that must be refused, and what the refusal says.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "this binary uses a part of it")]
mod common;

use std::num::NonZeroUsize;

use bloomery_core::{
    Bytes, Context, Engine, EngineError, HostFacts, LoadError, Logits, ModelSource, Params, PlanError, Turn,
};
use bloomery_gguf::{Format, Gguf, Value, Writer};
use common::{Fixture, model_path};

/// A copy of a fixture with changes.
fn rewritten(
    name: &str,
    change: impl Fn(&str, &Value) -> Option<Value>,
    keep: impl Fn(&str) -> bool,
) -> Writer<'static> {
    let gguf = Gguf::open(model_path(name)).unwrap();
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter() {
        writer.set(key, change(key, value).unwrap_or_else(|| value.clone()));
    }
    for tensor in gguf.tensors().filter(|tensor| keep(&tensor.name)) {
        writer.tensor(&tensor.name, &tensor.dims, tensor.format, gguf.data(tensor).to_vec()).unwrap();
    }
    writer
}

fn plan_of(writer: &Writer<'_>, test: &str) -> Result<bloomery_core::Plan, PlanError> {
    let path = std::env::temp_dir().join(format!("bloomery-{test}-{}.gguf", std::process::id()));
    writer.write_file(&path).unwrap();
    let plan = Engine::builder(path.as_path()).context(Context::Tokens(64)).plan();
    std::fs::remove_file(&path).unwrap();
    plan
}

fn refusal(writer: &Writer<'_>, test: &str) -> String {
    plan_of(writer, test).expect_err(test).to_string()
}

#[test]
fn an_unknown_architecture_is_named_beside_the_known_ones() {
    let change =
        |key: &str, _: &Value| (key == "general.architecture").then(|| Value::String("mamba".into()));
    let text = refusal(&rewritten("qwen3-small-bf16", change, |_| true), "arch");
    assert!(text.contains("`mamba`") && text.contains("qwen3moe") && text.contains("llama"), "{text}");
}

#[test]
fn missing_and_surplus_tensors_are_named() {
    let text =
        refusal(&rewritten("qwen3-small-bf16", |_, _| None, |name| name != "blk.1.attn_k.weight"), "missing");
    assert!(text.contains("`blk.1.attn_k.weight`"), "{text}");
    let mut writer = rewritten("qwen3-small-bf16", |_, _| None, |_| true);
    writer.tensor("blk.0.surprise.weight", &[4], Format::F32, vec![0; 16]).unwrap();
    let text = refusal(&writer, "surplus");
    assert!(text.contains("blk.0.surprise.weight"), "{text}");
}

#[test]
fn metadata_that_contradicts_the_tensors_is_refused() {
    let change = |key: &str, _: &Value| key.ends_with(".embedding_length").then_some(Value::U32(32));
    let text = refusal(&rewritten("qwen3-small-bf16", change, |_| true), "shape");
    assert!(text.contains("token_embd.weight") && text.contains("32"), "{text}");
    for (suffix, value, says) in [
        (".attention.head_count", Value::U32(0), "positive"),
        (".attention.head_count_kv", Value::U32(3), "divisor"),
        (".attention.key_length", Value::U32(7), "even"),
        (".block_count", Value::U32(0), "positive"),
    ] {
        let change = |key: &str, _: &Value| key.ends_with(suffix).then(|| value.clone());
        let text = refusal(&rewritten("qwen3-small-bf16", change, |_| true), "value");
        assert!(text.contains(suffix) && text.contains(says), "{suffix}: {text}");
    }
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_every_term() {
    let host = HostFacts::new(Bytes(1 << 20), NonZeroUsize::MIN);
    let error = Fixture::read("qwen3-small-bf16").builder().host(host).plan().unwrap_err();
    assert!(matches!(error, PlanError::DoesNotFit { .. }));
    let text = error.to_string();
    for term in ["1.00 MiB available", "file", "KV cache", "scratch"] {
        assert!(text.contains(term), "{term}: {text}");
    }
}

#[test]
fn unreadable_files_are_named() {
    for path in ["/nonexistent/model.gguf", "/"] {
        let text = Engine::builder(path).plan().unwrap_err().to_string();
        assert!(text.contains(path), "{text}");
    }
    let path = std::env::temp_dir().join(format!("bloomery-cut-{}.gguf", std::process::id()));
    let bytes = std::fs::read(model_path("qwen3-small-bf16")).unwrap();
    for len in [0, 3, 24, 1000, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let error = Engine::builder(path.as_path()).plan().unwrap_err();
        assert!(matches!(error, PlanError::Load(LoadError::Gguf(_))), "{len} bytes: {error}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn zero_options_are_refused_by_name() {
    let builder = || Fixture::read("qwen3-small-bf16").builder();
    for (name, plan) in [
        ("sessions", builder().sessions(0).plan()),
        ("step_rows", builder().step_rows(0).plan()),
        ("context", builder().context(Context::Tokens(0)).plan()),
    ] {
        let text = plan.unwrap_err().to_string();
        assert!(text.starts_with(name), "{text}");
    }
}

#[test]
fn sessions_refuse_what_they_cannot_hold_and_stay_as_they_were() {
    let fixture = Fixture::read("qwen3-small-bf16");
    let engine = fixture.builder().context(Context::Tokens(100)).plan().unwrap().load(|_| {}).unwrap();
    let mut session = engine.session().unwrap();
    session.prefill(&fixture.ids[..90]).unwrap();
    let error = session.prefill(&fixture.ids[..11]).unwrap_err();
    assert!(matches!(error, EngineError::ContextFull { len: 90, adding: 11, context: 100 }), "{error}");
    let error = session.step(fixture.vocab as u32).unwrap_err();
    assert!(matches!(error, EngineError::UnknownToken { .. }), "{error}");
    assert!(matches!(session.prefill(&[]), Err(EngineError::NoTokens { .. })));
    assert!(matches!(session.truncate(91), Err(EngineError::BadPosition { position: 91, len: 90 })));
    assert_eq!(session.len(), 90);
    session.prefill(&fixture.ids[..10]).unwrap();

    let other = fixture.engine(Default::default());
    let mut turns = [Turn::new(&mut session, &[1], Logits::Last)];
    assert!(matches!(other.step(&mut turns), Err(EngineError::ForeignSession)));
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_before_it_is_run() {
    let engine = Engine::builder(ModelSource::demo())
        .context(Context::Tokens(16))
        .plan()
        .unwrap()
        .load(|_| {})
        .unwrap();
    let mut session = engine.session().unwrap();
    let error = session.generate(&"a long story ".repeat(20), &Params::greedy()).unwrap_err();
    assert!(matches!(error, EngineError::ContextFull { len: 0, context: 16, .. }), "{error}");
    assert!(session.is_empty());
}

#[test]
fn snapshots_of_another_model_are_refused() {
    let (a, b) = (Fixture::read("qwen3-small-bf16"), Fixture::read("llama-k-q8_0"));
    let (a, b) = (a.engine(Default::default()), b.engine(Default::default()));
    let mut session = a.session().unwrap();
    session.prefill(&[1, 2, 3]).unwrap();
    let snapshot = session.snapshot().unwrap();
    assert!(matches!(b.session().unwrap().restore(&snapshot), Err(EngineError::BadSnapshot { .. })));
}

#[test]
fn a_model_on_one_device_has_no_memory_to_divide() {
    let engine = Engine::builder(ModelSource::demo()).context(Context::Tokens(64)).plan().unwrap();
    let engine = engine.load(|_| {}).unwrap();
    for tokens in [0, 64, 1 << 30, usize::MAX] {
        let refused = engine.rebalance(tokens).unwrap_err();
        assert!(matches!(refused, EngineError::NotSplit), "{refused}");
    }
    assert_eq!(engine.prefix_stats().total_pages, 1);
}
