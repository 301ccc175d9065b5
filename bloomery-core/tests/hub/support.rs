//! Contents, folders and hubs of tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bloomery_core::hub::{Hub, HubError, Reference};
use sha2::{Digest, Sha256};

use crate::server::{Content, Logged, Server, Trick};

pub(crate) const MIB: u64 = 1 << 20;

/// Bytes that do not repeat, of this many KiB.
pub(crate) fn noise(kib: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..kib * 128).flat_map(|_| next()).collect()
}

pub(crate) fn content(name: &str, bytes: Vec<u8>) -> Content {
    let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Content { name: name.to_owned(), bytes: Arc::new(bytes), hash }
}

/// A model of 4 MiB, in a repository with companions.
pub(crate) fn files() -> Vec<Content> {
    let mut files = vec![
        content("m-Q4_K_M.gguf", noise(4 << 10, 1)),
        content("m-Q8_0.gguf", noise(8, 2)),
        content("big/m-BF16-00001-of-00002.gguf", noise(16, 3)),
        content("big/m-BF16-00002-of-00002.gguf", noise(16, 4)),
        content("MTP/mtp-m-Q8_0.gguf", noise(8, 5)),
        content("mmproj-F16.gguf", noise(8, 6)),
    ];
    // `printf 'hello\n' | git hash-object --stdin`
    let (bytes, hash) =
        (Arc::new(b"hello\n".to_vec()), "ce013625030ba8dba906f756967f9e9ca394464a".to_owned());
    files.push(Content { name: "joint_head_config.json".to_owned(), bytes, hash });
    files
}

/// An empty folder of this test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hub-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A hub at the server, with short pauses and parts of 1 MiB.
pub(crate) fn hub(server: &Server, cache: &Path) -> Hub {
    let hub = Hub::with_cache(cache).endpoint(&server.address).unwrap();
    hub.retries(4, Duration::from_millis(10))
        .timeout(Duration::from_millis(600))
        .part_bytes(MIB)
        .connections(3)
}

pub(crate) fn fetch(hub: &Hub, text: &str) -> Result<PathBuf, HubError> {
    hub.model(&text.parse::<Reference>()?)
}

/// Nothing of the kind.
pub(crate) fn plain(_: &Logged, _: usize) -> Trick {
    Trick::default()
}

/// Whether the request is for content.
pub(crate) fn is_content(logged: &Logged) -> bool {
    !logged.path.starts_with("/api/")
}

/// Files below a folder of the cache, without those of locks.
pub(crate) fn blobs(cache: &Path) -> Vec<String> {
    let folder = cache.join("models--u--r").join("blobs");
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
