//! The recorded choices of experts that residency is tested on, made again.

#![expect(clippy::unwrap_used, reason = "a recording that cannot be made fails its test")]

use std::fs;
use std::path::PathBuf;

use bloomery_core::sampling::Seed;
use bloomery_core::{Context, Conversation, Engine, Logits, ModelSource, Params, Placement, Turn};

const TOPICS: [&str; 16] = [
    "a fox",
    "a boat",
    "the moon",
    "a birthday",
    "a dragon",
    "rain",
    "a lost dog",
    "a garden",
    "two sisters",
    "a robot",
    "snow",
    "a king",
    "a train",
    "a cake",
    "the sea",
    "a brave mouse",
];

fn recording() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", "traces", "stories.bin"].iter().collect()
}

/// A byte for each layer of each generated token: its two experts, four bits each, the likelier one lower.
fn record(topics: &[&str]) -> Vec<u8> {
    let builder =
        Engine::builder(ModelSource::demo()).context(Context::Tokens(512)).placement(Placement::Cpu);
    let engine = builder.plan().unwrap().load(|_| {}).unwrap();
    let mut bytes = Vec::new();
    for (seed, topic) in (0..).zip(topics) {
        let mut params = Params { max_tokens: Some(320), ..engine.default_params() };
        params.sampling.seed = Seed::Fixed(seed);
        let mut chat = Conversation::new();
        chat.user(&format!("Tell me a story about {topic}."));
        let mut session = engine.session().unwrap();
        let mut answer = chat.answer(&mut session, &params).unwrap();
        answer.by_ref().for_each(|piece| drop(piece.unwrap()));
        let prompt = answer.prompt_len();
        let tokens = session.tokens().to_vec();
        session.truncate(0).unwrap();
        let mut turn = [Turn::new(&mut session, &tokens, Logits::All).traced()];
        engine.step(&mut turn).unwrap();
        for row in prompt..tokens.len() {
            for (used, experts) in turn[0].routes() {
                assert_eq!(*used, 2);
                bytes.push((experts[2 * row] | experts[2 * row + 1] << 4) as u8);
            }
        }
    }
    bytes
}

#[test]
fn the_recorded_choices_are_those_of_the_demo_model() {
    let known = fs::read(recording()).unwrap();
    let first = record(&TOPICS[..2]);
    assert!(first.len() > 400, "{}", first.len());
    assert!(known.starts_with(&first));
}

#[test]
#[ignore = "writes the recording"]
fn record_the_choices() {
    fs::write(recording(), record(&TOPICS)).unwrap();
}
