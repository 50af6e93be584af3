//! What routers told about single destinations: path MTUs (RFC 8201) and better first hops (RFC 4861 §8). Bounded; path MTUs age.

use std::net::Ipv6Addr;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant, InterfaceIndex, KeyedHasher, Map};

/// Most destinations that are remembered; the one added first makes room (Linux: 1024 for each hash row's depth, FIB6_MAX_DEPTH).
const EXCEPTIONS_MAX: usize = 4096;
/// RFC 8201 §4: an attempt to detect an increase "MUST NOT be done less than 5 minutes after a Packet Too Big message has been received …
/// The recommended setting for this timer is twice its minimum value (10 minutes)" (Linux ip6_rt_mtu_expires).
const MTU_LIFETIME: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, Default)]
struct Exception {
    /// Path MTU in bytes, and until when.
    mtu: Option<(u32, Instant)>,
    /// Next hop, and through which interface.
    gateway: Option<(Ipv6Addr, InterfaceIndex)>,
}

weft_core::fields!(struct Exception { mtu, gateway });

#[derive(Debug)]
pub(super) struct Exceptions {
    of: Map<Ipv6Addr, Exception>,
}

impl Exceptions {
    pub(super) fn new(hasher: KeyedHasher) -> Exceptions {
        Exceptions { of: Map::with_hasher(hasher) }
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.number(self.of.len() as u64);
        for (destination, exception) in &self.of {
            out.put(destination);
            out.put(exception);
        }
    }

    /// What a predecessor was told, under the keys of this one's map.
    pub(super) fn read(&self, from: &mut Reader<'_>) -> Result<Exceptions, Damage> {
        let mut exceptions = Exceptions::new(*self.of.hasher());
        for _ in 0..from.count(EXCEPTIONS_MAX)? {
            let (destination, exception) = (from.take()?, from.take()?);
            exceptions.of.insert(destination, exception);
        }
        Ok(exceptions)
    }

    /// Destinations that are remembered.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// Makes room for one more. True: another had to go.
    fn make_room(&mut self, destination: Ipv6Addr) -> bool {
        let full = self.of.len() >= EXCEPTIONS_MAX && !self.of.contains_key(&destination);
        if full {
            self.of.swap_remove_index(0);
        }
        full
    }

    /// A path MTU in bytes. True: another destination was forgotten for it.
    pub(super) fn set_mtu(&mut self, destination: Ipv6Addr, mtu: u32, now: Instant) -> bool {
        let full = self.make_room(destination);
        self.of.entry(destination).or_default().mtu = Some((mtu, now + MTU_LIFETIME));
        full
    }

    /// A better first hop. True: another destination was forgotten for it.
    pub(super) fn set_gateway(&mut self, destination: Ipv6Addr, gateway: Ipv6Addr, interface: InterfaceIndex) -> bool {
        let full = self.make_room(destination);
        self.of.entry(destination).or_default().gateway = Some((gateway, interface));
        full
    }

    #[inline]
    pub(super) fn mtu(&self, destination: Ipv6Addr, now: Instant) -> Option<u32> {
        self.of.get(&destination)?.mtu.filter(|(_, until)| *until > now).map(|(mtu, _)| mtu)
    }

    #[inline]
    pub(super) fn gateway(&self, destination: Ipv6Addr) -> Option<(Ipv6Addr, InterfaceIndex)> {
        self.of.get(&destination)?.gateway
    }

    /// When the next path MTU is forgotten.
    pub(super) fn next(&self) -> Option<Instant> {
        self.of.values().filter_map(|exception| exception.mtu).map(|(_, until)| until).min()
    }

    /// Forgets path MTUs that are too old.
    pub(super) fn expire(&mut self, now: Instant) {
        self.of.retain(|_, exception| {
            exception.mtu = exception.mtu.filter(|(_, until)| *until > now);
            exception.mtu.is_some() || exception.gateway.is_some()
        });
    }

    /// Forgets redirects that do not hold any longer.
    pub(super) fn forget_gateways(&mut self, goes: impl Fn(Ipv6Addr, InterfaceIndex) -> bool) {
        self.of.retain(|_, exception| {
            exception.gateway = exception.gateway.filter(|(gateway, interface)| !goes(*gateway, *interface));
            exception.mtu.is_some() || exception.gateway.is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_mtus_age_and_the_table_is_bounded() {
        let mut exceptions = Exceptions::new(KeyedHasher::default());
        let ip = |number: usize| Ipv6Addr::from_bits(0xfd << 120 | number as u128);
        assert!((0..EXCEPTIONS_MAX).all(|number| !exceptions.set_mtu(ip(number), 1300, Instant::ZERO)));
        assert!(!exceptions.set_mtu(ip(7), 1290, Instant::from_millis(1)), "one that is there takes no room");
        assert!(exceptions.set_mtu(ip(EXCEPTIONS_MAX), 1300, Instant::ZERO));
        assert_eq!((exceptions.of.len(), exceptions.mtu(ip(0), Instant::ZERO)), (EXCEPTIONS_MAX, None));
        assert_eq!(exceptions.mtu(ip(7), Instant::ZERO), Some(1290));
        assert_eq!(exceptions.next(), Some(Instant::ZERO + MTU_LIFETIME));
        exceptions.set_gateway(ip(9), ip(1), InterfaceIndex(2));
        exceptions.expire(Instant::ZERO + MTU_LIFETIME);
        assert_eq!((exceptions.of.len(), exceptions.gateway(ip(9))), (2, Some((ip(1), InterfaceIndex(2)))));
        exceptions.forget_gateways(|_, interface| interface == InterfaceIndex(2));
        assert_eq!(exceptions.of.len(), 1);
    }
}
