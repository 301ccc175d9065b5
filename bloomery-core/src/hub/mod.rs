//! Downloads from the Hugging Face hub, into the cache that its own programs share.
//!
//! ```no_run
//! use bloomery_core::hub::Hub;
//! use bloomery_core::{Engine, ModelSource};
//!
//! // Without an environment: `Hub::new()`. Then there is no token, and the cache is in its usual place.
//! let hub = Hub::from_environment(|name| std::env::var_os(name))?;
//! let reference = "unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF:Q4_K_M".parse()?;
//! let plan = Engine::builder(ModelSource::Hub(reference)).hub(hub.watch(|event| println!("{event}"))).plan()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A file is hashed while it arrives, and is not seen under its name before its hash is right. What has arrived of it
//! stays when a download ends early, and the next one goes on from there. Calls block.

mod cache;
mod cached;
mod client;
mod digest;
mod environment;
mod error;
mod event;
mod fetch;
mod listing;
mod lock;
mod name;
mod partial;
mod reference;
mod retries;
mod role;
mod space;
mod transfer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use cached::CachedModel;
pub use error::HubError;
pub use event::{Event, Transfer};
pub use listing::{Listing, RepoFile};
pub use reference::Reference;
pub use role::Role;

use crate::generate::Cancel;
use cache::RepoCache;
use client::{Client, Token};
use fetch::Fetch;
use retries::Retries;

/// The hub where models are when nothing else is said.
const ENDPOINT: &str = "https://huggingface.co";
/// A request has some costs of its own; this much takes seconds on most lines.
const PART: u64 = 64 << 20;

type Watcher = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// A hub, a cache, and how to get from one to the other.
#[derive(Clone)]
#[must_use]
pub struct Hub {
    cache: PathBuf,
    endpoint: String,
    token: Option<Token>,
    proxy: Option<ureq::Proxy>,
    offline: bool,
    connections: usize,
    part_bytes: u64,
    timeout: Duration,
    retries: Retries,
    cancel: Cancel,
    watcher: Option<Watcher>,
}

impl Hub {
    /// huggingface.co without a token, and the cache in `.cache/huggingface/hub` of the user's home.
    pub fn new() -> Self {
        // Where there is no home, the folder of the process has to do: the error of a download will name it.
        let home = std::env::home_dir().unwrap_or_default();
        Self::with_cache(home.join(".cache").join("huggingface").join("hub"))
    }

    /// The same with another cache.
    pub fn with_cache(folder: impl Into<PathBuf>) -> Self {
        Self {
            cache: folder.into(),
            endpoint: ENDPOINT.to_owned(),
            token: None,
            proxy: None,
            offline: false,
            connections: 4,
            part_bytes: PART,
            timeout: Duration::from_secs(30),
            retries: Retries::default(),
            cancel: Cancel::default(),
            watcher: None,
        }
    }

    /// Another hub than huggingface.co, such as a mirror.
    ///
    /// # Errors
    /// It is no address that starts with `https://` or `http://`.
    pub fn endpoint(self, address: &str) -> Result<Self, HubError> {
        Ok(Self { endpoint: client::endpoint(address)?, ..self })
    }

    /// The secret of a user's account. It is sent to the hub and to no other host.
    ///
    /// # Errors
    /// It has characters that no token has.
    pub fn token(self, token: &str) -> Result<Self, HubError> {
        Ok(Self { token: Some(Token::new(token)?), ..self })
    }

    /// A proxy, such as `http://host:3128`.
    ///
    /// # Errors
    /// It is no address of a proxy.
    pub fn proxy(self, address: &str) -> Result<Self, HubError> {
        // The address may have a password in it.
        let bad = |_| HubError::BadOption { option: "proxy", why: "it is no address of a proxy".to_owned() };
        Ok(Self { proxy: Some(ureq::Proxy::new(address).map_err(bad)?), ..self })
    }

    /// Only the cache is used, and no connection is made.
    pub fn offline(self, offline: bool) -> Self {
        Self { offline, ..self }
    }

    /// Parts of a file that are fetched at the same time. Default 4.
    pub fn connections(self, connections: usize) -> Self {
        Self { connections: connections.max(1), ..self }
    }

    /// Bytes that one request asks for. Default 64 MiB.
    pub fn part_bytes(self, bytes: u64) -> Self {
        Self { part_bytes: bytes.max(1), ..self }
    }

    /// How long a connection may take to come about, or bring nothing. Default 30 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Requests that may fail in a row before a download does, and the first pause between them, which doubles each
    /// time. Default 5 and 1 s.
    pub fn retries(self, attempts: usize, first_pause: Duration) -> Self {
        Self { retries: Retries { attempts: attempts.max(1), first_pause }, ..self }
    }

    /// Ends downloads from another thread. What has arrived stays.
    pub fn cancel(self, cancel: Cancel) -> Self {
        Self { cancel, ..self }
    }

    /// What is told about downloads while they run, from the thread that waits for them.
    pub fn watch(self, watcher: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self { watcher: Some(Arc::new(watcher)), ..self }
    }

    /// The folder of the cache.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// What a repository has. Offline, what the cache has of it; the same where the hub cannot be reached, which
    /// [`Event::Unreachable`] tells.
    ///
    /// # Errors
    /// The hub knows no such repository, does not give it to this user, or does not answer; or nothing of it is cached.
    pub fn list(&self, reference: &Reference) -> Result<Listing, HubError> {
        Ok(self.list_with(&self.client(), reference)?.0)
    }

    /// Where the model is, after all of its files have been downloaded that were not there. Of a split model, the
    /// first part.
    ///
    /// # Errors
    /// As for [`list`](Self::list), or there is no such model, or a download fails.
    pub fn model(&self, reference: &Reference) -> Result<PathBuf, HubError> {
        let client = self.client();
        let (listing, unreachable) = self.list_with(&client, reference)?;
        let files = match reference.file() {
            Some(file) => listing.named(file),
            None => listing.model(reference.quant()),
        };
        let files = files.map_err(|error| match unreachable {
            Some(why) => why,
            None if listing.cached => {
                HubError::NotCached { what: format!("{reference} ({error})"), cache: self.cache.clone() }
            }
            None => error,
        })?;
        let path = self.fetch_with(&client, &listing, &files)?;
        path.ok_or_else(|| HubError::NoModel { repo: listing.repo.clone(), files: listing.files.len() })
    }

    /// Where the weights of a repository's [decision head](crate::EngineBuilder::head) are, after they and the configuration beside
    /// them have been downloaded if they were not there.
    ///
    /// # Errors
    /// As for [`list`](Self::list), or there is no head, or a download fails.
    pub fn head(&self, reference: &Reference) -> Result<PathBuf, HubError> {
        let client = self.client();
        let (listing, _) = self.list_with(&client, reference)?;
        let missing = |file: &str| HubError::NoSuchFile {
            repo: listing.repo.clone(),
            file: file.to_owned(),
            there: Vec::new(),
        };
        let weights = listing.with_role(Role::Head).find(|file| file.name.ends_with(".safetensors"));
        let weights = weights.ok_or_else(|| missing("joint_head.safetensors"))?;
        let folder = weights.name.strip_suffix("joint_head.safetensors").unwrap_or_default();
        let name = format!("{folder}joint_head_config.json");
        let config = listing.files.iter().find(|file| file.name == name).ok_or_else(|| missing(&name))?;
        self.fetch_with(&client, &listing, &[weights, config])?.ok_or_else(|| missing(&weights.name))
    }

    /// Where a file of a listing is, after it has been downloaded if it was not there: a draft, a head, or any other.
    ///
    /// # Errors
    /// There is no such file, or its download fails.
    pub fn file(&self, listing: &Listing, name: &str) -> Result<PathBuf, HubError> {
        let file = listing.files.iter().find(|file| file.name == name);
        let missing =
            || HubError::NoSuchFile { repo: listing.repo.clone(), file: name.to_owned(), there: Vec::new() };
        let file = file.ok_or_else(missing)?;
        self.fetch_with(&self.client(), listing, &[file])?.ok_or_else(missing)
    }

    fn client(&self) -> Client {
        Client::new(&self.endpoint, self.token.clone(), self.timeout, self.proxy.clone())
    }

    /// The list, and why it is the cache's although the hub was asked.
    fn list_with(
        &self,
        client: &Client,
        reference: &Reference,
    ) -> Result<(Listing, Option<HubError>), HubError> {
        let (repo, revision) = (reference.repo(), reference.revision());
        let cache = RepoCache::new(&self.cache, repo);
        if self.offline {
            return Ok((cache.listing(revision)?, None));
        }
        let answer = self.retries.run(
            || client.list(repo, revision),
            |why, pause| self.tell(&Event::Retrying { why, pause }),
            || self.cancelled(),
        );
        match answer.and_then(|answer| Listing::read((repo, revision), &self.endpoint, &answer)) {
            Ok(listing) => Ok((listing, None)),
            Err(why) if why.is_network() => match cache.listing(revision) {
                Ok(listing) => {
                    self.tell(&Event::Unreachable { why: &why });
                    Ok((listing, Some(why)))
                }
                Err(_) => Err(why),
            },
            Err(error) => Err(error),
        }
    }

    fn fetch_with(
        &self,
        client: &Client,
        listing: &Listing,
        files: &[&RepoFile],
    ) -> Result<Option<PathBuf>, HubError> {
        let cache = RepoCache::new(&self.cache, &listing.repo);
        if listing.cached {
            return Ok(files.first().map(|file| cache.snapshot(&listing.commit, &file.name)));
        }
        Fetch { hub: self, client, cache: &cache, listing, files }.run()
    }

    fn tell(&self, event: &Event<'_>) {
        if let Some(watcher) = &self.watcher {
            watcher(event);
        }
    }

    fn cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cache, endpoint, offline, .. } = self;
        let hub = &mut f.debug_struct("Hub");
        hub.field("cache", cache)
            .field("endpoint", endpoint)
            .field("offline", offline)
            .finish_non_exhaustive()
    }
}
