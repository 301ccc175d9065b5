//! Recorded hidden states into logits and answers.

use serde_json::Value;

use super::fixture::{CASES, Case, seat, text, tokenizer};
use crate::decide::reading::Reading;
use crate::decide::seat::Seat;
use crate::decide::{Answer, DecideError, Decision, Prompt, Question};

fn decide(seat: &Seat, prompt: &Prompt, hidden: &[f32], part: usize) -> Result<Decision, DecideError> {
    let mut reading = Reading::new(seat, prompt);
    for rows in hidden.chunks(part * seat.head.dims.hidden) {
        reading.rows(rows)?;
    }
    reading.finish()
}

/// An answer's numbers in the order of the prompt.
fn in_order<T: Copy>(prompt: &Prompt, index: usize, values: &[T]) -> Vec<T> {
    prompt.fields[index].options.iter().map(|option| values[option.index]).collect()
}

fn close(found: &[f64], expected: &[f64], bound: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= bound, "{what}: {found} where {expected} is expected");
    }
}

fn logits(prompt: &Prompt, decision: &Decision) -> Vec<Vec<f64>> {
    let answers = decision.answers.iter().enumerate();
    let row = |(index, answer): (usize, &Answer)| {
        in_order(prompt, index, &answer.logits).into_iter().map(f64::from).collect()
    };
    answers.map(row).collect()
}

#[test]
fn logits_probabilities_and_both_confidences() {
    let tokenizer = tokenizer();
    for file in ["clef-bf16.gguf", "backbone-bf16.gguf"] {
        let seat = seat(file, 2);
        let mut worst = 0.0_f64;
        // The hidden states of `many` are nearly a megabyte; tests/decide.rs has them computed.
        for case in CASES.map(Case::read).iter().filter(|case| case.name != "many") {
            let what = format!("{file} {}", case.name);
            let prompt = case.prompt(&tokenizer);
            let decision = decide(&seat, &prompt, &case.hidden(), 128).unwrap();
            let (found, expected) = (logits(&prompt, &decision), case.numbers("logits"));
            // The head in f32; the hidden states are exact. LayerNorms with another epsilon are 3e-5 off.
            for (found, expected) in found.iter().zip(&expected) {
                close(found, expected, 2e-5, &what);
                let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
                worst = off.fold(worst, f64::max);
            }
            let probabilities = case.numbers("probabilities");
            for (index, answer) in decision.answers.iter().enumerate() {
                let found = in_order(&prompt, index, &answer.probabilities());
                close(&found, &probabilities[index], 1e-5, &what);
                let recorded = &case.expected["questions"][index]["confidence"];
                for (found, key) in [(answer.confidence(), "release"), (answer.certainty(), "typesafe")] {
                    let expected = recorded.get(key).and_then(Value::as_f64);
                    assert_eq!(found.is_some(), expected.is_some(), "{what}");
                    close(&[found.unwrap_or(0.0)], &[expected.unwrap_or(0.0)], 1e-5, &what);
                }
            }
            let json: Value = serde_json::from_str(&decision.to_json().to_string()).unwrap();
            let response: Value =
                serde_json::from_str(&text(&format!("response-{}.json", case.name))).unwrap();
            same(&json, &response["answers"], 2e-4, &what);
            assert_eq!(decision.tokens as u64, response["usage"]["input_tokens"]);
            assert_eq!(decision.cut, prompt.cut);
        }
        println!("{file}: logits differ by at most {worst:.1e}");
    }
}

/// Equal but for numbers, which may differ by `bound`. The order of keys counts.
fn same(found: &Value, expected: &Value, bound: f64, what: &str) {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            assert!(a.keys().eq(b.keys()), "{what}: {found} {expected}");
            a.iter().zip(b).for_each(|((_, a), (_, b))| same(a, b, bound, what));
        }
        (Value::Number(a), Value::Number(b)) => {
            close(&[a.as_f64().unwrap()], &[b.as_f64().unwrap()], bound, what);
        }
        _ => assert_eq!(found, expected, "{what}"),
    }
}

#[test]
fn both_layouts_and_any_number_of_threads_give_the_same_bits() {
    let tokenizer = tokenizer();
    let case = Case::read("mixed");
    let (prompt, hidden) = (case.prompt(&tokenizer), case.hidden());
    let one = decide(&seat("clef-bf16.gguf", 1), &prompt, &hidden, 4096).unwrap();
    for threads in [1, 2, 3] {
        assert_eq!(decide(&seat("clef-bf16.gguf", threads), &prompt, &hidden, 4096).unwrap(), one);
    }
    let files = decide(&seat("backbone-bf16.gguf", 2), &prompt, &hidden, 4096).unwrap();
    for (a, b) in logits(&prompt, &files).iter().zip(logits(&prompt, &one)) {
        // The scales are transformed in f64 here and in f32 by the converter.
        close(a, &b, 1e-6, "layouts");
    }
}

#[test]
fn hidden_states_in_parts_of_any_size() {
    let tokenizer = tokenizer();
    let seat = seat("clef-bf16.gguf", 2);
    let case = Case::read("mixed");
    let (prompt, hidden) = (case.prompt(&tokenizer), case.hidden());
    let whole = decide(&seat, &prompt, &hidden, prompt.tokens.len()).unwrap();
    // 7 and 320 cut spans in two.
    for part in [1, 7, 128, 129, 320] {
        assert_eq!(decide(&seat, &prompt, &hidden, part).unwrap(), whole, "{part}");
    }
    let rows = hidden.len() / 64;
    for (given, found) in [(rows - 1, rows - 1), (0, 0)] {
        let error = decide(&seat, &prompt, &hidden[..given * 64], 128).unwrap_err();
        assert!(matches!(error, DecideError::Rows { expected, found: f } if (expected, f) == (rows, found)));
    }
    let more = [&hidden[..], &[0.0; 64]].concat();
    assert!(matches!(decide(&seat, &prompt, &more, 128), Err(DecideError::Rows { .. })));
    assert!(matches!(decide(&seat, &prompt, &hidden[..63], 128), Err(DecideError::Rows { .. })));
}

#[test]
fn what_is_no_number_is_an_error() {
    let tokenizer = tokenizer();
    let seat = seat("clef-bf16.gguf", 2);
    let case = Case::read("plain");
    let (prompt, hidden) = (case.prompt(&tokenizer), case.hidden());
    for bad in [f32::NAN, f32::INFINITY] {
        // Anywhere in the prompt: all options look at all of it.
        let mut hidden = hidden.clone();
        hidden[20 * 64 + 3] = bad;
        let error = decide(&seat, &prompt, &hidden, 128).unwrap_err();
        assert!(matches!(&error, DecideError::NotFinite { question, .. } if question == "tone"), "{error}");
    }
}

#[test]
fn a_quantised_head_is_what_its_values_say() {
    let tokenizer = tokenizer();
    let (seat, exact) = (seat("clef-q8_0.gguf", 2), seat("clef-bf16.gguf", 2));
    let case = Case::read("mixed");
    let (prompt, hidden) = (case.prompt(&tokenizer), case.hidden());
    let quantised = decide(&seat, &prompt, &hidden, 128).unwrap();
    let exact = decide(&exact, &prompt, &hidden, 128).unwrap();
    // Only near, because the hidden states are not those of the quantised trunk: tests/decide.rs has these.
    for (a, b) in logits(&prompt, &quantised).iter().zip(logits(&prompt, &exact)) {
        close(a, &b, 0.2, "quantised");
        assert_ne!(*a, b);
    }
}

#[test]
fn questions_see_each_other() {
    let tokenizer = tokenizer();
    let seat = seat("clef-bf16.gguf", 2);
    let case = Case::read("plain");
    let (prompt, hidden) = (case.prompt(&tokenizer), case.hidden());
    let all = decide(&seat, &prompt, &hidden, 128).unwrap();
    let mut fewer = prompt.clone();
    fewer.fields.truncate(1);
    let alone = decide(&seat, &fewer, &hidden, 128).unwrap();
    assert_ne!(all.answers[0].logits, alone.answers[0].logits);
    assert_eq!(fewer.fields[0].question, Question { ..prompt.fields[0].question.clone() });
}
