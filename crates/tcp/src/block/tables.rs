//! Where connections are kept and how they are found.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// A connection's addresses and ports, this node's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tuple {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}
weft_core::fields!(struct Tuple { local, remote });

impl Hash for Tuple {
    /// Fewer bytes than the derived one: two words for IPv4.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ports = u32::from(self.local.port()) << 16 | u32::from(self.remote.port());
        match (self.local.ip(), self.remote.ip()) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                state.write_u64(u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits()));
            }
            (local, remote) => {
                for ip in [local, remote] {
                    match ip {
                        IpAddr::V4(ip) => state.write(&ip.octets()),
                        IpAddr::V6(ip) => state.write(&ip.octets()),
                    }
                }
            }
        }
        state.write_u32(ports);
    }
}

/// What a timer token is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Connection,
    Request,
    TimeWaits,
}

pub(super) fn token(kind: Kind, key: u64) -> u64 {
    (kind as u64) << 62 | key
}

pub(super) fn untoken(token: u64) -> (Kind, u64) {
    let kind = match token >> 62 {
        0 => Kind::Connection,
        1 => Kind::Request,
        _ => Kind::TimeWaits,
    };
    (kind, token & !(3 << 62))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_its_key_is_of() {
        let mut slab = weft_core::Slab::beginning_with(u32::MAX);
        let key = slab.insert('a');
        for kind in [Kind::Connection, Kind::Request, Kind::TimeWaits] {
            assert_eq!(untoken(token(kind, key)), (kind, key));
        }
    }
}
