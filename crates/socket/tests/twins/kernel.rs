//! The host kernel as a [`Host`]: raw system calls, because the bodies pass lengths and bytes that no safe wrapper lets through.

use super::language::{Done, Got, Host};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;
use weft_socket::{Errno, Poll};

/// The kernel's sockets, non-blocking.
#[derive(Default)]
pub struct Kernel {
    sockets: Vec<Option<OwnedFd>>,
}

/// What a packet of the loopback brings about (a reset, an ICMP error) is queued behind the packet of a [`barrier`]: each round waits for one more of these.
const BARRIER_ROUNDS: usize = 3;
/// A protocol for experiments (RFC 3692) that no body uses.
const BARRIER_PROTOCOL: libc::c_int = 254;

/// Waits until every processor has delivered what it had queued for the loopback. It queues in order, for each processor by itself, and under load leaves
/// the rest to a thread that may wait longer than any pause: so this thread goes to each in turn and waits for a packet of its own.
/// Without the right to raw sockets it does nothing.
fn barrier() {
    // SAFETY: no pointers.
    let Ok(fd) = done(unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, BARRIER_PROTOCOL) }) else { return };
    // SAFETY: the descriptor is new and nobody else has it.
    let probe = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all-zero bytes are a valid cpu_set_t and a valid sockaddr_in.
    let (mut before, mut to): (libc::cpu_set_t, libc::sockaddr_in) = unsafe { std::mem::zeroed() };
    (to.sin_family, to.sin_addr.s_addr) = (libc::AF_INET as libc::sa_family_t, u32::from_ne_bytes([127, 0, 0, 1]));
    let set_size = size_of::<libc::cpu_set_t>();
    // SAFETY: the set lives across the call.
    if unsafe { libc::sched_getaffinity(0, set_size, &raw mut before) } != 0 {
        return;
    }
    for processor in 0..libc::CPU_SETSIZE as usize {
        // SAFETY: the sets, the address and the buffers live across the calls, and the lengths are theirs.
        unsafe {
            if !libc::CPU_ISSET(processor, &before) {
                continue;
            }
            let mut only: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(processor, &mut only);
            libc::sched_setaffinity(0, set_size, &raw const only);
            let (address, length) = ((&raw const to).cast(), size_of::<libc::sockaddr_in>() as libc::socklen_t);
            if libc::sendto(probe.as_raw_fd(), c"b".as_ptr().cast(), 1, 0, address, length) == 1 {
                let mut entry = libc::pollfd { fd: probe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                libc::poll(&raw mut entry, 1, 1000);
                libc::recv(probe.as_raw_fd(), [0u8; 64].as_mut_ptr().cast(), 64, libc::MSG_DONTWAIT);
            }
        }
    }
    // SAFETY: as above.
    unsafe { libc::sched_setaffinity(0, set_size, &raw const before) };
}

fn done(result: libc::c_int) -> Done<libc::c_int> {
    if result < 0 { Err(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))) } else { Ok(result) }
}

/// Moves this thread into a network namespace of its own, with the loopback up. It ends with the thread and its sockets.
pub fn enter_namespace() -> Result<(), String> {
    // SAFETY: no pointers; affects this thread only.
    done(unsafe { libc::unshare(libc::CLONE_NEWNET) })
        .map_err(|errno| format!("unshare: {errno} (run the twins as root, or under `unshare -rn`)"))?;
    let mut kernel = Kernel::default();
    let s = kernel.socket(2, 2, 0).map_err(|errno| format!("socket: {errno}"))?;
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which lives across the call.
    done(unsafe { libc::ioctl(kernel.fd(s), libc::SIOCSIFFLAGS as _, &raw const request) }).map_err(|errno| format!("lo up: {errno}"))?;
    // Root may have ICMP datagram sockets, as under weft everybody may; the file is that of the thread that opens it.
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").map_err(|why| format!("ping_group_range: {why}"))?;
    Ok(())
}

/// ip(8), in this thread's namespace; its output.
#[allow(dead_code)] // only one of the programs that share this file has a use for it
fn ip(command: &str) -> Result<String, String> {
    let done = std::process::Command::new("ip").args(command.split(' ')).output().map_err(|why| format!("ip: {why}"))?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(format!("ip {command}: {}", String::from_utf8_lossy(&done.stderr))),
    }
}

/// Waits until ip(8) says so: two seconds, then something is wrong.
#[allow(dead_code)] // as above
fn wait_for(command: &str, done: impl Fn(&str) -> bool) -> Result<(), String> {
    for _ in 0..400 {
        if done(&ip(command)?) {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Err(format!("nothing comes of: ip {command}"))
}

/// Gives the namespace a second interface: `weft9`, number 2, on which nobody answers.
#[allow(dead_code)] // as above
pub fn add_link() -> Result<(), String> {
    ip("link add weft9 index 2 type veth peer name weft8 index 3")?;
    for interface in ["weft8", "weft9"] {
        ip(&format!("link set {interface} addrgenmode none"))?;
        ip(&format!("link set {interface} up"))?;
    }
    // Its other end is out of this: `ff00::/8` leads to weft9 alone.
    std::fs::write("/proc/sys/net/ipv6/conf/weft8/disable_ipv6", "1").map_err(|why| format!("disable_ipv6: {why}"))?;
    // The kernel notices the carrier a moment later; addresses that are there before have to wait for another.
    for interface in ["weft8", "weft9"] {
        wait_for(&format!("-o link show {interface}"), |shown| shown.contains("state UP"))?;
    }
    ip("addr add 10.55.0.1/24 dev weft9")?;
    for address in ["fe80::5/64", "2001:db8:5::1/64"] {
        ip(&format!("addr add {address} dev weft9 nodad"))?;
    }
    // Their routes come from a work queue.
    let routes = ["local fe80::5 ", "local 2001:db8:5::1 ", "ff00::/8 "];
    wait_for("-6 route show table local dev weft9", |shown| routes.iter().all(|route| shown.contains(route)))
}

impl Kernel {
    fn fd(&self, s: usize) -> RawFd {
        self.sockets.get(s).and_then(Option::as_ref).map_or(-1, AsRawFd::as_raw_fd)
    }
    fn add(&mut self, fd: RawFd) -> usize {
        // SAFETY: the descriptor was just made and nobody else has it.
        self.sockets.push(Some(unsafe { OwnedFd::from_raw_fd(fd) }));
        self.sockets.len() - 1
    }
    /// poll(2), which waits so long for one of these events, an error or a hang-up.
    pub fn poll_for(&mut self, s: usize, events: i16, limit: Duration) -> Poll {
        let mut entry = libc::pollfd { fd: self.fd(s), events, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut entry, 1, limit.as_millis() as i32) };
        Poll(u32::from(entry.revents as u16))
    }
    /// send(2).
    #[allow(dead_code)] // only one of the programs that share this file has a use for it
    pub fn send_plain(&mut self, s: usize, data: &[u8], flags: i32) -> Done<usize> {
        // SAFETY: the kernel reads exactly `len` bytes of the slice.
        let sent = unsafe { libc::send(self.fd(s), data.as_ptr().cast(), data.len(), flags) };
        usize::try_from(sent).map_err(|_| Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)))
    }
    /// recv(2).
    #[allow(dead_code)] // as above
    pub fn receive_plain(&mut self, s: usize, length: usize, flags: i32) -> Done<Got> {
        let mut data = vec![0u8; length];
        // SAFETY: the kernel writes at most `length` bytes into the vector.
        let got = unsafe { libc::recv(self.fd(s), data.as_mut_ptr().cast(), length, flags) };
        let count = usize::try_from(got).map_err(|_| Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)))?;
        let cut = flags & libc::MSG_TRUNC != 0 && self.is_stream(s);
        data.truncate(if cut { 0 } else { count.min(length) });
        Ok(Got { count, data, ..Got::default() })
    }
    /// A stream counts with MSG_TRUNC bytes that it does not copy.
    fn is_stream(&mut self, s: usize) -> bool {
        self.get(s, 1, 3, 4).is_ok_and(|kind| kind == 1i32.to_ne_bytes())
    }
}

impl Host for Kernel {
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Done<usize> {
        // SAFETY: no pointers.
        let fd = done(unsafe { libc::socket(domain, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, protocol) })?;
        Ok(self.add(fd))
    }
    fn bind(&mut self, s: usize, address: &[u8]) -> Done<()> {
        // SAFETY: the kernel reads exactly `len` bytes of the slice.
        done(unsafe { libc::bind(self.fd(s), address.as_ptr().cast(), address.len() as u32) }).map(drop)
    }
    fn connect(&mut self, s: usize, address: &[u8]) -> Done<()> {
        // SAFETY: as for bind.
        done(unsafe { libc::connect(self.fd(s), address.as_ptr().cast(), address.len() as u32) }).map(drop)
    }
    fn listen(&mut self, s: usize, backlog: i32) -> Done<()> {
        // SAFETY: no pointers.
        done(unsafe { libc::listen(self.fd(s), backlog) }).map(drop)
    }
    fn accept(&mut self, s: usize) -> Done<(usize, Vec<u8>)> {
        let (mut from, mut length) = (vec![0u8; 128], 128u32);
        // SAFETY: the kernel writes at most `length` bytes into the vector.
        let fd = done(unsafe {
            libc::accept4(self.fd(s), from.as_mut_ptr().cast(), &raw mut length, libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)
        })?;
        from.truncate(length as usize);
        Ok((self.add(fd), from))
    }
    fn shutdown(&mut self, s: usize, how: i32) -> Done<()> {
        // SAFETY: no pointers.
        done(unsafe { libc::shutdown(self.fd(s), how) }).map(drop)
    }
    fn local(&mut self, s: usize) -> Done<Vec<u8>> {
        let (mut name, mut length) = (vec![0u8; 128], 128u32);
        // SAFETY: as for accept.
        done(unsafe { libc::getsockname(self.fd(s), name.as_mut_ptr().cast(), &raw mut length) })?;
        name.truncate(length as usize);
        Ok(name)
    }
    fn peer(&mut self, s: usize) -> Done<Vec<u8>> {
        let (mut name, mut length) = (vec![0u8; 128], 128u32);
        // SAFETY: as for accept.
        done(unsafe { libc::getpeername(self.fd(s), name.as_mut_ptr().cast(), &raw mut length) })?;
        name.truncate(length as usize);
        Ok(name)
    }
    fn get(&mut self, s: usize, level: i32, name: i32, length: usize) -> Done<Vec<u8>> {
        let (mut value, mut size) = (vec![0u8; length.max(1)], length as u32);
        // SAFETY: the kernel writes at most `size` bytes, which the vector has.
        done(unsafe { libc::getsockopt(self.fd(s), level, name, value.as_mut_ptr().cast(), &raw mut size) })?;
        value.truncate(size as usize);
        Ok(value)
    }
    fn set(&mut self, s: usize, level: i32, name: i32, value: &[u8]) -> Done<()> {
        let mut program: Vec<libc::sock_filter> = Vec::new();
        if (level, name) == (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER) && value.len().is_multiple_of(8) {
            let half = |bytes: &[u8]| u16::from_ne_bytes([bytes[0], bytes[1]]);
            let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            let instruction = |one: &[u8]| libc::sock_filter { code: half(one), jt: one[2], jf: one[3], k: word(one) };
            program.extend(value.chunks_exact(8).map(instruction));
            let whole = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
            // SAFETY: the kernel reads the structure and as many instructions as it says, which live across the call.
            return done(unsafe {
                libc::setsockopt(self.fd(s), level, name, (&raw const whole).cast(), size_of::<libc::sock_fprog>() as u32)
            })
            .map(drop);
        }
        // SAFETY: the kernel reads exactly `len` bytes of the slice.
        done(unsafe { libc::setsockopt(self.fd(s), level, name, value.as_ptr().cast(), value.len() as u32) }).map(drop)
    }
    fn send(&mut self, s: usize, data: &[u8], flags: i32, to: Option<&[u8]>, control: &[u8]) -> Done<usize> {
        let mut part = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        if let Some(to) = to {
            (message.msg_name, message.msg_namelen) = (to.as_ptr().cast_mut().cast(), to.len() as u32);
        }
        if !control.is_empty() {
            (message.msg_control, message.msg_controllen) = (control.as_ptr().cast_mut().cast(), control.len() as _);
        }
        // SAFETY: the header and all it points to live across the call; sendmsg only reads them.
        let sent = unsafe { libc::sendmsg(self.fd(s), &raw const message, flags) };
        usize::try_from(sent).map_err(|_| Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)))
    }
    fn receive(&mut self, s: usize, length: usize, flags: i32) -> Done<Got> {
        let (mut data, mut from, mut control) = (vec![0u8; length], vec![0u8; 128], vec![0u64; 64]);
        let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: length };
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_name, message.msg_namelen) = (from.as_mut_ptr().cast(), 128);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 512);
        // SAFETY: the header and the buffers live across the call and have the lengths given.
        let got = unsafe { libc::recvmsg(self.fd(s), &raw mut message, flags) };
        let count = usize::try_from(got).map_err(|_| Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)))?;
        let cut = flags & libc::MSG_TRUNC != 0 && self.is_stream(s);
        data.truncate(if cut { 0 } else { count.min(length) });
        from.truncate(message.msg_namelen as usize);
        let mut bytes: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.truncate(message.msg_controllen as usize);
        Ok(Got { count, data, from, flags: message.msg_flags, control: bytes })
    }
    fn ioctl(&mut self, s: usize, request: u64) -> Done<i32> {
        let mut number: libc::c_int = 0;
        // SAFETY: the requests of the bodies write one int.
        done(unsafe { libc::ioctl(self.fd(s), request as _, &raw mut number) })?;
        Ok(number)
    }
    fn poll(&mut self, s: usize) -> Poll {
        self.poll_for(s, 0x3fff, Duration::ZERO)
    }
    fn close(&mut self, s: usize) {
        if let Some(slot) = self.sockets.get_mut(s) {
            *slot = None;
        }
    }
    fn settle(&mut self) {
        std::thread::sleep(Duration::from_millis(5));
        for _ in 0..BARRIER_ROUNDS {
            barrier();
        }
    }
}
