use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use crate::support::{Folder, example, run, run_with, spawn};

/// Reads up to the line that says how an answer ended; returns the answer and that line.
fn answer(stdout: &mut BufReader<ChildStdout>) -> (String, String) {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended after {text:?}");
        if line.starts_with('[') && line.ends_with("frames]\n") {
            return (text, line);
        }
        text += &line;
    }
}

/// Asks, waits for the first words, and stops. Returns how the answer ended.
fn stopped(stdin: &mut ChildStdin, stdout: &mut BufReader<ChildStdout>) -> String {
    stdin.write_all(b"Tell me a story about a fox and a hen.\n").unwrap();
    let mut first = [0];
    stdout.read_exact(&mut first).unwrap();
    stdin.write_all(b"/stop\n").unwrap();
    answer(stdout).1
}

#[test]
fn questions_are_a_conversation_and_the_end_of_the_input_waits_for_the_last_answer() {
    let printed = run_with(&example("desktop"), &[], "Tell me a story.\nAnd another story.\n").fine();
    assert!(printed.starts_with("[qwen3moe: "), "{printed}");
    assert_eq!(printed.matches(" frames]").count(), 2, "{printed}");
    assert!(printed.split_whitespace().count() > 20, "{printed}");
}

#[test]
fn stop_ends_an_answer_and_not_the_conversation() {
    let mut child = spawn(&example("desktop"), &[], Stdio::piped());
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    // The model is still loading when the button is pressed, so that no token is generated.
    stdin.write_all(b"Tell me a story.\n/stop\n").unwrap();
    let (text, how) = answer(&mut stdout);
    assert!(how.starts_with("[Cancelled, 0 tokens"), "{text}{how}");
    // Whether a story ends by itself before it is stopped is a matter of luck, five times it is not.
    let cancelled = (0..5).any(|_| stopped(&mut stdin, &mut stdout).starts_with("[Cancelled, "));
    assert!(cancelled);
    stdin.write_all(b"Tell me a story about a hen.\n/quit\n").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
}

#[test]
fn a_model_that_cannot_be_loaded_closes_the_window() {
    let missing = Folder::new().path("missing.gguf");
    let mut child = spawn(&example("desktop"), &[&missing], Stdio::piped());
    let _open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("missing.gguf"));
    assert_eq!(run(&example("desktop"), &[]).code, Some(0), "no input, no question");
}
