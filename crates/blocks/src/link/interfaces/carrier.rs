//! Whether something answers at the other end of an interface: what the world says of it, and what that means while the interface is up or down.
//!
//! An interface with something behind it is as Linux's veth: it loses its carrier with the other end, and when it is put down itself. `lo`, and those
//! that lead nowhere, always have one.

use super::{Entry, Interfaces, Leaving};
use crate::arguments::Arguments;
use weft_core::table::{Interface, InterfaceCounts, InterfaceSettings, LinkType};
use weft_core::*;

impl Entry {
    /// One that is new. `signal`: the other end answers.
    pub(super) fn new(interface: Interface, signal: bool) -> Entry {
        let mut entry = Entry { interface, settings: InterfaceSettings::default(), counts: InterfaceCounts::default(), signal };
        entry.interface.carrier = !entry.has_other_end();
        if entry.has_other_end() {
            // veth_newlink: "netif_carrier_off(dev);" of a device that began with one.
            entry.counts.carrier_downs = 1;
        }
        entry.settle_carrier();
        entry
    }

    fn has_other_end(&self) -> bool {
        self.interface.link != LinkType::Loopback && !self.interface.backend.is_empty()
    }

    /// The carrier becomes what it has to be, and is counted. True: it became another.
    pub(super) fn settle_carrier(&mut self) -> bool {
        // veth_open, veth_close.
        let carrier = !self.has_other_end() || self.interface.up && self.signal;
        if carrier == self.interface.carrier {
            return false;
        }
        self.interface.carrier = carrier;
        let count = if carrier { &mut self.counts.carrier_ups } else { &mut self.counts.carrier_downs };
        *count = count.saturating_add(1);
        true
    }
}

impl Interfaces {
    /// The procedure: the world says whether the other end answers. Who looks at the interface acts before it is told of
    /// (netdev_state_change: "call_netdevice_notifiers_info(NETDEV_CHANGE, …); rtmsg_ifinfo(RTM_NEWLINK, …);").
    pub(super) fn set_carrier(&mut self, value: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        let block = self.name.clone();
        let arguments = Arguments::new(&block, "carrier", value, &["name", "index", "carrier"])?;
        let signal = arguments.bool("carrier")?.ok_or_else(|| arguments.fail("carrier is missing"))?;
        let number = self.existing(&arguments)?;
        let Some(entry) = self.entry_mut(number) else { return Ok(Value::Null) };
        entry.signal = signal;
        if entry.settle_carrier() {
            let name = entry.interface.name.clone();
            self.tell_later(number, &name, cx);
        }
        Ok(Value::Null)
    }

    /// An interface that was put up finds a carrier. Linux tells of it twice: dev_open does while nobody has looked whether it works (IF_OPER_DOWN),
    /// and linkwatch_do_dev when somebody has.
    pub(super) fn tell_rising(&mut self, interface: &Interface, cx: &mut Context<'_>) {
        let Interface { name, index, up, .. } = interface;
        cx.alert("changed", serde_json::json!({"name": name, "index": index.0, "event": "set", "up": up, "rising": true}));
        self.tell_later(index.0, name, cx);
    }

    /// An interface that is up has another carrier: it is told of when all blocks have acted upon that.
    pub(super) fn tell_later(&mut self, number: u32, name: &str, cx: &mut Context<'_>) {
        let index = InterfaceIndex(number);
        let value = serde_json::json!({"name": name, "index": number, "event": "set", "up": true});
        self.leaving.push_back(Leaving { last: Some(index), alert: "changed", value });
        cx.changed_and_back(Table::Interfaces, Some(Row::Interface(index)));
    }
}
