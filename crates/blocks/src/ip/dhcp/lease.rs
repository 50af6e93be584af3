//! What a server grants: read from its message with nothing taken on trust, and what of it becomes routes.

use super::message::Received;
use std::net::Ipv4Addr;
use weft_core::table::{Address, AddressState, Route, SCOPE_LINK};
use weft_core::*;
use weft_wire::dhcp::{self, code};

/// RTPROT_DHCP.
pub(super) const PROTOCOL_DHCP: u8 = 16;
/// As dhcpcd(8) has it: with the interface's number added, so that each of several interfaces has its own way out.
const METRIC: u32 = 1000;
/// Most routes of one lease.
const ROUTES_MAX: usize = 32;
/// Most name servers of one lease.
const NAME_SERVERS_MAX: usize = 8;
/// RFC 1035 §2.3.4: "names 255 octets or less"; as text two bytes less.
const DOMAIN_BYTES_MAX: usize = 253;
/// Below it the interface would have no IPv6 any more (RFC 8200 §5), by the word of whoever answers first. Debian's dhclient takes 577 and more, and dhcpcd and
/// systemd-networkd none unless they are told to.
const MTU_MIN: u16 = 1280;
/// The longest value of an option that is read: as much as one datagram of Ethernet holds.
const VALUE_BYTES_MAX: usize = 1500;
/// RFC 2131 §3.3: "The value 0xffffffff is reserved to represent 'infinity'."
const FOR_EVER: u32 = u32::MAX;

/// A route of option 121.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeasedRoute {
    destination: Ipv4Addr,
    prefix_bits: u8,
    /// None: on the link.
    router: Option<Ipv4Addr>,
}

/// What a server grants, and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Lease {
    pub address: Ipv4Addr,
    pub prefix_bits: u8,
    pub broadcast: Option<Ipv4Addr>,
    pub server: Ipv4Addr,
    /// T1, when the server is asked for more time.
    pub renew_at: Option<Instant>,
    /// T2, when every server is.
    pub rebind_at: Option<Instant>,
    /// None: for ever.
    pub until: Option<Instant>,
    /// Empty: the lease leads nowhere but to its network.
    pub routes: Vec<LeasedRoute>,
    pub name_servers: Vec<Ipv4Addr>,
    /// Empty: none was told.
    pub domain: String,
    pub mtu: Option<u16>,
}

weft_core::fields!(struct LeasedRoute { destination, prefix_bits, router });
weft_core::fields!(struct Lease {
    address, prefix_bits, broadcast, server, renew_at, rebind_at, until, routes, name_servers, domain, mtu
});

/// Can one host have this address, and be reached at it?
pub(super) fn is_hosts(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first < 224 && !address.is_loopback()
}

impl Lease {
    /// What an offer or an acknowledgement grants, counted from `asked`. None: it grants nothing that a host could use.
    pub(super) fn read(received: &Received<'_>, asked: Instant) -> Option<Lease> {
        let options = &received.options;
        let (address, server) = (received.header.yours, received.server?);
        let prefix_bits = match options.fixed::<4>(code::SUBNET_MASK).map(u32::from_be_bytes) {
            Some(mask) if mask != 0 => bits_of(mask)?,
            // A server that tells no mask means the class of the address, as systemd and dhclient take it.
            _ => class_bits(address),
        };
        if !is_hosts(address) || !is_hosts(server) || is_no_hosts_of(address, prefix_bits) {
            return None;
        }
        // RFC 2131 table 3: an offer and an acknowledgement MUST have one. Zero would be over before it began.
        let seconds = options.fixed(code::LEASE_TIME).map(u32::from_be_bytes).filter(|seconds| *seconds > 0)?;
        let told = |code: u8| options.fixed(code).map(u32::from_be_bytes);
        let (renew_at, rebind_at, until) = times(asked, seconds, told(code::RENEWAL_TIME), told(code::REBINDING_TIME));
        let mut lease = Lease {
            address,
            prefix_bits,
            broadcast: options
                .fixed::<4>(code::BROADCAST_ADDRESS)
                .map(Ipv4Addr::from)
                .filter(|told| same_network(*told, address, prefix_bits)),
            server,
            renew_at,
            rebind_at,
            until,
            routes: Vec::new(),
            name_servers: Vec::new(),
            domain: String::new(),
            mtu: options.fixed(code::INTERFACE_MTU).map(u16::from_be_bytes).filter(|mtu| *mtu >= MTU_MIN),
        };
        let mut buffer = [0; VALUE_BYTES_MAX];
        lease.routes = lease.read_routes(received, &mut buffer);
        if let Ok(Some(value)) = options.value(code::NAME_SERVERS, &mut buffer)
            && let Ok(servers) = dhcp::addresses(value)
        {
            lease.name_servers = servers.filter(|server| is_hosts(*server)).take(NAME_SERVERS_MAX).collect();
        }
        if let Ok(Some(value)) = options.value(code::DOMAIN_NAME, &mut buffer) {
            lease.domain = domain(value).unwrap_or_default();
        }
        Some(lease)
    }

    fn read_routes(&self, received: &Received<'_>, buffer: &mut [u8]) -> Vec<LeasedRoute> {
        let usable = |router: Ipv4Addr| is_hosts(router) && router != self.address;
        if let Ok(Some(value)) = received.options.value(code::CLASSLESS_ROUTES, buffer) {
            // RFC 3442: "If the DHCP server returns both a Classless Static Routes option and a Router option, the DHCP client MUST ignore the
            // Router option."
            let read = dhcp::routes(value).map_while(Result::ok).filter(|route| route.router.is_unspecified() || usable(route.router));
            let sound = read.filter(|route| route.prefix_bits == 0 || is_hosts(route.destination));
            let route = |route: dhcp::Route| LeasedRoute {
                destination: route.destination,
                prefix_bits: route.prefix_bits,
                router: Some(route.router).filter(|router| !router.is_unspecified()),
            };
            return sound.map(route).take(ROUTES_MAX).collect();
        }
        let Ok(Some(value)) = received.options.value(code::ROUTERS, buffer) else { return Vec::new() };
        // RFC 2132 §3.5: "Routers SHOULD be listed in order of preference."
        let first = dhcp::addresses(value).ok().and_then(|mut routers| routers.find(|router| usable(*router)));
        let default = |router| LeasedRoute { destination: Ipv4Addr::UNSPECIFIED, prefix_bits: 0, router: Some(router) };
        first.map(default).into_iter().collect()
    }

    /// The router of the default route.
    pub(super) fn router(&self) -> Option<Ipv4Addr> {
        self.routes.iter().find(|route| route.prefix_bits == 0).and_then(|route| route.router)
    }

    /// As an address of the interface.
    pub(super) fn address_on(&self, interface: InterfaceIndex) -> Address {
        Address {
            state: AddressState::Preferred,
            dynamic: true,
            preferred_until: self.until,
            valid_until: self.until,
            broadcast: self.broadcast.or_else(|| broadcast_of(self.address, self.prefix_bits)),
            ..Address::permanent(interface, self.address.into(), self.prefix_bits)
        }
    }

    /// Its routes through the interface.
    pub(super) fn routes_on(&self, interface: InterfaceIndex) -> impl Iterator<Item = Route> {
        let of = move |route: &LeasedRoute| Route {
            destination: route.destination.into(),
            prefix_bits: route.prefix_bits,
            gateway: route.router.map(Into::into),
            interface,
            source: Some(self.address.into()),
            metric: METRIC.saturating_add(interface.0),
            protocol: PROTOCOL_DHCP,
            scope: if route.router.is_none() { SCOPE_LINK } else { 0 },
            // Clouds give single addresses, and a router beside their network.
            onlink: route.router.is_some_and(|router| !same_network(router, self.address, self.prefix_bits)),
            ..Route::PLAIN
        };
        self.routes.iter().map(of)
    }

    /// Can a server have granted this?
    pub(super) fn is_sound(&self) -> bool {
        let hosts = is_hosts(self.address) && is_hosts(self.server) && self.name_servers.iter().all(|server| is_hosts(*server));
        let few = self.routes.len() <= ROUTES_MAX && self.name_servers.len() <= NAME_SERVERS_MAX;
        let bits = self.prefix_bits <= 32 && self.routes.iter().all(|route| route.prefix_bits <= 32);
        let domain = self.domain.is_empty() || domain(self.domain.as_bytes()).is_some_and(|read| read == self.domain);
        hosts && few && bits && domain && self.mtu.is_none_or(|mtu| mtu >= MTU_MIN)
    }

    /// A row for people.
    pub(super) fn row(&self, now: Instant) -> Value {
        let text = |addresses: &[Ipv4Addr]| addresses.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>();
        serde_json::json!({
            "address": format!("{}/{}", self.address, self.prefix_bits),
            "server": self.server.to_string(),
            "router": self.router().map(|router| router.to_string()),
            "name_servers": text(&self.name_servers),
            "domain": Some(&self.domain).filter(|domain| !domain.is_empty()),
            "seconds": self.until.map(|until| until.since(now).as_secs()),
        })
    }
}

/// T1, T2 and the end. RFC 2131 §4.4.5: "T1 defaults to (0.5 * duration_of_lease). T2 defaults to (0.875 * duration_of_lease)." What a server tells must
/// lie in this order; else neither counts, as in dhclient.
fn times(
    asked: Instant,
    seconds: u32,
    renewal: Option<u32>,
    rebinding: Option<u32>,
) -> (Option<Instant>, Option<Instant>, Option<Instant>) {
    if seconds == FOR_EVER {
        return (None, None, None);
    }
    let lease = Duration::from_secs(u64::from(seconds));
    let rebind = rebinding.filter(|told| *told < seconds).map_or(lease.mul_f64(0.875), |told| Duration::from_secs(u64::from(told)));
    let renew = renewal.map(|told| Duration::from_secs(u64::from(told))).filter(|told| !told.is_zero() && *told < rebind);
    let (renew, rebind) = match renew {
        Some(renew) => (renew, rebind),
        None if lease / 2 < rebind => (lease / 2, rebind),
        None => (lease / 2, lease.mul_f64(0.875)),
    };
    (Some(asked + renew), Some(asked + rebind), Some(asked + lease))
}

/// How many bits a mask has. None: they do not stand together.
fn bits_of(mask: u32) -> Option<u8> {
    let bits = mask.leading_ones();
    (mask.count_ones() == bits).then_some(bits as u8)
}

/// RFC 791 §2.3: classes A, B and C.
const fn class_bits(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    }
}

fn mask(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

fn same_network(a: Ipv4Addr, b: Ipv4Addr, bits: u8) -> bool {
    (a.to_bits() ^ b.to_bits()) & mask(bits) == 0
}

/// None where there is none: RFC 3021, and single addresses.
fn broadcast_of(address: Ipv4Addr, bits: u8) -> Option<Ipv4Addr> {
    (bits < 31).then(|| Ipv4Addr::from_bits(address.to_bits() | !mask(bits)))
}

/// Is it the network's own address, or the one of all its hosts?
fn is_no_hosts_of(address: Ipv4Addr, bits: u8) -> bool {
    let host = address.to_bits() & !mask(bits);
    bits < 31 && (host == 0 || host == !mask(bits))
}

/// The text of a domain: it goes into files that programs read, so that nothing may stand in it but what names are made of.
fn domain(value: &[u8]) -> Option<String> {
    // Some servers count the zero that ends the text in C.
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    let text = std::str::from_utf8(value).ok()?.trim_end_matches('.');
    let label = |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    (text.len() <= DOMAIN_BYTES_MAX && text.split('.').all(label)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_classes() {
        assert_eq!([0xffff_ff00, 0xffff_ffff, 0xff00_ff00].map(bits_of), [Some(24), Some(32), None]);
        assert_eq!(["10.0.0.1", "172.16.0.1", "192.168.0.1"].map(|text| class_bits(text.parse().unwrap())), [8, 16, 24]);
        let none = |text: &str, bits| is_no_hosts_of(text.parse().unwrap(), bits);
        assert!(
            none("10.0.0.0", 24) && none("10.0.0.255", 24) && !none("10.0.0.255", 16) && !none("10.0.0.0", 31) && !none("10.0.0.0", 32)
        );
    }

    #[test]
    fn times_lie_in_order_or_are_the_usual_ones() {
        let of = |seconds, renewal, rebinding| {
            let (renew, rebind, until) = times(Instant::ZERO, seconds, renewal, rebinding);
            [renew, rebind, until].map(|at| at.map(|at| at.as_millis() / 1000))
        };
        let usual = [Some(500), Some(875), Some(1000)];
        assert_eq!(of(1000, None, None), usual);
        assert_eq!(of(1000, Some(100), Some(200)), [Some(100), Some(200), Some(1000)]);
        assert_eq!(of(1000, Some(0), Some(1000)), usual);
        assert_eq!(of(1000, Some(900), None), usual);
        assert_eq!(of(1000, Some(600), Some(400)), usual, "an end before the half of the lease");
        assert_eq!(of(1000, Some(900), Some(950)), [Some(900), Some(950), Some(1000)]);
        assert_eq!(of(FOR_EVER, Some(5), Some(6)), [None; 3]);
    }

    #[test]
    fn domains_hold_nothing_but_names() {
        let read = |text: &str| domain(text.as_bytes());
        assert_eq!(read("lab.example."), Some("lab.example".to_owned()));
        assert_eq!(read("lab.example\0"), Some("lab.example".to_owned()));
        for bad in ["", ".", "a b", "a\nnameserver 6.6.6.6", "a..b", "ä.example", &"a.".repeat(200)] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
