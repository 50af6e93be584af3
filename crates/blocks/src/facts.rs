//! What a block remembers of the interfaces, so that it need not ask their owner for every frame.

use weft_core::table::{Interface, LinkType};
use weft_core::{Answer, Context, InterfaceIndex, Query, Refused, Table};
use weft_wire::ethernet::Mac;

/// Largest number of an interface.
pub const INTERFACE_INDEX_MAX: u32 = 1_048_575;

/// What protocols need to know of an interface.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub name: Box<str>,
    pub mac: Mac,
    pub mtu: u32,
    pub up: bool,
    pub carrier: bool,
    /// Routes through it are marked (RTNH_F_LINKDOWN): while it is up, as long as it has no carrier; as it was then, while it is down.
    pub linkdown: bool,
    pub link: LinkType,
    pub gso_max_bytes: u32,
    pub group: u32,
}

impl From<&Interface> for Facts {
    fn from(interface: &Interface) -> Facts {
        Facts {
            name: interface.name.as_str().into(),
            mac: interface.mac(),
            mtu: interface.mtu,
            up: interface.up,
            carrier: interface.carrier,
            linkdown: interface.up && !interface.carrier,
            link: interface.link,
            gso_max_bytes: interface.gso_max_bytes,
            group: interface.group,
        }
    }
}

#[derive(Clone, Debug, Default)]
enum Entry {
    #[default]
    NotAsked,
    /// With the name that it had when it was known, if it was.
    Absent(Box<str>),
    Known(Facts),
}

/// Answers of the interfaces' owner, by index. Its user calls [`FactsCache::refresh`] when the table changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct FactsCache {
    entries: Vec<Entry>,
    /// Routes through interfaces without carrier are passed over (Linux ignore_routes_with_linkdown).
    pub ignores_linkdown: bool,
}

impl FactsCache {
    /// The facts of an interface; asks for them the first time.
    #[inline]
    pub(crate) fn get(&mut self, index: InterfaceIndex, cx: &Context<'_>) -> Option<&Facts> {
        if !matches!(self.entries.get(index.0 as usize), Some(Entry::Known(_) | Entry::Absent(_))) {
            self.ask(index, cx);
        }
        self.peek(index)
    }

    /// The facts of an interface that was asked about before.
    #[inline]
    pub(crate) fn peek(&self, index: InterfaceIndex) -> Option<&Facts> {
        match self.entries.get(index.0 as usize) {
            Some(Entry::Known(facts)) => Some(facts),
            _ => None,
        }
    }

    /// The name of an interface that was asked about, or that one had which has just gone.
    pub(crate) fn name(&self, index: InterfaceIndex) -> Option<&str> {
        match self.entries.get(index.0 as usize)? {
            Entry::Known(Facts { name, .. }) | Entry::Absent(name) => Some(&**name).filter(|name| !name.is_empty()),
            Entry::NotAsked => None,
        }
    }

    /// Is it up? One that nobody asked about is taken to be: who sends through it asks, and refuses one that does not exist.
    #[inline]
    pub(crate) fn is_up(&self, index: InterfaceIndex) -> bool {
        self.peek(index).is_none_or(|facts| facts.up)
    }

    /// May a route through it be taken?
    #[inline]
    pub(crate) fn leads(&self, index: InterfaceIndex) -> bool {
        self.peek(index).is_none_or(|facts| facts.up && (facts.carrier || !self.ignores_linkdown))
    }

    /// Are routes through it marked as leading to a link that is down?
    pub(crate) fn is_linkdown(&self, index: InterfaceIndex) -> bool {
        self.peek(index).is_some_and(|facts| facts.linkdown)
    }

    /// Is this the address of one of the interfaces that were asked about?
    pub(crate) fn is_own(&self, mac: Mac) -> bool {
        self.entries.iter().any(|entry| matches!(entry, Entry::Known(facts) if facts.mac == mac))
    }

    /// Asks again about every interface that is known. True if the table has an owner at all (`lo` always exists).
    pub(crate) fn refresh(&mut self, cx: &Context<'_>) -> bool {
        for index in 0..self.entries.len() as u32 {
            match self.entries[index as usize] {
                Entry::Known(_) => self.ask(InterfaceIndex(index), cx),
                _ => self.entries[index as usize] = Entry::NotAsked,
            }
        }
        self.get(InterfaceIndex::LOOPBACK, cx).is_some()
    }

    /// Asks again about one interface, if it is known. True as for [`FactsCache::refresh`].
    pub(crate) fn refresh_one(&mut self, index: InterfaceIndex, cx: &Context<'_>) -> bool {
        match self.entries.get(index.0 as usize) {
            Some(Entry::Known(_)) => self.ask(index, cx),
            Some(Entry::Absent(_)) => self.entries[index.0 as usize] = Entry::NotAsked,
            Some(Entry::NotAsked) | None => {}
        }
        self.get(InterfaceIndex::LOOPBACK, cx).is_some()
    }

    fn ask(&mut self, index: InterfaceIndex, cx: &Context<'_>) {
        let at = index.0 as usize;
        if index.0 > INTERFACE_INDEX_MAX {
            return;
        }
        if self.entries.len() <= at {
            self.entries.resize(at + 1, Entry::NotAsked);
        }
        let (name, linkdown) = match std::mem::take(&mut self.entries[at]) {
            Entry::Known(facts) => (facts.name, facts.linkdown),
            _ => (Box::default(), false),
        };
        self.entries[at] = match cx.ask(Table::Interfaces, &Query::Interface(index)) {
            Answer::Interface(interface) if interface.up => Entry::Known(Facts::from(&*interface)),
            Answer::Interface(interface) => Entry::Known(Facts { linkdown, ..Facts::from(&*interface) }),
            _ => Entry::Absent(name),
        };
    }
}

/// The number of an interface given by name or number.
pub(crate) fn find_interface(value: &weft_core::Value, cx: &Context<'_>) -> Result<InterfaceIndex, Refused> {
    let query = match (value.as_u64(), value.as_str()) {
        (Some(number), _) => Query::Interface(InterfaceIndex(u32::try_from(number).unwrap_or(u32::MAX))),
        (None, Some(name)) => Query::InterfaceNamed(name.to_owned()),
        _ => return Err(format!("{value} is neither an interface's name nor its number").into()),
    };
    match cx.ask(Table::Interfaces, &query) {
        Answer::Interface(interface) => Ok(interface.index),
        _ => Err(Refused::no_device(format!("there is no interface {value}"))),
    }
}
