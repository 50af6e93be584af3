//! SIOCGIF*, SIOCSIF* and their relatives, answered from the node's tables. libc asks these through AF_UNIX sockets too, so they are answered
//! whatever socket they come through, but for those about addresses, which sockets of their own family answer; none reaches the host's interfaces.
//! What they set is set by the procedures that netlink uses, too: flags, MTU, link-layer address, queue length, name, IPv4 address, mask and
//! broadcast address, IPv6 addresses. Routes are netlink's alone.

use super::procedure::told;
use super::{arp, ethtool, route};
use crate::face::{SocketId, Stack};
use crate::memory::Memory;
use crate::sys::Errno;
use crate::tables::{self, InterfaceRow};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_core::table::{Address, Family, LinkType};

/// Bytes of `struct ifreq`: a name and a union.
const IFREQ_BYTES: usize = 40;
/// Bytes of `struct in6_ifreq`: an address, the length of its prefix, the index of an interface.
const IN6_IFREQ_BYTES: usize = 24;
/// Bytes of the name in it.
const NAME_BYTES: usize = 16;

const SIOCGIFNAME: u32 = 0x8910;
const SIOCGIFCONF: u32 = 0x8912;
const SIOCGIFFLAGS: u32 = 0x8913;
const SIOCGIFADDR: u32 = 0x8915;
const SIOCGIFDSTADDR: u32 = 0x8917;
const SIOCGIFBRDADDR: u32 = 0x8919;
const SIOCGIFNETMASK: u32 = 0x891b;
const SIOCGIFMETRIC: u32 = 0x891d;
const SIOCGIFMEM: u32 = 0x891f;
const SIOCGIFMTU: u32 = 0x8921;
const SIOCGIFHWADDR: u32 = 0x8927;
const SIOCGIFSLAVE: u32 = 0x8929;
const SIOCGIFINDEX: u32 = 0x8933;
const SIOCGIFPFLAGS: u32 = 0x8935;
const SIOCGIFTXQLEN: u32 = 0x8942;
const SIOCGIFMAP: u32 = 0x8970;
const SIOCSIFFLAGS: u32 = 0x8914;
const SIOCSIFADDR: u32 = 0x8916;
const SIOCSIFDSTADDR: u32 = 0x8918;
const SIOCSIFBRDADDR: u32 = 0x891a;
const SIOCSIFNETMASK: u32 = 0x891c;
const SIOCSIFMTU: u32 = 0x8922;
const SIOCSIFNAME: u32 = 0x8923;
const SIOCSIFHWADDR: u32 = 0x8924;
const SIOCSIFPFLAGS: u32 = 0x8934;
const SIOCDIFADDR: u32 = 0x8936;
const SIOCSIFTXQLEN: u32 = 0x8943;
/// What they point to is no `struct ifreq`.
const ROUTES: [u32; 2] = [route::SIOCADDRT, route::SIOCDELRT];
/// Requests that change something: SIOCSIF*.
const SETTING: [u32; 10] = [
    SIOCSIFFLAGS,
    SIOCSIFADDR,
    SIOCSIFDSTADDR,
    SIOCSIFBRDADDR,
    SIOCSIFNETMASK,
    0x891e,
    SIOCSIFMTU,
    SIOCSIFHWADDR,
    SIOCSIFTXQLEN,
    SIOCSIFNAME,
];

/// Requests that sockets of AF_INET answer, and no others but for what is in [`ADDRESSES6`].
const ADDRESSES: [u32; 10] = [
    SIOCGIFADDR,
    SIOCGIFDSTADDR,
    SIOCGIFBRDADDR,
    SIOCGIFNETMASK,
    SIOCGIFPFLAGS,
    SIOCSIFADDR,
    SIOCSIFDSTADDR,
    SIOCSIFBRDADDR,
    SIOCSIFNETMASK,
    SIOCSIFPFLAGS,
];
/// Requests that sockets of AF_INET6 answer in a way of their own (`inet6_ioctl`).
const ADDRESSES6: [u32; 3] = [SIOCSIFADDR, SIOCDIFADDR, SIOCSIFDSTADDR];

/// Who makes a request about interfaces.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// May it change them?
    pub manages: bool,
    /// The socket of the node that it asks through. None: another one.
    pub socket: Option<SocketId>,
}

/// The family of a socket of the node. None: another one's.
fn family(stack: &mut dyn Stack, socket: Option<SocketId>) -> Option<i32> {
    let domain = stack.get_option(socket?, libc::SOL_SOCKET, libc::SO_DOMAIN, 4).ok()?;
    domain.first_chunk::<4>().map(|domain| i32::from_ne_bytes(*domain))
}

/// Answers a request about interfaces in a program's memory. EPERM for what would change something if the program does not manage the network,
/// EOPNOTSUPP for what is not known.
pub fn answer(memory: &impl Memory, stack: &mut dyn Stack, request: u32, pointer: u64, asker: Asker) -> Result<(), Errno> {
    let Asker { manages, socket } = asker;
    let family = family(stack, socket);
    // packet_ioctl hands these on to inet_dgram_ops.
    let of_inet = matches!(family, Some(libc::AF_INET | libc::AF_PACKET));
    let of_arp = matches!(request, arp::SIOCGARP | arp::SIOCSARP | arp::SIOCDARP);
    if of_inet && of_arp {
        return arp::answer(memory, stack, request, pointer, manages);
    }
    if ADDRESSES6.contains(&request) && family == Some(libc::AF_INET6) {
        return set_address6(memory, stack, request, pointer, manages);
    }
    if request == SIOCDIFADDR || of_arp || ADDRESSES.contains(&request) && !of_inet {
        memory.read(pointer, &mut [0; IFREQ_BYTES])?;
        // inet_ioctl alone calls devinet_ioctl; dev_ioctl does not know them: "default: … return -ENOTTY;"
        return Err(Errno(libc::ENOTTY));
    }
    if ROUTES.contains(&request) {
        return route::answer(memory, stack, request, pointer, family, manages);
    }
    if SETTING.contains(&request) {
        if !manages {
            return Err(Errno(libc::EPERM));
        }
        let mut ifreq = [0; IFREQ_BYTES];
        memory.read(pointer, &mut ifreq)?;
        return set(stack, request, &ifreq);
    }
    let interfaces = tables::interfaces(stack);
    let addresses = tables::addresses(stack, Family::V4);
    if request == SIOCGIFCONF {
        return configuration(memory, pointer, &interfaces, &addresses);
    }
    let mut ifreq = [0; IFREQ_BYTES];
    memory.read(pointer, &mut ifreq)?;
    match request {
        // Whatever interface they name: no kernel answers them any more.
        SIOCGIFMEM => return Err(Errno(libc::ENOTTY)),
        SIOCGIFPFLAGS | SIOCSIFPFLAGS => return Err(Errno(libc::EINVAL)),
        // dev_ethtool: "if (copy_from_user(&ethcmd, useraddr, sizeof(ethcmd))) return -EFAULT;", before it looks for the device.
        ethtool::SIOCETHTOOL => memory.read(data(&ifreq), &mut [0; 4])?,
        _ => {}
    }
    let (name, union) = ifreq.split_at_mut(NAME_BYTES);
    let wanted = |interface: &&InterfaceRow| {
        if request == SIOCGIFNAME {
            return union.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes) == Some(interface.index);
        }
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES - 1);
        // "eth0:1" names an alias of eth0.
        name[..end].split(|byte| *byte == b':').next() == Some(interface.name.as_bytes())
    };
    let interface = interfaces.iter().find(wanted).ok_or(Errno(libc::ENODEV))?;
    // devinet_ioctl: "if (!strcmp(ifr->ifr_name, ifa->ifa_label)) break; /* found */", which is the interface's name where none was given.
    let asked = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let of_label = |address: &&Address| address.label.text().unwrap_or(&interface.name).as_bytes() == asked;
    let address = addresses.iter().filter(|address| address.interface.0 == interface.index).find(of_label);
    match request {
        SIOCGIFNAME => {
            name.fill(0);
            let length = interface.name.len().min(NAME_BYTES - 1);
            name[..length].copy_from_slice(&interface.name.as_bytes()[..length]);
        }
        ethtool::SIOCETHTOOL => {
            return ethtool::answer(memory, interface, data(&ifreq), manages);
        }
        SIOCGIFINDEX => union[..4].copy_from_slice(&interface.index.to_ne_bytes()),
        SIOCGIFFLAGS => union[..2].copy_from_slice(&(flags(interface) as u16).to_ne_bytes()),
        SIOCGIFMTU => union[..4].copy_from_slice(&interface.mtu.to_ne_bytes()),
        SIOCGIFMETRIC => union[..4].fill(0),
        // dev_ifsioc_locked: "err = -EINVAL;"
        SIOCGIFSLAVE => return Err(Errno(libc::EINVAL)),
        // No interface has memory or interrupts of a device.
        SIOCGIFMAP => union.fill(0),
        SIOCGIFTXQLEN => union[..4].copy_from_slice(&interface.tx_queue_packets.to_ne_bytes()),
        SIOCGIFHWADDR => {
            union[..2].copy_from_slice(&hardware_type(interface.link).to_ne_bytes());
            union[2..8].copy_from_slice(&interface.mac);
        }
        SIOCGIFADDR | SIOCGIFDSTADDR | SIOCGIFBRDADDR | SIOCGIFNETMASK => {
            let row = address.ok_or(Errno(libc::EADDRNOTAVAIL))?;
            let (address, mask) = v4(row).ok_or(Errno(libc::EADDRNOTAVAIL))?;
            let value = match request {
                SIOCGIFNETMASK => mask,
                // As somebody said it: of `ip address add` without a word of it there is none.
                SIOCGIFBRDADDR => row.broadcast.unwrap_or(Ipv4Addr::UNSPECIFIED),
                _ => address,
            };
            write_v4(union, value);
        }
        _ => return Err(Errno(libc::EOPNOTSUPP)),
    }
    memory.write(pointer, &ifreq)
}

/// ifr_data
fn data(ifreq: &[u8; IFREQ_BYTES]) -> u64 {
    ifreq[NAME_BYTES..].first_chunk::<8>().map_or(0, |data| u64::from_ne_bytes(*data))
}

/// dev_ifsioc, devinet_ioctl.
fn set(stack: &mut dyn Stack, request: u32, ifreq: &[u8; IFREQ_BYTES]) -> Result<(), Errno> {
    let (name, union) = ifreq.split_at(NAME_BYTES);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    let name = text(name);
    let interface = tables::interfaces(stack).into_iter().find(|one| one.name == name).ok_or(Errno(libc::ENODEV))?;
    let number = u32::from_ne_bytes([union[0], union[1], union[2], union[3]]);
    let index = interface.index;
    let arguments = match request {
        SIOCSIFMTU => json!({"index": index, "mtu": number}),
        SIOCSIFTXQLEN => json!({"index": index, "tx_queue_packets": number}),
        SIOCSIFNAME => json!({"index": index, "new_name": text(&union[..NAME_BYTES])}),
        SIOCSIFHWADDR => json!({"index": index, "mac": union[2..8]}),
        SIOCSIFFLAGS => return set_flags(stack, &interface, u16::from_ne_bytes([union[0], union[1]]).into()),
        SIOCSIFADDR | SIOCSIFNETMASK | SIOCSIFBRDADDR => return set_address(stack, request, &interface, union),
        _ => return Err(Errno(libc::EOPNOTSUPP)),
    };
    told(stack, "interfaces", "set", arguments)
}

/// dev_change_flags: IFF_* as a program wants them.
pub(crate) fn set_flags(stack: &mut dyn Stack, interface: &InterfaceRow, flags: i32) -> Result<(), Errno> {
    let (index, on) = (interface.index, |flag: i32| flags & flag != 0);
    let arguments = json!({
        "index": index, "up": on(libc::IFF_UP), "arp": !on(libc::IFF_NOARP), "multicast": on(libc::IFF_MULTICAST),
        "promiscuous": on(libc::IFF_PROMISC), "all_multicast": on(libc::IFF_ALLMULTI), "dynamic": on(libc::IFF_DYNAMIC),
    });
    told(stack, "interfaces", "set", arguments)?;
    if on(libc::IFF_UP) != interface.up {
        for block in ["ip4", "ip6"] {
            // A graph without the block has neither routes nor addresses.
            let _ = told(stack, block, "interface_set", json!({"interface": index, "up": on(libc::IFF_UP)}));
        }
    }
    Ok(())
}

/// addrconf_add_ifaddr, addrconf_del_ifaddr, addrconf_set_dstaddr: a `struct in6_ifreq`.
fn set_address6(memory: &impl Memory, stack: &mut dyn Stack, request: u32, pointer: u64, manages: bool) -> Result<(), Errno> {
    if request == SIOCSIFDSTADDR {
        // "if (!IS_ENABLED(CONFIG_IPV6_SIT)) return -ENODEV;", before the right and the memory: it is about tunnels of that kind.
        return Err(Errno(libc::ENODEV));
    }
    if !manages {
        return Err(Errno(libc::EPERM));
    }
    let mut in6_ifreq = [0; IN6_IFREQ_BYTES];
    memory.read(pointer, &mut in6_ifreq)?;
    let (octets, rest) = in6_ifreq.split_first_chunk::<16>().ok_or(Errno(libc::EINVAL))?;
    let word = |at: usize| rest.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let (address, bits, index) = (Ipv6Addr::from(*octets), word(0), word(4));
    let there = tables::interfaces(stack).iter().any(|one| one.index == index);
    // addrconf_add_ifaddr looks for the interface before inet6_addr_add for the length, inet6_addr_del behind it.
    match (there, bits > 128) {
        (false, _) if request == SIOCSIFADDR => return Err(Errno(libc::ENODEV)),
        (_, true) => return Err(Errno(libc::EINVAL)),
        (false, false) => return Err(Errno(libc::ENODEV)),
        (true, false) => {}
    }
    let arguments = json!({"interface": index, "address": address.to_string(), "prefix_bits": bits});
    if request == SIOCSIFADDR {
        return told(stack, "ip6", "address_add", arguments);
    }
    // "if (ifp->prefix_len == plen && ipv6_addr_equal(pfx, &ifp->addr))"
    let is_it = |one: &Address| one.interface.0 == index && one.address == IpAddr::V6(address) && u32::from(one.prefix_bits) == bits;
    if !tables::addresses(stack, Family::V6).iter().any(is_it) {
        return Err(Errno(libc::EADDRNOTAVAIL));
    }
    told(stack, "ip6", "address_delete", arguments)
}

/// The first IPv4 address of an interface becomes another, or its mask or broadcast address does.
fn set_address(stack: &mut dyn Stack, request: u32, interface: &InterfaceRow, union: &[u8]) -> Result<(), Errno> {
    if i32::from(u16::from_ne_bytes([union[0], union[1]])) != libc::AF_INET {
        return Err(Errno(libc::EINVAL));
    }
    let value = Ipv4Addr::new(union[4], union[5], union[6], union[7]);
    let before = tables::addresses(stack, Family::V4).into_iter().find(|address| address.interface.0 == interface.index);
    let (address, bits) = match (request, before.as_ref().and_then(v4)) {
        // inet_abc_len: the prefix of the address's class.
        (SIOCSIFADDR, _) => (value, class_bits(value).ok_or(Errno(libc::EINVAL))?),
        (_, None) => return Err(Errno(libc::EADDRNOTAVAIL)),
        (SIOCSIFNETMASK, Some((address, _))) => {
            let bits = u32::from(value).leading_ones();
            // bad_mask
            if u32::from(value).checked_shl(bits).unwrap_or(0) != 0 {
                return Err(Errno(libc::EINVAL));
            }
            (address, bits as u8)
        }
        (_, Some((address, mask))) => (address, u32::from(mask).leading_ones() as u8),
    };
    let mut arguments = json!({"interface": interface.index, "address": address.to_string(), "prefix_bits": bits});
    if request == SIOCSIFBRDADDR {
        arguments["broadcast"] = value.to_string().into();
    }
    if let Some(before) = before {
        told(stack, "ip4", "address_delete", json!({"interface": interface.index, "address": before.address.to_string()}))?;
    }
    if address.is_unspecified() {
        // "ifconfig eth0 0.0.0.0" takes the address away.
        return Ok(());
    }
    told(stack, "ip4", "address_add", arguments)
}

/// RFC 791 §3.2: classes A, B and C; none of D and E.
fn class_bits(address: Ipv4Addr) -> Option<u8> {
    match address.octets()[0] {
        _ if address.is_unspecified() => Some(0),
        0..=127 => Some(8),
        128..=191 => Some(16),
        192..=223 => Some(24),
        _ => None,
    }
}

/// `struct ifconf { int ifc_len; struct ifreq *ifc_req; }`: the addresses of all interfaces.
fn configuration(memory: &impl Memory, at: u64, interfaces: &[InterfaceRow], addresses: &[Address]) -> Result<(), Errno> {
    let mut ifconf = [0; 16];
    memory.read(at, &mut ifconf)?;
    let word = |at: usize| ifconf.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
    // inet_gifconf: "if (len < size) break;" of an int that may be below zero, and is looked at only where there is a place to write to.
    let (room, pointer) = (usize::try_from(word(0) as i32).unwrap_or(0), word(8));
    let mut rows = Vec::new();
    for address in addresses {
        let (Some((value, _)), Some(interface)) = (v4(address), interfaces.iter().find(|interface| interface.index == address.interface.0))
        else {
            continue;
        };
        let mut ifreq = [0; IFREQ_BYTES];
        let label = address.label.text().unwrap_or(&interface.name);
        let length = label.len().min(NAME_BYTES - 1);
        ifreq[..length].copy_from_slice(&label.as_bytes()[..length]);
        write_v4(&mut ifreq[NAME_BYTES..], value);
        rows.extend(ifreq);
    }
    // "If ifc_req is NULL, SIOCGIFCONF returns the necessary buffer size in bytes".
    if pointer != 0 {
        rows.truncate(room / IFREQ_BYTES * IFREQ_BYTES);
        memory.write(pointer, &rows)?;
    }
    memory.write(at, &(rows.len() as u32).to_ne_bytes())
}

fn v4(address: &Address) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let IpAddr::V4(value) = address.address else { return None };
    let mask = u32::MAX.checked_shl(32 - u32::from(address.prefix_bits.min(32))).unwrap_or(0);
    Some((value, Ipv4Addr::from(mask)))
}

/// Writes a `struct sockaddr_in` with port 0.
fn write_v4(into: &mut [u8], address: Ipv4Addr) {
    into[..16].fill(0);
    into[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    into[4..8].copy_from_slice(&address.octets());
}

/// IFF_* of linux/if.h.
pub fn flags(interface: &InterfaceRow) -> u32 {
    let up = match (interface.up, interface.carrier) {
        (true, true) => libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_LOWER_UP,
        (true, false) => libc::IFF_UP,
        (false, _) => 0,
    };
    let kind = match interface.link {
        LinkType::Loopback => libc::IFF_LOOPBACK,
        LinkType::Ethernet => libc::IFF_BROADCAST | libc::IFF_MULTICAST,
        LinkType::Raw => libc::IFF_POINTOPOINT | libc::IFF_NOARP,
    };
    let kind = match interface.multicast {
        Some(true) => kind | libc::IFF_MULTICAST,
        Some(false) => kind & !libc::IFF_MULTICAST,
        None => kind,
    };
    (up | kind | interface.set_flags) as u32
}

/// ARPHRD_* of linux/if_arp.h.
pub fn hardware_type(link: LinkType) -> u16 {
    match link {
        LinkType::Loopback => libc::ARPHRD_LOOPBACK,
        LinkType::Ethernet => libc::ARPHRD_ETHER,
        LinkType::Raw => libc::ARPHRD_NONE,
    }
}
