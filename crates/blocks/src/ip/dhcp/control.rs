//! Parameters and procedures.

use super::message::is_host_name;
use super::served::{Dhcp, INTERFACES_MAX, NAME_BYTES_MAX, Served};
use crate::arguments::Arguments;
use crate::facts::find_interface;
use weft_core::*;

/// Would these values do?
pub(super) fn check(block: &str, name: &str, value: &Value) -> Result<(), ControlError> {
    let bad = |why: String| ControlError::BadValue { block: block.to_owned(), parameter: name.to_owned(), why };
    let is_name = |value: &Value| value.as_str().is_some_and(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX);
    match (name, value) {
        ("interfaces", Value::Array(list)) if list.len() > INTERFACES_MAX => {
            Err(bad(format!("{} interfaces are too many: at most {INTERFACES_MAX}", list.len())))
        }
        ("interfaces", Value::Array(list)) => match list.iter().find(|entry| !is_name(entry)) {
            Some(other) => Err(bad(format!("{other} is no interface's name: write it as [\"eth0\"]"))),
            None => Ok(()),
        },
        ("host_name", Value::String(text)) if !is_host_name(text) => {
            Err(bad(format!("'{text}' is no host's name: one label of at most 63 letters, digits and hyphens")))
        }
        _ => Ok(()),
    }
}

pub(super) fn names(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

impl Dhcp {
    pub(super) fn shown(&self, name: &str, now: Instant) -> Option<Value> {
        match name {
            "interfaces" => Some(self.interfaces.iter().map(|name| Value::from(name.as_str())).collect()),
            "host_name" => Some(self.host_name.as_str().into()),
            "leases" => Some(self.rows(now)),
            _ => None,
        }
    }

    pub(super) fn change(&mut self, name: &str, value: &Value, cx: &mut Context<'_>) {
        match name {
            "interfaces" => {
                self.interfaces = names(value);
                self.look_at_interfaces(cx);
                self.schedule(cx);
            }
            "host_name" => value.as_str().unwrap_or_default().clone_into(&mut self.host_name),
            _ => {}
        }
    }

    pub(super) fn ordered(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        match procedure {
            "leases" => Arguments::new(&self.name, procedure, arguments, &[]).map(|_| self.rows(cx.now)),
            "renew" => {
                for interface in self.meant(procedure, arguments, cx)? {
                    if let Some(served) = self.clients.get_mut(&interface) {
                        served.client.renew(cx.now, cx.rng);
                    }
                    self.run(interface, cx);
                }
                self.schedule(cx);
                Ok(Value::Null)
            }
            "release" => {
                self.meant(procedure, arguments, cx)?.into_iter().for_each(|interface| self.release(interface, cx));
                self.schedule(cx);
                Ok(Value::Null)
            }
            _ => Err(self.kind().no_procedure(&self.name, procedure)),
        }
    }

    pub(super) fn release(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        let Some(served) = self.clients.get_mut(&interface) else { return };
        if let Some((lease, told)) = served.client.release(cx.rng) {
            self.send(interface, &told, cx);
            self.lose(interface, &lease, "it was given back", cx);
        }
    }

    fn rows(&self, now: Instant) -> Value {
        let row = |(index, served): (&InterfaceIndex, &Served)| {
            let Served { name, client, .. } = served;
            let mut row = serde_json::json!({"interface": name, "index": index.0, "state": client.phase.name()});
            if let (Some(row), Some(Value::Object(lease))) = (row.as_object_mut(), client.lease.as_ref().map(|lease| lease.row(now))) {
                row.extend(lease);
            }
            row
        };
        self.clients.iter().map(row).collect()
    }

    /// The interfaces that a call is about.
    fn meant(&self, procedure: &str, arguments: &Value, cx: &Context<'_>) -> Result<Vec<InterfaceIndex>, ControlError> {
        let arguments = Arguments::new(&self.name, procedure, arguments, &["interface"])?;
        let Some(value) = arguments.value("interface") else { return Ok(self.clients.keys().copied().collect()) };
        let interface = find_interface(value, cx).map_err(|why| arguments.fail(why))?;
        match self.clients.contains_key(&interface) {
            true => Ok(vec![interface]),
            false => {
                Err(arguments.fail(format!("{value} gets no address by DHCP: `weft set {}.interfaces` names those that do", self.name)))
            }
        }
    }
}
