//! A model of a hub, which is on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::hub::{Content, Logged, Server, Trick};
use crate::serving;

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
    let mut command = serving::program(words);
    command.env("HF_ENDPOINT", hub).env("HF_HUB_CACHE", cache);
    command
}

#[test]
fn a_model_of_the_hub_is_downloaded_and_served() {
    let slow = |logged: &Logged, _: usize| Trick {
        // 9 MB in some 140 pieces: health can be asked before all is there.
        trickle: logged.range.map(|_| Duration::from_millis(10)),
        ..Trick::default()
    };
    let (hub, cache) = (Server::start(demo(), None, slow), cache("served"));
    let words = ["-hf", "user/repo:q4_k_m", "--hf-token", "hf_x", "--port", "0"];
    let serving = serving::Server::start(program(&words, &hub.address, &cache));
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
