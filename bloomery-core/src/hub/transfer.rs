//! Filling a partial file from the hub, several parts at a time.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::header;

use super::client::{Client, Failure, Reply};
use super::digest;
use super::partial::Partial;
use super::{HubError, Retries};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);
const BUFFER: usize = 256 << 10;
/// A request that brought this much was worth it: failures are counted from zero again.
const WORTH: u64 = 1 << 20;

/// What is transferred, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer<'a> {
    pub(super) client: &'a Client,
    pub(super) retries: Retries,
    pub(super) connections: usize,
    /// Repository, commit, file.
    pub(super) address: (&'a str, &'a str, &'a str),
    pub(super) hash: &'a str,
    pub(super) partial: &'a Partial,
    /// The server does not answer with parts.
    pub(super) whole: bool,
}

/// How a transfer ends when nothing is to blame.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All is there, and has this hash.
    Complete(String),
    /// The server sends whole files only.
    NoParts,
    /// The content has changed since the first part.
    Changed(HubError),
    /// It was asked to stop.
    Stopped,
}

/// What threads tell.
#[derive(Debug)]
pub(super) enum Note {
    /// A request is made again after a pause.
    Retrying(HubError, Duration),
    /// A tick has passed.
    Tick,
}

enum End {
    Outcome(Outcome),
    Failed(HubError),
}

enum Message {
    Note(Note),
    End(End),
}

/// Why a request did not bring all of its part.
enum Problem {
    Failed(Failure),
    End(End),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<HubError> for Problem {
    /// Errors of the disk: no request mends them.
    fn from(error: HubError) -> Self {
        Self::End(End::Failed(error))
    }
}

impl Transfer<'_> {
    /// Runs it. `tell` is called from this thread, and answers whether to go on.
    pub(super) fn run(&self, mut tell: impl FnMut(Note) -> bool) -> Result<Outcome, HubError> {
        let (stop, next) = (AtomicBool::new(false), AtomicUsize::new(0));
        let todo = self.partial.unfinished();
        let workers = if self.whole { 1 } else { self.connections.clamp(1, todo.len().max(1)) };
        let (sender, receiver) = mpsc::channel();
        let (todo, next, stop) = (&todo, &next, &stop);
        let mut end = None;
        thread::scope(|scope| {
            let hashing = sender.clone();
            scope.spawn(move || {
                let hash = digest::follow(self.partial, self.hash, || stop.load(Ordering::Relaxed));
                let end = match hash {
                    Ok(Some(hash)) => End::Outcome(Outcome::Complete(hash)),
                    Ok(None) => return,
                    Err(error) => End::Failed(error),
                };
                // The receiver lives as long as the scope.
                let _ = hashing.send(Message::End(end));
            });
            for _ in 0..workers {
                let worker = Worker { transfer: self, todo, next, stop, sender: sender.clone() };
                scope.spawn(move || worker.run());
            }
            drop(sender);
            loop {
                let go_on = match receiver.recv_timeout(TICK) {
                    Ok(Message::Note(note)) => tell(note),
                    Ok(Message::End(first)) => {
                        end.get_or_insert(first);
                        false
                    }
                    Err(RecvTimeoutError::Timeout) => tell(Note::Tick),
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if !go_on {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        });
        match end {
            None => Ok(Outcome::Stopped),
            Some(End::Outcome(outcome)) => Ok(outcome),
            Some(End::Failed(error)) => Err(error),
        }
    }
}

/// One connection.
struct Worker<'a> {
    transfer: &'a Transfer<'a>,
    todo: &'a [usize],
    next: &'a AtomicUsize,
    stop: &'a AtomicBool,
    sender: Sender<Message>,
}

impl Worker<'_> {
    fn run(&self) {
        if let Err(end) = self.work() {
            self.stop.store(true, Ordering::Relaxed);
            // The receiver outlives all workers.
            let _ = self.sender.send(Message::End(end));
        }
    }

    fn work(&self) -> Result<(), End> {
        if self.transfer.whole {
            return self.retried(|| self.whole());
        }
        while let Some(&index) = self.todo.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            self.retried(|| self.part(index))?;
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Makes requests until one succeeds, or too many in a row did not.
    fn retried(&self, mut request: impl FnMut() -> Result<(), Problem>) -> Result<(), End> {
        let Transfer { retries, partial, .. } = self.transfer;
        let mut failures = 0;
        loop {
            if self.stopped() {
                return Ok(());
            }
            let before = partial.present();
            let failure = match request() {
                Ok(()) => return Ok(()),
                Err(Problem::End(end)) => return Err(end),
                Err(Problem::Failed(failure)) => failure,
            };
            if partial.present().saturating_sub(before) >= WORTH {
                failures = 0;
            }
            failures += 1;
            if !failure.again || failures >= retries.attempts {
                return Err(End::Failed(failure.error));
            }
            let pause = retries.pause(failures, failure.after);
            // As above.
            let _ = self.sender.send(Message::Note(Note::Retrying(failure.error, pause)));
            let until = Instant::now() + pause;
            while !self.stopped() && Instant::now() < until {
                thread::sleep(TICK.min(until - Instant::now()));
            }
        }
    }

    /// The rest of a part.
    fn part(&self, index: usize) -> Result<(), Problem> {
        let Transfer { client, address, partial, .. } = self.transfer;
        let (start, bytes) = partial.part(index);
        let first = start + partial.done(index);
        let last = start + bytes - 1;
        let validator = partial.validator();
        let reply = client.file(*address, Some((first, last)), validator.as_deref())?;
        let same = self.same(&reply)?;
        match reply.status() {
            206 if !same => Err(self.changed(&reply)),
            206 => {
                self.check_range(&reply, first, last)?;
                self.copy(reply, index, last + 1 - first)
            }
            200 if !same => Err(self.changed(&reply)),
            200 => Err(Problem::End(End::Outcome(Outcome::NoParts))),
            _ => Err(self.changed(&reply)),
        }
    }

    /// The whole file, from its start.
    fn whole(&self) -> Result<(), Problem> {
        let Transfer { client, address, partial, .. } = self.transfer;
        let reply = client.file(*address, None, None)?;
        if reply.status() != 200 {
            let error = HubError::Status { place: reply.place.clone(), status: reply.status() };
            return Err(Failure::for_now(error).into());
        }
        if !self.same(&reply)? {
            return Err(self.changed(&reply));
        }
        if let Some(length) = reply.number(header::CONTENT_LENGTH).filter(|length| *length != partial.bytes())
        {
            return Err(self.other_size(&reply, length).into());
        }
        partial.reset();
        self.copy(reply, 0, partial.bytes())
    }

    /// Whether the answer is about the content that is listed. A hub that names another one in its answer than in its
    /// list cannot be helped.
    fn same(&self, reply: &Reply) -> Result<bool, Problem> {
        let hash = self.transfer.hash;
        match &reply.tag {
            Some(tag) if tag.linked && tag.value != hash && tag.value.len() == hash.len() => {
                let why = format!(
                    "{}: the hash is {} here and {hash} in the list",
                    self.transfer.address.2, tag.value
                );
                Err(Failure::for_good(reply.bad(why)).into())
            }
            tag => Ok(self.transfer.partial.agrees(tag.as_ref())),
        }
    }

    fn changed(&self, reply: &Reply) -> Problem {
        let why = match reply.status() {
            416 => format!("{} has no such part (status 416)", self.transfer.address.2),
            _ => format!("{} has changed in the middle of the download", self.transfer.address.2),
        };
        Problem::End(End::Outcome(Outcome::Changed(reply.bad(why))))
    }

    fn other_size(&self, reply: &Reply, found: u64) -> Failure {
        let (name, listed) = (self.transfer.address.2, self.transfer.partial.bytes());
        Failure::for_good(reply.bad(format!("{name} has {found} bytes here and {listed} in the list")))
    }

    /// Checks `Content-Range: bytes FIRST-LAST/TOTAL`, and the length.
    fn check_range(&self, reply: &Reply, first: u64, last: u64) -> Result<(), Failure> {
        let text = reply.response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
        let read = |text: &str| -> Option<(u64, u64, Option<u64>)> {
            let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
            let (first, last) = range.split_once('-')?;
            Some((first.trim().parse().ok()?, last.trim().parse().ok()?, total.trim().parse().ok()))
        };
        let name = self.transfer.address.2;
        match text.and_then(read) {
            Some((.., Some(total))) if total != self.transfer.partial.bytes() => {
                return Err(self.other_size(reply, total));
            }
            Some((a, b, _)) if (a, b) == (first, last) => {}
            _ => {
                let found = text.unwrap_or("none");
                let why = format!("{name}: bytes {first}-{last} were asked for, the answer has {found}");
                return Err(Failure::for_now(reply.bad(why)));
            }
        }
        let wanted = last + 1 - first;
        match reply.number(header::CONTENT_LENGTH).filter(|length| *length != wanted) {
            Some(length) => {
                let why = format!("{name}: the part has {wanted} bytes, its Content-Length says {length}");
                Err(Failure::for_now(reply.bad(why)))
            }
            None => Ok(()),
        }
    }

    /// Writes `bytes` of the answer from where part `index` ends, across the parts that follow.
    fn copy(&self, reply: Reply, mut index: usize, bytes: u64) -> Result<(), Problem> {
        let Transfer { client, partial, .. } = self.transfer;
        let place = reply.place;
        let mut body = reply.response.into_body().into_reader();
        let mut file = partial.writer()?;
        let mut buffer = vec![0; BUFFER];
        let mut left = bytes;
        let mut at = None;
        while left > 0 {
            if self.stopped() {
                return Ok(());
            }
            let (start, length) = partial.part(index);
            let done = partial.done(index);
            if done == length {
                index += 1;
                continue;
            }
            let most = usize::try_from(left.min(length - done)).unwrap_or(BUFFER).min(BUFFER);
            let read = match body.read(&mut buffer[..most]) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                Err(error) => return Err(client.broken(&place, error.into()).into()),
            };
            if read == 0 {
                let why = format!("the connection ended {left} bytes before the end");
                return Err(Failure::for_now(HubError::Network { place, why }).into());
            }
            let written = match at {
                Some(at) if at == start + done => Ok(at),
                _ => file.seek(SeekFrom::Start(start + done)),
            };
            let written =
                written.and_then(|from| file.write_all(&buffer[..read]).map(|()| from + read as u64));
            at = Some(written.map_err(|error| partial.cannot_write(error))?);
            partial.set_done(index, done + read as u64)?;
            left -= read as u64;
        }
        Ok(())
    }
}
