//! Who holds which local port: bind conflicts, ephemeral ports, and the four-tuples of connections.
//!
//! One [`Ports`] per transport protocol. A *holder* is a socket or, once its program has let go of it, the flow that lives on (FIN-WAIT,
//! TIME-WAIT). The rules are those of `inet_csk_get_port`, `inet_bind_conflict` and `__inet_hash_connect` (TCP) and `udp_lib_get_port` (UDP).

use crate::errno::Errno;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Instant, Rng};

/// First ephemeral port (net.ipv4.ip_local_port_range).
pub const EPHEMERAL_FIRST: u16 = 32768;
/// Last ephemeral port.
pub const EPHEMERAL_LAST: u16 = 60999;

/// Where a port is sought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub first: u16,
    pub last: u16,
    /// IP_LOCAL_PORT_RANGE says so: connect(2) makes no difference between even and odd ports.
    pub own: bool,
}

/// Which connections in TIME-WAIT connect(2) may take over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reuse {
    /// net.ipv4.tcp_tw_reuse: 0: none, 1: all, 2: those between loopback addresses.
    pub whose: u8,
    /// net.ipv4.tcp_tw_reuse_delay: how old they must be.
    pub delay: Duration,
}

/// One hold on a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) struct HoldId(pub u64);

/// How a holder got its port, which decides whom it lets in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// By bind(2), or a bind implied by listen(2) or sendto(2).
    Bind,
    /// By connect(2), which shares ports between different destinations.
    Connect,
}
weft_core::fields!(
    enum How {
        Bind = 0,
        Connect = 1,
    }
);

/// What others have to know about a holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold {
    /// Bound address; unspecified: all.
    pub address: IpAddr,
    /// `ipv6_only_sock`: `::` leaves IPv4 to others.
    pub v6_only: bool,
    /// The user who may share the port with SO_REUSEPORT.
    pub owner: u32,
    /// Bound interface; 0: all.
    pub interface: u32,
    pub reuse_address: bool,
    pub reuse_port: bool,
    /// A listening socket (TCP).
    pub listening: bool,
    /// The peer, for connections (TCP).
    pub remote: Option<SocketAddr>,
    pub how: How,
    /// Only TIME-WAIT is left of the connection, since then.
    pub time_wait: Option<Instant>,
}
weft_core::fields!(struct Hold { address, v6_only, owner, interface, reuse_address, reuse_port, listening, remote, how, time_wait });

/// The rules differ between the transports in what SO_REUSEADDR lets through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rules {
    /// SO_REUSEADDR does not get past a listener.
    Stream,
    /// SO_REUSEADDR on both sides suffices.
    Datagram,
}
weft_core::fields!(
    enum Rules {
        Stream = 0,
        Datagram = 1,
    }
);

/// The local ports of one transport.
#[derive(Debug)]
pub(crate) struct Ports {
    rules: Rules,
    ports: BTreeMap<u16, BTreeMap<HoldId, Hold>>,
    where_held: BTreeMap<HoldId, u16>,
    next: u64,
}

impl Field for HoldId {
    fn write(&self, out: &mut Writer) {
        out.number(self.0);
    }
    fn read(from: &mut Reader<'_>) -> Result<HoldId, Damage> {
        from.number().map(HoldId)
    }
}

/// The holders; where each is held follows from them.
impl Field for Ports {
    fn write(&self, out: &mut Writer) {
        let Ports { rules, ports, where_held: _, next } = self;
        out.put(rules);
        out.put(ports);
        out.put(next);
    }
    fn read(from: &mut Reader<'_>) -> Result<Ports, Damage> {
        let (rules, ports, next): (Rules, BTreeMap<u16, BTreeMap<HoldId, Hold>>, u64) = (from.take()?, from.take()?, from.take()?);
        let mut where_held = BTreeMap::new();
        for (port, holders) in &ports {
            for id in holders.keys() {
                if id.0 >= next || where_held.insert(*id, *port).is_some() {
                    return Err(Damage::new("a port is held twice under one number"));
                }
            }
        }
        Ok(Ports { rules, ports, where_held, next })
    }
}

/// `inet_rcv_saddr_equal` with wildcards, and the interfaces.
fn overlap(a: &Hold, b: &Hold) -> bool {
    let interfaces = a.interface == 0 || b.interface == 0 || a.interface == b.interface;
    let addresses = match (a.address, b.address) {
        // `::` takes the IPv4 addresses in unless it is told not to; another IPv6 address has nothing to do with them.
        (IpAddr::V4(_), IpAddr::V6(v6)) => v6.is_unspecified() && !b.v6_only,
        (IpAddr::V6(v6), IpAddr::V4(_)) => v6.is_unspecified() && !a.v6_only,
        (a, b) => a == b || a.is_unspecified() || b.is_unspecified(),
    };
    interfaces && addresses
}

impl Ports {
    pub(crate) fn new(rules: Rules) -> Ports {
        Ports { rules, ports: BTreeMap::new(), where_held: BTreeMap::new(), next: 1 }
    }

    /// Would `new` be in the way of `old`? `relax` is Linux's: false while an ephemeral port is sought for bind.
    fn conflicts(&self, new: &Hold, old: &Hold, relax: bool) -> bool {
        if !overlap(new, old) {
            return false;
        }
        // "sk2->sk_state == TCP_TIME_WAIT || uid_eq(uid, sk_uid(sk2))"
        let share_port = new.reuse_port && old.reuse_port && (new.owner == old.owner || old.time_wait.is_some());
        let share_address = new.reuse_address && old.reuse_address && (self.rules == Rules::Datagram || !old.listening);
        match self.rules {
            // inet_bind_conflict: "if (sk->sk_reuse && sk2->sk_reuse && sk2->sk_state != TCP_LISTEN) { if (!relax …) return true; }"
            Rules::Stream if share_address => !relax,
            Rules::Stream => !relax || !share_port,
            Rules::Datagram => !(share_address || share_port),
        }
    }

    fn free_for(&self, port: u16, new: &Hold, except: Option<HoldId>, relax: bool) -> bool {
        let Some(holders) = self.ports.get(&port) else { return true };
        !holders.iter().any(|(id, old)| Some(*id) != except && self.conflicts(new, old, relax))
    }

    /// May a holder's entry become `new` (listen on a bound port)?
    pub(crate) fn check(&self, id: HoldId, new: &Hold) -> Result<(), Errno> {
        match self.where_held.get(&id) {
            Some(port) if self.free_for(*port, new, Some(id), true) => Ok(()),
            _ => Err(Errno::EADDRINUSE),
        }
    }

    /// Takes exactly this port, or any ephemeral one for 0.
    pub(crate) fn bind(&mut self, port: u16, hold: Hold, range: Range, rng: &mut Rng) -> Result<(HoldId, u16), Errno> {
        // udp_lib_get_port's bitmap shuts out what bind to that port would; inet_csk_find_open_port knows no reuse.
        let free = |port: u16| self.free_for(port, &hold, None, false);
        let port = match self.rules {
            _ if port != 0 => self.free_for(port, &hold, None, true).then_some(port),
            Rules::Stream => pick_for_bind(range, hold.reuse_address, rng, free),
            Rules::Datagram => pick(range, rng, free),
        };
        let port = port.ok_or(Errno::EADDRINUSE)?;
        Ok((self.hold(port, hold), port))
    }

    /// An ephemeral port from which `hold` can connect to its `remote`: none that was bound, none with the same four-tuple.
    pub(crate) fn connect(&mut self, hold: Hold, range: Range, reuse: Reuse, now: Instant, rng: &mut Rng) -> Result<(HoldId, u16), Errno> {
        let free = |port: u16| {
            let Some(holders) = self.ports.get(&port) else { return true };
            holders.values().all(|old| old.how == How::Connect && (!same_connection(&hold, old) || reuse.allows(old, now)))
        };
        let port = pick_for_connect(range, rng, free).ok_or(Errno::EADDRNOTAVAIL)?;
        Ok((self.hold(port, hold), port))
    }

    /// Is the four-tuple of `hold` at `port` free, apart from holder `except`?
    pub(crate) fn connection_free(&self, port: u16, hold: &Hold, except: HoldId) -> bool {
        let Some(holders) = self.ports.get(&port) else { return true };
        // __inet_hash_connect checks a bound port without `twp`: tcp_twsk_unique then lets it take over a TIME-WAIT of any age.
        !holders.iter().any(|(id, old)| *id != except && old.time_wait.is_none() && same_connection(hold, old))
    }

    /// Adds a holder without asking (accepted connections share their listener's port).
    pub(crate) fn hold(&mut self, port: u16, hold: Hold) -> HoldId {
        let id = HoldId(self.next);
        self.next += 1;
        self.ports.entry(port).or_default().insert(id, hold);
        self.where_held.insert(id, port);
        id
    }

    /// Changes what others know of a holder.
    pub(crate) fn update(&mut self, id: HoldId, change: impl FnOnce(&mut Hold)) {
        let hold = self.where_held.get(&id).and_then(|port| self.ports.get_mut(port)).and_then(|holders| holders.get_mut(&id));
        if let Some(hold) = hold {
            change(hold);
        }
    }

    /// Gives the port up.
    pub(crate) fn release(&mut self, id: HoldId) {
        let Some(port) = self.where_held.remove(&id) else { return };
        if let Some(holders) = self.ports.get_mut(&port) {
            holders.remove(&id);
            if holders.is_empty() {
                self.ports.remove(&port);
            }
        }
    }

    /// How many holds there are.
    pub(crate) fn len(&self) -> usize {
        self.where_held.len()
    }
}

fn same_connection(a: &Hold, b: &Hold) -> bool {
    a.remote.is_some() && a.remote == b.remote && a.address == b.address
}

impl Reuse {
    /// tcp_twsk_unique.
    fn allows(self, old: &Hold, now: Instant) -> bool {
        let old_enough = old.time_wait.is_some_and(|since| now - since > self.delay);
        let inside = || old.address.is_loopback() || old.remote.is_some_and(|remote| remote.ip().is_loopback());
        old_enough && (self.whose == 1 || self.whose == 2 && inside())
    }
}

/// udp_lib_get_port: goes once around the range from a random start.
fn pick(range: Range, rng: &mut Rng, free: impl Fn(u16) -> bool) -> Option<u16> {
    let start = rng.below(range.size().into()) as u32;
    range.around(range.size(), start, 1).find(|port| free(*port))
}

/// `__inet_hash_connect`: the ports as even or odd as the first one, and then the others. What bind(2) chose is odd beside it: who connects
/// to a port that was bound a moment ago does not get that port, and no connection to itself.
fn pick_for_connect(range: Range, rng: &mut Rng, free: impl Fn(u16) -> bool) -> Option<u16> {
    let looked_at = range.looked_at();
    let start = rng.below(looked_at.into()) as u32;
    if range.own {
        return range.around(looked_at, start, 1).find(|port| free(*port));
    }
    let even = start & !1;
    range.around(looked_at, even, 2).chain(range.around(looked_at, even + 1, 2)).find(|port| free(*port))
}

/// inet_csk_find_open_port: the ports that `__inet_hash_connect` takes last come first. With SO_REUSEADDR first the lower half of the range.
fn pick_for_bind(range: Range, halves: bool, rng: &mut Rng, free: impl Fn(u16) -> bool) -> Option<u16> {
    let mut within = |range: Range| {
        let looked_at = range.looked_at();
        let odd = rng.below(looked_at.into()) as u32 | 1;
        range.around(looked_at, odd, 2).chain(range.around(looked_at, odd - 1, 2)).find(|port| free(*port))
    };
    if !halves || range.size() < 4 {
        return within(range);
    }
    let middle = range.first + (range.size() / 4 * 2) as u16;
    within(Range { last: middle - 1, ..range }).or_else(|| within(Range { first: middle, ..range }))
}

impl Range {
    fn size(self) -> u32 {
        u32::from(self.last.saturating_sub(self.first)) + 1
    }

    /// How many ports one search looks at: "if (likely(remaining > 1)) remaining &= ~1U;".
    fn looked_at(self) -> u32 {
        match self.size() {
            1 => 1,
            size => size & !1,
        }
    }

    /// Each `step`th port from that with number `start`, once around. `looked_at`: how far it goes back at the end of the range. Where that is
    /// one port less than there are, the first or the last one is left out.
    fn around(self, looked_at: u32, start: u32, step: u32) -> impl Iterator<Item = u16> {
        let back = move |at: u32| if at >= self.size() { at - looked_at } else { at };
        (0..looked_at.div_ceil(step)).map(move |taken| self.first + back(start + taken * step) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REUSE: Reuse = Reuse { whose: 2, delay: Duration::from_secs(1) };
    const RANGE: Range = Range { first: EPHEMERAL_FIRST, last: EPHEMERAL_LAST, own: false };
    const PLAIN: Hold = Hold {
        address: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        v6_only: false,
        owner: 0,
        interface: 0,
        reuse_address: false,
        reuse_port: false,
        listening: false,
        remote: None,
        how: How::Bind,
        time_wait: None,
    };

    fn at(address: &str) -> Hold {
        Hold { address: address.parse().unwrap(), ..PLAIN }
    }

    #[test]
    fn specific_addresses_may_share_a_port_and_the_wildcard_may_not() {
        let mut rng = Rng::for_name(1, "ports");
        let mut ports = Ports::new(Rules::Stream);
        ports.bind(80, at("127.0.0.1"), RANGE, &mut rng).unwrap();
        ports.bind(80, at("127.0.0.2"), RANGE, &mut rng).unwrap();
        assert_eq!(ports.bind(80, at("127.0.0.2"), RANGE, &mut rng), Err(Errno::EADDRINUSE));
        assert_eq!(ports.bind(80, PLAIN, RANGE, &mut rng), Err(Errno::EADDRINUSE));
    }

    #[test]
    fn reuse_address_passes_a_bound_socket_but_no_listener() {
        let mut rng = Rng::for_name(1, "ports");
        let mut ports = Ports::new(Rules::Stream);
        let reuse = Hold { reuse_address: true, ..PLAIN };
        let (first, _) = ports.bind(80, reuse, RANGE, &mut rng).unwrap();
        let (second, _) = ports.bind(80, reuse, RANGE, &mut rng).unwrap();
        ports.check(first, &Hold { listening: true, ..reuse }).unwrap();
        ports.update(first, |hold| hold.listening = true);
        assert_eq!(ports.check(second, &Hold { listening: true, ..reuse }), Err(Errno::EADDRINUSE));
        assert_eq!(ports.bind(80, reuse, RANGE, &mut rng), Err(Errno::EADDRINUSE));
        ports.release(first);
        ports.check(second, &Hold { listening: true, ..reuse }).unwrap();
    }

    #[test]
    fn connections_share_ports_until_the_four_tuples_run_out() {
        let mut rng = Rng::for_name(1, "ports");
        let mut ports = Ports::new(Rules::Stream);
        let to = |remote: &str| Hold { remote: remote.parse().ok(), how: How::Connect, ..at("10.0.0.1") };
        let range = Range { first: 40000, last: 40003, own: false };
        for _ in 0..4 {
            ports.connect(to("10.0.0.2:80"), range, REUSE, Instant::ZERO, &mut rng).unwrap();
        }
        assert_eq!(ports.connect(to("10.0.0.2:80"), range, REUSE, Instant::ZERO, &mut rng), Err(Errno::EADDRNOTAVAIL));
        let (other, port) = ports.connect(to("10.0.0.2:81"), range, REUSE, Instant::ZERO, &mut rng).unwrap();
        assert!((40000..=40003).contains(&port));
        assert_eq!(ports.bind(0, PLAIN, range, &mut rng), Err(Errno::EADDRINUSE));
        assert_eq!(ports.len(), 5);
        ports.release(other);
        assert_eq!(ports.len(), 4);
    }

    #[test]
    fn datagram_sockets_share_with_either_option() {
        let mut rng = Rng::for_name(1, "ports");
        let mut ports = Ports::new(Rules::Datagram);
        let reuse = Hold { reuse_address: true, ..PLAIN };
        let share = Hold { reuse_port: true, ..PLAIN };
        ports.bind(53, reuse, RANGE, &mut rng).unwrap();
        ports.bind(53, reuse, RANGE, &mut rng).unwrap();
        assert_eq!(ports.bind(53, share, RANGE, &mut rng), Err(Errno::EADDRINUSE));
        ports.bind(54, share, RANGE, &mut rng).unwrap();
        ports.bind(54, share, RANGE, &mut rng).unwrap();
        assert_eq!(ports.bind(54, PLAIN, RANGE, &mut rng), Err(Errno::EADDRINUSE));
    }

    #[test]
    fn time_wait_gives_way_to_a_bound_port_at_once_and_to_a_chosen_one_after_a_second() {
        let mut rng = Rng::for_name(1, "ports");
        let mut ports = Ports::new(Rules::Stream);
        let hold = Hold { remote: "127.0.0.1:80".parse().ok(), how: How::Connect, ..at("127.0.0.1") };
        let range = Range { first: 40000, last: 40000, own: false };
        let (old, port) = ports.connect(hold, range, REUSE, Instant::ZERO, &mut rng).unwrap();
        let other = HoldId(u64::MAX);
        assert!(!ports.connection_free(port, &hold, other));
        ports.update(old, |held| held.time_wait = Some(Instant::ZERO));
        assert!(ports.connection_free(port, &hold, other));
        assert_eq!(ports.connect(hold, range, REUSE, Instant::from_millis(1000), &mut rng), Err(Errno::EADDRNOTAVAIL));
        assert!(ports.connect(hold, range, REUSE, Instant::from_millis(1001), &mut rng).is_ok());
    }

    /// The ports that `count` calls took one after another.
    fn taken(count: u16, seed: u64, mut take: impl FnMut(&mut Ports, &mut Rng) -> Result<(HoldId, u16), Errno>) -> Vec<u16> {
        let (mut rng, mut ports) = (Rng::for_name(seed, "ports"), Ports::new(Rules::Stream));
        (0..count).map_while(|_| take(&mut ports, &mut rng).ok()).map(|(_, port)| port).collect()
    }

    fn sorted(mut of: Vec<u16>) -> Vec<u16> {
        of.sort_unstable();
        of
    }

    #[test]
    fn bind_takes_odd_ports_first_and_connect_even_ones() {
        let to = Hold { remote: "127.0.0.1:80".parse().ok(), how: How::Connect, ..at("127.0.0.1") };
        for seed in 0..20 {
            let range = Range { first: 40000, last: 40007, own: false };
            let bound = taken(9, seed, |ports, rng| ports.bind(0, PLAIN, range, rng));
            assert_eq!(sorted(bound[..4].to_vec()), [40001, 40003, 40005, 40007]);
            assert_eq!(sorted(bound[4..].to_vec()), [40000, 40002, 40004, 40006]);
            let connected = taken(9, seed, |ports, rng| ports.connect(to, range, REUSE, Instant::ZERO, rng));
            assert_eq!(sorted(connected[..4].to_vec()), [40000, 40002, 40004, 40006]);
            assert_eq!(sorted(connected[4..].to_vec()), [40001, 40003, 40005, 40007]);
            let own = Range { own: true, ..range };
            let every = taken(9, seed, |ports, rng| ports.connect(to, own, REUSE, Instant::ZERO, rng));
            assert_eq!(sorted(every), (40000..=40007).collect::<Vec<u16>>());
        }
    }

    #[test]
    fn bind_with_reuse_address_takes_the_lower_half_first() {
        let reuse = Hold { reuse_address: true, ..PLAIN };
        for seed in 0..20 {
            let range = Range { first: 40000, last: 40009, own: false };
            let bound = taken(10, seed, |ports, rng| ports.bind(0, reuse, range, rng));
            assert_eq!(sorted(bound[..2].to_vec()), [40001, 40003]);
            assert_eq!(sorted(bound[2..4].to_vec()), [40000, 40002]);
            assert_eq!(sorted(bound[4..7].to_vec()), [40005, 40007, 40009]);
            assert_eq!(sorted(bound[7..].to_vec()), [40004, 40006, 40008]);
        }
    }

    #[test]
    fn the_smallest_ranges_are_used() {
        for (last, wanted) in [(40000, vec![40000]), (40001, vec![40001, 40000])] {
            let range = Range { first: 40000, last, own: false };
            assert_eq!(taken(4, 1, |ports, rng| ports.bind(0, PLAIN, range, rng)), wanted);
            assert_eq!(taken(4, 1, |ports, rng| ports.bind(0, Hold { reuse_address: true, ..PLAIN }, range, rng)), wanted);
        }
    }

    #[test]
    fn of_an_odd_number_of_ports_one_search_leaves_one_out() {
        let range = Range { first: 40000, last: 40004, own: true };
        for start in 0..4 {
            let mut seen: Vec<u16> = range.around(range.looked_at(), start, 1).collect();
            assert_eq!(seen[0], 40000 + start as u16);
            seen.sort_unstable();
            assert_eq!(seen, if start == 0 { [40000, 40001, 40002, 40003] } else { [40001, 40002, 40003, 40004] });
        }
    }
}
