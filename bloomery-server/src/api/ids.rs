//! Names of answers that no two answers share.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// `len` random letters and digits. The standard library's hash keys are random numbers of the operating system.
pub(crate) fn random(len: usize) -> String {
    let state = RandomState::new();
    (0..len)
        .map(|index| char::from(ALPHABET[(state.hash_one(index) % ALPHABET.len() as u64) as usize]))
        .collect()
}

/// The id of a completion: `chatcmpl-` and 32 characters.
pub(crate) fn completion() -> String {
    format!("chatcmpl-{}", random(32))
}

/// What every answer says of the build; clients expect it to begin with a `b`.
pub(crate) const BUILD: &str = concat!("bloomery-", env!("CARGO_PKG_VERSION"));

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_differ() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| super::completion()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 41));
    }
}
