//! What it prints, how it ends.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::serving::{Server, program};

fn run(words: &[&str]) -> Output {
    program(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn start(words: &[&str]) -> Server {
    Server::start(program(words))
}

#[cfg(unix)]
fn send(server: &Server, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn what_is_printed_goes_to_stdout_and_is_no_error() {
    for (words, wanted) in [
        (&["--help"] as &[&str], "usage: bloomery-serve"),
        (&["-h"], "usage: bloomery-serve"),
        (&["--usage"], "usage: bloomery-serve"),
        (&["--version"], "bloomery-serve "),
        (&["--list-devices"], "CPU: "),
        (&["--completion-bash"], "complete -o filenames"),
        (&["--plan", "-c", "512", "-np", "2"], "KV cache 1.00 MiB (2 x 256 positions"),
        (&["--dry-run", "-ngl", "0"], "of 16 experts on the CPU"),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(wanted), "{words:?}: {}", text(&output.stdout));
    }
}

#[test]
fn exit_codes_tell_what_is_wrong() {
    let broken = temporary("broken.gguf");
    fs::write(&broken, b"GGUF\x03\0\0\0 and nothing that makes sense").unwrap();
    let broken = broken.to_str().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (words, code, wanted) in [
        (&["--frobnicate"] as &[&str], 64, "error: invalid argument: --frobnicate\n"),
        (&["--prot", "1"], 64, "error: invalid argument: --prot\ndid you mean --port?\n"),
        (&["-c", "many"], 64, "error: -c many: expected a whole number from 0\n"),
        (&["--rpc", "a:1"], 64, "error: --rpc: "),
        (&["-m", "no/such.gguf"], 66, "error: -m no/such.gguf: no such file\n"),
        (&["--plan", "-m", broken], 66, broken),
        (&["--port", "0", "-m", broken], 66, broken),
        (&["--plan", "-c", "2000000000"], 69, "does not fit host memory"),
        (&["--port", "0", "-c", "2000000000"], 69, "KV cache"),
        (&["--port", &port], 69, &port),
        (&["--port", "0", "--log-file", "no/such/folder/x.log"], 74, "error: --log-file: "),
    ] {
        let output = run(words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(wanted), "{words:?}: {stderr}");
    }
}

#[test]
fn the_environment_is_read() {
    let output = program(&["--plan"])
        .env("LLAMA_ARG_CTX_SIZE", "512")
        .env("LLAMA_ARG_N_PARALLEL", "1")
        .output()
        .unwrap();
    assert!(text(&output.stdout).contains("1 x 512 positions"), "{output:?}");
    let output = program(&["--plan"]).env("LLAMA_ARG_PORT", "x").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}

#[cfg(unix)]
#[test]
fn one_signal_stops_it_in_order() {
    use rustix::process::Signal;
    for signal in [Signal::TERM, Signal::INT] {
        let server = start(&["--port", "0"]);
        server.wait_ready();
        let began = Instant::now();
        send(&server, signal);
        let address = server.address.clone();
        let (code, log) = server.wait();
        assert_eq!(code, Some(0), "{log}");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(log.contains(": stopping"), "{log}");
        assert!(TcpStream::connect(address).is_err(), "the port is free");
    }
}

#[cfg(unix)]
#[test]
fn a_second_signal_stops_it_at_once() {
    use rustix::process::Signal;
    let server = start(&["--port", "0"]);
    server.wait_ready();
    // A request that never ends keeps the orderly stop waiting.
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    send(&server, Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    send(&server, Signal::TERM);
    let (code, log) = server.wait();
    assert_eq!(code, Some(1), "{log}");
}

#[cfg(unix)]
#[test]
fn logs_go_where_they_should() {
    use rustix::process::Signal;
    let file = temporary("serve.log");
    let _ = fs::remove_file(&file);
    let server = start(&["--port", "0", "--log-format", "json", "--log-file", file.to_str().unwrap()]);
    server.wait_ready();
    send(&server, Signal::TERM);
    let (_, log) = server.wait();
    let written = fs::read_to_string(&file).unwrap();
    for line in log.lines().chain(written.lines()) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string());
    }
    assert!(written.contains("is ready: 4 slots of 1024 tokens"), "{written}");

    let quiet = start(&["--port", "0", "--log-disable"]);
    quiet.wait_ready();
    send(&quiet, Signal::TERM);
    assert_eq!(quiet.wait(), (Some(0), String::new()), "only the address is told");
}

#[test]
fn what_has_no_effect_is_said_when_it_starts() {
    let output = run(&["--plan", "-ngl", "99", "--mlock", "-fa"]);
    let stderr = text(&output.stderr);
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
    assert!(stderr.contains("--mlock: no effect: replaced by --load-mode"), "{stderr}");
}
