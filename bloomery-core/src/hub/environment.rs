//! The variables that Hugging Face's programs read.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;

use super::{Hub, HubError};

/// Values that mean yes.
const YES: [&str; 4] = ["1", "on", "yes", "true"];

impl Hub {
    /// A hub as the environment describes it. Programs pass `|name| std::env::var_os(name)`; this library reads no
    /// variable by itself.
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | `HF_HUB_CACHE` | the cache; else `hub` in `HF_HOME`; else `huggingface/hub` in `XDG_CACHE_HOME` or `~/.cache` |
    /// | `HF_TOKEN` | the token; else what the file `HF_TOKEN_PATH`, or `token` in `HF_HOME`, has in it |
    /// | `HF_ENDPOINT` | the hub |
    /// | `HF_HUB_OFFLINE` | `1`, `on`, `yes` or `true`: only the cache is used |
    /// | `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY` | the proxy, in capital or small letters |
    ///
    /// # Errors
    /// A variable has a value that makes no sense, or the file of the token cannot be read.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, HubError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| set(name).map(|value| value.to_string_lossy().into_owned());
        let folder = |name: &str| set(name).map(|value| expanded(PathBuf::from(value)));
        let home = folder("HF_HOME").unwrap_or_else(|| {
            let user = || std::env::home_dir().unwrap_or_default().join(".cache");
            folder("XDG_CACHE_HOME").unwrap_or_else(user).join("huggingface")
        });
        let mut hub = Self::with_cache(folder("HF_HUB_CACHE").unwrap_or_else(|| home.join("hub")));
        if let Some(address) = text("HF_ENDPOINT") {
            hub = hub.endpoint(&address)?;
        }
        if let Some(token) = text("HF_TOKEN") {
            hub = hub.token(&token)?;
        } else {
            let file = folder("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
            match fs::read_to_string(&file) {
                Ok(token) if !token.trim().is_empty() => hub = hub.token(&token)?,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(HubError::io("reading the token in", file)(error)),
            }
        }
        if let Some(word) = text("HF_HUB_OFFLINE") {
            hub = hub.offline(YES.iter().any(|yes| word.eq_ignore_ascii_case(yes)));
        }
        let either = |name: &str| text(name).or_else(|| text(&name.to_ascii_lowercase()));
        let first = if hub.endpoint.starts_with("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        if let Some(address) = either(first).or_else(|| either("ALL_PROXY")) {
            hub = hub.proxy(&address)?;
            if let Some(exceptions) = either("NO_PROXY") {
                hub = hub.without_proxy_for(&exceptions)?;
            }
        }
        Ok(hub)
    }

    /// The same proxy, but none for these hosts.
    fn without_proxy_for(self, exceptions: &str) -> Result<Self, HubError> {
        let Some(proxy) = &self.proxy else { return Ok(self) };
        let mut builder = ureq::Proxy::builder(proxy.protocol()).host(proxy.host()).port(proxy.port());
        if let Some(user) = proxy.username() {
            builder = builder.username(user);
        }
        if let Some(password) = proxy.password() {
            builder = builder.password(password);
        }

        let hosts = exceptions.split(',').map(str::trim).filter(|host| !host.is_empty());
        let proxy = hosts.fold(builder, |builder, host| builder.no_proxy(host)).build();
        let bad = |_| HubError::BadOption { option: "proxy", why: "NO_PROXY makes no sense".to_owned() };
        Ok(Self { proxy: Some(proxy.map_err(bad)?), ..self })
    }
}

/// `~/` at the start is the user's home.
fn expanded(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(variables: &[(&str, &str)]) -> Result<Hub, HubError> {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        Hub::from_environment(find)
    }

    #[test]
    fn the_cache_is_where_other_programs_look() {
        let cache = |variables: &[(&str, &str)]| hub(variables).unwrap().cache;
        let user = std::env::home_dir().unwrap().join(".cache/huggingface/hub");
        assert_eq!(cache(&[]), user);
        assert_eq!(cache(&[]), Hub::new().cache);
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x")]), PathBuf::from("/x/huggingface/hub"));
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x"), ("HF_HOME", "/h")]), PathBuf::from("/h/hub"));
        assert_eq!(cache(&[("HF_HOME", "/h"), ("HF_HUB_CACHE", "/c")]), PathBuf::from("/c"));
        assert_eq!(cache(&[("HF_HUB_CACHE", "")]), user, "empty is unset");
        assert_eq!(cache(&[("HF_HUB_CACHE", "~/x")]), std::env::home_dir().unwrap().join("x"));
    }

    #[test]
    fn the_rest_is_read_too() {
        let none = hub(&[("HF_HOME", "/no/such/folder")]).unwrap();
        assert_eq!((none.endpoint.as_str(), none.token, none.offline), (ENDPOINT, None, false));
        let all = [
            ("HF_ENDPOINT", "http://mirror.example:81/"),
            ("HF_TOKEN", "hf_x"),
            ("HF_HUB_OFFLINE", "ON"),
            ("http_proxy", "http://me:pw@proxy.example:3128"),
            ("NO_PROXY", "localhost, .example.org"),
        ];
        let all = hub(&all).unwrap();
        assert_eq!(all.endpoint, "http://mirror.example:81");
        assert!(all.offline && all.token == Some(crate::hub::Token::new("hf_x").unwrap()));
        let proxy = all.proxy.as_ref().unwrap();
        assert_eq!((proxy.host(), proxy.port(), proxy.password()), ("proxy.example", 3128, Some("pw")));
        assert!(proxy.is_no_proxy(&"http://a.example.org/".parse().unwrap()));
        assert!(!proxy.is_no_proxy(&"http://mirror.example:81/".parse().unwrap()));
        assert!(!format!("{all:?}").contains("pw"));
        assert!(!hub(&[("HF_HUB_OFFLINE", "0")]).unwrap().offline);
        assert!(hub(&[("HF_ENDPOINT", "mirror")]).is_err() && hub(&[("HF_TOKEN", "a b")]).is_err());
    }

    #[test]
    fn the_token_may_be_in_a_file() {
        let folder = std::env::temp_dir().join(format!("bloomery-token-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("token"), "hf_file\n").unwrap();
        let home = folder.to_str().unwrap();
        let token = |variables: &[(&str, &str)]| hub(variables).unwrap().token;
        let file = crate::hub::Token::new("hf_file").unwrap();
        assert_eq!(token(&[("HF_HOME", home)]), Some(file.clone()));
        let path = format!("{home}/token");
        assert_eq!(token(&[("HF_HOME", "/nowhere"), ("HF_TOKEN_PATH", &path)]), Some(file.clone()));
        assert_ne!(token(&[("HF_HOME", home), ("HF_TOKEN", "hf_x")]), Some(file));
        fs::remove_dir_all(&folder).unwrap();
    }

    const ENDPOINT: &str = crate::hub::ENDPOINT;
}
