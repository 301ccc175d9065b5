//! A started `bloomery-serve`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long one may take until it is ready, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command in a process group of its own, which ends with this.
#[derive(Debug)]
pub(super) struct Group(Child);

impl Group {
    /// Starts it without input; what it says on both streams goes to the file.
    pub(super) fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let fail = |error| format!("{}: {error}", log.display());
        let file = std::fs::File::create(log).map_err(fail)?;
        let twin = file.try_clone().map_err(fail)?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(twin).process_group(0).spawn();
        child.map(Self).map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))
    }

    /// Its status, if it ends within the time.
    pub(super) fn wait(&mut self, most: Duration) -> Result<Option<ExitStatus>, String> {
        let start = Instant::now();
        loop {
            match self.0.try_wait() {
                Ok(None) if start.elapsed() < most => sleep(Duration::from_millis(20)),
                Ok(status) => return Ok(status),
                Err(error) => return Err(format!("waiting: {error}")),
            }
        }
    }

    /// Asks all of it to end, and waits.
    pub(super) fn end(&mut self) -> Result<Option<ExitStatus>, String> {
        self.signal("TERM");
        self.wait(PATIENCE)
    }

    fn signal(&self, name: &str) {
        // A group that has ended already is what was wanted.
        let _ = Command::new("bash")
            .args(["-c", &format!("kill -{name} -- -{}", self.0.id())])
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal("KILL");
        let _ = self.0.wait();
    }
}

/// One that answers.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) flags: Vec<String>,
    pub(super) port: u16,
    _process: Group,
}

impl Server {
    pub(super) fn start(program: &Path, folder: &Path, flags: &[String], log: &Path) -> Result<Self, String> {
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args(flags).args(["--port", &port.to_string()]).current_dir(folder);
        let mut process = Group::start(&mut command, log)?;
        ready(port, &mut process)?;
        Ok(Self { flags: flags.to_vec(), port, _process: process })
    }
}

/// A port that nobody listens on at this moment.
pub(super) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("a port: {error}"))?;
    listener.local_addr().map(|address| address.port()).map_err(|error| format!("a port: {error}"))
}

/// Waits until `/health` answers 200.
pub(super) fn ready(port: u16, process: &mut Group) -> Result<(), String> {
    let start = Instant::now();
    loop {
        if healthy(port) {
            return Ok(());
        }
        if let Some(status) = process.wait(Duration::from_millis(50))? {
            return Err(format!("the server ended: {status}"));
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("no answer of /health on port {port} in {} s", PATIENCE.as_secs()));
        }
    }
}

fn healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().is_ok_and(|text| text.starts_with("HTTP/1.1 200"))
}
