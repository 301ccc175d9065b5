//! The real program, listening on an address that it tells.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The program with these words and nothing of the environment.
pub(crate) fn program(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bloomery-serve"));
    command.args(words).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
    rest: Option<JoinHandle<String>>,
}

impl Server {
    /// Starts it and waits for the line that tells the address.
    pub(crate) fn start(mut program: Command) -> Self {
        let mut child = program.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before it listened");
        }
        let address = line.trim().rsplit("://").next().unwrap().to_owned();
        // A pipe that nobody reads would fill up.
        let rest = thread::spawn(move || {
            let mut rest = String::new();
            stderr.read_to_string(&mut rest).unwrap();
            rest
        });
        Self { child, address, rest: Some(rest) }
    }

    /// The answer to a request, as it comes over the wire.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Waits until `/health` is 200.
    pub(crate) fn wait_ready(&self) {
        let start = Instant::now();
        while !self.ask("GET", "/health", "").starts_with("HTTP/1.1 200") {
            assert!(start.elapsed() < Duration::from_secs(30), "it never got ready");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its exit code and what it said after the address.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let rest = self.rest.take().unwrap().join().unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Most have ended by themselves.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
