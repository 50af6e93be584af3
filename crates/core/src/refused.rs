//! Why somebody is refused: a sentence for people and, where Linux has an errno for it, the kind.
//!
//! A block says the kind by its meaning. Its number, which programs get, and its name, which people read before the sentence, stand here and
//! nowhere else. Nobody reads a kind out of a text.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of refusal it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// Nobody may do that.
    NotPermitted,
    /// What is to be changed or deleted is not there.
    NotFound,
    /// Nothing fits what was said.
    NoMatch,
    /// It is switched off there.
    Denied,
    /// Somebody else has it.
    Busy,
    /// It is there already.
    Exists,
    /// There is no such interface.
    NoDevice,
    /// What was said makes no sense.
    Invalid,
    /// There is no room for more.
    NoSpace,
    /// That cannot be done here.
    Unsupported,
    /// The address is not there, or is none that can be had.
    AddressNotAvailable,
    /// There is no connection yet, or no more.
    NotConnected,
    /// No route leads to the network.
    NetworkUnreachable,
    /// No route leads to the host.
    HostUnreachable,
}

impl ErrorKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: &'static [ErrorKind] = &[
        ErrorKind::NotPermitted,
        ErrorKind::NotFound,
        ErrorKind::NoMatch,
        ErrorKind::Denied,
        ErrorKind::Busy,
        ErrorKind::Exists,
        ErrorKind::NoDevice,
        ErrorKind::Invalid,
        ErrorKind::NoSpace,
        ErrorKind::Unsupported,
        ErrorKind::AddressNotAvailable,
        ErrorKind::NetworkUnreachable,
        ErrorKind::NotConnected,
        ErrorKind::HostUnreachable,
    ];

    /// Linux's errno, positive.
    pub const fn errno(self) -> i32 {
        self.on_linux().0
    }

    /// The errno's name.
    pub const fn name(self) -> &'static str {
        self.on_linux().1
    }

    const fn on_linux(self) -> (i32, &'static str) {
        match self {
            ErrorKind::NotPermitted => (1, "EPERM"),
            ErrorKind::NotFound => (2, "ENOENT"),
            ErrorKind::NoMatch => (3, "ESRCH"),
            ErrorKind::Denied => (13, "EACCES"),
            ErrorKind::Busy => (16, "EBUSY"),
            ErrorKind::Exists => (17, "EEXIST"),
            ErrorKind::NoDevice => (19, "ENODEV"),
            ErrorKind::Invalid => (22, "EINVAL"),
            ErrorKind::NoSpace => (28, "ENOSPC"),
            ErrorKind::Unsupported => (95, "EOPNOTSUPP"),
            ErrorKind::AddressNotAvailable => (99, "EADDRNOTAVAIL"),
            ErrorKind::NetworkUnreachable => (101, "ENETUNREACH"),
            ErrorKind::NotConnected => (107, "ENOTCONN"),
            ErrorKind::HostUnreachable => (113, "EHOSTUNREACH"),
        }
    }
}

/// A refusal: what kind it is, if that was said, and why. People read both: `EEXIST: the interface has 10.0.0.1 already`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Told", from = "Told")]
pub struct Refused {
    /// None: nobody said it. What a program gets then depends on the error that this is part of (`ControlError::kind`).
    pub kind: Option<ErrorKind>,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl Refused {
    /// A refusal of a kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Refused {
        Refused { kind: Some(kind), text: text.into() }
    }
    /// Nobody may do that: [`ErrorKind::NotPermitted`].
    pub fn not_permitted(text: impl Into<String>) -> Refused {
        Refused::new(ErrorKind::NotPermitted, text)
    }
    /// What is to be changed or deleted is not there: [`ErrorKind::NotFound`].
    pub fn not_found(text: impl Into<String>) -> Refused {
        Refused::new(ErrorKind::NotFound, text)
    }
    /// Somebody else has it: [`ErrorKind::Busy`].
    pub fn busy(text: impl Into<String>) -> Refused {
        Refused::new(ErrorKind::Busy, text)
    }
    /// It is there already: [`ErrorKind::Exists`].
    pub fn exists(text: impl Into<String>) -> Refused {
        Refused::new(ErrorKind::Exists, text)
    }
    /// There is no such interface: [`ErrorKind::NoDevice`].
    pub fn no_device(text: impl Into<String>) -> Refused {
        Refused::new(ErrorKind::NoDevice, text)
    }
    /// What was said makes no sense: [`ErrorKind::Invalid`].
    pub fn invalid(text: impl Into<String>) -> Refused {
        Refused::new(ErrorKind::Invalid, text)
    }
    /// That cannot be done here: [`ErrorKind::Unsupported`].
    pub fn unsupported(text: impl Into<String>) -> Refused {
        Refused::new(ErrorKind::Unsupported, text)
    }
    /// The address is none that can be had: [`ErrorKind::AddressNotAvailable`].
    pub fn address_not_available(text: impl Into<String>) -> Refused {
        Refused::new(ErrorKind::AddressNotAvailable, text)
    }

    /// The same with more text behind it.
    #[must_use]
    pub fn and(mut self, more: &str) -> Refused {
        self.text.push_str(more);
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{}: {}", kind.name(), self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl From<String> for Refused {
    fn from(text: String) -> Refused {
        Refused { kind: None, text }
    }
}

impl From<&str> for Refused {
    fn from(text: &str) -> Refused {
        text.to_owned().into()
    }
}

/// A refusal between two processes. `why` is what people read, so that whoever only shows it need not know the kinds.
#[derive(Serialize, Deserialize)]
struct Told {
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<ErrorKind>,
}

impl From<Refused> for Told {
    fn from(refused: Refused) -> Told {
        Told { why: refused.to_string(), kind: refused.kind }
    }
}

impl From<Told> for Refused {
    fn from(Told { why, kind }: Told) -> Refused {
        let text = kind.and_then(|kind| why.strip_prefix(kind.name())?.strip_prefix(": ")).map(str::to_owned);
        Refused { kind, text: text.unwrap_or(why) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ControlError;
    use serde_json::json;

    #[test]
    fn kinds_have_the_numbers_and_names_of_linux() {
        let numbers: Vec<i32> = ErrorKind::ALL.iter().map(|kind| kind.errno()).collect();
        assert_eq!(numbers, [1, 2, 3, 13, 16, 17, 19, 22, 28, 95, 99, 101, 107, 113]);
        let names: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
        let of_linux =
            "EPERM ENOENT ESRCH EACCES EBUSY EEXIST ENODEV EINVAL ENOSPC EOPNOTSUPP EADDRNOTAVAIL ENETUNREACH ENOTCONN EHOSTUNREACH";
        assert_eq!(names.join(" "), of_linux);
    }

    fn errors() -> Vec<(ControlError, ErrorKind, &'static str)> {
        let failed = |why: Refused| ControlError::ExecFailed { block: "ip4".to_owned(), procedure: "route_add".to_owned(), why };
        let not_attached = |why: Refused| ControlError::NotAttached { interface: "lab0".to_owned(), why };
        vec![
            (failed(Refused::exists("it is there")), ErrorKind::Exists, "ip4 route_add: EEXIST: it is there"),
            (failed(Refused::invalid("mtu: 3")), ErrorKind::Invalid, "ip4 route_add: EINVAL: mtu: 3"),
            (failed("mtu: 3 is no number".into()), ErrorKind::Invalid, "ip4 route_add: mtu: 3 is no number"),
            (not_attached(Refused::busy("tap:x is another's")), ErrorKind::Busy, "interface 'lab0': EBUSY: tap:x is another's"),
            (not_attached("no such device".into()), ErrorKind::Unsupported, "interface 'lab0': no such device"),
            (ControlError::World { why: "not here".into() }, ErrorKind::Unsupported, "not here"),
            (ControlError::Limit { what: "routes".to_owned(), max: 3 }, ErrorKind::NoSpace, "limit: routes (at most 3)"),
            (ControlError::NoMatch { selector: "ip4".to_owned() }, ErrorKind::Unsupported, "'ip4' matches nothing"),
        ]
    }

    #[test]
    fn an_error_has_a_kind_and_people_read_its_name_where_it_was_said() {
        for (error, kind, text) in errors() {
            assert_eq!((error.kind(), error.to_string()), (kind, text.to_owned()));
        }
        let unsupported = ControlError::World { why: Refused::unsupported("not here") };
        assert_eq!((unsupported.kind().errno(), unsupported.to_string()), (95, format!("{}: not here", ErrorKind::Unsupported.name())));
    }

    #[test]
    fn an_error_is_the_same_in_another_process() {
        for (error, ..) in errors() {
            let told = serde_json::to_string(&error).unwrap();
            assert_eq!(serde_json::from_str::<ControlError>(&told).unwrap(), error, "{told}");
        }
        let why = Refused::unsupported("not here");
        let (told, world) = (why.to_string(), serde_json::to_value(ControlError::World { why }).unwrap());
        assert_eq!(world, json!({"world": {"why": told, "kind": "unsupported"}}), "as whoever shows it wants it");
        let plain = serde_json::to_value(ControlError::World { why: "not here".into() }).unwrap();
        assert_eq!(plain, json!({"world": {"why": "not here"}}));
    }

    #[test]
    fn a_text_that_begins_like_a_kind_is_none() {
        let text = format!("{}: said a program", ErrorKind::Exists.name());
        let told = json!({"exec-failed": {"block": "ip4", "procedure": "route_add", "why": text}});
        let error: ControlError = serde_json::from_value(told).unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), format!("ip4 route_add: {text}"), "people read what was written");
    }
}
