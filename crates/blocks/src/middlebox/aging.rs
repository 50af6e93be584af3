//! A table with a bound whose entries may go when their time is over.

use std::collections::{BTreeMap, BTreeSet};
use weft_core::Instant;
use weft_core::state::{Damage, Field, Reader, Writer};

#[derive(Debug)]
struct Aged<V> {
    /// From then on its place may be given to another.
    until: Instant,
    /// The time under which it stands in [`Aging::order`]: never later than `until`. To move it at every use would cost more than to look again.
    queued: Instant,
    value: V,
}

/// The table.
#[derive(Debug)]
pub(super) struct Aging<K, V> {
    most: u64,
    entries: BTreeMap<K, Aged<V>>,
    order: BTreeSet<(Instant, K)>,
}

impl<K: Ord + Copy, V> Aging<K, V> {
    pub fn new(most: u64) -> Aging<K, V> {
        Aging { most, entries: BTreeMap::new(), order: BTreeSet::new() }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many it holds at most.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Those that are there stay.
    pub fn set_most(&mut self, most: u64) {
        self.most = most;
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    pub fn has(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Is there one whose time is over?
    pub fn is_over(&self, key: &K, now: Instant) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.until <= now)
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// Adds one. See [`Aging::has_room`].
    pub fn insert(&mut self, key: K, value: V, until: Instant) {
        self.remove(&key);
        self.order.insert((until, key));
        self.entries.insert(key, Aged { until, queued: until, value });
    }

    /// Sets until when one stays.
    pub fn keep(&mut self, key: &K, until: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.until = until;
        if until < entry.queued {
            self.order.remove(&(entry.queued, *key));
            entry.queued = until;
            self.order.insert((until, *key));
        }
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.order.remove(&(entry.queued, *key));
        Some(entry.value)
    }

    /// Is there a place for one more, if those whose time is over go? `gone` hears of them.
    pub fn has_room(&mut self, now: Instant, mut gone: impl FnMut(K, V)) -> bool {
        while self.entries.len() as u64 >= self.most {
            let Some((queued, key)) = self.order.first().copied().filter(|(queued, _)| *queued <= now) else { return false };
            match self.entries.get_mut(&key) {
                Some(entry) if entry.until > now => {
                    self.order.remove(&(queued, key));
                    entry.queued = entry.until;
                    self.order.insert((entry.queued, key));
                }
                _ => self.remove(&key).into_iter().for_each(|value| gone(key, value)),
            }
        }
        true
    }
}

impl<V: Field> Field for Aged<V> {
    fn write(&self, out: &mut Writer) {
        out.put(&self.until);
        out.put(&self.value);
    }
    fn read(from: &mut Reader<'_>) -> Result<Aged<V>, Damage> {
        let until = from.take()?;
        Ok(Aged { until, queued: until, value: from.take()? })
    }
}

impl<K: Ord + Copy + Field, V: Field> Aging<K, V> {
    /// Writes the entries.
    pub fn export(&self, out: &mut Writer) {
        out.put(&self.entries);
    }

    /// Reads what another table has written, for one of this size.
    ///
    /// # Errors
    /// Damage, or more entries than it may hold.
    pub fn import(most: u64, from: &mut Reader<'_>) -> Result<Aging<K, V>, Damage> {
        let entries: BTreeMap<K, Aged<V>> = from.take()?;
        if entries.len() as u64 > most {
            return Err(Damage::new(format_args!("{} entries where {most} can be", entries.len())));
        }
        let order = entries.iter().map(|(key, entry)| (entry.queued, *key)).collect();
        Ok(Aging { most, entries, order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_up_in_the_order_in_which_they_may_be() {
        let at = Instant::from_millis;
        let mut table = Aging::new(2);
        table.insert(1u8, 'a', at(10));
        table.insert(2, 'b', at(20));
        let mut gone = Vec::new();
        assert!(!table.has_room(at(9), |_, value| gone.push(value)));
        table.keep(&1, at(30));
        assert!(!table.has_room(at(19), |_, value| gone.push(value)));
        table.keep(&1, at(15));
        assert!(table.has_room(at(20), |_, value| gone.push(value)));
        assert_eq!((&gone[..], table.has(&2)), (&['a'][..], true), "one place is enough");
        table.insert(2, 'c', at(40));
        assert_eq!((table.len(), table.order.len(), table.get(&2)), (1, 1, Some(&'c')));
        assert!(!table.is_over(&2, at(39)) && table.is_over(&2, at(40)) && !table.is_over(&1, at(99)));
    }
}
