//! Refusals: an errno and, for programs that want one (NETLINK_EXT_ACK), a sentence.

use weft_core::ControlError;

pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const ESRCH: i32 = 3;
pub(crate) const EACCES: i32 = 13;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const ERANGE: i32 = 34;
pub(crate) const EOPNOTSUPP: i32 = 95;
pub(crate) const EAFNOSUPPORT: i32 = 97;
pub(crate) const EADDRNOTAVAIL: i32 = 99;
pub(crate) const ENETDOWN: i32 = 100;
pub(crate) const ENETUNREACH: i32 = 101;
pub(crate) const EHOSTUNREACH: i32 = 113;

/// The errnos whose names begin what blocks say.
const NAMES: [(&str, i32); 14] = [
    ("EPERM", EPERM),
    ("ENOENT", ENOENT),
    ("ESRCH", ESRCH),
    ("EACCES", EACCES),
    ("EEXIST", EEXIST),
    ("ENODEV", ENODEV),
    ("EINVAL", EINVAL),
    ("ENOSPC", ENOSPC),
    ("ERANGE", ERANGE),
    ("EOPNOTSUPP", EOPNOTSUPP),
    ("EADDRNOTAVAIL", EADDRNOTAVAIL),
    ("ENETDOWN", ENETDOWN),
    ("ENETUNREACH", ENETUNREACH),
    ("EHOSTUNREACH", EHOSTUNREACH),
];

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Positive.
    pub errno: i32,
    /// NLMSGERR_ATTR_MSG, without a full stop: iproute2 writes one.
    pub text: Option<String>,
}

impl Refusal {
    /// With an errno alone.
    pub(crate) fn plain(errno: i32) -> Refusal {
        Refusal { errno, text: None }
    }
    /// With a sentence.
    pub(crate) fn said(errno: i32, text: impl Into<String>) -> Refusal {
        Refusal { errno, text: Some(text.into()) }
    }
    /// What weft does not have: the kernel's errno for that, and its name.
    pub(crate) fn lacking(what: &str) -> Refusal {
        Refusal::said(EOPNOTSUPP, format!("weft {what}"))
    }
}

/// The errno that a block's refusal begins with, and the rest of it. What begins with none is EINVAL; a full table is ENOSPC.
pub fn number_of(error: &ControlError) -> (i32, String) {
    match error {
        ControlError::Limit { .. } => (ENOSPC, error.to_string()),
        ControlError::ExecFailed { why, .. } => {
            if let Some(kind) = why.kind {
                return (kind.errno(), why.text.clone());
            }
            let (name, rest) = why.text.split_once(": ").unwrap_or(("", &why.text));
            let known = NAMES.iter().find(|(known, _)| *known == name);
            known.map_or_else(|| (EINVAL, why.text.clone()), |(_, number)| (*number, rest.to_owned()))
        }
        // The graph has no such block.
        other => (EOPNOTSUPP, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_blocks_say_becomes_an_errno() {
        let failed = |why: &str| ControlError::ExecFailed { block: "ip4".into(), procedure: "route_add".into(), why: why.into() };
        assert_eq!(number_of(&failed("ESRCH: no route fits")), (ESRCH, "no route fits".to_owned()));
        assert_eq!(number_of(&failed("mtu: 3 is no number")), (EINVAL, "mtu: 3 is no number".to_owned()));
        assert_eq!(number_of(&ControlError::Limit { what: "routes".into(), max: 3 }).0, ENOSPC);
        assert_eq!(number_of(&ControlError::NoMatch { selector: "ip4".into() }).0, EOPNOTSUPP);
    }
}
