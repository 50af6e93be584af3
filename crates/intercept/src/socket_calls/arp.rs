//! SIOCGARP, SIOCSARP, SIOCDARP (`arp_ioctl` of net/ipv4/arp.c): entries of the node's neighbours of IPv4, as arp(8) and DHCP servers ask for them.
//! They come to what `ip neighbour` does. Nobody answers for other hosts here (ATF_PUBL).

use super::procedure::told;
use crate::face::Stack;
use crate::memory::Memory;
use crate::sys::Errno;
use crate::tables;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::table::{Family, LinkType, Traffic};
use weft_core::{Answer, InterfaceIndex, Query, Table};

pub(super) const SIOCDARP: u32 = 0x8953;
pub(super) const SIOCGARP: u32 = 0x8954;
pub(super) const SIOCSARP: u32 = 0x8955;

/// `struct arpreq`: the address, its link-layer address, flags, a mask, and the name of the interface.
const ARPREQ_BYTES: usize = 68;
const HARDWARE_AT: usize = 16;
const FLAGS_AT: usize = 32;
const MASK_AT: usize = 36;
const DEVICE_AT: usize = 52;
const ATF_COM: i32 = 0x02;
const ATF_PERM: i32 = 0x04;
const ATF_PUBL: i32 = 0x08;
const ATF_NETMASK: i32 = 0x20;
const ATF_DONTPUB: i32 = 0x40;

fn field<const N: usize>(bytes: &[u8; ARPREQ_BYTES], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// `manages`: may it change entries?
pub(super) fn answer(memory: &impl Memory, stack: &mut dyn Stack, request: u32, pointer: u64, manages: bool) -> Result<(), Errno> {
    if request != SIOCGARP && !manages {
        return Err(Errno(libc::EPERM));
    }
    let mut arpreq = [0; ARPREQ_BYTES];
    memory.read(pointer, &mut arpreq)?;
    let family = |at: usize| i32::from(u16::from_ne_bytes(field(&arpreq, at)));
    if family(0) != libc::AF_INET {
        return Err(Errno(libc::EPFNOSUPPORT));
    }
    let flags = i32::from_ne_bytes(field(&arpreq, FLAGS_AT));
    // "if (!(r.arp_flags & ATF_PUBL) && (r.arp_flags & (ATF_NETMASK | ATF_DONTPUB))) return -EINVAL;"
    if flags & ATF_PUBL == 0 && flags & (ATF_NETMASK | ATF_DONTPUB) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let address = Ipv4Addr::from(field::<4>(&arpreq, 4));
    let name = field::<15>(&arpreq, DEVICE_AT);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let interfaces = tables::interfaces(stack);
    let device = match name {
        [] => match stack.ask(Table::Routes(Family::V4), &route_to(address)) {
            Answer::Route(route) => interfaces.iter().find(|one| InterfaceIndex(one.index) == route.interface),
            // "struct rtable *rt = ip_route_output(…); if (IS_ERR(rt)) return PTR_ERR(rt);"
            _ => return Err(Errno(libc::ENETUNREACH)),
        },
        name => interfaces.iter().find(|one| one.name.as_bytes() == name),
    };
    let device = device.ok_or(Errno(libc::ENODEV))?;
    let hardware = if device.link == LinkType::Loopback { libc::ARPHRD_LOOPBACK } else { libc::ARPHRD_ETHER };
    let target = json!({"interface": device.index, "address": address.to_string()});
    match request {
        // "if (!r.arp_ha.sa_family) r.arp_ha.sa_family = dev->type; err = -EINVAL; if ((r.arp_flags & ATF_COM) && r.arp_ha.sa_family != dev->type) goto out;"
        _ if !matches!(family(HARDWARE_AT), 0) && flags & ATF_COM != 0 && family(HARDWARE_AT) != i32::from(hardware) => {
            Err(Errno(libc::EINVAL))
        }
        _ if flags & ATF_PUBL != 0 && request != SIOCGARP => Err(Errno(libc::EOPNOTSUPP)),
        SIOCSARP => {
            let permanent = flags & ATF_PERM != 0;
            let mut entry = target;
            entry["state"] = if permanent { "PERMANENT" } else { "STALE" }.into();
            // "if (r->arp_flags & ATF_PERM) r->arp_flags |= ATF_COM; … (r->arp_flags & ATF_COM) ? r->arp_ha.sa_data : NULL"
            if permanent || flags & ATF_COM != 0 {
                let mac: [u8; 6] = field(&arpreq, HARDWARE_AT + 2);
                entry["mac"] = mac.map(|byte| format!("{byte:02x}")).join(":").into();
            } else {
                // Without an address there is an entry that nothing is known of yet: the first packet asks.
                return Ok(());
            }
            told(stack, "arp", "add", entry)
        }
        SIOCDARP => {
            let known = neighbour(stack, device.index, address).is_some();
            // "struct neighbour *neigh = neigh_lookup(&arp_tbl, &ip, dev); int err = -ENXIO;"
            if known { told(stack, "arp", "delete", target) } else { Err(Errno(libc::ENXIO)) }
        }
        _ => {
            let row = neighbour(stack, device.index, address).ok_or(Errno(libc::ENXIO))?;
            let mut out = arpreq;
            // "if (!(READ_ONCE(neigh->nud_state) & NUD_NOARP)) { memcpy(r->arp_ha.sa_data, neigh->ha, dev->addr_len); r->arp_flags = arp_state_to_flags(neigh);"
            out[HARDWARE_AT..HARDWARE_AT + 2].copy_from_slice(&hardware.to_ne_bytes());
            out[HARDWARE_AT + 2..HARDWARE_AT + 8].copy_from_slice(&row.mac.unwrap_or_default());
            let told = match row.state.as_str() {
                "PERMANENT" => ATF_PERM | ATF_COM,
                "REACHABLE" | "STALE" | "DELAY" | "PROBE" => ATF_COM,
                _ => 0,
            };
            out[FLAGS_AT..MASK_AT].copy_from_slice(&told.to_ne_bytes());
            let name = device.name.as_bytes();
            let length = name.len().min(15);
            out[DEVICE_AT..].fill(0);
            out[DEVICE_AT..DEVICE_AT + length].copy_from_slice(&name[..length]);
            memory.write(pointer, &out)
        }
    }
}

fn route_to(address: Ipv4Addr) -> Query {
    Query::Route { destination: address.into(), source: None, interface: None, traffic: Traffic::default() }
}

fn neighbour(stack: &mut dyn Stack, interface: u32, address: Ipv4Addr) -> Option<tables::NeighbourRow> {
    tables::neighbours(stack, Family::V4).into_iter().find(|row| row.interface == interface && row.address == IpAddr::V4(address))
}
