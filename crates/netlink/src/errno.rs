//! Refusals: an errno and, for programs that want one (NETLINK_EXT_ACK), a sentence.

use weft_core::{ControlError, ErrorKind};

// What blocks refuse with, too, has its number in their table.
pub(crate) const EPERM: i32 = ErrorKind::NotPermitted.errno();
pub(crate) const ENOENT: i32 = ErrorKind::NotFound.errno();
pub(crate) const ESRCH: i32 = ErrorKind::NoMatch.errno();
pub(crate) const EEXIST: i32 = ErrorKind::Exists.errno();
pub(crate) const ENODEV: i32 = ErrorKind::NoDevice.errno();
pub(crate) const EINVAL: i32 = ErrorKind::Invalid.errno();
pub(crate) const EOPNOTSUPP: i32 = ErrorKind::Unsupported.errno();
pub(crate) const EADDRNOTAVAIL: i32 = ErrorKind::AddressNotAvailable.errno();
pub(crate) const ENETUNREACH: i32 = ErrorKind::NetworkUnreachable.errno();
pub(crate) const EHOSTUNREACH: i32 = ErrorKind::HostUnreachable.errno();
// The kernel alone.
pub(crate) const EACCES: i32 = 13;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EAFNOSUPPORT: i32 = 97;
pub(crate) const ENETDOWN: i32 = 100;

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Positive.
    pub errno: i32,
    /// NLMSGERR_ATTR_MSG, without a full stop: iproute2 writes one.
    pub text: Option<String>,
    /// NLMSGERR_ATTR_MISS_TYPE: the attribute that is missing.
    pub missing: Option<u16>,
}

impl Refusal {
    /// With an errno alone.
    pub(crate) fn plain(errno: i32) -> Refusal {
        Refusal { errno, text: None, missing: None }
    }
    /// With a sentence.
    pub(crate) fn said(errno: i32, text: impl Into<String>) -> Refusal {
        Refusal { errno, text: Some(text.into()), missing: None }
    }
    /// Without an attribute (GENL_REQ_ATTR_CHECK).
    pub(crate) fn without(attribute: u16) -> Refusal {
        Refusal { missing: Some(attribute), ..Refusal::plain(EINVAL) }
    }
    /// What weft does not have: the kernel's errno for that, and its name.
    pub(crate) fn lacking(what: &str) -> Refusal {
        Refusal::said(EOPNOTSUPP, format!("weft {what}"))
    }
}

/// The errno of a block's refusal, and its sentence: programs do not want to know which block it was.
pub(crate) fn number_of(error: &ControlError) -> (i32, String) {
    let sentence = match error {
        ControlError::ExecFailed { why, .. } => why.text.clone(),
        other => other.to_string(),
    };
    (error.kind().errno(), sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::Refused;

    #[test]
    fn what_blocks_say_becomes_an_errno() {
        let failed = |why: Refused| ControlError::ExecFailed { block: "ip4".into(), procedure: "route_add".into(), why };
        assert_eq!(number_of(&failed(Refused::new(ErrorKind::NoMatch, "no route fits"))), (3, "no route fits".to_owned()));
        assert_eq!(number_of(&failed("mtu: 3 is no number".into())), (22, "mtu: 3 is no number".to_owned()));
        assert_eq!(number_of(&ControlError::Limit { what: "routes".into(), max: 3 }), (28, "limit: routes (at most 3)".to_owned()));
        assert_eq!(number_of(&ControlError::NoMatch { selector: "ip4".into() }).0, 95);
    }

    #[test]
    fn a_world_without_changes_names_the_errno_in_its_sentence() {
        let why = Refused::unsupported("nobody is there to change");
        let sentence = why.to_string();
        assert_eq!(number_of(&ControlError::World { why }), (95, sentence));
    }
}
