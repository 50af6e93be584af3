//! `passt:`: a way out without privilege. passt (Debian's package of that name) carries what comes from the stack by sockets of the host that any user may have.
//!
//! It is started here, on the other end of a [`crate::stream`], and ends when that is closed, however weft ends. The stack's side is told nothing: it has the
//! addresses of its stack file. passt takes [`ADDRESSES`] for the stack's and [`GATEWAYS`] for its own; what goes to a gateway's address goes to the host itself.
//!
//! Alternatives: slirp4netns and libslirp have a TCP of their own in between; a TAP with masquerading (`--nat`) wants to be root.

use crate::error::OpenError;
use crate::interface::{Backend, Features, OpenOptions};
use crate::stream::Stream;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use weft_core::{Completion, Frame, Instant};
use weft_wire::ethernet::{EtherType, HEADER_LEN};

/// The stack's addresses, those of weft's usual stack.
pub const ADDRESSES: [&str; 2] = ["10.77.0.2", "fd77::2"];
/// The addresses of the host's side.
pub const GATEWAYS: [&str; 2] = ["10.77.0.1", "fd77::1"];
/// Questions for names that are sent there are answered by the host's own servers, whichever those are.
pub const NAME_SERVER: &str = "10.77.0.3";
/// The largest IP packet, bytes: a segment that large costs as much as a small one. What passt itself would tell a guest.
const MTU: u32 = 65520;

/// The room on the way, of which the host gives what it gives to anybody.
const SEND_BUFFER_BYTES: usize = 16 << 20;

/// The largest receive buffer of a TCP connection that gets along with the room on the way, bytes: passt sends as much at once as a window allows, what does
/// not fit is lost, and it waits for two seconds before it sends that again. A quarter of what the host gives, for four connections that receive at a time. passt
/// acknowledges on behalf of servers far away, so a small window costs no rate.
pub fn receive_buffer_bytes_max() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap_or_default();
    let room = text.trim().parse().unwrap_or(WMEM_MAX_USUAL).min(SEND_BUFFER_BYTES as u64);
    // The kernel doubles what is asked for (socket(7)).
    (2 * room / 4).max(RECEIVE_BUFFER_BYTES_MIN)
}

/// What a connection begins with behind passt, bytes: a window of two of the largest segments. Linux's own 128 KiB make a window that shrinks while the program has
/// not read the first answer, and passt sends beyond it.
pub const RECEIVE_BUFFER_BYTES_MIN: u64 = 262_144;
/// Linux's own net.core.wmem_max, bytes.
const WMEM_MAX_USUAL: u64 = 212_992;

/// A stream with passt at its other end.
///
/// passt sends everything of IPv6 to the last address that it has seen. So what the stack says with its link-local address, or before it has one (solicitations of
/// routers, detections of duplicates, reports of groups), stays here: nobody would answer it.
pub struct Passt {
    stream: Stream,
    link_local: u64,
}

/// Where an IPv6 packet in an Ethernet frame has its source.
const SOURCE_AT: usize = HEADER_LEN + 8;

/// An IPv6 packet from fe80::/10, or from nobody yet (`::`).
fn is_for_the_link(frame: &Frame) -> bool {
    let mut start = [0; SOURCE_AT + 16];
    let bytes = frame.chunks().flatten();
    start.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    let source = &start[SOURCE_AT..];
    let is_link_local = source[0] == 0xfe && source[1] & 0xc0 == 0x80;
    start[HEADER_LEN - 2..HEADER_LEN] == EtherType::IPV6.0.to_be_bytes() && (is_link_local || source.iter().all(|byte| *byte == 0))
}

impl Passt {
    /// Starts passt. `words`: options of passt (passt(1)) by commas, over those that it is given.
    ///
    /// Uses `interface`, `mtu` (65520) and `mac` of the options.
    ///
    /// # Errors
    /// There is no passt, or it says that it cannot work here.
    pub fn open(words: &str, options: &OpenOptions) -> Result<Passt, OpenError> {
        let url = format!("passt:{words}");
        let failed = |doing: &str, error: io::Error| OpenError::from_io(&url, doing, error);
        let pair = || -> io::Result<(OwnedFd, OwnedFd)> {
            let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            // What does not fit is lost: as much room as the host allows anybody (net.core.wmem_max).
            set_socket_send_buffer_size(&theirs, SEND_BUFFER_BYTES)?;
            set_socket_send_buffer_size(&ours, SEND_BUFFER_BYTES)?;
            // passt waits until the rest of a frame has gone; where it could not wait it would leave that rest out.
            fcntl_setfl(&ours, OFlags::NONBLOCK)?;
            // passt is the one program that may have it.
            fcntl_setfd(&theirs, FdFlags::empty())?;
            Ok((ours, theirs))
        };
        let (ours, theirs) = pair().map_err(|error| failed("making a pair of sockets", error))?;
        let mtu = options.mtu.unwrap_or(MTU);
        let mut command = Command::new("passt");
        command.args(["--quiet", "--fd"]).arg(theirs.as_raw_fd().to_string()).arg("--mtu").arg(mtu.to_string());
        for (address, gateway) in ADDRESSES.iter().zip(GATEWAYS) {
            command.args(["--address", address, "--gateway", gateway]);
        }
        command.args(["--netmask", "24", "--dns-forward", NAME_SERVER]);
        // Nor may the stack make itself a second address of an advertisement.
        command.arg("--no-ra");
        command.args(words.split(',').filter(|word| !word.is_empty()));
        // It goes into the background when it is ready, and says before that why it is not.
        let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
        match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let advice = "install the package passt (apt-get install passt)".to_owned();
                Err(OpenError::new(&url, "starting passt", "there is no such program", advice))
            }
            Err(error) => Err(failed("starting passt", error)),
            Ok(done) if !done.status.success() => {
                let said = String::from_utf8_lossy(&done.stderr);
                let why = said.lines().filter(|line| !line.contains("syslog")).collect::<Vec<_>>().join("; ");
                let advice = "passt wants a host with a default route (ip route)".to_owned();
                Err(OpenError::new(&url, "starting passt", if why.is_empty() { done.status.to_string() } else { why }, advice))
            }
            Ok(_) => Ok(Passt { stream: Stream::from_socket(ours, "passt", options, mtu), link_local: 0 }),
        }
    }
}

impl Backend for Passt {
    fn name(&self) -> &str {
        self.stream.name()
    }
    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        self.stream.receive(now, frames, limit)
    }
    fn transmit(&mut self, now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        if frames.iter().any(is_for_the_link) {
            let (silent, kept): (Vec<Frame>, Vec<Frame>) = frames.drain(..).partition(is_for_the_link);
            frames.extend(kept);
            self.link_local += silent.len() as u64;
            done.extend(silent.into_iter().filter_map(|mut frame| frame.take_completion()));
        }
        self.stream.transmit(now, frames, done)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.descriptor()
    }
    fn features(&self) -> Features {
        self.stream.features()
    }
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        let mut rows = self.stream.drops();
        rows.push(("about the link alone, which passt must not see", self.link_local));
        rows
    }
    fn give_back_memory(&mut self) {
        self.stream.give_back_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passt_sees_no_address_of_the_link_alone() {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
        let mut backend = Passt { stream: Stream::from_socket(ours, "test", &OpenOptions::default(), MTU), link_local: 0 };
        let packet = |ether_type: u16, source: [u8; 2]| {
            let mut bytes = [0; 80];
            bytes[12..14].copy_from_slice(&ether_type.to_be_bytes());
            bytes[SOURCE_AT..SOURCE_AT + 2].copy_from_slice(&source);
            Frame::ingress(&bytes)
        };
        let mut frames: VecDeque<Frame> = [
            (0x86dd, [0xfe, 0x80]),
            (0x86dd, [0xfd, 0x77]),
            (0x86dd, [0xfe, 0xbf]),
            (0x0800, [0xfe, 0x80]),
            (0x86dd, [0, 0]),
            (0x86dd, [0, 1]),
        ]
        .map(|(ether_type, source)| packet(ether_type, source))
        .into();
        frames.push_back(Frame::ingress(&[1; 14]));
        assert_eq!(backend.transmit(Instant::ZERO, &mut frames, &mut Vec::new()).unwrap(), 4);
        assert!(frames.is_empty());
        assert_eq!(backend.drops().last().unwrap().1, 3);
        let mut came = [0; 1000];
        assert_eq!(rustix::io::read(&theirs, &mut came[..]).unwrap(), 3 * 84 + 18);
    }
}
