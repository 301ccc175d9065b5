//! Connections that break, servers that lie, and downloads that go on where they ended.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bloomery_core::Cancel;
use bloomery_core::hub::{Event, HubError};

use crate::server::{Logged, Server, Trick};
use crate::support::{MIB, blobs, fetch, files, folder, hub, is_content, plain};

fn only_content(trick: Trick) -> impl Fn(&Logged, usize) -> Trick + Send + Sync + 'static {
    move |logged, _| if is_content(logged) { trick.clone() } else { Trick::default() }
}

/// Content with a trick for the first `count` requests, without afterwards.
fn at_first(count: usize, trick: Trick) -> impl Fn(&Logged, usize) -> Trick + Send + Sync + 'static {
    let left = Mutex::new(count);
    move |logged, _| {
        let mut left = left.lock().unwrap();
        if !is_content(logged) || *left == 0 {
            return Trick::default();
        }
        *left -= 1;
        trick.clone()
    }
}

#[test]
fn a_connection_that_breaks_is_taken_up_where_it_broke() {
    let cut = Trick { cut: Some(100_000), ..Trick::default() };
    let server = Server::start(files(), None, at_first(3, cut));
    let cache = folder("breaks");
    let path = fetch(&hub(&server, &cache), "u/r").unwrap();
    assert_eq!(fs::read(path).unwrap(), *files()[0].bytes);
    assert_eq!(server.sent(), 4 * MIB, "no byte came twice");
    assert!(server.content_requests().iter().any(|logged| logged.range.unwrap().0 % MIB == 100_000));
}

#[test]
fn a_connection_that_always_breaks_ends_the_download_and_the_next_one_goes_on() {
    let cut = Trick { cut: Some(300_000), ..Trick::default() };
    let server = Server::start(files(), None, only_content(cut));
    let cache = folder("goes-on");
    // One connection: what others have been sent when the download ends may not have arrived.
    let error = fetch(&hub(&server, &cache).retries(2, Duration::ZERO).connections(1), "u/r").unwrap_err();
    assert!(matches!(error, HubError::Network { .. }), "{error}");
    assert!(error.to_string().contains("bytes before the end"), "{error}");
    let first = server.sent();
    assert!(first > 0 && first < 4 * MIB, "{first}");
    assert!(blobs(&cache).iter().all(|name| name.ends_with(".incomplete")), "{:?}", blobs(&cache));

    let server = Server::start(files(), None, plain);
    let path = fetch(&hub(&server, &cache), "u/r").unwrap();
    assert_eq!(fs::read(path).unwrap(), *files()[0].bytes);
    assert_eq!(server.sent() + first, 4 * MIB, "only what was missing came");
}

#[test]
fn a_server_that_falls_silent_is_given_up_in_time() {
    let stall = Trick { cut: Some(1000), stall: Some(Duration::from_secs(20)), ..Trick::default() };
    let server = Server::start(files(), None, only_content(stall));
    let began = Instant::now();
    let error = fetch(&hub(&server, &folder("silent")).retries(2, Duration::ZERO), "u/r:q8_0").unwrap_err();
    assert!(error.to_string().contains("nothing came for 0.6 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn a_slow_server_is_no_silent_one() {
    // 128 pauses of 40 ms on three connections: longer than the timeout of 0.6 s, each pause shorter.
    let trickle = Trick { trickle: Some(Duration::from_millis(40)), ..Trick::default() };
    let server = Server::start(files(), None, only_content(trickle));
    fetch(&hub(&server, &folder("slow")), "u/r").unwrap();
    assert_eq!(server.content_requests().len(), 4);
}

#[test]
fn wrong_content_is_thrown_away() {
    let server = Server::start(files(), None, only_content(Trick { spoiled: true, ..Trick::default() }));
    let cache = folder("spoiled");
    let error = fetch(&hub(&server, &cache), "u/r").unwrap_err();
    let HubError::WrongHash { expected, found, .. } = &error else { panic!("{error}") };
    assert!(*expected == files()[0].hash && found.len() == 64 && found != expected);
    assert!(error.to_string().contains(expected) && error.to_string().contains(found));
    assert_eq!(blobs(&cache), [""; 0]);
    assert!(!cache.join("models--u--r/snapshots").exists());
    assert_eq!(server.sent(), 4 * MIB, "once is enough");
}

#[test]
fn a_spoiled_beginning_of_an_earlier_download_is_fetched_again() {
    let spoiled = Trick { spoiled: true, cut: Some(200_000), ..Trick::default() };
    let server = Server::start(files(), None, only_content(spoiled));
    let cache = folder("spoiled-start");
    fetch(&hub(&server, &cache).retries(1, Duration::ZERO), "u/r").unwrap_err();
    assert!(server.sent() > 0);
    let server = Server::start(files(), None, plain);
    let path = fetch(&hub(&server, &cache), "u/r").unwrap();
    assert_eq!(fs::read(path).unwrap(), *files()[0].bytes);
}

#[test]
fn a_server_without_ranges_sends_all_at_once() {
    let server = Server::start(files(), None, only_content(Trick { whole: true, ..Trick::default() }));
    let path = fetch(&hub(&server, &folder("whole")), "u/r").unwrap();
    assert_eq!(fs::read(path).unwrap(), *files()[0].bytes);
    let last = server.content_requests().pop().unwrap();
    assert_eq!((last.range, last.sent), (None, 4 * MIB));
}

#[test]
fn a_server_without_ranges_that_breaks_starts_over() {
    let whole = Trick { whole: true, ..Trick::default() };
    let broken = Mutex::new(false);
    let server = Server::start(files(), None, move |logged, _| {
        let mut broken = broken.lock().unwrap();
        let breaks = is_content(logged) && logged.range.is_none() && !*broken;
        *broken |= breaks;
        if is_content(logged) {
            Trick { cut: breaks.then_some(2_500_000), ..whole.clone() }
        } else {
            Trick::default()
        }
    });
    let path = fetch(&hub(&server, &folder("whole-breaks")), "u/r").unwrap();
    assert_eq!(fs::read(path).unwrap(), *files()[0].bytes);
}

#[test]
fn content_that_changes_in_the_middle_is_fetched_from_its_start() {
    // The first request has another mark than all others.
    let server =
        Server::start(files(), None, at_first(1, Trick { tag: Some("\"old\"".into()), ..Trick::default() }));
    let told = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&told);
    let hub = hub(&server, &folder("changes")).connections(1).watch(move |event| {
        if let Event::Retrying { why, .. } = event {
            seen.store(why.to_string().contains("has changed in the middle"), Ordering::Relaxed);
        }
    });
    let path = fetch(&hub, "u/r").unwrap();
    assert_eq!(fs::read(path).unwrap(), *files()[0].bytes);
    assert!(told.load(Ordering::Relaxed));
    assert_eq!(server.content_requests()[1].headers["if-range"], "\"old\"");
}

#[test]
fn content_that_always_changes_is_an_error() {
    let server = Server::start(files(), None, |logged, number| Trick {
        tag: is_content(logged).then(|| format!("\"{number}\"")),
        ..Trick::default()
    });
    let error = fetch(&hub(&server, &folder("always-changes")), "u/r").unwrap_err();
    assert!(error.to_string().contains("m-Q4_K_M.gguf has changed in the middle"), "{error}");
}

#[test]
fn lies_about_sizes_and_hashes_are_found_out() {
    let cases = [
        (
            "total",
            Trick { range: Some("bytes 0-8191/9000".into()), ..Trick::default() },
            "has 9000 bytes here and 8192",
        ),
        (
            "range",
            Trick { range: Some("bytes 1-8192/8192".into()), ..Trick::default() },
            "bytes 0-8191 were asked for",
        ),
        ("no-range", Trick { range: Some("none".into()), ..Trick::default() }, "bytes 0-8191 were asked for"),
        ("longer", Trick { longer: 5, ..Trick::default() }, "its Content-Length says 8197"),
        ("shorter", Trick { longer: -5, ..Trick::default() }, "its Content-Length says 8187"),
        (
            "whole-longer",
            Trick { longer: 5, whole: true, ..Trick::default() },
            "has 8197 bytes here and 8192",
        ),
        (
            "gone",
            Trick { status: Some((416, String::new())), ..Trick::default() },
            "has no such part (status 416)",
        ),
    ];
    for (name, trick, wanted) in cases {
        let server = Server::start(files(), None, only_content(trick));
        let cache = folder(&format!("lies-{name}"));
        let error = fetch(&hub(&server, &cache), "u/r:q8_0").unwrap_err();
        assert!(error.to_string().contains(wanted), "{name}: {error}");
        assert!(!cache.join("models--u--r/snapshots").exists(), "{name}");
    }
    let other = Trick { tag: Some(format!("\"{}\"", "0".repeat(64))), ..Trick::default() };
    let server = Server::start(files(), Some("http://127.0.0.1:9".to_owned()), only_content(other));
    // The hub's own hash is looked at before its redirect is of use.
    let error =
        fetch(&hub(&server, &folder("lies-hash")).retries(1, Duration::ZERO), "u/r:q8_0").unwrap_err();
    assert!(error.is_network(), "{error}");
    let elsewhere = Server::start(files(), None, plain);
    let other = Trick { tag: Some(format!("\"{}\"", "0".repeat(64))), ..Trick::default() };
    let server = Server::start(files(), Some(elsewhere.address.clone()), only_content(other));
    let error = fetch(&hub(&server, &folder("lies-hash")), "u/r:q8_0").unwrap_err();
    assert!(
        error.to_string().contains("in the list") && error.to_string().contains(&"0".repeat(64)),
        "{error}"
    );
}

#[test]
fn a_download_is_cancelled_and_goes_on_later() {
    let trickle = Trick { trickle: Some(Duration::from_millis(50)), ..Trick::default() };
    let server = Server::start(files(), None, only_content(trickle));
    let (cache, cancel) = (folder("cancel"), Cancel::default());
    let other = cancel.clone();
    let hurry = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        other.cancel();
    });
    let error = fetch(&hub(&server, &cache).cancel(cancel), "u/r").unwrap_err();
    hurry.join().unwrap();
    assert!(matches!(error, HubError::Cancelled), "{error}");
    let server = Server::start(files(), None, plain);
    fetch(&hub(&server, &cache), "u/r").unwrap();
    assert!(server.sent() < 4 * MIB, "some was there: {}", server.sent());
}
