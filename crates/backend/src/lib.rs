//! Where a node's frames come from and go to.
//!
//! A [`Backend`] is one interface's other side: a TAP or TUN device or a packet socket (the kernel is on the other end), a queue in memory
//! (another node is), or a wrapper around any of them: a capture, a trace, faults. [`open`] makes one from a URL; [`SCHEMES`] is the one
//! table of what there is.
//!
//! # Contract
//!
//! * Nothing blocks. A device that has nothing, or is full, says so by doing less than it was asked for.
//! * Time is an argument: `now` stamps what is received and captured. A backend reads no clock.
//! * Payload is not copied in user space: the kernel writes large frames into blocks that the frames share, and reads them from where they lie.
//! * Every frame lost here is counted in [`Backend::drops`].
//!
//! # Why not an event loop here
//!
//! Who waits for what, and in which order things happen, belongs to the world that drives the node. A backend only lends out its descriptor.

pub mod coalesce;
pub mod fault;
pub mod guard;
pub mod host_side;
pub mod memory;
pub mod nat;
pub mod packet;
pub mod passt;
pub mod pcapng;
pub mod snapshot;
pub mod stream;
pub mod tap;
pub mod trace;
pub mod tun;

mod device;
mod error;
mod interface;
mod link_type;
mod nft;
mod ring;
#[cfg(test)]
mod samples;
mod scatter;
mod sys;

pub use error::OpenError;
pub use interface::{Backend, Features, OpenOptions, Prefix};
pub use link_type::LinkType;

type Open = fn(&str, &OpenOptions) -> Result<Box<dyn Backend>, OpenError>;

/// A kind of backend.
pub struct Scheme {
    /// What stands before the colon.
    pub name: &'static str,
    /// How a URL looks.
    pub usage: &'static str,
    /// What it is, in a line.
    pub help: &'static str,
    open: Open,
}

/// Every kind of backend.
pub const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "tap",
        usage: "tap:NAME",
        help: "a TAP device of the kernel, made here and gone when closed; an empty name lets the kernel choose one (needs CAP_NET_ADMIN)",
        open: |name, options| Ok(Box::new(tap::Tap::open(name, options)?)),
    },
    Scheme {
        name: "tun",
        usage: "tun:NAME",
        help: "the same without Ethernet: IP packets of both versions, no ARP (needs CAP_NET_ADMIN)",
        open: |name, options| Ok(Box::new(tun::Tun::open(name, options)?)),
    },
    Scheme {
        name: "packet",
        usage: "packet:INTERFACE",
        help: "a packet socket on an existing interface, Ethernet or IP only, for example one end of a veth pair (needs CAP_NET_RAW)",
        open: |name, options| Ok(Box::new(packet::Packet::open(name, options)?)),
    },
    Scheme {
        name: "stream",
        usage: "stream:PATH",
        help: "Ethernet over the UNIX socket at PATH, on which a virtual machine listens (QEMU's -netdev stream,server=on) or passt",
        open: |path, options| Ok(Box::new(stream::Stream::open(path, options)?)),
    },
    Scheme {
        name: "passt",
        usage: "passt:",
        help: "a way out without privilege, through passt, which is started here; options of passt follow by commas",
        open: |words, options| Ok(Box::new(passt::Passt::open(words, options)?)),
    },
    Scheme {
        name: "fd",
        usage: "fd:NUMBER",
        help: "a TAP or TUN device that whoever started this process has opened: the number of its descriptor",
        open: |number, options| Ok(Box::new(tap::Tap::inherited(number, options)?)),
    },
    Scheme {
        name: "memory",
        usage: "memory:NAME",
        help: "one end of a queue pair in this process; whoever opens the same name next gets the other end",
        open: |name, options| Ok(Box::new(memory::open(name, options)?)),
    },
    Scheme {
        name: "trace",
        usage: "trace:URL",
        help: "around another: a line on standard error for every frame",
        open: |inner, options| Ok(Box::new(trace::Trace::new(open(inner, options)?, Box::new(|line| eprintln!("{line}"))))),
    },
    Scheme {
        name: "fault",
        usage: "fault:WHAT:URL",
        help: "around another, for tests: loss=P, duplicate=P, corrupt=P, delay=T, refuse=P, full=P, gone=FRAMES, seed=N, by commas",
        open: |rest, options| {
            let (plan, inner) = fault::split(rest)?;
            Ok(Box::new(fault::Fault::new(open(inner, options)?, plan)))
        },
    },
];

/// Checks what can be said of a URL without opening anything: the kinds of all its layers, and what wrappers are told.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn check(url: &str) -> Result<(), OpenError> {
    check_depth(url)?;
    let known = || format!("write one of {}", SCHEMES.iter().map(|scheme| scheme.usage).collect::<Vec<_>>().join(", "));
    let wrong = |why: String, advice: String| Err(OpenError::new(url, "reading the URL", why, advice));
    let Some((scheme, name)) = url.split_once(':') else { return wrong(format!("the backend '{url}' has no kind"), known()) };
    match scheme {
        "trace" => check(name),
        "fault" => fault::split(name).and_then(|(_, inner)| check(inner)),
        "packet" if name.is_empty() => wrong("packet: names no interface".to_owned(), "write it as packet:INTERFACE".to_owned()),
        "stream" if name.is_empty() => wrong("stream: names no socket".to_owned(), "write it as stream:PATH".to_owned()),
        "stream" if name.len() > SOCKET_PATH_BYTES_MAX => {
            let advice = format!("a path of a socket has at most {SOCKET_PATH_BYTES_MAX} bytes: use a shorter one");
            wrong(format!("'{name}' is too long for a socket"), advice)
        }
        "fd" if name.parse::<u16>().is_err() => wrong(format!("'{name}' is no number of a descriptor"), "write it as fd:3".to_owned()),
        "tap" | "tun" if name.len() > INTERFACE_NAME_BYTES_MAX || name.contains(['/', ' ', ':']) => {
            let what = format!("'{name}' is no name for a {}", scheme.to_uppercase());
            wrong(what, format!("use 1 to {INTERFACE_NAME_BYTES_MAX} bytes without '/', ':' and spaces"))
        }
        _ if SCHEMES.iter().any(|row| row.name == scheme) => Ok(()),
        _ => wrong(format!("there is no kind of backend named '{scheme}'"), known()),
    }
}

/// The longest name of an interface that Linux takes, bytes (IFNAMSIZ less its zero).
const INTERFACE_NAME_BYTES_MAX: usize = 15;

/// The longest path of a UNIX socket, bytes (sun_path less its zero).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The backend that a URL is about when all wrappers around it are taken off: scheme and name. `None`: it is no URL.
pub fn innermost(url: &str) -> Option<(&str, &str)> {
    let mut inner = url;
    loop {
        inner = match inner.split_once(':')? {
            ("trace", rest) => rest,
            ("fault", rest) => rest.split_once(':')?.1,
            other => return Some(other),
        };
    }
}

/// Most wrappers around one backend.
const WRAPPERS_MAX: usize = 16;

/// Each wrapper is a call deeper for every frame: a few are a tool, thousands are a mistake.
fn check_depth(url: &str) -> Result<(), OpenError> {
    let mut inner = url;
    for _ in 0..=WRAPPERS_MAX {
        inner = match inner.split_once(':') {
            Some(("trace", rest)) => rest,
            Some(("fault", rest)) => rest.split_once(':').map_or("", |(_, rest)| rest),
            _ => return Ok(()),
        };
    }
    let short: String = url.chars().take(60).collect();
    let what = format!("more than {WRAPPERS_MAX} wrappers stand around one backend");
    Err(OpenError::new(&short, "reading the URL", what, "take most of the trace: and fault: away".to_owned()))
}

/// Opens a backend by its URL, `scheme:name`; [`SCHEMES`] lists them.
///
/// # Errors
/// What could not be done, why, and what to do about it.
pub fn open(url: &str, options: &OpenOptions) -> Result<Box<dyn Backend>, OpenError> {
    let known = || SCHEMES.iter().map(|scheme| scheme.usage).collect::<Vec<_>>().join(", ");
    let Some((scheme, name)) = url.split_once(':') else {
        return Err(OpenError::new(url, "reading the URL", "it has no scheme", format!("write one of {}", known())));
    };
    check_depth(url)?;
    match SCHEMES.iter().find(|row| row.name == scheme) {
        Some(row) => (row.open)(name, options),
        None => Err(OpenError::new(url, "reading the URL", format!("there is no backend {scheme:?}"), format!("write one of {}", known()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_through_all_their_layers() {
        for url in [
            "tap:",
            "tap:weft0",
            "trace:fault:loss=0.5,seed=3:tun:t0",
            "fault:gone=5:memory:m",
            "packet:eth0",
            "stream:/a",
            "passt:",
            "fd:3",
        ] {
            assert!(check(url).is_ok(), "{url}");
        }
        for (url, what) in [
            ("tap0", "no kind"),
            ("trace:tap0", "no kind"),
            ("trace:", "no kind"),
            (&format!("{}memory:m", "trace:".repeat(50_000)), "more than 16 wrappers"),
            ("pigeon:1", "named 'pigeon'"),
            ("trace:pigeon:1", "named 'pigeon'"),
            ("packet:", "names no interface"),
            ("stream:", "names no socket"),
            (&format!("stream:/{}", "x".repeat(107)), "too long for a socket"),
            ("fd:three", "no number of a descriptor"),
            ("tun:a name", "no name for a TUN"),
            ("fault:loss=0.5", "names no other backend"),
            ("fault:loss=2:tap:x", "no probability"),
            ("fault:los=0.2:tap:x", "no fault 'los'"),
        ] {
            let error = check(url).unwrap_err();
            assert!(error.why.contains(what) && !error.advice.is_empty(), "{error}");
        }
    }

    #[test]
    fn a_wrong_url_is_told_what_there_is() {
        let error = open("tap0", &OpenOptions::default()).err().unwrap().to_string();
        assert_eq!(
            error,
            "cannot open tap0: reading the URL: it has no scheme; write one of tap:NAME, tun:NAME, packet:INTERFACE, stream:PATH, passt:, fd:NUMBER, memory:NAME, trace:URL, fault:WHAT:URL"
        );
        let error = open("pigeon:1", &OpenOptions::default()).err().unwrap().to_string();
        assert!(error.contains("there is no backend \"pigeon\""), "{error}");
    }
}
