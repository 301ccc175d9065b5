//! The table of flags: names, environment, value, meaning and fate of each, and nothing else knows them. Parsing, help,
//! completion, suggestions and the tables of `docs/serving.md` all read these rows.

mod chat;
mod context;
mod devices;
mod draft;
mod general;
mod logs;
mod model;
mod sampling;
mod server;

use super::flag::{Flag, Group};

/// All groups, in the order of the help.
pub static GROUPS: [Group; 9] = [
    Group { title: "General", flags: general::FLAGS },
    Group { title: "Model", flags: model::FLAGS },
    Group { title: "Context, slots, cache", flags: context::FLAGS },
    Group { title: "Devices and memory", flags: devices::FLAGS },
    Group { title: "Sampling defaults", flags: sampling::FLAGS },
    Group { title: "Chat and reasoning", flags: chat::FLAGS },
    Group { title: "Server", flags: server::FLAGS },
    Group { title: "Logs", flags: logs::FLAGS },
    Group { title: "Speculative decoding", flags: draft::FLAGS },
];

/// All rows.
pub fn flags() -> impl Iterator<Item = &'static Flag> {
    GROUPS.iter().flat_map(|group| group.flags)
}

/// The row with this spelling, and whether the spelling switches it off.
#[must_use]
pub fn find(name: &str) -> Option<(&'static Flag, bool)> {
    flags().find_map(|flag| {
        let on = flag.names().any(|known| known == name);
        let off = flag.off_names().any(|known| known == name);
        (on || off).then_some((flag, off))
    })
}

const ONE: &str = "a model is on one card at most, and all but experts is on it as a whole";
const DRAFTS: &str =
    "other models that draft are not in this release; what a text repeats is guessed, see --spec-type";
const MEDIA: &str = "images, audio and video are not in this release";
const INTERNALS: &str = "it tunes internals that this engine does not have";
const RERANKING: &str = "reranking is not in this release";
