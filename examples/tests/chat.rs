//! `bloomery-chat` from outside: what it prints, and how it ends.

#[expect(dead_code, reason = "every test binary uses a part of this")]
#[cfg(test)]
mod support;

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use support::{CHAT, Folder, demo, run, run_with, spawn};

#[test]
fn usage_errors_end_with_64_and_help_with_0() {
    run(CHAT, &["--nosuch"]).refused(64, "--nosuch");
    run(CHAT, &["--temp", "warm"]).refused(64, "--temp");
    run(CHAT, &["-n"]).refused(64, "--predict");
    run(CHAT, &["--temp", "inf", "hello"]).refused(64, "temperature");
    run(CHAT, &["-t", "0", "hello"]).refused(64, "--threads 0");
    run(CHAT, &["-c", "-1", "hello"]).refused(64, "--ctx-size");
    run(CHAT, &["--place", "moon", "hello"]).refused(64, "moon");
    run(CHAT, &["-ctk", "q3_k", "hello"]).refused(64, "q3_k");
    run(CHAT, &["-ctk", "f16", "-ctv", "q8_0", "hello"]).refused(64, "--cache-type-v q8_0");
    run(CHAT, &["--chat-template-kwargs", "[1]", "hello"]).refused(64, "--chat-template-kwargs");
    assert!(run(CHAT, &["--help"]).fine().contains("--repeat-penalty"));
    assert!(run(CHAT, &["--version"]).fine().starts_with("bloomery-chat "));
}

#[test]
fn unusable_files_end_with_66_and_are_named() {
    let folder = Folder::new();
    let missing = folder.path("missing.gguf");
    run(CHAT, &["-m", &missing, "hello"]).refused(66, &missing);
    let truncated = folder.truncated_model();
    run(CHAT, &["-m", &truncated, "hello"]).refused(66, &truncated);
    let unknown = folder.unknown_model();
    run(CHAT, &["-m", &unknown, "hello"]).refused(66, "abacus");
    let text = folder.write("text.gguf", b"not a model");
    run(CHAT, &["-m", &text, "hello"]).refused(66, &text);
    let template = folder.write("bad.jinja", b"{% if %}");
    run(CHAT, &["--chat-template-file", &template, "hello"]).refused(66, &template);
}

#[test]
fn a_context_that_does_not_fit_ends_with_69() {
    run(CHAT, &["-c", "100000000000", "hello"]).refused(69, "KV cache");
}

#[test]
fn a_prompt_longer_than_the_context_ends_with_65() {
    run(CHAT, &["-c", "16", "Tell me a story about a fox and a hen and a girl and a golden key."])
        .refused(65, "16");
}

#[test]
fn one_prompt_prints_the_story_only_and_twice_the_same() {
    let words = ["--temp", "0", "-n", "24", "Tell", "me", "a", "story", "about", "a", "fox."];
    let story = run(CHAT, &words).fine();
    assert!(story.split_whitespace().count() > 8 && story.ends_with('\n'), "{story:?}");
    assert_eq!(run(CHAT, &words).fine(), story);
    let file = demo();
    let words =
        ["-m", file.to_str().unwrap(), "--temp", "0", "-n", "24", "-p", "Tell me a story about a fox."];
    assert_eq!(run(CHAT, &words).fine(), story, "the built-in model is the same as the file");
}

#[test]
fn seeds_decide_what_is_drawn() {
    let draw = |seed| run(CHAT, &["-s", seed, "-n", "24", "Tell me a story."]).fine();
    assert_eq!(draw("7"), draw("7"));
    assert_ne!(draw("7"), draw("8"));
}

#[test]
fn verbose_puts_plan_and_timings_on_stderr() {
    let ran = run(CHAT, &["-v", "--temp", "0", "-n", "4", "hello"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("KV cache") && ran.stderr.contains("tokens/s"), "{ran:?}");
    assert_eq!(ran.stdout, run(CHAT, &["--temp", "0", "-n", "4", "hello"]).fine());
}

#[test]
fn piped_lines_are_a_conversation() {
    let words = ["--temp", "0", "-n", "12"];
    let one = run(CHAT, &[&words[..], &["Tell me a story about a fox."]].concat()).fine();
    let story = "Tell me a story about a fox.\n";
    assert_eq!(run_with(CHAT, &words, story).fine(), one);
    assert_eq!(
        run_with(CHAT, &words, &format!("\n{story}/clear\n{story}/quit\n{story}")).fine(),
        format!("{one}{one}")
    );
    let remembered = run_with(CHAT, &words, &format!("{story}{story}")).fine();
    assert!(
        remembered.starts_with(&one) && remembered != format!("{one}{one}"),
        "the second answer follows the first"
    );
}

#[test]
fn a_full_context_says_so_and_clear_goes_on() {
    let words = ["--temp", "0", "-c", "48", "--ignore-eos"];
    let ran = run_with(CHAT, &words, "Tell me a story.\nAnother story.\n/clear\nTell me a story.\n");
    assert_eq!(ran.code, Some(65), "a message was not answered: {ran:?}");
    assert_eq!(
        ran.stderr.matches("the context of 48 tokens is full: /clear starts over").count(),
        2,
        "{ran:?}"
    );
    let stories: Vec<&str> = ran.stdout.split_terminator('\n').collect();
    assert_eq!(stories[..stories.len() / 2], stories[stories.len() / 2..], "{ran:?}");
}

#[test]
fn a_file_without_a_template_continues_text() {
    let folder = Folder::new();
    let model = folder.model_without_template();
    let words = ["-m", &model, "--temp", "0", "-n", "8"];
    let ran = run_with(CHAT, &words, "Once upon a time there was\na little fox\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stderr.matches("no chat template").count(), 1, "{ran:?}");
    let one = run(CHAT, &[&words[..], &["Once upon a time there was"]].concat());
    assert!(ran.stdout.starts_with(&one.stdout) && ran.stdout.len() > one.stdout.len(), "{ran:?} {one:?}");
}

#[test]
fn templates_and_system_messages_reach_the_model() {
    let folder = Folder::new();
    let template =
        folder.write("t.jinja", b"{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}{{ x }}");
    let base = ["--temp", "0", "-n", "8", "--chat-template-file", &template];
    let plain = run(CHAT, &[&base[..], &["hello"]].concat()).fine();
    let system = run(CHAT, &[&base[..], &["-sys", "You are a pirate.", "hello"]].concat()).fine();
    let variable =
        run(CHAT, &[&base[..], &["--chat-template-kwargs", r#"{"x": "The fox"}"#, "hello"]].concat()).fine();
    assert!(plain != system && plain != variable && system != variable);
    let refusing = folder.write("r.jinja", b"{{ raise_exception('system first') }}");
    run(CHAT, &["--chat-template-file", &refusing, "hello"]).refused(65, "system first");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = spawn(CHAT, &["--temp", "0", "--ignore-eos", "Tell me a story."], Stdio::null());
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[cfg(unix)]
#[cfg(test)]
mod interrupts {
    use super::*;

    /// Waits for the first byte of an answer, then presses Ctrl-C.
    fn interrupt_answer(child: &mut Child) {
        let mut first = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    #[test]
    fn ctrl_c_stops_the_answer_and_not_the_conversation() {
        let mut child = spawn(CHAT, &["--temp", "0", "--ignore-eos", "-c", "1000"], Stdio::piped());
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"Tell me a story.\n").unwrap();
        interrupt_answer(&mut child);
        stdin.write_all(b"/clear\n/quit\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    }

    #[test]
    fn ctrl_c_ends_a_single_answer_with_130() {
        let mut child =
            spawn(CHAT, &["--temp", "0", "--ignore-eos", "-c", "1000", "Tell me a story."], Stdio::null());
        interrupt_answer(&mut child);
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    }
}
