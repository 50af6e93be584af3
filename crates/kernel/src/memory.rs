//! Memory that is shared with a kernel: its own, as far as its devices see it, and the calendar.
//!
//! The other side may write at any time, and anything: bytes are copied, never borrowed, and every address is looked up.

use crate::Broken;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Bytes that two processes see.
#[derive(Debug)]
pub(crate) struct Shared {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value, and all access is by copies or atomics.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps a file's first bytes.
    pub fn map(file: BorrowedFd<'_>, bytes: usize) -> Result<Shared, Broken> {
        let length = rustix::fs::fstat(file).map_err(Broken::from)?.st_size;
        if bytes == 0 || u64::try_from(length).unwrap_or(0) < bytes as u64 {
            return Err(Broken::new(format!("it shares {bytes} bytes of a file of {length}")));
        }
        // SAFETY: a new mapping at an address that the kernel chooses; the file is as long as that.
        let at =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file.as_fd(), 0) };
        let at = NonNull::new(at.map_err(Broken::from)?.cast()).ok_or_else(|| Broken::new("memory at address 0"))?;
        Ok(Shared { at, bytes })
    }

    fn place(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: within the mapping.
        (end <= self.bytes).then(|| unsafe { self.at.as_ptr().add(offset) })
    }

    /// Copies bytes out. False: they are not all there.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> bool {
        let Some(from) = self.place(offset, out.len()) else { return false };
        // SAFETY: `place` checked the range; what the other side writes meanwhile makes the copy stale, as if it had been made earlier or later.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        true
    }

    /// Copies bytes in. False: there is no room.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.place(offset, bytes.len()) else { return false };
        // SAFETY: as for `read`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    fn atomic<T>(&self, offset: usize) -> Option<&T> {
        let place = self.place(offset, size_of::<T>())?;
        // SAFETY: within the mapping and aligned; used for atomics only, which any bytes are a value of.
        place.cast::<T>().is_aligned().then(|| unsafe { &*place.cast::<T>() })
    }

    pub fn u16(&self, offset: usize) -> Option<&AtomicU16> {
        self.atomic(offset)
    }
    pub fn u32(&self, offset: usize) -> Option<&AtomicU32> {
        self.atomic(offset)
    }
    pub fn u64(&self, offset: usize) -> Option<&AtomicU64> {
        self.atomic(offset)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, with this length, and nobody has a reference any more.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// A kernel's memory as its devices see it: by guest-physical addresses.
#[derive(Debug, Default)]
pub(crate) struct GuestMemory {
    regions: Vec<(u64, u64, usize, Shared)>,
}

/// Regions of one table (virtio_uml has two).
const REGIONS_MAX: usize = 8;

impl GuestMemory {
    /// One more region: its guest-physical address, length, and where it begins in its file.
    pub fn add(&mut self, file: BorrowedFd<'_>, address: u64, bytes: u64, offset: u64) -> Result<(), Broken> {
        let (Some(whole), true) = (bytes.checked_add(offset), self.regions.len() < REGIONS_MAX) else {
            return Err(Broken::new("its table of memory is not one"));
        };
        let whole = usize::try_from(whole).map_err(|_| Broken::new("it shares too much memory"))?;
        self.regions.push((address, bytes, offset as usize, Shared::map(file, whole)?));
        Ok(())
    }

    pub fn clear(&mut self) {
        self.regions.clear();
    }

    /// Where an address is, for so many bytes.
    fn find(&self, address: u64, bytes: usize) -> Result<(&Shared, usize), Broken> {
        let found = self.regions.iter().find_map(|(from, length, offset, shared)| {
            let at = address.checked_sub(*from)?;
            (at.checked_add(bytes as u64)? <= *length).then(|| (shared, offset + at as usize))
        });
        found.ok_or_else(|| Broken::new(format!("one of its devices is told of {bytes} bytes at {address:#x}, which is no memory")))
    }

    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Broken> {
        let (shared, at) = self.find(address, out.len())?;
        shared.read(at, out);
        Ok(())
    }

    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Broken> {
        let (shared, at) = self.find(address, bytes.len())?;
        shared.write(at, bytes);
        Ok(())
    }

    /// A number that the kernel writes and reads at any time.
    pub fn load_u16(&self, address: u64) -> Result<u16, Broken> {
        let (shared, at) = self.find(address, 2)?;
        shared.u16(at).map(|number| number.load(Ordering::Acquire)).ok_or_else(|| Broken::new("a ring at an odd address"))
    }

    pub fn store_u16(&self, address: u64, value: u16) -> Result<(), Broken> {
        let (shared, at) = self.find(address, 2)?;
        let number = shared.u16(at).ok_or_else(|| Broken::new("a ring at an odd address"))?;
        number.store(value, Ordering::Release);
        // What is asked for after this (does it want to be told?) must not be read before it.
        std::sync::atomic::fence(Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// So many bytes of memory from address 0 on.
    pub(crate) fn memory(bytes: u64) -> GuestMemory {
        let mut memory = GuestMemory::default();
        memory.add(file(bytes).as_fd(), 0, bytes, 0).unwrap();
        memory
    }

    fn file(bytes: u64) -> std::os::fd::OwnedFd {
        let file = rustix::fs::memfd_create(c"test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, bytes).unwrap();
        file
    }

    #[test]
    fn memory_is_found_by_address_and_no_further() {
        let mut memory = GuestMemory::default();
        memory.add(file(8192).as_fd(), 0x1000, 4096, 4096).unwrap();
        memory.add(file(4096).as_fd(), 0x1000_0000, 4096, 0).unwrap();
        memory.write(0x1ffc, &[1, 2, 3, 4]).unwrap();
        let mut back = [0; 4];
        memory.read(0x1ffc, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 4]);
        for (address, bytes) in [(0xfff, 1), (0x1ffd, 4), (0x2000, 1), (u64::MAX, 2), (0x1000_0fff, 2)] {
            assert!(memory.read(address, &mut vec![0; bytes]).is_err(), "{address:#x}");
            assert!(memory.write(address, &vec![0; bytes]).is_err(), "{address:#x}");
        }
        assert!(memory.load_u16(0x1001).is_err());
        memory.store_u16(0x1000, 77).unwrap();
        assert_eq!(memory.load_u16(0x1000), Ok(77));
    }

    #[test]
    fn a_region_that_its_file_does_not_hold_is_refused() {
        let mut memory = GuestMemory::default();
        assert!(memory.add(file(4096).as_fd(), 0, 4096, 1).is_err());
        assert!(memory.add(file(4096).as_fd(), 0, u64::MAX, 4096).is_err());
        assert!(memory.add(file(4096).as_fd(), 0, 0, 0).is_err());
        for _ in 0..REGIONS_MAX {
            memory.add(file(4096).as_fd(), 0, 4096, 0).unwrap();
        }
        assert!(memory.add(file(4096).as_fd(), 0, 4096, 0).is_err());
    }
}
