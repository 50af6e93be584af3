//! The parameters: what may be set, and what it means.

use crate::endpoint::{Endpoint, parse_all};
use crate::kind::Settings;
use crate::policy::{ENTRIES_MAX, Preference, Quota, Standby};
use crate::scheduler::Chosen;
use crate::word::Asks;
use weft_core::{Duration, Value};

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            enabled: true,
            checksum: false,
            allow_join_initial_address: true,
            stale_timeouts: 1,
            connections_max: 0,
            close_timeout: Duration::ZERO,
            every: true,
            same_addresses: false,
            by_program: false,
            ndiffports: 1,
            endpoints: Vec::new(),
            subflows: 0,
            add_addr_accepted: 0,
            add_addr_timeout: Duration::ZERO,
            scheduler: Chosen::BuiltIn(0),
            congestion: None,
            opportunistic: true,
            prefer: Preference::default(),
            preferred: Vec::new(),
            standby: Standby::default(),
            idle_after: Duration::ZERO,
            quotas: Vec::new(),
        }
    }
}

/// The texts of a list; `example` is one.
fn texts<'a>(value: &'a Value, example: &str) -> Result<Vec<&'a str>, String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
    texts.ok_or_else(|| format!("write each as a text: \"{example}\""))
}

/// The endpoints that a value names.
fn endpoints(value: &Value) -> Result<Vec<Endpoint>, String> {
    parse_all(texts(value, "10.0.0.1 subflow")?.into_iter())
}

fn preference(value: &Value) -> Result<Preference, String> {
    Preference::parse(&texts(value, "wlan*")?)
}

fn quotas(value: &Value) -> Result<Vec<Quota>, String> {
    let texts = texts(value, "wwan0 100MiB")?;
    if texts.len() > ENTRIES_MAX {
        return Err(format!("there are {} of them, and {ENTRIES_MAX} are taken", texts.len()));
    }
    texts.into_iter().map(Quota::parse).collect()
}

impl Settings {
    /// What MP_CAPABLE asks for.
    pub(crate) fn asks(&self) -> Asks {
        Asks { checksum: self.checksum, deny_join_id0: !self.allow_join_initial_address }
    }

    /// Would this value do? Types and bounds have been looked at.
    ///
    /// # Errors
    /// Why not, for people.
    pub(super) fn check(name: &str, value: &Value) -> Result<(), String> {
        match name {
            "endpoints" => endpoints(value).map(|_| ()),
            "prefer" => preference(value).map(|_| ()),
            "quota" => quotas(value).map(|_| ()),
            _ => Ok(()),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &Value) {
        let number = value.as_u64().unwrap_or_default();
        match name {
            "enabled" => self.enabled = value.as_bool().unwrap_or(self.enabled),
            "checksum" => self.checksum = value.as_bool().unwrap_or(self.checksum),
            "allow_join_initial_address" => self.allow_join_initial_address = value.as_bool().unwrap_or(self.allow_join_initial_address),
            "stale_timeouts" => self.stale_timeouts = u32::try_from(number).unwrap_or(u32::MAX),
            "connections_max" => self.connections_max = number as usize,
            "close_timeout" => self.close_timeout = Duration::from_nanos(number),
            "path_manager" => {
                self.every = value.as_str() == Some("all");
                self.same_addresses = value.as_str() == Some("ndiffports");
                self.by_program = value.as_str() == Some("userspace");
            }
            "ndiffports" => self.ndiffports = number as usize,
            // It was checked.
            "endpoints" => self.endpoints = endpoints(value).unwrap_or_default(),
            "subflows" => self.subflows = number as usize,
            "add_addr_accepted" => self.add_addr_accepted = number as usize,
            "add_addr_timeout" => self.add_addr_timeout = Duration::from_nanos(number),
            "scheduler" => self.scheduler = Chosen::of(value.as_str().unwrap_or_default()),
            "prefer" => {
                self.prefer = preference(value).unwrap_or_default();
                self.preferred = texts(value, "").unwrap_or_default().into_iter().map(str::to_owned).collect();
            }
            "standby" => self.standby = Standby::of(value.as_str().unwrap_or_default()),
            "idle_after" => self.idle_after = Duration::from_nanos(number),
            "quota" => self.quotas = quotas(value).unwrap_or_default(),
            "congestion" => self.congestion = value.as_str().filter(|name| *name != "tcp").map(str::to_owned),
            "opportunistic" => self.opportunistic = value.as_bool().unwrap_or(self.opportunistic),
            _ => {}
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<Value> {
        Some(match name {
            "enabled" => self.enabled.into(),
            "checksum" => self.checksum.into(),
            "allow_join_initial_address" => self.allow_join_initial_address.into(),
            "stale_timeouts" => self.stale_timeouts.into(),
            "connections_max" => (self.connections_max as u64).into(),
            "close_timeout" => (self.close_timeout.as_nanos() as u64).into(),
            "path_manager" => match (self.every, self.same_addresses, self.by_program) {
                (true, ..) => "all",
                (_, true, _) => "ndiffports",
                (.., true) => "userspace",
                _ => "kernel",
            }
            .into(),
            "ndiffports" => (self.ndiffports as u64).into(),
            "endpoints" => self.endpoints.iter().map(Endpoint::text).collect::<Vec<_>>().into(),
            "subflows" => (self.subflows as u64).into(),
            "add_addr_accepted" => (self.add_addr_accepted as u64).into(),
            "add_addr_timeout" => (self.add_addr_timeout.as_nanos() as u64).into(),
            "scheduler" => self.scheduler.text().into(),
            "prefer" => self.preferred.clone().into(),
            "standby" => self.standby.name().into(),
            "idle_after" => (self.idle_after.as_nanos() as u64).into(),
            "quota" => self.quotas.iter().map(Quota::text).collect::<Vec<_>>().into(),
            "congestion" => self.congestion.as_deref().unwrap_or("tcp").into(),
            "opportunistic" => self.opportunistic.into(),
            _ => return None,
        })
    }
}
