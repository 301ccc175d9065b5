//! Clients that go away, in every phase of a request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use socket2::SockRef;

use crate::attacks::bytes;
use crate::support::{Client, Server};

/// A story that ends with the context.
fn long(stream: bool) -> Value {
    json!({"prompt": "Once", "n_predict": -1, "ignore_eos": true, "stream": stream})
}

/// A prompt that takes many steps.
fn prompt(stream: bool) -> Value {
    json!({"prompt": "The fox ran. ".repeat(100), "n_predict": 1, "stream": stream, "cache_prompt": false})
}

fn ms(ms: usize) -> Duration {
    Duration::from_millis(ms as u64)
}

fn send(server: &Server, body: &Value) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(bytes("/completion", &body.to_string()).as_bytes()).unwrap();
    stream
}

/// What is to be there after a client has left.
pub(crate) struct Left {
    /// Requests that run and requests that wait.
    pub(crate) then: (u64, u64),
    _other: Option<TcpStream>,
}

/// Leaves in one phase.
type Phase = fn(&Server) -> Left;

/// The phases of a request, on a server with one slot.
pub(crate) const PHASES: [(&str, Phase); 5] = [
    ("waiting", |server| {
        let other = begun(server, &long(true));
        let waiting = send(server, &long(false));
        thread::sleep(ms(50));
        drop(waiting);
        Left { then: (1, 0), _other: Some(other) }
    }),
    ("the prompt", |server| {
        let client = send(server, &prompt(false));
        thread::sleep(ms(20));
        drop(client);
        Left { then: (0, 0), _other: None }
    }),
    ("the prompt of a stream", |server| {
        drop(begun(server, &prompt(true)));
        Left { then: (0, 0), _other: None }
    }),
    ("the answer", |server| {
        let client = send(server, &long(false));
        thread::sleep(ms(50));
        drop(client);
        Left { then: (0, 0), _other: None }
    }),
    ("the stream", |server| {
        let client = begun(server, &long(true));
        thread::sleep(ms(50));
        client.shutdown(Shutdown::Write).unwrap();
        Left { then: (0, 0), _other: Some(client) }
    }),
];

/// A stream whose first bytes are there.
fn begun(server: &Server, body: &Value) -> TcpStream {
    let mut stream = send(server, body);
    stream.read_exact(&mut [0; 16]).unwrap();
    stream
}

/// Closes a connection, every second time with a reset.
fn close(stream: TcpStream, client: usize) {
    if client % 2 == 1 {
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

pub(crate) fn without_a_word(server: &Server, client: usize) {
    for stream in [false, true] {
        close(send(server, &long(stream)), client);
        close(send(server, &prompt(stream)), client);
        close(server.connect(), client);
    }
}

pub(crate) fn in_the_queue(server: &Server, client: usize) {
    // Two run, the others wait.
    let streams: Vec<_> = (0..6).map(|number| send(server, &long(number % 2 == 0))).collect();
    thread::sleep(ms(10 + client));
    for stream in streams.into_iter().rev() {
        close(stream, client);
    }
}

pub(crate) fn in_a_prompt(server: &Server, client: usize) {
    for stream in [false, true] {
        let stream = send(server, &prompt(stream));
        thread::sleep(ms(3 * client));
        close(stream, client);
    }
}

pub(crate) fn in_a_stream(server: &Server, client: usize) {
    for path in ["/completion", "/v1/completions"] {
        let mut reader = Client::new(server.connect());
        reader.send(&bytes(path, &long(true).to_string()));
        assert_eq!(reader.head().status, 200);
        for _ in 0..=client {
            reader.event().unwrap();
        }
    }
}

pub(crate) fn while_it_generates(server: &Server, client: usize) {
    let stream = send(server, &long(false));
    thread::sleep(ms(5 * client));
    close(stream, client);
}

pub(crate) fn half_closed(server: &Server, _: usize) {
    for streams in [false, true] {
        let mut stream = send(server, &long(streams));
        stream.shutdown(Shutdown::Write).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // It ends before the story could.
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(!answer.contains("\"stop\":true"), "{answer}");
    }
}

pub(crate) fn not_reading(server: &Server, client: usize) {
    let stream = send(server, &long(true));
    thread::sleep(ms(50));
    close(stream, client);
}

pub(crate) fn with_many_requests_sent(server: &Server, client: usize) {
    let mut stream = send(server, &long(client.is_multiple_of(2)));
    let health = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n".repeat(500);
    stream.write_all(health.as_bytes()).unwrap();
    thread::sleep(ms(20));
    close(stream, client);
}
