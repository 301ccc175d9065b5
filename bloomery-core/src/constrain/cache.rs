//! The most recently used of things that are dear to make.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// At most `capacity` values by their keys. A value is made once even if many ask for it at the same time, and who
/// asks for another does not wait.
pub(super) struct Cache<K, V> {
    capacity: usize,
    entries: Mutex<Vec<(K, Arc<OnceLock<V>>)>>,
}

impl<K: Clone + PartialEq, V: Clone> Cache<K, V> {
    pub(super) fn new(capacity: usize) -> Cache<K, V> {
        Cache { capacity, entries: Mutex::new(Vec::new()) }
    }

    pub(super) fn get(&self, key: &K, make: impl FnOnce() -> V) -> V {
        let place = {
            // Only lookups happen under the lock, so the list is whole even after a panic elsewhere.
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let found = entries.iter().position(|(known, _)| known == key);
            let entry = found.map_or_else(|| (key.clone(), Arc::default()), |at| entries.remove(at));
            let place = Arc::clone(&entry.1);
            entries.insert(0, entry);
            entries.truncate(self.capacity);
            place
        };
        place.get_or_init(make).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_what_was_not_used_for_the_longest_time() {
        let cache = Cache::new(2);
        let mut made = Vec::new();
        for key in [1, 2, 1, 3, 1, 2, 3] {
            let value = cache.get(&key, || {
                made.push(key);
                key * 10
            });
            assert_eq!(value, key * 10);
        }
        assert_eq!(made, [1, 2, 3, 2, 3]);
    }
}
