//! How a block of commands is checked.

use std::fmt;

/// What the comment above a block says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// It is run as it stands. That is what a block without a comment has.
    Run,
    /// It is run beside a `bloomery-serve` with these flags.
    Server(Vec<String>),
    /// It starts a server that answers, and that ends in order when it is told to.
    Serve,
    /// It is `bloomery-serve` with flags; `--plan` is added, so that nothing is served.
    Plan,
    /// Nothing is run: every flag must be in the `--help` of its program.
    Parse,
    /// Nothing is run: every line is a command of `.ci/run`.
    Stage,
    /// Nothing is run, for this reason.
    Skip(String),
}

/// For whoever writes a rule that is none.
pub(super) const RULES: &str = "one of run, server [FLAGS], serve, plan, parse, stage, or skip, REASON";

impl Rule {
    /// Reads what stands between `<!-- check:` and `-->`. `None` where it is no rule.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once([' ', ',']).unwrap_or((text, ""));
        let rest = rest.trim();
        match (word, rest.is_empty()) {
            ("run", true) => Some(Self::Run),
            ("server", _) => Some(Self::Server(rest.split_whitespace().map(str::to_owned).collect())),
            ("serve", true) => Some(Self::Serve),
            ("plan", true) => Some(Self::Plan),
            ("parse", true) => Some(Self::Parse),
            ("stage", true) => Some(Self::Stage),
            ("skip", false) => Some(Self::Skip(rest.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Server(_) => "server",
            Self::Serve => "serve",
            Self::Plan => "plan",
            Self::Parse => "parse",
            Self::Stage => "stage",
            Self::Skip(_) => "skip",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_words_and_skipping_needs_a_reason() {
        assert_eq!(Rule::parse("run"), Some(Rule::Run));
        assert_eq!(Rule::parse("server --metrics"), Some(Rule::Server(vec!["--metrics".to_owned()])));
        assert_eq!(Rule::parse("skip, needs a card"), Some(Rule::Skip("needs a card".to_owned())));
        for text in ["skip", "skip,", "parse it", "", "later"] {
            assert_eq!(Rule::parse(text), None, "{text}");
        }
    }
}
