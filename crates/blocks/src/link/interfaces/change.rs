//! What somebody wants of an interface, or of every member of a group: read once, then tried on each.

use super::{ALIAS_BYTES_MAX, GSO_BYTES_MAX, MTU_MAX, MTU_MIN};
use crate::arguments::Arguments;
use weft_core::table::{Interface, InterfaceSettings, LinkType};
use weft_core::{ControlError, Refused, Value};
use weft_wire::ethernet::Mac;

/// The arguments of `set`.
pub(super) const KNOWN: &[&str] = &[
    "name",
    "index",
    "of_group",
    "up",
    "mtu",
    "group",
    "mac",
    "new_name",
    "gso_max_bytes",
    "checksum_offload",
    "tx_queue_packets",
    "alias",
    "arp",
    "multicast",
    "promiscuous",
    "all_multicast",
    "dynamic",
    "dry_run",
    "report",
];

/// The argument `of_group`: all members of a group are meant.
pub(super) fn of_group(arguments: &Arguments<'_>) -> Result<Option<u32>, ControlError> {
    match arguments.value("of_group").and_then(Value::as_str).filter(|text| text.trim().parse::<u32>().is_err()) {
        Some(name) => Err(arguments
            .fail(Refused::invalid(format!("there is no group '{name}': write its number, or give it that name in /etc/iproute2/group")))),
        None => arguments.number("of_group", 0, u32::MAX),
    }
}

/// What is to be; what is not named stays.
pub(super) struct Wish<'a> {
    pub name: Option<&'a str>,
    up: Option<bool>,
    mtu: Option<u32>,
    group: Option<u32>,
    mac: Option<Mac>,
    gso_max_bytes: Option<u32>,
    checksum_offload: Option<bool>,
    tx_queue_packets: Option<u32>,
    alias: Option<&'a str>,
    arp: Option<bool>,
    multicast: Option<bool>,
    promiscuous: Option<bool>,
    all_multicast: Option<bool>,
    dynamic: Option<bool>,
}

impl<'a> Wish<'a> {
    pub(super) fn read(arguments: &Arguments<'a>) -> Result<Wish<'a>, ControlError> {
        let alias = arguments.text("alias")?;
        if alias.is_some_and(|alias| alias.len() > ALIAS_BYTES_MAX) {
            return Err(arguments.fail(Refused::invalid(format!("alias: at most {ALIAS_BYTES_MAX} bytes"))));
        }
        Ok(Wish {
            name: arguments.text("new_name")?,
            up: arguments.bool("up")?,
            mtu: arguments.number("mtu", 0, u32::MAX)?,
            group: arguments.number("group", 0, u32::MAX)?,
            mac: arguments.mac("mac")?,
            gso_max_bytes: arguments.number("gso_max_bytes", 0, u32::MAX)?,
            checksum_offload: arguments.bool("checksum_offload")?,
            tx_queue_packets: arguments.number("tx_queue_packets", 0, u32::MAX)?,
            alias,
            arp: arguments.bool("arp")?,
            multicast: arguments.bool("multicast")?,
            promiscuous: arguments.bool("promiscuous")?,
            all_multicast: arguments.bool("all_multicast")?,
            dynamic: arguments.bool("dynamic")?,
        })
    }

    /// The interface as it would be, or why not.
    pub(super) fn applied(
        &self,
        mut interface: Interface,
        mut settings: InterfaceSettings,
    ) -> Result<(Interface, InterfaceSettings), Refused> {
        if let Some(mtu) = self.mtu {
            // Linux's lo has no upper bound, and a lower one of 0; what is below the least IPv4 packet carries nothing here.
            let (min, max) = if interface.link == LinkType::Loopback { (MTU_MIN, i32::MAX as u32) } else { (MTU_MIN, MTU_MAX) };
            if !(min..=max).contains(&mtu) {
                return Err(Refused::invalid(format!("mtu: {mtu} is no whole number from {min} to {max}")));
            }
            interface.mtu = mtu;
        }
        if let Some(mac) = self.mac {
            // Linux's lo takes any.
            if interface.link == LinkType::Raw || interface.link == LinkType::Ethernet && !mac.is_unicast() {
                return Err(Refused::address_not_available(format!("{mac} cannot be the address of {}", interface.name)));
            }
            interface.mac = mac.0;
        }
        if let Some(name) = self.name {
            name.clone_into(&mut interface.name);
        }
        if let Some(alias) = self.alias {
            alias.clone_into(&mut settings.alias);
        }
        interface.up = self.up.unwrap_or(interface.up);
        interface.group = self.group.unwrap_or(interface.group);
        interface.gso_max_bytes = self.gso_max_bytes.map_or(interface.gso_max_bytes, |bytes| bytes.min(GSO_BYTES_MAX));
        interface.checksum_offload = self.checksum_offload.unwrap_or(interface.checksum_offload);
        settings.tx_queue_packets = self.tx_queue_packets.unwrap_or(settings.tx_queue_packets);
        settings.arp = self.arp.unwrap_or(settings.arp);
        settings.multicast = self.multicast.or(settings.multicast);
        settings.promiscuous = self.promiscuous.unwrap_or(settings.promiscuous);
        settings.all_multicast = self.all_multicast.unwrap_or(settings.all_multicast);
        settings.dynamic = self.dynamic.unwrap_or(settings.dynamic);
        Ok((interface, settings))
    }
}
