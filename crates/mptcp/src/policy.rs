//! A policy for devices with unlike interfaces: which are preferred, when the others stand by, and how much may go over those that cost.

use weft_core::table::Interface;

/// Which interfaces a word means.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Which {
    /// The one of this name.
    Name(String),
    /// Those whose names begin so.
    Prefix(String),
    /// Those of an interface group.
    Group(u32),
}

impl Which {
    fn parse(word: &str) -> Result<Which, String> {
        if let Some(number) = word.strip_prefix("group:") {
            return number
                .parse()
                .map(Which::Group)
                .map_err(|_| format!("'{word}': a group is a number from 0 to 4294967295, as in group:7"));
        }
        match word.strip_suffix('*') {
            Some(prefix) if !prefix.contains('*') => Ok(Which::Prefix(prefix.to_owned())),
            None if !word.is_empty() && !word.contains('*') => Ok(Which::Name(word.to_owned())),
            _ => Err(format!("'{word}' is no name of an interface, no beginning of one (wlan*), and no group (group:7)")),
        }
    }

    fn holds(&self, interface: &Interface) -> bool {
        match self {
            Which::Name(name) => interface.name == *name,
            Which::Prefix(prefix) => interface.name.starts_with(prefix),
            Which::Group(group) => interface.group == *group,
        }
    }
}

/// Interfaces in order of preference.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Preference(Vec<Which>);

/// Entries of a preference, and of quotas, at most.
pub const ENTRIES_MAX: usize = 64;

impl Preference {
    /// Reads names (`wlan0`), beginnings of names (`wlan*`) and groups (`group:7`), the best first.
    ///
    /// # Errors
    /// Which one is wrong, and why.
    pub fn parse(words: &[&str]) -> Result<Preference, String> {
        let all: Vec<Which> = words.iter().map(|word| Which::parse(word)).collect::<Result<_, _>>()?;
        if all.len() > ENTRIES_MAX {
            return Err(format!("there are {} of them, and {ENTRIES_MAX} are taken", all.len()));
        }
        match all.iter().enumerate().find(|(at, which)| all[..*at].contains(which)) {
            Some((at, _)) => Err(format!("'{}' is there twice", words[at])),
            None => Ok(Preference(all)),
        }
    }

    /// Nobody prefers anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How far behind the best an interface is, 0 the best; those that are not named are last.
    pub fn rank(&self, interface: &Interface) -> u32 {
        self.0.iter().position(|which| which.holds(interface)).unwrap_or(self.0.len()) as u32
    }
}

/// When subflows stand by on interfaces that are not the best.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Standby {
    /// Always.
    #[default]
    Always,
    /// While data flows.
    Active,
    /// Never: one is opened when no better interface works.
    Never,
}

/// Words for it, in the order of [`Standby`].
pub const STANDBY: &[&str] = &["always", "active", "never"];

impl Standby {
    /// The one of this name.
    pub fn of(name: &str) -> Standby {
        match name {
            "active" => Standby::Active,
            "never" => Standby::Never,
            _ => Standby::Always,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        STANDBY[self as usize]
    }
}

/// How much may go over some interfaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    which: Which,
    /// As it was written.
    text: String,
    /// Bytes of data, both ways, over all connections.
    pub bytes: u64,
}

impl Quota {
    /// Reads `INTERFACE BYTES`: the interface as a preference names it, bytes with or without a unit (kB, MB, GB, KiB, MiB, GiB).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Quota, String> {
        let (which, bytes) = text
            .trim()
            .split_once(char::is_whitespace)
            .ok_or_else(|| format!("'{text}': write an interface and bytes: \"wwan0 100MiB\""))?;
        let which = Which::parse(which)?;
        let bytes =
            read_bytes(bytes.trim()).ok_or_else(|| format!("'{text}': '{}' is no number of bytes (100MiB, 5GB, 1000000)", bytes.trim()))?;
        Ok(Quota { which, text: text.to_owned(), bytes })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Is this interface meant?
    pub fn holds(&self, interface: &Interface) -> bool {
        self.which.holds(interface)
    }
}

fn read_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => 1,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::InterfaceIndex;
    use weft_core::table::LinkType;

    fn interface(name: &str, group: u32) -> Interface {
        Interface {
            index: InterfaceIndex(1),
            name: name.to_owned(),
            mac: [0; 6],
            mtu: 1500,
            up: true,
            carrier: true,
            link: LinkType::Ethernet,
            group,
            gso_max_bytes: 0,
            checksum_offload: false,
            backend: String::new(),
        }
    }

    #[test]
    fn interfaces_have_the_rank_of_the_first_word_that_means_them() {
        let preference = Preference::parse(&["wlan*", "group:7", "wwan0"]).unwrap();
        let rank = |name, group| preference.rank(&interface(name, group));
        assert_eq!((rank("wlan3", 7), rank("eth0", 7), rank("wwan0", 0), rank("wwan1", 0)), (0, 1, 2, 3));
        assert!(Preference::default().is_empty() && Preference::default().rank(&interface("eth0", 0)) == 0);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for wrong in ["", "*x", "a*b*", "group:", "group:wifi", "group:-1"] {
            assert!(Preference::parse(&[wrong]).is_err(), "{wrong}");
        }
        assert_eq!(Preference::parse(&["wlan*", "eth0", "wlan*"]), Err("'wlan*' is there twice".to_owned()));
        for wrong in ["wwan0", "wwan0 ", "wwan0 x", "wwan0 10XB", "wwan0 99999999999GB", "* * 5", " 5"] {
            assert!(Quota::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn quotas_have_units() {
        for (text, bytes) in [("wwan0 100MiB", 100 << 20), ("group:7 5GB", 5_000_000_000), ("wwan* 0", 0), ("a 12 kB", 12_000)] {
            let quota = Quota::parse(text).unwrap();
            assert_eq!((quota.bytes, quota.text()), (bytes, text));
        }
    }

    #[test]
    fn standbys_have_names() {
        assert!(STANDBY.iter().all(|name| Standby::of(name).name() == *name));
    }
}
