//! The node's network devices: the way in from backends and out to them, and the owner of the table of interfaces.
//!
//! Frames come in from the world through `wire` with `meta.interface` set, and leave to the world through the output `wire`, completion
//! and all; the world gives them to the interface's backend and reports their completion. `lo` (index 1) exists always; its frames go
//! through the `loopback` block and not through here.
//!
//! It refuses to decide anything about a frame but whether its interface exists and is up. It opens no backend: the URL is kept as text.

mod carrier;
mod change;
mod queue;
mod state;

pub use queue::{QUEUE_KINDS, QUEUES_MAX};

use crate::arguments::Arguments;
use crate::facts::INTERFACE_INDEX_MAX;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weft_core::table::{Interface, InterfaceCounts, InterfaceRow, InterfaceSettings, LinkType, Which};
use weft_core::*;
use weft_wire::ethernet::{HEADER_LEN, Mac};

/// Most interfaces of a node.
pub const INTERFACES_MAX: usize = 131_072;
/// A change of more members of a group than this is told as a change of the whole table.
const MEMBERS_TOLD_MAX: usize = 8192;
/// Longest alias, bytes (Linux IFALIASZ less the zero).
pub const ALIAS_BYTES_MAX: usize = 255;
/// Longest name in bytes (Linux IFNAMSIZ less the zero).
pub const NAME_BYTES_MAX: usize = 15;
/// MTU of `lo`, bytes, as in Linux.
pub const LOOPBACK_MTU: u32 = 65_536;
/// Smallest MTU of any, bytes (Linux ETH_MIN_MTU).
pub const MTU_MIN: u32 = 68;
/// Largest of all but `lo`, bytes (Linux ETH_MAX_MTU).
pub const MTU_MAX: u32 = 65_535;
/// Largest TCP payload that fits an IPv4 packet of 65,535 bytes with timestamps, bytes.
pub const LOOPBACK_GSO_MAX_BYTES: u32 = 65_535 - 20 - 32;

/// No IP packet without a jumbogram option is larger, bytes; what a backend takes beyond it is of no use.
const GSO_BYTES_MAX: u32 = 65_535;

const IN_WIRE: InPort = InPort(0);
const OUT_WIRE: OutPort = OutPort(0);
const OUT_UPPER: OutPort = OutPort(1);
const OUT_TAPS: OutPort = OutPort(2);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "interfaces",
    summary: "the node's network devices: in from backends and out to them",
    doc: "Frames enter through `wire` with the number of their interface and go on through `upper`; frames that come in through `upper` leave \
          the graph through `wire`. Frames of interfaces that are down or do not exist are dropped (interface-down, unknown-interface), \
          and those to be sent where there is no carrier (no-carrier). \
          Owns the table of interfaces; `lo` (1) always exists. Names have at most 15 bytes; numbers are never used again. While somebody wants \
          all frames (WantFrames), copies of those that come in and go out leave through `taps`.\n\
          Example: bind interfaces:upper ether:lower",
    inputs: &[
        Port::optional("wire", Carries::Ethernet, "frames that a backend received"),
        Port::required("upper", Carries::Ethernet, "frames to send on their interface"),
    ],
    outputs: &[
        Port::outside("wire", Carries::Ethernet, "frames for a backend"),
        Port::required("upper", Carries::Ethernet, "received frames"),
        Port::optional("taps", Carries::Ethernet, "copies of received and sent frames, for packet sockets"),
    ],
    procedures: &[
        Named {
            name: "add",
            doc: "name, index?, mac? (drawn at random), mtu? (1500), link? (ethernet or raw), backend?, gso_max_bytes? (0), checksum_offload? \
                  (false), group? (0), up? (true), carrier? (true), count?: makes an interface; returns {index, mac}. With count so many as one: name0, name1 …, with \
                  addresses drawn at random; returns {index} of the first. A stack in real time opens the backend, and takes what a stack file says of \
                  it too: host_address?, offload?, coalesce?; where nobody opens one, it is refused. Without one the interface leads nowhere",
        },
        Named {
            name: "remove",
            doc: "name, or of_group: takes an interface away, or all of a group, with their addresses and routes; all of them or none",
        },
        Named {
            name: "set",
            doc: "name, or of_group (a number); up?, mtu?, group?, mac?, new_name?, gso_max_bytes?, checksum_offload?, tx_queue_packets?, alias?, arp?, \
                  multicast?, promiscuous?, all_multicast?, dynamic?: changes an interface, or all of a group: every member or, with the name of \
                  the one that cannot, none. With report = true it returns the names of those that changed, with dry_run = true of those that would",
        },
        Named {
            name: "carrier",
            doc: "name or index, carrier: the other end of what is behind the interface answers from now on, or does not. The world tells it; an interface \
                  that leads nowhere has a carrier always",
        },
        Named {
            name: "queue",
            doc: "event (put, change, delete), name or index of the interface, kind (fifo, netem, tbf)?, handle?, parameters?: puts a queue in front of an interface in \
                  place of the one that there is, gives it other parameters, or takes it away, as tc does. It is ordered, and returns {request}",
        },
        Named { name: "queue_outcome", doc: "request: what came of it; once" },
    ],
    alerts: &[
        Named {
            name: "changed",
            doc: "name, index, event (added, removed, set), up, row (of one that is removed: all that it was): an interface changed",
        },
        Named {
            name: "group_changed",
            doc: "group, event (added, removed, set), members (their numbers), rows (of those that are removed: all that they were): interfaces of a \
                  group changed as one",
        },
        Named {
            name: "queue",
            doc: "event (put, changed, deleted), index, interface, queue (kind and parameters), old: the queue of an interface changed",
        },
    ],
    counters: &[
        Counter { name: "RxPackets", text: "frames received, all interfaces" },
        Counter { name: "RxBytes", text: "bytes received with link-layer header" },
        Counter { name: "RxDropped", text: "received frames dropped because their interface is down or unknown" },
        Counter { name: "TxPackets", text: "frames sent, all interfaces; a large frame counts once" },
        Counter { name: "TxBytes", text: "bytes sent with link-layer header" },
        Counter { name: "TxDropped", text: "frames to send dropped because their interface is down, without carrier, or unknown" },
        Counter { name: "QueuesPut", text: "queues put in front of an interface" },
        Counter { name: "QueuesDeleted", text: "queues taken away upon request" },
        Counter { name: "QueuesRefused", text: "requests for queues that could not be met: too many, or a wrong graph or parameter" },
    ],
    owns: &[Table::Interfaces],
    state_version: 4,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Interfaces::new(config))) };

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    interface: Interface,
    settings: InterfaceSettings,
    counts: InterfaceCounts,
    /// The world says that the other end answers.
    signal: bool,
}

/// The block.
#[derive(Debug)]
pub struct Interfaces {
    name: String,
    rng: Rng,
    /// By index.
    entries: Vec<Option<Box<Entry>>>,
    by_name: Map<String, u32>,
    /// Those of the groups but 0, which most are in.
    groups: BTreeMap<u32, BTreeSet<u32>>,
    next_index: u32,
    counters: [u64; 9],
    requests: queue::Requests,
    leaving: VecDeque<Leaving>,
    /// Somebody wants a copy of each frame.
    tapped: bool,
}

/// Interfaces that are gone, of which is told when all other blocks have heard it: what they say of addresses and neighbours comes before.
#[derive(Debug)]
struct Leaving {
    /// Of which other blocks hear last; none: of the whole table.
    last: Option<InterfaceIndex>,
    alert: &'static str,
    value: Value,
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
            groups: BTreeMap::new(),
            next_index: 2,
            counters: [0; 9],
            requests: queue::Requests::default(),
            leaving: VecDeque::new(),
            tapped: false,
        };
        interfaces.put(Entry {
            interface: Interface {
                index: InterfaceIndex::LOOPBACK,
                name: "lo".to_owned(),
                mac: [0; 6],
                mtu: LOOPBACK_MTU,
                up: true,
                carrier: true,
                link: LinkType::Loopback,
                group: 0,
                gso_max_bytes: LOOPBACK_GSO_MAX_BYTES,
                checksum_offload: true,
                backend: String::new(),
            },
            settings: InterfaceSettings::default(),
            counts: InterfaceCounts::default(),
            signal: true,
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
        self.move_to_group(index, 0, entry.interface.group);
        self.entries[at] = Some(Box::new(entry));
    }

    /// Keeps the members of the groups by number.
    fn move_to_group(&mut self, index: u32, from: u32, to: u32) {
        if let Some(members) = self.groups.get_mut(&from) {
            members.remove(&index);
            if members.is_empty() {
                self.groups.remove(&from);
            }
        }
        if to != 0 {
            self.groups.entry(to).or_default().insert(index);
        }
    }

    /// The members of a group, by index.
    fn members(&self, group: u32) -> Vec<u32> {
        match group {
            0 => self.entries.iter().flatten().filter(|entry| entry.interface.group == 0).map(|entry| entry.interface.index.0).collect(),
            group => self.groups.get(&group).into_iter().flatten().copied().collect(),
        }
    }

    /// The interfaces that are asked for, with everything that is known of them.
    fn rows_of(&self, which: &Which) -> Vec<InterfaceRow> {
        let row =
            |entry: &Entry| InterfaceRow { interface: entry.interface.clone(), settings: entry.settings.clone(), counts: entry.counts };
        let one = |index: u32| self.entry(index).map(row);
        match which {
            Which::All => self.entries.iter().flatten().map(|entry| row(entry)).collect(),
            Which::Index(index) => one(index.0).into_iter().collect(),
            Which::Named(name) => self.by_name.get(name).and_then(|index| one(*index)).into_iter().collect(),
            Which::Group(group) => self.members(*group).into_iter().filter_map(one).collect(),
        }
    }

    fn entry(&self, index: u32) -> Option<&Entry> {
        self.entries.get(index as usize).and_then(Option::as_deref)
    }

    fn entry_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.entries.get_mut(index as usize).and_then(Option::as_deref_mut)
    }

    /// A copy for packet sockets. Whom its end is to be told, it tells them alone: who sent it himself does not get it.
    fn tap(frame: &Frame, cx: &mut Context<'_>) {
        let mut copy = frame.clone();
        if let Some(completion) = &mut copy.meta_mut().completion {
            completion.bytes = 0;
        }
        cx.emit(OUT_TAPS, copy);
    }

    fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
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
        if self.tapped {
            Interfaces::tap(frame, cx);
        }
        Verdict::Forward(OUT_UPPER)
    }

    fn transmit(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        let (index, bytes) = (frame.meta().interface.0, frame.len() as u64);
        if index == InterfaceIndex::LOOPBACK.0 {
            return self.loop_back(frame, cx);
        }
        let Some(entry) = self.entry_mut(index).filter(|entry| entry.interface.link != LinkType::Loopback) else {
            self.counters[5] += 1;
            return Verdict::Drop(Reason::UnknownInterface);
        };
        if !entry.interface.up {
            entry.counts.tx_dropped += 1;
            self.counters[5] += 1;
            return Verdict::Drop(Reason::InterfaceDown);
        }
        if !entry.interface.carrier {
            entry.counts.tx_dropped += 1;
            self.counters[5] += 1;
            return Verdict::Drop(Reason::NoCarrier);
        }
        entry.counts.tx_packets += 1;
        entry.counts.tx_bytes += bytes;
        self.counters[3] += 1;
        self.counters[4] += bytes;
        if self.tapped {
            frame.meta_mut().direction = Direction::Egress;
            Interfaces::tap(frame, cx);
        }
        Verdict::Forward(OUT_WIRE)
    }

    /// A frame that a packet socket sends on `lo`: it comes in again. What IP sends there goes through the loopback blocks.
    fn loop_back(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        if !self.entry(InterfaceIndex::LOOPBACK.0).is_some_and(|entry| entry.interface.up) {
            self.counters[5] += 1;
            return Verdict::Drop(Reason::InterfaceDown);
        }
        for direction in [Direction::Egress, Direction::Ingress] {
            frame.meta_mut().direction = direction;
            if self.tapped {
                Interfaces::tap(frame, cx);
            }
            // Its way out is over.
            if let Some(completion) = frame.take_completion() {
                cx.complete(completion);
            }
        }
        match frame.pull(HEADER_LEN) {
            Ok(()) => Verdict::Forward(OUT_UPPER),
            Err(_) => Verdict::Drop(Reason::Truncated),
        }
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
            return Err(arguments.fail(Refused::invalid(format!(
                "'{name}' is no interface name: 1 to {NAME_BYTES_MAX} bytes without '/', ':' and spaces"
            ))));
        }
        if self.by_name.contains_key(name) {
            return Err(arguments.fail(Refused::exists(format!("an interface named '{name}' exists already"))));
        }
        Ok(())
    }

    /// The procedure. Nobody has opened what it says, or it would be [`Interfaces::attach`] that is called.
    fn add(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match value.get("backend").and_then(Value::as_str) {
            None | Some("") => self.attach(value, cx),
            Some(url) => Err(ControlError::ExecFailed {
                block: self.name.clone(),
                procedure: "add".to_owned(),
                why: Refused::unsupported(format!(
                    "backend: nobody here opens '{url}': a stack in real time (weft up) does, for a command of its own \
                     (weft exec interfaces add) or a stack file (weft apply); in virtual time interfaces are ends of the scenario's wires"
                )),
            }),
        }
    }

    /// Makes an interface whose other side the world has: the arguments of the procedure `add`, with `backend`.
    ///
    /// # Errors
    /// As of the procedure.
    pub fn attach(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        const KNOWN: &[&str] =
            &["name", "index", "mac", "mtu", "link", "backend", "gso_max_bytes", "checksum_offload", "group", "up", "carrier", "count"];
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "add", value, KNOWN)?;
        let name = arguments.required("name")?;
        if let Some(count) = arguments.number("count", 1, INTERFACES_MAX as u32)? {
            return self.add_many(&arguments, name, count, cx);
        }
        self.check_name(&arguments, name)?;
        if self.by_name.len() >= INTERFACES_MAX {
            return Err(ControlError::Limit { what: "interfaces of one node".to_owned(), max: INTERFACES_MAX as u64 });
        }
        let index = arguments.number("index", 1, INTERFACE_INDEX_MAX)?.unwrap_or(self.next_index);
        if index > INTERFACE_INDEX_MAX {
            return Err(ControlError::Limit { what: "numbers of interfaces".to_owned(), max: u64::from(INTERFACE_INDEX_MAX) });
        }
        if let Some(entry) = self.entry(index) {
            return Err(arguments.fail(Refused::exists(format!("the number {index} belongs to '{}'", entry.interface.name))));
        }
        let link = match arguments.text("link")? {
            None | Some("ethernet") => LinkType::Ethernet,
            Some("raw") => LinkType::Raw,
            Some(other) => return Err(arguments.fail(format!("link: '{other}' is none of: ethernet, raw"))),
        };
        let mac = match (arguments.mac("mac")?, link) {
            (Some(mac), LinkType::Ethernet) if !mac.is_unicast() => {
                return Err(arguments.fail(Refused::address_not_available(format!("{mac} is no station's address: it is zero or a group"))));
            }
            (Some(mac), _) => mac,
            (None, LinkType::Ethernet) => self.random_mac(),
            (None, _) => Mac::ZERO,
        };
        let interface = Interface {
            index: InterfaceIndex(index),
            name: name.to_owned(),
            mac: mac.0,
            mtu: arguments.number("mtu", MTU_MIN, MTU_MAX)?.unwrap_or(1500),
            up: arguments.bool("up")?.unwrap_or(true),
            link,
            group: arguments.number("group", 0, u32::MAX)?.unwrap_or(0),
            gso_max_bytes: arguments.number("gso_max_bytes", 0, u32::MAX)?.unwrap_or(0).min(GSO_BYTES_MAX),
            checksum_offload: arguments.bool("checksum_offload")?.unwrap_or(false),
            backend: arguments.text("backend")?.unwrap_or("").to_owned(),
            carrier: false,
        };
        self.changed(&interface, "added", cx);
        self.put(Entry::new(interface, arguments.bool("carrier")?.unwrap_or(true)));
        Ok(serde_json::json!({"index": index, "mac": mac.to_string()}))
    }

    /// Makes many interfaces of one kind, as one change.
    fn add_many(&mut self, arguments: &Arguments<'_>, name: &str, count: u32, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        if let Some(single) = ["index", "mac", "link", "backend", "carrier"].into_iter().find(|single| arguments.value(single).is_some()) {
            return Err(arguments.fail(format!("{single}: many interfaces cannot all have it; leave it out")));
        }
        let over = self.by_name.len() + count as usize > INTERFACES_MAX || self.next_index.saturating_add(count) > INTERFACE_INDEX_MAX;
        if over {
            return Err(ControlError::Limit { what: "interfaces of one node".to_owned(), max: INTERFACES_MAX as u64 });
        }
        (0..count).try_for_each(|number| self.check_name(arguments, &format!("{name}{number}")))?;
        let plain = Interface {
            index: InterfaceIndex::NONE,
            name: String::new(),
            mac: [0; 6],
            mtu: arguments.number("mtu", MTU_MIN, MTU_MAX)?.unwrap_or(1500),
            up: arguments.bool("up")?.unwrap_or(true),
            link: LinkType::Ethernet,
            group: arguments.number("group", 0, u32::MAX)?.unwrap_or(0),
            gso_max_bytes: arguments.number("gso_max_bytes", 0, u32::MAX)?.unwrap_or(0).min(GSO_BYTES_MAX),
            checksum_offload: arguments.bool("checksum_offload")?.unwrap_or(false),
            backend: String::new(),
            carrier: true,
        };
        let first = self.next_index;
        let group = plain.group;
        for number in 0..count {
            let (index, mac) = (InterfaceIndex(first + number), self.random_mac().0);
            let interface = Interface { index, name: format!("{name}{number}"), mac, ..plain.clone() };
            self.put(Entry::new(interface, true));
        }
        let members: Vec<u32> = (first..first + count).collect();
        self.group_changed(group, "added", &members, cx);
        Ok(serde_json::json!({"index": first}))
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
        by_name.or(by_index).ok_or_else(|| arguments.fail(Refused::no_device(format!("there is no interface {value}"))))
    }

    fn remove(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "remove", value, &["name", "index", "of_group"])?;
        let group = change::of_group(&arguments)?;
        let targets = match group {
            // rtnl_group_dellink: "if (!group) return -EPERM;"
            Some(0) => return Err(arguments.fail(Refused::not_permitted("group 0 is everything that is in no other"))),
            Some(group) => self.members(group),
            None => vec![self.existing(&arguments)?],
        };
        if targets.is_empty() {
            return Err(arguments.fail(Refused::no_device("the group has no members")));
        }
        if targets.contains(&InterfaceIndex::LOOPBACK.0) {
            return Err(arguments.fail(Refused::unsupported("lo exists always")));
        }
        let mut gone = Vec::with_capacity(targets.len());
        for index in &targets {
            let Some(entry) = self.entries.get_mut(*index as usize).and_then(Option::take) else { continue };
            self.by_name.swap_remove(&entry.interface.name);
            self.move_to_group(*index, entry.interface.group, 0);
            gone.push(InterfaceRow { interface: entry.interface, settings: entry.settings, counts: entry.counts });
        }
        self.leave(group, &targets, gone, cx);
        Ok(Value::Null)
    }

    /// unregister_netdevice_many_notify: those that were up go down (dev_close_many), then what they had goes, and at last they do.
    fn leave(&mut self, group: Option<u32>, members: &[u32], mut gone: Vec<InterfaceRow>, cx: &mut Context<'_>) {
        let mut closed = Vec::new();
        for row in gone.iter_mut().filter(|row| row.interface.up) {
            row.interface.up = false;
            row.interface.carrier &= row.interface.backend.is_empty();
            closed.push(row.clone());
        }
        let told = |row: &InterfaceRow, event: &str| {
            let Interface { name, index, up, .. } = &row.interface;
            serde_json::json!({"name": name, "index": index.0, "event": event, "up": up, "row": row})
        };
        match group {
            None => {
                closed.iter().for_each(|row| cx.alert("changed", told(row, "set")));
                for row in &gone {
                    let index = row.interface.index;
                    self.leaving.push_back(Leaving { last: Some(index), alert: "changed", value: told(row, "removed") });
                    cx.changed_and_back(Table::Interfaces, Some(Row::Interface(index)));
                }
            }
            Some(group) => {
                let told = |event: &str, rows: &[InterfaceRow]| {
                    let members: Vec<u32> = rows.iter().map(|row| row.interface.index.0).collect();
                    serde_json::json!({"group": group, "event": event, "members": members, "rows": rows})
                };
                if !closed.is_empty() {
                    cx.alert("group_changed", told("set", &closed));
                }
                let last = members.last().filter(|_| members.len() <= MEMBERS_TOLD_MAX).map(|index| InterfaceIndex(*index));
                self.leaving.push_back(Leaving { last, alert: "group_changed", value: told("removed", &gone) });
                match last {
                    None => cx.changed_and_back(Table::Interfaces, None),
                    Some(_) => {
                        members
                            .iter()
                            .for_each(|index| cx.changed_and_back(Table::Interfaces, Some(Row::Interface(InterfaceIndex(*index)))));
                    }
                }
            }
        }
    }

    /// Every other block has heard of a row's change, or of the table's.
    fn told_all(&mut self, row: Option<InterfaceIndex>, cx: &mut Context<'_>) {
        let at = self.leaving.iter().position(|leaving| leaving.last == row);
        if let Some(Leaving { alert, value, .. }) = at.and_then(|at| self.leaving.remove(at)) {
            cx.alert(alert, value);
        }
    }

    /// Tells of a change of many, with one alert.
    fn group_changed(&self, group: u32, event: &str, members: &[u32], cx: &mut Context<'_>) {
        if members.len() > MEMBERS_TOLD_MAX {
            cx.table_changed(Table::Interfaces);
        } else {
            members.iter().for_each(|index| cx.row_changed(Table::Interfaces, Row::Interface(InterfaceIndex(*index))));
        }
        cx.alert("group_changed", serde_json::json!({"group": group, "event": event, "members": members}));
    }

    /// prepare, then commit: what one interface cannot be leaves all as they are.
    fn set_interface(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "set", value, change::KNOWN)?;
        let wish = change::Wish::read(&arguments)?;
        let group = change::of_group(&arguments)?;
        let targets = match group {
            Some(group) => self.members(group),
            None => vec![self.existing(&arguments)?],
        };
        if group.is_some() && wish.name.is_some() {
            return Err(arguments.fail(Refused::invalid("new_name: members of a group cannot all have one name")));
        }
        let mut plan = Vec::with_capacity(targets.len());
        for index in &targets {
            let Some(entry) = self.entry(*index) else { continue };
            if let Some(name) = wish.name.filter(|name| *name != entry.interface.name) {
                self.check_name(&arguments, name)?;
            }
            let changed = wish.applied(entry.interface.clone(), entry.settings.clone());
            let (interface, settings) = changed.map_err(|why| match group {
                None => arguments.fail(why),
                Some(group) => arguments.fail(why.and(&format!(": member '{}' of group {group}; none is changed", entry.interface.name))),
            })?;
            if interface != entry.interface || settings != entry.settings {
                plan.push((*index, interface, settings));
            }
        }
        let (dry_run, report) = (arguments.bool("dry_run")?.unwrap_or(false), arguments.bool("report")?.unwrap_or(false));
        let told = match dry_run || report {
            true => serde_json::json!({"changed": plan.iter().map(|(_, interface, _)| interface.name.clone()).collect::<Vec<_>>()}),
            false => Value::Null,
        };
        if dry_run {
            return Ok(told);
        }
        let members: Vec<u32> = plan.iter().map(|(index, ..)| *index).collect();
        for (index, interface, settings) in plan {
            let rises = self.commit(index, interface.clone(), settings);
            match group {
                Some(_) => {}
                None if rises => self.tell_rising(&interface, cx),
                None => self.changed(&interface, "set", cx),
            }
        }
        if let Some(group) = group.filter(|_| !members.is_empty()) {
            self.group_changed(group, "set", &members, cx);
        }
        Ok(told)
    }

    /// True: a carrier has come.
    fn commit(&mut self, index: u32, interface: Interface, settings: InterfaceSettings) -> bool {
        let Some(entry) = self.entry_mut(index) else { return false };
        let old = std::mem::replace(&mut entry.interface, interface);
        entry.settings = settings;
        let has_come = entry.settle_carrier() && entry.interface.carrier;
        let (name, group) = (entry.interface.name.clone(), entry.interface.group);
        if name != old.name {
            self.by_name.swap_remove(&old.name);
            self.by_name.insert(name, index);
        }
        if group != old.group {
            self.move_to_group(index, old.group, group);
        }
        has_come
    }

    fn rows(&self) -> Vec<Value> {
        let row = |entry: &Entry| {
            let mut row = serde_json::to_value(&entry.interface).unwrap_or_default();
            row["mac"] = entry.interface.mac().to_string().into();
            for more in [serde_json::to_value(&entry.settings), serde_json::to_value(entry.counts)] {
                if let (Value::Object(row), Ok(Value::Object(more))) = (&mut row, more) {
                    row.extend(more);
                }
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

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        match port {
            IN_WIRE => vector.each(|frame| self.receive(frame, cx)),
            _ => vector.each(|frame| self.transmit(frame, cx)),
        }
    }

    fn change(&mut self, _table: Table, change: Change, cx: &mut Context<'_>) {
        if let Change::WantFrames { wanted } = change {
            self.tapped = wanted;
            // Frames of `lo` are the loopback blocks' to copy.
            cx.row_changed(Table::Interfaces, Row::Interface(InterfaceIndex::LOOPBACK));
        }
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.told_all(None, cx);
        }
    }

    fn row_changed(&mut self, _table: Table, row: Row, cx: &mut Context<'_>) {
        if let Row::Interface(index) = row {
            self.told_all(Some(index), cx);
        }
    }

    fn query(&self, query: &Query, _now: Instant) -> Answer {
        let entry = match query {
            Query::Interface(index) => self.entry(index.0),
            Query::InterfaceNamed(name) => self.by_name.get(name).and_then(|index| self.entry(*index)),
            Query::List(Table::Interfaces) => return Answer::List(self.rows()),
            Query::Interfaces(which) => return Answer::Interfaces(self.rows_of(which)),
            Query::FramesWanted => return Answer::Wanted(self.tapped),
            _ => None,
        };
        entry.map_or(Answer::None, |entry| Answer::Interface(Box::new(entry.interface.clone())))
    }

    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "add" => self.add(arguments, cx),
            "remove" => self.remove(arguments, cx),
            "set" => self.set_interface(arguments, cx),
            "carrier" => self.set_carrier(arguments, cx),
            "queue" => self.queue(arguments, cx),
            "queue_outcome" => self.queue_outcome(arguments),
            _ => Err(self.kind().no_procedure(&self.name, procedure)),
        }
    }

    fn answered(&mut self, serial: u64, result: Result<Value, ControlError>, cx: &mut Context<'_>) {
        self.queue_answered(serial, result, cx);
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, _now: Instant) -> Result<State, StateError> {
        self.write_state()
    }

    fn import(&mut self, state: &State, _now: Instant) -> Result<(), StateError> {
        self.read_state(state)
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
