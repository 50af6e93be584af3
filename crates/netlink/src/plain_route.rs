//! A route that is asked for without a netlink message: by ioctl(2). It comes to the same as a message.

use crate::errno::ESRCH;
use crate::message::{INET, INET6, Message};
use crate::packet::{NLM_F_CREATE, Options, Request};
use crate::route::{self, DELROUTE, NEWROUTE, RTA_DST, RTA_GATEWAY, RTA_OIF, RTA_PREFSRC, RTA_PRIORITY};
use crate::{Refusal, Tables};
use std::net::IpAddr;

/// A route of the main table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlainRoute {
    /// Where it leads.
    pub destination: IpAddr,
    /// Bits of that.
    pub prefix_bits: u8,
    /// RTN_*; 0: any, of one that is deleted.
    pub kind: u8,
    /// RT_SCOPE_*.
    pub scope: u8,
    /// RTPROT_*; 0: any.
    pub protocol: u8,
    /// The next hop's address.
    pub gateway: Option<IpAddr>,
    /// The next hop's interface.
    pub interface: Option<u32>,
    /// Source address of what is sent there.
    pub source: Option<IpAddr>,
    /// Metric; 0: none, or any.
    pub metric: u32,
}

impl PlainRoute {
    /// Adds it.
    ///
    /// # Errors
    /// Those of RTM_NEWROUTE.
    pub fn add(&self, tables: &mut dyn Tables) -> Result<(), Refusal> {
        self.ask(NEWROUTE, NLM_F_CREATE, tables)
    }

    /// Deletes the first that is like it.
    ///
    /// # Errors
    /// ESRCH: there is none.
    pub fn delete(&self, tables: &mut dyn Tables) -> Result<(), Refusal> {
        self.ask(DELROUTE, 0, tables).map_err(|refusal| if refusal.errno == ESRCH { Refusal::plain(ESRCH) } else { refusal })
    }

    fn ask(&self, kind: u16, flags: u16, tables: &mut dyn Tables) -> Result<(), Refusal> {
        const RT_TABLE_MAIN: u8 = 254;
        let family = if self.destination.is_ipv4() { INET } else { INET6 };
        let fixed = [family, self.prefix_bits, 0, 0, RT_TABLE_MAIN, self.protocol, self.scope, self.kind, 0, 0, 0, 0];
        let mut message = Message::new(kind, &fixed);
        message.address(RTA_DST, self.destination);
        for (attribute, value) in [(RTA_GATEWAY, self.gateway), (RTA_PREFSRC, self.source)] {
            value.into_iter().for_each(|value| message.address(attribute, value));
        }
        for (attribute, value) in [(RTA_OIF, self.interface), (RTA_PRIORITY, Some(self.metric).filter(|metric| *metric != 0))] {
            value.into_iter().for_each(|value| message.u32(attribute, value));
        }
        let request = Request { kind, flags, sequence: 0, body: &message.body, whole: &message.body };
        route::answer(&request, &Options::default(), tables).map(drop)
    }
}
