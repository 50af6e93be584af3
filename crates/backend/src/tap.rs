//! `tap:NAME`: an Ethernet device of the kernel whose wire ends in this process (Documentation/networking/tuntap.rst).
//!
//! The device is made when it is opened and goes away when it is closed, unless it was made persistent before (`ip tuntap add`); it may belong
//! to a user, who then needs no privilege. Large frames and unfinished checksums pass in both directions: 64 KiB of a program's data
//! cross the border with one system call and are never cut or summed when the kernel is on the other end.
//!
//! What it does not do: several queues, and UDP tunnels' offloads. IP without Ethernet is [`crate::tun`].

use crate::device::Device;
use crate::error::OpenError;
use crate::interface::{Backend, Features, OpenOptions};
use crate::link_type::LinkType;
use crate::scatter::Source;
use crate::{host_side, sys};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use weft_core::vnet;
use weft_core::{Completion, Frame, Instant};
use weft_wire::ethernet::Mac;

/// Frames that wait for us in the kernel. Its own 1000 are soon full when frames are small: a sender is not slowed down by a full queue (the
/// kernel gives up a frame's socket when it queues it for the reader), only by losses.
const TRANSMIT_QUEUE_FRAMES: i32 = 4000;
/// The largest frame that is written whole: IP's 65535 bytes, and an Ethernet header with a tag.
const GSO_BYTES_MAX: usize = 65535 + 18;

/// Of a device whose interface cannot be asked, bytes.
const MTU_DEFAULT: u32 = 1500;

/// A TAP device.
pub struct Tap {
    device: Device,
}

impl Tap {
    /// Opens or makes the device `name`; empty: the kernel chooses (`tap0`).
    ///
    /// Uses `interface`, `mtu`, `mac`, `offload` and `host_addresses` of the options. Without `mac`, the node's side gets an address derived
    /// from the kernel's (see [`neighbour_mac`]).
    ///
    /// # Errors
    /// `/dev/net/tun` is missing, privileges are, or the name is taken.
    pub fn open(name: &str, options: &OpenOptions) -> Result<Tap, OpenError> {
        let device = attach(name, options, LinkType::Ethernet)?;
        Ok(Tap { device })
    }

    /// A TAP or TUN device that somebody else has opened and attached: `number` is its descriptor, which this process has inherited. It is left to whoever
    /// started this process: a copy is used.
    ///
    /// Uses `interface`, `mtu`, `mac` and `offload` of the options. Offloads need a device that was attached with IFF_VNET_HDR.
    ///
    /// # Errors
    /// There is no such descriptor, or it is no such device; one without IFF_NO_PI.
    pub fn inherited(number: &str, options: &OpenOptions) -> Result<Tap, OpenError> {
        let url = format!("fd:{number}");
        let failed = |doing: &str, error: io::Error| OpenError::from_io(&url, doing, error);
        let known = number.parse().map_err(|_| io::Error::from_raw_os_error(libc::EBADF));
        let fd = known.and_then(sys::inherited).map_err(|error| failed("taking over the descriptor", error))?;
        let (name, flags) = sys::tun_attached(fd.as_fd()).map_err(|error| failed("asking which TUN device it is", error))?;
        if flags & libc::IFF_NO_PI == 0 {
            let advice = "attach it with IFF_NO_PI, and IFF_VNET_HDR for offloads".to_owned();
            return Err(OpenError::new(&url, "reading its flags", format!("{name} has four bytes before each packet"), advice));
        }
        let status = rustix::fs::fcntl_getfl(&fd).map_err(|error| failed("reading its flags", error.into()))?;
        rustix::fs::fcntl_setfl(&fd, status | rustix::fs::OFlags::NONBLOCK)
            .map_err(|error| failed("making it one that does not block", error.into()))?;
        let link = if flags & libc::IFF_TUN != 0 { LinkType::Ip } else { LinkType::Ethernet };
        let (source, offload) = if flags & libc::IFF_VNET_HDR == 0 { (Source::Bare, false) } else { (Source::Tap, options.offload) };
        let mut gso_udp = false;
        if source == Source::Tap {
            sys::tun_set_header_bytes(fd.as_fd(), vnet::HEADER_BYTES).map_err(|error| failed("setting the header's length", error))?;
            gso_udp = offer(fd.as_fd(), offload).map_err(|error| failed("setting offloads", error))?;
        }
        // The device may be in another network namespace than this process: then only its descriptor can be asked.
        let facts = sys::interface_facts(&name).ok();
        let features = Features {
            gso_bytes_max: if offload { GSO_BYTES_MAX } else { 0 },
            gso_udp,
            checksum_offload: offload,
            link,
            mtu: options.mtu.or(facts.map(|facts| facts.mtu)).unwrap_or(MTU_DEFAULT),
            mac: match link {
                LinkType::Ethernet => options.mac.unwrap_or(neighbour_mac(facts.map_or(Mac([2, 0, 0, 0, 0, 1]), |facts| facts.mac))),
                LinkType::Ip => Mac::ZERO,
            },
        };
        Ok(Tap { device: Device::new(fd, source, &name, options.interface, features) })
    }
}

/// A weft that was killed leaves its descriptors to its caretaker, which shares the table and closes devices first. Until then the device is busy,
/// milliseconds as a rule. So long, and so often, one tries again.
const FREE_WAIT: Duration = Duration::from_millis(20);
const FREE_TRIES: u32 = 25;

/// What `attach` answers, asked again while the device is in use (EBUSY).
fn once_free(mut attach: impl FnMut() -> io::Result<String>) -> io::Result<String> {
    for _ in 0..FREE_TRIES {
        match attach() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(FREE_WAIT),
            done => return done,
        }
    }
    attach()
}

/// Opens or makes a device of the TUN driver: TAP or TUN, by what its frames begin with.
pub(crate) fn attach(name: &str, options: &OpenOptions, link: LinkType) -> Result<Device, OpenError> {
    use rustix::fs::{Mode, OFlags};
    let (scheme, kind) = match link {
        LinkType::Ethernet => ("tap", libc::IFF_TAP),
        LinkType::Ip => ("tun", libc::IFF_TUN),
    };
    let url = format!("{scheme}:{name}");
    let failed = |doing: &str, error: io::Error| OpenError::from_io(&url, doing, error);
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(|error| failed("opening /dev/net/tun", error.into()))?;
    let name = once_free(|| sys::tun_attach(fd.as_fd(), name, kind)).map_err(|error| failed("creating the device", error))?;
    sys::tun_set_header_bytes(fd.as_fd(), vnet::HEADER_BYTES).map_err(|error| failed("setting the header's length", error))?;
    let gso_udp = offer(fd.as_fd(), options.offload).map_err(|error| failed("setting offloads", error))?;
    sys::tun_set_send_buffer(fd.as_fd(), i32::MAX).map_err(|error| failed("setting the send buffer", error))?;
    // A device that belongs to an unprivileged user keeps its queue as it is.
    match sys::set_transmit_queue(&name, TRANSMIT_QUEUE_FRAMES) {
        Err(error) if error.raw_os_error() != Some(libc::EPERM) => return Err(failed("setting the queue's length", error)),
        _ => {}
    }
    if let Some(addresses) = &options.host_addresses {
        host_side::configure(&name, addresses, options.mtu)?;
    }
    let facts = sys::interface_facts(&name).map_err(|error| failed("asking for the device's address", error))?;
    let features = Features {
        gso_bytes_max: if options.offload { GSO_BYTES_MAX } else { 0 },
        gso_udp,
        checksum_offload: options.offload,
        link,
        mtu: options.mtu.unwrap_or(facts.mtu),
        mac: match link {
            LinkType::Ethernet => options.mac.unwrap_or(neighbour_mac(facts.mac)),
            LinkType::Ip => Mac::ZERO,
        },
    };
    Ok(Device::new(fd, Source::Tap, &name, options.interface, features))
}

/// Tells the kernel what it may leave unfinished; returns whether that includes frames of several UDP datagrams.
fn offer(fd: BorrowedFd<'_>, offload: bool) -> io::Result<bool> {
    if !offload {
        sys::tun_set_offload(fd, 0)?;
        return Ok(false);
    }
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    match sys::tun_set_offload(fd, tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6) {
        Ok(()) => Ok(true),
        // Before Linux 6.2.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => sys::tun_set_offload(fd, tcp).map(|()| false),
        Err(error) => Err(error),
    }
}

/// The address for the other end of a link whose one end has `mac`: locally administered, and as unique as that (the kernel's is random).
pub fn neighbour_mac(mac: Mac) -> Mac {
    let [a, b, c, d, e, f] = mac.0;
    Mac([(a | 0x02) & !0x01, b, c, d, e, f ^ 0x80])
}

impl Backend for Tap {
    fn name(&self) -> &str {
        &self.device.name
    }
    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        self.device.receive(now, frames, limit)
    }
    fn transmit(&mut self, _now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        self.device.transmit(frames, done)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.fd.as_fd())
    }
    fn features(&self) -> Features {
        self.device.features
    }
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        self.device.drops.rows()
    }
    fn give_back_memory(&mut self) {
        self.device.blocks.give_back_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with these errors in a row, then with a name; how often it was asked comes with what came of it.
    fn asked(errors: &[i32]) -> (io::Result<String>, usize) {
        let mut times = 0;
        let done = once_free(|| {
            times += 1;
            errors.get(times - 1).map_or_else(|| Ok("tap0".to_owned()), |error| Err(io::Error::from_raw_os_error(*error)))
        });
        (done, times)
    }

    #[test]
    fn a_busy_device_is_asked_for_again() {
        let (done, times) = asked(&[libc::EBUSY; 2]);
        assert_eq!((done.unwrap().as_str(), times), ("tap0", 3));
    }

    #[test]
    fn other_errors_are_told_at_once() {
        let (done, times) = asked(&[libc::EPERM]);
        assert_eq!((done.unwrap_err().raw_os_error(), times), (Some(libc::EPERM), 1));
    }

    #[test]
    fn a_device_that_stays_busy_is_given_up() {
        let tries = FREE_TRIES as usize + 1;
        let (done, times) = asked(&vec![libc::EBUSY; tries]);
        assert_eq!((done.unwrap_err().raw_os_error(), times), (Some(libc::EBUSY), tries));
    }
}
