//! Why a backend could not be opened, in words an operator can act on.

use std::io;

/// What could not be done, why, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {url}: {doing}: {why}{}{advice}", if .advice.is_empty() { "" } else { "; " })]
pub struct OpenError {
    /// What was to be opened.
    pub url: String,
    /// The step that failed.
    pub doing: String,
    /// Why it failed.
    pub why: String,
    /// What to do; may be empty.
    pub advice: String,
    /// What the kernel said.
    #[source]
    pub source: Option<io::Error>,
}

impl OpenError {
    pub(crate) fn new(url: &str, doing: impl Into<String>, why: impl Into<String>, advice: impl Into<String>) -> OpenError {
        OpenError { url: url.into(), doing: doing.into(), why: why.into(), advice: advice.into(), source: None }
    }

    /// From what a system call said, with advice for the errors that operators meet.
    pub(crate) fn from_io(url: &str, doing: impl Into<String>, error: io::Error) -> OpenError {
        let doing = doing.into();
        let (why, advice) = explain(&doing, &error);
        OpenError { url: url.into(), doing, why, advice: advice.into(), source: Some(error) }
    }
}

/// The error in words, and what to do.
fn explain(doing: &str, error: &io::Error) -> (String, &'static str) {
    let advice = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if doing.contains("packet socket") => {
            "needs CAP_NET_RAW: run as root, or in a user namespace with its own network namespace (unshare -Urn)"
        }
        Some(libc::EPERM | libc::EACCES) if doing.contains("nftables") => "needs CAP_NET_ADMIN over this network namespace: run as root",
        Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::ENOENT) if doing.contains("nftables") => {
            "this kernel lacks a part of nftables (CONFIG_NF_TABLES with netdev, inet, nat): load its modules (modprobe nf_tables)"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "needs CAP_NET_ADMIN: run as root, or in a user namespace with its own network namespace (unshare -Urn), or have root make a \
             persistent device for this user (ip tuntap add NAME mode tap vnet_hdr user USER)"
        }
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) if doing.contains("/dev/net/tun") => {
            "load the module (modprobe tun); in a container pass the device in (--device /dev/net/tun)"
        }
        Some(libc::ENODEV | libc::ENXIO) => "there is no such interface in this network namespace: see `ip link`",
        Some(libc::EBUSY) => "another process holds this device: choose another name, or end that process",
        Some(libc::EEXIST) => "there is already an interface or address like that: choose another name, or delete it (ip link del NAME)",
        Some(libc::EINVAL) if doing.contains("device") => "an interface of this name exists and is of another kind: choose another name",
        Some(libc::ENETDOWN) => "put the interface up (ip link set NAME up)",
        Some(libc::EOPNOTSUPP) => "this kernel lacks the device's driver: load its module (modprobe veth, modprobe tun)",
        _ => "",
    };
    // Not io::Error's own text: that repeats the number.
    let why = match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_string(),
        None => error.to_string(),
    };
    (why, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_reads_what_why_and_what_to_do() {
        let error = OpenError::from_io("tap:weft0", "opening /dev/net/tun", io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(
            error.to_string(),
            "cannot open tap:weft0: opening /dev/net/tun: No such file or directory; load the module (modprobe tun); in a container pass the \
             device in (--device /dev/net/tun)"
        );
        let error = OpenError::from_io("tap:weft0", "creating the device", io::Error::from_raw_os_error(libc::EPERM));
        assert!(error.to_string().contains("needs CAP_NET_ADMIN"), "{error}");
        let error = OpenError::from_io("tap:weft0", "creating the device", io::Error::from_raw_os_error(libc::EBUSY));
        assert!(error.to_string().contains("another process holds this device"), "{error}");
    }
}
