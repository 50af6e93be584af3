//! The system calls that no safe wrapper offers: the ioctls of TUN devices and interfaces, and the options and addresses of packet sockets.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use weft_wire::ethernet::Mac;

mod ioctl {
    // Signatures from include/uapi/linux/if_tun.h; TUNSETOFFLOAD takes its value in place of a pointer.
    nix::ioctl_readwrite_bad!(tun_set_iff, libc::TUNSETIFF, libc::ifreq);
    nix::ioctl_read_bad!(tun_get_iff, libc::TUNGETIFF, libc::ifreq);
    nix::ioctl_write_int_bad!(tun_set_offload, libc::TUNSETOFFLOAD);
    nix::ioctl_write_ptr_bad!(tun_set_vnet_hdr_sz, libc::TUNSETVNETHDRSZ, libc::c_int);
    nix::ioctl_write_ptr_bad!(tun_set_sndbuf, libc::TUNSETSNDBUF, libc::c_int);
    nix::ioctl_readwrite_bad!(get_index, libc::SIOCGIFINDEX, libc::ifreq);
    nix::ioctl_readwrite_bad!(get_mtu, libc::SIOCGIFMTU, libc::ifreq);
    nix::ioctl_readwrite_bad!(get_hwaddr, libc::SIOCGIFHWADDR, libc::ifreq);
    nix::ioctl_readwrite_bad!(set_txqlen, libc::SIOCSIFTXQLEN, libc::ifreq);
    nix::ioctl_readwrite_bad!(get_flags, libc::SIOCGIFFLAGS, libc::ifreq);
}

/// Longest interface name, bytes.
const NAME_BYTES_MAX: usize = libc::IFNAMSIZ - 1;

fn request(name: &str) -> io::Result<libc::ifreq> {
    if name.len() > NAME_BYTES_MAX || name.bytes().any(|byte| byte == 0 || byte == b'/') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("an interface name has at most {NAME_BYTES_MAX} bytes and no slash"),
        ));
    }
    // SAFETY: ifreq is plain data (arrays and a union of plain data), for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn name_of(request: &libc::ifreq) -> String {
    let bytes: Vec<u8> = request.ifr_name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Attaches the descriptor to a device of this kind (`libc::IFF_TAP` or `libc::IFF_TUN`), made if there is none; returns its name.
pub(crate) fn tun_attach(fd: BorrowedFd<'_>, name: &str, kind: libc::c_int) -> io::Result<String> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which `request` is.
    unsafe { ioctl::tun_set_iff(fd.as_raw_fd(), &mut request) }?;
    Ok(name_of(&request))
}

/// A copy of a descriptor that this process has inherited, which no program that it starts inherits.
pub(crate) fn inherited(number: i32) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: borrowed for the one call that copies it; a number that is no open descriptor makes that fail, and touches nothing.
    let theirs = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::io::fcntl_dupfd_cloexec(theirs, libc::STDERR_FILENO + 1)?)
}

/// What a descriptor of the TUN driver is attached to: the device's name, and `libc::IFF_*` as it was attached.
pub(crate) fn tun_attached(fd: BorrowedFd<'_>) -> io::Result<(String, libc::c_int)> {
    let mut request = request("")?;
    // SAFETY: TUNGETIFF writes one ifreq, which `request` is.
    unsafe { ioctl::tun_get_iff(fd.as_raw_fd(), &mut request) }?;
    // SAFETY: TUNGETIFF has just set the flags of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok((name_of(&request), libc::c_int::from(flags)))
}

/// Tells the device which unfinished frames the reader takes: `libc::TUN_F_*`.
pub(crate) fn tun_set_offload(fd: BorrowedFd<'_>, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes an integer and touches no memory.
    unsafe { ioctl::tun_set_offload(fd.as_raw_fd(), flags as libc::c_int) }?;
    Ok(())
}

/// Sets the length of the header in front of each frame, bytes.
pub(crate) fn tun_set_header_bytes(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = bytes as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one int.
    unsafe { ioctl::tun_set_vnet_hdr_sz(fd.as_raw_fd(), &bytes) }?;
    Ok(())
}

/// Sets how many bytes written may be under way in the kernel.
pub(crate) fn tun_set_send_buffer(fd: BorrowedFd<'_>, bytes: libc::c_int) -> io::Result<()> {
    // SAFETY: TUNSETSNDBUF reads one int.
    unsafe { ioctl::tun_set_sndbuf(fd.as_raw_fd(), &bytes) }?;
    Ok(())
}

/// What the kernel says about an interface of this network namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InterfaceFacts {
    pub(crate) index: i32,
    pub(crate) mtu: u32,
    pub(crate) mac: Mac,
    /// ARPHRD_*.
    pub(crate) hardware: u16,
    pub(crate) up: bool,
}

fn control_socket() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// Asks for an interface's index, MTU and address.
pub(crate) fn interface_facts(name: &str) -> io::Result<InterfaceFacts> {
    let socket = control_socket()?;
    let fd = socket.as_raw_fd();
    let mut request = request(name)?;
    // SAFETY: each of these ioctls reads the name and writes the union of one ifreq, which `request` is; the union's field that is read
    // afterwards is the one that the ioctl has written (netdevice(7)).
    unsafe {
        ioctl::get_index(fd, &mut request)?;
        let index = request.ifr_ifru.ifru_ifindex;
        ioctl::get_mtu(fd, &mut request)?;
        let mtu = request.ifr_ifru.ifru_mtu as u32;
        ioctl::get_flags(fd, &mut request)?;
        let up = i32::from(request.ifr_ifru.ifru_flags) & libc::IFF_UP != 0;
        ioctl::get_hwaddr(fd, &mut request)?;
        let address = request.ifr_ifru.ifru_hwaddr;
        let mut mac = Mac::ZERO;
        for (to, from) in mac.0.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(InterfaceFacts { index, mtu, mac, hardware: address.sa_family, up })
    }
}

/// Sets how many frames wait for the reader of a TAP device.
pub(crate) fn set_transmit_queue(name: &str, frames: i32) -> io::Result<()> {
    let socket = control_socket()?;
    let mut request = request(name)?;
    // The kernel's ifr_qlen shares the union's place with ifr_ifindex (both int: include/uapi/linux/if.h).
    request.ifr_ifru.ifru_ifindex = frames;
    // SAFETY: SIOCSIFTXQLEN reads one ifreq.
    unsafe { ioctl::set_txqlen(socket.as_raw_fd(), &mut request) }?;
    Ok(())
}

/// Sets a socket option whose value is plain data.
pub(crate) fn set_option<T: Copy>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let (address, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `bytes` bytes at `address`, which is a whole T that lives across the call.
    if unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, address, bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The error that waits at a socket, which is then taken (SO_ERROR).
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> io::Result<()> {
    match rustix::net::sockopt::socket_error(fd)? {
        Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Memory shared with the kernel: what a socket's ring is in. Every access is checked against its length.
pub(crate) struct Mapping {
    memory: std::ptr::NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone in this process, and is not tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the ring of a packet socket.
    pub(crate) fn new(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Mapping> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = std::ptr::NonNull::new(memory.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Mapping { memory, bytes })
    }

    /// A word that the kernel writes, too; `at` is a multiple of four.
    pub(crate) fn word(&self, at: usize) -> &std::sync::atomic::AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.bytes, "a word at {at} of {} bytes", self.bytes);
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned (a mapping begins at a page); all access to it is atomic.
        unsafe { std::sync::atomic::AtomicU32::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }

    /// Copies bytes that the kernel has handed over.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) {
        assert!(at.checked_add(into.len()).is_some_and(|end| end <= self.bytes), "{} bytes at {at} of {}", into.len(), self.bytes);
        // SAFETY: inside the mapping (checked above); `into` is other memory; the kernel does not write to a slot that it has handed over.
        unsafe { std::ptr::copy_nonoverlapping(self.memory.as_ptr().add(at), into.as_mut_ptr(), into.len()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and no reference into it outlives it.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

/// Frames that a packet socket had no room for since this was asked last (PACKET_STATISTICS resets itself).
pub(crate) fn packet_drops(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // struct tpacket_stats: packets, drops.
    let mut statistics = [0u32; 2];
    let mut bytes = size_of::<[u32; 2]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `statistics`, which has them.
    let got =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, statistics.as_mut_ptr().cast(), &mut bytes) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(u64::from(statistics[1])) }
}

/// The address of an interface for a packet socket.
fn packet_address(index: i32, ether_type: u16) -> libc::sockaddr_ll {
    // SAFETY: sockaddr_ll is plain data.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ether_type.to_be();
    address.sll_ifindex = index;
    address
}

/// Sends one frame, given in parts, through a packet socket whose frames have no link-layer header: the address says what they are.
pub(crate) fn packet_send(fd: BorrowedFd<'_>, parts: &[io::IoSlice<'_>], index: i32, ether_type: u16) -> io::Result<()> {
    let mut address = packet_address(index, ether_type);
    // SAFETY: msghdr is plain data.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_name = std::ptr::from_mut(&mut address).cast();
    message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    loop {
        // SAFETY: an IoSlice has the layout of an iovec; the kernel reads the parts and the address, which live across the call, and
        // writes to none of them.
        if unsafe { libc::sendmsg(fd.as_raw_fd(), &message, 0) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A packet socket on one interface, receiving every EtherType.
pub(crate) fn packet_socket(prepare: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>, index: i32) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    // Protocol 0: it receives nothing until it is bound. With a protocol it would receive from all interfaces at once.
    let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    prepare(fd.as_fd())?;
    let address = packet_address(index, libc::ETH_P_ALL as u16);
    let bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of `address`, which lives across the call.
    if unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

/// Whether a packet socket's interface has been deleted: the kernel then binds it to interface -1 (packet_notifier in net/packet/af_packet.c).
pub(crate) fn packet_interface_is_gone(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: sockaddr_ll is plain data.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `address`, which has them.
    if unsafe { libc::getsockname(fd.as_raw_fd(), std::ptr::from_mut(&mut address).cast(), &mut bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(address.sll_ifindex == -1)
}
