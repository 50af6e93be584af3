//! The rules of both families: which tables are looked at for which packets, in which order (Linux net/core/fib_rules.c).
//!
//! A walk in the order of priorities. As long as the rules are those that every node has, nobody walks: see [`Rules::are_usual`]. The table local
//! follows from addresses and is looked at before all others, so the rule of priority 0 that leads to it stays.

use crate::arguments::Arguments;
use crate::facts::{FactsCache, find_interface};
use crate::ip::hops;
use crate::ip::routes::Bits;
use std::net::IpAddr;
use weft_core::state::{Damage, Reader};
use weft_core::table::{Family, PROTOCOL_KERNEL, Route, Rule, RuleAction, RuleRow, TABLE_LOCAL, TABLE_MAIN, Traffic};
use weft_core::{Context, ControlError, Frame, InterfaceIndex, Refused, Table, Value};

/// Most rules of a node and family.
pub const RULES_MAX: usize = 1024;
/// IFNAMSIZ, without the zero at the end.
const NAME_BYTES_MAX: usize = 15;
/// Stands for an interface that there is not.
const ABSENT: InterfaceIndex = InterfaceIndex(u32::MAX);
/// The bits of the type of service that are ECN's.
const ECN: u8 = 3;
/// What a rule of IPv4 may ask of the type of service (IPTOS_TOS_MASK).
const TOS_V4: u8 = 0x1e;

/// A packet, as far as rules look at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ip) struct Packet<B> {
    /// All zero: yet to be chosen.
    pub source: B,
    pub destination: B,
    /// The interface that its sender is bound to.
    pub bound: Option<InterfaceIndex>,
    pub traffic: Traffic,
}

impl<B: Bits> Packet<B> {
    /// One of this node of which nothing else is known.
    pub fn to(destination: B, bound: Option<InterfaceIndex>) -> Packet<B> {
        Packet { source: B::ZERO, destination, bound, traffic: Traffic::default() }
    }
}

/// A rule, with what is compared.
#[derive(Clone, Debug)]
pub(in crate::ip) struct Entry<B> {
    pub rule: Rule,
    source: Option<(B, u8)>,
    destination: Option<(B, u8)>,
    /// The number of the interface that the rule names, or [`ABSENT`].
    input: Option<InterfaceIndex>,
    output: Option<InterfaceIndex>,
}

impl<B: Bits> Entry<B> {
    fn new(rule: Rule) -> Result<Entry<B>, Damage> {
        let prefix = |given: Option<(IpAddr, u8)>| match given {
            None => Ok(None),
            Some((address, bits)) => match B::of(address).filter(|_| bits <= B::LENGTH) {
                Some(address) => Ok(Some((address.prefix(bits), bits))),
                None => Err(Damage::new("a rule with a prefix of another family")),
            },
        };
        if matches!(rule.action, RuleAction::Goto(target) if target <= rule.priority) {
            return Err(Damage::new("a rule that leads back"));
        }
        if [&rule.input, &rule.output].into_iter().flatten().any(|name| name.len() > NAME_BYTES_MAX) {
            return Err(Damage::new("a rule with the name of an interface that cannot be"));
        }
        let absent = |name: &Option<String>| name.as_ref().map(|_| ABSENT);
        Ok(Entry {
            source: prefix(rule.source)?,
            destination: prefix(rule.destination)?,
            input: absent(&rule.input),
            output: absent(&rule.output),
            rule,
        })
    }

    /// fib_rule_match, fib4_rule_match, fib6_rule_match.
    pub fn fits(&self, packet: &Packet<B>) -> bool {
        let (rule, traffic) = (&self.rule, &packet.traffic);
        let inside = |prefix: Option<(B, u8)>, address: B| prefix.is_none_or(|(prefix, bits)| address.prefix(bits) == prefix);
        let within = |range: Option<(u16, u16)>, port: u16| range.is_none_or(|(first, last)| (first..=last).contains(&port));
        // Linux: what a node sends itself comes in through lo (flowi_iif = LOOPBACK_IFINDEX).
        let input = if traffic.input == InterfaceIndex::NONE { InterfaceIndex::LOOPBACK } else { traffic.input };
        let fits = self.input.is_none_or(|wanted| wanted == input)
            && self.output.is_none_or(|wanted| packet.bound == Some(wanted))
            && (rule.mark ^ traffic.mark) & rule.mask == 0
            && inside(self.source, packet.source)
            && inside(self.destination, packet.destination)
            && (rule.tos == 0 || rule.tos == traffic.tos & !ECN)
            && (rule.transport == 0 || rule.transport == traffic.protocol)
            && within(rule.source_ports, traffic.ports.0)
            && within(rule.destination_ports, traffic.ports.1);
        fits != rule.not
    }

    /// fib4_rule_suppress, fib6_rule_suppress: does a route not count that was found?
    pub fn suppresses(&self, route: &Route, facts: &FactsCache) -> bool {
        let refuses = route.interface == InterfaceIndex::NONE;
        let short = self.rule.suppress_prefix_bits.is_some_and(|bits| u32::from(route.prefix_bits) <= bits);
        let grouped = |group: u32| facts.peek(route.interface).is_some_and(|facts| facts.group == group);
        !refuses && (short || self.rule.suppress_group.is_some_and(grouped))
    }

    fn row(&self, rules: &Rules<B>) -> RuleRow {
        let target = if let RuleAction::Goto(target) = self.rule.action { Some(target) } else { None };
        RuleRow {
            rule: self.rule.clone(),
            input_absent: self.input == Some(ABSENT),
            output_absent: self.output == Some(ABSENT),
            unresolved: target.is_some_and(|target| rules.first_of(target).is_none()),
        }
    }
}

/// The rules of one family, by priority.
#[derive(Debug)]
pub(in crate::ip) struct Rules<B> {
    entries: Vec<Entry<B>>,
    /// They are those that every node has.
    usual: bool,
    /// One asks for more of a packet than its addresses and its interface.
    looks_inside: bool,
}

impl<B: Bits> Default for Rules<B> {
    fn default() -> Rules<B> {
        let rows = B::RULES.iter().map(|(priority, table)| usual(*priority, *table));
        // Without prefixes nothing can be wrong with them.
        let mut rules = Rules { entries: rows.filter_map(|rule| Entry::new(rule).ok()).collect(), usual: true, looks_inside: false };
        rules.changed();
        rules
    }
}

/// fib_default_rule_add.
fn usual(priority: u32, table: u32) -> Rule {
    Rule { protocol: PROTOCOL_KERNEL, ..Rule::all(priority, RuleAction::Table(table)) }
}

impl<B: Bits> Rules<B> {
    /// What a predecessor wrote, if it knew of rules: its state is newer than `without`.
    pub fn read(from: &mut Reader<'_>, without: u32) -> Result<Rules<B>, Damage> {
        if from.version() <= without { Ok(Rules::default()) } else { Rules::with(from.serialised()?) }
    }

    /// With these rules, which [`Rules::all`] told.
    pub fn with(rules: Vec<Rule>) -> Result<Rules<B>, Damage> {
        let ordered = rules.is_sorted_by_key(|rule| rule.priority);
        if rules.len() > RULES_MAX || !ordered || rules.first() != Some(&usual(0, TABLE_LOCAL)) {
            return Err(Damage::new("rules that a node cannot have"));
        }
        let mut read = Rules { entries: rules.into_iter().map(Entry::new).collect::<Result<_, _>>()?, usual: false, looks_inside: false };
        read.changed();
        Ok(read)
    }

    /// There are only those that every node has: the table main, and after it the table default where the family has one.
    #[inline]
    pub fn are_usual(&self) -> bool {
        self.usual
    }

    /// The answer depends on more than addresses and interface: it cannot be kept under these.
    pub fn look_inside(&self) -> bool {
        self.looks_inside
    }

    /// The rule at a place.
    pub fn get(&self, at: usize) -> Option<&Entry<B>> {
        self.entries.get(at)
    }

    /// The place of the first rule of a priority.
    pub fn first_of(&self, priority: u32) -> Option<usize> {
        let at = self.entries.partition_point(|entry| entry.rule.priority < priority);
        self.entries.get(at).filter(|entry| entry.rule.priority == priority).map(|_| at)
    }

    /// All of them.
    pub fn all(&self) -> Vec<Rule> {
        self.entries.iter().map(|entry| entry.rule.clone()).collect()
    }

    /// All of them, with what is not there.
    pub fn rows(&self) -> Vec<RuleRow> {
        self.entries.iter().map(|entry| entry.row(self)).collect()
    }

    fn changed(&mut self) {
        let plain = |entry: &Entry<B>, (priority, table): &(u32, u32)| {
            let mut rule = entry.rule.clone();
            rule.protocol = PROTOCOL_KERNEL;
            rule == usual(*priority, *table)
        };
        self.usual = self.entries.len() == B::RULES.len() && self.entries.iter().zip(B::RULES).all(|(entry, row)| plain(entry, row));
        self.looks_inside = self.entries.iter().map(|entry| &entry.rule).any(|rule| {
            let ports = rule.source_ports.is_some() || rule.destination_ports.is_some();
            rule.mask != 0 || rule.tos != 0 || rule.transport != 0 || ports
        });
    }

    /// Looks up the interfaces that rules name again.
    pub fn attach(&mut self, cx: &Context<'_>) {
        let number = |name: &Option<String>| name.as_ref().map(|name| find_interface(&Value::from(name.as_str()), cx).unwrap_or(ABSENT));
        for entry in &mut self.entries {
            (entry.input, entry.output) = (number(&entry.rule.input), number(&entry.rule.output));
        }
    }

    /// Linux fib_default_rule_pref: one before the second rule.
    fn next_priority(&self) -> u32 {
        self.entries.get(1).map_or(0, |second| second.rule.priority.saturating_sub(1))
    }

    /// The procedures `rule_add` and `rule_delete`.
    pub fn change(&mut self, block: &str, procedure: &str, value: &Value, cx: &mut Context<'_>) -> Result<(), ControlError> {
        let (event, row) = match procedure {
            "rule_add" => {
                let known = [&ARGUMENTS[..], &["alone"]].concat();
                ("added", self.add(&Arguments::new(block, procedure, value, &known)?, cx)?)
            }
            _ => ("deleted", self.delete(&Arguments::new(block, procedure, value, &ARGUMENTS)?)?),
        };
        cx.table_changed(Table::Routes(B::FAMILY));
        cx.alert("rule", alert(event, B::FAMILY, &row));
        Ok(())
    }

    /// Linux fib_nl_newrule.
    fn add(&mut self, arguments: &Arguments<'_>, cx: &Context<'_>) -> Result<RuleRow, ControlError> {
        let asked = Asked::read::<B>(arguments, self.next_priority())?;
        let (rule, alone) = (asked.rule, arguments.bool("alone")?.unwrap_or(false));
        let action = asked.action.unwrap_or(RuleAction::Table(TABLE_MAIN));
        let rule = Rule { action, ..rule };
        if alone && self.entries.iter().any(|entry| is_same(&entry.rule, &rule)) {
            return Err(arguments.fail(Refused::exists(format!("there is such a rule with priority {}", rule.priority))));
        }
        if self.entries.len() >= RULES_MAX {
            return Err(ControlError::Limit { what: "rules of one node and family".to_owned(), max: RULES_MAX as u64 });
        }
        // Prefixes were read as those of the family, and where a rule leads was looked at.
        let entry = Entry::new(rule).map_err(|damage| arguments.fail(Refused::invalid(format!("{damage:?}"))))?;
        let at = self.entries.partition_point(|other| other.rule.priority <= entry.rule.priority);
        self.entries.insert(at, entry);
        self.attach(cx);
        self.changed();
        self.entries.get(at).map(|entry| entry.row(self)).ok_or_else(|| arguments.fail("it is gone"))
    }

    /// Linux fib_nl_delrule: the first that fits what is said.
    fn delete(&mut self, arguments: &Arguments<'_>) -> Result<RuleRow, ControlError> {
        let asked = Asked::read::<B>(arguments, self.next_priority())?;
        let said = arguments.value("priority").is_some();
        let found = self.entries.iter().position(|entry| asked.means(&entry.rule) && (!said || entry.rule.priority == asked.rule.priority));
        let Some(at) = found else { return Err(arguments.fail(Refused::not_found("no rule fits"))) };
        if at == 0 {
            return Err(arguments.fail(Refused::unsupported("weft looks at the table local before all others: its rule stays")));
        }
        let row = self.entries[at].row(self);
        self.entries.remove(at);
        self.changed();
        Ok(row)
    }
}

/// Linux rule_exists: prefixes and type of service count only if the new one has them, whether it is inverted and where it leads not at all.
fn is_same(there: &Rule, new: &Rule) -> bool {
    let action = |rule: &Rule| match rule.action {
        RuleAction::Goto(_) => RuleAction::Goto(0),
        other => other,
    };
    let as_new = Rule {
        not: new.not,
        action: action(new),
        source: if new.source.is_none() { None } else { there.source },
        destination: if new.destination.is_none() { None } else { there.destination },
        tos: if new.tos == 0 { 0 } else { there.tos },
        ..there.clone()
    };
    action(there) == action(new) && as_new == Rule { action: action(new), ..new.clone() }
}

/// The names of what `rule_add` and `rule_delete` take.
const ARGUMENTS: [&str; 18] = [
    "priority",
    "not",
    "from",
    "to",
    "iif",
    "oif",
    "fwmark",
    "fwmask",
    "tos",
    "ipproto",
    "sport",
    "dport",
    "action",
    "table",
    "target",
    "suppress_prefixlength",
    "suppress_ifgroup",
    "protocol",
];

/// A rule as somebody says it.
struct Asked {
    rule: Rule,
    action: Option<RuleAction>,
    table: Option<u32>,
    /// An action was named, whatever its table or target.
    kind: Option<RuleAction>,
}

impl Asked {
    /// Linux fib_nl2rule.
    fn read<B: Bits>(arguments: &Arguments<'_>, next_priority: u32) -> Result<Asked, ControlError> {
        let number = |name: &str| arguments.number(name, 0, u32::MAX);
        let byte = |name: &str| Ok::<_, ControlError>(arguments.number(name, 0, 255)?.map_or(0, |number| number as u8));
        let priority = number("priority")?.unwrap_or(next_priority);
        let mark = number("fwmark")?;
        let tos = byte("tos")?;
        // The kernel's sentences: programs print them.
        if tos & ECN != 0 {
            return Err(arguments.fail(Refused::invalid("Invalid dsfield (tos): ECN bits must be 0")));
        }
        if B::LENGTH == 32 && tos & !TOS_V4 != 0 {
            return Err(arguments.fail(Refused::invalid("Invalid tos")));
        }
        let table = arguments.number("table", 1, u32::MAX)?;
        let target = arguments.number("target", 0, u32::MAX)?;
        let kind = match arguments.text("action")? {
            None => None,
            Some("table") => Some(RuleAction::Table(table.unwrap_or(TABLE_MAIN))),
            Some("goto") => {
                Some(RuleAction::Goto(target.ok_or_else(|| arguments.fail(Refused::invalid("Missing goto target for action goto")))?))
            }
            Some("nop") => Some(RuleAction::Nop),
            Some("blackhole") => Some(RuleAction::Blackhole),
            Some("unreachable") => Some(RuleAction::Unreachable),
            Some("prohibit") => Some(RuleAction::Prohibit),
            Some(other) => {
                return Err(arguments
                    .fail(Refused::invalid(format!("action: '{other}' is none of: table, goto, nop, blackhole, unreachable, prohibit"))));
            }
        };
        if matches!(kind, Some(RuleAction::Goto(target)) if target <= priority) {
            return Err(arguments.fail(Refused::invalid("Backward goto not supported")));
        }
        let action = kind.or(table.map(RuleAction::Table));
        let rule = Rule {
            not: arguments.bool("not")?.unwrap_or(false),
            source: prefix::<B>(arguments, "from")?,
            destination: prefix::<B>(arguments, "to")?,
            input: interface(arguments, "iif")?,
            output: interface(arguments, "oif")?,
            mark: mark.unwrap_or(0),
            // "if (rule->mark) rule->mark_mask = 0xFFFFFFFF; if (tb[FRA_FWMASK]) …"
            mask: number("fwmask")?.unwrap_or(if mark.unwrap_or(0) != 0 { u32::MAX } else { 0 }),
            tos,
            transport: byte("ipproto")?,
            source_ports: ports(arguments, "sport")?,
            destination_ports: ports(arguments, "dport")?,
            suppress_prefix_bits: number("suppress_prefixlength")?.filter(|bits| *bits <= i32::MAX as u32),
            suppress_group: number("suppress_ifgroup")?.filter(|group| *group != u32::MAX),
            protocol: byte("protocol")?,
            ..Rule::all(priority, RuleAction::Nop)
        };
        Ok(Asked { rule, action, table, kind })
    }

    /// Linux rule_find: what is not said, or said as 0, is any.
    fn means(&self, there: &Rule) -> bool {
        let rule = &self.rule;
        let same_kind = |kind: &RuleAction| std::mem::discriminant(kind) == std::mem::discriminant(&there.action);
        self.kind.as_ref().is_none_or(same_kind)
            && self.table.is_none_or(|table| there.action == RuleAction::Table(table))
            && (rule.input.is_none() || there.input == rule.input)
            && (rule.output.is_none() || there.output == rule.output)
            && (rule.mark == 0 || there.mark == rule.mark)
            && (rule.mask == 0 || there.mask == rule.mask)
            && (rule.source.is_none() || there.source == rule.source)
            && (rule.destination.is_none() || there.destination == rule.destination)
            && (rule.tos == 0 || there.tos == rule.tos)
            && (rule.transport == 0 || there.transport == rule.transport)
            && (rule.source_ports.is_none() || there.source_ports == rule.source_ports)
            && (rule.destination_ports.is_none() || there.destination_ports == rule.destination_ports)
            && (rule.suppress_prefix_bits.is_none() || there.suppress_prefix_bits == rule.suppress_prefix_bits)
            && (rule.suppress_group.is_none() || there.suppress_group == rule.suppress_group)
            && (rule.protocol == 0 || there.protocol == rule.protocol)
    }
}

/// A prefix of the family with what is behind it; none: every address.
fn prefix<B: Bits>(arguments: &Arguments<'_>, name: &str) -> Result<Option<(IpAddr, u8)>, ControlError> {
    let Some(text) = arguments.text(name)? else { return Ok(None) };
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let bits = bits.map_or(Ok(B::LENGTH), str::parse);
    match (address.parse::<IpAddr>(), bits) {
        (Ok(address), Ok(bits)) if B::of(address).is_some() && bits <= B::LENGTH => Ok((bits > 0).then_some((address, bits))),
        _ => Err(arguments.fail(Refused::invalid(format!("{name}: '{text}' is no prefix of this family")))),
    }
}

/// The name of an interface, which need not be there.
fn interface(arguments: &Arguments<'_>, name: &str) -> Result<Option<String>, ControlError> {
    let given = arguments.text(name)?.filter(|given| !given.is_empty());
    match given {
        Some(given) if given.len() > NAME_BYTES_MAX => {
            Err(arguments.fail(Refused::invalid(format!("{name}: '{given}' has more than {NAME_BYTES_MAX} bytes"))))
        }
        given => Ok(given.map(str::to_owned)),
    }
}

/// `first-last`, or one port. Linux fib_rule_port_range_valid: neither 0 nor 65535.
fn ports(arguments: &Arguments<'_>, name: &str) -> Result<Option<(u16, u16)>, ControlError> {
    let Some(value) = arguments.value(name) else { return Ok(None) };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if first != 0 && first <= last && last < u16::MAX => Ok(Some((first, last))),
        _ => Err(arguments.fail(Refused::invalid(format!("Invalid {name} range")))),
    }
}

/// Protocols that have ports where the kernel's traffic dissector finds them: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// The four bytes that stand `at` bytes into a frame: no copy of more than them.
pub(in crate::ip) fn four_at(frame: &Frame, at: usize) -> Option<[u8; 4]> {
    if let Some(four) = frame.head().get(at..).and_then(|bytes| bytes.first_chunk()) {
        return Some(*four);
    }
    let mut bytes = frame.chunks().flatten().skip(at).copied();
    Some([bytes.next()?, bytes.next()?, bytes.next()?, bytes.next()?])
}

/// Ports by a protocol and the first bytes of what stands above IP.
pub(in crate::ip) fn ports_of(protocol: u8, above: Option<&[u8; 4]>) -> (u16, u16) {
    match above.filter(|_| WITH_PORTS.contains(&protocol)) {
        Some([a, b, c, d]) => (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])),
        None => (0, 0),
    }
}

/// What rules may look at of a frame that this node sends and that has no IP header yet.
pub(in crate::ip) fn traffic_of(frame: &Frame) -> Traffic {
    let meta = frame.meta();
    let protocol = meta.protocol.0;
    let ports = ports_of(protocol, frame.head().first_chunk());
    let (input, about) = (InterfaceIndex::NONE, hops::about(frame, 0, protocol));
    Traffic { input, mark: meta.mark, tos: meta.tos, protocol, ports, label: 0, about }
}

/// A rule that came or went, for who subscribes.
fn alert(event: &str, family: Family, row: &RuleRow) -> Value {
    let mut alert = serde_json::json!(row);
    alert["event"] = event.into();
    alert["v6"] = (family == Family::V6).into();
    alert
}
