//! How a table of interfaces takes over from another: what is written, and what builds before this one wrote.

use super::{Entry, INTERFACES_MAX, Interfaces, KIND};
use crate::facts::INTERFACE_INDEX_MAX;
use serde::{Deserialize, Serialize};
use weft_core::table::{Interface, InterfaceCounts, InterfaceSettings, LinkType};
use weft_core::{InterfaceIndex, State, StateError};

#[derive(Serialize, Deserialize)]
struct Exported {
    next_index: u32,
    entries: Vec<Entry>,
    tapped: bool,
}

/// An interface as it was before there was a carrier.
#[derive(Deserialize)]
struct EntryWithoutCarrier {
    interface: InterfaceWithoutCarrier,
    settings: InterfaceSettings,
    counts: CountsWithoutCarrier,
}

#[derive(Deserialize)]
struct InterfaceWithoutCarrier {
    index: InterfaceIndex,
    name: String,
    mac: [u8; 6],
    mtu: u32,
    up: bool,
    link: LinkType,
    group: u32,
    gso_max_bytes: u32,
    checksum_offload: bool,
    backend: String,
}

#[derive(Deserialize)]
struct CountsWithoutCarrier {
    rx_packets: u64,
    rx_bytes: u64,
    rx_errors: u64,
    rx_dropped: u64,
    tx_packets: u64,
    tx_bytes: u64,
    tx_errors: u64,
    tx_dropped: u64,
}

/// Version 3.
#[derive(Deserialize)]
struct ExportedWithoutCarrier {
    next_index: u32,
    entries: Vec<EntryWithoutCarrier>,
    tapped: bool,
}

/// Version 2: what builds before packet sockets wrote.
#[derive(Deserialize)]
struct ExportedUntapped {
    next_index: u32,
    entries: Vec<EntryWithoutCarrier>,
}

impl From<EntryWithoutCarrier> for Entry {
    fn from(EntryWithoutCarrier { interface: was, settings, counts }: EntryWithoutCarrier) -> Entry {
        let interface = Interface {
            index: was.index,
            name: was.name,
            mac: was.mac,
            mtu: was.mtu,
            up: was.up,
            carrier: true,
            link: was.link,
            group: was.group,
            gso_max_bytes: was.gso_max_bytes,
            checksum_offload: was.checksum_offload,
            backend: was.backend,
        };
        let mut entry = Entry::new(interface, true);
        entry.settings = settings;
        entry.counts = InterfaceCounts {
            rx_packets: counts.rx_packets,
            rx_bytes: counts.rx_bytes,
            rx_errors: counts.rx_errors,
            rx_dropped: counts.rx_dropped,
            tx_packets: counts.tx_packets,
            tx_bytes: counts.tx_bytes,
            tx_errors: counts.tx_errors,
            tx_dropped: counts.tx_dropped,
            ..entry.counts
        };
        entry
    }
}

impl Interfaces {
    pub(super) fn write_state(&self) -> Result<State, StateError> {
        let entries = self.entries.iter().flatten().map(|entry| (**entry).clone()).collect();
        State::write(KIND.name, KIND.state_version, &Exported { next_index: self.next_index, entries, tapped: self.tapped })
    }

    /// Takes over what a predecessor wrote.
    pub(super) fn read_state(&mut self, state: &State) -> Result<(), StateError> {
        let read = read(state)?;
        let damaged = |why: &str| StateError::Damaged { kind: KIND.name.to_owned(), why: why.to_owned() };
        if read.entries.len() > INTERFACES_MAX || read.entries.iter().any(|entry| entry.interface.index.0 > INTERFACE_INDEX_MAX) {
            return Err(damaged("too many interfaces, or numbers out of range"));
        }
        if !read.entries.iter().any(|entry| entry.interface.index == InterfaceIndex::LOOPBACK) {
            return Err(damaged("no lo"));
        }
        self.entries.clear();
        self.by_name.clear();
        self.groups.clear();
        (self.next_index, self.tapped) = (read.next_index, read.tapped);
        for entry in read.entries {
            self.put(entry);
        }
        Ok(())
    }
}

fn read(state: &State) -> Result<Exported, StateError> {
    let of = |entries: Vec<EntryWithoutCarrier>| entries.into_iter().map(Entry::from).collect();
    match state.read::<Exported>(KIND.name, KIND.state_version) {
        Err(StateError::WrongVersion { .. }) => {}
        read => return read,
    }
    match state.read::<ExportedWithoutCarrier>(KIND.name, 3) {
        Ok(ExportedWithoutCarrier { next_index, entries, tapped }) => return Ok(Exported { next_index, entries: of(entries), tapped }),
        Err(StateError::WrongVersion { .. }) => {}
        Err(damaged) => return Err(damaged),
    }
    match state.read::<ExportedUntapped>(KIND.name, 2) {
        Ok(ExportedUntapped { next_index, entries }) => Ok(Exported { next_index, entries: of(entries), tapped: false }),
        // The versions that this build reads begin with its own.
        Err(StateError::WrongVersion { .. }) => state.read(KIND.name, KIND.state_version),
        Err(damaged) => Err(damaged),
    }
}
