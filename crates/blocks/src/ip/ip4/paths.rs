//! What routers told of single destinations: path MTUs (RFC 1191) and better first hops (redirects). Bounded, and forgotten after a while, as Linux's
//! "next hop exceptions" (net/ipv4/route.c).

use super::*;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::table::{AddressKind, RouteKind, Traffic};

/// Destinations of which something is remembered, of each kind; the one that would be forgotten first makes room.
pub const PATHS_MAX: usize = 4096;

/// Something learned of destinations, each until its time.
#[derive(Debug)]
struct Learned<T> {
    entries: Map<Ipv4Addr, (T, Instant)>,
    expiries: BTreeSet<(Instant, Ipv4Addr)>,
}

impl<T: Copy> Learned<T> {
    fn new(hasher: KeyedHasher) -> Learned<T> {
        Learned { entries: Map::with_hasher(hasher), expiries: BTreeSet::new() }
    }

    #[inline]
    fn get(&self, destination: Ipv4Addr) -> Option<T> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.get(&destination).map(|(value, _)| *value)
    }

    /// True: another entry had to go for it.
    fn put(&mut self, destination: Ipv4Addr, value: T, expires: Instant) -> bool {
        if let Some((_, old)) = self.entries.insert(destination, (value, expires)) {
            self.expiries.remove(&(old, destination));
        }
        let evicts = self.entries.len() > PATHS_MAX;
        if evicts && let Some((_, first)) = self.expiries.pop_first() {
            self.entries.swap_remove(&first);
        }
        self.expiries.insert((expires, destination));
        evicts
    }

    /// Forgets what is due. True: something was.
    fn expire(&mut self, now: Instant) -> bool {
        let before = self.entries.len();
        while let Some((_, destination)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            self.expiries.pop_first();
            self.entries.swap_remove(&destination);
        }
        self.entries.len() != before
    }

    fn next(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.expiries.clear();
    }
}

impl<T: Copy + Field> Learned<T> {
    fn write(&self, out: &mut Writer) {
        out.number(self.entries.len() as u64);
        for (destination, (value, expires)) in &self.entries {
            out.put(destination);
            out.put(value);
            out.put(expires);
        }
    }
    fn read(&self, from: &mut Reader<'_>) -> Result<Learned<T>, Damage> {
        let mut learned = Learned::new(*self.entries.hasher());
        for _ in 0..from.count(PATHS_MAX)? {
            let (destination, value, expires) = (from.take()?, from.take()?, from.take()?);
            learned.put(destination, value, expires);
        }
        Ok(learned)
    }
}

/// A path's MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PathMtu {
    /// Bytes.
    pub mtu: u32,
    /// A router told of less than `path_mtu_min`: packets may be fragmented, whatever their senders want (Linux: a locked MTU).
    pub fragments: bool,
}

/// A better first hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Redirected {
    /// The gateway that told: when the route has another one, this means nothing any more.
    from: Ipv4Addr,
    gateway: Ipv4Addr,
    interface: InterfaceIndex,
}

weft_core::fields!(struct PathMtu { mtu, fragments });
weft_core::fields!(struct Redirected { from, gateway, interface });

/// Everything that routers told.
#[derive(Debug)]
pub(super) struct Paths {
    mtus: Learned<PathMtu>,
    redirects: Learned<Redirected>,
    timer: Option<Instant>,
}

impl Paths {
    pub(super) fn new(hasher: KeyedHasher) -> Paths {
        Paths { mtus: Learned::new(hasher), redirects: Learned::new(hasher), timer: None }
    }

    pub(super) fn write(&self, out: &mut Writer) {
        self.mtus.write(out);
        self.redirects.write(out);
    }

    /// What a predecessor was told, under the keys of this one's maps.
    pub(super) fn read(&self, from: &mut Reader<'_>) -> Result<Paths, Damage> {
        Ok(Paths { mtus: self.mtus.read(from)?, redirects: self.redirects.read(from)?, timer: None })
    }

    /// A successor's timer: nothing was set for it.
    pub(super) fn resume(&mut self, cx: &mut Context<'_>) {
        self.timer = [self.mtus.next(), self.redirects.next()].into_iter().flatten().min();
        if let Some(at) = self.timer {
            cx.set_timer(TIMER_PATHS, at);
        }
    }

    /// Rows that are remembered: at most [`PATHS_MAX`] path MTUs and as many redirects.
    pub(super) fn len(&self) -> usize {
        self.mtus.entries.len() + self.redirects.entries.len()
    }

    #[inline]
    pub(super) fn mtu(&self, destination: Ipv4Addr) -> Option<PathMtu> {
        self.mtus.get(destination)
    }

    /// The gateway to use instead of `gateway`.
    #[inline]
    pub(super) fn gateway(&self, destination: Ipv4Addr, gateway: Ipv4Addr, interface: InterfaceIndex) -> Ipv4Addr {
        match self.redirects.get(destination) {
            Some(told) if told.from == gateway && told.interface == interface => told.gateway,
            _ => gateway,
        }
    }
}

impl Ip4 {
    /// Linux __ip_rt_update_pmtu.
    pub(super) fn learn_mtu(&mut self, destination: Ipv4Addr, told: u32, cx: &mut Context<'_>) {
        let route = self.resolve(destination, None, None, Traffic::default()).filter(|answer| answer.kind == RouteKind::Unicast);
        // Larger than what is known is no news (RFC 1191 §3 forbids to raise it so).
        let Some(old) = route.map(|answer| answer.mtu).filter(|old| told <= *old) else {
            self.counters[count::PATHS_REFUSED] += 1;
            return;
        };
        let fragments = told < self.path_mtu_min;
        let mtu = if fragments { old.min(self.path_mtu_min) } else { told };
        let learned = PathMtu { mtu, fragments };
        let changes = self.paths.mtu(destination) != Some(learned);
        let evicted = self.paths.mtus.put(destination, learned, cx.now + self.path_mtu_expires);
        self.counters[count::PATH_MTUS] += 1;
        self.counters[count::PATHS_EVICTED] += u64::from(evicted);
        self.paths_changed(changes || evicted, cx);
    }

    /// Linux __ip_do_redirect, and RFC 1122 §3.2.2.2: "A Redirect message SHOULD be silently discarded if the new gateway address it specifies is not
    /// on the same connected (sub-) net through which the Redirect arrived …, or if the source of the Redirect is not the current first-hop gateway
    /// for the specified destination".
    pub(super) fn redirect(
        &mut self,
        destination: Ipv4Addr,
        gateway: Ipv4Addr,
        interface: InterfaceIndex,
        from: Ipv4Addr,
        cx: &mut Context<'_>,
    ) {
        let route = self.lookup(destination, None).map(|route| *route);
        let routed = route.filter(|route| route.kind == RouteKind::Unicast && route.interface == interface);
        let Some(first) = routed.and_then(|route| route.gateway).filter(|_| self.accept_redirects && !self.forward) else {
            self.counters[count::PATHS_REFUSED] += 1;
            return;
        };
        let IpAddr::V4(first) = first else { return };
        let current = self.paths.gateway(destination, first, interface);
        let host = self.addresses.kind(gateway) == AddressKind::Other && gateway.octets()[0] != 0;
        let on_link = self.addresses.of(interface).any(|(own, bits)| addresses::same_prefix(own, gateway, bits));
        if from != current || gateway == current || !host || !on_link {
            self.counters[count::PATHS_REFUSED] += 1;
            return;
        }
        let told = Redirected { from: first, gateway, interface };
        let evicted = self.paths.redirects.put(destination, told, cx.now + self.redirect_expires);
        self.counters[count::REDIRECTS] += 1;
        self.counters[count::PATHS_EVICTED] += u64::from(evicted);
        self.paths_changed(true, cx);
    }

    /// Forgets what is due.
    pub(super) fn expire_paths(&mut self, cx: &mut Context<'_>) {
        self.paths.timer = None;
        let mtus = self.paths.mtus.expire(cx.now);
        let redirects = self.paths.redirects.expire(cx.now);
        self.paths_changed(mtus || redirects, cx);
    }

    /// Forgets everything.
    pub(super) fn flush_paths(&mut self, cx: &mut Context<'_>) {
        self.paths.mtus.clear();
        self.paths.redirects.clear();
        self.paths_changed(true, cx);
    }

    fn paths_changed(&mut self, changes: bool, cx: &mut Context<'_>) {
        let next = [self.paths.mtus.next(), self.paths.redirects.next()].into_iter().flatten().min();
        if next != self.paths.timer {
            self.paths.timer = next;
            match next {
                Some(at) => cx.set_timer(TIMER_PATHS, at),
                None => cx.cancel_timer(TIMER_PATHS),
            }
        }
        if changes {
            self.changed();
            cx.table_changed(Table::Routes(Family::V4));
        }
    }

    /// Rows for people, by destination.
    pub(super) fn path_rows(&self, now: Instant) -> Value {
        let mut rows: Vec<(Ipv4Addr, Value)> = Vec::new();
        for (destination, (path, expires)) in &self.paths.mtus.entries {
            let seconds = expires.since(now).as_secs();
            let row = serde_json::json!({"destination": destination.to_string(), "mtu": path.mtu, "fragments": path.fragments, "expires_s": seconds});
            rows.push((*destination, row));
        }
        for (destination, (told, expires)) in &self.paths.redirects.entries {
            let seconds = expires.since(now).as_secs();
            let row = serde_json::json!({
                "destination": destination.to_string(), "gateway": told.gateway.to_string(), "instead_of": told.from.to_string(),
                "interface": told.interface.0, "expires_s": seconds,
            });
            rows.push((*destination, row));
        }
        rows.sort_by_key(|(destination, _)| *destination);
        Value::Array(rows.into_iter().map(|(_, row)| row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_bounded_and_what_would_be_forgotten_first_makes_room() {
        let mut learned: Learned<u32> = Learned::new(KeyedHasher::default());
        let address = |number: usize| Ipv4Addr::from_bits(number as u32);
        for number in 0..PATHS_MAX {
            assert!(!learned.put(address(number), 1000, Instant::from_millis(PATHS_MAX as u64 - number as u64)));
        }
        assert!(learned.put(address(PATHS_MAX), 7, Instant::from_millis(5)));
        assert_eq!((learned.entries.len(), learned.expiries.len()), (PATHS_MAX, PATHS_MAX));
        assert_eq!((learned.get(address(PATHS_MAX - 1)), learned.get(address(PATHS_MAX))), (None, Some(7)));
        // Renewed, it stays longer.
        assert!(!learned.put(address(PATHS_MAX), 8, Instant::from_millis(9_999_999)));
        assert!(learned.expire(Instant::from_millis(10_000)));
        assert_eq!(
            (learned.entries.len(), learned.get(address(PATHS_MAX)), learned.next()),
            (1, Some(8), Some(Instant::from_millis(9_999_999)))
        );
    }
}
