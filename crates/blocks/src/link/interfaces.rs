//! The node's network devices: the way in from backends and out to them, and the owner of the table of interfaces.
//!
//! Frames come in from the world through `wire` with `meta.interface` set, and leave to the world through the output `wire`, completion
//! and all; the world gives them to the interface's backend and reports their completion. `lo` (index 1) exists always; its frames go
//! through the `loopback` block and not through here.
//!
//! It refuses to decide anything about a frame but whether its interface exists and is up. It opens no backend: the URL is kept as text.

use crate::arguments::Arguments;
use crate::facts::INTERFACE_INDEX_MAX;
use serde::{Deserialize, Serialize};
use std::any::Any;
use weft_core::table::{Interface, LinkType};
use weft_core::*;
use weft_wire::ethernet::Mac;

/// Most interfaces of a node.
pub const INTERFACES_MAX: usize = 4096;
/// Longest name in bytes (Linux IFNAMSIZ less the zero).
pub const NAME_BYTES_MAX: usize = 15;
/// MTU of `lo`, bytes, as in Linux.
pub const LOOPBACK_MTU: u32 = 65_536;
/// Largest TCP payload that fits an IPv4 packet of 65,535 bytes with timestamps, bytes.
pub const LOOPBACK_GSO_MAX_BYTES: u32 = 65_535 - 20 - 32;

/// No IP packet without a jumbogram option is larger, bytes; what a backend takes beyond it is of no use.
const GSO_BYTES_MAX: u32 = 65_535;

const IN_WIRE: InPort = InPort(0);
const OUT_WIRE: OutPort = OutPort(0);
const OUT_UPPER: OutPort = OutPort(1);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "interfaces",
    summary: "the node's network devices: in from backends and out to them",
    doc: "Frames enter through `wire` with the number of their interface and go on through `upper`; frames that come in through `upper` leave \
          the graph through `wire`. Frames of interfaces that are down or do not exist are dropped (interface-down, unknown-interface). \
          Owns the table of interfaces; `lo` (1) always exists. Names have at most 15 bytes; numbers are never used again.\n\
          Example: bind interfaces:upper ether:lower",
    inputs: &[
        Port::optional("wire", Carries::Ethernet, "frames that a backend received"),
        Port::required("upper", Carries::Ethernet, "frames to send on their interface"),
    ],
    outputs: &[
        Port::outside("wire", Carries::Ethernet, "frames for a backend"),
        Port::required("upper", Carries::Ethernet, "received frames"),
    ],
    procedures: &[
        Named {
            name: "add",
            doc: "name, index?, mac? (drawn at random), mtu? (1500), link? (ethernet or raw), backend?, gso_max_bytes? (0), checksum_offload? \
                  (false), group? (0), up? (true): makes an interface; returns {index, mac}",
        },
        Named { name: "remove", doc: "name: takes an interface away, with its addresses and routes" },
        Named { name: "set", doc: "name, up?, mtu?, group?, mac?, new_name?, gso_max_bytes?, checksum_offload?: changes an interface" },
    ],
    alerts: &[Named { name: "changed", doc: "name, index, event (added, removed, set), up: an interface changed" }],
    counters: &[
        Counter { name: "RxPackets", text: "frames received, all interfaces" },
        Counter { name: "RxBytes", text: "bytes received with link-layer header" },
        Counter { name: "RxDropped", text: "received frames dropped because their interface is down or unknown" },
        Counter { name: "TxPackets", text: "frames sent, all interfaces; a large frame counts once" },
        Counter { name: "TxBytes", text: "bytes sent with link-layer header" },
        Counter { name: "TxDropped", text: "frames to send dropped because their interface is down or unknown" },
    ],
    owns: &[Table::Interfaces],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Interfaces::new(config))) };

#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
struct Counts {
    rx_packets: u64,
    rx_bytes: u64,
    rx_errors: u64,
    rx_dropped: u64,
    tx_packets: u64,
    tx_bytes: u64,
    tx_errors: u64,
    tx_dropped: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    interface: Interface,
    counts: Counts,
}

/// The block.
#[derive(Debug)]
pub struct Interfaces {
    name: String,
    rng: Rng,
    /// By index.
    entries: Vec<Option<Box<Entry>>>,
    by_name: Map<String, u32>,
    next_index: u32,
    counters: [u64; 6],
}

#[derive(Serialize, Deserialize)]
struct Exported {
    next_index: u32,
    entries: Vec<Entry>,
}

impl Interfaces {
    /// A table with `lo`.
    pub fn new(config: &mut Config) -> Interfaces {
        let hasher = KeyedHasher::new(&mut config.rng);
        let mut interfaces = Interfaces {
            name: config.name.clone(),
            rng: config.rng.clone(),
            entries: Vec::new(),
            by_name: Map::with_hasher(hasher),
            next_index: 2,
            counters: [0; 6],
        };
        interfaces.put(Entry {
            interface: Interface {
                index: InterfaceIndex::LOOPBACK,
                name: "lo".to_owned(),
                mac: [0; 6],
                mtu: LOOPBACK_MTU,
                up: true,
                link: LinkType::Loopback,
                group: 0,
                gso_max_bytes: LOOPBACK_GSO_MAX_BYTES,
                checksum_offload: true,
                backend: String::new(),
            },
            counts: Counts::default(),
        });
        interfaces
    }

    fn put(&mut self, entry: Entry) {
        let index = entry.interface.index.0;
        let at = index as usize;
        if self.entries.len() <= at {
            self.entries.resize_with(at + 1, || None);
        }
        self.by_name.insert(entry.interface.name.clone(), index);
        self.next_index = self.next_index.max(index.saturating_add(1));
        self.entries[at] = Some(Box::new(entry));
    }

    fn entry(&self, index: u32) -> Option<&Entry> {
        self.entries.get(index as usize).and_then(Option::as_deref)
    }

    fn entry_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.entries.get_mut(index as usize).and_then(Option::as_deref_mut)
    }

    fn receive(&mut self, frame: &mut Frame) -> Verdict {
        let (index, bytes) = (frame.meta().interface.0, frame.len() as u64);
        let Some(entry) = self.entry_mut(index) else {
            self.counters[2] += 1;
            return Verdict::Drop(Reason::UnknownInterface);
        };
        if !entry.interface.up {
            entry.counts.rx_dropped += 1;
            self.counters[2] += 1;
            return Verdict::Drop(Reason::InterfaceDown);
        }
        entry.counts.rx_packets += 1;
        entry.counts.rx_bytes += bytes;
        self.counters[0] += 1;
        self.counters[1] += bytes;
        frame.meta_mut().direction = Direction::Ingress;
        Verdict::Forward(OUT_UPPER)
    }

    fn transmit(&mut self, frame: &Frame) -> Verdict {
        let (index, bytes) = (frame.meta().interface.0, frame.len() as u64);
        let Some(entry) = self.entry_mut(index).filter(|entry| entry.interface.link != LinkType::Loopback) else {
            self.counters[5] += 1;
            return Verdict::Drop(Reason::UnknownInterface);
        };
        if !entry.interface.up {
            entry.counts.tx_dropped += 1;
            self.counters[5] += 1;
            return Verdict::Drop(Reason::InterfaceDown);
        }
        entry.counts.tx_packets += 1;
        entry.counts.tx_bytes += bytes;
        self.counters[3] += 1;
        self.counters[4] += bytes;
        Verdict::Forward(OUT_WIRE)
    }

    fn changed(&self, interface: &Interface, event: &str, cx: &mut Context<'_>) {
        cx.row_changed(Table::Interfaces, Row::Interface(interface.index));
        let value = serde_json::json!({"name": interface.name, "index": interface.index.0, "event": event, "up": interface.up});
        cx.alert("changed", value);
    }

    fn check_name(&self, arguments: &Arguments<'_>, name: &str) -> Result<(), ControlError> {
        // Linux dev_valid_name: not empty, below IFNAMSIZ, not "." or "..", no '/', ':' or white space.
        let wrong = |c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name == "." || name == ".." || name.contains(wrong) {
            return Err(
                arguments.fail(format!("EINVAL: '{name}' is no interface name: 1 to {NAME_BYTES_MAX} bytes without '/', ':' and spaces"))
            );
        }
        if self.by_name.contains_key(name) {
            return Err(arguments.fail(format!("EEXIST: an interface named '{name}' exists already")));
        }
        Ok(())
    }

    fn add(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        const KNOWN: &[&str] = &["name", "index", "mac", "mtu", "link", "backend", "gso_max_bytes", "checksum_offload", "group", "up"];
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "add", value, KNOWN)?;
        let name = arguments.required("name")?;
        self.check_name(&arguments, name)?;
        if self.by_name.len() >= INTERFACES_MAX {
            return Err(ControlError::Limit { what: "interfaces of one node".to_owned(), max: INTERFACES_MAX as u64 });
        }
        let index = arguments.number("index", 1, INTERFACE_INDEX_MAX)?.unwrap_or(self.next_index);
        if index > INTERFACE_INDEX_MAX {
            return Err(ControlError::Limit { what: "numbers of interfaces".to_owned(), max: u64::from(INTERFACE_INDEX_MAX) });
        }
        if let Some(entry) = self.entry(index) {
            return Err(arguments.fail(format!("EEXIST: the number {index} belongs to '{}'", entry.interface.name)));
        }
        let link = match arguments.text("link")? {
            None | Some("ethernet") => LinkType::Ethernet,
            Some("raw") => LinkType::Raw,
            Some(other) => return Err(arguments.fail(format!("link: '{other}' is none of: ethernet, raw"))),
        };
        let mac = match (arguments.mac("mac")?, link) {
            (Some(mac), LinkType::Ethernet) if !mac.is_unicast() => {
                return Err(arguments.fail(format!("EADDRNOTAVAIL: {mac} is no station's address: it is zero or a group")));
            }
            (Some(mac), _) => mac,
            (None, LinkType::Ethernet) => self.random_mac(),
            (None, _) => Mac::ZERO,
        };
        let interface = Interface {
            index: InterfaceIndex(index),
            name: name.to_owned(),
            mac: mac.0,
            mtu: arguments.number("mtu", 68, 65_535)?.unwrap_or(1500),
            up: arguments.bool("up")?.unwrap_or(true),
            link,
            group: arguments.number("group", 0, u32::MAX)?.unwrap_or(0),
            gso_max_bytes: arguments.number("gso_max_bytes", 0, u32::MAX)?.unwrap_or(0).min(GSO_BYTES_MAX),
            checksum_offload: arguments.bool("checksum_offload")?.unwrap_or(false),
            backend: arguments.text("backend")?.unwrap_or("").to_owned(),
        };
        self.changed(&interface, "added", cx);
        self.put(Entry { interface, counts: Counts::default() });
        Ok(serde_json::json!({"index": index, "mac": mac.to_string()}))
    }

    /// A locally administered address from this block's own random stream.
    fn random_mac(&mut self) -> Mac {
        let mut mac = [0; 6];
        self.rng.fill(&mut mac);
        mac[0] = mac[0] & 0xfc | 0x02;
        Mac(mac)
    }

    fn existing(&self, arguments: &Arguments<'_>) -> Result<u32, ControlError> {
        let value = arguments.value("name").or(arguments.value("index")).ok_or_else(|| arguments.fail("name is missing"))?;
        let by_name = value.as_str().and_then(|name| self.by_name.get(name).copied());
        let by_index = value.as_u64().and_then(|index| u32::try_from(index).ok()).filter(|index| self.entry(*index).is_some());
        by_name.or(by_index).ok_or_else(|| arguments.fail(format!("ENODEV: there is no interface {value}")))
    }

    fn remove(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let arguments = Arguments::new(&self.name, "remove", value, &["name", "index"])?;
        let index = self.existing(&arguments)?;
        if index == InterfaceIndex::LOOPBACK.0 {
            return Err(arguments.fail("EOPNOTSUPP: lo exists always"));
        }
        if let Some(entry) = self.entries.get_mut(index as usize).and_then(Option::take) {
            self.by_name.swap_remove(&entry.interface.name);
            self.changed(&entry.interface, "removed", cx);
        }
        Ok(Value::Null)
    }

    fn set_interface(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        const KNOWN: &[&str] = &["name", "index", "up", "mtu", "group", "mac", "new_name", "gso_max_bytes", "checksum_offload"];
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "set", value, KNOWN)?;
        let index = self.existing(&arguments)?;
        let Some(old) = self.entry(index).map(|entry| entry.interface.clone()) else { return Ok(Value::Null) };
        let mut new = old.clone();
        new.up = arguments.bool("up")?.unwrap_or(old.up);
        let mtu_max = if old.link == LinkType::Loopback { LOOPBACK_MTU } else { 65_535 };
        new.mtu = arguments.number("mtu", 68, mtu_max)?.unwrap_or(old.mtu);
        new.group = arguments.number("group", 0, u32::MAX)?.unwrap_or(old.group);
        new.gso_max_bytes = arguments.number("gso_max_bytes", 0, u32::MAX)?.map_or(old.gso_max_bytes, |bytes| bytes.min(GSO_BYTES_MAX));
        new.checksum_offload = arguments.bool("checksum_offload")?.unwrap_or(old.checksum_offload);
        if let Some(mac) = arguments.mac("mac")? {
            if old.link != LinkType::Ethernet || !mac.is_unicast() {
                return Err(arguments.fail(format!("EADDRNOTAVAIL: {mac} cannot be the address of {}", old.name)));
            }
            new.mac = mac.0;
        }
        if let Some(name) = arguments.text("new_name")?.filter(|name| *name != old.name) {
            self.check_name(&arguments, name)?;
            new.name = name.to_owned();
        }
        if new != old {
            self.changed(&new, "set", cx);
            self.by_name.swap_remove(&old.name);
            self.by_name.insert(new.name.clone(), index);
            if let Some(entry) = self.entry_mut(index) {
                entry.interface = new;
            }
        }
        Ok(Value::Null)
    }

    fn rows(&self) -> Vec<Value> {
        let row = |entry: &Entry| {
            let mut row = serde_json::to_value(&entry.interface).unwrap_or_default();
            row["mac"] = entry.interface.mac().to_string().into();
            if let (Value::Object(row), Ok(Value::Object(counts))) = (&mut row, serde_json::to_value(entry.counts)) {
                row.extend(counts);
            }
            row
        };
        self.entries.iter().flatten().map(|entry| row(entry)).collect()
    }
}

impl Block for Interfaces {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        match port {
            IN_WIRE => vector.each(|frame| self.receive(frame)),
            _ => vector.each(|frame| self.transmit(frame)),
        }
    }

    fn query(&self, query: &Query, _now: Instant) -> Answer {
        let entry = match query {
            Query::Interface(index) => self.entry(index.0),
            Query::InterfaceNamed(name) => self.by_name.get(name).and_then(|index| self.entry(*index)),
            Query::List(Table::Interfaces) => return Answer::List(self.rows()),
            _ => None,
        };
        entry.map_or(Answer::None, |entry| Answer::Interface(Box::new(entry.interface.clone())))
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "add" => self.add(arguments, cx),
            "remove" => self.remove(arguments, cx),
            "set" => self.set_interface(arguments, cx),
            _ => Err(self.kind().no_procedure(&self.name, procedure)),
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, _now: Instant) -> Result<State, StateError> {
        let entries = self.entries.iter().flatten().map(|entry| (**entry).clone()).collect();
        State::write(KIND.name, KIND.state_version, &Exported { next_index: self.next_index, entries })
    }

    fn import(&mut self, state: &State, _now: Instant) -> Result<(), StateError> {
        let read: Exported = state.read(KIND.name, KIND.state_version)?;
        let damaged = |why: &str| StateError::Damaged { kind: KIND.name.to_owned(), why: why.to_owned() };
        if read.entries.len() > INTERFACES_MAX || read.entries.iter().any(|entry| entry.interface.index.0 > INTERFACE_INDEX_MAX) {
            return Err(damaged("too many interfaces, or numbers out of range"));
        }
        if !read.entries.iter().any(|entry| entry.interface.index == InterfaceIndex::LOOPBACK) {
            return Err(damaged("no lo"));
        }
        self.entries.clear();
        self.by_name.clear();
        self.next_index = read.next_index;
        for entry in read.entries {
            self.put(entry);
        }
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
