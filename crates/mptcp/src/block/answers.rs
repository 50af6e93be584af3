//! What others ask about connections ([`weft_core::Table::Multipath`]).

use super::MptcpBlock;
use crate::endpoint::Endpoint;
use weft_core::multipath::{MultipathEndpoint, MultipathLimits};
use weft_core::{Answer, FlowId, MultipathInfo, MultipathNode, Query, Table};

/// MPTCP_PM_ADDR_FLAG_*.
const SIGNAL: u32 = 1;
const SUBFLOW: u32 = 2;
const BACKUP: u32 = 4;
const FULLMESH: u32 = 8;

impl Endpoint {
    /// As netlink's flags.
    pub(crate) fn flags(&self) -> u32 {
        let flags = [(self.signal, SIGNAL), (self.subflow, SUBFLOW), (self.backup, BACKUP), (self.fullmesh, FULLMESH)];
        flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum()
    }
}

impl MptcpBlock {
    pub(super) fn answer(&self, query: &Query) -> Answer {
        match query {
            Query::Multipath => Answer::Multipath(Box::new(self.node())),
            Query::Connection(flow) => self.connection(*flow).map_or(Answer::None, |info| Answer::Connection(Box::new(info))),
            Query::List(Table::Multipath) => Answer::List(self.rows()),
            _ => Answer::None,
        }
    }

    fn node(&self) -> MultipathNode {
        let settings = &self.settings;
        let endpoint = |endpoint: &Endpoint| MultipathEndpoint {
            id: endpoint.id,
            address: endpoint.address,
            port: endpoint.port.unwrap_or(0),
            dev: endpoint.dev.clone(),
            flags: endpoint.flags(),
        };
        MultipathNode {
            enabled: settings.enabled && !self.retired,
            checksum: settings.checksum,
            limits: self.limits(),
            endpoints: settings.endpoints.iter().map(endpoint).collect(),
        }
    }

    fn limits(&self) -> MultipathLimits {
        let short = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
        let having = |has: fn(&Endpoint) -> bool| short(self.locals.endpoints.iter().filter(|endpoint| has(endpoint)).count());
        MultipathLimits {
            subflows: short(self.settings.subflows),
            add_addr_accepted: short(self.settings.add_addr_accepted),
            add_addr_signal: having(|endpoint| endpoint.signal),
            local_addresses: having(|endpoint| endpoint.subflow),
        }
    }

    /// Of sockets' flows alone: a subflow that joined one is none of theirs.
    fn connection(&self, flow: FlowId) -> Option<MultipathInfo> {
        if self.listeners.contains_key(&flow) {
            return Some(MultipathInfo { listens: true, ..MultipathInfo::default() });
        }
        let connection = self.connections.get(self.of_sockets(flow)?)?;
        Some(connection.info(self.limits()))
    }
}
