//! On which interfaces there is no IPv6 (Linux disable_ipv6).

use std::collections::BTreeMap;
use weft_core::InterfaceIndex;

/// On which interfaces there is no IPv6.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Disabled {
    /// What was last said of all.
    pub all: bool,
    /// What holds for interfaces that come.
    pub new: bool,
    /// What holds for those that came: at most as many as there are interfaces.
    by_interface: BTreeMap<InterfaceIndex, bool>,
}

weft_core::fields!(struct Disabled { all, new, by_interface });

impl Disabled {
    pub fn new(all: bool, new: bool) -> Disabled {
        Disabled { all, new: all || new, by_interface: BTreeMap::new() }
    }

    /// Is there none on this one?
    #[inline]
    pub fn is(&self, interface: InterfaceIndex) -> bool {
        !self.by_interface.is_empty() && self.by_interface.get(&interface) == Some(&true)
    }

    /// The same of one that may have come just now.
    pub fn sees(&mut self, interface: InterfaceIndex) -> bool {
        // One that nobody switched off leaves no trace while all are on.
        if !self.new && self.by_interface.is_empty() {
            return false;
        }
        *self.by_interface.entry(interface).or_insert(self.new)
    }

    /// False: it was so.
    pub fn set(&mut self, interface: InterfaceIndex, disable: bool) -> bool {
        self.by_interface.insert(interface, disable).unwrap_or(false) != disable
    }

    pub fn forget(&mut self, goes: impl Fn(InterfaceIndex) -> bool) {
        self.by_interface.retain(|interface, _| !goes(*interface));
    }
}
