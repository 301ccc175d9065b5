//! From flags and variables to a hub.

use std::fmt;

use bloomery_core::hub::{Hub, HubError, Reference};

use super::draft::{Draft, Wrong};

/// The names that llama-server has for variables of [`Hub::from_environment`], and that come before those.
const OTHER_NAMES: [(&str, &str); 2] = [("HF_HUB_CACHE", "LLAMA_CACHE"), ("HF_ENDPOINT", "MODEL_ENDPOINT")];

/// Where a model is downloaded from.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HubOptions {
    /// The model; without one nothing is downloaded.
    pub reference: Option<Reference>,
    /// A repository whose decision head is wanted.
    pub head: Option<Reference>,
    /// The secret of an account, in place of the environment's.
    pub token: Option<String>,
    /// Only the cache is used.
    pub offline: bool,
    /// The environment.
    pub variables: Vec<(String, String)>,
}

impl HubOptions {
    /// The hub of the environment, as the flags change it.
    ///
    /// # Errors
    /// Those of [`Hub::from_environment`].
    pub fn hub(&self) -> Result<Hub, HubError> {
        let value = |name: &str| {
            let found = self.variables.iter().find(|(known, value)| known == name && !value.is_empty());
            found.map(|(_, value)| value.into())
        };
        let mut hub = Hub::from_environment(|name| {
            let other = OTHER_NAMES.iter().find(|(known, _)| *known == name);
            other.and_then(|(_, other)| value(other)).or_else(|| value(name))
        })?;
        if let Some(token) = &self.token {
            hub = hub.token(token)?;
        }
        Ok(if self.offline { hub.offline(true) } else { hub })
    }
}

impl fmt::Debug for HubOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reference, head, token, offline, .. } = self;
        let [reference, head] = [reference, head].map(|name| name.as_ref().map(ToString::to_string));
        let hub = &mut f.debug_struct("HubOptions");
        hub.field("reference", &reference)
            .field("head", &head)
            .field("token", &token.is_some())
            .field("offline", offline);
        hub.finish_non_exhaustive()
    }
}

/// Takes `user/repo:QUANT`.
pub(super) fn reference(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    draft.hub.reference = Some(read(value)?);
    Ok(())
}

/// Takes a file, or `hf:user/repo`. The last one counts.
pub(super) fn head(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    (draft.engine.head, draft.hub.head) = match value.starts_with("hf:") {
        true => (None, Some(read(value)?)),
        false => (Some(value.into()), None),
    };
    Ok(())
}

fn read(value: &str) -> Result<Reference, Wrong> {
    value.parse().map_err(|error| match error {
        HubError::BadReference { why, .. } => {
            Wrong::Value(format!("{why}; expected user/repo or user/repo:QUANT"))
        }
        error => Wrong::Value(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(variables: &[(&str, &str)]) -> Hub {
        let variables = variables.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        HubOptions { variables, ..HubOptions::default() }.hub().unwrap()
    }

    #[test]
    fn the_names_of_both_are_read() {
        let cache = |variables: &[(&str, &str)]| hub(variables).cache().display().to_string();
        assert_eq!(cache(&[("HF_HUB_CACHE", "/a"), ("LLAMA_CACHE", "/b")]), "/b");
        assert_eq!(cache(&[("HF_HUB_CACHE", "/a"), ("LLAMA_CACHE", "")]), "/a");
        let shown = format!("{:?}", hub(&[("HF_ENDPOINT", "http://a"), ("MODEL_ENDPOINT", "http://b/")]));
        assert!(shown.contains("\"http://b\""), "{shown}");
    }

    #[test]
    fn the_token_is_not_shown() {
        let options = HubOptions { token: Some("hf_secret".to_owned()), ..HubOptions::default() };
        assert!(!format!("{options:?}").contains("secret"));
    }
}
