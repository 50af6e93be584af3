//! Files of the host's that programs of a node have asked about, and those that they have opened.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Most files of which a node's programs learn the numbers.
pub const FILES_MAX: usize = 128 * 1024;
/// Lists of [`Files`].
pub const FILE_BUCKETS: usize = 4096;

/// Which number programs see for which file of the host's: its place in `entries`, from 1. Only programs use it.
#[repr(C)]
pub struct Files {
    /// First entry of each list, from 1; 0: none.
    pub buckets: [AtomicU32; FILE_BUCKETS],
    /// In the order in which programs asked.
    pub entries: [File; FILES_MAX],
    /// How many of them count.
    pub used: AtomicU32,
}

/// A file of the host's.
#[repr(C)]
pub struct File {
    /// Its inode number.
    pub inode: AtomicU64,
    /// st_dev.
    pub device: AtomicU32,
    /// The next in its list, from 1; 0: none.
    pub next: AtomicU32,
    /// Whose it is: user and group. Everything that is there at the beginning is root's.
    pub owner: [AtomicU32; 2],
}

/// Files and folders that programs have opened: later one looks whether the host still has what it had.
#[repr(C)]
pub struct Seen {
    /// Bytes of `names` that were taken; those that did not fit count, too.
    pub used: AtomicU32,
    /// Which are there already, a bit each. Two that share one are taken for the same.
    pub known: [AtomicU64; SEEN_BITS / 64],
    /// Paths, each with a zero byte behind it.
    pub names: [AtomicU8; SEEN_BYTES],
}

/// Bits of [`Seen`].
pub const SEEN_BITS: usize = 1 << 15;
/// Bytes of its paths: some thousand of them.
pub const SEEN_BYTES: usize = 1 << 18;

/// Which bit of [`Seen`] a file has.
pub fn seen_bit(inode: u64, device: u64) -> usize {
    place(inode, device, SEEN_BITS)
}

/// In which list of [`Files`] a file is.
pub fn file_bucket(inode: u64, device: u64) -> usize {
    place(inode, device, FILE_BUCKETS)
}

/// One of so many places, by what the host calls a file.
fn place(inode: u64, device: u64, places: usize) -> usize {
    let mixed = (inode ^ device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize % places
}

impl Files {
    /// The number of a file by what the host calls it; None: there are too many. Whoever asks is the only one at work on the node.
    pub fn number(&self, inode: u64, device: u64) -> Option<u64> {
        if let Some(number) = self.known(inode, device) {
            return Some(number);
        }
        let head = &self.buckets[file_bucket(inode, device)];
        let used = self.used.load(Relaxed) as usize;
        if used >= FILES_MAX {
            return None;
        }
        let entry = &self.entries[used];
        entry.inode.store(inode, Relaxed);
        entry.device.store(device as u32, Relaxed);
        entry.next.store(head.load(Relaxed), Relaxed);
        head.store(used as u32 + 1, Relaxed);
        self.used.store(used as u32 + 1, Relaxed);
        Some(used as u64 + 1)
    }

    /// The number of a file that somebody has asked about.
    pub fn known(&self, inode: u64, device: u64) -> Option<u64> {
        let mut at = self.buckets[file_bucket(inode, device)].load(Relaxed) as usize;
        while at != 0 && at <= FILES_MAX {
            let entry = &self.entries[at - 1];
            if entry.inode.load(Relaxed) == inode && u64::from(entry.device.load(Relaxed)) == device {
                return Some(at as u64);
            }
            at = entry.next.load(Relaxed) as usize;
        }
        None
    }

    /// What has this number is another file of the host's now, which has been asked about by nobody yet.
    pub fn is_now(&self, number: u64, inode: u64, device: u64) {
        let Some(entry) = (number as usize).checked_sub(1).and_then(|index| self.entries.get(index)) else { return };
        let mut place = &self.buckets[file_bucket(entry.inode.load(Relaxed), entry.device.load(Relaxed).into())];
        while u64::from(place.load(Relaxed)) != number {
            match (place.load(Relaxed) as usize).checked_sub(1).and_then(|index| self.entries.get(index)) {
                Some(other) => place = &other.next,
                None => return,
            }
        }
        place.store(entry.next.load(Relaxed), Relaxed);
        let head = &self.buckets[file_bucket(inode, device)];
        entry.inode.store(inode, Relaxed);
        entry.device.store(device as u32, Relaxed);
        entry.next.store(head.load(Relaxed), Relaxed);
        head.store(number as u32, Relaxed);
    }

    /// Whose a file is, by its number: user and group.
    pub fn owner(&self, number: u64) -> [u32; 2] {
        let entry = (number as usize).checked_sub(1).and_then(|index| self.entries.get(index));
        entry.map_or([0, 0], |entry| [entry.owner[0].load(Relaxed), entry.owner[1].load(Relaxed)])
    }

    /// It belongs to somebody else now. `u32::MAX` leaves what there was, as in chown(2).
    pub fn give(&self, number: u64, owner: [u32; 2]) {
        let Some(entry) = (number as usize).checked_sub(1).and_then(|index| self.entries.get(index)) else { return };
        for (word, value) in entry.owner.iter().zip(owner) {
            if value != u32::MAX {
                word.store(value, Relaxed);
            }
        }
    }
}
