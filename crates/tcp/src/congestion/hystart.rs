//! Leaving slow start before the queue overflows: Linux's HyStart ([`Classic`]), or HyStart++ ([`HystartPlusPlus`]).

mod classic;
mod plus_plus;

pub use classic::Classic;
pub use plus_plus::{HystartPlusPlus, Phase};

/// Which of them (parameter `hystart` of block tcp).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// As Linux has it.
    #[default]
    Classic,
    /// RFC 9406.
    PlusPlus,
    /// Slow start ends with a loss.
    Off,
}
weft_core::fields!(
    enum Kind {
        Classic = 0,
        PlusPlus = 1,
        Off = 2,
    }
);

impl Kind {
    /// Their names, the default first.
    pub const NAMES: &[&str] = &["hystart", "hystart++", "off"];

    /// The kind of this name; none: there is no such one.
    pub fn named(name: &str) -> Option<Kind> {
        let kinds = [Kind::Classic, Kind::PlusPlus, Kind::Off];
        Kind::NAMES.iter().zip(kinds).find(|(known, _)| **known == name).map(|(_, kind)| kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Kind::NAMES[self as usize]
    }
}

/// What showed that the queue grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detected {
    /// Acknowledgments close behind each other for half a round trip.
    Train,
    /// Round trips that take longer.
    Delay,
}
weft_core::fields!(
    enum Detected {
        Train = 0,
        Delay = 1,
    }
);
