//! Interfaces of a stack, and what is behind them: opened as it comes up, and added and taken away while it runs.
//!
//! An interface is added in one step or not at all: its backend is opened first, which can fail, then the node is told of it, which can fail too
//! and closes the backend again. One that the node has no more, whoever took it away (a command, `weft apply`, `ip link del` of a program), is
//! closed here: its device, its guard and its namespaces go.

use crate::ground::{self, Opened, PORTS_MAX};
use crate::outside;
use crate::port::Port;
use crate::reactor::Interest;
use crate::world::{TOKEN_PORT, World};
use weft_core::control::{ControlError, Op, Value};
use weft_core::table::{Interface, LinkType};
use weft_core::{InterfaceIndex, Message, Refused, Selector, Table, command};
use weft_node::{InterfaceSection, Rewiring, RouteSection, Shape, Wiring};

/// Corrects what is known of an interface by what its backend can do.
pub(crate) fn corrected(mut interface: Interface, section: &InterfaceSection, opened: &Opened) -> Interface {
    let features = opened.backend.features();
    interface.link = match features.link {
        weft_backend::LinkType::Ethernet => LinkType::Ethernet,
        weft_backend::LinkType::Ip => LinkType::Raw,
    };
    if section.mtu.is_none() {
        interface.mtu = features.mtu;
    }
    if section.mac.is_none() {
        interface.mac = features.mac.0;
    }
    if section.offload {
        // The device counts its own header, too; an IP packet is at most 65535 bytes.
        interface.gso_max_bytes = u32::try_from(features.gso_bytes_max).unwrap_or(u32::MAX).min(u32::from(u16::MAX));
        interface.checksum_offload = features.checksum_offload;
    }
    interface
}

/// What the arguments of `interfaces add` say of an interface with a backend: as an `[[interface]]` does, but for its number and whether it is up.
struct Asked {
    section: InterfaceSection,
    index: InterfaceIndex,
    up: bool,
}

impl Asked {
    fn read(arguments: &Value) -> Result<Asked, ControlError> {
        let bad = |why: String| {
            let (block, procedure) = ("interfaces".to_owned(), "add".to_owned());
            ControlError::ExecFailed { block, procedure, why: Refused::invalid(why) }
        };
        let Value::Object(mut fields) = arguments.clone() else { return Err(bad("arguments are name=value".to_owned())) };
        let index = match fields.remove("index") {
            None => InterfaceIndex::NONE,
            Some(index) => match index.as_u64().and_then(|index| u32::try_from(index).ok()).filter(|index| *index > 1) {
                Some(index) => InterfaceIndex(index),
                None => return Err(bad(format!("index: {index} is no number of an interface"))),
            },
        };
        let up = match fields.remove("up") {
            None => true,
            Some(Value::Bool(up)) => up,
            Some(other) => return Err(bad(format!("up: {other} is neither true nor false"))),
        };
        // Several, as one writes them in a command.
        if let Some(Value::String(addresses)) = fields.get("host_address") {
            let each: Vec<String> = addresses.split(',').map(str::to_owned).collect();
            fields.insert("host_address".to_owned(), each.into());
        }
        let section: InterfaceSection = serde_json::from_value(fields.into()).map_err(|error| bad(error.to_string()))?;
        Ok(Asked { section, index, up })
    }
}

impl World {
    /// The arguments of an operation that adds an interface with a backend.
    pub(crate) fn backend_wish(op: &Op) -> Option<&Value> {
        match op {
            Op::Exec { target: Selector::Name(name), procedure, arguments } if name == "interfaces" && procedure == "add" => {
                arguments.get("backend").and_then(Value::as_str).filter(|url| !url.is_empty()).map(|_| arguments)
            }
            _ => None,
        }
    }

    /// `interfaces add` with a backend. Answered as the block does, with a notice where there is something to know.
    ///
    /// # Errors
    /// Why it is not added; then nothing has changed.
    pub(crate) fn attach(&mut self, arguments: &Value) -> Result<Value, ControlError> {
        let Asked { section, index, up } = Asked::read(arguments)?;
        self.check_new(std::slice::from_ref(&section), &[])?;
        if section.dhcp {
            self.node.ask_by_dhcp(self.clock.now(), &section.name)?;
        }
        let plugged = self.open_and_plug(&section, index);
        let now = self.clock.now();
        if plugged.is_err() && section.dhcp {
            self.node.ask_no_more(now, &section.name);
        }
        let (index, notices) = plugged?;
        if !up {
            self.node.set_interface_down(now, index);
        }
        let mac = self.ports.get(&index).map(|port| port.mac().to_string()).unwrap_or_default();
        let mut answer = serde_json::json!({"interfaces": {"index": index.0, "mac": mac}});
        if !notices.is_empty() {
            answer["interfaces"]["notice"] = notices.join("; ").into();
        }
        Ok(answer)
    }

    /// Everything that can be said of new interfaces before one is opened; `leaving` are the names of those that go for them.
    fn check_new(&mut self, coming: &[InterfaceSection], leaving: &[String]) -> Result<(), ControlError> {
        let refused = |section: &InterfaceSection, why: Refused| ControlError::NotAttached { interface: section.name.clone(), why };
        for section in coming {
            ground::check_section(section)
                .map_err(|wrong| refused(section, format!("{}: {}; {}", wrong.field, wrong.what, wrong.help).into()))?;
            self.node.describe_new(section)?;
            let mut staying = self.ports.values().map(Port::section).filter(|other| !leaving.contains(&other.name));
            if staying.clone().any(|other| other.name == section.name) {
                return Err(refused(section, Refused::exists(format!("an interface named '{}' exists already", section.name))));
            }
            if let Some(other) = ground::other_with_device(section, &mut staying) {
                let why = format!("the interface '{}' of this stack has {} already: name another device", other.name, other.backend);
                return Err(refused(section, Refused::busy(why)));
            }
        }
        if self.ports.len() + coming.len() > PORTS_MAX {
            self.interfaces_refused += coming.len() as u64;
            return Err(ControlError::Limit { what: "interfaces with a backend of one stack".to_owned(), max: PORTS_MAX as u64 });
        }
        let leaving = self.ports.values().map(Port::section).filter(|section| leaving.contains(&section.name));
        outside::check_networks(coming.iter(), leaving).map_err(|error| match error {
            crate::world::WorldError::Network { interface, what, advice } => {
                ControlError::NotAttached { interface, why: format!("{what}: {advice}").into() }
            }
            other => ControlError::World { why: other.to_string().into() },
        })
    }

    /// Opens what is behind an interface and tells the node of it. Returns its number and what the user should know.
    fn open_and_plug(&mut self, section: &InterfaceSection, index: InterfaceIndex) -> Result<(InterfaceIndex, Vec<String>), ControlError> {
        let mut described = self.node.describe_new(section)?;
        described.index = index;
        let refused = |why: String| ControlError::NotAttached { interface: section.name.clone(), why: why.into() };
        let opened = ground::open_one(section).map_err(|error| refused(error.to_string()))?;
        let mut notices: Vec<String> = opened.notice.iter().cloned().collect();
        let number = self.plug(section, described, opened, &mut notices)?;
        self.set_guards();
        Ok((number, notices))
    }

    /// Tells the node of an interface whose other side is open, and waits for its frames.
    ///
    /// # Errors
    /// The node does not take it, or the system does not wait for it; then it is closed.
    pub(crate) fn plug(
        &mut self,
        section: &InterfaceSection,
        described: Interface,
        opened: Opened,
        notices: &mut Vec<String>,
    ) -> Result<InterfaceIndex, ControlError> {
        let now = self.clock.now();
        if section.dhcp && opened.backend.features().link == weft_backend::LinkType::Ip {
            let why = format!("{} carries IP alone, and DHCP needs Ethernet: give it an address in place of dhcp = true", section.backend);
            return Err(ControlError::NotAttached { interface: section.name.clone(), why: why.into() });
        }
        let guard = outside::guard(section, &*opened.backend).unwrap_or_else(|why| {
            notices.push(why);
            None
        });
        let number = self.node.add_interface(now, &corrected(described, section, &opened))?;
        let port = Port::new(number, section, opened, guard, self.capture.as_ref());
        if let Some(fd) = port.descriptor()
            && let Err(error) = self.reactor.add(fd, TOKEN_PORT | u64::from(number.0), Interest::READ)
        {
            let _ = self.node.remove_interface(now, number);
            return Err(ControlError::NotAttached { interface: section.name.clone(), why: format!("epoll: {error}").into() });
        }
        self.ports.insert(number, port);
        Ok(number)
    }

    /// Closes what is behind interfaces that the node has no more.
    pub(crate) fn unplug_removed(&mut self) {
        let now = self.clock.now();
        let gone: Vec<InterfaceIndex> =
            self.ports.keys().copied().filter(|index| self.node.has_interface(now, *index) == Some(false)).collect();
        for port in gone.into_iter().filter_map(|index| self.ports.remove(&index)) {
            if let Some(fd) = port.descriptor() {
                // One whose device is gone is not waited for any more.
                let _ = self.reactor.remove(fd);
            }
            for completion in port.close() {
                self.node.transmitted(now, completion);
            }
        }
    }

    /// A node that went back to earlier state may have interfaces that are closed since: they are down, as those are whose device is gone.
    pub(crate) fn put_down_closed(&mut self) {
        let now = self.clock.now();
        let list = Message { serial: 0, op: Op::List(Table::Interfaces) };
        let Ok(Value::Array(rows)) = self.node.control(now, &list).result else { return };
        let with_backend = rows.iter().filter(|row| row["backend"].as_str().is_some_and(|backend| !backend.is_empty()));
        for index in with_backend.filter_map(|row| u32::try_from(row["index"].as_u64()?).ok().map(InterfaceIndex)) {
            if !self.ports.contains_key(&index) {
                self.node.set_interface_down(now, index);
            }
        }
    }

    /// Tells the guards which addresses the node has now.
    pub(crate) fn set_guards(&mut self) {
        let now = self.clock.now();
        for (index, port) in &mut self.ports {
            let Some(guard) = port.guard() else { continue };
            let addresses = outside::guarded(&mut self.node, now, *index);
            match guard.set(addresses) {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!("{} has more addresses than the guard keeps: the host's kernel answers for the rest", guard.interface())
                }
                Err(error) => tracing::warn!("{error}; the host's kernel may answer for the node's addresses"),
            }
        }
    }

    /// `weft apply`: brings graph and interfaces to those of a stack file. Answered with `operations`, in words, and `changes`.
    ///
    /// # Errors
    /// Why it cannot be; then all is as it was, but for what blocks held that the graph would have lost.
    pub(crate) fn apply(&mut self, shape: &Shape, wiring: Option<&Wiring>, dry_run: bool) -> Result<Value, ControlError> {
        let now = self.clock.now();
        let there = self.ports.values().map(Port::section);
        let rewiring = wiring.map(|wiring| wiring.rewiring(there)).transpose()?.unwrap_or_default();
        self.check_new(&rewiring.coming, &rewiring.leaving)?;
        if dry_run || rewiring.is_empty() {
            let (operations, changes) = self.node.apply(now, shape, dry_run)?;
            let words = rewiring.words().into_iter().map(Some).chain(operations.iter().map(command::write)).collect::<Vec<_>>();
            if !dry_run && !operations.is_empty() {
                self.note(Op::All(operations), &changes, None);
            }
            return Ok(serde_json::json!({"operations": words, "changes": changes}));
        }
        let before = self.node.shape(now)?;
        let mut notices = Vec::new();
        let mut come = Vec::new();
        let leaving: Vec<InterfaceIndex> =
            self.ports.iter().filter(|(_, port)| rewiring.leaving.contains(&port.section().name)).map(|(index, _)| *index).collect();
        let done = self.rewire(&rewiring, &leaving, shape, &mut come, &mut notices);
        let (operations, mut changes, late) = match done {
            Ok(done) => done,
            Err(error) => {
                for index in come {
                    let _ = self.node.remove_interface(now, index);
                }
                self.unplug_removed();
                let _ = self.node.apply(now, &before, false);
                return Err(error);
            }
        };
        for index in leaving {
            // It is there, and not lo: it cannot fail.
            let _ = self.node.remove_interface(now, index);
        }
        self.unplug_removed();
        self.node.settle_late(now, &rewiring, &late)?;
        let words: Vec<Option<String>> = rewiring.words().into_iter().map(Some).chain(operations.iter().map(command::write)).collect();
        if let Value::Array(changes) = &mut changes {
            changes.splice(0..0, rewiring.words().into_iter().chain(notices).map(Value::from));
        }
        self.note(Op::All(operations), &changes, None);
        Ok(serde_json::json!({"operations": words, "changes": changes}))
    }

    /// All of a change that may fail: `come` has the interfaces that are there already. Also returns the routes that wait for others to leave.
    fn rewire(
        &mut self,
        rewiring: &Rewiring,
        leaving: &[InterfaceIndex],
        shape: &Shape,
        come: &mut Vec<InterfaceIndex>,
        notices: &mut Vec<String>,
    ) -> Result<(Vec<Op>, Value, Vec<RouteSection>), ControlError> {
        for section in &rewiring.coming {
            let (index, more) = self.open_and_plug(section, InterfaceIndex::NONE)?;
            come.push(index);
            notices.extend(more);
        }
        let now = self.clock.now();
        let (operations, changes) = self.node.apply(now, shape, false)?;
        let late = self.node.settle_in(now, rewiring, leaving)?;
        Ok((operations, changes, late))
    }
}
