//! A split virtqueue, as a device sees it (virtio 1.2, 2.7).

use crate::Broken;
use crate::memory::GuestMemory;

/// Most entries: arch/um's MAX_SUPPORTED_QUEUE_SIZE.
pub(crate) const ENTRIES_MAX: u16 = 256;
/// Bytes of one chain: a frame of 64 KiB with its header fits.
const CHAIN_BYTES_MAX: usize = 72 << 10;
const DESCRIPTOR_BYTES: u64 = 16;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// VRING_AVAIL_F_NO_INTERRUPT: the driver looks by itself.
const NO_INTERRUPT: u16 = 1;
/// VRING_USED_F_NO_NOTIFY: the device looks by itself.
const NO_NOTIFY: u16 = 1;

/// Where a queue is, and how far the device is with it.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    pub entries: u16,
    pub descriptors: u64,
    pub available: u64,
    pub used: u64,
    pub enabled: bool,
    next_available: u16,
    next_used: u16,
}

impl Ring {
    /// The driver says how many entries it has.
    pub fn resize(&mut self, entries: u32) -> Result<(), Broken> {
        let entries = u16::try_from(entries).ok().filter(|entries| (1..=ENTRIES_MAX).contains(entries) && entries.is_power_of_two());
        self.entries = entries.ok_or_else(|| Broken::new("a queue of one of its devices has no size that there is"))?;
        Ok(())
    }

    /// The driver says where to begin.
    pub fn rewind(&mut self, base: u32) {
        (self.next_available, self.next_used) = (base as u16, base as u16);
    }

    pub fn base(&self) -> u16 {
        self.next_available
    }

    fn is_ready(&self) -> bool {
        self.enabled && self.entries > 0 && self.available != 0
    }

    /// The next chain that the driver has made available: its first descriptor.
    pub fn take(&mut self, memory: &GuestMemory) -> Result<Option<u16>, Broken> {
        if !self.is_ready() {
            return Ok(None);
        }
        let available = memory.load_u16(self.available.wrapping_add(2))?;
        if available.wrapping_sub(self.next_used) > self.entries {
            return Err(Broken::new("a queue of one of its devices has more in it than it has entries"));
        }
        if available == self.next_available {
            return Ok(None);
        }
        let place = u64::from(self.next_available % self.entries);
        let head = memory.load_u16(self.available.wrapping_add(4 + 2 * place))?;
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(head))
    }

    /// The driver need not say that it has made something available.
    pub fn quieten(&self, memory: &GuestMemory) -> Result<(), Broken> {
        if self.is_ready() { memory.store_u16(self.used, NO_NOTIFY) } else { Ok(()) }
    }

    /// The parts of a chain: address, bytes, and whether they are for the device to write.
    fn parts(&self, memory: &GuestMemory, head: u16) -> Result<Vec<(u64, usize, bool)>, Broken> {
        let (mut parts, mut at, mut whole) = (Vec::new(), head, 0);
        loop {
            if at >= self.entries || parts.len() >= usize::from(self.entries) {
                return Err(Broken::new("a queue of one of its devices has a chain without an end"));
            }
            let mut raw = [0; DESCRIPTOR_BYTES as usize];
            memory.read(self.descriptors.wrapping_add(DESCRIPTOR_BYTES * u64::from(at)), &mut raw)?;
            let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, f0, f1, n0, n1] = raw;
            let address = u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
            let bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
            let flags = u16::from_le_bytes([f0, f1]);
            whole += bytes;
            if whole > CHAIN_BYTES_MAX {
                return Err(Broken::new("a queue of one of its devices has a chain that is longer than any frame"));
            }
            parts.push((address, bytes, flags & WRITE != 0));
            if flags & NEXT == 0 {
                return Ok(parts);
            }
            at = u16::from_le_bytes([n0, n1]);
        }
    }

    /// What the driver wrote into a chain.
    pub fn read(&self, memory: &GuestMemory, head: u16, out: &mut Vec<u8>) -> Result<(), Broken> {
        out.clear();
        for (address, bytes, _) in self.parts(memory, head)?.into_iter().filter(|(_, _, write)| !write) {
            let from = out.len();
            out.resize(from + bytes, 0);
            memory.read(address, out.get_mut(from..).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Fills a chain. Returns how many bytes found room.
    pub fn fill(&self, memory: &GuestMemory, head: u16, mut bytes: &[u8]) -> Result<u32, Broken> {
        let mut written = 0;
        for (address, room, _) in self.parts(memory, head)?.into_iter().filter(|(_, _, write)| *write) {
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            memory.write(address, now)?;
            written += now.len() as u32;
            bytes = rest;
        }
        Ok(written)
    }

    /// Gives a chain back. True: the driver wants to be told.
    pub fn give_back(&mut self, memory: &GuestMemory, head: u16, written: u32) -> Result<bool, Broken> {
        let place = u64::from(self.next_used % self.entries.max(1));
        let mut element = [0; 8];
        element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        element[4..].copy_from_slice(&written.to_le_bytes());
        memory.write(self.used.wrapping_add(4 + 8 * place), &element)?;
        self.next_used = self.next_used.wrapping_add(1);
        memory.store_u16(self.used.wrapping_add(2), self.next_used)?;
        Ok(memory.load_u16(self.available)? & NO_INTERRUPT == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::memory;

    const AVAILABLE: u64 = 0x1000;
    const USED: u64 = 0x2000;
    const DATA: u64 = 0x4000;

    fn ring(entries: u32) -> Ring {
        let mut ring = Ring { descriptors: 0x10, available: AVAILABLE, used: USED, enabled: true, ..Ring::default() };
        ring.resize(entries).unwrap();
        ring
    }

    fn descriptor(memory: &GuestMemory, ring: &Ring, at: u16, address: u64, bytes: u32, flags: u16, next: u16) {
        let raw = [&address.to_le_bytes()[..], &bytes.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
        memory.write(ring.descriptors + DESCRIPTOR_BYTES * u64::from(at), &raw).unwrap();
    }

    /// The driver makes a chain available.
    fn offer(memory: &GuestMemory, number: u16, entries: u16, head: u16) {
        memory.write(AVAILABLE + 4 + 2 * u64::from(number % entries), &head.to_le_bytes()).unwrap();
        memory.store_u16(AVAILABLE + 2, number.wrapping_add(1)).unwrap();
    }

    #[test]
    fn a_chain_is_read_and_given_back() {
        let (memory, mut ring) = (memory(0x8000), ring(4));
        assert_eq!(ring.take(&memory).unwrap(), None);
        ring.quieten(&memory).unwrap();
        assert_eq!(memory.load_u16(USED).unwrap(), NO_NOTIFY);
        memory.write(DATA, b"headandmore").unwrap();
        descriptor(&memory, &ring, 2, DATA, 4, NEXT, 1);
        descriptor(&memory, &ring, 1, DATA + 4, 7, 0, 0);
        // More often than there are entries: places go round.
        for number in 0..9 {
            offer(&memory, number, 4, 2);
            let head = ring.take(&memory).unwrap().unwrap();
            assert_eq!(ring.take(&memory).unwrap(), None);
            let mut bytes = vec![7];
            ring.read(&memory, head, &mut bytes).unwrap();
            assert_eq!(bytes, b"headandmore");
            assert!(ring.give_back(&memory, head, 0).unwrap());
            assert_eq!(memory.load_u16(USED + 2).unwrap(), number + 1);
            assert_eq!(memory.load_u16(USED + 4 + 8 * u64::from(number % 4)).unwrap(), 2);
        }
        memory.store_u16(AVAILABLE, NO_INTERRUPT).unwrap();
        assert!(!ring.give_back(&memory, 2, 0).unwrap());
        assert_eq!(ring.base(), 9);
    }

    #[test]
    fn a_chain_is_filled_as_far_as_it_has_room() {
        let (memory, ring) = (memory(0x8000), ring(4));
        // What is for the device to read is left alone.
        descriptor(&memory, &ring, 0, DATA, 4, NEXT, 1);
        descriptor(&memory, &ring, 1, DATA + 4, 3, WRITE | NEXT, 2);
        descriptor(&memory, &ring, 2, DATA + 7, 3, WRITE, 0);
        let filled = |bytes: &[u8]| {
            memory.write(DATA, b"..........").unwrap();
            let written = ring.fill(&memory, 0, bytes).unwrap();
            let mut out = [0; 10];
            memory.read(DATA, &mut out).unwrap();
            (written, out)
        };
        assert_eq!(filled(b"abcd"), (4, *b"....abcd.."));
        assert_eq!(filled(b"abcdefghi"), (6, *b"....abcdef"));
        assert_eq!(filled(b""), (0, *b".........."));
    }

    #[test]
    fn more_than_a_queue_holds_is_refused() {
        let (memory, mut ring) = (memory(0x8000), ring(4));
        memory.store_u16(AVAILABLE + 2, 4).unwrap();
        for _ in 0..4 {
            assert_eq!(ring.take(&memory), Ok(Some(0)));
        }
        // Nothing was given back yet.
        memory.store_u16(AVAILABLE + 2, 5).unwrap();
        assert!(ring.take(&memory).unwrap_err().0.contains("more in it than it has entries"));
        ring.give_back(&memory, 0, 0).unwrap();
        assert_eq!(ring.take(&memory), Ok(Some(0)));
        assert_eq!(ring.take(&memory), Ok(None));
        // Numbers go round.
        ring.rewind(u32::from(u16::MAX));
        memory.store_u16(AVAILABLE + 2, 3).unwrap();
        assert_eq!((0..4).filter(|_| ring.take(&memory) == Ok(Some(0))).count(), 4);
        memory.store_u16(AVAILABLE + 2, 2).unwrap();
        assert!(ring.take(&memory).is_ok());
        memory.store_u16(AVAILABLE + 2, u16::MAX - 1).unwrap();
        assert!(ring.take(&memory).is_err());
    }

    #[test]
    fn chains_without_end_or_without_memory_are_refused() {
        let (memory, mut ring) = (memory(0x8000), ring(4));
        descriptor(&memory, &ring, 0, DATA, 1, NEXT, 0);
        descriptor(&memory, &ring, 1, DATA, u32::MAX, 0, 0);
        descriptor(&memory, &ring, 2, u64::MAX, 2, 0, 0);
        for (head, why) in [(0, "without an end"), (4, "without an end"), (1, "longer than any frame"), (2, "no memory")] {
            let Broken(told) = ring.read(&memory, head, &mut Vec::new()).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        for size in [0, 3, 512, u32::MAX] {
            assert!(ring.resize(size).is_err());
        }
        // Addresses at the end of all numbers.
        let mut ring = Ring { descriptors: u64::MAX, available: u64::MAX, used: u64::MAX - 3, ..ring };
        assert!(ring.take(&memory).is_err());
        assert!(ring.read(&memory, 1, &mut Vec::new()).is_err());
        assert!(ring.give_back(&memory, 1, 0).is_err());
    }
}
