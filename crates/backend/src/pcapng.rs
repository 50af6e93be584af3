//! Captures: a backend around another that writes what passes to a pcapng file (draft-ietf-opsawg-pcapng), for Wireshark and tshark.
//!
//! A file may hold several interfaces. Times have nanoseconds. Each packet says whether it came in or went out.
//!
//! Frames are written as they cross the backend: a large frame is one packet of up to 64 KiB, as `tcpdump` shows it on a kernel's own
//! interface with offloads, but with its checksum completed, so that nothing looks broken. To see the frames of a wire, open the backend with
//! `offload` off. A frame going out is captured once the device has taken it.
//!
//! When the file cannot be written (disk full), the capture ends with one warning, the file is cut back to whole packets where possible,
//! and traffic goes on; [`CaptureFile::lost`] counts what is missing.

use crate::interface::{Backend, Features};
use crate::link_type::LinkType;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, PcapError};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weft_core::offload;
use weft_core::{Completion, Frame, Instant};

/// Written out when this much has gathered, bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// Or after this long, so that a viewer follows.
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// if_tsresol: 10^-9 s.
const NANOSECONDS: u8 = 9;
/// epb_flags, bits 0 and 1: "00 = information not available, 01 = inbound, 10 = outbound".
const INBOUND: u32 = 0b01;
const OUTBOUND: u32 = 0b10;

/// A file that captures share; cloning shares it.
#[derive(Clone)]
pub struct CaptureFile(Arc<Mutex<Shared>>);

struct Shared {
    path: PathBuf,
    file: File,
    /// Whole blocks that are not in the file yet.
    blocks: PcapNgWriter<Vec<u8>>,
    /// Packets among them.
    pending: u64,
    /// Time since 1970-01-01 at the node's `Instant::ZERO`.
    epoch: Duration,
    flushed: Instant,
    /// Bytes of whole blocks in the file.
    file_bytes: u64,
    written: u64,
    lost: u64,
    failed: bool,
}

impl CaptureFile {
    /// Makes the file, or empties it. `epoch` is the time since 1970-01-01 UTC at [`Instant::ZERO`].
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn create(path: &Path, epoch: Duration) -> io::Result<CaptureFile> {
        let application = SectionHeaderOption::UserApplication(Cow::Borrowed(concat!("weft ", env!("CARGO_PKG_VERSION"))));
        let header = SectionHeaderBlock { options: vec![application], ..SectionHeaderBlock::default() };
        let mut shared = Shared {
            path: path.to_path_buf(),
            file: File::create(path)?,
            blocks: PcapNgWriter::with_section_header(Vec::with_capacity(BUFFER_BYTES), header).map_err(io_error)?,
            pending: 0,
            epoch,
            flushed: Instant::ZERO,
            file_bytes: 0,
            written: 0,
            lost: 0,
            failed: false,
        };
        shared.write_out()?;
        Ok(CaptureFile(Arc::new(Mutex::new(shared))))
    }

    /// Adds an interface with Ethernet frames that is no backend (of a simulated world) and returns its number in the file.
    pub fn add_ethernet(&self, name: &str) -> u32 {
        self.describe(name, LinkType::Ethernet, None)
    }

    /// Writes a frame that passed an interface of this file at `now`, as it is.
    pub fn frame(&self, interface: u32, now: Instant, outbound: bool, frame: &Frame) {
        self.lock().packet(interface, now, if outbound { OUTBOUND } else { INBOUND }, frame);
    }

    /// A writer that panicked leaves whole blocks behind at worst one, so the file stays usable.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an interface and returns its number in the file.
    fn add_interface(&self, name: &str, features: &Features) -> u32 {
        self.describe(name, features.link, Some(features.mac))
    }

    fn describe(&self, name: &str, link: LinkType, mac: Option<weft_wire::ethernet::Mac>) -> u32 {
        let mut shared = self.lock();
        let index = shared.blocks.interfaces().len() as u32;
        let linktype = match link {
            LinkType::Ethernet => DataLink::ETHERNET,
            LinkType::Ip => DataLink::RAW,
        };
        let mut options =
            vec![InterfaceDescriptionOption::IfName(Cow::Owned(name.to_string())), InterfaceDescriptionOption::IfTsResol(NANOSECONDS)];
        options.extend(mac.map(|mac| InterfaceDescriptionOption::IfMacAddr(Cow::Owned(mac.0.to_vec()))));
        // Into memory: cannot fail.
        let _ = shared.blocks.write_pcapng_block(InterfaceDescriptionBlock { linktype, snaplen: 0, options });
        index
    }

    /// Packets written so far, those waiting in memory included.
    pub fn written(&self) -> u64 {
        let shared = self.lock();
        shared.written + shared.pending
    }

    /// Packets that are missing in the file because it could not be written.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// Writes out what waits in memory. Happens by itself twice a second while traffic is polled, and when the last user goes.
    ///
    /// # Errors
    /// The file cannot be written; the capture has ended.
    pub fn flush(&self) -> io::Result<()> {
        self.lock().write_out()
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

impl Shared {
    fn write_out(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("the capture has ended after an error"));
        }
        let bytes = self.blocks.get_ref().len() as u64;
        let result = self.file.write_all(self.blocks.get_ref());
        self.blocks.get_mut().clear();
        let pending = std::mem::take(&mut self.pending);
        match &result {
            Ok(()) => {
                self.file_bytes += bytes;
                self.written += pending;
            }
            Err(error) => {
                self.failed = true;
                self.lost += pending;
                // What was written of the last blocks is cut off, so that readers find whole ones. A pipe cannot be cut.
                let _ = self.file.set_len(self.file_bytes);
                tracing::warn!("the capture {} ends here: {error}; traffic goes on", self.path.display());
            }
        }
        result
    }

    fn packet(&mut self, interface: u32, now: Instant, flags: u32, frame: &Frame) {
        if self.failed {
            self.lost += 1;
            return;
        }
        let data = frame.to_vec();
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: self.epoch + Duration::from_nanos(now.as_nanos()),
            original_len: data.len() as u32,
            data: Cow::Owned(data),
            options: vec![EnhancedPacketOption::Flags(flags)],
        };
        match self.blocks.write_pcapng_block(block) {
            Ok(_) => self.pending += 1,
            Err(_) => self.lost += 1,
        }
        if self.blocks.get_ref().len() >= BUFFER_BYTES {
            // Warned about and counted there.
            let _ = self.write_out();
        }
    }

    fn tick(&mut self, now: Instant) {
        if now.since(self.flushed) >= FLUSH_INTERVAL && !self.failed && !self.blocks.get_ref().is_empty() {
            self.flushed = now;
            let _ = self.write_out();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.failed {
            let _ = self.write_out();
        }
    }
}

/// A backend whose traffic is captured.
pub struct Capture<B> {
    inner: B,
    file: CaptureFile,
    interface: u32,
    one: VecDeque<Frame>,
}

impl<B: Backend> Capture<B> {
    /// Captures what passes `inner` to `file`, under the name of the device.
    pub fn new(inner: B, file: &CaptureFile) -> Capture<B> {
        let interface = file.add_interface(inner.name(), &inner.features());
        Capture { inner, file: file.clone(), interface, one: VecDeque::new() }
    }

    /// Ends the capture and gives the backend back.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

/// The frame with its checksum completed; headers are copied for it, payload is not.
fn as_seen(frame: &Frame) -> Frame {
    let mut seen = frame.clone();
    offload::complete_checksum(&mut seen);
    seen
}

impl<B: Backend> Backend for Capture<B> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        let before = frames.len();
        let result = self.inner.receive(now, frames, limit);
        let mut shared = self.file.lock();
        for frame in frames.iter().skip(before) {
            shared.packet(self.interface, now, INBOUND, &as_seen(frame));
        }
        shared.tick(now);
        result
    }

    fn transmit(&mut self, now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        let features = self.inner.features();
        let mut taken = 0;
        loop {
            // As the backend itself would: then it takes this frame as it is, or not at all.
            features.prepare_front(frames);
            let Some(frame) = frames.pop_front() else { break };
            let seen = as_seen(&frame);
            self.one.push_back(frame);
            let result = self.inner.transmit(now, &mut self.one, done);
            if let Some(back) = self.one.pop_front() {
                frames.push_front(back);
                return match result {
                    Err(_) if taken > 0 => Ok(taken),
                    other => other.map(|_| taken),
                };
            }
            taken += 1;
            self.file.lock().packet(self.interface, now, OUTBOUND, &seen);
        }
        self.file.lock().tick(now);
        Ok(taken)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    /// Those of the backend, and the packets that are missing in the file.
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        let mut rows = self.inner.drops();
        rows.push(("missing in the capture", self.file.lost()));
        rows
    }
    fn next_timer(&self) -> Option<Instant> {
        self.inner.next_timer()
    }
    fn give_back_memory(&mut self) {
        self.inner.give_back_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::OpenOptions;
    use crate::memory;

    #[test]
    fn a_full_disk_ends_the_capture_and_not_the_traffic() {
        let path = std::env::temp_dir().join(format!("weft-{}-full.pcapng", std::process::id()));
        let file = CaptureFile::create(&path, Duration::ZERO).unwrap();
        // Every write to it says ENOSPC.
        file.lock().file = File::options().write(true).open("/dev/full").unwrap();
        let (one, mut other) = memory::pair(&OpenOptions::default());
        let mut one = Capture::new(one, &file);
        let send = |one: &mut Capture<memory::Memory>, at: Instant| {
            one.transmit(at, &mut VecDeque::from([Frame::ingress(&[1; 60])]), &mut Vec::new()).unwrap()
        };
        assert_eq!(send(&mut one, Instant::from_millis(1)), 1);
        assert_eq!((file.written(), file.lost()), (1, 0));
        assert_eq!(send(&mut one, Instant::from_millis(900)), 1);
        assert_eq!((file.written(), file.lost()), (0, 2));
        assert_eq!(send(&mut one, Instant::from_millis(901)), 1);
        assert_eq!((file.written(), file.lost()), (0, 3));
        assert!(file.flush().is_err());
        assert_eq!(other.receive(Instant::from_millis(902), &mut Vec::new(), 9).unwrap(), 3);
        std::fs::remove_file(&path).unwrap();
    }
}
