//! Text to ids and back with Qwen3's vocabulary, beside the tokenizers crate, on one thread. Both build their tables from
//! what is in memory already: arrays of a GGUF file here, the text of a tokenizer.json there. Its normalisation to NFC is
//! left out, as llama.cpp and this project leave it out. It keeps the ids of words that it has seen; this project does not.

use bloomery_benches::{Criterion, OURS, Qwen3, criterion};
use bloomery_core::tokenizer::{Specials, Tokenizer};
use criterion::{BenchmarkId, Throughput, criterion_group, criterion_main};
use serde_json::{Map, Value, json};

const RIVAL: &str = "tokenizers";
const PROSE: &str = include_str!("../docs/architecture.md");
const CODE: &str = include_str!("../bloomery-core/src/tokenizer/mod.rs");
const SCRIPTS: &str = "대장간의 불은 밤새 꺼지지 않았다. 여우는 숲의 가장자리에서 망치 소리를 들었다.\n\
    铁匠的炉火整夜没有熄灭。狐狸在树林边上听见了锤子的声音。\n\
    Огонь в кузнице не гас всю ночь. Лиса слышала стук молота с опушки леса.\n\
    ظلت نار الحدادة مشتعلة طوال الليل، وسمع الثعلب صوت المطرقة من طرف الغابة.\n\
    鍛冶場の火は一晩中消えなかった。狐は森の端で槌の音を聞いた。🦊🔥\n";

/// What Qwen3's tokenizer.json says, with the same rule for words.
fn rival(qwen3: &Qwen3) -> String {
    let words = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let plain = 256 + qwen3.merges.len();
    let vocabulary: Map<String, Value> =
        qwen3.tokens[..plain].iter().cloned().zip((0..).map(|id: u32| Value::from(id))).collect();
    let added = qwen3.tokens.iter().zip(&qwen3.kinds).enumerate().skip(plain).map(|(id, (token, kind))| {
        json!({"id": id, "content": token, "special": *kind == 3, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false})
    });
    let split =
        json!({"type": "Split", "pattern": {"Regex": words}, "behavior": "Isolated", "invert": false});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": added.collect::<Vec<Value>>(),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes]},
        "decoder": bytes,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": qwen3.merges},
    })
    .to_string()
}

fn loading(criterion: &mut Criterion, qwen3: &Qwen3, json: &str) {
    let mut group = criterion.benchmark_group("tokenizer loading");
    group.sample_size(10);
    group.bench_function(BenchmarkId::new(OURS, "Qwen3"), |bencher| bencher.iter(|| qwen3.tokenizer()));
    group.bench_function(BenchmarkId::new(RIVAL, "Qwen3"), |bencher| bencher.iter(|| read(json)));
    group.finish();
}

fn read(json: &str) -> tokenizers::Tokenizer {
    json.parse().expect("the form is that of a tokenizer.json")
}

fn encoding(criterion: &mut Criterion, ours: &Tokenizer, theirs: &tokenizers::Tokenizer) {
    let scripts = SCRIPTS.repeat(8);
    let mut group = criterion.benchmark_group("tokenizer encoding");
    for (name, text) in [("prose", PROSE), ("code", CODE), ("other scripts", &scripts)] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        let ids = ours.encode(text, Specials::Parse).expect("a short text");
        let others = theirs.encode_fast(text, false).expect("any text can be encoded");
        assert_eq!(ids, others.get_ids(), "{name}: the same work");
        group.bench_function(BenchmarkId::new(OURS, name), |bencher| {
            bencher.iter(|| ours.encode(text, Specials::Parse).expect("a short text").len());
        });
        group.bench_function(BenchmarkId::new(RIVAL, name), |bencher| {
            bencher.iter(|| theirs.encode_fast(text, false).expect("any text can be encoded").len());
        });
    }
    group.finish();
}

fn decoding(criterion: &mut Criterion, ours: &Tokenizer, theirs: &tokenizers::Tokenizer) {
    let ids = ours.encode(PROSE, Specials::Parse).expect("a short text");
    let mut group = criterion.benchmark_group("tokenizer decoding");
    group.throughput(Throughput::Elements(ids.len() as u64));
    assert_eq!(ours.decode(&ids, true), theirs.decode(&ids, false).expect("ids of the vocabulary"));
    group.bench_function(BenchmarkId::new(OURS, "whole"), |bencher| {
        bencher.iter(|| ours.decode(&ids, true).len());
    });
    group.bench_function(BenchmarkId::new(RIVAL, "whole"), |bencher| {
        bencher.iter(|| theirs.decode(&ids, false).expect("ids of the vocabulary").len());
    });
    group.bench_function(BenchmarkId::new(OURS, "token by token"), |bencher| {
        bencher.iter(|| {
            let mut stream = ours.detokenizer(true);
            ids.iter().map(|id| stream.push(*id).len()).sum::<usize>()
        });
    });
    group.bench_function(BenchmarkId::new(RIVAL, "token by token"), |bencher| {
        bencher.iter(|| {
            let mut stream = theirs.decode_stream(false);
            let piece = |id| stream.step(id).expect("an id of the vocabulary").map_or(0, |piece| piece.len());
            ids.iter().copied().map(piece).sum::<usize>()
        });
    });
    group.finish();
}

fn tokenizer(criterion: &mut Criterion) {
    let qwen3 = Qwen3::read();
    let json = rival(&qwen3);
    let (ours, theirs) = (qwen3.tokenizer(), read(&json));
    encoding(criterion, &ours, &theirs);
    decoding(criterion, &ours, &theirs);
    loading(criterion, &qwen3, &json);
}

criterion_group!(name = benches; config = criterion(); targets = tokenizer);
criterion_main!(benches);
