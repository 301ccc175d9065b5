//! The answers have the structure of those that a llama-server gave to the same requests.

use std::process::{Command, Stdio};

use crate::support::{Server, data, scratch};

#[test]
fn answers_are_built_like_llama_servers() {
    let python =
        Command::new("python3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !python.is_ok_and(|status| status.success()) {
        println!("SKIPPED: python3 is not installed, so the recorded exchanges were not compared");
        return;
    }
    // The server that was recorded guessed no tokens, and so told of none.
    let server = Server::start(&["-np", "2", "--metrics", "--slots", "--jinja", "--spec-type", "none"]);
    let directory = data("bloomery-server/tests/recorded");
    let ours = scratch("recorded-ours.json");
    let run = |script: &str, words: &[&str]| {
        let output = Command::new("python3").arg(directory.join(script)).args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.into_owned())
    };
    let (recorded, text) = run("record_api.py", &[&server.url(), ours.to_str().unwrap()]);
    assert!(recorded, "{text}");
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (reference, allowed) = (path("llama-server-demo.json"), path("allowed.txt"));
    let (same, text) = run("compare_api.py", &[&reference, ours.to_str().unwrap(), "--allow", &allowed]);
    assert!(same, "{text}");
}
