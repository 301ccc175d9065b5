//! Clients that break every rule, against the real binary: it answers in words, goes on, and keeps nothing of them.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod attacks;
mod leaving;
mod process;
#[path = "../conformance/support.rs"]
#[expect(dead_code, reason = "the client of the conformance cases, of which this needs a part")]
mod support;

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use process::Holdings;
use support::Server;

/// How long the storm lasts; ten times as long it showed the same figures.
const STORM: Duration = Duration::from_secs(5);

/// Clients at the same time.
const CLIENTS: usize = 4;

/// What allocators may keep more after the storm than after a first round of everything.
const SLACK_KIB: u64 = 8 << 10;

/// What was evicted is not kept in memory: it would grow with every story.
const FLAGS: [&str; 11] = ["-np", "2", "-c", "1024", "-cram", "0", "--metrics", "--api-key", "K", "-b", "64"];

/// The story that one prompt always gives.
fn story(server: &Server) -> String {
    let body =
        json!({"prompt": "Once upon a time", "n_predict": 24, "temperature": 0, "cache_prompt": false});
    let answer = attacks::post(server, "/completion", &body.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["content"].as_str().unwrap().to_owned()
}

/// A counter of `/metrics`.
fn metric(server: &Server, name: &str) -> u64 {
    let page = attacks::get(server, "/metrics").body;
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("llamacpp:{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

/// Waits until nothing runs and nothing waits.
fn settle(server: &Server) {
    let start = Instant::now();
    let busy = || {
        let slots = attacks::get(server, "/slots").json();
        slots.as_array().unwrap().iter().any(|slot| slot["is_processing"] == true)
    };
    while metric(server, "requests_processing") + metric(server, "requests_deferred") > 0 || busy() {
        assert!(start.elapsed() < Duration::from_secs(2), "jobs run after their clients are gone");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Both slots to the end of their context at once. With a page missing one of them would have to give way.
fn fill_both_slots(server: &Server) {
    let preempted = metric(server, "jobs_preempted_total");
    let fill = |prompt: &str| {
        let body = json!({"prompt": prompt, "n_predict": -1, "ignore_eos": true, "temperature": 0});
        let answer = attacks::post(server, "/completion", &body.to_string());
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer: Value = answer.json();
        assert_eq!(answer["truncated"], true);
        let held = |key: &str| answer[key].as_u64().unwrap();
        assert_eq!(held("tokens_evaluated") + held("tokens_predicted"), 512, "{answer}");
    };
    thread::scope(|scope| {
        scope.spawn(|| fill("A fox"));
        scope.spawn(|| fill("One day"));
    });
    assert_eq!(metric(server, "jobs_preempted_total"), preempted);
}

/// What an allocator may keep of bodies of 100 MB and what was made of them: glibc returns the end of a heap once it is
/// longer than 64 MiB, and there is a heap for every thread.
const LARGE_KIB: u64 = 256 << 10;

#[test]
fn large_bodies_leave_nothing_behind() {
    let server = Server::start(&FLAGS);
    for _ in 0..5 {
        attacks::large_bodies(&server);
    }
    let Holdings { kib, .. } = Holdings::settled(server.id(), None);
    println!("{kib} KiB after 950 MB of bodies");
    assert!(kib < LARGE_KIB, "{kib} KiB after 950 MB of bodies");
}

#[test]
fn a_client_that_leaves_frees_its_place_at_once() {
    let server = Server::start(&["-np", "1", "-c", "1024", "--metrics", "--api-key", "K", "-b", "64"]);
    let mut slowest = Duration::ZERO;
    for (phase, leave) in leaving::PHASES {
        for _ in 0..5 {
            let left = leave(&server);
            let start = Instant::now();
            while (metric(&server, "requests_processing"), metric(&server, "requests_deferred")) != left.then
            {
                assert!(start.elapsed() < Duration::from_secs(1), "{phase}: still there after a second");
            }
            slowest = slowest.max(start.elapsed());
            drop(left);
            settle(&server);
        }
    }
    println!("a place was free after {slowest:?} at most");
}

#[test]
fn a_storm_leaves_nothing_behind() {
    let server = Server::start(&FLAGS);
    let before = story(&server);
    // Everything once: what is made on first use is there after it.
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || attacks::ALL.iter().for_each(|(_, attack)| attack(server, client)));
        }
    });
    fill_both_slots(&server);
    settle(&server);
    let first = Holdings::settled(server.id(), None);
    let cancelled = metric(&server, "jobs_cancelled_total");
    let start = Instant::now();
    let rounds: usize = thread::scope(|scope| {
        let storm = |client: usize| {
            let attacks = attacks::ALL.iter().cycle().skip(client * 7);
            attacks.take_while(|_| start.elapsed() < STORM).map(|(_, attack)| attack(&server, client)).count()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || storm(client))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    settle(&server);
    assert!(metric(&server, "jobs_cancelled_total") > cancelled, "nobody left in the middle of a job");
    fill_both_slots(&server);
    settle(&server);
    let last = Holdings::settled(server.id(), Some(first));
    println!("{rounds} attacks; {first:?} before, {last:?} after");
    assert!(last.files <= first.files, "{first:?}, then {last:?}");
    assert!(last.threads <= first.threads, "{first:?}, then {last:?}");
    assert!(last.kib <= first.kib + SLACK_KIB, "{first:?}, then {last:?}");
    assert_eq!(story(&server), before);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
