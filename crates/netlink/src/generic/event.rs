//! What happens to connections of Multipath TCP, as mptcp_pm tells it to its group of events.

use super::words::{GROUP_EVENTS, message};
use crate::message::{INET, INET6, MPTCP_PM, Message};
use std::net::SocketAddr;
use weft_core::control::Value;

/// Those that tell less than the others.
const ANNOUNCED: u8 = 6;
const REMOVED: u8 = 7;
const LISTENER_CREATED: u8 = 15;
const LISTENER_CLOSED: u8 = 16;
/// MPTCP_EVENT_*, by what the block says.
const EVENTS: [(&str, u8); 10] = [
    ("created", 1),
    ("established", 2),
    ("closed", 3),
    ("announced", ANNOUNCED),
    ("removed", REMOVED),
    ("subflow-established", 10),
    ("subflow-closed", 11),
    ("subflow-priority", 13),
    ("listener-created", LISTENER_CREATED),
    ("listener-closed", LISTENER_CLOSED),
];
/// MPTCP_PM_EV_FLAG_*.
const DENY_JOIN_ID0: u16 = 1;
const SERVER_SIDE: u16 = 2;
/// MPTCP_ATTR_*.
const TOKEN: u16 = 1;
const FAMILY: u16 = 2;
const LOCAL_ID: u16 = 3;
const REMOTE_ID: u16 = 4;
const SOURCE: [u16; 2] = [5, 6];
const DESTINATION: [u16; 2] = [7, 8];
const SOURCE_PORT: u16 = 9;
const DESTINATION_PORT: u16 = 10;
const BACKUP: u16 = 11;
const ERROR: u16 = 12;
const FLAGS: u16 = 13;
const INTERFACE: u16 = 15;
const RESET_REASON: u16 = 16;
const RESET_FLAGS: u16 = 17;
const SERVER: u16 = 18;

/// What the block alerts of, as a message to the group of events (mptcp_event); None: it is about something else.
pub(crate) fn event(name: &str, value: &Value) -> Option<(u32, Message)> {
    if name != "multipath" {
        return None;
    }
    let text = |field: &str| value.get(field).and_then(Value::as_str);
    let number = |field: &str| value.get(field).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    let is = |field: &str| value.get(field).and_then(Value::as_bool);
    let command = EVENTS.iter().find(|(known, _)| Some(*known) == text("event"))?.1;
    let mut out = message(MPTCP_PM, command, 1);
    number("token").into_iter().for_each(|token| out.u32(TOKEN, token));
    let flags = [(is("deny_join_id0"), DENY_JOIN_ID0), (is("server"), SERVER_SIDE)];
    let flags: u16 = flags.iter().filter(|(set, _)| *set == Some(true)).map(|(_, flag)| flag).sum();
    if is("server") == Some(true) {
        out.u8(SERVER, 1);
    }
    if flags != 0 {
        out.bytes(FLAGS, &flags.to_ne_bytes());
    }
    put_ends(value, command, &mut out);
    if let Some(backup) = is("backup") {
        out.u8(BACKUP, backup.into());
    }
    number("interface").into_iter().for_each(|index| out.u32(INTERFACE, index));
    // sk_err of the subflow.
    let error = match text("error") {
        Some("Refused") => Some(111),
        Some("Reset") => Some(104),
        Some("TimedOut") => Some(110),
        _ => None,
    };
    error.into_iter().for_each(|error| out.u8(ERROR, error));
    number("reset_reason").into_iter().for_each(|reason| out.u32(RESET_REASON, reason));
    is("transient").into_iter().for_each(|transient| out.u32(RESET_FLAGS, transient.into()));
    Some((GROUP_EVENTS, out))
}

/// Addresses, ports and identifiers of both ends, as far as they are told (mptcp_event_add_subflow).
fn put_ends(value: &Value, command: u8, out: &mut Message) {
    let end = |field: &str| value.get(field).and_then(Value::as_str).and_then(|text| text.parse::<SocketAddr>().ok());
    let id = |field: &str| value.get(field).and_then(Value::as_u64).and_then(|id| u8::try_from(id).ok());
    let (local, remote) = (end("local"), end("remote"));
    let of = |end: SocketAddr, kinds: [u16; 2]| (kinds[usize::from(end.is_ipv6())], end.ip());
    let address = |out: &mut Message, end: Option<SocketAddr>, kinds| {
        end.map(|end| of(end, kinds)).into_iter().for_each(|(kind, address)| out.address(kind, address));
    };
    let port =
        |out: &mut Message, end: Option<SocketAddr>, kind| end.into_iter().for_each(|end| out.bytes(kind, &end.port().to_be_bytes()));
    let family = |out: &mut Message, end: Option<SocketAddr>| {
        end.into_iter().for_each(|end| out.bytes(FAMILY, &u16::from(if end.is_ipv4() { INET } else { INET6 }).to_ne_bytes()));
    };
    match command {
        // mptcp_event_addr_announced and mptcp_event_addr_removed.
        ANNOUNCED | REMOVED => {
            id("remote_id").into_iter().for_each(|id| out.u8(REMOTE_ID, id));
            port(out, remote, DESTINATION_PORT);
            address(out, remote, DESTINATION);
        }
        // mptcp_event_pm_listener.
        LISTENER_CREATED | LISTENER_CLOSED => {
            family(out, local);
            port(out, local, SOURCE_PORT);
            address(out, local, SOURCE);
        }
        _ => {
            family(out, local);
            address(out, local, SOURCE);
            address(out, remote, DESTINATION);
            port(out, local, SOURCE_PORT);
            port(out, remote, DESTINATION_PORT);
            id("local_id").into_iter().for_each(|id| out.u8(LOCAL_ID, id));
            id("remote_id").into_iter().for_each(|id| out.u8(REMOTE_ID, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::HEADER_BYTES;
    use super::*;
    use crate::message::Attributes;
    use serde_json::json;

    #[test]
    fn what_the_block_tells_becomes_an_event() {
        let value = json!({ "event": "subflow-closed", "token": 7, "local": "10.0.0.1:5", "remote": "10.0.0.2:6", "local_id": 1, "remote_id": 2,
                            "backup": true, "error": "Refused" });
        let (group, message) = event("multipath", &value).unwrap();
        let told = Attributes::of(&message.body, HEADER_BYTES);
        assert_eq!((group, message.body[0], told.u32(1), told.address(5)), (GROUP_EVENTS, 11, Some(7), Some([10, 0, 0, 1].into())));
        assert_eq!((told.get(10), told.get(11), told.get(12)), (Some([0, 6].as_slice()), Some([1].as_slice()), Some([111].as_slice())));
        assert!(event("multipath", &json!({ "event": "?" })).is_none() && event("route", &value).is_none());
    }
}
