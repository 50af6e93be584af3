//! Interfaces of a running node that get their IPv4 address from a DHCP server: they begin and cease to ask, and what they were told.

use crate::dhcp::{DHCP, INSIDE, binds, parameters};
use crate::node::Node;
use serde::Deserialize;
use std::net::IpAddr;
use weft_core::control::Value;
use weft_core::{ControlError, End, Instant, Message, Op, Selector};

/// What an interface has of a server.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Lease {
    /// Its name.
    pub interface: String,
    /// Its address with prefix length; none: it has no lease.
    pub address: Option<String>,
    /// The first router.
    pub router: Option<IpAddr>,
    /// Name servers, the best first.
    #[serde(default)]
    pub name_servers: Vec<IpAddr>,
    /// Where names without dots are looked for.
    pub domain: Option<String>,
}

impl Lease {
    /// Lines of a resolv.conf(5). A server that names no name servers is a small one, whose router may be one.
    pub fn resolv_conf(&self) -> String {
        let servers = match &self.name_servers[..] {
            [] => self.router.iter().copied().collect(),
            told => told.to_vec(),
        };
        let search = self.domain.iter().map(|domain| format!("search {domain}\n"));
        search.chain(servers.iter().map(|server| format!("nameserver {server}\n"))).collect()
    }
}

impl Node {
    /// Lets an interface, which may be there already, ask a DHCP server. A graph without the block that does so gets it.
    ///
    /// # Errors
    /// The graph is another than the default one around ip4, or has too many that ask.
    pub fn ask_by_dhcp(&mut self, now: Instant, interface: &str) -> Result<(), ControlError> {
        let is_there = self.engine().graph().find(DHCP).is_some();
        let ops = if is_there {
            let mut names = self.asking(now)?;
            if names.iter().any(|name| name == interface) {
                return Ok(());
            }
            names.push(interface.to_owned());
            vec![Op::Set { target: Selector::Name(DHCP.to_owned()), name: "interfaces".to_owned(), value: names.into() }]
        } else {
            let parameters = parameters(self.name(), vec![interface.to_owned()]);
            let add = Op::Add { name: DHCP.to_owned(), kind: DHCP.to_owned(), parameters };
            let (from, to) = (End::parse(INSIDE.0), Some(End::parse(INSIDE.1)));
            [add, Op::Unbind { from, to }].into_iter().chain(binds()).collect()
        };
        self.control(now, &Message { serial: 0, op: Op::All(ops) }).result.map(drop)
    }

    /// The interface asks no more, and gives its lease back.
    pub fn ask_no_more(&mut self, now: Instant, interface: &str) {
        let Ok(mut names) = self.asking(now) else { return };
        let before = names.len();
        names.retain(|name| name != interface);
        if names.len() < before {
            let target = Selector::Name(DHCP.to_owned());
            let op = Op::Set { target, name: "interfaces".to_owned(), value: names.into() };
            // The list is one that the block had.
            let _ = self.control(now, &Message { serial: 0, op });
        }
    }

    fn asking(&mut self, now: Instant) -> Result<Vec<String>, ControlError> {
        let op = Op::Get { target: Selector::Name(DHCP.to_owned()), name: Some("interfaces".to_owned()) };
        let told = self.control(now, &Message { serial: 0, op }).result?;
        let list = told[DHCP].as_array().into_iter().flatten();
        Ok(list.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// What its interfaces have of DHCP servers; those that ask and have nothing, too.
    pub fn leases(&mut self, now: Instant) -> Vec<Lease> {
        let op = Op::Exec { target: Selector::Name(DHCP.to_owned()), procedure: "leases".to_owned(), arguments: Value::Null };
        // A graph without the block has none.
        let Ok(told) = self.control(now, &Message { serial: 0, op }).result else { return Vec::new() };
        serde_json::from_value(told[DHCP].clone()).unwrap_or_default()
    }

    /// Gives all leases back, before the node ends.
    pub fn release_leases(&mut self, now: Instant) {
        let op = Op::Exec { target: Selector::Name(DHCP.to_owned()), procedure: "release".to_owned(), arguments: Value::Null };
        let _ = self.control(now, &Message { serial: 0, op });
    }
}
