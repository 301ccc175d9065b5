use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{demo, example, spawn};

/// A running example, killed when a test fails.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start() -> Self {
        // The first word is the model: the demo model's file, because port 0 is the second.
        let model = demo();
        let mut child = spawn(&example("axum"), &[model.to_str().unwrap(), "127.0.0.1:0"], Stdio::null());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on http://").unwrap().to_owned();
        Self { child, address }
    }

    /// Sends a request; returns the connection, from which the response can be read.
    fn send(&self, request: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        BufReader::new(stream)
    }

    fn ask(&self, prompt: &str, max_tokens: Option<usize>) -> BufReader<TcpStream> {
        self.send("POST /answer", &json!({"prompt": prompt, "max_tokens": max_tokens}).to_string())
    }

    fn status(&self) -> Value {
        let response = read(self.send("GET /status", ""));
        serde_json::from_str(response.split("\r\n\r\n").nth(1).unwrap()).unwrap()
    }

    fn terminate(&self) {
        let killed = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended by itself where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rest of a response.
fn read(mut response: BufReader<TcpStream>) -> String {
    let mut text = String::new();
    response.read_to_string(&mut text).unwrap();
    text
}

/// Reads up to the first event of an answer.
fn first_event(response: &mut BufReader<TcpStream>) -> String {
    let mut text = String::new();
    while !text.contains("event: ") {
        assert!(response.read_line(&mut text).unwrap() > 0, "{text}");
    }
    text
}

/// The data of all events of this name.
fn events(response: &str, name: &str) -> Vec<Value> {
    let mut lines = response.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.strip_prefix("event: ") == Some(name) {
            found.push(serde_json::from_str(lines.next().unwrap().strip_prefix("data: ").unwrap()).unwrap());
        }
    }
    found
}

#[test]
fn answers_are_streams_of_events_and_errors_have_a_status() {
    let service = Service::start();
    let story = read(service.ask("Tell me a story about a fox.", Some(24)));
    assert!(
        story.starts_with("HTTP/1.1 200 ") && story.contains("content-type: text/event-stream"),
        "{story}"
    );
    let (texts, done) = (events(&story, "text"), events(&story, "done"));
    assert!(texts.len() > 8, "{story}");
    assert_eq!(
        (&done[0]["reason"], &done[0]["tokens"], done.len()),
        (&json!("MaxTokens"), &json!(24), 1),
        "{story}"
    );
    let long = read(service.ask(&"a fox and a hen ".repeat(4000), None));
    assert!(long.starts_with("HTTP/1.1 400 ") && long.contains("context is full"), "{long}");
    let wrong = read(service.send("POST /answer", "{\"prompt\": 1}"));
    assert!(wrong.starts_with("HTTP/1.1 422 "), "{wrong}");
}

#[test]
fn more_requests_than_slots_are_all_answered() {
    let service = Service::start();
    let waiting: Vec<_> = (0..12).map(|_| service.ask("Tell me a story about a hen.", Some(32))).collect();
    for response in waiting {
        let story = read(response);
        assert_eq!(events(&story, "done").len(), 1, "{story}");
    }
    let status = service.status();
    assert_eq!((&status["jobs"], &status["cancelled"]), (&json!(12), &json!(0)), "{status}");
}

#[test]
fn a_client_that_goes_away_ends_its_job() {
    let service = Service::start();
    // Whether a story ends by itself before that is noticed is a matter of luck, ten times it is not.
    let start = Instant::now();
    for _ in 0..10 {
        first_event(&mut service.ask("Tell me a long story about a fox.", None));
    }
    let mut status = service.status();
    while status["busy"] != 0 || status["waiting"] != 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "{status}");
        std::thread::sleep(Duration::from_millis(10));
        status = service.status();
    }
    assert!(status["cancelled"].as_u64().unwrap() > 0, "{status}");
}

#[cfg(unix)]
#[test]
fn a_running_answer_is_finished_before_the_end() {
    let mut service = Service::start();
    let mut response = service.ask("Tell me a story about a fox.", None);
    let first = first_event(&mut response);
    service.terminate();
    let story = format!("{first}{}", read(response));
    assert_eq!(events(&story, "done").len(), 1, "{story}");
    assert_eq!(service.child.wait().unwrap().code(), Some(0));
    assert!(TcpStream::connect(&service.address).is_err(), "nobody listens");
}
