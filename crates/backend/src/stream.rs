//! `stream:PATH`: Ethernet frames over a UNIX socket, as QEMU (`-netdev stream,server=on,addr.type=unix,addr.path=PATH`) and passt speak them.
//!
//! Each frame stands behind its length, four bytes, the most significant first (QEMU net/stream.c; passt tap.c). Whoever listens at PATH is the other side. There
//! is nothing about checksums or segments in it: frames are cut and completed before they are sent. What comes in is as large as the other side's MTU allows.
//!
//! A length that no frame can have ends the connection: where the next frame would begin is not known any more.

use crate::error::OpenError;
use crate::interface::{Backend, Features, OpenOptions};
use crate::link_type::LinkType;
use crate::scatter::HEAD_READ_BYTES;
use crate::tap::neighbour_mac;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use weft_core::{Completion, Frame, Instant, InterfaceIndex};
use weft_wire::ethernet::{HEADER_LEN, Mac, TAGGED_HEADER_LEN};

/// Bytes of the length before each frame.
const LENGTH_BYTES: usize = 4;
/// The longest frame: an IP packet of 65535 bytes and an Ethernet header with a tag.
const FRAME_BYTES_MAX: usize = 65535 + TAGGED_HEADER_LEN;
/// The largest IP packet unless the options say otherwise, bytes.
pub const MTU_DEFAULT: u32 = 1500;
/// What is read at once, at most.
const READ_BYTES: usize = 256 << 10;
/// Up to here a frame gets bytes of its own, so that it does not keep everything alive that was read with it.
const COPY_BYTES_MAX: usize = 2048;
/// Parts of a frame that one system call takes (UIO_MAXIOV is 1024); a frame of more slices is joined.
const SLICES_MAX: usize = 1000;

/// One end of such a connection.
pub struct Stream {
    socket: OwnedFd,
    name: String,
    interface: InterfaceIndex,
    features: Features,
    /// What came, and is no whole frame yet.
    incoming: BytesMut,
    /// What of the last frame is still to be sent: less than that frame.
    outgoing: BytesMut,
    too_large: u64,
}

impl Stream {
    /// Connects to whoever listens at `path`.
    ///
    /// Uses `interface`, `mtu` (1500) and `mac` of the options.
    ///
    /// # Errors
    /// Nobody listens there, or may be reached.
    pub fn open(path: &str, options: &OpenOptions) -> Result<Stream, OpenError> {
        let url = format!("stream:{path}");
        let failed = |doing: &str, error: Errno| OpenError::from_io(&url, doing, error.into());
        let address = SocketAddrUnix::new(path).map_err(|error| failed("reading the path of the socket", error))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|error| failed("making a socket", error))?;
        rustix::net::connect(&socket, &address).map_err(|error| failed("connecting to the socket", error))?;
        let name = path.rsplit('/').next().unwrap_or(path);
        Ok(Stream::from_socket(socket, name, options, MTU_DEFAULT))
    }

    /// Of a socket that is connected already, and does not block. `mtu`: unless the options say otherwise.
    pub fn from_socket(socket: OwnedFd, name: &str, options: &OpenOptions, mtu: u32) -> Stream {
        // Unlike those of devices nobody has given the other end an address that could be varied.
        let mut random = [0; 6];
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        let features = Features {
            link: LinkType::Ethernet,
            mtu: options.mtu.unwrap_or(mtu),
            mac: options.mac.unwrap_or(neighbour_mac(Mac(random))),
            ..Features::default()
        };
        let (incoming, outgoing) = (BytesMut::new(), BytesMut::new());
        Stream { socket, name: name.to_owned(), interface: options.interface, features, incoming, outgoing, too_large: 0 }
    }

    /// The next whole frame of what came.
    fn next(&mut self, now: Instant) -> io::Result<Option<Frame>> {
        let Some(length) = self.incoming.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*length) as usize;
        if !(HEADER_LEN..=FRAME_BYTES_MAX).contains(&bytes) {
            let what = format!("a frame of {bytes} bytes: the other side of {} does not speak this protocol", self.name);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if self.incoming.len() < LENGTH_BYTES + bytes {
            return Ok(None);
        }
        self.incoming.advance(LENGTH_BYTES);
        let in_head = bytes.min(HEAD_READ_BYTES);
        let mut frame = match bytes - in_head {
            rest if rest > COPY_BYTES_MAX => {
                let mut whole = self.incoming.split_to(bytes).freeze();
                let head = whole.split_to(in_head);
                Frame::ingress_parts(&head, whole)
            }
            _ => {
                let (head, rest) = self.incoming[..bytes].split_at(in_head);
                let frame = Frame::ingress_parts(head, Bytes::copy_from_slice(rest));
                self.incoming.advance(bytes);
                frame
            }
        };
        let meta = frame.meta_mut();
        meta.interface = self.interface;
        meta.received = now;
        Ok(Some(frame))
    }

    /// Reads what there is. An error where the other side has gone.
    fn read(&mut self) -> io::Result<()> {
        self.incoming.reserve(READ_BYTES);
        let before = self.incoming.len();
        let spare = self.incoming.spare_capacity_mut();
        let bytes = match rustix::io::read(&self.socket, spare) {
            Ok((read, _)) => read.len(),
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        if bytes == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // SAFETY: so many bytes of the spare capacity have just been written by the kernel.
        unsafe { self.incoming.set_len(before + bytes) };
        Ok(())
    }

    /// Sends what is left of the last frame. False: the socket is full.
    fn flush(&mut self) -> io::Result<bool> {
        while !self.outgoing.is_empty() {
            match send(self.socket.as_fd(), &[IoSlice::new(&self.outgoing)])? {
                Some(bytes) => self.outgoing.advance(bytes),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// How many bytes went; None: the socket is full.
fn send(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    loop {
        match rustix::net::sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Backend for Stream {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        let mut count = 0;
        while count < limit {
            match self.next(now) {
                Ok(Some(frame)) => {
                    frames.push(frame);
                    count += 1;
                    continue;
                }
                // What came before an error is worth as much as ever; the error comes again.
                Err(_) if count > 0 => return Ok(count),
                Err(error) => return Err(error),
                Ok(None) => {}
            }
            match self.read() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
                Err(_) if count > 0 => return Ok(count),
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    fn transmit(&mut self, _now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            match self.flush() {
                Ok(true) => {}
                Ok(false) => return Ok(taken),
                Err(_) if taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
            self.features.prepare_front(frames);
            let Some(frame) = frames.front() else { return Ok(taken) };
            if frame.len() > self.features.mtu as usize + TAGGED_HEADER_LEN {
                self.too_large += 1;
            } else {
                match send_frame(self.socket.as_fd(), frame, &mut self.outgoing) {
                    Ok(true) => {}
                    Ok(false) => return Ok(taken),
                    Err(_) if taken > 0 => return Ok(taken),
                    Err(error) => return Err(error),
                }
            }
            if let Some(mut frame) = frames.pop_front() {
                done.extend(frame.take_completion());
                taken += 1;
            }
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn features(&self) -> Features {
        self.features
    }

    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        vec![("larger than the link's MTU", self.too_large)]
    }

    fn give_back_memory(&mut self) {
        if self.incoming.is_empty() {
            self.incoming = BytesMut::new();
        }
        if self.outgoing.is_empty() {
            self.outgoing = BytesMut::new();
        }
    }
}

/// Sends a frame from where its bytes lie; what did not go is left in `rest`. False: nothing went.
fn send_frame(socket: BorrowedFd<'_>, frame: &Frame, rest: &mut BytesMut) -> io::Result<bool> {
    let length = (frame.len() as u32).to_be_bytes();
    let joined: Bytes;
    let mut parts: SmallVec<[IoSlice<'_>; 24]> = SmallVec::new();
    parts.push(IoSlice::new(&length));
    if frame.tail().len() < SLICES_MAX {
        parts.extend(frame.chunks().map(IoSlice::new));
    } else {
        joined = Bytes::from(frame.to_vec());
        parts.push(IoSlice::new(&joined));
    }
    let Some(mut gone) = send(socket, &parts)? else { return Ok(false) };
    for part in &parts {
        let skipped = gone.min(part.len());
        gone -= skipped;
        rest.put_slice(&part[skipped..]);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use rustix::net::socketpair;

    fn pair() -> (Stream, OwnedFd) {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
        (Stream::from_socket(ours, "test", &OpenOptions::default(), 65520), theirs)
    }

    fn received(stream: &mut Stream) -> io::Result<Vec<Frame>> {
        let mut frames = Vec::new();
        stream.receive(Instant::ZERO, &mut frames, 64).map(|_| frames)
    }

    fn framed(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
    }

    #[test]
    fn frames_come_whole_however_the_stream_is_cut() {
        let frames: Vec<Vec<u8>> = [14, 60, 1514, 65535].map(|bytes| (0..bytes).map(|at| at as u8).collect()).into();
        let stream: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        for piece in [1, 3, 4, 5, 17, 1000, 4096, stream.len()] {
            let (mut backend, theirs) = pair();
            let mut came = Vec::new();
            for bytes in stream.chunks(piece) {
                let mut left = bytes;
                while !left.is_empty() {
                    match rustix::io::write(&theirs, left) {
                        Ok(count) => left = &left[count..],
                        Err(Errno::AGAIN) => {}
                        Err(error) => panic!("{error}"),
                    }
                    came.extend(received(&mut backend).unwrap().iter().map(Frame::to_vec));
                }
            }
            assert_eq!(came, frames, "in pieces of {piece}");
        }
    }

    #[test]
    fn every_kind_of_frame_is_what_it_was() {
        let (mut backend, theirs) = pair();
        for sample in samples::all(LinkType::Ethernet)
            .iter()
            .filter(|sample| sample.header == [0; 10] && (HEADER_LEN..9000).contains(&sample.bytes.len()))
        {
            rustix::io::write(&theirs, &framed(&sample.bytes)).unwrap();
            let frames = received(&mut backend).unwrap();
            assert_eq!(frames.len(), 1, "{}", sample.name);
            sample.assert_is(&frames[0], "another");
        }
    }

    #[test]
    fn lengths_that_no_frame_has_end_the_connection_after_what_came_before() {
        for length in [0, 13, FRAME_BYTES_MAX as u32 + 1, u32::MAX] {
            let (mut backend, theirs) = pair();
            let bytes = [framed(&[1; 60]), length.to_be_bytes().to_vec(), vec![0; 100]].concat();
            rustix::io::write(&theirs, &bytes).unwrap();
            assert_eq!(received(&mut backend).unwrap().len(), 1);
            let error = received(&mut backend).unwrap_err();
            assert!(error.to_string().contains("does not speak this protocol"), "{error}");
        }
    }

    #[test]
    fn a_peer_that_goes_is_a_device_that_is_gone() {
        let (mut backend, theirs) = pair();
        rustix::io::write(&theirs, &framed(&[7; 60])).unwrap();
        drop(theirs);
        assert_eq!(received(&mut backend).unwrap().len(), 1);
        assert_eq!(received(&mut backend).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        let mut frames = VecDeque::from([Frame::ingress(&[1; 60])]);
        assert!(backend.transmit(Instant::ZERO, &mut frames, &mut Vec::new()).is_err());
        assert_eq!(frames.len(), 1);
    }

    #[test]
    fn a_full_socket_keeps_the_rest_of_one_frame_and_loses_nothing() {
        let (mut backend, theirs) = pair();
        let large: Vec<Vec<u8>> = (0..40u8).map(|number| vec![number; 60_000]).collect();
        let mut frames: VecDeque<Frame> = large.iter().map(|bytes| Frame::ingress(bytes)).collect();
        let mut came = Vec::new();
        let mut buffer = vec![0; 50_000];
        while !frames.is_empty() || !backend.outgoing.is_empty() || came.len() < 40 * 60_004 {
            backend.transmit(Instant::ZERO, &mut frames, &mut Vec::new()).unwrap();
            assert!(backend.outgoing.len() < 60_004);
            let bytes = rustix::io::read(&theirs, &mut buffer[..]).unwrap();
            came.extend_from_slice(&buffer[..bytes]);
        }
        assert_eq!(came, large.iter().flat_map(|bytes| framed(bytes)).collect::<Vec<u8>>());
    }

    #[test]
    fn frames_larger_than_the_link_are_counted() {
        let (ours, _theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
        let mut backend = Stream::from_socket(ours, "test", &OpenOptions::default(), MTU_DEFAULT);
        let mut frames = VecDeque::from([Frame::ingress(&[1; 1518]), Frame::ingress(&[1; 1519])]);
        assert_eq!(backend.transmit(Instant::ZERO, &mut frames, &mut Vec::new()).unwrap(), 2);
        assert_eq!(backend.drops()[0].1, 1);
    }
}
