//! RTM_*RULE: the rules that every node has, as the kernel lists them. There are no others: one table of routes is looked at.

use crate::errno::Refusal;
use crate::local::TABLE_LOCAL;
use crate::message::{INET, INET6, Message, byte, families};
use crate::packet::{Reply, Request};
use weft_core::table::{Family, PROTOCOL_KERNEL, TABLE_MAIN};

const NEWRULE: u16 = 32;
const GETRULE: u16 = 34;
const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_PROTOCOL: u16 = 21;
/// FR_ACT_TO_TBL.
const TO_TABLE: u8 = 1;
/// RT_TABLE_DEFAULT, which is empty, and of IPv4 only.
const TABLE_DEFAULT: u32 = 253;

pub(crate) fn answer(request: &Request<'_>) -> Result<Reply, Refusal> {
    if request.kind != GETRULE {
        return Err(Refusal::lacking("looks at one table of routes and has no rules but those that every node has"));
    }
    let mut messages = Vec::new();
    for family in families(byte(request.body, 0)) {
        let (number, count) = if *family == Family::V4 { (INET, 3) } else { (INET6, 2) };
        let rules = [(0, TABLE_LOCAL), (32_766, TABLE_MAIN), (32_767, TABLE_DEFAULT)];
        messages.extend(rules[..count].iter().map(|(priority, table)| message(number, *priority, *table)));
    }
    Ok(Reply::Dump(messages, false))
}

/// fib_nl_fill_rule.
fn message(family: u8, priority: u32, table: u32) -> Message {
    let table_byte = u8::try_from(table).unwrap_or(0);
    let mut message = Message::new(NEWRULE, &[family, 0, 0, 0, table_byte, 0, 0, TO_TABLE, 0, 0, 0, 0]);
    message.u32(FRA_TABLE, table);
    message.u32(FRA_SUPPRESS_PREFIXLEN, u32::MAX);
    message.u8(FRA_PROTOCOL, PROTOCOL_KERNEL);
    if priority != 0 {
        message.u32(FRA_PRIORITY, priority);
    }
    message
}
