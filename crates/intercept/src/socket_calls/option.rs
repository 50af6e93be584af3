//! getsockopt(2), setsockopt(2), ioctl(2).

use super::carrier::Carrier;
use crate::memory::Memory;
use crate::sys::Errno;
use weft_loader::calls::{self, requests};
use weft_socket::abi::{MPTCP_FULL_INFO, PACKET_FANOUT_DATA, SOL_MPTCP, SOL_PACKET};
use weft_socket::options::{bytes_asked, refused_of_packets, split_full};

/// Of the longest values more is not looked at: filters of groups, which have net.core.optmem_max at most, and one byte to tell that there is more.
const OPTION_BYTES_MAX: usize = 131_073;
/// Longest value that is told.
const TOLD_BYTES_MAX: i32 = 4096;
/// Options of SOL_IPV6 that are no `int`, and look at the pointer themselves.
const IN6_OF_OWN: [i32; 5] = [libc::IPV6_PKTINFO, libc::IPV6_HOPOPTS, libc::IPV6_RTHDRDSTOPTS, libc::IPV6_RTHDR, libc::IPV6_DSTOPTS];
/// BPF_MAXINSNS.
const FILTER_INSTRUCTIONS_MAX: usize = 4096;
/// sizeof(struct sock_filter)
const INSTRUCTION_BYTES: usize = 8;
/// Bytes of a `struct sock_fprog`.
const FILTER_BYTES: usize = 16;

/// getsockopt(2)
pub fn getsockopt<C: Carrier>(c: &mut C, asked: calls::Getsockopt) -> Result<C::Outcome, Errno> {
    let (level, name) = (asked.level.get(), asked.optname.get());
    let room = Room::read(c.memory(), level, name, asked.optlen.0 as u64)?;
    let asked_of = match bytes_asked(level, name, room.asked) {
        Some(bytes) => {
            let mut value = vec![0; bytes];
            match c.memory().read(asked.optval.0 as u64, &mut value) {
                // Where the socket has the option, it says that.
                Err(Errno(libc::EFAULT)) => Vec::new(),
                read => read.map(|()| value)?,
            }
        }
        None => Vec::new(),
    };
    let value = c.get_option(level, name, &asked_of, room.asked).inspect_err(|errno| count(c, "getsockopt", level, name, *errno))?;
    let Some(value) = value else { return c.natively() };
    room.fill(c.memory(), &value, asked.optval.0 as u64, asked.optlen.0 as u64)?;
    Ok(c.done(0))
}

/// setsockopt(2)
pub fn setsockopt<C: Carrier>(c: &mut C, asked: calls::Setsockopt) -> Result<C::Outcome, Errno> {
    let (level, name) = (asked.level.get(), asked.optname.get());
    let value = given(c, level, name, asked.optval.0 as u64, asked.optlen.get())?;
    match c.set_option(level, name, &value).inspect_err(|errno| count(c, "setsockopt", level, name, *errno))? {
        true => Ok(c.done(0)),
        false => c.natively(),
    }
}

fn count(c: &mut impl Carrier, call: &str, level: i32, name: i32, errno: Errno) {
    if matches!(errno.0, libc::ENOPROTOOPT | libc::EOPNOTSUPP) {
        let option = refused_of_packets(level, name);
        c.unsupported(option.map_or_else(|| format!("{call} level {level} name {name}"), |option| format!("{call} {option}")), errno);
    }
}

/// ioctl(2)
pub fn ioctl<C: Carrier>(c: &mut C, asked: calls::Ioctl) -> Result<C::Outcome, Errno> {
    let request = asked.cmd.get() as u32;
    if requests::is_about_interfaces(request) {
        c.about_interfaces(request, asked.arg.0 as u64)?;
        return Ok(c.told(0));
    }
    let Some(value) = c.ioctl(request)? else { return c.natively() };
    c.memory().write(asked.arg.0 as u64, &value)?;
    Ok(c.told(0))
}

/// The instructions that a `struct sock_fprog` points to. copy_bpf_fprog_from_user: "if (len != sizeof(*dst)) return -EINVAL;"
fn filter_program(call: &impl Memory, value: &[u8]) -> Result<Vec<u8>, Errno> {
    let &[l0, l1, _, _, _, _, _, _, ref at @ ..] = value else { return Err(Errno(libc::EINVAL)) };
    let at = u64::from_ne_bytes(at.try_into().map_err(|_| Errno(libc::EINVAL))?);
    let count = usize::from(u16::from_ne_bytes([l0, l1]));
    if at == 0 || !(1..=FILTER_INSTRUCTIONS_MAX).contains(&count) {
        return Err(Errno(libc::EINVAL));
    }
    let mut program = vec![0; count * INSTRUCTION_BYTES];
    call.read(at, &mut program)?;
    Ok(program)
}

/// What getsockopt(2) is given: room for a value, and of which option.
pub struct Room {
    /// What the program says.
    told: i32,
    /// What the model is asked for: for how many bytes there is room, or a number below zero.
    pub asked: i32,
    /// The value is the instructions of a filter.
    filter: bool,
    /// The value is words, of which those are written that fit; told is the length of all.
    words: bool,
    /// The value is as long as the program says in it, whatever its length.
    whole: bool,
    /// Behind the value come those of two other places, which are named in it.
    elsewhere: bool,
}

impl Room {
    /// Reads the length of the room.
    ///
    /// # Errors
    /// EFAULT, or [`crate::memory::LATER`].
    pub fn read(memory: &impl Memory, level: i32, name: i32, length_at: u64) -> Result<Room, Errno> {
        let told = memory.read_int(length_at)?;
        let filter = (level, name) == (libc::SOL_SOCKET, libc::SO_GET_FILTER);
        // sk_get_filter: "Instead of bytes, the API requests to return the number of filter blocks."
        let asked = if filter && told >= 0 { (FILTER_INSTRUCTIONS_MAX * INSTRUCTION_BYTES) as i32 } else { told.min(TOLD_BYTES_MAX) };
        let words = (level, name) == (libc::SOL_NETLINK, libc::NETLINK_LIST_MEMBERSHIPS);
        Ok(Room {
            told,
            asked,
            filter,
            words,
            whole: bytes_asked(level, name, told).is_some(),
            elsewhere: (level, name) == (SOL_MPTCP, MPTCP_FULL_INFO),
        })
    }

    /// Writes a value and its length.
    ///
    /// # Errors
    /// EINVAL when a filter has no room; EFAULT.
    pub fn fill(&self, memory: &impl Memory, value: &[u8], at: u64, length_at: u64) -> Result<(), Errno> {
        // A negative length is a huge one to options that take it.
        let mut length = usize::try_from(self.asked).map_or(value.len(), |asked| value.len().min(asked));
        if self.filter {
            length = value.len() / INSTRUCTION_BYTES;
            // "User space only enquires number of filter blocks".
            let asks = self.told == 0;
            if !asks && usize::try_from(self.told).is_ok_and(|told| told < length) {
                return Err(Errno(libc::EINVAL));
            }
            memory.write(at, if asks { &[] } else { value })?;
        } else if self.words {
            // netlink_getsockopt: "if (len - pos < sizeof(u32)) break; … if (put_user(ALIGN(BITS_TO_BYTES(nlk->ngroups), sizeof(u32)), optlen))"
            memory.write(at, &value[..length - length % 4])?;
            length = value.len();
        } else if self.elsewhere {
            let (own, others) = split_full(value, usize::try_from(self.asked).unwrap_or(0));
            others.iter().try_for_each(|(place, bytes)| memory.write(*place, bytes))?;
            memory.write(at, &own)?;
            length = own.len();
        } else if self.whole {
            memory.write(at, value)?;
            length = value.len();
        } else {
            memory.write(at, value.get(..length).unwrap_or(value))?;
        }
        memory.write(length_at, &(length as u32).to_ne_bytes())
    }
}

fn is_raw<C: Carrier>(c: &mut C) -> Result<bool, Errno> {
    let kind = c.get_option(libc::SOL_SOCKET, libc::SO_TYPE, &[], 4)?;
    Ok(kind.is_some_and(|kind| kind.starts_with(&libc::SOCK_RAW.to_ne_bytes())))
}

/// mptcp_setsockopt_sol_socket has no filters, and does not look at one.
fn takes_filters<C: Carrier>(c: &mut C) -> Result<bool, Errno> {
    let protocol = c.get_option(libc::SOL_SOCKET, libc::SO_PROTOCOL, &[], 4)?;
    Ok(!protocol.is_some_and(|protocol| protocol.starts_with(&libc::IPPROTO_MPTCP.to_ne_bytes())))
}

/// Are these names, which end before their length where there is a zero?
fn is_string(level: i32, name: i32) -> bool {
    level == libc::IPPROTO_TCP && matches!(name, libc::TCP_CONGESTION | libc::TCP_ULP)
}

/// strncpy_from_sockptr: up to the zero, behind which there may be no memory.
fn read_string(memory: &impl Memory, at: u64, value: &mut [u8]) -> Result<(), Errno> {
    for (offset, byte) in value.iter_mut().enumerate() {
        memory.read(at.wrapping_add(offset as u64), std::slice::from_mut(byte))?;
        if *byte == 0 {
            break;
        }
    }
    Ok(())
}

/// The value that setsockopt(2) is given; of SO_ATTACH_FILTER, the instructions. Zeros stand for what nobody looks at.
fn given<C: Carrier>(c: &mut C, level: i32, name: i32, at: u64, length: i32) -> Result<Vec<u8>, Errno> {
    // do_sock_setsockopt: "if (optlen < 0) return -EINVAL;"
    let bytes = usize::try_from(length).map_err(|_| Errno(libc::EINVAL))?.min(OPTION_BYTES_MAX);
    let looked_at = c.option_bytes(level, name, bytes).min(bytes);
    let mut value = vec![0; bytes];
    let part = value.get_mut(..looked_at).unwrap_or_default();
    // do_ipv6_setsockopt: "if (sockptr_is_null(optval)) val = 0;", which do_rawv6_setsockopt does not have.
    let is_null = at == 0 && level == libc::SOL_IPV6 && !(matches!(name, libc::IPV6_CHECKSUM | libc::IPV6_HDRINCL) && is_raw(c)?);
    match (is_null, looked_at) {
        (true, ..=4) => {}
        // "if (optlen < sizeof(struct in6_pktinfo) || sockptr_is_null(optval)) goto e_inval;", ipv6_set_opt_hdr: "else if (sockptr_is_null(optval))
        // return -EINVAL;"
        (true, _) if IN6_OF_OWN.contains(&name) => return Err(Errno(libc::EINVAL)),
        _ => match c.memory().read(at, part) {
            Err(Errno(libc::EFAULT)) if is_string(level, name) => read_string(c.memory(), at, part)?,
            read => read?,
        },
    }
    // Of PACKET_FANOUT_DATA, where it is as long as a `struct sock_fprog`.
    let chooses = (level, name) == (SOL_PACKET, PACKET_FANOUT_DATA) && bytes == FILTER_BYTES;
    if chooses || (level, name) == (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER) && takes_filters(c)? {
        filter_program(c.memory(), &value)
    } else {
        Ok(value)
    }
}
