//! What a grammar allows next, token by token through a JSON text, with Qwen3's vocabulary. Beside it llguidance alone, which
//! does the work: what is between the two is checks, and looking for the only token or the end.

use std::path::Path;
use std::sync::Arc;

use bloomery_benches::{Criterion, OURS, Qwen3, criterion, large_vocabulary};
use bloomery_core::constrain::{Constraint, Grammar, Next};
use bloomery_core::tokenizer::{Specials, Tokenizer};
use criterion::{BatchSize, BenchmarkId, Throughput, criterion_group, criterion_main};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{ParserFactory, TokenParser};
use serde_json::{Value, json};

const TEXT: &str = r#"{"name":"Reynard","kind":"fox","age":7,"friends":["Grimbert","Tibert"],"home":{"wood":"Malperdy","rooms":12}}"#;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "kind": {"enum": ["fox", "owl", "badger"]},
            "age": {"type": "integer"},
            "friends": {"type": "array", "items": {"type": "string"}},
            "home": {
                "type": "object",
                "properties": {"wood": {"type": "string"}, "rooms": {"type": "integer"}},
                "required": ["wood", "rooms"],
                "additionalProperties": false
            }
        },
        "required": ["name", "kind", "age", "friends", "home"],
        "additionalProperties": false
    })
}

/// Masks of llguidance over the same vocabulary.
fn theirs(tokenizer: &Tokenizer, schema: Value) -> TokenParser {
    let size = tokenizer.vocab_size() as u32;
    let words: Vec<Vec<u8>> = (0..size).map(|id| tokenizer.token_bytes(id, false).to_vec()).collect();
    let env: TokEnv =
        Arc::new(ApproximateTokEnv::new(TokTrie::from(&TokRxInfo::new(size, Qwen3::EOS), &words)));
    let slices = llguidance::earley::SlicedBiasComputer::general_slices();
    let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
        .expect("the vocabulary has all bytes");
    factory.quiet();
    let mut parser =
        factory.create_parser(TopLevelGrammar::from_json_schema(schema)).expect("the schema can be compiled");
    parser.start_without_prompt();
    parser
}

fn walk_ours(constraint: &mut dyn Constraint, ids: &[u32]) -> u32 {
    let mut seen = 0;
    for &id in ids {
        seen ^= match constraint.next().expect("the text fits") {
            Next::Among(mask) => mask[0],
            Next::Only(id) => id,
            Next::Any | Next::End => 0,
        };
        constraint.accept(id).expect("the text fits");
    }
    seen
}

fn walk_theirs(parser: &mut TokenParser, ids: &[u32]) -> u32 {
    let mut seen = 0;
    for &id in ids {
        seen ^= parser.compute_mask().expect("the text fits").as_slice()[0];
        parser.consume_token(id).expect("the text fits");
    }
    seen
}

fn constraint(criterion: &mut Criterion) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("constraint.gguf");
    let engine = large_vocabulary(&path, &Qwen3::read()).expect("the model is complete");
    let ids = engine.tokenizer().encode(TEXT, Specials::AsText).expect("a short text");
    let mut group = criterion.benchmark_group("constraint");
    group.throughput(Throughput::Elements(ids.len() as u64));
    for (name, schema) in [("schema", schema()), ("any object", json!({"type": "object"}))] {
        let ours = engine.constraint(&Grammar::json_schema(&schema)).expect("the schema can be compiled");
        let fork = || ours.fork().expect("a matching can be forked");
        group.bench_function(BenchmarkId::new(OURS, name), |bencher| {
            bencher.iter_batched(fork, |mut text| walk_ours(&mut *text, &ids), BatchSize::SmallInput);
        });
        let parser = theirs(engine.tokenizer(), schema);
        group.bench_function(BenchmarkId::new("llguidance", name), |bencher| {
            bencher.iter_batched(
                || parser.clone(),
                |mut text| walk_theirs(&mut text, &ids),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = constraint);
criterion_main!(benches);
