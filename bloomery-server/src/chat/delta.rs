//! The pieces that a reply is cut into.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

/// One step of a reply. Steps of one kind concatenate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta {
    /// Reasoning, without tags.
    Reasoning(String),
    /// What the user reads.
    Content(String),
    /// A call begins. Comes once for each call, before its arguments.
    ToolStart {
        /// Place among the calls of the reply, from 0.
        index: usize,
        /// The call's id: the model's own where its format has one, else random.
        id: String,
        /// The name of the tool, whole. It need not be a tool of the request.
        name: String,
    },
    /// More of the arguments' JSON text.
    ToolArguments {
        /// The call.
        index: usize,
        /// Text that follows what was sent before.
        fragment: String,
    },
    /// The call is complete: its fragments are one JSON object.
    ToolEnd {
        /// The call.
        index: usize,
    },
    /// What follows in the text does not fit the call, which stays incomplete; the text goes on as content.
    ToolBroken {
        /// The call.
        index: usize,
        /// All that was read of the call, as the model wrote it, for replies that can still take it back.
        raw: String,
    },
}

/// A random id of `len` letters and digits.
///
/// The standard library's hasher is keyed by the operating system, and each new one differently.
pub(crate) fn random_id(len: usize) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut id = String::with_capacity(len);
    while id.len() < len {
        let mut bits = RandomState::new().build_hasher().finish();
        for _ in 0..10 {
            if id.len() < len {
                id.push(char::from(ALPHABET[(bits % 62) as usize]));
                bits /= 62;
            }
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::random_id;

    #[test]
    fn ids_are_alphanumeric_and_differ() {
        let ids: HashSet<String> = (0..1000).map(|_| random_id(32)).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_alphanumeric())));
        assert_eq!(random_id(9).len(), 9);
    }
}
