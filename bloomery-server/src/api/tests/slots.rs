//! Slots in files.

use std::fs;

use serde_json::json;

use super::*;

/// A directory of its own under the system's place for such things.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("bloomery-{}", crate::api::ids::random(12)));
        fs::create_dir_all(path.join("slots")).unwrap();
        Self(path)
    }

    fn serve(&self) -> Arc<App> {
        serve(2, |options| options.slot_save_path = Some(self.0.join("slots")))
    }

    fn files(&self) -> Vec<String> {
        let list = fs::read_dir(self.0.join("slots")).unwrap();
        list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn an_erased_slot_forgets_and_a_bad_name_writes_nothing() {
    let scratch = Scratch::new();
    let app = scratch.serve();
    ok(&app, "/completion", json!({"prompt": "Once upon a time", "n_predict": 2, "id_slot": 1})).await;
    let saved = ok(&app, "/slots/1?action=save", json!({"filename": "a.bin"})).await;
    assert_eq!(keys(&saved), ["id_slot", "filename", "n_saved", "n_written", "timings"]);
    let length = fs::metadata(scratch.0.join("slots/a.bin")).unwrap().len();
    assert_eq!(saved["n_written"], length);
    assert_eq!(scratch.files(), ["a.bin"]);
    let long = "x".repeat(300);
    for name in ["../x", "a/b", "", "..", &long] {
        for action in ["save", "restore"] {
            let (status, value) =
                post(&app, &format!("/slots/1?action={action}"), &json!({"filename": name})).await;
            assert_eq!((status, &value["error"]["message"]), (400, &json!("Invalid filename")), "{name}");
        }
    }
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
    for (target, body) in [
        ("/slots/7?action=save", json!({"filename": "b.bin"})),
        ("/slots/x?action=save", json!({"filename": "b.bin"})),
        ("/slots/0?action=melt", json!({"filename": "b.bin"})),
        ("/slots/0", json!({"filename": "b.bin"})),
        ("/slots/0?action=save", json!({})),
        ("/slots/0?action=save", json!({"filename": 7})),
        ("/slots/0?action=restore", json!({"filename": "missing.bin"})),
    ] {
        assert_eq!(post(&app, target, &body).await.0, 400, "{target}");
    }
    let erased = whole(answer(&app, request(Method::POST, "/slots/1?action=erase", "")).await).await;
    assert_eq!(keys(&erased.1), ["id_slot", "n_erased"]);
    let without = post(&shared(), "/slots/0?action=erase", &json!({})).await;
    assert_eq!(without.0, 501);
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let scratch = Scratch::new();
    let app = scratch.serve();
    let path = |name: &str| scratch.0.join("slots").join(name);
    ok(&app, "/completion", json!({"prompt": "Once upon a time", "n_predict": 2, "id_slot": 0})).await;
    ok(&app, "/slots/0?action=save", json!({"filename": "a"})).await;
    let good = fs::read(path("a")).unwrap();
    fs::write(path("short"), &good[..good.len() - 1]).unwrap();
    fs::write(path("empty"), b"").unwrap();
    let mut other = good.clone();
    other[8] ^= 1;
    fs::write(path("other"), other).unwrap();
    fs::create_dir(path("dir")).unwrap();
    for name in ["short", "empty", "other", "dir", "none"] {
        let (status, value) = post(&app, "/slots/0?action=restore", &json!({"filename": name})).await;
        assert_eq!(status, 400, "{name}: {value}");
        assert!(value["error"]["message"].as_str().unwrap().contains(name));
    }
    let (status, value) = post(&app, "/slots/0?action=save", &json!({"filename": "dir"})).await;
    assert_eq!(status, 500, "{value}");
    assert!(scratch.files().iter().all(|name| !name.ends_with(".tmp")), "{:?}", scratch.files());
}
