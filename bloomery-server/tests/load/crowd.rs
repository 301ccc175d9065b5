//! 64 clients on 8 slots: nothing breaks, nothing is left behind.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::alone;
use crate::client::{check_chat, post};
use crate::figures::quantile;
use crate::process::{Holdings, Process};

const CLIENTS: usize = 64;

/// Every so many requests a client leaves in the middle of the answer.
const LEAVES: usize = 8;

/// Prompts that differ; the cache has seen all of them once the warm-up is over.
const PROMPTS: usize = 128;

/// Allocators keep what they once had. 64 clients that wait for 8 slots vary by a few hundred KiB from second to second.
const SLACK_KIB: u64 = 4 << 10;

#[derive(Default)]
struct Seen {
    streams: usize,
    left: usize,
    tokens: usize,
    first: Vec<Duration>,
    errors: Vec<String>,
}

fn request(prompt: usize, tokens: usize) -> Value {
    let subject = ["fox", "wolf", "king", "girl", "boat", "tree", "cat", "witch"][prompt % 8];
    let rules = "Be kind. ".repeat(prompt / 8 * 3);
    json!({
        "messages": [{"role": "system", "content": rules}, {"role": "user", "content": format!("A story about a {subject}.")}],
        "max_tokens": tokens, "ignore_eos": true, "seed": prompt, "stream": true,
        "stream_options": {"include_usage": true},
    })
}

fn one_stream(address: SocketAddr, number: usize, seen: &Mutex<Seen>) {
    let tokens = 16 + number % 5 * 12;
    let leaves = number % LEAVES == LEAVES - 1;
    let result = post(address, "/v1/chat/completions", &request(number * 7 % PROMPTS, tokens)).and_then(
        |mut reply| {
            let first = reply.head - reply.sent;
            if leaves {
                (0..number % 9).try_for_each(|_| reply.chunk().map(drop))?;
                return Ok((first, 0));
            }
            let (body, _) = reply.finish()?;
            check_chat(&body, tokens).map(|()| (first, tokens))
        },
    );
    let mut seen = seen.lock().unwrap();
    match result {
        Ok((first, tokens)) => {
            seen.first.push(first);
            seen.tokens += tokens;
            seen.streams += usize::from(!leaves);
            seen.left += usize::from(leaves);
        }
        Err(error) => seen.errors.push(error),
    }
}

/// Lets the clients come and go for a while; what the process held from moment to moment.
fn run_for(process: &Process, time: Duration, start: usize) -> (Seen, Vec<Holdings>) {
    let seen = Mutex::new(Seen::default());
    let end = Instant::now() + time;
    let mut samples = Vec::new();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (seen, address) = (&seen, process.address);
            scope.spawn(move || {
                let mut number = start + client;
                while Instant::now() < end && seen.lock().unwrap().errors.is_empty() {
                    one_stream(address, number, seen);
                    number += CLIENTS;
                }
            });
        }
        while Instant::now() < end {
            samples.push(process.holdings());
            thread::sleep(Duration::from_millis(50));
        }
    });
    (seen.into_inner().unwrap(), samples)
}

fn settled(process: &Process, wanted: impl Fn(Holdings) -> bool, what: &str) -> Holdings {
    // The runtime gives up idle threads of its pool after 10 s.
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let now = process.holdings();
        if wanted(now) {
            return now;
        }
        assert!(Instant::now() < end, "{what}: {now:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn crowd(time: Duration) {
    let _turn = alone();
    let process = Process::start(&["-np", "8", "-c", "8192", "--cache-ram", "8", "--queue-depth", "64"]);
    post(process.address, "/v1/chat/completions", &request(0, 4)).and_then(|reply| reply.finish()).unwrap();
    let before = settled(&process, |_| true, "at the start");

    let (warm, _) = run_for(&process, time / 2, 0);
    let (seen, samples) = run_for(&process, time, 1_000_003);
    for run in [&warm, &seen] {
        assert!(run.errors.is_empty(), "{} of {}: {}", run.errors.len(), run.streams, run.errors[0]);
        assert!(run.streams > CLIENTS && run.left > 0, "{} streams", run.streams);
    }
    let most = |part: &[Holdings]| part.iter().map(|sample| sample.kib).max().unwrap_or_default();
    let (early, late) = samples.split_at(samples.len() / 3);
    let (early, late) = (most(early), most(late));

    let gone = |now: Holdings| now.files <= before.files && now.threads <= before.threads;
    let after = settled(&process, gone, &format!("files and threads, {before:?} at the start"));
    let rate = seen.tokens as f64 / time.as_secs_f64();
    let [p50, p99] = [0.5, 0.99].map(|share| quantile(&seen.first, share).as_secs_f64() * 1e3);
    println!(
        "{CLIENTS} clients on 8 slots, {time:?}: {} streams and {} left early, {rate:.0} tokens/s, first byte p50 {p50:.1} ms \
         and p99 {p99:.1} ms, resident {early} KiB then {late} KiB, {before:?} before and {after:?} after",
        seen.streams, seen.left
    );
    assert!(late <= early + early / 50 + SLACK_KIB, "resident memory grows from {early} to {late} KiB");
    assert_eq!(process.terminate(), Some(0), "exit code at SIGTERM");
}

#[test]
fn sixty_four_clients_leave_nothing_behind() {
    crowd(Duration::from_secs(3));
}

#[test]
#[ignore = "a minute and a half"]
fn sixty_four_clients_for_a_minute() {
    crowd(Duration::from_secs(60));
}
