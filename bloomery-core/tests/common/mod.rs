//! The models under tests/data/models and what is known about them.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be read fails its test")]

use std::fs;
use std::path::PathBuf;

use bloomery_core::{Context, Engine, EngineBuilder, Logits, Numerics, Placement, Turn};
use serde_json::Value;

/// A model file with the logits, routes and greedy continuation of an independent engine.
pub(crate) struct Fixture {
    pub(crate) name: &'static str,
    pub(crate) ids: Vec<u32>,
    pub(crate) vocab: usize,
    /// Prompt positions whose logits are known.
    pub(crate) rows: Vec<usize>,
    pub(crate) logits: Vec<f32>,
    pub(crate) greedy: Vec<u32>,
    /// Lead of the best token over the second at every greedy step.
    pub(crate) margins: Vec<f32>,
    /// Per routed layer and position: the chosen experts, ascending. Empty for dense models.
    pub(crate) routes: Vec<Vec<Vec<u32>>>,
}

/// Those that a card runs.
pub(crate) const ON_CARD: [&str; 22] = [
    "llama-small-bf16",
    "llama-k-q8_0",
    "qwen2-k-q4_k_m",
    "qwen3-small-bf16",
    "qwen3moe-small-bf16",
    "qwen3moe-k-q3_k_m",
    "qwen3moe-k-q4_k_m",
    "gemma3-small-bf16",
    "gemma3-k-q4_k_m",
    "qwen35moe-small-bf16",
    "qwen35moe-k-q4_k_m",
    "deepseek2-small-bf16",
    "deepseek2-k-q8_0",
    "deepseek2-k-q4_k_m",
    "qwen4exp-small-bf16",
    "qwen4exp-k-q4_k_m",
    "glm5next-small-bf16",
    "glm5next-k-q4_k_m",
    "deepseek4-small-bf16",
    "deepseek4-k-q4_k_m",
    "deepseek41-small-bf16",
    "deepseek41-k-q4_k",
];

/// Every one.
pub(crate) fn all() -> impl Iterator<Item = Fixture> {
    ON_CARD.into_iter().map(Fixture::read)
}

/// Where the crate was built, or below the working directory where that is another machine.
pub(crate) fn data_path(name: &str) -> PathBuf {
    let below = |root: &str| -> PathBuf { [root, "tests", "data", name].iter().collect() };
    let built = below(env!("CARGO_MANIFEST_DIR"));
    if built.exists() { built } else { below("bloomery-core") }
}

pub(crate) fn model_path(name: &str) -> PathBuf {
    data_path(&format!("models/{name}.gguf"))
}

impl Fixture {
    pub(crate) fn read(name: &'static str) -> Self {
        let path = model_path(name);
        let json: Value = serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        let bytes = fs::read(path.with_extension("logits.f32")).unwrap();
        let numbers =
            |value: &Value| value.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect::<Vec<_>>();
        let ids = |value: &Value| numbers(value).into_iter().map(|n| n as u32).collect::<Vec<_>>();
        let mut routes: Vec<(usize, &Value)> =
            json["routes"].as_object().unwrap().iter().map(|(k, v)| (k.parse().unwrap(), v)).collect();
        routes.sort_by_key(|(layer, _)| *layer);
        Self {
            name,
            ids: ids(&json["ids"]),
            vocab: json["vocab"].as_u64().unwrap() as usize,
            rows: ids(&json["rows"]).into_iter().map(|row| row as usize).collect(),
            logits: bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            greedy: ids(&json["greedy"]),
            margins: numbers(&json["greedy_margin"]).into_iter().map(|n| n as f32).collect(),
            routes: routes.iter().map(|(_, v)| v.as_array().unwrap().iter().map(ids).collect()).collect(),
        }
    }

    pub(crate) fn builder(&self) -> EngineBuilder {
        let path = model_path(self.name);
        Engine::builder(path.as_path()).context(Context::Tokens(512)).placement(Placement::Cpu)
    }

    pub(crate) fn engine(&self, numerics: Numerics) -> Engine {
        self.builder().numerics(numerics).plan().unwrap().load(|_| {}).unwrap()
    }
}

/// Logits of every position, fed `chunk` tokens at a time.
pub(crate) fn all_logits(engine: &Engine, ids: &[u32], chunk: usize) -> Vec<f32> {
    let mut session = engine.session().unwrap();
    let mut logits = Vec::new();
    for part in ids.chunks(chunk) {
        let mut turn = [Turn::new(&mut session, part, Logits::All)];
        engine.step(&mut turn).unwrap();
        logits.extend_from_slice(turn[0].logits());
    }
    logits
}

/// Index of the largest value; the first of equals.
pub(crate) fn argmax(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).reduce(|best, i| if logits[i] > logits[best] { i } else { best });
    best.unwrap() as u32
}

/// Kullback-Leibler divergence of softmax(b) from softmax(a), in nats.
pub(crate) fn kld(a: &[f32], b: &[f32]) -> f64 {
    let log_softmax = |x: &[f32]| {
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max) as f64;
        let sum: f64 = x.iter().map(|&v| (v as f64 - max).exp()).sum();
        x.iter().map(|&v| v as f64 - max - sum.ln()).collect::<Vec<_>>()
    };
    let (p, q) = (log_softmax(a), log_softmax(b));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}

pub(crate) fn max_abs(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
