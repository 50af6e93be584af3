//! A network device of a kernel, as vhost-user has it: the kernel says where its queues are, weft fills and empties them.
//!
//! A kernel whose clock is a page that weft sees (calendar.rs) lets time stand where it has filled a queue, and looks into all of them whenever it may go on
//! (patch 09): nothing need be said. From others kicks come as messages that wait for an answer (VHOST_USER_PROTOCOL_F_INBAND_NOTIFICATIONS), so the kernel
//! stands still while its frames are taken, and it is called by message.

use crate::Broken;
use crate::memory::GuestMemory;
use crate::ring::Ring;
use crate::sockets;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use weft_core::Frame;
use weft_core::vnet;

/// VIRTIO_NET_F_MTU, VIRTIO_NET_F_MAC, VHOST_USER_F_PROTOCOL_FEATURES, VIRTIO_F_VERSION_1.
const FEATURES: u64 = 1 << 3 | 1 << 5 | 1 << 30 | 1 << 32;
/// What a device does in the kernel's place: VIRTIO_NET_F_CSUM, VIRTIO_NET_F_HOST_TSO4, _TSO6 and _ECN.
const OFFLOADS: u64 = 1 << 0 | 1 << 11 | 1 << 12 | 1 << 13;
/// VHOST_USER_PROTOCOL_F_SHARED_TIME of our patch.
const SHARED_TIME: u64 = 1 << 62;
/// REPLY_ACK, BACKEND_REQ, CONFIG, INBAND_NOTIFICATIONS, and ours.
const PROTOCOL_FEATURES: u64 = 1 << 3 | 1 << 5 | 1 << 9 | 1 << 14 | SHARED_TIME;
const VERSION: u32 = 1;
const IS_REPLY: u32 = 4;
const NEEDS_REPLY: u32 = 8;
/// VHOST_USER_BACKEND_VRING_CALL
const VRING_CALL: u32 = 4;
const HEADER_BYTES: usize = 12;
/// Largest message: its configuration space.
const PAYLOAD_BYTES_MAX: usize = 600;
/// Descriptors that come with one message.
const FILES_MAX: usize = 8;
/// Bytes before each frame: `struct virtio_net_hdr_mrg_rxbuf`, which begins with what [`vnet`] knows.
const NET_HEADER_BYTES: usize = 12;
/// An Ethernet header: nothing shorter leaves a driver.
const FRAME_BYTES_MIN: usize = 14;
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// What a kernel did with its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Something that only concerns the two of them.
    Handled,
    /// It has frames to send ([`Device::take`]), and waits for [`Device::answer_kick`].
    Kicked,
    /// It has let go of the device, which is to forget it ([`Device::forget`]).
    Gone,
}

/// A network device.
#[derive(Debug)]
pub(crate) struct Device {
    listener: UnixListener,
    stream: Option<UnixStream>,
    /// Where the kernel is told that something has come.
    calls: Option<OwnedFd>,
    memory: GuestMemory,
    rings: [Ring; 2],
    /// Of the queues: what was taken from one of before is not given back to one of now.
    generation: u16,
    mac: [u8; 6],
    mtu: u16,
    /// It completes checksums and cuts large frames.
    offloads: bool,
    /// Nothing is said about what stands in the queues.
    shares: bool,
    /// A kick that was not answered.
    kick: Option<Header>,
    /// Frames that found no buffer.
    pub unreceived: u64,
}

#[derive(Clone, Copy, Debug)]
struct Header {
    request: u32,
    flags: u32,
    bytes: usize,
}

fn u32_at(payload: &[u8], at: usize) -> u32 {
    payload.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}
fn u64_at(payload: &[u8], at: usize) -> u64 {
    payload.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

impl Device {
    /// A device behind a socket that the kernel will connect to.
    pub fn new(listener: UnixListener, mac: [u8; 6], mtu: u16, offloads: bool) -> Device {
        Device {
            listener,
            stream: None,
            calls: None,
            memory: GuestMemory::default(),
            rings: Default::default(),
            generation: 0,
            mac,
            mtu,
            offloads,
            shares: false,
            kick: None,
            unreceived: 0,
        }
    }

    /// Where the kernel says something next.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_ref().map_or_else(|| self.listener.as_fd(), |stream| stream.as_fd())
    }

    /// Both sides look into the queues when the kernel stands still.
    pub fn shares(&self) -> bool {
        self.shares
    }

    /// Reads what the kernel says, and answers it.
    pub fn serve(&mut self) -> Result<Event, Broken> {
        let Some(stream) = &mut self.stream else {
            self.stream = Some(self.listener.accept()?.0);
            return Ok(Event::Handled);
        };
        let mut files = Vec::new();
        let Some(header) = read_header(stream, &mut files)? else {
            return Ok(Event::Gone);
        };
        let mut payload = vec![0; header.bytes];
        if !sockets::hear(&*stream, &mut payload)? {
            return Err(Broken::new("it ended in the middle of a message"));
        }
        self.handle(header, &payload, files)
    }

    /// The kernel has let go of it, and may take it up again.
    pub fn forget(&mut self) {
        (self.stream, self.calls, self.shares) = (None, None, false);
        self.memory.clear();
        self.rings = Default::default();
        self.generation = self.generation.wrapping_add(1);
    }

    fn handle(&mut self, header: Header, payload: &[u8], mut files: Vec<OwnedFd>) -> Result<Event, Broken> {
        let ring = |rings: &mut [Ring; 2], index: u32| -> Result<usize, Broken> {
            rings.get(index as usize).map(|_| index as usize).ok_or_else(|| Broken::new(format!("one of its devices has no queue {index}")))
        };
        let index = u32_at(payload, 0);
        match header.request {
            // GET_FEATURES, GET_PROTOCOL_FEATURES
            1 => return self.reply(header, &(FEATURES | if self.offloads { OFFLOADS } else { 0 }).to_ne_bytes()),
            15 => return self.reply(header, &PROTOCOL_FEATURES.to_ne_bytes()),
            // SET_PROTOCOL_FEATURES
            16 => self.shares = u64_at(payload, 0) & SHARED_TIME != 0,
            // GET_VRING_BASE
            11 => {
                let index = ring(&mut self.rings, index)?;
                self.rings[index].enabled = false;
                let base = u64::from(self.rings[index].base()) << 32 | index as u64;
                return self.reply(header, &base.to_ne_bytes());
            }
            // GET_CONFIG: offset, size, flags, then the space: mac, status (up), number of pairs of queues, MTU (virtio 1.2, 5.1.4).
            24 => {
                let mut space = [0; PAYLOAD_BYTES_MAX];
                space[..6].copy_from_slice(&self.mac);
                space[6..8].copy_from_slice(&1_u16.to_le_bytes());
                space[8..10].copy_from_slice(&1_u16.to_le_bytes());
                space[10..12].copy_from_slice(&self.mtu.to_le_bytes());
                let mut answer = payload.to_vec();
                let offset = u32_at(payload, 0) as usize;
                for (at, byte) in answer.iter_mut().skip(12).enumerate() {
                    *byte = space.get(offset + at).copied().unwrap_or(0);
                }
                return self.reply(header, &answer);
            }
            // SET_MEM_TABLE: how many, then of each its guest-physical address, length, address in the kernel, and place in its file.
            5 => {
                self.memory.clear();
                for (number, file) in files.iter().enumerate().take(index as usize) {
                    let at = 8 + 32 * number;
                    self.memory.add(file.as_fd(), u64_at(payload, at), u64_at(payload, at + 8), u64_at(payload, at + 24))?;
                }
            }
            // SET_VRING_NUM, SET_VRING_BASE, SET_VRING_ENABLE
            8 | 10 | 18 => {
                let index = ring(&mut self.rings, index)?;
                let (ring, value) = (&mut self.rings[index], u32_at(payload, 4));
                match header.request {
                    8 => ring.resize(value)?,
                    10 => ring.rewind(value),
                    _ => ring.enabled = value != 0,
                }
                if index == TRANSMIT && header.request == 10 {
                    self.generation = self.generation.wrapping_add(1);
                }
                // Whether there is room is looked at when a frame comes.
                self.rings[RECEIVE].quieten(&self.memory)?;
            }
            // SET_VRING_ADDR: index, flags, descriptors, used, available, log.
            9 => {
                let index = ring(&mut self.rings, index)?;
                let ring = &mut self.rings[index];
                (ring.descriptors, ring.used, ring.available) = (u64_at(payload, 8), u64_at(payload, 16), u64_at(payload, 24));
            }
            // SET_BACKEND_REQ_FD
            21 => self.calls = files.pop(),
            // VRING_KICK
            35 if index as usize == TRANSMIT => {
                self.kick = Some(header);
                return Ok(Event::Kicked);
            }
            _ => {}
        }
        self.acknowledge(header)
    }

    fn acknowledge(&mut self, header: Header) -> Result<Event, Broken> {
        if header.flags & NEEDS_REPLY == 0 { Ok(Event::Handled) } else { self.reply(header, &0_u64.to_ne_bytes()) }
    }

    fn reply(&mut self, header: Header, payload: &[u8]) -> Result<Event, Broken> {
        let message = message(header.request, VERSION | IS_REPLY, payload);
        self.stream.as_ref().map_or(Ok(()), |stream| sockets::say(stream, &message))?;
        Ok(Event::Handled)
    }

    /// The next frame to send, with what is left to do for it in its metadata, and the token that gives its buffer back.
    pub fn take(&mut self, room: &mut Vec<u8>) -> Result<Option<(Frame, u32)>, Broken> {
        let Device { rings: [_, transmit], memory, generation, .. } = self;
        let Some(head) = transmit.take(memory)? else { return Ok(None) };
        transmit.read(memory, head, room)?;
        let (Some(header), Some(bytes)) = (room.first_chunk::<{ vnet::HEADER_BYTES }>(), room.get(NET_HEADER_BYTES..)) else {
            return Err(Broken::new("one of its devices sends a frame without a header"));
        };
        if bytes.len() < FRAME_BYTES_MIN {
            return Err(Broken::new(format!(
                "one of its devices sends a frame of {} bytes, which has no room for its addresses",
                bytes.len()
            )));
        }
        let mut frame = Frame::ingress(bytes);
        if self.offloads {
            vnet::decode(header, 0, &mut frame);
        }
        Ok(Some((frame, u32::from(*generation) << 16 | u32::from(head))))
    }

    /// The kernel goes on after it has kicked.
    pub fn answer_kick(&mut self) -> Result<(), Broken> {
        self.kick.take().map_or(Ok(Event::Handled), |header| self.acknowledge(header)).map(drop)
    }

    /// A frame that was taken has left. True: the kernel wants to be told.
    pub fn left(&mut self, token: u32) -> Result<bool, Broken> {
        let Device { rings: [_, transmit], memory, generation, .. } = self;
        if transmit.enabled && token >> 16 == u32::from(*generation) { transmit.give_back(memory, token as u16, 0) } else { Ok(false) }
    }

    /// A frame has come. True: the kernel wants to be told.
    pub fn receive(&mut self, frame: &Frame, room: &mut Vec<u8>) -> Result<bool, Broken> {
        let Device { rings: [receive, _], memory, .. } = self;
        let Some(head) = receive.take(memory)? else {
            self.unreceived += 1;
            return Ok(false);
        };
        room.clear();
        room.extend_from_slice(&[0; NET_HEADER_BYTES]);
        // num_buffers
        room[10] = 1;
        frame.chunks().for_each(|chunk| room.extend_from_slice(chunk));
        let written = receive.fill(memory, head, room)?;
        receive.give_back(memory, head, written)
    }

    /// Tells the kernel that a queue has something for it: of frames that have come, or that have left. It answers on [`Device::calls`].
    pub fn call(&mut self, sent: bool) -> Result<(), Broken> {
        let queue = if sent { TRANSMIT } else { RECEIVE };
        let Some(calls) = &self.calls else { return Ok(()) };
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&(queue as u32).to_ne_bytes());
        sockets::say(calls, &message(VRING_CALL, VERSION | NEEDS_REPLY, &payload))
    }

    /// Where the kernel answers calls; none: it has no such device yet.
    pub fn calls(&self) -> Option<BorrowedFd<'_>> {
        self.calls.as_ref().map(|calls| calls.as_fd())
    }

    /// Reads the answer to [`Device::call`]. False: the kernel is gone.
    pub fn called(&mut self) -> Result<bool, Broken> {
        let mut answer = [0; HEADER_BYTES + 8];
        self.calls.as_ref().map_or(Ok(false), |calls| sockets::hear(calls, &mut answer))
    }
}

fn message(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    for number in [request, flags, payload.len() as u32] {
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// A header, and the files that came with it. None: the other side is gone.
fn read_header(stream: &mut UnixStream, files: &mut Vec<OwnedFd>) -> Result<Option<Header>, Broken> {
    let mut bytes = [0; HEADER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(&*stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            files.extend(some);
        }
    }
    if !sockets::whole(received.map(|received| received.bytes), HEADER_BYTES)? {
        return Ok(None);
    }
    let header = Header { request: u32_at(&bytes, 0), flags: u32_at(&bytes, 4), bytes: u32_at(&bytes, 8) as usize };
    match header.bytes <= PAYLOAD_BYTES_MAX {
        true => Ok(Some(header)),
        false => Err(Broken::new(format!("one of its devices sends a message of {} bytes", header.bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A device, and who is connected to it.
    fn pair() -> (Device, UnixStream) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weft-device-{}-{number}", std::process::id()));
        let mut device = Device::new(UnixListener::bind(&path).unwrap(), [2, 0, 0, 0, 0, 1], 1500, false);
        let kernel = UnixStream::connect(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(device.serve().unwrap(), Event::Handled);
        (device, kernel)
    }

    fn ask(device: &mut Device, kernel: &mut UnixStream, request: u32, payload: &[u8]) -> Result<Vec<u8>, Broken> {
        kernel.write_all(&message(request, VERSION | NEEDS_REPLY, payload)).unwrap();
        device.serve()?;
        let mut header = [0; HEADER_BYTES];
        kernel.read_exact(&mut header).unwrap();
        assert_eq!((u32_at(&header, 0), u32_at(&header, 4)), (request, VERSION | IS_REPLY));
        let mut payload = vec![0; u32_at(&header, 8) as usize];
        kernel.read_exact(&mut payload).unwrap();
        Ok(payload)
    }

    #[test]
    fn it_says_what_it_can_and_who_it_is() {
        let (mut device, mut kernel) = pair();
        assert_eq!(ask(&mut device, &mut kernel, 1, &[]).unwrap(), FEATURES.to_ne_bytes());
        assert_eq!(ask(&mut device, &mut kernel, 15, &[]).unwrap(), PROTOCOL_FEATURES.to_ne_bytes());
        device.offloads = true;
        assert_eq!(ask(&mut device, &mut kernel, 1, &[]).unwrap(), (FEATURES | OFFLOADS).to_ne_bytes());
        let space = ask(&mut device, &mut kernel, 24, &[[0; 4], 12_u32.to_ne_bytes(), [0; 4], [0; 4], [0; 4], [0; 4]].concat()).unwrap();
        assert_eq!(space[12..], [2, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0xdc, 5]);
        drop(kernel);
        assert_eq!(device.serve().unwrap(), Event::Gone);
        device.forget();
        assert!(device.stream.is_none());
    }

    #[test]
    fn it_says_nothing_about_queues_to_a_kernel_that_looks() {
        let (mut device, mut kernel) = pair();
        assert!(!device.shares());
        for (features, shares) in [(PROTOCOL_FEATURES, true), (PROTOCOL_FEATURES & !SHARED_TIME, false), (PROTOCOL_FEATURES, true)] {
            ask(&mut device, &mut kernel, 16, &features.to_ne_bytes()).unwrap();
            assert_eq!(device.shares(), shares);
        }
        drop(kernel);
        assert_eq!(device.serve().unwrap(), Event::Gone);
        device.forget();
        assert!(!device.shares());
    }

    #[test]
    fn what_no_kernel_says_is_refused() {
        let two = |index: u32, value: u32| [index.to_ne_bytes(), value.to_ne_bytes()].concat();
        for (request, payload, why) in [
            (8, two(2, 4), "no queue 2"),
            (11, two(9, 0), "no queue 9"),
            (8, two(0, 3), "no size that there is"),
            (9, two(u32::MAX, 0), "no queue"),
            (99, vec![0; PAYLOAD_BYTES_MAX + 1], "a message of 601 bytes"),
        ] {
            let (mut device, mut kernel) = pair();
            let Broken(told) = ask(&mut device, &mut kernel, request, &payload).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        // Short and unknown messages are answered and change nothing; a table of memory without files is none.
        let (mut device, mut kernel) = pair();
        for (request, payload) in [(8, &[][..]), (9, &[]), (5, &[255; 8]), (24, &[255; 24]), (77, &[1, 2, 3])] {
            let result = ask(&mut device, &mut kernel, request, payload);
            assert!(result.is_ok() || request == 8, "{request}: {result:?}");
        }
        assert!(device.take(&mut Vec::new()).unwrap().is_none());
    }

    #[test]
    fn half_a_message_is_none() {
        let (mut device, mut kernel) = pair();
        kernel.write_all(&message(1, VERSION, &[])[..5]).unwrap();
        drop(kernel);
        assert!(device.serve().is_err());
    }

    /// A device with a queue of four to send from, whose first frame has so many bytes (with its header), and the file of its memory.
    fn sender(bytes: u32) -> (Device, UnixStream, crate::memory::Shared) {
        let (mut device, kernel) = pair();
        let file = rustix::fs::memfd_create(c"test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 0x8000).unwrap();
        device.memory.add(file.as_fd(), 0, 0x8000, 0).unwrap();
        let memory = crate::memory::Shared::map(file.as_fd(), 0x8000).unwrap();
        // A descriptor; head 0 is available.
        memory.write(0x10, &[&0x4000_u64.to_le_bytes()[..], &bytes.to_le_bytes(), &[0; 4]].concat());
        memory.write(0x1002, &[1, 0]);
        begin(&mut device);
        (device, kernel, memory)
    }

    /// The driver sets up its queue.
    fn begin(device: &mut Device) {
        let two = |value: u32| [1_u32.to_ne_bytes(), value.to_ne_bytes()].concat();
        let places = [1_u64, 0x10, 0x2000, 0x1000, 0].map(u64::to_ne_bytes).concat();
        for (request, payload) in [(8, two(4)), (10, two(0)), (9, places), (18, two(1))] {
            device.handle(Header { request, flags: VERSION, bytes: payload.len() }, &payload, Vec::new()).unwrap();
        }
    }

    #[test]
    fn what_left_is_given_back_to_the_queue_it_came_from() {
        let (mut device, _kernel, memory) = sender(80);
        let used = || memory.u16(0x2002).unwrap().load(Ordering::Acquire);
        let (frame, token) = device.take(&mut Vec::new()).unwrap().unwrap();
        assert_eq!(frame.len(), 68);
        assert_eq!((device.left(token), used()), (Ok(true), 1));
        // The driver is bound anew while a frame is on its wire.
        memory.write(0x1002, &[2, 0]);
        let (_, token) = device.take(&mut Vec::new()).unwrap().unwrap();
        begin(&mut device);
        assert_eq!((device.left(token), used()), (Ok(false), 1));
        memory.write(0x1002, &[1, 0]);
        let (_, token) = device.take(&mut Vec::new()).unwrap().unwrap();
        assert_eq!(device.left(token), Ok(true));
    }

    #[test]
    fn a_frame_without_addresses_is_refused() {
        for (bytes, why) in [(11, "without a header"), (12, "0 bytes"), (25, "13 bytes")] {
            let (mut device, _kernel, _) = sender(bytes);
            let Broken(told) = device.take(&mut Vec::new()).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        let (mut device, _kernel, _) = sender(26);
        assert_eq!(device.take(&mut Vec::new()).unwrap().unwrap().0.len(), 14);
    }

    #[test]
    fn a_frame_without_a_buffer_is_counted() {
        let (mut device, _kernel) = pair();
        assert!(!device.receive(&Frame::ingress(&[0; 64]), &mut Vec::new()).unwrap());
        assert_eq!(device.unreceived, 1);
    }
}
