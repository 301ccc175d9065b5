//! The server under test, and a client that sees every byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A running server on the demo model; killed when dropped.
pub(crate) struct Server {
    child: Child,
    address: String,
    log: Arc<Mutex<String>>,
}

/// An answer with its whole body.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: String,
    pub(crate) body: String,
}

/// One server-sent event. A comment has neither name nor data.
#[derive(Debug, Clone)]
pub(crate) struct SseEvent {
    pub(crate) name: String,
    pub(crate) data: String,
    /// Since the request was sent.
    pub(crate) at: Duration,
}

/// A connection that stays open.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    sent: Instant,
    chunked: bool,
    /// Bytes of an event that is not complete.
    rest: Vec<u8>,
}

/// The server where it was built, or beside the tests where that is another machine.
fn program() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_bloomery-serve"));
    if built.exists() { built } else { std::env::current_exe().unwrap().with_file_name("bloomery-serve") }
}

/// A file of the workspace where the tests were built, or below the working directory where that is another machine.
pub(crate) fn data(path: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let path = if built.exists() { built } else { std::env::current_dir().unwrap().join(path) };
    assert!(path.exists(), "{path:?}");
    path
}

/// Where a test may write.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if built.exists() { built.join(name) } else { std::env::temp_dir().join(name) }
}

impl Server {
    /// Starts the server on a free port and waits until it is ready.
    pub(crate) fn start(words: &[&str]) -> Self {
        let server = Self::launch(words);
        server.wait_ready();
        server
    }

    /// Starts the server and waits until it listens, which is before it is ready.
    pub(crate) fn launch(words: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(["--port", "0"])
            .args(words)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let write = {
            let log = log.clone();
            move |line: &str| log.lock().unwrap().extend([line, "\n"])
        };
        let address = loop {
            let line = lines.next().expect("it ended before it listened").unwrap();
            write(&line);
            let address = line.split_once("listening on http").and_then(|(_, url)| url.split_once("://"));
            if let Some((_, address)) = address {
                break address.trim_end().to_owned();
            }
        };
        // A full pipe would stop the server.
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| write(&line)));
        Self { child, address, log }
    }

    /// Waits until `/health` is 200.
    pub(crate) fn wait_ready(&self) {
        let start = Instant::now();
        while self.get("/health").status != 200 {
            assert!(start.elapsed() < Duration::from_secs(60), "it never got ready: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it has written to stderr.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// `http://HOST:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name, and waits for the end of the process.
    pub(crate) fn end_by(&mut self, signal: &str, patience: Duration) -> ExitStatus {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < patience, "it runs on after {patience:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// A connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// A connection for several requests.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.connect())
    }

    /// Sends a request and leaves the connection open.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(message(method, path, "Connection: close\r\n", body).as_bytes()).unwrap();
        stream
    }

    /// Sends a request and reads the answer.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Answer {
        Answer::read(self.send(method, path, body))
    }

    /// A request with further header lines, each with its line end.
    pub(crate) fn request_with(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut client = self.client();
        client.send(&message(method, path, headers, body));
        client.answer()
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

    /// POST with `stream: true`; all events without comments.
    pub(crate) fn stream(&self, path: &str, body: Value) -> Vec<SseEvent> {
        let mut client = self.open_stream(path, body);
        std::iter::from_fn(|| client.event()).filter(|event| !event.is_comment()).collect()
    }

    /// POST with `stream: true`, whose events are still to be read.
    pub(crate) fn open_stream(&self, path: &str, mut body: Value) -> Client {
        body["stream"] = json!(true);
        let mut client = self.client();
        client.send(&message("POST", path, "", &body.to_string()));
        let head = client.head();
        if head.header("content-type") != Some("text/event-stream") {
            panic!("{path}: {} {}", head.status, client.body(&head));
        }
        client
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

/// A request as bytes.
pub(crate) fn message(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

impl Client {
    /// Over a connection that is there.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream: BufReader::new(stream), sent: Instant::now(), chunked: false, rest: Vec::new() }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, text: &str) {
        self.sent = Instant::now();
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Reads the status line and the headers of the next answer.
    pub(crate) fn head(&mut self) -> Answer {
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            let read = self.stream.read_line(&mut headers).unwrap();
            assert!(read > 0, "the connection ended after {headers:?}");
        }
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        let head = Answer { status, headers, body: String::new() };
        self.chunked = head.header("transfer-encoding") == Some("chunked");
        head
    }

    /// Reads the body that belongs to a head.
    pub(crate) fn body(&mut self, head: &Answer) -> String {
        let mut body = Vec::new();
        if let Some(length) = head.header("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.stream.read_exact(&mut body).unwrap();
        } else {
            while let Some(part) = self.part() {
                body.extend(part);
            }
        }
        String::from_utf8(body).unwrap()
    }

    /// Reads the next answer.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        answer.body = self.body(&answer);
        answer
    }

    /// Sends a request and reads the answer.
    pub(crate) fn request(&mut self, method: &str, path: &str, body: &str) -> Answer {
        self.send(&message(method, path, "", body));
        self.answer()
    }

    /// The next event or comment of a stream; `None` after its end. A stream that breaks off has no end.
    pub(crate) fn event(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.rest.drain(..end + 2).collect();
                return Some(SseEvent::read(&String::from_utf8(block).unwrap(), self.sent.elapsed()));
            }
            match self.part() {
                Some(part) => self.rest.extend(part),
                None => {
                    assert!(
                        self.rest.is_empty(),
                        "the stream ends in {:?}",
                        String::from_utf8_lossy(&self.rest)
                    );
                    return None;
                }
            }
        }
    }

    /// The next chunk of a body, or all that is left where there are no chunks.
    fn part(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        if self.chunked {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let size =
                usize::from_str_radix(line.trim_end(), 16).unwrap_or_else(|_| panic!("no chunk: {line:?}"));
            bytes.resize(size + 2, 0);
            self.stream.read_exact(&mut bytes).unwrap();
            bytes.truncate(size);
        } else {
            self.stream.read_to_end(&mut bytes).unwrap();
        }
        (!bytes.is_empty()).then_some(bytes)
    }
}

impl Answer {
    /// Reads one answer.
    pub(crate) fn read(stream: TcpStream) -> Self {
        Client::new(stream).answer()
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

    /// `error.message`.
    pub(crate) fn error(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }

    /// `error.type`, once it is sure that the error has the shape that all have.
    pub(crate) fn error_type(&self) -> String {
        let error = &self.json()["error"];
        assert_eq!(error["code"], json!(self.status), "{}", self.body);
        assert!(error["message"].is_string(), "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/json; charset=utf-8"));
        error["type"].as_str().unwrap().to_owned()
    }
}

impl SseEvent {
    fn read(block: &str, at: Duration) -> Self {
        let line = |name: &str| {
            block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
        };
        assert!(block.ends_with("\n\n") && !block.contains('\r'), "not an event: {block:?}");
        Self { name: line("event: "), data: line("data: "), at }
    }

    /// Whether there is nothing in it for a client.
    pub(crate) fn is_comment(&self) -> bool {
        self.name.is_empty() && self.data.is_empty()
    }

    /// The data as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {}", self.data))
    }
}
