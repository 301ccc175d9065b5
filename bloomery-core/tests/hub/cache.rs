//! The cache: its layout, offline use, and what is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bloomery_core::hub::{Event, Hub, HubError};
use bloomery_core::{Engine, Session};

use crate::server::Server;
use crate::support::{content, fetch, files, folder, hub, plain};

const COMMIT: &str = "c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0";

#[test]
fn the_layout_is_that_of_hugging_face() {
    let (server, cache) = (Server::start(files(), None, plain), folder("layout"));
    fetch(&hub(&server, &cache), "u/r:BF16").unwrap();
    let repo = cache.join("models--u--r");
    assert_eq!(fs::read_to_string(repo.join("refs/main")).unwrap(), COMMIT);
    let link = repo.join("snapshots").join(COMMIT).join("big/m-BF16-00001-of-00002.gguf");
    assert_eq!(fs::read_link(link).unwrap(), PathBuf::from(format!("../../../blobs/{}", files()[2].hash)));
    assert!(cache.join(".locks/models--u--r").join(format!("{}.lock", files()[2].hash)).is_file());
    assert_eq!(fs::read(repo.join("blobs").join(&files()[3].hash)).unwrap(), *files()[3].bytes);
}

/// What huggingface_hub leaves behind after a download, made by hand.
fn others_cache(name: &str) -> PathBuf {
    let cache = folder(name);
    let repo = cache.join("models--u--r");
    let file = &files()[1];
    for folder in ["blobs", "refs", &format!("snapshots/{COMMIT}")] {
        fs::create_dir_all(repo.join(folder)).unwrap();
    }
    fs::write(repo.join("blobs").join(&file.hash), &*file.bytes).unwrap();
    fs::write(repo.join("refs/main"), COMMIT).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(
        format!("../../blobs/{}", file.hash),
        repo.join("snapshots").join(COMMIT).join(&file.name),
    )
    .unwrap();
    cache
}

#[cfg(unix)]
#[test]
fn what_others_have_fetched_is_used() {
    let cache = others_cache("others");
    let server = Server::start(files(), None, plain);
    let path = fetch(&hub(&server, &cache), "u/r:q8_0").unwrap();
    assert_eq!((server.log().len(), server.sent()), (1, 0), "the list and nothing else");
    let offline = fetch(&Hub::with_cache(&cache).offline(true), "u/r:q8_0").unwrap();
    assert_eq!(offline, path);
}

#[cfg(unix)]
#[test]
fn offline_the_cache_has_to_do() {
    let cache = others_cache("offline");
    let hub = Hub::with_cache(&cache).offline(true);
    assert!(fetch(&hub, "u/r").unwrap().ends_with("m-Q8_0.gguf"), "the one that is there");
    assert!(fetch(&hub, &format!("u/r@{COMMIT}")).is_ok());
    for (text, wanted) in [
        ("u/r:Q4_K_M", "there is no model in Q4_K_M; there are Q8_0"),
        ("u/r@v2", "u/r@v2 is not in the cache"),
        ("u/other", "offline: u/other is not in the cache"),
        ("u/r/x.gguf", "there is no file `x.gguf`"),
    ] {
        let error = fetch(&hub, text).unwrap_err();
        assert!(matches!(error, HubError::NotCached { .. }), "{text}: {error}");
        assert!(
            error.to_string().contains(wanted) && error.to_string().contains("offline"),
            "{text}: {error}"
        );
        assert!(error.to_string().contains(cache.to_str().unwrap()), "{error}");
    }
    // A link to nothing is no file.
    fs::remove_file(cache.join("models--u--r/blobs").join(&files()[1].hash)).unwrap();
    assert!(matches!(fetch(&hub, "u/r"), Err(HubError::NotCached { .. })));
    assert_eq!(hub.cached().unwrap(), []);
}

#[cfg(unix)]
#[test]
fn a_hub_that_cannot_be_reached_leaves_what_is_cached() {
    let cache = others_cache("unreachable");
    let told = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&told);
    let hub = |cache: &Path| {
        // Port 9 of this machine: nobody listens there.
        let hub = Hub::with_cache(cache).endpoint("http://127.0.0.1:9").unwrap();
        hub.retries(2, std::time::Duration::ZERO)
    };
    let watching = hub(&cache).watch(move |event| {
        if let Event::Unreachable { .. } = event {
            seen.store(true, Ordering::Relaxed);
        }
    });
    fetch(&watching, "u/r:q8_0").unwrap();
    assert!(told.load(Ordering::Relaxed), "and it is said");
    let error = fetch(&hub(&folder("unreachable-empty")), "u/r").unwrap_err();
    assert!(matches!(&error, HubError::Network { place, .. } if place.contains("127.0.0.1:9")), "{error}");
}

#[test]
fn cached_models_are_listed() {
    let (server, cache) = (Server::start(files(), None, plain), folder("list"));
    let hub = hub(&server, &cache);
    assert_eq!(hub.cached().unwrap(), []);
    for text in ["u/r:BF16", "u/r:q8_0", "u/r/MTP/mtp-m-Q8_0.gguf"] {
        fetch(&hub, text).unwrap();
    }
    let found = Hub::with_cache(&cache).cached().unwrap();
    let names: Vec<_> = found.iter().map(|model| (model.name.as_str(), model.bytes.0)).collect();
    assert_eq!(names, [("u/r:BF16", 32 << 10), ("u/r:Q8_0", 8 << 10)], "drafts are no models");
    assert!(found[0].path.ends_with("big/m-BF16-00001-of-00002.gguf") && found[0].path.is_file());
    let again = fetch(&Hub::with_cache(&cache).offline(true), &found[0].name).unwrap();
    assert_eq!(again, found[0].path);
}

#[test]
fn an_engine_is_built_from_the_hub() {
    let demo = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/demo/bloomery-demo-q4_k_m.gguf")).unwrap();
    let server = Server::start(vec![content("demo-Q4_K_M.gguf", demo)], None, plain);
    let hub = hub(&server, &folder("engine"));
    let engine = Engine::builder("hf:u/r:Q4_K_M").hub(hub).plan().unwrap().load(|_| {}).unwrap();
    let session: Result<Session, _> = engine.session();
    assert!(session.is_ok());
}
