use std::path::{Path, PathBuf};

use crate::support::{demo, example, run_with};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bloomery-core/tests/data/clef").join(name)
}

#[test]
fn a_ticket_goes_to_a_team() {
    let ticket = "The export fails since this morning.\n";
    let ask = |words: &[&Path]| {
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        run_with(&example("decide"), &words, ticket).fine()
    };
    let one = ask(&[&file("clef-bf16.gguf")]);
    assert!(one.starts_with("for ") && one.contains(", urgency ") && one.contains(" of 2"), "{one}");
    let two = ask(&[&file("backbone-bf16.gguf"), &file("joint_head.safetensors")]);
    assert_eq!(one, two, "the same weights in other files");
}

#[test]
fn other_models_do_not_decide() {
    let ran = run_with(&example("decide"), &[demo().to_str().unwrap()], "x");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("NoHead"), "{ran:?}");
}
