//! The real program with `-hf`, and a hub on this machine.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../bloomery-core/tests/hub/server.rs"]
mod server;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use server::{Content, Server, Trick};
use sha2::{Digest, Sha256};

fn demo() -> Vec<Content> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bloomery-core/demo/bloomery-demo-q4_k_m.gguf");
    let bytes = fs::read(path).unwrap();
    let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    vec![Content { name: "demo-Q4_K_M.gguf".to_owned(), bytes: Arc::new(bytes), hash }]
}

fn cache(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("download-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn program(words: &[&str], hub: &str, cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bloomery-serve"));
    command.args(words).env_clear().env("HF_ENDPOINT", hub).env("HF_HUB_CACHE", cache);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running program; killed when dropped.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(words: &[&str], hub: &str, cache: &Path) -> Self {
        let mut child = program(words, hub, cache).args(["--port", "0"]).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before it listened");
        }
        let address = line.trim().rsplit("://").next().unwrap().to_owned();
        // A pipe that nobody reads would fill up.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, address }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn wait_ready(&self) {
        let start = Instant::now();
        while !self.ask("GET", "/health", "").starts_with("HTTP/1.1 200") {
            assert!(start.elapsed() < Duration::from_secs(60), "it never got ready");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_model_of_the_hub_is_downloaded_and_served() {
    let slow = |logged: &server::Logged, _: usize| Trick {
        // 9 MB in some 140 pieces: health can be asked before all is there.
        trickle: logged.range.map(|_| Duration::from_millis(10)),
        ..Trick::default()
    };
    let (hub, cache) = (Server::start(demo(), None, slow), cache("served"));
    let serving = Serving::start(&["-hf", "user/repo:q4_k_m", "--hf-token", "hf_x"], &hub.address, &cache);
    let health = serving.ask("GET", "/health", "");
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("Loading model"), "{health}");
    serving.wait_ready();
    let models = serving.ask("GET", "/v1/models", "");
    assert!(models.contains("\"id\":\"user/repo:q4_k_m\""), "{models}");
    let props = serving.ask("GET", "/props", "");
    assert!(props.contains("models--user--repo/snapshots/"), "the real path: {props}");
    let answer = serving.ask("POST", "/completion", r#"{"prompt": "Once upon a time", "n_predict": 8}"#);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"tokens_predicted\":8"), "{answer}");
    assert!(hub.log().iter().all(|logged| logged.headers["authorization"] == "Bearer hf_x"));
    let sent = hub.sent();
    drop(serving);

    let listed = program(&["--cache-list"], &hub.address, &cache).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains(": 1\n   1. user/repo:Q4_K_M (8.54 MiB)\n"), "{listed}");

    // Again, from the cache, with the hub and without.
    let plan = |words: &[&str], hub: &str| {
        let output =
            program(&[&["--plan", "-hf", "user/repo"], words].concat(), hub, &cache).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = plan(&[], &hub.address);
    assert!(code == Some(0) && text.contains("KV cache"), "{text}");
    let (code, text) = plan(&["--offline"], "http://127.0.0.1:9");
    assert!(code == Some(0) && text.contains("KV cache"), "{text}");
    assert_eq!((hub.sent(), hub.content_requests().len()), (sent, 1), "nothing came twice");
}

#[test]
fn what_is_wrong_with_a_download_ends_the_program() {
    let hub = Server::start(demo(), None, |_, _| Trick::default());
    let spoiled = Server::start(demo(), None, |_, _| Trick { spoiled: true, ..Trick::default() });
    let limited = Trick { status: Some((429, "Retry-After: 999\r\n".to_owned())), ..Trick::default() };
    let limited = Server::start(demo(), None, move |_, _| limited.clone());
    for (words, address, code, wanted) in [
        (&["-hf", "user"] as &[&str], &hub, 64, "the slash between user and repository is missing"),
        (&["-hf", "user/repo:Q8_0"], &hub, 66, "there is no model in Q8_0; there are Q4_K_M"),
        (&["-hf", "user/repo", "-hff", "x.gguf"], &hub, 66, "there is no file `x.gguf`"),
        (&["-hf", "user/repo", "--offline"], &hub, 66, "offline: user/repo is not in the cache"),
        (&["-hf", "user/repo"], &spoiled, 66, "wrong hash"),
        (&["-hf", "user/repo"], &limited, 69, "it asks for a pause of 999 s"),
    ] {
        for plan in [&["--plan"] as &[&str], &["--port", "0"]] {
            let output =
                program(&[words, plan].concat(), &address.address, &cache("wrong")).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
            assert!(stderr.contains(wanted), "{words:?}: {stderr}");
        }
    }
}
