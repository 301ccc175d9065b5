//! `eval` and `generate` from outside.

#[expect(dead_code, reason = "every test binary uses a part of this")]
#[cfg(test)]
mod support;

use std::fs;

use support::{Folder, alice, demo, example, run};

/// llama-perplexity b11434 on tests/data/alice.txt with the demo model, `-c 64 -b 64` (KV cache f16).
const LLAMA_PERPLEXITY: f64 = 14.2011;

#[test]
fn usage_errors_end_with_64() {
    run(&example("eval"), &["nosuch"]).refused(64, "nosuch");
    run(&example("eval"), &["logits", "--ids", "x.json"]).refused(64, "--out");
    run(&example("eval"), &["perplexity"]).refused(64, "--file");
    run(&example("eval"), &["perplexity", "-f", "x", "-c", "2"]).refused(64, "--ctx-size");
    run(&example("eval"), &["kld"]).refused(64, "--save");
    run(&example("eval"), &["--help"]).fine();
}

#[test]
fn bad_ids_end_with_65_and_leave_no_file() {
    let folder = Folder::new();
    let out = folder.write("out.f32", b"precious");
    let logits = |ids: &str, out: &str| run(&example("eval"), &["logits", "--ids", ids, "--out", out]);
    logits(&folder.path("missing.json"), &out).refused(66, "missing.json");
    for (name, text, word) in [
        ("text.json", "hello", "text.json"),
        ("object.json", "{\"ids\": [1]}", "object.json"),
        ("negative.json", "[1, -2]", "negative.json"),
        ("float.json", "[1.5]", "float.json"),
        ("empty.json", "[]", "empty.json"),
        ("large.json", "[1, 2, 3328]", "3328"),
    ] {
        let ids = folder.write(name, text.as_bytes());
        logits(&ids, &out).refused(65, word);
        run(&example("eval"), &["routes", "--ids", &ids]).refused(65, word);
        run(&example("generate"), &["--ids", &ids]).refused(65, word);
        fs::remove_file(ids).unwrap();
    }
    assert_eq!(folder.names(), ["out.f32"], "nothing half written");
    assert_eq!(fs::read(&out).unwrap(), b"precious", "and the old file is untouched");
    let ids = folder.write("ids.json", b"[1, 2]");
    logits(&ids, &folder.path("nowhere/out.f32")).refused(74, "nowhere");
    let truncated = folder.truncated_model();
    run(&example("eval"), &["logits", "-m", &truncated, "--ids", &ids, "--out", &out])
        .refused(66, "truncated.gguf");
}

#[test]
fn logits_do_not_depend_on_chunks_and_lead_to_what_generate_says() {
    let folder = Folder::new();
    let ids = folder.write("ids.json", b"[2638, 711, 258, 561, 12, 90, 2000]");
    let logits = |more: &[&str]| {
        let out = folder.path("out.f32");
        run(&example("eval"), &[&["logits", "--ids", &ids, "--out", &out], more].concat()).fine();
        fs::read(out).unwrap()
    };
    let whole = logits(&[]);
    assert_eq!(whole.len(), 7 * 3328 * 4);
    assert!(logits(&["--chunk", "1"]) == whole && logits(&["--chunk", "3", "-t", "2"]) == whole);
    assert!(logits(&["--exact"]) != whole);
    let last: Vec<f32> = whole[6 * 3328 * 4..].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let best = (0..last.len()).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap();
    let generated =
        run(&example("generate"), &["-m", demo().to_str().unwrap(), "--ids", &ids, "-n", "5"]).fine();
    let generated: Vec<usize> = serde_json::from_str(&generated).unwrap();
    assert_eq!((generated.len(), generated[0]), (5, best));
}

/// The small DeepSeek-V4.1 continues as its reference does, and models of other kinds are refused.
#[test]
fn the_example_of_one_architecture_writes_what_its_reference_does() {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../bloomery-core/tests/data/models");
    let name = format!("{models}/deepseek41-small-bf16");
    let fixture: serde_json::Value =
        serde_json::from_slice(&fs::read(format!("{name}.json")).unwrap()).unwrap();
    let folder = Folder::new();
    let ids = folder.write("ids.json", fixture["ids"].to_string().as_bytes());
    let words = ["-m", &format!("{name}.gguf"), "--ids", &ids, "-n", "8", "--exact", "--place", "cpu"];
    let (written, told) = run(&example("generate_ds41"), &words).told();
    let written: Vec<u32> = serde_json::from_str(&written).unwrap();
    let expected: Vec<u32> = serde_json::from_value(fixture["greedy"].clone()).unwrap();
    assert_eq!(written, expected[..8]);
    assert!(told.contains("deepseek41: 7 layers") && told.contains("generation: 8 tokens"), "{told}");
    // With its draft layers the ids are the same.
    let layers = format!("{models}/dspark-deepseek41-bf16.gguf");
    let (drafted, _) = run(&example("generate_ds41"), &[&words[..], &["-md", &layers]].concat()).told();
    assert_eq!(serde_json::from_str::<Vec<u32>>(&drafted).unwrap(), expected[..8]);
    run(&example("generate_ds41"), &["-m", demo().to_str().unwrap(), "--ids", &ids]).refused(66, "qwen3moe");
}

#[test]
fn routes_are_json_by_layer() {
    let folder = Folder::new();
    let ids = folder.write("ids.json", b"[2638, 711, 258]");
    let routes: serde_json::Value =
        serde_json::from_str(&run(&example("eval"), &["routes", "--ids", &ids]).fine()).unwrap();
    let layers: Vec<&String> = routes.as_object().unwrap().keys().collect();
    assert_eq!(layers, ["0", "1", "2", "3"]);
    for rows in routes.as_object().unwrap().values() {
        let rows: Vec<Vec<u32>> = serde_json::from_value(rows.clone()).unwrap();
        assert!(
            rows.len() == 3
                && rows.iter().all(|row| row.len() == 2 && row[0] != row[1] && row[0].max(row[1]) < 16)
        );
    }
}

#[test]
fn perplexity_is_that_of_llama_perplexity() {
    let alice = alice();
    let printed = run(&example("eval"), &["perplexity", "-f", alice.to_str().unwrap(), "-c", "64"]).fine();
    let (running, last) = printed.trim_end().rsplit_once('\n').unwrap();
    let estimate = last.strip_prefix("Final estimate: PPL = ").unwrap().split_once(" +/- ").unwrap().0;
    let perplexity: f64 = estimate.parse().unwrap();
    assert!((perplexity / LLAMA_PERPLEXITY - 1.0).abs() < 0.005, "{perplexity}");
    assert!(running.starts_with("[1]") && running.ends_with(&format!("{estimate},")), "{running}");
    let first =
        run(&example("eval"), &["perplexity", "-f", alice.to_str().unwrap(), "-c", "64", "--chunks", "1"])
            .fine();
    assert!(running.starts_with(first.lines().next().unwrap()), "{first}");
    run(&example("eval"), &["perplexity", "-f", alice.to_str().unwrap(), "-c", "512"])
        .refused(65, "alice.txt");
    run(&example("eval"), &["perplexity", "-f", "/nonexistent.txt"]).refused(66, "/nonexistent.txt");
}

#[test]
fn divergence_from_itself_is_nothing_and_from_exact_numerics_little() {
    let folder = Folder::new();
    let (alice, base) = (alice(), folder.path("base.kld"));
    let short = ["-c", "64", "--chunks", "2"];
    run(
        &example("eval"),
        &[&["kld", "-f", alice.to_str().unwrap(), "--save", &base, "--exact"], &short[..]].concat(),
    )
    .fine();
    assert_eq!(fs::metadata(&base).unwrap().len(), 20 + 4 * 128 + 2 * 31 * (8 + 2 * 3328));
    let number = |printed: &str, name: &str| -> f64 {
        let line = printed.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().next().unwrap().parse().unwrap()
    };
    let equal = run(&example("eval"), &["kld", "--base", &base, "--exact"]).fine();
    assert!(number(&equal, "max KLD") < 1e-6, "{equal}");
    assert_eq!((number(&equal, "tokens"), number(&equal, "same top token")), (62.0, 100.0));
    let rounded = run(&example("eval"), &["kld", "--base", &base]).fine();
    assert!(number(&rounded, "mean KLD") > 1e-6 && number(&rounded, "mean KLD") < 0.02, "{rounded}");
    assert!((number(&rounded, "PPL ratio") - 1.0).abs() < 0.05, "{rounded}");
    let cut = folder.write("cut.kld", &fs::read(&base).unwrap()[..1000]);
    run(&example("eval"), &["kld", "--base", &cut]).refused(66, "cut.kld");
}

#[test]
fn fixtures_need_references() {
    let folder = Folder::new();
    run(&example("eval"), &["fixtures", &folder.path("none")]).refused(66, "none");
    let ran = run(&example("eval"), &["fixtures", &folder.path("")]);
    assert_eq!(ran.code, Some(66), "{ran:?}");
}
