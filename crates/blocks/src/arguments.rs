//! Reading the arguments of an `exec`: a JSON object whose names are all known, or an error that says what would be right.

use std::net::{Ipv4Addr, Ipv6Addr};
use weft_core::{ControlError, Refused, Value};
use weft_wire::ethernet::Mac;

/// The arguments of one procedure call.
pub(crate) struct Arguments<'a> {
    block: &'a str,
    procedure: &'a str,
    value: &'a Value,
}

impl<'a> Arguments<'a> {
    /// Takes an object (or nothing) whose names are among `known`.
    pub(crate) fn new(block: &'a str, procedure: &'a str, value: &'a Value, known: &[&str]) -> Result<Arguments<'a>, ControlError> {
        let arguments = Arguments { block, procedure, value };
        match value {
            Value::Null => Ok(arguments),
            Value::Object(fields) => match fields.keys().find(|name| !known.contains(&name.as_str())) {
                None => Ok(arguments),
                Some(name) => Err(arguments.fail(format!("there is no argument '{name}'; it takes: {}", known.join(", ")))),
            },
            other => Err(arguments.fail(format!("the arguments must be an object, not {other}"))),
        }
    }

    /// An object among the arguments, whose names are among `known`, read as they are.
    pub(crate) fn inside(&self, value: &'a Value, known: &[&str]) -> Result<Arguments<'a>, ControlError> {
        Arguments::new(self.block, self.procedure, value, known)
    }

    /// The refusal of this call.
    pub(crate) fn fail(&self, why: impl Into<Refused>) -> ControlError {
        ControlError::ExecFailed { block: self.block.to_owned(), procedure: self.procedure.to_owned(), why: why.into() }
    }

    /// An argument that is there and not null.
    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.value.get(name).filter(|value| !value.is_null())
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, ControlError> {
        self.value(name).map(|value| value.as_str().ok_or_else(|| self.fail(format!("{name}: {value} is no text")))).transpose()
    }

    /// A text that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&'a str, ControlError> {
        self.text(name)?.ok_or_else(|| self.fail(format!("{name} is missing")))
    }

    /// A whole number within bounds, also as text.
    pub(crate) fn number(&self, name: &str, min: u32, max: u32) -> Result<Option<u32>, ControlError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
        match number.and_then(|number| u32::try_from(number).ok()).filter(|number| (min..=max).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.fail(format!("{name}: {value} is no whole number from {min} to {max}"))),
        }
    }

    /// true or false.
    pub(crate) fn bool(&self, name: &str) -> Result<Option<bool>, ControlError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let flag = value.as_bool().or(match value.as_str() {
            Some("true" | "on" | "yes") => Some(true),
            Some("false" | "off" | "no") => Some(false),
            _ => None,
        });
        flag.map(Some).ok_or_else(|| self.fail(format!("{name}: {value} is neither true nor false")))
    }

    /// A MAC address as text, or an array of six numbers.
    pub(crate) fn mac(&self, name: &str) -> Result<Option<Mac>, ControlError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let mac = match value {
            Value::String(text) => text.parse().ok(),
            other => serde_json::from_value::<[u8; 6]>(other.clone()).ok().map(Mac),
        };
        mac.map(Some).ok_or_else(|| self.fail(format!("{name}: {value} is no MAC address such as \"02:00:00:00:00:01\"")))
    }

    /// An IPv4 address.
    pub(crate) fn address(&self, name: &str) -> Result<Option<Ipv4Addr>, ControlError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.fail(format!("{name}: '{text}' is no IPv4 address such as \"192.0.2.1\"")))
    }

    /// An IPv4 prefix: `address/bits`, an address alone (32 bits), or `default`.
    pub(crate) fn prefix(&self, name: &str) -> Result<Option<(Ipv4Addr, u8)>, ControlError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if text == "default" {
            return Ok(Some((Ipv4Addr::UNSPECIFIED, 0)));
        }
        let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
        match (address.parse(), bits.parse()) {
            (Ok(address), Ok(bits @ 0..=32)) => Ok(Some((address, bits))),
            _ => Err(self.fail(format!("{name}: '{text}' is no IPv4 prefix such as \"192.0.2.0/24\""))),
        }
    }

    /// An IPv6 address.
    pub(crate) fn address_v6(&self, name: &str) -> Result<Option<Ipv6Addr>, ControlError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.fail(format!("{name}: '{text}' is no IPv6 address such as \"2001:db8::1\"")))
    }

    /// An IPv6 prefix: `address/bits`, an address alone (128 bits), or `default`.
    pub(crate) fn prefix_v6(&self, name: &str) -> Result<Option<(Ipv6Addr, u8)>, ControlError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if text == "default" {
            return Ok(Some((Ipv6Addr::UNSPECIFIED, 0)));
        }
        let (address, bits) = text.split_once('/').unwrap_or((text, "128"));
        match (address.parse(), bits.parse()) {
            (Ok(address), Ok(bits @ 0..=128)) => Ok(Some((address, bits))),
            _ => Err(self.fail(format!("{name}: '{text}' is no IPv6 prefix such as \"2001:db8::/64\""))),
        }
    }
}
