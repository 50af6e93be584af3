//! What epolls watch.

use std::collections::{BTreeMap, BTreeSet};
use weft_loader::abi::{self, kind};

/// What a member is: a descriptor's number and the word of the file that it was.
pub(super) type Key = (i32, u64);

/// How it is known that a member has become ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watched {
    /// A socket: it tells when it changes.
    Socket,
    /// Another object of ours: it is looked at each time.
    Other,
    /// A descriptor of the kernel's: the program's side looks.
    Native,
}

/// What an epoll watches. As in fs/eventpoll.c, what a wait costs depends on the members that may be ready, not on all.
#[derive(Debug, Default)]
pub(super) struct Interests {
    members: BTreeMap<Key, Member>,
    /// The numbers under which an object of ours is watched.
    numbers: BTreeMap<u64, BTreeSet<i32>>,
    natives: BTreeSet<Key>,
    others: BTreeSet<Key>,
    /// Sockets that have changed since they were last found not to be ready (`rdllist`).
    maybe: BTreeSet<Key>,
    /// Order in which members are reported: the last one reported is last next time.
    pub turn: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub events: u32,
    pub data: u64,
    /// It was woken since it was last reported, or found not to be ready. With EPOLLEXCLUSIVE: this epoll was the one to be told, and it has been ready
    /// ever since.
    pub fresh: bool,
    /// A one-shot that has fired.
    pub spent: bool,
    /// When it was last reported.
    pub turn: u64,
    /// What a descriptor of the kernel's showed when it was last looked at.
    pub native: u32,
    /// What it showed when it was last reported (one of the kernel's) or looked at (one of ours), and the count of activity when it was reported.
    pub shown: u32,
    pub activity: u64,
}

/// EPOLLEXCLUSIVE, EPOLLWAKEUP, EPOLLONESHOT, EPOLLET.
pub(super) const EXCLUSIVE: u32 = 1 << 28;
pub(super) const WAKEUP: u32 = 1 << 29;
pub(super) const ONE_SHOT: u32 = 1 << 30;
pub(super) const EDGE: u32 = 1 << 31;
pub(super) const PRIVATE_BITS: u32 = EXCLUSIVE | WAKEUP | ONE_SHOT | EDGE;
/// EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND.
const ROOM: u32 = 0x304;
/// EPOLLERR | EPOLLHUP, which everybody hears of.
const ALWAYS: u32 = 0x18;

/// Does whoever asks for these events want each edge of room to write?
pub(super) fn asks_for_room(events: u32) -> bool {
    events & EDGE != 0 && events & ROOM != 0
}

impl Member {
    /// The events that it asks for.
    pub fn asked(&self) -> u32 {
        self.events & !PRIVATE_BITS | ALWAYS
    }

    /// Does a wake-up with this key concern it? ep_poll_callback: "if (!(epi->event.events & ~EP_PRIVATE_BITS)) goto out_unlock; … if (pollflags &&
    /// !(pollflags & epi->event.events)) goto out_unlock;"
    pub fn hears(&self, wakes: u32) -> bool {
        !self.spent && wakes & self.asked() != 0
    }

    /// What there is to tell of it that shows this. `counted`: it is the kernel's, or an epoll in which one of the kernel's is ready: what is written to
    /// and read from such is counted, not known, and this is the count.
    pub fn tells(&self, shown: u32, how: Watched, counted: Option<u64>) -> u32 {
        let found = shown & self.asked();
        let exclusive = how != Watched::Native && self.events & EXCLUSIVE != 0;
        let edge = self.events & EDGE != 0;
        let new = found & !self.shown != 0 || counted.is_some_and(|activity| activity != self.activity);
        let stale = exclusive && !self.fresh || edge && !self.fresh && !new;
        if self.spent || stale { 0 } else { found }
    }

    /// It was looked at, one of ours, and there was nothing to tell. ep_send_events takes from the list what is not ready.
    pub fn was_quiet(&mut self, shown: u32) {
        self.fresh &= self.events & (EDGE | EXCLUSIVE) == 0 || shown & self.asked() != 0;
        self.shown = shown;
    }
}

impl Interests {
    pub fn len(&self) -> usize {
        self.members.len()
    }
    pub fn get(&self, key: Key) -> Option<&Member> {
        self.members.get(&key)
    }
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Member> {
        self.members.get_mut(&key)
    }

    /// Watches a descriptor from now on, or in another way.
    pub fn insert(&mut self, key: Key, member: Member, watched: Watched) {
        self.members.insert(key, member);
        match watched {
            Watched::Socket => self.maybe.insert(key),
            Watched::Other => self.others.insert(key),
            Watched::Native => self.natives.insert(key),
        };
        if watched != Watched::Native {
            self.numbers.entry(key.1).or_default().insert(key.0);
        }
    }

    /// Watches it no more. False: it was not watched.
    pub fn remove(&mut self, key: Key) -> bool {
        let was = self.members.remove(&key).is_some();
        for set in [&mut self.natives, &mut self.others, &mut self.maybe] {
            set.remove(&key);
        }
        if let Some(numbers) = self.numbers.get_mut(&key.1) {
            numbers.remove(&key.0);
            if numbers.is_empty() {
                self.numbers.remove(&key.1);
            }
        }
        was
    }

    /// The object is gone.
    pub fn forget(&mut self, inode: u64) {
        let word = kind::VIRTUAL << 56 | inode;
        for number in self.numbers.remove(&word).unwrap_or_default() {
            self.remove((number, word));
        }
    }

    /// How a member is watched.
    pub fn how(&self, key: Key) -> Watched {
        match () {
            () if self.natives.contains(&key) => Watched::Native,
            () if self.others.contains(&key) => Watched::Other,
            () => Watched::Socket,
        }
    }

    /// The members that are this object, which has changed. They may be ready now.
    pub fn changed(&mut self, inode: u64, mut tell: impl FnMut(&mut Member)) {
        let word = kind::VIRTUAL << 56 | inode;
        let Some(numbers) = self.numbers.get(&word) else { return };
        for number in numbers {
            let key = (*number, word);
            if let Some(member) = self.members.get_mut(&key) {
                tell(member);
            }
            if !self.others.contains(&key) {
                self.maybe.insert(key);
            }
        }
    }

    /// A socket is not ready, or has been told: until it changes there is nothing to look at.
    pub fn rests(&mut self, key: Key) {
        self.maybe.remove(&key);
    }

    /// Those that may be ready.
    pub fn candidates(&self) -> impl Iterator<Item = (Key, Member)> {
        let keys = self.natives.iter().chain(&self.others).chain(&self.maybe);
        keys.filter_map(|key| self.members.get(key).map(|member| (*key, *member)))
    }
    /// Sockets that need no look.
    pub fn resting(&self) -> impl Iterator<Item = (Key, Member)> {
        let awake = |key: &Key| self.natives.contains(key) || self.others.contains(key) || self.maybe.contains(key);
        self.members.iter().filter(move |(key, _)| !awake(key)).map(|(key, member)| (*key, *member))
    }
    /// Descriptors of the kernel's.
    pub fn natives(&self) -> impl Iterator<Item = (Key, Member)> {
        self.natives.iter().filter_map(|key| self.members.get(key).map(|member| (*key, *member)))
    }
    /// Objects of ours that are no sockets: keys, and inodes.
    pub fn others(&self) -> impl Iterator<Item = (Key, u64)> {
        self.others.iter().map(|key| (*key, key.1 & abi::INODE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        Member { events: 1, data: 0, fresh: false, spent: false, turn: 0, native: 0, shown: 0, activity: 0 }
    }
    fn word(inode: u64) -> u64 {
        kind::VIRTUAL << 56 | inode
    }
    fn candidates(interests: &Interests) -> Vec<Key> {
        interests.candidates().map(|(key, _)| key).collect()
    }

    #[test]
    fn a_socket_that_rests_is_looked_at_when_it_has_changed() {
        let mut interests = Interests::default();
        interests.insert((3, word(70)), member(), Watched::Socket);
        interests.insert((9, word(70)), member(), Watched::Socket);
        interests.insert((4, word(80)), member(), Watched::Other);
        interests.insert((5, 7), member(), Watched::Native);
        assert_eq!(candidates(&interests), [(5, 7), (4, word(80)), (3, word(70)), (9, word(70))]);
        interests.rests((3, word(70)));
        interests.rests((9, word(70)));
        assert_eq!(candidates(&interests), [(5, 7), (4, word(80))]);
        assert_eq!(interests.resting().count(), 2);
        let mut told = 0;
        interests.changed(70, |_| told += 1);
        interests.changed(71, |_| told += 100);
        assert_eq!((told, candidates(&interests).len(), interests.resting().count()), (2, 4, 0));
    }

    #[test]
    fn what_is_gone_is_nowhere() {
        let mut interests = Interests::default();
        for (number, inode, watched) in [(3, 70, Watched::Socket), (4, 70, Watched::Socket), (5, 80, Watched::Other)] {
            interests.insert((number, word(inode)), member(), watched);
        }
        assert!(interests.remove((3, word(70))) && !interests.remove((3, word(70))));
        interests.forget(70);
        interests.forget(80);
        assert_eq!((interests.len(), candidates(&interests).len(), interests.numbers.len()), (0, 0, 0));
    }
}
