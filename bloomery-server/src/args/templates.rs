//! Chat templates that can be named, for files that have none or a broken one.

use bloomery_core::chat::ChatTemplate;

/// A line each: the name, a tab, the Jinja text. They lay out messages; tools are for templates of the model.
const TABLE: &str = include_str!("templates.tsv");

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.lines().filter_map(|line| line.split_once('\t'))
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    rows().map(|(name, _)| name)
}

/// The template of this name.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static str> {
    rows().find(|(known, _)| *known == name).map(|(_, source)| source)
}

/// Whether a text is Jinja, and else what is wrong with it.
pub(super) fn check(source: &str) -> Result<(), String> {
    ChatTemplate::new(source, "", "").map(drop).map_err(|error| error.to_string())
}
