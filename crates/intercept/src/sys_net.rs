//! Files of /sys/class/net as Linux has them of a veth (net/core/net-sysfs.c), from the node's tables; and what is written there.

use crate::face::Stack;
use crate::socket_calls::interface::{flags, set_flags};
use crate::socket_calls::procedure::told;
use crate::sys::Errno;
use crate::tables::{self, InterfaceRow};
use serde_json::{Value, json};
use weft_core::Table;
use weft_core::table::LinkType;

/// The files of an interface, by their path below its folder, and whether root may write there; folders end with a slash, and come before what is in them.
pub const FILES: &[(&str, bool)] = &[
    ("addr_assign_type", false),
    ("addr_len", false),
    ("address", false),
    ("broadcast", false),
    ("carrier", true),
    ("carrier_changes", false),
    ("carrier_down_count", false),
    ("carrier_up_count", false),
    ("dev_id", false),
    ("dev_port", false),
    ("dormant", false),
    ("duplex", false),
    ("flags", true),
    ("gro_flush_timeout", true),
    ("ifalias", true),
    ("ifindex", false),
    ("iflink", false),
    ("link_mode", false),
    ("mtu", true),
    ("name_assign_type", false),
    ("napi_defer_hard_irqs", true),
    ("netdev_group", true),
    ("operstate", false),
    ("proto_down", true),
    ("queues/", false),
    ("queues/rx-0/", false),
    ("queues/rx-0/rps_cpus", true),
    ("queues/rx-0/rps_flow_cnt", true),
    ("queues/tx-0/", false),
    ("queues/tx-0/traffic_class", false),
    ("queues/tx-0/tx_maxrate", true),
    ("queues/tx-0/tx_timeout", false),
    ("queues/tx-0/xps_cpus", true),
    ("queues/tx-0/xps_rxqs", true),
    ("speed", false),
    ("statistics/", false),
    ("statistics/collisions", false),
    ("statistics/multicast", false),
    ("statistics/rx_bytes", false),
    ("statistics/rx_compressed", false),
    ("statistics/rx_crc_errors", false),
    ("statistics/rx_dropped", false),
    ("statistics/rx_errors", false),
    ("statistics/rx_fifo_errors", false),
    ("statistics/rx_frame_errors", false),
    ("statistics/rx_length_errors", false),
    ("statistics/rx_missed_errors", false),
    ("statistics/rx_nohandler", false),
    ("statistics/rx_over_errors", false),
    ("statistics/rx_packets", false),
    ("statistics/tx_aborted_errors", false),
    ("statistics/tx_bytes", false),
    ("statistics/tx_carrier_errors", false),
    ("statistics/tx_compressed", false),
    ("statistics/tx_dropped", false),
    ("statistics/tx_errors", false),
    ("statistics/tx_fifo_errors", false),
    ("statistics/tx_heartbeat_errors", false),
    ("statistics/tx_packets", false),
    ("statistics/tx_window_errors", false),
    ("testing", false),
    ("threaded", true),
    ("tx_queue_len", true),
    ("type", false),
    ("uevent", true),
];
/// Longest text that can be written to one of them, bytes: more than Linux's longest alias.
pub const WRITTEN_BYTES_MAX: usize = 4096;

/// The names of the node's interfaces, in the order of their numbers.
pub fn names(stack: &mut dyn Stack) -> Vec<String> {
    tables::interfaces(stack).into_iter().map(|row| row.name).collect()
}

/// May root write to a file? None: there is none of this name.
pub fn is_writable(file: &str) -> Option<bool> {
    FILES.iter().find(|(name, _)| *name == file && !name.ends_with('/')).map(|(_, writable)| *writable)
}

/// What a file shows.
///
/// # Errors
/// ENODEV: the interface is gone; EINVAL: it does not show that now.
pub fn read(interface: &str, file: &str, stack: &mut dyn Stack) -> Result<String, Errno> {
    let (row, all) = find(interface, stack)?;
    let number = |field: &str| all.get(field).and_then(Value::as_u64).unwrap_or(0);
    let has_other_end = all.get("backend").and_then(Value::as_str).is_some_and(|backend| !backend.is_empty());
    let mac = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
    // net/core/net-sysfs.c: "if (netif_running(netdev)) …", else EINVAL.
    let running = |value: String| if row.up { Ok(value) } else { Err(Errno(libc::EINVAL)) };
    let of_link = |value: &str| if has_other_end { running(value.to_owned()) } else { Err(Errno(libc::EINVAL)) };
    let (ups, downs) = (number("carrier_ups"), number("carrier_downs"));
    let text = match file {
        // NET_ADDR_PERM, NET_ADDR_SET.
        "addr_assign_type" => if row.link == LinkType::Loopback { "0" } else { "3" }.to_owned(),
        "addr_len" => if row.link == LinkType::Raw { "0" } else { "6" }.to_owned(),
        "address" => {
            if row.link == LinkType::Raw {
                String::new()
            } else {
                mac(row.mac)
            }
        }
        "broadcast" => match row.link {
            LinkType::Loopback => mac([0; 6]),
            LinkType::Ethernet => mac([0xff; 6]),
            LinkType::Raw => String::new(),
        },
        "carrier" => running(u8::from(row.carrier).to_string())?,
        "carrier_changes" => (ups + downs).to_string(),
        "carrier_up_count" => ups.to_string(),
        "carrier_down_count" => downs.to_string(),
        "dev_id" => "0x0".to_owned(),
        "dormant" | "testing" => running("0".to_owned())?,
        "duplex" => of_link("full")?,
        // veth_get_link_ksettings
        "speed" => of_link("10000")?,
        "flags" => format!("{:#x}", flags(&row) & !((libc::IFF_RUNNING | libc::IFF_LOWER_UP) as u32)),
        "ifalias" => match all.get("alias").and_then(Value::as_str).unwrap_or("") {
            "" => return Ok(String::new()),
            alias => alias.to_owned(),
        },
        "ifindex" | "iflink" => row.index.to_string(),
        "mtu" => row.mtu.to_string(),
        // NET_NAME_PREDICTABLE, NET_NAME_USER.
        "name_assign_type" => if row.link == LinkType::Loopback { "2" } else { "3" }.to_owned(),
        "netdev_group" => row.group.to_string(),
        "operstate" => match (row.up && row.carrier, row.link) {
            (true, LinkType::Loopback) => "unknown",
            (true, _) => "up",
            (false, _) => "down",
        }
        .to_owned(),
        "tx_queue_len" => row.tx_queue_packets.to_string(),
        // ARPHRD_LOOPBACK, ARPHRD_ETHER, ARPHRD_NONE.
        "type" => match row.link {
            LinkType::Loopback => "772",
            LinkType::Ethernet => "1",
            LinkType::Raw => "65534",
        }
        .to_owned(),
        "uevent" => format!("INTERFACE={}\nIFINDEX={}", row.name, row.index),
        _ => file.strip_prefix("statistics/").map_or(0, number).to_string(),
    };
    Ok(text + "\n")
}

fn find(interface: &str, stack: &mut dyn Stack) -> Result<(InterfaceRow, Value), Errno> {
    let rows = stack.table(Table::Interfaces);
    let all = rows.into_iter().find(|row| row.get("name").and_then(Value::as_str) == Some(interface)).ok_or(Errno(libc::ENODEV))?;
    let row = tables::interfaces(stack).into_iter().find(|row| row.name == interface).ok_or(Errno(libc::ENODEV))?;
    Ok((row, all))
}

/// write(2) to a file.
///
/// # Errors
/// EINVAL: that is no value of it; EOPNOTSUPP: nothing here can be set so; what the node says.
pub fn write(interface: &str, file: &str, text: &[u8], stack: &mut dyn Stack) -> Result<(), Errno> {
    let (row, _) = find(interface, stack)?;
    let line = String::from_utf8_lossy(text);
    let number = || parsed(&line).ok_or(Errno(libc::EINVAL));
    let arguments = match file {
        "mtu" => json!({"index": row.index, "mtu": number()?}),
        "tx_queue_len" => json!({"index": row.index, "tx_queue_packets": number()?}),
        "netdev_group" => json!({"index": row.index, "group": number()?}),
        // ifalias_store: "ignore trailing newline".
        "ifalias" => json!({"index": row.index, "alias": line.strip_suffix('\n').unwrap_or(&line)}),
        "flags" => return set_flags(stack, &row, number()? as i32),
        // carrier_store: "if (!netdev->netdev_ops->ndo_change_carrier) return -EOPNOTSUPP;", and a veth has none.
        _ => return Err(Errno(libc::EOPNOTSUPP)),
    };
    told(stack, "interfaces", "set", arguments)
}

/// kstrtoul with base 0: decimal, 0x…, 0….
fn parsed(text: &str) -> Option<u32> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_prefix('+').unwrap_or(text);
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_kernel_reads_them() {
        for (text, number) in
            [("1400\n", Some(1400)), ("0x1003", Some(0x1003)), ("010\n", Some(8)), ("0\n", Some(0)), ("x", None), ("-1", None), ("", None)]
        {
            assert_eq!(parsed(text), number, "{text:?}");
        }
    }

    #[test]
    fn files_are_in_order_and_below_folders_that_come_first() {
        assert!(FILES.is_sorted_by_key(|(name, _)| *name));
        for (name, _) in FILES {
            let folder = name.trim_end_matches('/').rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
            assert!(folder.is_none_or(|folder| FILES.iter().any(|(other, _)| *other == folder)), "{name}");
        }
    }
}
