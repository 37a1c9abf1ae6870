//! A cache of limited size that forgets what was not asked for lately, half of it at a time.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// When the young generation is full it becomes the old one, and the old one is forgotten. What is asked for again through
/// [`get_or_insert_with`](Self::get_or_insert_with) moves to the young one, so a flood of keys that come once costs no more than
/// making their values.
#[derive(Debug)]
pub struct TwoGenerationCache<K, V, S> {
    young: HashMap<K, V, S>,
    old: HashMap<K, V, S>,
    generation_len: usize,
}

impl<K: Copy + Eq + Hash, V, S: BuildHasher + Default> TwoGenerationCache<K, V, S> {
    /// Empty. Holds at most so many entries in both generations together.
    pub fn new(max_entries: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), generation_len: max_entries / 2 }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.generation_len {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &V {
        if !self.young.contains_key(&key) {
            let value = self.old.remove(&key).unwrap_or_else(make);
            self.insert(key, value);
        }
        &self.young[&key]
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::TwoGenerationCache;

    #[test]
    fn keys_asked_for_again_survive_a_flood() {
        let mut cache: TwoGenerationCache<u32, u32, RandomState> = TwoGenerationCache::new(8);
        cache.get_or_insert_with(1000, || 7);
        for key in 0..100 {
            cache.get_or_insert_with(key, || key);
            assert_eq!(*cache.get_or_insert_with(1000, || unreachable!("it is known")), 7);
        }
        assert_eq!((cache.get(&99), cache.get(&0)), (Some(&99), None));
        let held = (0..100).filter(|key| cache.get(key).is_some()).count();
        assert!(held < 8, "{held}");
    }

    #[test]
    fn inserted_value_replaces_the_older_one() {
        let mut cache: TwoGenerationCache<u32, u32, RandomState> = TwoGenerationCache::new(4);
        cache.insert(1, 1);
        cache.insert(2, 2);
        cache.insert(1, 3);
        assert_eq!((cache.get(&1), cache.get(&2)), (Some(&3), Some(&2)));
    }
}
