//! The bytes of a ring. They are the socket's own until a program maps them, and lie in memory of the adapter's from then on.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Bytes that are written at once when a ring moves: pages that hold nothing are left out.
const PAGE_BYTES: usize = 4096;

/// Memory that programs have mapped, as the socket reaches it. Programs change it at any time: nothing that is read there is trusted.
pub trait RingMemory: fmt::Debug + Send + Sync {
    /// Reads from this place on; what is beyond the end is left as it is.
    fn read(&self, at: u64, into: &mut [u8]);
    /// Writes from this place on; nothing beyond the end.
    fn write(&self, at: u64, bytes: &[u8]);
    /// Writes a word that says whose the bytes beside it are: whoever sees it sees them.
    fn publish(&self, at: u64, word: u32) {
        self.write(at, &word.to_ne_bytes());
    }
    /// The date that programs have for one of the world's, in nanoseconds since 1970.
    fn date(&self, nanos: u64) -> u64 {
        nanos
    }
    /// No program has it mapped any more, and none will: what is there can still be read.
    fn is_left(&self) -> bool;
    /// For the adapter, which knows what it is.
    fn as_any(&self) -> &dyn Any;
}

/// The bytes of one ring.
#[derive(Debug, Default)]
pub(crate) struct Area {
    bytes: u64,
    own: Vec<u8>,
    /// Where programs have it, and from which byte on.
    shared: Option<(Arc<dyn RingMemory>, u64)>,
}

impl Area {
    pub fn new(bytes: u64) -> Area {
        Area { bytes, own: vec![0; usize::try_from(bytes).unwrap_or(0)], shared: None }
    }

    pub fn len(&self) -> u64 {
        self.bytes
    }

    pub fn memory(&self) -> Option<&Arc<dyn RingMemory>> {
        self.shared.as_ref().map(|(memory, _)| memory)
    }

    pub fn read<const BYTES: usize>(&self, at: u64) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        self.read_into(at, &mut out);
        out
    }

    pub fn read_into(&self, at: u64, into: &mut [u8]) {
        if at.saturating_add(into.len() as u64) > self.bytes {
            return;
        }
        match &self.shared {
            Some((memory, from)) => memory.read(from + at, into),
            None => {
                if let Some(bytes) = self.own.get(at as usize..at as usize + into.len()) {
                    into.copy_from_slice(bytes);
                }
            }
        }
    }

    pub fn word(&self, at: u64) -> u32 {
        u32::from_ne_bytes(self.read(at))
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        if at.saturating_add(bytes.len() as u64) > self.bytes {
            return;
        }
        match &self.shared {
            Some((memory, from)) => memory.write(from + at, bytes),
            None => {
                if let Some(place) = self.own.get_mut(at as usize..at as usize + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
        }
    }

    /// Writes a status, behind all that it is about.
    pub fn publish(&mut self, at: u64, word: u32) {
        match &self.shared {
            Some((memory, from)) if at.saturating_add(4) <= self.bytes => memory.publish(from + at, word),
            _ => self.write(at, &word.to_ne_bytes()),
        }
    }

    /// It lies there from now on.
    pub fn share(&mut self, memory: &Arc<dyn RingMemory>, from: u64) {
        for (index, page) in std::mem::take(&mut self.own).chunks(PAGE_BYTES).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                memory.write(from + (index * PAGE_BYTES) as u64, page);
            }
        }
        self.shared = Some((Arc::clone(memory), from));
    }

    /// It is the socket's own again.
    pub fn take_back(&mut self) {
        let Some((memory, from)) = self.shared.take() else { return };
        self.own = vec![0; usize::try_from(self.bytes).unwrap_or(0)];
        memory.read(from, &mut self.own);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Memory that a test has mapped.
    #[derive(Debug)]
    pub(crate) struct Mapped(pub Mutex<Vec<u8>>, pub bool);

    impl RingMemory for Mapped {
        fn read(&self, at: u64, into: &mut [u8]) {
            into.copy_from_slice(&self.0.lock().unwrap()[at as usize..][..into.len()]);
        }
        fn write(&self, at: u64, bytes: &[u8]) {
            self.0.lock().unwrap()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        fn is_left(&self) -> bool {
            self.1
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    #[test]
    fn bytes_stay_when_a_ring_is_mapped_and_left() {
        let mut area = Area::new(8192);
        area.write(4095, b"ab");
        let memory: Arc<dyn RingMemory> = Arc::new(Mapped(Mutex::new(vec![0; 12288]), true));
        area.share(&memory, 4096);
        assert_eq!(area.read::<2>(4095), *b"ab");
        area.publish(0, 7);
        let mut there = [0; 4];
        memory.read(4096, &mut there);
        assert_eq!(u32::from_ne_bytes(there), 7);
        area.take_back();
        assert_eq!((area.word(0), area.read::<2>(4095), area.memory().is_none()), (7, *b"ab", true));
    }

    #[test]
    fn nothing_is_written_or_read_beyond_the_end() {
        let mut area = Area::new(4096);
        area.write(4095, b"ab");
        area.publish(4094, u32::MAX);
        area.write(u64::MAX, b"ab");
        assert_eq!((area.read::<4>(4093), area.read::<4>(4092)), ([0; 4], [0; 4]));
    }
}
