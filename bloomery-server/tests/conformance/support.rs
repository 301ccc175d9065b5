//! The server under test, and a client that sees every byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A running server on the demo model; killed when dropped.
pub(crate) struct Server {
    child: Child,
    address: String,
}

/// An answer with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: String,
    pub(crate) body: String,
}

/// One server-sent event.
#[derive(Debug)]
pub(crate) struct SseEvent {
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Server {
    /// Starts the server on a free port and waits until it is ready.
    pub(crate) fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bloomery-serve"))
            .args(["--port", "0"])
            .args(words)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before it listened");
        }
        let address = line.trim().rsplit("://").next().unwrap().to_owned();
        // A full pipe would stop the server.
        thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let server = Self { child, address };
        let start = Instant::now();
        while server.get("/health").status != 200 {
            assert!(start.elapsed() < Duration::from_secs(60), "it never got ready");
            thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// `http://HOST:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends a request and leaves the connection open.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    /// Sends a request and reads the answer.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Answer {
        Answer::read(self.send(method, path, body))
    }

    /// GET.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "")
    }

    /// POST of JSON.
    pub(crate) fn post(&self, path: &str, body: Value) -> Answer {
        self.request("POST", path, &body.to_string())
    }

    /// POST that has to be answered with 200 and JSON.
    pub(crate) fn ok(&self, path: &str, body: Value) -> Value {
        let answer = self.post(path, body.clone());
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.body);
        answer.json()
    }

    /// POST with `stream: true`; all events.
    pub(crate) fn stream(&self, path: &str, mut body: Value) -> Vec<SseEvent> {
        body["stream"] = json!(true);
        let answer = self.post(path, body);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.body);
        answer.events()
    }

    /// Waits until all slots are idle, and returns them.
    pub(crate) fn idle_slots(&self) -> Value {
        let start = Instant::now();
        loop {
            let slots = self.get("/slots").json();
            if slots.as_array().unwrap().iter().all(|slot| slot["is_processing"] == false) {
                return slots;
            }
            assert!(start.elapsed() < Duration::from_secs(2), "still busy: {slots}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    /// Reads until the server closes the connection.
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (headers, body) = text.split_once("\r\n\r\n").unwrap();
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Self { status, headers: headers.to_owned(), body: body.to_owned() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = joined(body);
        }
        answer
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The body as events; comments are left out.
    pub(crate) fn events(&self) -> Vec<SseEvent> {
        let line = |event: &str, name: &str| {
            event.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned))
        };
        let blocks = self.body.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with(':'));
        blocks
            .map(|block| SseEvent {
                name: line(block, "event: ").unwrap_or_default(),
                data: line(block, "data: ").unwrap_or_default(),
            })
            .collect()
    }

    /// `error.message`.
    pub(crate) fn error(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl SseEvent {
    /// The data as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {}", self.data))
    }
}

/// The content of chunks.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}
