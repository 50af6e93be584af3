//! Keeps the kernel's own stack from answering for addresses that belong to the node.
//!
//! A packet socket is given a copy: the kernel goes on with the frame itself. Where it has the same address it resets connections and
//! reports ports unreachable, where it answers ARP it draws traffic to itself, and where it forwards it sends packets a second time. The guard is
//! a netdev table with one chain at the interface's ingress, behind the packet sockets and before everything else: what is for the
//! node's addresses ends there, IPv4 and IPv6, ARP and neighbour solicitations included.
//!
//! The table belongs to a netlink socket of this process ([`crate::nft`]): it is gone with the process, also after `kill -9`. No other table is
//! touched, nor can another program change this one.
//!
//! It refuses to touch what the kernel sends by itself, and broadcasts and groups, which are for both stacks.

use crate::error::OpenError;
use crate::nft::{self, Batch, Hook, Meta, NFPROTO_NETDEV, Owner};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use weft_wire::ethernet::EtherType;

/// Addresses that one guard keeps; a node with more is not guarded for the rest, which [`Guard::set`] reports.
pub const ADDRESSES_MAX: usize = 256;

const CHAIN: &str = "ingress";
const NF_NETDEV_INGRESS: u32 = 0;
/// Before any other ingress chain: nobody need see frames that are not the kernel's.
const PRIORITY: i32 = -500;

const IPV4_DESTINATION_AT: u32 = 16;
const ARP_TARGET_AT: u32 = 24;
const IPV6_NEXT_HEADER_AT: u32 = 6;
const IPV6_DESTINATION_AT: u32 = 24;
const IPV6_HEADER_BYTES: u32 = 40;
const ND_TARGET_AT: u32 = IPV6_HEADER_BYTES + 8;
const ICMPV6: u8 = 58;
const NEIGHBOUR_SOLICITATION: u8 = 135;

/// A guard on one interface. Gone when dropped.
#[derive(Debug)]
pub struct Guard {
    owner: Owner,
    interface: String,
    table: String,
    addresses: BTreeSet<IpAddr>,
}

impl Guard {
    /// Sets a guard on the interface `name` of this network namespace, for no address yet.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, there is no such interface, or the kernel has no nftables.
    pub fn new(name: &str) -> Result<Guard, OpenError> {
        let failed = |error| OpenError::from_io(name, format!("guarding interface {name:?} (nftables)"), error);
        // Linux 6.16 and later take a chain for an interface that may come one day.
        nix::net::if_::if_nametoindex(name).map_err(|error| failed(error.into()))?;
        let owner = Owner::open().map_err(failed)?;
        let table = format!("weft-guard-{}", owner.number());
        let mut batch = Batch::new(NFPROTO_NETDEV, &table);
        batch.add_table();
        batch.add_chain(CHAIN, &Hook { kind: "filter", number: NF_NETDEV_INGRESS, priority: PRIORITY, device: Some(name) });
        owner.commit(batch).map_err(failed)?;
        Ok(Guard { owner, interface: name.to_owned(), table, addresses: BTreeSet::new() })
    }

    /// The interface that it stands on.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The addresses that it keeps.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.iter().copied()
    }

    /// Guards these addresses and no others, from one packet to the next. Groups, broadcasts and loopback addresses are left out. True: all of
    /// them are kept; false: there were more than [`ADDRESSES_MAX`], of which the first are.
    ///
    /// # Errors
    /// The kernel refuses; the guard is then as it was.
    pub fn set(&mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Result<bool, OpenError> {
        let own = |address: &IpAddr| !address.is_multicast() && !address.is_unspecified() && !address.is_loopback();
        let (mut wanted, mut all) = (BTreeSet::new(), true);
        for address in addresses.into_iter().filter(own) {
            if wanted.len() < ADDRESSES_MAX || wanted.contains(&address) {
                wanted.insert(address);
            } else {
                all = false;
            }
        }
        if wanted == self.addresses {
            return Ok(all);
        }
        let mut batch = Batch::new(NFPROTO_NETDEV, &self.table);
        batch.flush(CHAIN);
        for address in &wanted {
            match address {
                IpAddr::V4(address) => {
                    for (ether_type, at) in [(EtherType::IPV4, IPV4_DESTINATION_AT), (EtherType::ARP, ARP_TARGET_AT)] {
                        batch.add_rule(
                            CHAIN,
                            vec![
                                nft::meta(Meta::Protocol),
                                nft::is(&ether_type.0.to_be_bytes()),
                                nft::network_bytes(at, 4),
                                nft::is(&address.octets()),
                                nft::drop_it(),
                            ],
                        );
                    }
                }
                IpAddr::V6(address) => add_v6(&mut batch, *address),
            }
        }
        let failed = |error| OpenError::from_io(&self.interface, "changing what the guard keeps (nftables)", error);
        self.owner.commit(batch).map_err(failed)?;
        self.addresses = wanted;
        Ok(all)
    }
}

fn add_v6(batch: &mut Batch<'_>, address: Ipv6Addr) {
    let ipv6 = || [nft::meta(Meta::Protocol), nft::is(&EtherType::IPV6.0.to_be_bytes())];
    let to_it = [nft::network_bytes(IPV6_DESTINATION_AT, 16), nft::is(&address.octets()), nft::drop_it()];
    batch.add_rule(CHAIN, ipv6().into_iter().chain(to_it).collect());
    // Who has it? Asked of a group.
    let solicitation = [
        nft::network_bytes(IPV6_NEXT_HEADER_AT, 1),
        nft::is(&[ICMPV6]),
        nft::network_bytes(IPV6_HEADER_BYTES, 1),
        nft::is(&[NEIGHBOUR_SOLICITATION]),
        nft::network_bytes(ND_TARGET_AT, 16),
        nft::is(&address.octets()),
        nft::drop_it(),
    ];
    batch.add_rule(CHAIN, ipv6().into_iter().chain(solicitation).collect());
}
