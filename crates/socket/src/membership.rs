//! One socket's place in one group, with the sources that it wants to hear.

use std::net::{IpAddr, Ipv4Addr};
use weft_core::SourceFilter;

/// One socket in one group on one interface (`struct ip_mc_socklist`, `struct ipv6_mc_socklist`).
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    pub group: IpAddr,
    pub interface: u32,
    /// The interface's address as the program gave it (`imr_address`).
    pub address: Ipv4Addr,
    /// MCAST_EXCLUDE: all sources but those listed; else only those.
    pub exclude: bool,
    /// `sflist`: none until a source was named.
    pub sources: Option<Vec<IpAddr>>,
}
weft_core::fields!(struct Membership { group, interface, address, exclude, sources });

impl Membership {
    /// `ip_mc_sf_allow`, `inet6_mc_check`.
    pub(crate) fn allows(&self, source: IpAddr) -> bool {
        match &self.sources {
            None => self.exclude,
            Some(sources) => sources.contains(&source) != self.exclude,
        }
    }

    /// What the owner of the groups is told.
    pub(crate) fn filter(&self) -> SourceFilter {
        let sources = self.sources.clone().unwrap_or_default();
        if self.exclude { SourceFilter::Exclude(sources) } else { SourceFilter::Include(sources) }
    }
}
