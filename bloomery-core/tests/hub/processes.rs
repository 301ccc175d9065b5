//! Two processes that want the same file, and one that is killed.

use std::env;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bloomery_core::hub::Event;

use crate::server::{Logged, Server, Trick};
use crate::support::{MIB, fetch, files, folder, hub, is_content};

const ADDRESS: &str = "BLOOMERY_TEST_HUB_ADDRESS";
const CACHE: &str = "BLOOMERY_TEST_HUB_CACHE";

/// What the other process does: this test, in a process of its own. Without the variables it does nothing.
#[test]
fn another_process() {
    let (Some(address), Some(cache)) = (env::var_os(ADDRESS), env::var_os(CACHE)) else { return };
    let hub = bloomery_core::hub::Hub::with_cache(cache).endpoint(address.to_str().unwrap()).unwrap();
    let hub = hub.part_bytes(MIB).connections(1).watch(|event| {
        if let Event::Waiting { .. } = event {
            println!("it waits");
        }
    });
    println!("it has {}", fetch(&hub, "u/r").unwrap().display());
}

fn start(server: &Server, cache: &std::path::Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["processes::another_process", "--exact", "--nocapture"]);
    command.env(ADDRESS, &server.address).env(CACHE, cache).stdout(Stdio::piped()).spawn().unwrap()
}

fn slow(logged: &Logged, _: usize) -> Trick {
    Trick { trickle: is_content(logged).then_some(Duration::from_millis(15)), ..Trick::default() }
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn one_process_downloads_and_the_other_waits() {
    let (server, cache) = (Server::start(files(), None, slow), folder("two"));
    let first = start(&server, &cache);
    wait_until("the first download", || server.sent() > 0);
    let second = start(&server, &cache);
    let said = |child: Child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let (first, second) = (said(first), said(second));
    assert!(first.contains("it has ") && !first.contains("it waits"), "{first}");
    assert!(second.contains("it waits") && second.contains("it has "), "{second}");
    assert_eq!(server.sent(), 4 * MIB);
}

#[test]
fn what_a_killed_process_has_fetched_is_not_fetched_again() {
    // 64 pieces, 4 s in all: the record, which is written once a second, has a quarter when half is there.
    let slower = |logged: &Logged, _: usize| Trick {
        trickle: is_content(logged).then_some(Duration::from_millis(60)),
        ..Trick::default()
    };
    let (server, cache) = (Server::start(files(), None, slower), folder("killed"));
    let mut first = start(&server, &cache);
    wait_until("half of the download", || server.sent() > 2 * MIB);
    first.kill().unwrap();
    first.wait().unwrap();
    let before = server.sent();
    assert!(before < 4 * MIB, "it was killed in the middle");
    let path = fetch(&hub(&server, &cache), "u/r").unwrap();
    assert_eq!(std::fs::read(path).unwrap(), *files()[0].bytes);
    // All but what the record had, and a piece that was on its way.
    assert!(server.sent() - before < 3 * MIB + (512 << 10), "{before} and {}", server.sent());
}
