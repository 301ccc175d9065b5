//! Token ids in JSON files.

use std::fs;
use std::path::Path;

use crate::exit::{Failure, Status};

/// Reads a JSON array of token ids. An unreadable file is [`Status::NoInput`], any other content than an array of
/// at least one id [`Status::Data`].
pub fn read_ids(path: &Path) -> Result<Vec<u32>, Failure> {
    let shown = path.display();
    let text = fs::read(path).map_err(|error| Failure::new(Status::NoInput, format!("{shown}: {error}")))?;
    let ids: Vec<u32> = serde_json::from_slice(&text).map_err(|error| {
        Failure::new(Status::Data, format!("{shown}: not a JSON array of token ids: {error}"))
    })?;
    if ids.is_empty() {
        return Err(Failure::new(Status::Data, format!("{shown}: no token ids")));
    }
    Ok(ids)
}

/// Refuses ids that are not below `vocab`, with the position of the first.
pub fn check_ids(ids: &[u32], vocab: usize) -> Result<(), Failure> {
    match ids.iter().position(|&id| id as usize >= vocab) {
        None => Ok(()),
        Some(at) => {
            let message = format!("id {} at index {at} is outside the vocabulary of {vocab}", ids[at]);
            Err(Failure::new(Status::Data, message))
        }
    }
}
