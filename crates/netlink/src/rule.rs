//! RTM_*RULE: the rules that say which table of routes is looked at for which packets.

use crate::Tables;
use crate::errno::{EAFNOSUPPORT, EEXIST, EINVAL, ENOENT, Refusal, number_of};
use crate::message::{Attributes, INET, INET6, IP6MR, IPMR, Message, UNSPEC, byte, word};
use crate::packet::{NLM_F_EXCL, Reply, Request};
use serde_json::{Value, json};
use std::net::IpAddr;
use weft_core::table::{Answer, Family, PROTOCOL_KERNEL, Query, RuleAction, RuleRow, Table};

pub(crate) const NEWRULE: u16 = 32;
pub(crate) const DELRULE: u16 = 33;
const GETRULE: u16 = 34;
/// Bytes of `struct fib_rule_hdr`.
const FIXED_BYTES: usize = 12;
/// Rules of IPv4 that every node has.
const USUAL: usize = 3;
/// RT_TABLE_COMPAT: the number does not fit into a byte.
const TABLE_ELSEWHERE: u8 = 252;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
/// Names of attributes for what a look-up here does not know.
const LACKING: [(u16, &str); 10] = [
    (11, "has no realms"),
    (12, "has no tunnels whose number a rule could look at"),
    (19, "has no layer 3 master devices"),
    (20, "has no rules by user"),
    (25, "has no rules by DSCP; say tos"),
    (26, "has no rules by flow label"),
    (27, "has no rules by flow label"),
    (28, "has no rules by masked ports"),
    (29, "has no rules by masked ports"),
    (30, "has no rules by DSCP; say tos"),
];

const FIB_RULE_INVERT: u32 = 2;
const FIB_RULE_UNRESOLVED: u32 = 4;
const FIB_RULE_IIF_DETACHED: u32 = 8;
const FIB_RULE_OIF_DETACHED: u32 = 0x10;

/// FR_ACT_*, and what the block calls it.
const ACTIONS: [(u8, &str); 6] = [(1, "table"), (2, "goto"), (3, "nop"), (6, "blackhole"), (7, "unreachable"), (8, "prohibit")];

pub(crate) fn answer(request: &Request<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let family = byte(request.body, 0);
    if request.kind == GETRULE {
        let mut of = |family| -> Vec<Message> { all(family, tables).iter().map(|row| message(row, family, NEWRULE)).collect() };
        return Ok(match family {
            UNSPEC => Reply::Dump([of(Family::V4), vec![of_multicast(IPMR), of_multicast(IP6MR)], of(Family::V6)].concat(), false),
            INET => Reply::Dump(of(Family::V4), false),
            INET6 => Reply::Dump(of(Family::V6), false),
            IPMR | IP6MR => Reply::Dump(vec![of_multicast(family)], false),
            _ => Reply::DumpFailed(Refusal::plain(EAFNOSUPPORT)),
        });
    }
    let family = match family {
        INET => Family::V4,
        INET6 => Family::V6,
        _ => return Err(Refusal::said(EAFNOSUPPORT, "Rule family not supported")),
    };
    let attributes = Attributes::of(request.body, FIXED_BYTES);
    let adds = request.kind == NEWRULE;
    let mut arguments = read(request.body, &attributes, family, adds)?;
    if adds && request.has(NLM_F_EXCL) {
        arguments["alone"] = true.into();
    }
    let block = if family == Family::V4 { "ip4" } else { "ip6" };
    let procedure = if adds { "rule_add" } else { "rule_delete" };
    tables.exec(block, procedure, arguments).map_err(|error| refusal(&number_of(&error)))?;
    Ok(Reply::Done)
}

/// ipmr_rules_init, ip6mr_rules_init: the one rule of multicast routing, which everybody has.
fn of_multicast(family: u8) -> Message {
    const TABLE_DEFAULT: u8 = 253;
    const TABLE_MAIN: u8 = 254;
    const TO_TABLE: u8 = 1;
    let table = if family == IPMR { TABLE_DEFAULT } else { TABLE_MAIN };
    let mut message = Message::new(NEWRULE, &[family, 0, 0, 0, table, 0, 0, TO_TABLE, 0, 0, 0, 0]);
    message.u32(FRA_TABLE, table.into());
    message.u32(FRA_SUPPRESS_PREFIXLEN, u32::MAX);
    message.u8(FRA_PROTOCOL, PROTOCOL_KERNEL);
    message.u32(FRA_PRIORITY, 0x7fff);
    message
}

fn refusal((errno, why): &(i32, String)) -> Refusal {
    match *errno {
        EEXIST | ENOENT => Refusal::plain(*errno),
        // The block has some of the kernel's sentences; its own are those of an argument or begin with weft.
        _ if why.starts_with(char::is_uppercase) || why.starts_with("weft ") => Refusal::said(*errno, why.clone()),
        _ => Refusal::said(*errno, format!("weft: {why}")),
    }
}

fn all(family: Family, tables: &mut dyn Tables) -> Vec<RuleRow> {
    match tables.ask(Table::Routes(family), &Query::Rules) {
        Answer::Rules(rows) => rows,
        _ => Vec::new(),
    }
}

/// Are there but the rules that every node has? The kernel keeps the tables local and main as one until the first other rule of IPv4, and calls it main.
pub(crate) fn are_usual(tables: &mut dyn Tables) -> bool {
    let rows = all(Family::V4, tables);
    rows.len() == USUAL && rows.iter().all(|row| row.rule.protocol == PROTOCOL_KERNEL)
}

/// fib_nl2rule: a request as arguments of the block's procedure.
fn read(body: &[u8], attributes: &Attributes<'_>, family: Family, adds: bool) -> Result<Value, Refusal> {
    if body.len() < FIXED_BYTES {
        return Err(Refusal::said(EINVAL, "Invalid msg length"));
    }
    if let Some(what) = attributes.any(&LACKING) {
        return Err(Refusal::lacking(what));
    }
    let flags = word(body, 8);
    if flags & !(FIB_RULE_INVERT | FIB_RULE_UNRESOLVED | FIB_RULE_IIF_DETACHED | FIB_RULE_OIF_DETACHED) != 0 {
        return Err(Refusal::lacking(&format!("has no rules with flags {flags:#x}")));
    }
    let mut arguments = json!({"not": flags & FIB_RULE_INVERT != 0, "tos": byte(body, 3)});
    for (name, kind, bits, text) in
        [("from", FRA_SRC, byte(body, 2), "Invalid source address"), ("to", FRA_DST, byte(body, 1), "Invalid dst address")]
    {
        if bits > 0 {
            let address =
                attributes.address(kind).filter(|address| Family::of(*address) == family && bits <= crate::local::width(*address));
            let address: IpAddr = address.ok_or(Refusal::said(EINVAL, text))?;
            arguments[name] = format!("{address}/{bits}").into();
        }
    }
    let numbers = [
        ("priority", FRA_PRIORITY),
        ("fwmark", FRA_FWMARK),
        ("fwmask", FRA_FWMASK),
        ("target", FRA_GOTO),
        ("suppress_prefixlength", FRA_SUPPRESS_PREFIXLEN),
        ("suppress_ifgroup", FRA_SUPPRESS_IFGROUP),
    ];
    for (name, kind) in numbers {
        if let Some(number) = attributes.u32(kind) {
            arguments[name] = number.into();
        }
    }
    for (name, kind) in [("ipproto", FRA_IP_PROTO), ("protocol", FRA_PROTOCOL)] {
        if let Some(number) = attributes.get(kind) {
            arguments[name] = byte(number, 0).into();
        }
    }
    for (name, kind) in [("iif", FRA_IIFNAME), ("oif", FRA_OIFNAME)] {
        if attributes.has(kind) {
            arguments[name] = attributes.text(kind).ok_or(Refusal::plain(EINVAL))?.into();
        }
    }
    for (name, kind) in [("sport", FRA_SPORT_RANGE), ("dport", FRA_DPORT_RANGE)] {
        if let Some(range) = attributes.get(kind) {
            let [first, last] = [0, 2].map(|at| u16::from_ne_bytes([byte(range, at), byte(range, at + 1)]));
            arguments[name] = format!("{first}-{last}").into();
        }
    }
    act(body, attributes, family, adds, &mut arguments)?;
    Ok(arguments)
}

/// What the rule does, and with which table.
fn act(body: &[u8], attributes: &Attributes<'_>, family: Family, adds: bool, arguments: &mut Value) -> Result<(), Refusal> {
    let table = attributes.u32(FRA_TABLE).unwrap_or_else(|| byte(body, 4).into());
    let number = byte(body, 7);
    let word = ACTIONS.iter().find(|(known, _)| *known == number).map(|(_, word)| *word);
    match word {
        Some("table") if adds && table == 0 => {
            // fib4_rule_configure takes the first table that is empty; fib6_rule_configure does not.
            return Err(match family {
                Family::V4 => Refusal::lacking("chooses no table for a rule: name one"),
                Family::V6 => Refusal::said(EINVAL, "Invalid table"),
            });
        }
        Some(word) => arguments["action"] = word.into(),
        None if number == 0 && !adds => {}
        None => return Err(Refusal::lacking(&format!("has no rules with action {number}"))),
    }
    if table != 0 {
        arguments["table"] = table.into();
    }
    Ok(())
}

/// fib_nl_fill_rule, fib4_rule_fill, fib6_rule_fill.
pub(crate) fn message(row: &RuleRow, family: Family, kind: u16) -> Message {
    let rule = &row.rule;
    let (number, table, target) = match rule.action {
        RuleAction::Table(table) => (1, table, None),
        RuleAction::Goto(target) => (2, 0, Some(target)),
        RuleAction::Nop => (3, 0, None),
        RuleAction::Blackhole => (6, 0, None),
        RuleAction::Unreachable => (7, 0, None),
        RuleAction::Prohibit => (8, 0, None),
    };
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    let flags = flag(rule.not, FIB_RULE_INVERT)
        | flag(row.unresolved, FIB_RULE_UNRESOLVED)
        | flag(row.input_absent, FIB_RULE_IIF_DETACHED)
        | flag(row.output_absent, FIB_RULE_OIF_DETACHED);
    let bits = |prefix: Option<(IpAddr, u8)>| prefix.map_or(0, |(_, bits)| bits);
    let table_byte = u8::try_from(table).unwrap_or(TABLE_ELSEWHERE);
    let family = if family == Family::V4 { INET } else { INET6 };
    let mut fixed = vec![family, bits(rule.destination), bits(rule.source), rule.tos, table_byte, 0, 0, number];
    fixed.extend(flags.to_ne_bytes());
    let mut message = Message::new(kind, &fixed);
    message.u32(FRA_TABLE, table);
    message.u32(FRA_SUPPRESS_PREFIXLEN, rule.suppress_prefix_bits.unwrap_or(u32::MAX));
    message.u8(FRA_PROTOCOL, rule.protocol);
    if let Some(target) = target {
        message.u32(FRA_GOTO, target);
    }
    for (kind, name) in [(FRA_IIFNAME, &rule.input), (FRA_OIFNAME, &rule.output)] {
        if let Some(name) = name {
            message.text(kind, name);
        }
    }
    if rule.priority != 0 {
        message.u32(FRA_PRIORITY, rule.priority);
    }
    if rule.mark != 0 {
        message.u32(FRA_FWMARK, rule.mark);
    }
    if rule.mark != 0 || rule.mask != 0 {
        message.u32(FRA_FWMASK, rule.mask);
    }
    if rule.transport != 0 {
        message.u8(FRA_IP_PROTO, rule.transport);
    }
    for (kind, ports) in [(FRA_SPORT_RANGE, rule.source_ports), (FRA_DPORT_RANGE, rule.destination_ports)] {
        if let Some((first, last)) = ports {
            message.bytes(kind, &[first.to_ne_bytes(), last.to_ne_bytes()].concat());
        }
    }
    if let Some(group) = rule.suppress_group {
        message.u32(FRA_SUPPRESS_IFGROUP, group);
    }
    for (kind, prefix) in [(FRA_DST, rule.destination), (FRA_SRC, rule.source)] {
        if let Some((address, _)) = prefix {
            message.address(kind, address);
        }
    }
    message
}
