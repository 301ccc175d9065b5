//! `bench` from outside. What it measures is not tested, how it reports is.

#[expect(dead_code, reason = "every test binary uses a part of this")]
#[cfg(test)]
mod support;

use support::{Folder, demo, example, run};

#[test]
fn every_test_has_a_row() {
    let table =
        run(&example("bench"), &["-p", "8", "-n", "4", "-d", "0,6", "-npl", "1,2", "-r", "2", "-t", "1"])
            .fine();
    let tests: Vec<&str> = table.lines().skip(2).map(|row| row.split('|').nth(5).unwrap().trim()).collect();
    assert_eq!(tests, ["pp8", "tg4", "tg4 x2", "pp8 @ d6", "tg4 @ d6", "tg4 x2 @ d6"], "{table}");
    let model = demo();
    let table =
        run(&example("bench"), &["-m", model.to_str().unwrap(), "-p", "0", "-n", "2", "-r", "1"]).fine();
    assert!(
        table.contains("14.24 M") && table.contains("8.44 MiB") && table.contains("bloomery-demo-q4_k_m"),
        "{table}"
    );
}

#[test]
fn starts_are_timed() {
    let table = run(&example("bench"), &["--load", "-r", "1"]).fine();
    assert!(table.contains("| demo |") && table.contains("first token"), "{table}");
}

#[test]
fn refusals() {
    run(&example("bench"), &["-p", "x"]).refused(64, "--n-prompt");
    for (words, code, word) in [
        (&["-m", "/nonexistent.gguf"][..], 66, "/nonexistent.gguf"),
        (&["-m", "/nonexistent.gguf", "--load"], 66, "/nonexistent.gguf"),
        (&["-n", "100000000000"], 69, "KV cache"),
    ] {
        let ran = run(&example("bench"), words);
        assert!(ran.code == Some(code) && ran.stderr.contains(word), "{ran:?}");
    }
}

#[cfg(unix)]
#[test]
fn ratios_of_the_other_side_decide_the_exit_code() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let script = |name: &str, text: &str| {
        let path = folder.write(name, format!("#!/bin/sh\n{text}\n").as_bytes());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let model = demo();
    let bench = |program: &str, more: &[&str]| {
        let words = [
            "-m",
            model.to_str().unwrap(),
            "-p",
            "4",
            "-n",
            "2",
            "-npl",
            "1,2",
            "-r",
            "2",
            "--against",
            program,
        ];
        run(&example("bench"), &[&words[..], more].concat())
    };
    let slow = script("slow", r#"echo '[{"samples_ts": [0.001]}]'"#);
    let table = bench(&slow, &["--min-ratio", "1"]).fine();
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(table.lines().nth(2).unwrap().contains("| 0.00 |"), "{table}");
    let fast = script("fast", r#"echo '[{"samples_ts": [1e12]}]'"#);
    assert_eq!(bench(&fast, &[]).code, Some(0));
    let lost = bench(&fast, &["--min-ratio", "1"]);
    assert_eq!(lost.code, Some(1));
    assert!(
        lost.stderr.contains("pp4") && lost.stderr.contains("tg2") && lost.stdout.contains("tg2 x2"),
        "{lost:?}"
    );
    let broken = script("broken", "echo no such flag >&2; exit 3");
    let ran = bench(&broken, &[]);
    assert!(ran.code == Some(70) && ran.stderr.contains("no such flag"), "{ran:?}");
    assert_eq!(bench("/nonexistent/llama-bench", &[]).code, Some(66));
}
