//! The real binary as a process that can be looked at.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A running server, killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// What a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holdings {
    /// Resident memory.
    pub(crate) kib: u64,
    pub(crate) files: usize,
    pub(crate) threads: usize,
}

impl Process {
    /// Starts the server on a free port and waits until it answers.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bloomery-serve"))
            .args(["--host", "127.0.0.1", "--port", "0"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let url = log.find_map(|line| line.split_once("listening on http://").map(|(_, url)| url.to_owned()));
        let address = url.expect("a line that says the port").trim_end_matches('/').parse().unwrap();
        // The log is read to its end, so that a full pipe never stops the server.
        thread::spawn(move || log.for_each(drop));
        let process = Self { child, address };
        let end = Instant::now() + Duration::from_secs(60);
        while !process.healthy() {
            assert!(Instant::now() < end, "the server is not ready after a minute");
            thread::sleep(Duration::from_millis(20));
        }
        process
    }

    fn healthy(&self) -> bool {
        use std::io::{Read, Write};
        let mut answer = String::new();
        TcpStream::connect(self.address)
            .and_then(|mut socket| {
                socket.write_all(b"GET /health HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
                socket.read_to_string(&mut answer)
            })
            .is_ok_and(|_| answer.starts_with("HTTP/1.1 200"))
    }

    /// What the kernel says about the process.
    pub(crate) fn holdings(&self) -> Holdings {
        let folder = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let count = |name| fs::read_dir(format!("{folder}/{name}")).unwrap().count();
        Holdings {
            kib: rss.trim().trim_end_matches(" kB").parse().unwrap(),
            files: count("fd"),
            threads: count("task"),
        }
    }

    /// CPU time of the threads that are not the engine's: connections, requests, replies.
    pub(crate) fn serving_time(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let time = |folder: PathBuf| {
            let read = |name| fs::read_to_string(folder.join(name));
            // A thread may end between the listing and the reading.
            let (Ok(name), Ok(times)) = (read("comm"), read("schedstat")) else { return 0 };
            let ours = !name.starts_with("bloomery-");
            times.split(' ').next().filter(|_| ours).and_then(|time| time.parse().ok()).unwrap_or(0)
        };
        Duration::from_nanos(threads.map(|thread| time(thread.unwrap().path())).sum())
    }

    /// Sends SIGTERM and waits for the exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("sh").args(["-c", "kill -TERM $0", &id]).status().unwrap().success());
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status.code(),
                None => assert!(Instant::now() < end, "it goes on after SIGTERM"),
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
