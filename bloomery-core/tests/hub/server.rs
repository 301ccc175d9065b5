//! A hub of one repository, which can be told to misbehave. Every request is on a connection of its own.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A file: its name, its content, and the hash that the list tells.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    pub(crate) name: String,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) hash: String,
}

/// What came in, and what went out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logged {
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    /// First and last byte that were asked for.
    pub(crate) range: Option<(u64, u64)>,
    /// Bytes of content that were sent.
    pub(crate) sent: u64,
}

/// How to answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trick {
    /// This status and these lines of headers, without content.
    pub(crate) status: Option<(u16, String)>,
    /// The connection ends after this many bytes of content.
    pub(crate) cut: Option<u64>,
    /// Nothing comes for this long after as many bytes as `cut` says.
    pub(crate) stall: Option<Duration>,
    /// A pause after every 64 KiB.
    pub(crate) trickle: Option<Duration>,
    /// All of the content, whatever was asked for.
    pub(crate) whole: bool,
    /// Added to what `Content-Length` says.
    pub(crate) longer: i64,
    /// In place of the right `Content-Range`.
    pub(crate) range: Option<String>,
    /// In place of the right mark.
    pub(crate) tag: Option<String>,
    /// Other bytes than the list promises.
    pub(crate) spoiled: bool,
}

type Choice = dyn Fn(&Logged, usize) -> Trick + Send + Sync;

/// A running server. Its threads end with the process.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: String,
    log: Arc<Mutex<Vec<Logged>>>,
}

struct State {
    files: Vec<Content>,
    commit: String,
    /// Where files are, if not here.
    elsewhere: Option<String>,
    choice: Box<Choice>,
    log: Arc<Mutex<Vec<Logged>>>,
}

impl Server {
    /// Serves these files of any repository. `choice` is asked about every request, with its number from 0.
    pub(crate) fn start(
        files: Vec<Content>,
        elsewhere: Option<String>,
        choice: impl Fn(&Logged, usize) -> Trick + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let state =
            State { files, commit: "c0".repeat(20), elsewhere, choice: Box::new(choice), log: log.clone() };
        let state = Arc::new(state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), Arc::clone(&state));
                // A client that went away is what some tests are about.
                thread::spawn(move || state.answer(stream).unwrap_or(()));
            }
        });
        Self { address, log }
    }

    /// All requests so far.
    pub(crate) fn log(&self) -> Vec<Logged> {
        self.log.lock().unwrap().clone()
    }

    /// Bytes of content that were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.log().iter().map(|logged| logged.sent).sum()
    }

    /// Requests for content so far.
    pub(crate) fn content_requests(&self) -> Vec<Logged> {
        self.log().into_iter().filter(|logged| !logged.path.starts_with("/api/")).collect()
    }
}

impl State {
    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut logged = Logged { path, ..Logged::default() };
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            logged.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let range =
            logged.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        logged.range = range.map(|(first, last)| (first.parse().unwrap(), last.parse().unwrap()));
        let number = {
            let mut log = self.log.lock().unwrap();
            log.push(logged.clone());
            log.len() - 1
        };
        let trick = (self.choice)(&logged, number);
        self.reply(stream, &logged, trick, number)
    }

    fn reply(
        &self,
        mut stream: TcpStream,
        logged: &Logged,
        trick: Trick,
        number: usize,
    ) -> std::io::Result<()> {
        if let Some((status, headers)) = trick.status {
            return write!(
                stream,
                "HTTP/1.1 {status} X\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
        if logged.path.starts_with("/api/models/") {
            let list = self.list();
            let length = list.len();
            return write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{list}"
            );
        }
        let path = logged.path.split('?').next().unwrap_or_default();
        // The name of one may be the end of another's.
        let named = self.files.iter().filter(|file| path.ends_with(&format!("/{}", file.name)));
        let Some(file) = named.max_by_key(|file| file.name.len()) else {
            return write!(stream, "HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        };
        let tag = trick.tag.clone().unwrap_or_else(|| format!("\"{}\"", file.hash));
        if let Some(elsewhere) = &self.elsewhere {
            return write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {elsewhere}/blob/{}?X-Amz-Signature=signed\r\nX-Linked-ETag: {tag}\r\n\
                 Content-Length: 0\r\nConnection: close\r\n\r\n",
                file.name
            );
        }
        let total = file.bytes.len() as u64;
        let range = logged.range.filter(|_| !trick.whole);
        let (first, end) = range.map_or((0, total), |(first, last)| (first, last + 1));
        let mut head = match range {
            Some((first, last)) => {
                let range = trick.range.unwrap_or_else(|| format!("bytes {first}-{last}/{total}"));
                format!("HTTP/1.1 206 Partial Content\r\nContent-Range: {range}\r\n")
            }
            None => "HTTP/1.1 200 OK\r\n".to_owned(),
        };
        let length = (end - first).checked_add_signed(trick.longer).unwrap();
        head.push_str(&format!("ETag: {tag}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"));
        stream.write_all(head.as_bytes())?;
        let mut at = first;
        while at < end {
            let cut = trick.cut.map_or(end, |cut| (first + cut).min(end));
            if at == cut {
                thread::sleep(trick.stall.unwrap_or_default());
                return Ok(());
            }
            let piece = (at + (64 << 10)).min(cut);
            let mut bytes = file.bytes[at as usize..piece as usize].to_vec();
            if trick.spoiled {
                bytes[0] ^= 1;
            }
            stream.write_all(&bytes)?;
            self.log.lock().unwrap()[number].sent += piece - at;
            at = piece;
            thread::sleep(trick.trickle.unwrap_or_default());
        }
        Ok(())
    }

    fn list(&self) -> String {
        let siblings = self.files.iter().map(|file| {
            let (name, size, hash) = (&file.name, file.bytes.len(), &file.hash);
            match hash.len() {
                64 => format!(
                    "{{\"rfilename\": \"{name}\", \"blobId\": \"{}\", \"size\": {size}, \
                     \"lfs\": {{\"sha256\": \"{hash}\", \"size\": {size}}}}}",
                    "b1".repeat(20)
                ),
                _ => format!("{{\"rfilename\": \"{name}\", \"blobId\": \"{hash}\", \"size\": {size}}}"),
            }
        });
        let siblings = siblings.collect::<Vec<_>>().join(", ");
        format!("{{\"sha\": \"{}\", \"siblings\": [{siblings}]}}", self.commit)
    }
}
