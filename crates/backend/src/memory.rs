//! `memory:NAME`: two ends of a link inside this process. What one sends the other receives, in order, without loss but for a full queue.
//!
//! Frames change hands as pointers. With `offload` they pass as they are, large ones whole; without, they are cut and completed as a wire
//! would need them. A frame larger than the link's MTU that cannot be cut is dropped, as by a switch.

use crate::error::OpenError;
use crate::interface::{Backend, Features, OpenOptions};
use crate::link_type::LinkType;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_core::{Checksum, Completion, Direction, Frame, Instant, InterfaceIndex, Meta};
use weft_wire::ethernet::{Mac, TAGGED_HEADER_LEN};

/// Frames that wait in one direction unless the options say otherwise.
pub const QUEUE_FRAMES_MAX: usize = crate::interface::QUEUE_FRAMES_MAX;
/// The largest IP packet unless the options say otherwise, bytes.
pub const MTU_DEFAULT: u32 = 1500;
const GSO_BYTES_MAX: usize = 65535 + TAGGED_HEADER_LEN;

/// One direction of the link.
struct Lane {
    queue: Mutex<VecDeque<Frame>>,
    /// Readable while the queue holds something; absent in a pair that nobody waits for.
    wake: Option<OwnedFd>,
}

impl Lane {
    fn new(wake: Option<OwnedFd>) -> Arc<Lane> {
        Arc::new(Lane { queue: Mutex::new(VecDeque::new()), wake })
    }

    /// The queue stays usable when a thread died holding it: every change to it is a single push or pop.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Frame>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end.
pub struct Memory {
    name: String,
    interface: InterfaceIndex,
    features: Features,
    queue_frames_max: usize,
    incoming: Arc<Lane>,
    outgoing: Arc<Lane>,
    full: u64,
    too_large: u64,
}

/// Both ends of a link, without descriptors to wait on (a world that drives both knows when). No system call is made.
///
/// Uses `interface` and `mac` (for both ends: see [`Memory::set_interface`] and [`Memory::set_mac`]), `mtu`, `offload` and `queue_frames_max`.
pub fn pair(options: &OpenOptions) -> (Memory, Memory) {
    let (there, back) = (Lane::new(None), Lane::new(None));
    (Memory::new("memory-a", 0, options, &back, &there), Memory::new("memory-b", 1, options, &there, &back))
}

/// Links of which one end is open: the other waits here.
static HALF_OPEN: Mutex<BTreeMap<String, Memory>> = Mutex::new(BTreeMap::new());

/// Opens one end of the link `name`; the next to open the same name gets the other. The first one's options hold for the link; `interface`
/// and `mac` are each end's own. Frames sent before the second end is opened wait for it.
///
/// # Errors
/// The process has no descriptors left.
pub fn open(name: &str, options: &OpenOptions) -> Result<Memory, OpenError> {
    let mut half_open = HALF_OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mut other) = half_open.remove(name) {
        other.interface = options.interface;
        other.features.mac = options.mac.unwrap_or(other.features.mac);
        return Ok(other);
    }
    let lane = || {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Lane::new(Some(
            wake.map_err(|error| OpenError::from_io(&format!("memory:{name}"), "making an event descriptor", error.into()))?,
        )))
    };
    let (there, back) = (lane()?, lane()?);
    let mut second_options = options.clone();
    second_options.mac = None;
    half_open.insert(name.to_string(), Memory::new(name, 1, &second_options, &there, &back));
    Ok(Memory::new(name, 0, options, &back, &there))
}

impl Memory {
    fn new(name: &str, end: u8, options: &OpenOptions, incoming: &Arc<Lane>, outgoing: &Arc<Lane>) -> Memory {
        let features = Features {
            gso_bytes_max: if options.offload { GSO_BYTES_MAX } else { 0 },
            gso_udp: options.offload,
            checksum_offload: options.offload,
            link: LinkType::Ethernet,
            mtu: options.mtu.unwrap_or(MTU_DEFAULT),
            // Locally administered; a link has only these two stations.
            mac: options.mac.unwrap_or(Mac([0x02, 0, 0, 0, 0, end + 1])),
        };
        Memory {
            name: name.to_string(),
            interface: options.interface,
            features,
            queue_frames_max: options.queue_frames_max,
            incoming: incoming.clone(),
            outgoing: outgoing.clone(),
            full: 0,
            too_large: 0,
        }
    }

    /// Sets the number that received frames carry.
    pub fn set_interface(&mut self, interface: InterfaceIndex) {
        self.interface = interface;
    }
    /// Sets the Ethernet address for the node's side.
    pub fn set_mac(&mut self, mac: Mac) {
        self.features.mac = mac;
    }

    /// Whether the link carries a frame of this size.
    fn fits(&self, frame: &Frame) -> bool {
        frame.meta().gso.is_some() || frame.len() <= self.features.mtu as usize + TAGGED_HEADER_LEN
    }
}

/// What the other end may know about a frame: what is on the wire, and what offloads say about it.
fn cross(frame: &mut Frame) {
    let (checksum, gso, transport_at) = (frame.meta().checksum, frame.meta().gso, frame.meta().transport_at);
    let transport_at = if matches!(checksum, Checksum::Partial { .. }) { transport_at } else { 0 };
    *frame.meta_mut() = Meta { direction: Direction::Ingress, checksum, gso, transport_at, ..Meta::default() };
}

impl Backend for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        let mut queue = self.incoming.lock();
        let count = queue.len().min(limit);
        for mut frame in queue.drain(..count) {
            frame.meta_mut().interface = self.interface;
            frame.meta_mut().received = now;
            frames.push(frame);
        }
        if let Some(wake) = self.incoming.wake.as_ref().filter(|_| queue.is_empty()) {
            // Under the lock, so that a frame sent meanwhile is not forgotten. EAGAIN: it was not set.
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        Ok(count)
    }

    fn transmit(&mut self, _now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        let mut taken = 0;
        let lane = self.outgoing.clone();
        let mut queue = lane.lock();
        loop {
            self.features.prepare_front(frames);
            let Some(mut frame) = frames.pop_front() else { break };
            taken += 1;
            done.extend(frame.take_completion());
            if !self.fits(&frame) {
                self.too_large += 1;
            } else if queue.len() >= self.queue_frames_max {
                self.full += 1;
            } else {
                cross(&mut frame);
                queue.push_back(frame);
            }
        }
        if let Some(wake) = lane.wake.as_ref().filter(|_| !queue.is_empty()) {
            // EAGAIN: the counter is full, and so it is readable.
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
        Ok(taken)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.incoming.wake.as_ref().map(AsFd::as_fd)
    }
    fn features(&self) -> Features {
        self.features
    }
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        vec![("the link's queue is full", self.full), ("larger than the link's MTU", self.too_large)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use weft_core::{BlockId, Gso, GsoKind, offload};

    const NOW: Instant = Instant::from_millis(3);

    fn frame(bytes: usize) -> Frame {
        Frame::ingress(&vec![1; bytes])
    }

    fn large() -> Frame {
        let mut bytes = Vec::new();
        let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 9).tcp(1, 2, 3, 4);
        builder.write(&mut bytes, &[5; 4000]).unwrap();
        let mut frame = Frame::ingress(&bytes);
        frame.meta_mut().gso = Some(Gso { segment_bytes: 1000, kind: GsoKind::Tcp });
        frame.meta_mut().completion = Some(Completion { block: BlockId(1), token: 2, bytes: 3 });
        frame.meta_mut().mark = 9;
        frame
    }

    fn readable(backend: &Memory) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(backend.descriptor().unwrap(), PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn frames_cross_whole_or_cut_and_metadata_stays_behind() {
        for (offload, count) in [(true, 1), (false, 4)] {
            let (mut one, mut other) = pair(&OpenOptions { offload, ..OpenOptions::default() });
            let (mut done, mut frames) = (Vec::new(), Vec::new());
            assert_eq!(one.transmit(NOW, &mut VecDeque::from([large()]), &mut done).unwrap(), count);
            assert_eq!(done.len(), 1);
            other.set_interface(InterfaceIndex(7));
            assert_eq!(other.receive(NOW, &mut frames, 100).unwrap(), count);
            for frame in &frames {
                let meta = frame.meta();
                assert_eq!((meta.interface, meta.received, meta.mark, meta.completion), (InterfaceIndex(7), NOW, 0, None));
                assert_eq!((meta.gso.is_some(), meta.direction), (offload, Direction::Ingress));
                assert!(offload::verify(frame));
            }
        }
    }

    #[test]
    fn a_full_queue_and_a_frame_beyond_the_mtu_are_counted() {
        let (mut one, mut other) = pair(&OpenOptions { queue_frames_max: 2, mtu: Some(1500), ..OpenOptions::default() });
        let mut queue: VecDeque<Frame> = [1514, 9000, 60, 60, 60].map(frame).into();
        assert_eq!(one.transmit(NOW, &mut queue, &mut Vec::new()).unwrap(), 5);
        assert!(queue.is_empty());
        assert_eq!(one.drops(), [("the link's queue is full", 2), ("larger than the link's MTU", 1)]);
        let mut frames = Vec::new();
        assert_eq!(other.receive(NOW, &mut frames, 1).unwrap(), 1);
        assert_eq!(other.receive(NOW, &mut frames, 5).unwrap(), 1);
        assert_eq!(frames.iter().map(Frame::len).collect::<Vec<_>>(), [1514, 60]);
    }

    #[test]
    fn a_name_connects_two_and_the_descriptor_tells_when() {
        let options = OpenOptions::default();
        let mut one = open("memory-test-link", &options).unwrap();
        let mut other = open("memory-test-link", &OpenOptions { interface: InterfaceIndex(5), ..options.clone() }).unwrap();
        let third = open("memory-test-link", &options).unwrap();
        assert_ne!(one.features().mac, other.features().mac);
        assert!(!readable(&one) && !readable(&other));
        other.transmit(NOW, &mut VecDeque::from([frame(60), frame(61)]), &mut Vec::new()).unwrap();
        assert!(readable(&one) && !readable(&other) && !readable(&third));
        let mut frames = Vec::new();
        one.receive(NOW, &mut frames, 1).unwrap();
        assert!(readable(&one));
        one.receive(NOW, &mut frames, 1).unwrap();
        assert!(!readable(&one));
        one.transmit(NOW, &mut VecDeque::from(frames), &mut Vec::new()).unwrap();
        let mut frames = Vec::new();
        assert_eq!(other.receive(NOW, &mut frames, 9).unwrap(), 2);
        assert!(frames.iter().all(|frame| frame.meta().interface == InterfaceIndex(5)));
    }
}
