//! The files of tests/data/clef, as far as they need no trunk.

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use bloomery_gguf::Gguf;
use bloomery_kernels::cpu::Isa;
use serde_json::Value;

use crate::decide::head::{Dims, HeadFiles, HeadPlan};
use crate::decide::seat::Seat;
use crate::decide::{Json, Prompt, Question};
use crate::tokenizer::Tokenizer;

pub(super) const CASES: [&str; 7] = ["mixed", "plain", "one", "many", "lenient", "numbers", "truncated"];

pub(super) fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", "clef", name].iter().collect()
}

pub(super) fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

pub(super) fn gguf(name: &str) -> Arc<Gguf> {
    Arc::new(Gguf::open(path(name)).unwrap())
}

pub(super) fn tokenizer() -> Tokenizer {
    Tokenizer::from_metadata(gguf("clef-bf16.gguf").metadata()).unwrap()
}

/// One case of expected.json.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) expected: Value,
    pub(super) request: Json,
}

impl Case {
    pub(super) fn read(name: &'static str) -> Self {
        let all: Value = serde_json::from_str(&text("expected.json")).unwrap();
        let request = Json::parse(text(&format!("request-{name}.json")).trim()).unwrap();
        Self { name, expected: all["cases"][name].clone(), request }
    }

    pub(super) fn prompt(&self, tokenizer: &Tokenizer) -> Prompt {
        let questions = Question::from_json(self.request.get("questions").unwrap()).unwrap();
        let limit = self.expected["max_length"].as_u64().unwrap() as usize;
        crate::decide::encode::encode(tokenizer, self.request.get("state").unwrap(), &questions, limit)
            .unwrap()
    }

    pub(super) fn hidden(&self) -> Vec<f32> {
        let bytes = fs::read(path(&format!("hidden-{}.f32", self.name))).unwrap();
        bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
    }

    /// The numbers of every question's `key`, in the order of the prompt.
    pub(super) fn numbers(&self, key: &str) -> Vec<Vec<f64>> {
        let list = |value: &Value| value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        self.expected["questions"].as_array().unwrap().iter().map(|question| list(&question[key])).collect()
    }
}

pub(super) fn dims() -> Dims {
    Dims { hidden: 64, width: 32, feed_forward: 48, heads: 4, routing: 2, decoder: 2 }
}

/// A seat of one of the files: the backbone's head is in files of its own.
pub(super) fn seat(name: &str, threads: usize) -> Seat {
    let gguf = gguf(name);
    let files = HeadFiles { weights: path("joint_head.safetensors"), config: None };
    let files = name.starts_with("backbone").then_some(&files);
    let plan = HeadPlan::find(&gguf, 64, files).unwrap().unwrap();
    assert_eq!(plan.dims, dims());
    Seat::load(&plan, &gguf, NonZeroUsize::new(threads).unwrap(), Isa::detect()).unwrap()
}
