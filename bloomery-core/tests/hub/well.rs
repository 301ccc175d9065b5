//! A hub that does what it should.

use std::fs;
use std::sync::{Arc, Mutex};

use bloomery_core::hub::{Event, HubError, Role};

use crate::server::{Server, Trick};
use crate::support::{blobs, fetch, files, folder, hub, is_content, plain};

#[test]
fn a_model_is_fetched_in_parts_and_never_twice() {
    let (server, cache) = (Server::start(files(), None, plain), folder("parts"));
    let hub = hub(&server, &cache);
    let path = fetch(&hub, "hf:u/r").unwrap();
    assert_eq!(fs::read(&path).unwrap(), *files()[0].bytes);
    let mut ranges: Vec<_> = server.content_requests().iter().map(|logged| logged.range.unwrap()).collect();
    ranges.sort_unstable();
    let mib = |n: u64| n << 20;
    assert_eq!(ranges, [0, 1, 2, 3].map(|n| (mib(n), mib(n + 1) - 1)));
    assert_eq!(server.sent(), mib(4));
    assert_eq!(blobs(&cache), [files()[0].hash.clone()], "nothing is left over");

    assert_eq!(fetch(&hub, "u/r:q4_k_m").unwrap(), path);
    assert_eq!(server.sent(), mib(4), "it was there");
    assert!(path.ends_with(format!("models--u--r/snapshots/{}/m-Q4_K_M.gguf", "c0".repeat(20))));
}

#[test]
fn quantisations_files_and_parts_are_chosen() {
    let (server, cache) = (Server::start(files(), None, plain), folder("choice"));
    let hub = hub(&server, &cache);
    let name =
        |text: &str| fetch(&hub, text).map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    assert_eq!(name("u/r:q8_0").unwrap(), "m-Q8_0.gguf");
    assert_eq!(name("u/r:bf16").unwrap(), "m-BF16-00001-of-00002.gguf");
    let second = fetch(&hub, "u/r:BF16").unwrap().with_file_name("m-BF16-00002-of-00002.gguf");
    assert_eq!(fs::read(second).unwrap(), *files()[3].bytes, "the other part came too");
    assert_eq!(name("u/r/MTP/mtp-m-Q8_0.gguf").unwrap(), "mtp-m-Q8_0.gguf");
    let error = name("u/r:Q5_0").unwrap_err().to_string();
    assert_eq!(error, "u/r: there is no model in Q5_0; there are BF16, Q4_K_M, Q8_0");
    let error = name("u/r/x.gguf").unwrap_err();
    assert!(matches!(&error, HubError::NoSuchFile { there, .. } if there.len() == 4), "{error}");
}

#[test]
fn companions_are_listed_and_fetched_when_asked_for() {
    let (server, cache) = (Server::start(files(), None, plain), folder("companions"));
    let hub = hub(&server, &cache);
    let listing = hub.list(&"u/r".parse().unwrap()).unwrap();
    let names = |role| listing.with_role(role).map(|file| file.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(Role::Draft), ["MTP/mtp-m-Q8_0.gguf"]);
    assert_eq!(names(Role::Projector), ["mmproj-F16.gguf"]);
    assert_eq!(names(Role::Head), ["joint_head_config.json"]);
    assert_eq!(server.sent(), 0);
    let draft = hub.file(&listing, "MTP/mtp-m-Q8_0.gguf").unwrap();
    assert_eq!(fs::read(draft).unwrap(), *files()[4].bytes);
    let small = hub.file(&listing, "joint_head_config.json").unwrap();
    assert_eq!(fs::read(small).unwrap(), b"hello\n", "with a hash of git's");
}

#[test]
fn the_token_goes_to_the_hub_and_nowhere_else() {
    let elsewhere = Server::start(files(), None, plain);
    let server = Server::start(files(), Some(elsewhere.address.clone()), plain);
    let hub = hub(&server, &folder("token")).token("hf_secret").unwrap();
    let path = fetch(&hub, "u/r").unwrap();
    assert_eq!(fs::read(&path).unwrap(), *files()[0].bytes);
    assert!(server.log().len() >= 5 && elsewhere.log().len() == 4);
    assert!(server.log().iter().all(|logged| logged.headers["authorization"] == "Bearer hf_secret"));
    for logged in elsewhere.log() {
        assert!(!format!("{logged:?}").contains("hf_secret"), "{logged:?}");
        assert!(logged.range.is_some(), "the range goes there, though");
    }
}

#[test]
fn a_redirect_on_the_same_hub_keeps_the_token() {
    let moved = |logged: &crate::server::Logged, _: usize| match logged.path.split_once("/old/") {
        Some((_, rest)) if is_content(logged) => {
            Trick { status: Some((307, format!("Location: /new/{rest}\r\n"))), ..Trick::default() }
        }
        _ => Trick::default(),
    };
    let server = Server::start(files(), None, moved);
    let hub = hub(&server, &folder("moved")).token("hf_secret").unwrap();
    fetch(&hub, "old/r:q8_0").unwrap();
    assert!(server.log().iter().all(|logged| logged.headers.contains_key("authorization")));
}

#[test]
fn progress_is_told() {
    let slow = |_: &crate::server::Logged, _: usize| Trick {
        trickle: Some(std::time::Duration::from_millis(20)),
        ..Trick::default()
    };
    let (server, told) = (Server::start(files(), None, slow), Arc::new(Mutex::new(Vec::new())));
    let into = Arc::clone(&told);
    let hub = hub(&server, &folder("progress")).watch(move |event| {
        if let Event::Transfer(moved) = event {
            into.lock().unwrap().push((
                moved.done.0,
                moved.total.0,
                moved.rate,
                moved.left,
                moved.number,
                moved.files,
            ));
        }
    });
    fetch(&hub, "u/r").unwrap();
    let told = told.lock().unwrap();
    assert!(told.len() >= 4, "{told:?}");
    assert!(told.is_sorted_by_key(|(done, ..)| *done), "{told:?}");
    assert_eq!((told[0].0, told[told.len() - 1].0), (0, 4 << 20));
    assert!(told.iter().all(|(_, total, .., number, files)| (*total, *number, *files) == (4 << 20, 1, 1)));
    assert!(
        told[2..].iter().all(|(done, _, rate, left, ..)| *rate > 0.0 && (left.is_some() || *done == 4 << 20))
    );
}
