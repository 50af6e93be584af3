//! Where things are kept that others name by number: slots that are used again, under numbers that are not.

/// Bits of a key: 30 generation, 32 slot. The upper two are zero, free for what the key's user wants to say with them.
const GENERATION_MASK: u32 = (1 << 30) - 1;

/// A slot: its generation, and what is in it.
pub type Place<T> = (u32, Option<T>);

/// Slots with generations: a key that was given out before its slot was used again finds nothing.
#[derive(Debug)]
pub struct Slab<T> {
    /// The generation that a slot begins with.
    first: u32,
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    used: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab::beginning_with(0)
    }
}

fn key(generation: u32, slot: usize) -> u64 {
    u64::from(generation) << 32 | slot as u64
}

impl<T> Slab<T> {
    /// An empty slab whose slots begin with this generation (its lower 30 bits), so that the keys of another one mean nothing here.
    pub fn beginning_with(generation: u32) -> Slab<T> {
        Slab { first: generation & GENERATION_MASK, slots: Vec::new(), free: Vec::new(), used: 0 }
    }
    /// Where slots begin, the slots with their generations, and those that are free in the order in which they were freed.
    pub fn parts(&self) -> (u32, &[Place<T>], &Vec<u32>) {
        (self.first, &self.slots, &self.free)
    }
    /// A slab of such parts. `None`: they do not fit each other.
    pub fn of_parts(first: u32, slots: Vec<Place<T>>, free: Vec<u32>) -> Option<Slab<T>> {
        let used = slots.iter().filter(|(_, value)| value.is_some()).count();
        let mut listed = vec![false; slots.len()];
        let each_free_once = free.iter().all(|slot| {
            let is_free = slots.get(*slot as usize).is_some_and(|(_, value)| value.is_none());
            is_free && !std::mem::replace(&mut listed[*slot as usize], true)
        });
        let fits = each_free_once && used + free.len() == slots.len() && first <= GENERATION_MASK;
        let fits = fits && slots.iter().all(|(generation, _)| *generation <= GENERATION_MASK);
        fits.then_some(Slab { first, slots, free, used })
    }
    /// How many things it holds.
    pub fn len(&self) -> usize {
        self.used
    }
    /// It holds nothing.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }
    /// The key that [`Slab::insert`] will give next.
    pub fn next_key(&self) -> u64 {
        match self.free.last() {
            Some(&slot) => key(self.slots[slot as usize].0, slot as usize),
            None => key(self.first, self.slots.len()),
        }
    }
    /// Keeps a value and returns its key.
    pub fn insert(&mut self, value: T) -> u64 {
        let at = self.next_key();
        self.used += 1;
        match self.free.pop() {
            Some(slot) => self.slots[slot as usize].1 = Some(value),
            None => self.slots.push((self.first, Some(value))),
        }
        at
    }
    /// What has this key.
    pub fn get(&self, key: u64) -> Option<&T> {
        let (generation, value) = self.slots.get(key as u32 as usize)?;
        value.as_ref().filter(|_| u64::from(*generation) == key >> 32)
    }
    /// What has this key.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (generation, value) = self.slots.get_mut(key as u32 as usize)?;
        if u64::from(*generation) == key >> 32 { value.as_mut() } else { None }
    }
    /// Takes out what has this key.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let (generation, slot) = self.slots.get_mut(key as u32 as usize)?;
        if u64::from(*generation) != key >> 32 {
            return None;
        }
        let value = slot.take()?;
        *generation = (*generation + 1) & GENERATION_MASK;
        self.free.push(key as u32);
        self.used -= 1;
        Some(value)
    }
    /// All, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, (generation, value))| Some((key(*generation, slot), value.as_ref()?)))
    }
    /// All, by slot.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|(_, value)| value.as_mut())
    }
    /// Gives back the memory of the slots behind the last that is used. Their keys find nothing later either.
    pub fn shrink_to_fit(&mut self) {
        let kept = self.slots.iter().rposition(|(_, value)| value.is_some()).map_or(0, |last| last + 1);
        // Slots that are made anew begin where the furthest of these has come to.
        let ahead = |generation: u32| generation.wrapping_sub(self.first) & GENERATION_MASK;
        let came_to = self.slots.drain(kept..).map(|(generation, _)| ahead(generation)).filter(|by| *by <= GENERATION_MASK / 2).max();
        self.first = (self.first + came_to.unwrap_or(0)) & GENERATION_MASK;
        self.free.retain(|slot| (*slot as usize) < kept);
        self.slots.shrink_to_fit();
        self.free.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_finds_nothing_in_a_reused_slot() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let expected = slab.next_key();
        let second = slab.insert('b');
        assert_eq!(expected, second);
        assert_ne!(first, second);
        assert_eq!(slab.remove(first), None);
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&'b')));
        assert_eq!(second >> 62, 0);
    }

    #[test]
    fn nor_does_one_of_a_slot_that_was_given_back() {
        let mut slab = Slab::beginning_with(u32::MAX);
        let mut old = Vec::new();
        for round in 0..5 {
            let keys: Vec<u64> = (0..100).map(|n| slab.insert(n)).collect();
            assert!(keys.iter().all(|key| !old.contains(key)), "round {round}");
            // Some are used more often than others; one stays, with all before it.
            let again: Vec<u64> = keys.iter().skip(10).filter_map(|key| slab.remove(*key).map(|n| slab.insert(n))).collect();
            assert!(again.iter().all(|key| !old.contains(key) && !keys.contains(key)), "round {round}");
            keys[5..10].iter().chain(&again).for_each(|key| assert!(slab.remove(*key).is_some()));
            old.extend(keys[5..].iter().chain(&again));
            slab.shrink_to_fit();
            assert_eq!((slab.len(), slab.slots.len()), (5 * (round + 1), 5 * (round + 1)));
            assert!(slab.free.is_empty() && slab.slots.capacity() < 2 * slab.slots.len().max(8));
            assert!(old.iter().all(|key| slab.get(*key).is_none()));
            assert_eq!(slab.iter().map(|(key, n)| slab.get(key) == Some(n)).filter(|same| *same).count(), slab.len());
        }
    }
}
