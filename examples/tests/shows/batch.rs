use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Folder, Ran, example, run, spawn};

const BATCH: [&str; 6] = ["--temp", "0", "-c", "256", "-n", "48"];

fn batch(more: &[&str]) -> Ran {
    run(&example("batch"), &[&BATCH, more].concat())
}

/// Lines of an input whose answers have very different lengths.
fn input(lines: usize) -> String {
    (0..lines)
        .map(|i| {
            let prompt = format!("Tell me a story about {} foxes.", i + 2);
            let line = json!({"id": format!("q{i}"), "prompt": prompt, "max_tokens": 1 + (i * 7) % 40});
            format!("{line}\n")
        })
        .collect()
}

fn records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn answers_have_the_order_of_the_input_and_share_steps() {
    let folder = Folder::new();
    let (questions, out) = (folder.write("in.jsonl", input(24).as_bytes()), folder.path("out.jsonl"));
    let printed = batch(&[&questions, &out]).fine();
    let answers = fs::read_to_string(&out).unwrap();
    let streams: f64 = printed.split(", ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(streams > 3.0, "{printed}");
    for (i, record) in records(&answers).iter().enumerate() {
        assert_eq!(record["id"], format!("q{i}"));
        assert!(
            record["tokens"].as_u64().unwrap() <= 1 + (i as u64 * 7) % 40 && !record["text"].is_null(),
            "{record}"
        );
        assert!(["end", "max_tokens"].contains(&record["reason"].as_str().unwrap()), "{record}");
    }
    assert_eq!(answers.lines().count(), 24);
    let alone = folder.path("alone.jsonl");
    batch(&["--parallel", "1", &questions, &alone]).fine();
    assert_eq!(fs::read_to_string(&alone).unwrap(), answers, "no answer depends on what runs beside it");
}

#[test]
fn an_interrupted_batch_goes_on_where_it_was() {
    let folder = Folder::new();
    let (questions, out) = (folder.write("in.jsonl", input(60).as_bytes()), folder.path("out.jsonl"));
    let whole = folder.path("whole.jsonl");
    batch(&[&questions, &whole]).fine();
    let whole = fs::read_to_string(whole).unwrap();

    let mut child = spawn(
        &example("batch"),
        &[&BATCH[..], &["--parallel", "2", &questions, &out]].concat(),
        Stdio::null(),
    );
    let start = Instant::now();
    while fs::metadata(&out).map_or(0, |facts| facts.len()) == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "no answer in a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    // What is there is kept as it is, here with a change; a line that was cut off is answered again.
    let begun = fs::read_to_string(&out).unwrap();
    let done = begun.lines().count();
    assert!(done < 60 && whole.starts_with(&begun), "{begun}");
    let marked = begun.replacen("\"id\":\"q0\"", "\"id\":\"q0\",\"kept\":true", 1);
    fs::write(&out, format!("{marked}{{\"id\":\"q{done}\",\"te")).unwrap();
    batch(&[&questions, &out]).fine();
    let resumed = fs::read_to_string(&out).unwrap();
    assert!(resumed.contains("\"kept\":true"), "{resumed}");
    assert_eq!(resumed.replacen(",\"kept\":true", "", 1), whole);
    assert!(batch(&[&questions, &out]).fine().starts_with("0 tokens"), "nothing is left to do");
}

#[test]
fn bad_lines_are_reported_by_number_and_the_others_answered() {
    let folder = Folder::new();
    let long = json!({"id": "long", "prompt": "a fox and a hen ".repeat(200)});
    let lines = [
        r#"{"id": "a", "prompt": "Tell me a story."}"#,
        r#"{"id": "b", "prompt": "#,
        r#"{"id": "a", "prompt": "Tell me a story."}"#,
        &long.to_string(),
        "",
        r#"{"id": "c", "prompt": "hello", "temprature": 1}"#,
        r#"{"id": "d", "prompt": "Tell me a story.", "system": "Be brief."}"#,
    ];
    let (questions, out) = (folder.write("in.jsonl", lines.join("\n").as_bytes()), folder.path("out.jsonl"));
    let ran = batch(&[&questions, &out]);
    assert_eq!(ran.code, Some(65), "{ran:?}");
    let reported: Vec<&str> = ran.stderr.lines().collect();
    for (report, words) in reported.iter().zip([
        ["line 2: ", "EOF"],
        ["line 3: ", "\"a\" came before"],
        ["line 4: ", "256"],
        ["line 5: ", "EOF"],
        ["line 6: ", "temprature"],
        ["batch: error: ", "bad lines: 5"],
    ]) {
        assert!(words.iter().all(|word| report.contains(word)), "{words:?}: {ran:?}");
    }
    assert_eq!(reported.len(), 6, "{ran:?}");
    let ids: Vec<Value> =
        records(&fs::read_to_string(&out).unwrap()).iter().map(|record| record["id"].clone()).collect();
    assert_eq!(ids, ["a", "d"]);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = Folder::new();
    let (missing, out) = (folder.path("missing.jsonl"), folder.path("out.jsonl"));
    batch(&[&missing, &out]).refused(66, "missing.jsonl");
    let questions = folder.write("in.jsonl", input(1).as_bytes());
    let notes = folder.write("notes.txt", b"precious\nnotes");
    batch(&[&questions, &notes]).refused(65, "notes.txt, line 1");
    assert_eq!(fs::read(&notes).unwrap(), b"precious\nnotes", "and left alone");
    batch(&[&questions, &folder.path("nowhere/out.jsonl")]).refused(74, "nowhere");
    batch(&["--parallel", "0", &questions, &out]).refused(64, "sessions");
}
