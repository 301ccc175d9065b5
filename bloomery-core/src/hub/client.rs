//! Requests: redirects by hand, so that the token stays with the hub, and answers sorted by what can be done about them.

use std::fmt;
use std::io;
use std::time::Duration;

use ureq::http::{HeaderMap, Response, Uri, header};
use ureq::{Agent, Body, Proxy};

use super::HubError;
use super::name::percent_encoded;

/// Redirects that are followed.
const REDIRECTS: usize = 10;
/// A longer pause than this is not made by itself.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// Longest list of files: 64 MiB are some 200,000 files.
const LONGEST_LIST: u64 = 64 << 20;

/// A secret that prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    pub(super) fn new(text: &str) -> Result<Self, HubError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_graphic()) {
            let why = "it is empty, or has characters that no token has".to_owned();
            return Err(HubError::BadOption { option: "token", why });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Scheme, host and port.
type Origin = (String, String, u16);

fn origin(uri: &Uri) -> Option<Origin> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let standard = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    // A name before the host could make one look like another.
    let plain = !uri.authority()?.as_str().contains('@');
    plain.then(|| Some((scheme, uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(standard))))?
}

/// Checks the address of a hub and takes slashes off its end.
pub(super) fn endpoint(text: &str) -> Result<String, HubError> {
    let trimmed = text.trim_end_matches('/');
    let uri = trimmed.parse::<Uri>().ok().filter(|uri| origin(uri).is_some() && uri.query().is_none());
    match uri {
        Some(_) => Ok(trimmed.to_owned()),
        None => Err(HubError::BadOption {
            option: "endpoint",
            why: format!("{text} is no address that starts with https:// or http://"),
        }),
    }
}

/// A request that failed, and whether it is worth another try.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: HubError,
    pub(super) again: bool,
    /// The pause that the server asks for.
    pub(super) after: Option<Duration>,
}

impl Failure {
    pub(super) fn for_good(error: HubError) -> Self {
        Self { error, again: false, after: None }
    }

    pub(super) fn for_now(error: HubError) -> Self {
        Self { error, again: true, after: None }
    }
}

/// What tells one content of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) value: String,
    /// It is the hub's hash of the content, not the mark of the server that has the bytes.
    pub(super) linked: bool,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) response: Response<Body>,
    pub(super) tag: Option<Tag>,
    /// Who answered, for messages.
    pub(super) place: String,
}

impl Reply {
    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(super) fn number(&self, name: header::HeaderName) -> Option<u64> {
        text(self.response.headers(), name.as_str())?.trim().parse().ok()
    }

    pub(super) fn bad(&self, why: String) -> HubError {
        HubError::BadReply { place: self.place.clone(), why }
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Talks to one hub.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<Token>,
    timeout: Duration,
}

impl Client {
    pub(super) fn new(endpoint: &str, token: Option<Token>, timeout: Duration, proxy: Option<Proxy>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(proxy)
            .user_agent(concat!("bloomery/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_resolve(Some(timeout))
            .timeout_connect(Some(timeout))
            .timeout_recv_response(Some(timeout))
            .timeout_per_read(Some(timeout))
            .timeout_per_write(Some(timeout))
            .build();
        Self { agent: config.new_agent(), endpoint: endpoint.to_owned(), token, timeout }
    }

    /// The list of files of a repository, as JSON.
    pub(super) fn list(&self, repo: &str, revision: &str) -> Result<Vec<u8>, Failure> {
        let revision = percent_encoded(revision, "");
        let url = format!("{}/api/models/{repo}/revision/{revision}?blobs=true", self.endpoint);
        let reply = self.get(&url, &[])?;
        let mut reply = self.checked(reply, repo, &revision, "")?;
        let place = reply.place.clone();
        let body = reply.response.body_mut().with_config().limit(LONGEST_LIST).read_to_vec();
        body.map_err(|error| self.broken(&place, error))
    }

    /// Bytes of a file, from the first of `range` to its last, or all.
    pub(super) fn file(
        &self,
        (repo, commit, name): (&str, &str, &str),
        range: Option<(u64, u64)>,
        if_range: Option<&str>,
    ) -> Result<Reply, Failure> {
        let url = format!("{}/{repo}/resolve/{commit}/{}", self.endpoint, percent_encoded(name, "/"));
        let range = range.map(|(first, last)| format!("bytes={first}-{last}"));
        let mut headers = Vec::new();
        if let Some(range) = &range {
            headers.push((header::RANGE, range.as_str()));
        }
        if let Some(tag) = if_range {
            headers.push((header::IF_RANGE, tag));
        }
        let reply = self.get(&url, &headers)?;
        match reply.status() {
            // What follows depends on what was asked for.
            200 | 206 | 416 => Ok(reply),
            _ => self.checked(reply, repo, commit, name),
        }
    }

    /// Follows redirects.
    fn get(&self, url: &str, headers: &[(header::HeaderName, &str)]) -> Result<Reply, Failure> {
        let home = self.endpoint.parse().ok().as_ref().and_then(origin);
        let mut url = url.to_owned();
        let mut linked = None;
        for _ in 0..=REDIRECTS {
            let uri: Option<Uri> = url.parse().ok();
            let here = uri.as_ref().and_then(origin);
            let at_home = here.is_some() && here == home;
            // Addresses of other hosts are often signed, which makes them secrets too.
            let place = match (&here, at_home) {
                (_, true) => url.split('?').next().unwrap_or_default().to_owned(),
                (Some((scheme, host, _)), false) => format!("{scheme}://{host}"),
                (None, false) => self.endpoint.clone(),
            };
            let bad = |why: &str| {
                Failure::for_good(HubError::BadReply { place: place.clone(), why: why.to_owned() })
            };
            let Some((scheme, ..)) = &here else { return Err(bad("a redirect to no address of HTTP")) };
            if scheme == "http" && home.as_ref().is_some_and(|(home, ..)| home == "https") {
                return Err(bad("a redirect from https to http"));
            }
            let mut request = self.agent.get(&url);
            for (name, value) in headers {
                request = request.header(name, *value);
            }
            if let Some(Token(token)) = self.token.as_ref().filter(|_| at_home) {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            let response = request.call().map_err(|error| self.broken(&place, error))?;
            if at_home && linked.is_none() {
                let value = text(response.headers(), "x-linked-etag").map(normal);
                linked = value.map(|value| Tag { value, linked: true });
            }
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                let own = text(response.headers(), header::ETAG.as_str());
                let own = own.map(|value| Tag { value: value.to_owned(), linked: false });
                return Ok(Reply { response, tag: linked.or(own), place });
            }
            let location = text(response.headers(), header::LOCATION.as_str());
            let location = location.ok_or_else(|| bad("a redirect to nowhere"))?;
            let (scheme, authority) = match &uri {
                Some(uri) => {
                    (uri.scheme_str().unwrap_or_default(), uri.authority().map_or("", |a| a.as_str()))
                }
                None => ("", ""),
            };
            url = if location.starts_with("//") {
                format!("{scheme}:{location}")
            } else if location.starts_with('/') {
                format!("{scheme}://{authority}{location}")
            } else {
                location.to_owned()
            };
        }
        let (place, why) = (self.endpoint.clone(), format!("more than {REDIRECTS} redirects"));
        Err(Failure::for_good(HubError::BadReply { place, why }))
    }

    /// A connection that was not made, or broke.
    pub(super) fn broken(&self, place: &str, error: ureq::Error) -> Failure {
        let place = place.to_owned();
        let network = |why: String| HubError::Network { place: place.clone(), why };
        match error {
            ureq::Error::Timeout(_) => {
                Failure::for_now(network(format!("nothing came for {} s", self.timeout.as_secs_f32())))
            }
            ureq::Error::HostNotFound => {
                Failure::for_now(network("there is no host of this name".to_owned()))
            }
            // A certificate that is not trusted, or no TLS at all: asking again does not change that.
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                Failure::for_good(network(error.to_string()))
            }
            ureq::Error::Io(error) => Failure::for_now(network(error.to_string())),
            ureq::Error::ConnectionFailed => Failure::for_now(network("no connection".to_owned())),
            ureq::Error::Protocol(error) => {
                Failure::for_now(HubError::BadReply { place: place.clone(), why: error.to_string() })
            }
            // It may have the address in it.
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Failure::for_good(HubError::BadReply {
                place: place.clone(),
                why: "a redirect to no address of HTTP".to_owned(),
            }),
            error => Failure::for_good(network(error.to_string())),
        }
    }

    /// The answer if it is 200, else what it means.
    fn checked(&self, reply: Reply, repo: &str, revision: &str, file: &str) -> Result<Reply, Failure> {
        let headers = reply.response.headers();
        let code = text(headers, "x-error-code").unwrap_or_default();
        let message = text(headers, "x-error-message").map(str::to_owned);
        let (repo, place, token) = (repo.to_owned(), reply.place.clone(), self.token.is_some());
        let at_home = place.starts_with(&self.endpoint);
        let no_repo = || HubError::NoSuchRepo { repo: repo.clone(), endpoint: self.endpoint.clone(), token };
        let denied = |why: String| HubError::Denied { repo: repo.clone(), why, token };
        let error = match (reply.status(), code) {
            (200, _) => return Ok(reply),
            // A signed address is good for an hour: the hub signs another.
            (401 | 403 | 404 | 410, _) if !at_home => {
                return Err(Failure::for_now(HubError::Status { place, status: reply.status() }));
            }
            (401 | 403, "GatedRepo") => denied(format!(
                "its authors decide who gets it: ask for access at {}/{repo} and use a token of that account",
                self.endpoint
            )),
            // The hub says so of what does not exist, in order not to tell what does.
            (401, "RepoNotFound" | "") if !token => no_repo(),
            (401, _) => denied(message.unwrap_or_else(|| "the hub does not accept the token".to_owned())),
            (403, _) => denied(message.unwrap_or_else(|| "the hub forbids it".to_owned())),
            (404, "RevisionNotFound") => {
                HubError::NoSuchRevision { repo: repo.clone(), revision: revision.replace("%2F", "/") }
            }
            (404, _) if !file.is_empty() && code != "RepoNotFound" => {
                HubError::NoSuchFile { repo: repo.clone(), file: file.to_owned(), there: Vec::new() }
            }
            (404, _) => no_repo(),
            (status @ (408 | 425 | 429 | 500 | 502 | 503 | 504), _) => {
                let seconds =
                    text(headers, header::RETRY_AFTER.as_str()).and_then(|text| text.trim().parse().ok());
                let after = seconds.map(Duration::from_secs);
                return Err(match after.filter(|after| *after > LONGEST_PAUSE) {
                    Some(after) => Failure::for_good(HubError::RateLimited { place, after }),
                    None => Failure { error: HubError::Status { place, status }, again: true, after },
                });
            }
            (status, _) => HubError::Status { place, status },
        };
        Err(Failure::for_good(error))
    }
}

/// A mark of content without quotes and `W/`.
fn normal(tag: &str) -> String {
    tag.trim().trim_start_matches("W/").trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_hubs_are_checked() {
        assert_eq!(endpoint("https://hub.example/").unwrap(), "https://hub.example");
        assert_eq!(endpoint("http://127.0.0.1:80/mirror//").unwrap(), "http://127.0.0.1:80/mirror");
        for text in
            ["", "hub.example", "ftp://hub.example", "https://", "https://me:pw@hub.example", "https://a/?b"]
        {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_are_told_apart() {
        let of = |text: &str| origin(&text.parse().unwrap());
        assert_eq!(of("https://HUB.example/x"), of("https://hub.example:443"));
        assert_ne!(of("https://hub.example"), of("http://hub.example"));
        assert_ne!(of("http://hub.example:81"), of("http://hub.example"));
        assert_ne!(of("https://hub.example"), of("https://hub.example.org"));
        assert_eq!(of("https://hub.example@other.example/"), None);
    }

    #[test]
    fn tokens_do_not_print() {
        let token = Token::new(" hf_secret\n").unwrap();
        assert_eq!(token, Token("hf_secret".to_owned()));
        let client = Client::new("https://hub.example", Some(token), Duration::from_secs(1), None);
        assert!(!format!("{client:?}").contains("secret"));
        let error = Token::new("hf secret").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
