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
        let Self { reference, token, offline, .. } = self;
        let reference = reference.as_ref().map(ToString::to_string);
        let hub = &mut f.debug_struct("HubOptions");
        hub.field("reference", &reference).field("token", &token.is_some()).field("offline", offline);
        hub.finish_non_exhaustive()
    }
}

/// Takes `user/repo:QUANT`.
pub(super) fn reference(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let reference = value.parse().map_err(|error| match error {
        HubError::BadReference { why, .. } => {
            Wrong::Value(format!("{why}; expected user/repo or user/repo:QUANT"))
        }
        error => Wrong::Value(error.to_string()),
    })?;
    draft.hub.reference = Some(reference);
    Ok(())
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
