//! Source addresses: RFC 6724 §5.

use super::addresses::{Addresses, is_link_local, is_usable, v6};
use std::net::Ipv6Addr;
use weft_core::InterfaceIndex;
use weft_core::table::AddressState;

/// RFC 6724 §3.1: the scope of an address, as the number that multicast addresses have for it. "The loopback address is treated as having
/// link-local scope" (§3.4).
const fn scope(ip: Ipv6Addr) -> u8 {
    if ip.is_multicast() {
        ip.octets()[1] & 0xf
    } else if is_link_local(ip) || ip.is_loopback() {
        2
    } else if ip.segments()[0] & 0xffc0 == 0xfec0 {
        5
    } else {
        14
    }
}

/// RFC 6724 §2.1: the default policy table's labels; the longest prefix counts.
const LABELS: [(Ipv6Addr, u8, u8); 9] = [
    (Ipv6Addr::LOCALHOST, 128, 0),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 4),
    (Ipv6Addr::UNSPECIFIED, 96, 3),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 2),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 12),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 11),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 13),
    (Ipv6Addr::UNSPECIFIED, 0, 1),
];

fn label(ip: Ipv6Addr) -> u8 {
    let fits = |(prefix, bits, _): &&(Ipv6Addr, u8, u8)| super::addresses::same_prefix(*prefix, ip, *bits);
    LABELS.iter().find(fits).map_or(1, |(_, _, label)| *label)
}

impl Addresses {
    /// The source for packets to `destination` that leave through `interface`.
    ///
    /// Rule 4 (home addresses) and 7 (temporary addresses) have no use here, 5.5 (the prefix that the next hop advertised) is optional.
    pub(super) fn source_for(&self, interface: InterfaceIndex, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        // §4: "For all multicast and link-local destination addresses, the set of candidate source addresses MUST only include addresses
        // assigned to interfaces belonging to the same link as the outgoing interface."
        let only_here = destination.is_multicast() || is_link_local(destination);
        let wanted = scope(destination);
        let mut best = None;
        for address in self.iter().filter(|address| is_usable(address.state)) {
            let Some(ip) = v6(address) else { continue };
            let here = address.interface == interface;
            if (only_here && !here) || (ip.is_loopback() && !destination.is_loopback()) {
                continue;
            }
            let its = i32::from(scope(ip));
            // Rule 2: "Prefer appropriate scope": the smallest that is large enough, else the largest.
            let scope_rank = if its >= i32::from(wanted) { -its } else { its - 128 };
            let common = (ip.to_bits() ^ destination.to_bits()).leading_zeros().min(address.prefix_bits.into());
            let rank =
                (ip == destination, scope_rank, address.state != AddressState::Deprecated, here, label(ip) == label(destination), common);
            // ipv6_dev_get_saddr goes through the interfaces by number, and through the addresses of one from the newest on (ipv6_link_dev_addr); of equals the
            // first stays.
            let key = (rank, std::cmp::Reverse(address.interface));
            if best.is_none_or(|(before, _)| key >= before) {
                best = Some((key, ip));
            }
        }
        best.map(|(_, ip)| ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::KeyedHasher;
    use weft_core::table::Address;

    const ETH: InterfaceIndex = InterfaceIndex(2);

    fn node(rows: &[(u32, &str, AddressState)]) -> Addresses {
        let mut addresses = Addresses::new(KeyedHasher::default());
        for (interface, text, state) in rows {
            let (ip, bits) = text.split_once('/').unwrap();
            let plain = Address::permanent(InterfaceIndex(*interface), ip.parse().unwrap(), bits.parse().unwrap());
            assert_eq!(addresses.put(Address { state: *state, ..plain }), Ok(None));
        }
        addresses
    }

    #[test]
    fn of_equals_the_newest_address_of_the_first_interface_is_taken() {
        use AddressState::Preferred;
        let rows = [(3, "fd00:9::1/64"), (2, "fd00:1::1/64"), (2, "fd00:3::1/64"), (2, "fd00:2::1/64"), (3, "fd00:8::1/64")];
        let addresses = node(&rows.map(|(interface, text)| (interface, text, Preferred)));
        let source = |interface| addresses.source_for(InterfaceIndex(interface), "fd00:40::9".parse().unwrap()).unwrap().to_string();
        assert_eq!([2, 3, 4].map(source), ["fd00:2::1", "fd00:8::1", "fd00:2::1"]);
    }

    /// The examples of RFC 6724 §10.1, less those of rules 4 and 7 and with addresses of one interface.
    #[test]
    fn the_examples_of_rfc_6724() {
        use AddressState::{Deprecated, Preferred};
        for (destination, candidates, chosen) in [
            ("2001:db8:1::1", vec![("2001:db8:3::1/64", Preferred), ("fe80::1/64", Preferred)], "2001:db8:3::1"),
            ("ff05::1", vec![("2001:db8:3::1/64", Preferred), ("fe80::1/64", Preferred)], "2001:db8:3::1"),
            ("2001:db8:1::1", vec![("2001:db8:1::1/64", Deprecated), ("2001:db8:2::1/64", Preferred)], "2001:db8:1::1"),
            ("fe80::1", vec![("fe80::2/64", Deprecated), ("2001:db8:1::1/64", Preferred)], "fe80::2"),
            ("2001:db8:1::1", vec![("2001:db8:1::2/64", Preferred), ("2001:db8:3::2/64", Preferred)], "2001:db8:1::2"),
            (
                "2002:c633:6401::1",
                vec![("2002:c633:6401::d5e3:7953:13eb:22e8/64", Preferred), ("2001:db8:1::2/64", Preferred)],
                "2002:c633:6401::d5e3:7953:13eb:22e8",
            ),
            // Rule 3, and that it comes before the longest prefix.
            ("2001:db8:1::1", vec![("2001:db8:1::2/64", Deprecated), ("2001:db8:3::2/64", Preferred)], "2001:db8:3::2"),
            // Rule 6: a unique local destination takes a unique local source.
            ("fd77::1", vec![("2001:db8:1::2/64", Preferred), ("fdff::2/64", Preferred)], "fdff::2"),
            // Rule 8 looks no further than the source's prefix: of these the newest is taken.
            ("2001:db8::1:0:0:1", vec![("2001:db8::1:0:0:2/64", Preferred), ("2001:db8::7/64", Preferred)], "2001:db8::7"),
        ] {
            let rows: Vec<_> = candidates.iter().map(|(text, state)| (2, *text, *state)).collect();
            let found = node(&rows).source_for(ETH, destination.parse().unwrap());
            assert_eq!(found, Some(chosen.parse().unwrap()), "to {destination} from {candidates:?}");
        }
    }

    #[test]
    fn the_outgoing_interface_is_preferred_and_tentative_addresses_are_none() {
        use AddressState::{Preferred, Tentative};
        let addresses = node(&[(3, "2001:db8:1::3/64", Preferred), (2, "2001:db8:9::2/64", Preferred), (3, "fe80::3/64", Preferred)]);
        let to = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        assert_eq!(addresses.source_for(ETH, to("2001:db8:1::1")), Some(to("2001:db8:9::2")));
        assert_eq!(addresses.source_for(InterfaceIndex(4), to("2001:db8:1::1")), Some(to("2001:db8:1::3")), "of another interface");
        assert_eq!(addresses.source_for(InterfaceIndex(4), to("fe80::9")), None, "but not for its link");
        assert_eq!(addresses.source_for(ETH, to("fe80::9")), Some(to("2001:db8:9::2")), "the scope is too large, but it is of this link");
        let addresses = node(&[(2, "2001:db8:9::2/64", Tentative)]);
        assert_eq!(addresses.source_for(ETH, to("2001:db8:9::1")), None);
        assert_eq!(addresses.source_for(InterfaceIndex::LOOPBACK, Ipv6Addr::LOCALHOST), Some(Ipv6Addr::LOCALHOST));
    }
}
