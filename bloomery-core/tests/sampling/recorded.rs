//! What llama.cpp b11434 keeps of random logits; recorded by data/sampling/make_vectors.py.

use super::{assert_close, survivors};
use bloomery_core::sampling::{Breakers, Mirostat, SamplerKind, SamplingParams};
use serde_json::Value;

fn params(kind: &str, fields: &Value) -> SamplingParams {
    let float = |name: &str, default: f32| fields[name].as_f64().map_or(default, |v| v as f32);
    let int = |name: &str, default: i32| fields[name].as_i64().map_or(default, |v| v as i32);
    let d = SamplingParams::default();
    let samplers = match kind {
        "logit_bias" | "mirostat1" | "mirostat2" => Vec::new(),
        "dynatemp" => vec![SamplerKind::Temperature],
        "chain" => d.samplers.clone(),
        name => vec![SamplerKind::from_name(name).unwrap()],
    };
    let biases = fields["logit_bias"].as_array().into_iter().flatten();
    SamplingParams {
        samplers,
        mirostat: match kind {
            "mirostat1" => Mirostat::V1,
            "mirostat2" => Mirostat::V2,
            _ => Mirostat::Off,
        },
        logit_bias: biases.map(|b| (b[0].as_u64().unwrap() as u32, b[1].as_f64().unwrap() as f32)).collect(),
        temperature: float("temperature", d.temperature),
        top_k: int("top_k", d.top_k),
        top_p: float("top_p", d.top_p),
        min_p: float("min_p", d.min_p),
        typical_p: float("typical_p", d.typical_p),
        top_n_sigma: float("top_n_sigma", d.top_n_sigma),
        xtc_probability: float("xtc_probability", d.xtc_probability),
        xtc_threshold: float("xtc_threshold", d.xtc_threshold),
        dynatemp_range: float("dynatemp_range", d.dynatemp_range),
        dynatemp_exponent: float("dynatemp_exponent", d.dynatemp_exponent),
        repeat_last_n: int("repeat_last_n", d.repeat_last_n),
        repeat_penalty: float("repeat_penalty", d.repeat_penalty),
        frequency_penalty: float("frequency_penalty", d.frequency_penalty),
        presence_penalty: float("presence_penalty", d.presence_penalty),
        dry_multiplier: float("dry_multiplier", d.dry_multiplier),
        dry_base: float("dry_base", d.dry_base),
        dry_allowed_length: int("dry_allowed_length", 2) as u32,
        dry_penalty_last_n: int("dry_penalty_last_n", d.dry_penalty_last_n),
        mirostat_tau: float("mirostat_tau", d.mirostat_tau),
        adaptive_target: float("adaptive_target", d.adaptive_target),
        adaptive_decay: float("adaptive_decay", d.adaptive_decay),
        min_keep: int("min_keep", 0) as u32,
        ..d
    }
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().into_iter().flatten().map(|v| v.as_u64().unwrap() as u32).collect()
}

#[test]
fn survivors_are_those_of_llama_cpp() {
    let text = include_str!("../data/sampling/llama_cpp.json");
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(cases.len() >= 80);
    for (number, case) in cases.iter().enumerate() {
        let kind = case["kind"].as_str().unwrap();
        let params = params(kind, &case["params"]);
        let breakers = case["params"]["breakers"].as_array().into_iter().flatten().map(ids);
        let breakers = Breakers::from_sequences(breakers);
        let logits: Vec<f32> =
            case["logits"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
        let kept = case["kept"].as_array().unwrap();
        let mut expected: Vec<(u32, f64)> =
            kept.iter().map(|t| (t[0].as_u64().unwrap() as u32, t[1].as_f64().unwrap())).collect();
        let mut ours = survivors(&params, &ids(&case["history"]), &breakers, &logits);
        // where probabilities almost equal each other their order is a matter of rounding
        ours.sort_by_key(|t| t.0);
        expected.sort_by_key(|t| t.0);
        let what = format!("case {number}, {kind} {}", case["params"]);
        // a logit of up to 200 (scaled by temperature) is off by half an ulp on each side: 2 * 8e-6.
        // There the entropy is an f32 sum of up to 60 terms, so a dynamic temperature is off by 60 / 2
        // * 6e-8, times an exponent of up to 3; the probability by that times its logarithm, 20
        let relative = if kind == "dynatemp" { 1e-4 } else { 2e-5 };
        assert_close(&ours, &expected, relative, &what);
    }
}
