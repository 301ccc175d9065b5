//! A decision model behind HTTP: every recorded request and every refusal.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::hub::{Content, Trick};
use crate::serving::{Server, program};

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "bloomery-core", "tests", "data", "clef", name].iter().collect()
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

fn read(name: &str) -> Value {
    serde_json::from_str(&text(name)).unwrap()
}

/// A server on one of the files, with further words.
fn start(file: &str, words: &[&str]) -> Server {
    let (file, head) = (path(file), path("joint_head.safetensors"));
    let mut all = vec!["-m", file.to_str().unwrap(), "-a", "clef-tiny", "--port", "0", "-ngl", "0"];
    if file.ends_with("backbone-bf16.gguf") {
        all.extend(["--head", head.to_str().unwrap()]);
    }
    all.extend(words);
    let server = Server::start(program(&all));
    server.wait_ready();
    server
}

/// Status and body of an answer.
fn post(server: &Server, route: &str, body: &str) -> (u16, Value) {
    let answer = server.ask("POST", route, body);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
}

/// Equal, with the same order of keys, but for numbers.
fn same(found: &Value, expected: &Value, bound: f64, what: &str) {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            assert!(a.keys().eq(b.keys()), "{what}: {found} {expected}");
            a.iter().zip(b).for_each(|((_, a), (_, b))| same(a, b, bound, what));
        }
        (Value::Number(a), Value::Number(b)) => {
            let off = (a.as_f64().unwrap() - b.as_f64().unwrap()).abs();
            assert!(off <= bound, "{what}: {found} where {expected} is expected");
        }
        _ => assert_eq!(found, expected, "{what}"),
    }
}

fn check(server: &Server, case: &str, bound: f64) {
    let (status, mut body) = post(server, "/v1/systemone", &text(&format!("request-{case}.json")));
    assert_eq!(status, 200, "{case}: {body}");
    let timings = body.as_object_mut().unwrap().remove("timings").unwrap();
    let expected = read(&format!("response-{case}.json"));
    assert_eq!(timings["prompt_n"], expected["usage"]["input_tokens"], "{timings}");
    assert!(timings["head_ms"].as_f64().unwrap() > 0.0 && timings["cache_n"] == 0, "{timings}");
    let cut = body["usage"].as_object_mut().unwrap().remove("truncated_state_tokens");
    assert_eq!(cut.is_some(), case == "truncated", "{cut:?}");
    same(&body, &expected, bound, case);
}

#[test]
fn answers_as_recorded() {
    for file in ["backbone-bf16.gguf", "clef-bf16.gguf"] {
        let server = start(file, &["-ctk", "f32"]);
        for case in ["mixed", "plain", "one", "many", "lenient", "numbers"] {
            check(&server, case, 2e-4);
        }
        drop(server);
        check(&start(file, &["-c", "600", "-np", "1", "-ctk", "f32"]), "truncated", 2e-4);
    }
}

#[test]
fn answers_of_a_quantised_model() {
    let server = start("clef-q8_0.gguf", &["-ctk", "f32"]);
    let expected = read("expected.json");
    let mut worst = 0.0_f64;
    for case in ["mixed", "plain", "one", "many"] {
        let (status, body) = post(&server, "/v1/systemone", &text(&format!("request-{case}.json")));
        assert_eq!(status, 200, "{case}: {body}");
        for (id, exact) in expected["cases"][case]["q8_0_exact"].as_object().unwrap() {
            let answer = &body["answers"][id];
            let pairs = match exact.as_object() {
                None => vec![(&answer["noul"], &exact[0])],
                Some(exact) => exact.iter().map(|(name, p)| (&answer["probabilities"][name], p)).collect(),
            };
            for (found, exact) in pairs {
                worst = worst.max((found.as_f64().unwrap() - exact.as_f64().unwrap()).abs());
            }
        }
    }
    // The weights are taken as they are; what moves is the trunk's activations, which are rounded to 8 bits.
    assert!(worst <= 0.03, "{worst}");
    assert_eq!(post(&server, "/v1/systemone", &text("request-lenient.json")).0, 200);
}

/// What is done with the recorded requests that one side or the other refuses.
const REFUSED: [(u16, &str); 25] = [
    (400, "the body is an array, expected a JSON object"),
    (400, "the body is not JSON: not JSON at line 1, column 22: it ends where a value is expected"),
    (400, "\"state\" must be provided"),
    (400, "\"questions\" must be a non-empty object"),
    (400, "\"questions\" must be a non-empty object"),
    (400, "\"questions\" must be a non-empty object"),
    (200, ""),
    (200, ""),
    (400, "questions.q: must be an object"),
    (400, "questions.q: \"type\" must be one of: choice, score, noul"),
    (400, "questions.q: \"type\" must be one of: choice, score, noul"),
    (200, ""),
    (200, ""),
    (400, "questions.q: \"criteria\" must be an object"),
    (400, "questions.q: \"criteria\" must be a non-empty object"),
    (400, "questions.q: \"criteria\" must be a non-empty object"),
    (400, "questions.q: \"criteria\" must be a non-empty object"),
    (200, ""),
    (400, "questions.q: \"criteria\" must be an array of 1 to 10 levels"),
    (400, "questions.q: \"criteria\" must be an array of 1 to 10 levels"),
    (400, "questions.q: too many options (256), this model supports at most 255"),
    (400, "\"images\" must be an array"),
    (400, "images must be data URLs (data:image/...;base64,...)"),
    (
        501,
        "This server does not support image input for decisions. For a model that supports it, start it with `--mmproj`",
    ),
    (501, "\"videos\" is not supported"),
];

#[test]
fn refusals_and_what_is_not_refused() {
    let server = start("clef-bf16.gguf", &[]);
    let recorded = read("errors.json");
    for (case, (status, message)) in recorded.as_array().unwrap().iter().zip(REFUSED) {
        let body = case["body"].as_str().unwrap();
        let (found, answer) = post(&server, "/v1/systemone", body);
        assert_eq!(found, status, "{body}: {answer}");
        if status == 200 {
            let theirs = &case["llamacpp"]["answers"];
            if theirs.is_object() {
                same(&answer["answers"], theirs, 2e-4, body);
            }
            continue;
        }
        let kind = if status == 501 { "not_supported_error" } else { "invalid_request_error" };
        assert_eq!(answer, json!({"error": {"code": status, "message": message, "type": kind}}), "{body}");
    }
    for (body, status) in [
        (r#"{"state":"s","questions":{"q":{"type":"noul"}}"#.to_owned(), 400),
        (r#"{"state":"\ud800","questions":{"q":{"type":"noul"}}}"#.to_owned(), 400),
        (r#"{"state":1e999,"questions":{"q":{"type":"noul"}}}"#.to_owned(), 400),
        (r#"{"state":"","questions":{"":{"type":"noul"}}}"#.to_owned(), 400),
        (
            format!(
                r#"{{"state":"","questions":{{"q":{{"type":"noul","instructions":"{}"}}}}}}"#,
                "a b ".repeat(20_000)
            ),
            400,
        ),
        (r#"{"state":"","questions":{"q":{"type":"noul"}}}"#.to_owned(), 200),
        (format!(r#"{{"state":"{}","questions":{{"q":{{"type":"noul"}}}}}}"#, "long ".repeat(30_000)), 200),
    ] {
        let (found, answer) = post(&server, "/v1/systemone", &body);
        assert_eq!(found, status, "{:.80}: {answer}", body);
        if status == 400 {
            assert_eq!(answer["error"]["type"], "invalid_request_error");
        }
    }
    // Bytes that are no text. (The client here writes texts only.)
    let (status, answer) = post(&server, "/v1/systemone", "");
    assert_eq!((status, &answer["error"]["type"]), (400, &json!("invalid_request_error")));
}

#[test]
fn what_such_a_server_is_and_is_not() {
    let server = start("clef-bf16.gguf", &["-c", "2000", "-np", "2", "-kvu"]);
    for route in ["/v1/models", "/models"] {
        let answer = server.ask("GET", route, "");
        let models: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        let model = &models["data"][0];
        assert_eq!(model["id"], "clef-tiny");
        assert_eq!(
            (&model["meta"]["n_ctx"], &model["max_model_len"]),
            (&json!(2000), &json!(2000)),
            "{model}"
        );
        assert_eq!(model["architecture"]["output_modalities"], json!(["decisions"]));
    }
    let chat = r#"{"messages":[{"role":"user","content":"x"}],"prompt":"x","max_tokens":1}"#;
    for route in [
        "/completion",
        "/completions",
        "/v1/completions",
        "/chat/completions",
        "/v1/chat/completions",
        "/v1/chat/completions/input_tokens",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/infill",
        "/apply-template",
    ] {
        let (status, answer) = post(&server, route, chat);
        assert_eq!((status, &answer["error"]["type"]), (404, &json!("not_found_error")), "{route}: {answer}");
    }
    let (status, answer) = post(&server, "/tokenize", r#"{"content":"state"}"#);
    assert!(status == 200 && answer["tokens"].is_array(), "{answer}");
    assert!(server.ask("GET", "/health", "").contains("{\"status\":\"ok\"}"));
    for route in ["/props", "/slots"] {
        assert!(server.ask("GET", route, "").starts_with("HTTP/1.1 200"), "{route}");
    }
}

#[test]
fn many_requests_at_once() {
    let server = start("clef-bf16.gguf", &["-np", "3", "-c", "12288", "-ctk", "f32", "-ub", "64"]);
    std::thread::scope(|scope| {
        for case in ["mixed", "plain", "one", "numbers", "mixed", "one", "plain", "numbers"] {
            let server = &server;
            scope.spawn(move || check(server, case, 2e-4));
        }
    });
}

#[test]
fn what_is_no_number_is_an_error_of_the_server() {
    let mut bytes = fs::read(path("clef-bf16.gguf")).unwrap();
    let gguf = bloomery_gguf::Gguf::open(path("clef-bf16.gguf")).unwrap();
    let scales = gguf.tensor("decision.scales").unwrap();
    bytes[scales.offset() as usize..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("clef-nan.gguf");
    fs::write(&file, bytes).unwrap();
    let server = Server::start(program(&["-m", file.to_str().unwrap(), "--port", "0", "-ngl", "0"]));
    server.wait_ready();
    let (status, answer) = post(&server, "/v1/systemone", &text("request-one.json"));
    assert_eq!((status, &answer["error"]["type"]), (500, &json!("server_error")), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert_eq!(message, "questions.only: the logit of option yes is not finite");
}

#[test]
fn a_head_of_the_hub() {
    let content = |name: &str| {
        let bytes = fs::read(path(name)).unwrap();
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Content { name: name.to_owned(), bytes: Arc::new(bytes), hash }
    };
    let files = ["joint_head.safetensors", "joint_head_config.json"].map(content).into();
    let hub = crate::hub::Server::start(files, None, |_, _| Trick::default());
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("download-head");
    let _ = fs::remove_dir_all(&cache);
    let trunk = path("backbone-bf16.gguf");
    let run = |words: &[&str]| {
        let mut command = program(&[&["--plan", "-ngl", "0", "-m", trunk.to_str().unwrap()], words].concat());
        command.env("HF_ENDPOINT", &hub.address).env("HF_HUB_CACHE", &cache);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, plan, log) = run(&["--head", "hf:user/repo"]);
    assert!(code == Some(0) && plan.contains("decision head"), "{plan}{log}");
    let sent = hub.sent();
    let (code, plan, log) = run(&["--head", "hf:user/repo", "--offline"]);
    assert!(code == Some(0) && plan.contains("decision head"), "{plan}{log}");
    assert_eq!(hub.sent(), sent);
    for (words, code, wanted) in [
        (&["--head", "no/such.safetensors"] as &[&str], 66, "no/such_config.json: "),
        (&["--head", "hf:user"], 64, "the slash between user and repository is missing"),
        (&["--head-config", "x.json"], 64, "--head-config: --head is missing"),
    ] {
        let (found, _, log) = run(words);
        assert!(found == Some(code) && log.contains(wanted), "{words:?}: {log}");
    }
}
