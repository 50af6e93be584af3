//! Endpoints: the addresses of this node that connections may use (ip-mptcp(8)).

use std::net::IpAddr;
use weft_core::InterfaceIndex;

/// What an address is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Its identifier, 1 to 255; 0: not given yet.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// Another port than the connection's, where it is announced.
    pub port: Option<u16>,
    /// The interface to use, by name.
    pub dev: Option<String>,
    /// The interface to use, by number; [`InterfaceIndex::NONE`]: what the routes say.
    pub interface: InterfaceIndex,
    /// It is announced to peers (ADD_ADDR).
    pub signal: bool,
    /// Subflows are opened from it.
    pub subflow: bool,
    /// Its subflows are used only if no other is left.
    pub backup: bool,
    /// Subflows are opened from it to every address of the peer, not to that of the first subflow only.
    pub fullmesh: bool,
}

/// What this node has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Locals {
    /// Addresses of endpoints that somebody has taken away: only what joined by them goes, too.
    pub removed: Vec<IpAddr>,
    /// What connections may use.
    pub endpoints: Vec<Endpoint>,
    /// Addresses that can be used.
    pub addresses: Vec<IpAddr>,
    /// The interfaces of those.
    pub interfaces: Vec<(IpAddr, InterfaceIndex)>,
    /// Those that could be and no longer can.
    pub lost: Vec<IpAddr>,
    /// How far behind the preferred interfaces an address's is ([`crate::policy::Preference::rank`]).
    pub ranks: Vec<(IpAddr, u32)>,
    /// Addresses whose data counts, and for which of the quotas.
    pub metered: Vec<(IpAddr, usize)>,
    /// Addresses of interfaces whose quota is used up.
    pub spent: Vec<IpAddr>,
    /// Nobody has named endpoints: every address is one. Whoever opens a connection opens subflows from it, whoever accepts one announces it.
    pub every: bool,
}

impl Locals {
    /// Of an address.
    pub fn interface(&self, address: IpAddr) -> InterfaceIndex {
        self.interfaces.iter().find(|(known, _)| *known == address).map_or(InterfaceIndex::NONE, |(_, index)| *index)
    }
    /// Of an address; 0: nobody prefers anything.
    pub fn rank(&self, address: IpAddr) -> u32 {
        self.ranks.iter().find(|(known, _)| *known == address).map_or(0, |(_, rank)| *rank)
    }
}

impl Endpoint {
    /// One of a node that nobody has named endpoints of.
    pub fn any(id: u8, address: IpAddr, interface: InterfaceIndex) -> Endpoint {
        Endpoint { id, address, port: None, dev: None, interface, signal: true, subflow: true, backup: false, fullmesh: true }
    }

    /// Reads `ADDRESS [dev NAME] [id NUMBER] [port NUMBER] [signal] [subflow] [backup] [fullmesh]`, as `ip mptcp endpoint add` takes it.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let mut words = text.split_whitespace();
        let address = words.next().ok_or("it names no address")?;
        let address = address.parse().map_err(|_| format!("'{address}' is no address"))?;
        let mut endpoint = Endpoint { signal: false, subflow: false, fullmesh: false, ..Endpoint::any(0, address, InterfaceIndex::NONE) };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("'{word}' wants a value"));
            match word {
                "signal" => endpoint.signal = true,
                "subflow" => endpoint.subflow = true,
                "backup" => endpoint.backup = true,
                "fullmesh" => endpoint.fullmesh = true,
                "dev" => endpoint.dev = Some(value()?.to_owned()),
                "id" => endpoint.id = value()?.parse().ok().filter(|id| *id > 0).ok_or("an id is a number from 1 to 255")?,
                "port" => endpoint.port = Some(value()?.parse().ok().filter(|port| *port > 0).ok_or("a port is a number from 1 to 65535")?),
                other => return Err(format!("'{other}' is none of dev, id, port, signal, subflow, backup, fullmesh")),
            }
        }
        endpoint.check()?;
        Ok(endpoint)
    }

    /// Does it make sense (mptcp_pm_nl_add_addr_doit)?
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.fullmesh && self.signal {
            return Err("signal and fullmesh exclude each other".to_owned());
        }
        if self.port.is_some() && !self.signal {
            return Err("a port goes with signal only".to_owned());
        }
        if self.address.is_unspecified() || self.address.is_multicast() {
            return Err(format!("{} is no address of one node", self.address));
        }
        Ok(())
    }

    /// As [`Endpoint::parse`] reads it.
    pub fn text(&self) -> String {
        let mut out = self.address.to_string();
        let flags = [(self.signal, " signal"), (self.subflow, " subflow"), (self.backup, " backup"), (self.fullmesh, " fullmesh")];
        flags.iter().filter(|(set, _)| *set).for_each(|(_, word)| out.push_str(word));
        self.dev.iter().for_each(|dev| out.push_str(&format!(" dev {dev}")));
        out.push_str(&format!(" id {}", self.id));
        self.port.iter().for_each(|port| out.push_str(&format!(" port {port}")));
        out
    }
}

/// Reads a list of them, and gives numbers to those that have none.
///
/// # Errors
/// Which one is wrong, and why.
pub fn parse_all<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Endpoint>, String> {
    let mut all: Vec<Endpoint> = Vec::new();
    for text in texts {
        let endpoint = Endpoint::parse(text).map_err(|why| format!("'{text}': {why}"))?;
        if all.iter().any(|known| known.address == endpoint.address && known.port == endpoint.port) {
            return Err(format!("'{text}': the address is there already"));
        }
        if endpoint.id > 0 && all.iter().any(|known| known.id == endpoint.id) {
            return Err(format!("'{text}': the id is another's"));
        }
        all.push(endpoint);
    }
    if all.len() > ENDPOINTS_MAX {
        return Err(format!("there are {} of them, and a node takes {ENDPOINTS_MAX}", all.len()));
    }
    for at in 0..all.len() {
        if all[at].id == 0 {
            all[at].id = free_id(all.iter().map(|endpoint| endpoint.id)).ok_or("there are no more ids")?;
        }
    }
    Ok(all)
}

/// Endpoints of a node, at most: more than a connection can use.
pub const ENDPOINTS_MAX: usize = 64;

/// The least identifier that none has.
pub fn free_id(taken: impl Iterator<Item = u8> + Clone) -> Option<u8> {
    (1..=u8::MAX).find(|id| taken.clone().all(|other| other != *id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_mptcp_takes_is_read_and_said_again() {
        let read = |text: &str| Endpoint::parse(text).map(|endpoint| endpoint.text());
        assert_eq!(read("10.0.0.1 subflow backup dev eth1 id 7"), Ok("10.0.0.1 subflow backup dev eth1 id 7".to_owned()));
        assert_eq!(read("fd00::1 signal port 8080"), Ok("fd00::1 signal id 0 port 8080".to_owned()));
        for wrong in ["", "x", "10.0.0.1 id 0", "10.0.0.1 id", "10.0.0.1 signal fullmesh", "10.0.0.1 port 1", "0.0.0.0", "10.0.0.1 fast"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_gets_a_number_of_its_own() {
        let all = parse_all(["10.0.0.1", "10.0.0.2 id 1", "10.0.0.3"].into_iter()).unwrap();
        assert_eq!(all.iter().map(|endpoint| endpoint.id).collect::<Vec<_>>(), [2, 1, 3]);
        assert!(parse_all(["10.0.0.1", "10.0.0.1"].into_iter()).is_err());
        assert!(parse_all(["10.0.0.1 id 1", "10.0.0.2 id 1"].into_iter()).is_err());
    }
}
