//! Requests into tokens and spans.

use serde_json::json;

use super::fixture::{CASES, Case, tokenizer};
use crate::decide::encode::encode;
use crate::decide::{DecideError, Json, Prompt, Question, QuestionError};

#[test]
fn tokens_and_spans_are_those_of_the_release() {
    let tokenizer = tokenizer();
    for case in CASES.map(Case::read) {
        let prompt = case.prompt(&tokenizer);
        assert_eq!(json!(prompt.tokens), case.expected["input_ids"], "{}", case.name);
        let questions = case.expected["questions"].as_array().unwrap();
        assert_eq!(prompt.fields.len(), questions.len());
        for (field, expected) in prompt.fields.iter().zip(questions) {
            assert_eq!(json!(field.question.id), expected["id"]);
            assert_eq!(json!(field.question.criteria.name()), expected["type"]);
            assert_eq!(json!([field.span.start, field.span.end]), expected["span"]);
            let spans: Vec<_> =
                field.options.iter().map(|option| [option.span.start, option.span.end]).collect();
            assert_eq!(json!(spans), expected["option_spans"]);
            let ids: Vec<_> = field.options.iter().map(|option| &option.id).collect();
            assert_eq!(json!(ids), expected["option_ids"]);
        }
        assert_eq!(prompt.cut > 0, case.name == "truncated");
    }
}

fn prompt(state: &str, limit: usize) -> Result<Prompt, DecideError> {
    let questions =
        [Question::score("s", "Level?", ["low", "high"]), Question::noul("n", "Is it <think> true?")];
    encode(&tokenizer(), &Json::from(state), &questions, limit)
}

#[test]
fn the_state_loses_its_end() {
    // A token of several characters, and one of which several make a character: cuts may part both.
    let state = "technical \u{1F642}\u{1F642} technical";
    let whole = prompt(state, 16_384).unwrap();
    let empty = prompt("", 16_384).unwrap();
    assert_eq!((empty.cut, whole.cut), (0, 0));
    let length = whole.tokens.len() - empty.tokens.len();
    let start = whole.tokens.iter().zip(&empty.tokens).take_while(|(a, b)| a == b).count();
    assert!(length > 6, "{length}");
    for kept in 0..=length {
        let part = prompt(state, empty.tokens.len() + kept).unwrap();
        assert_eq!(part.cut, length - kept);
        assert_eq!(part.tokens[..start + kept], whole.tokens[..start + kept]);
        assert_eq!(part.tokens[start + kept..], empty.tokens[start..]);
        for (part, empty) in part.fields.iter().zip(&empty.fields) {
            assert_eq!(part.span, empty.span.start + kept..empty.span.end + kept);
            for (part, empty) in part.options.iter().zip(&empty.options) {
                assert_eq!(part.span, empty.span.start + kept..empty.span.end + kept);
            }
        }
    }
    let limit = empty.tokens.len() - 1;
    let error = prompt(state, limit).unwrap_err();
    let wanted = format!("schema requires {} tokens before state; maximum is {limit}", limit + 1);
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn special_tokens_in_texts_are_tokens() {
    let tokenizer = tokenizer();
    let field = &prompt("x", 16_384).unwrap().fields[1];
    let think = tokenizer.id("<think>").unwrap();
    let prompt = prompt("x", 16_384).unwrap();
    assert!(prompt.tokens[field.span.clone()].contains(&think));
}

fn read(text: &str) -> Result<Vec<Question>, QuestionError> {
    Question::from_json(&Json::parse(text).unwrap())
}

#[test]
fn questions_that_cannot_be_asked() {
    let many = |count: usize| {
        let options: Vec<String> = (0..count).map(|index| format!("\"o{index}\":null")).collect();
        format!("{{\"q\":{{\"type\":\"choice\",\"criteria\":{{{}}}}}}}", options.join(","))
    };
    for (text, wanted) in [
        ("[]", "\"questions\" must be a non-empty object"),
        ("{}", "\"questions\" must be a non-empty object"),
        ("{\"q\":1}", "questions.q: must be an object"),
        ("{\"q\":{}}", "questions.q: \"type\" must be one of: choice, score, noul"),
        ("{\"q\":{\"type\":\"rank\"}}", "questions.q: \"type\" must be one of: choice, score, noul"),
        ("{\"q\":{\"type\":\"noul\",\"criteria\":[]}}", "questions.q: \"criteria\" must be an object"),
        ("{\"q\":{\"type\":\"choice\"}}", "questions.q: \"criteria\" must be a non-empty object"),
        (
            "{\"q\":{\"type\":\"choice\",\"criteria\":{}}}",
            "questions.q: \"criteria\" must be a non-empty object",
        ),
        (
            "{\"q\":{\"type\":\"score\",\"criteria\":[]}}",
            "questions.q: \"criteria\" must be an array of 1 to 10 levels",
        ),
        ("{\"q\":{\"type\":\"score\",\"criteria\":{\"a\":1}}}", "an array of 1 to 10 levels"),
        (&many(256), "questions.q: too many options (256), this model supports at most 255"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
    assert_eq!(read(&many(255)).unwrap()[0].criteria.options(), 255);
    let levels = |count| Question::score("s", "?", vec!["x"; count]);
    let ask = |questions: &[Question]| encode(&tokenizer(), &Json::Null, questions, 16_384).map(|_| ());
    for (questions, wanted) in [
        (vec![], "\"questions\" must be a non-empty object"),
        (vec![levels(0)], "questions.s: has no options"),
        (vec![levels(11)], "questions.s: too many options (11), this model supports at most 10"),
        (vec![levels(1), Question::noul("s", "?")], "questions.s: there are two with this id"),
        (
            vec![Question::choice("c", "?", [("a", ""), ("b", ""), ("a", "x")])],
            "questions.c: has two options \"a\"",
        ),
        (vec![Question::noul("", "")], "questions.: the instructions has no tokens"),
    ] {
        assert_eq!(ask(&questions).unwrap_err().to_string(), wanted);
    }
    ask(&[Question::noul("", "?"), levels(10)]).unwrap();
}

#[test]
fn an_empty_state_and_the_most_options() {
    let options = (0..255).map(|index| (format!("option {index}"), Json::Null));
    let question = Question::choice("c", "Which?", options);
    let prompt = encode(&tokenizer(), &Json::from(""), &[question], 16_384).unwrap();
    let field = &prompt.fields[0];
    assert_eq!(field.options.len(), 255);
    let order: Vec<usize> = field.options.iter().map(|option| option.index).collect();
    let mut sorted: Vec<usize> = (0..255).collect();
    sorted.sort_by_key(|index| format!("option {index}"));
    assert_eq!(order, sorted);
    assert!(field.options.windows(2).all(|pair| pair[0].span.end < pair[1].span.start));
}
