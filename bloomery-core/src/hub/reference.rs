//! How a model of the hub is named.

use std::fmt;
use std::str::FromStr;

use super::HubError;
use super::name::{is_repo_part, is_safe_path};

/// A model of the hub: `user/repo`, with `:QUANT` or `/FILE` and with `@REVISION` if need be. `hf:` before it is accepted.
///
/// ```
/// use bloomery_core::hub::Reference;
/// let reference: Reference = "hf:user/repo:q8_0@main".parse()?;
/// assert_eq!((reference.repo(), reference.quant()), ("user/repo", Some("q8_0")));
/// # Ok::<(), bloomery_core::hub::HubError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    repo: String,
    quant: Option<String>,
    file: Option<String>,
    revision: String,
}

impl Reference {
    /// `user/repo`.
    #[must_use]
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// The quantisation, as it was given.
    #[must_use]
    pub fn quant(&self) -> Option<&str> {
        self.quant.as_deref()
    }

    /// The exact file.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The branch, tag or commit; `main` where none was given.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The same repository, with this exact file in place of a quantisation.
    ///
    /// # Errors
    /// The name is none of a file in a repository.
    pub fn with_file(self, file: &str) -> Result<Self, HubError> {
        if !is_safe_path(file) {
            return Err(HubError::BadReference { text: file.to_owned(), why: "it is no name of a file" });
        }
        Ok(Self { quant: None, file: Some(file.to_owned()), ..self })
    }
}

impl FromStr for Reference {
    type Err = HubError;

    fn from_str(text: &str) -> Result<Self, HubError> {
        let bad = |why| HubError::BadReference { text: text.to_owned(), why };
        let rest = text.strip_prefix("hf:").unwrap_or(text);
        let (rest, revision) = match rest.split_once('@') {
            Some((rest, revision)) => (rest, revision),
            None => (rest, "main"),
        };
        if !is_safe_path(revision) {
            return Err(bad("the revision is no branch, tag or commit"));
        }
        let (rest, quant) = match rest.split_once(':') {
            Some((rest, quant)) => (rest, Some(quant)),
            None => (rest, None),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if quant.is_some_and(|quant| quant.is_empty() || !quant.chars().all(fits)) {
            return Err(bad("the quantisation after the colon is none"));
        }
        let mut parts = rest.splitn(3, '/');
        let (Some(user), Some(name)) = (parts.next(), parts.next()) else {
            return Err(bad("the slash between user and repository is missing"));
        };
        if !is_repo_part(user) || !is_repo_part(name) {
            return Err(bad("names have letters, digits, -, _ and ."));
        }
        let repo = format!("{user}/{name}");
        // llama.cpp's word for no choice.
        let quant = quant.filter(|quant| !quant.eq_ignore_ascii_case("latest")).map(str::to_owned);
        let reference = Self { repo, quant, file: None, revision: revision.to_owned() };
        match parts.next() {
            Some(_) if reference.quant.is_some() => Err(bad("a file and a quantisation are named")),
            Some(file) if !is_safe_path(file) => Err(bad("what follows the repository is no name of a file")),
            Some(file) => reference.with_file(file),
            None => Ok(reference),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        if let Some(quant) = &self.quant {
            write!(f, ":{quant}")?;
        }
        if let Some(file) = &self.file {
            write!(f, "/{file}")?;
        }
        if self.revision != "main" {
            write!(f, "@{}", self.revision)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Reference {
        text.parse().unwrap()
    }

    #[test]
    fn all_parts_are_read() {
        let plain = parse("user/repo");
        assert_eq!(
            (plain.repo(), plain.quant(), plain.file(), plain.revision()),
            ("user/repo", None, None, "main")
        );
        assert_eq!(parse("hf:user/repo:Q4_K_M").quant(), Some("Q4_K_M"));
        let all = parse("user/re.po-GGUF:q8_0@refs/pr/1");
        assert_eq!((all.quant(), all.revision()), (Some("q8_0"), "refs/pr/1"));
        assert_eq!(parse("user/repo/sub/a.gguf").file(), Some("sub/a.gguf"));
        assert_eq!(parse("user/repo:latest").quant(), None);
        for text in ["user/repo", "user/repo:Q8_0", "user/repo/a.gguf@v1", "user/repo:Q8_0@v1"] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for text in [
            "",
            "hf:",
            "repo",
            "/repo",
            "user/",
            "a/b:",
            "a/b:Q 4",
            "a/b@",
            "a/b@../x",
            "../b",
            "a/..",
            "a--x/b",
            "a/b/../c.gguf",
            "a/b:Q4/c.gguf",
            "a/b//c",
            "a b/c",
            "a/b/c.gguf:Q4",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
        assert!(parse("a/b").with_file("../c").is_err());
    }
}
