//! Answers that are no files.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bloomery_core::hub::{Event, Hub, HubError};
use bloomery_core::{Engine, LoadError, PlanError};

use crate::server::{Content, Server, Trick};
use crate::support::{content, fetch, files, folder, hub, is_content, plain};

fn answering(status: u16, headers: &str) -> Server {
    let trick = Trick { status: Some((status, headers.to_owned())), ..Trick::default() };
    Server::start(files(), None, move |_, _| trick.clone())
}

#[test]
fn refusals_say_what_to_do() {
    let gated = "X-Error-Code: GatedRepo\r\n";
    for (status, headers, token, wanted) in [
        (401, "X-Error-Code: RepoNotFound\r\n", false, "there is no such repository at http://127"),
        (
            401,
            "X-Error-Code: RepoNotFound\r\n",
            false,
            "or it is private (no token was sent: set HF_TOKEN or --hf-token)",
        ),
        (401, "", true, "the hub does not accept the token (the token was sent)"),
        (401, gated, false, "its authors decide who gets it: ask for access at http://127"),
        (403, gated, true, "and use a token of that account (the token was sent)"),
        (403, "X-Error-Message: Not today\r\n", true, "u/r: Not today"),
        (404, "", false, "there is no such repository"),
        (404, "X-Error-Code: RevisionNotFound\r\n", false, "u/r: there is no revision `v1/x`"),
        (418, "", false, "answers 418"),
    ] {
        let server = answering(status, headers);
        let mut hub = hub(&server, &folder("refusals"));
        if token {
            hub = hub.token("hf_secret").unwrap();
        }
        let error = fetch(&hub, "u/r@v1/x").unwrap_err().to_string();
        assert!(error.contains(wanted), "{status} {headers}: {error}");
        assert!(!error.contains("hf_secret"), "{error}");
        assert_eq!(server.log().len(), 1, "no reason to ask again");
    }
}

#[test]
fn a_file_that_the_list_has_and_the_hub_lacks_is_named() {
    let server = Server::start(files(), None, |logged, _| match is_content(logged) {
        true => Trick { status: Some((404, "X-Error-Code: EntryNotFound\r\n".into())), ..Trick::default() },
        false => Trick::default(),
    });
    let error = fetch(&hub(&server, &folder("entry")), "u/r:q8_0").unwrap_err().to_string();
    assert_eq!(error, "u/r: there is no file `m-Q8_0.gguf`");
}

#[test]
fn busy_servers_are_asked_again_when_they_say() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let server = Server::start(files(), None, move |_, number| {
        seen.lock().unwrap().push(Instant::now());
        let status = [Some((429, "Retry-After: 1\r\n")), Some((503, "")), None, Some((500, ""))];
        let status =
            status.get(number).copied().flatten().map(|(status, headers)| (status, headers.to_owned()));
        Trick { status, ..Trick::default() }
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&told);
    let hub = hub(&server, &folder("busy")).watch(move |event| {
        if let Event::Retrying { why, pause } = event {
            into.lock().unwrap().push((why.to_string(), *pause));
        }
    });
    fetch(&hub, "u/r:q8_0").unwrap();
    let times = times.lock().unwrap();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "as asked");
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0].1, Duration::from_secs(1));
    assert!(told[0].0.contains("429") && told[1].0.contains("503") && told[2].0.contains("500"), "{told:?}");
}

#[test]
fn there_is_an_end_to_asking_again() {
    let server = answering(503, "");
    let error = fetch(&hub(&server, &folder("end")), "u/r").unwrap_err();
    assert!(matches!(error, HubError::Status { status: 503, .. }), "{error}");
    assert_eq!(server.log().len(), 4);
    let server = answering(429, "Retry-After: 3600\r\n");
    let error = fetch(&hub(&server, &folder("end")), "u/r").unwrap_err();
    assert!(error.to_string().contains("it asks for a pause of 3600 s"), "{error}");
    assert_eq!(server.log().len(), 1);
}

#[test]
fn hostile_names_are_refused() {
    for name in ["../../../evil.gguf", "/evil.gguf", "a\\\\..\\\\evil.gguf", "a/../../evil.gguf"] {
        let evil = Content { name: name.to_owned(), ..content("x", b"evil".to_vec()) };
        let server = Server::start(vec![content("m-Q4_K_M.gguf", b"good".to_vec()), evil], None, plain);
        let cache = folder("hostile");
        let error = fetch(&hub(&server, &cache), "u/r").unwrap_err();
        assert!(matches!(error, HubError::HostileName { .. }), "{name}: {error}");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0, "nothing was written");
    }
}

#[test]
fn redirects_that_lead_astray_are_refused() {
    for (location, wanted) in [
        ("ftp://127.0.0.1/x", "a redirect to no address of HTTP"),
        ("file:///etc/passwd", "a redirect to no address of HTTP"),
        ("nowhere", "a redirect to no address of HTTP"),
        ("/round", "more than 10 redirects"),
    ] {
        let server = answering(302, &format!("Location: {location}\r\n"));
        let error = fetch(&hub(&server, &folder("astray")), "u/r").unwrap_err().to_string();
        assert!(error.contains(wanted), "{location}: {error}");
    }
}

#[test]
fn signed_addresses_are_in_no_message() {
    let elsewhere = answering(403, "");
    let server = Server::start(files(), Some(elsewhere.address.clone()), plain);
    let hub = hub(&server, &folder("signed"));
    let error = fetch(&hub, "u/r:q8_0").unwrap_err().to_string();
    assert!(error.contains("127.0.0.1 answers 403") && !error.contains("signed"), "{error}");
    assert_eq!(elsewhere.log().len(), 4, "an address that is too old is signed again");
}

#[test]
fn a_plan_says_what_happened() {
    let server = answering(404, "");
    let hub = Hub::with_cache(folder("plan")).endpoint(&server.address).unwrap();
    let plan = |text: &str| Engine::builder(text).hub(hub.clone()).plan().unwrap_err();
    let error = plan("hf:u/r");
    assert!(matches!(error, PlanError::Load(LoadError::Hub(HubError::NoSuchRepo { .. }))), "{error}");
    let error = plan("hf:u").to_string();
    assert!(error.contains("the slash between user and repository is missing"), "{error}");
}
