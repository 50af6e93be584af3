//! Where connections are kept and how they are found.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// A connection's addresses and ports, this node's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tuple {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

impl Hash for Tuple {
    /// Fewer bytes than the derived one: two words for IPv4.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ports = u32::from(self.local.port()) << 16 | u32::from(self.remote.port());
        match (self.local.ip(), self.remote.ip()) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                state.write_u64(u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits()));
            }
            (local, remote) => {
                for ip in [local, remote] {
                    match ip {
                        IpAddr::V4(ip) => state.write(&ip.octets()),
                        IpAddr::V6(ip) => state.write(&ip.octets()),
                    }
                }
            }
        }
        state.write_u32(ports);
    }
}

/// Slots with generations: a key that was given out before its slot was used again finds nothing.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    used: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new(), used: 0 }
    }
}

/// Bits of a key: 30 generation, 32 index; the upper two say what it is a key of (see [`Kind`]).
const GENERATION_MASK: u32 = (1 << 30) - 1;

impl<T> Slab<T> {
    pub(super) fn len(&self) -> usize {
        self.used
    }
    /// The key that [`Slab::insert`] will give next.
    pub(super) fn next_key(&self) -> u64 {
        match self.free.last() {
            Some(&index) => key(self.slots[index as usize].0, index),
            None => key(0, self.slots.len() as u32),
        }
    }
    pub(super) fn insert(&mut self, value: T) -> u64 {
        let at = self.next_key();
        self.used += 1;
        match self.free.pop() {
            Some(index) => self.slots[index as usize].1 = Some(value),
            None => self.slots.push((0, Some(value))),
        }
        at
    }
    pub(super) fn get(&self, key: u64) -> Option<&T> {
        let (generation, value) = self.slots.get(key as u32 as usize)?;
        value.as_ref().filter(|_| u64::from(*generation) == key >> 32)
    }
    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (generation, value) = self.slots.get_mut(key as u32 as usize)?;
        if u64::from(*generation) == key >> 32 { value.as_mut() } else { None }
    }
    pub(super) fn remove(&mut self, key: u64) -> Option<T> {
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
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let with_key =
            |(index, (generation, value)): (usize, &'_ (u32, Option<T>))| value.is_some().then(|| key(*generation, index as u32));
        let keys: Vec<u64> = self.slots.iter().enumerate().filter_map(with_key).collect();
        keys.into_iter().filter_map(|key| self.get(key).map(|value| (key, value)))
    }
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|(_, value)| value.as_mut())
    }
}

fn key(generation: u32, index: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

/// What a timer token is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Connection,
    Request,
    TimeWaits,
}

pub(super) fn token(kind: Kind, key: u64) -> u64 {
    (kind as u64) << 62 | key
}

pub(super) fn untoken(token: u64) -> (Kind, u64) {
    let kind = match token >> 62 {
        0 => Kind::Connection,
        1 => Kind::Request,
        _ => Kind::TimeWaits,
    };
    (kind, token & !(3 << 62))
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
        assert_eq!(untoken(token(Kind::Request, second)), (Kind::Request, second));
    }
}
