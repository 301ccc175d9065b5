use crate::support::{Folder, demo, example, run};

#[test]
fn plans_are_printed_term_by_term_and_the_longest_context_is_loaded() {
    let printed = run(&example("placement"), &[]).fine();
    for word in ["auto: ", "cpu: the CPU", "cuda0: ", "KV cache", "of", "read a token", "a card of 24 GiB: "]
    {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    assert!(
        printed.contains("loading 1024 positions with F16") && printed.contains("loaded on the CPU"),
        "{printed}"
    );
}

#[test]
fn less_memory_is_a_smaller_cache_and_too_little_a_refusal_with_its_terms() {
    let (file, place) = (demo(), example("placement"));
    let run = |mib: u64| run(&place, &[file.to_str().unwrap(), &mib.to_string()]);
    let plenty = run(1000).fine();
    let cpu = &plenty[plenty.find("\ncpu: ").unwrap()..];
    let sum = cpu.lines().find_map(|line| line.trim().strip_prefix("sum")).unwrap();
    let sum: f64 = sum.trim().split(" MiB").next().unwrap().parse().unwrap();
    let less = run(sum as u64 - 1).fine();
    assert!(less.contains(&format!("1024 positions, F16: {sum:.2} MiB needed")), "{less}");
    assert!(less.contains(" positions with Q8_0") && less.contains("loaded on the CPU"), "{less}");
    let refused = run(1);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("does not fit host memory") && refused.stderr.contains("KV cache"),
        "{refused:?}"
    );
    assert!(
        refused.stdout.contains("256 positions, F16: ") && !refused.stdout.contains("loading"),
        "{refused:?}"
    );
}

#[test]
fn words_that_make_no_sense_are_errors() {
    let missing = Folder::new().path("missing.gguf");
    let ran = run(&example("placement"), &[&missing]);
    assert!(ran.code == Some(1) && ran.stderr.contains("missing.gguf"), "{ran:?}");
    assert_eq!(run(&example("placement"), &[&missing, "much"]).code, Some(1));
}
