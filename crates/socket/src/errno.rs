//! Error numbers of the Linux ABI, and the one place where a transport's error becomes one.

use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{IcmpErrorKind, StreamError};

/// An error number as a system call returns it (positive). Numbers: linux/include/uapi/asm-generic/errno{-base,}.h.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

/// Declares the numbers once: name, number, text of strerror(3).
macro_rules! errnos {
    ($($name:ident $number:literal $text:literal),+ $(,)?) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno($number);)+
            /// Its symbol (`ECONNREFUSED`), or `None` for numbers that Linux does not have.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some(stringify!($name)),)+ _ => None }
            }
            /// What strerror(3) says.
            pub const fn text(self) -> Option<&'static str> {
                match self.0 { $($number => Some($text),)+ _ => None }
            }
        }
    };
}

errnos! {
    EPERM 1 "Operation not permitted",
    ENOENT 2 "No such file or directory",
    ESRCH 3 "No such process",
    EINTR 4 "Interrupted system call",
    EIO 5 "Input/output error",
    ENXIO 6 "No such device or address",
    E2BIG 7 "Argument list too long",
    ENOEXEC 8 "Exec format error",
    EBADF 9 "Bad file descriptor",
    ECHILD 10 "No child processes",
    EAGAIN 11 "Resource temporarily unavailable",
    ENOMEM 12 "Cannot allocate memory",
    EACCES 13 "Permission denied",
    EFAULT 14 "Bad address",
    ENOTBLK 15 "Block device required",
    EBUSY 16 "Device or resource busy",
    EEXIST 17 "File exists",
    EXDEV 18 "Invalid cross-device link",
    ENODEV 19 "No such device",
    ENOTDIR 20 "Not a directory",
    EISDIR 21 "Is a directory",
    EINVAL 22 "Invalid argument",
    ENFILE 23 "Too many open files in system",
    EMFILE 24 "Too many open files",
    ENOTTY 25 "Inappropriate ioctl for device",
    ETXTBSY 26 "Text file busy",
    EFBIG 27 "File too large",
    ENOSPC 28 "No space left on device",
    ESPIPE 29 "Illegal seek",
    EROFS 30 "Read-only file system",
    EMLINK 31 "Too many links",
    EPIPE 32 "Broken pipe",
    EDOM 33 "Numerical argument out of domain",
    ERANGE 34 "Numerical result out of range",
    EDEADLK 35 "Resource deadlock avoided",
    ENAMETOOLONG 36 "File name too long",
    ENOLCK 37 "No locks available",
    ENOSYS 38 "Function not implemented",
    ENOTEMPTY 39 "Directory not empty",
    ELOOP 40 "Too many levels of symbolic links",
    ENOMSG 42 "No message of desired type",
    EIDRM 43 "Identifier removed",
    ECHRNG 44 "Channel number out of range",
    EL2NSYNC 45 "Level 2 not synchronized",
    EL3HLT 46 "Level 3 halted",
    EL3RST 47 "Level 3 reset",
    ELNRNG 48 "Link number out of range",
    EUNATCH 49 "Protocol driver not attached",
    ENOCSI 50 "No CSI structure available",
    EL2HLT 51 "Level 2 halted",
    EBADE 52 "Invalid exchange",
    EBADR 53 "Invalid request descriptor",
    EXFULL 54 "Exchange full",
    ENOANO 55 "No anode",
    EBADRQC 56 "Invalid request code",
    EBADSLT 57 "Invalid slot",
    EBFONT 59 "Bad font file format",
    ENOSTR 60 "Device not a stream",
    ENODATA 61 "No data available",
    ETIME 62 "Timer expired",
    ENOSR 63 "Out of streams resources",
    ENONET 64 "Machine is not on the network",
    ENOPKG 65 "Package not installed",
    EREMOTE 66 "Object is remote",
    ENOLINK 67 "Link has been severed",
    EADV 68 "Advertise error",
    ESRMNT 69 "Srmount error",
    ECOMM 70 "Communication error on send",
    EPROTO 71 "Protocol error",
    EMULTIHOP 72 "Multihop attempted",
    EDOTDOT 73 "RFS specific error",
    EBADMSG 74 "Bad message",
    EOVERFLOW 75 "Value too large for defined data type",
    ENOTUNIQ 76 "Name not unique on network",
    EBADFD 77 "File descriptor in bad state",
    EREMCHG 78 "Remote address changed",
    ELIBACC 79 "Can not access a needed shared library",
    ELIBBAD 80 "Accessing a corrupted shared library",
    ELIBSCN 81 ".lib section in a.out corrupted",
    ELIBMAX 82 "Attempting to link in too many shared libraries",
    ELIBEXEC 83 "Cannot exec a shared library directly",
    EILSEQ 84 "Invalid or incomplete multibyte or wide character",
    ERESTART 85 "Interrupted system call should be restarted",
    ESTRPIPE 86 "Streams pipe error",
    EUSERS 87 "Too many users",
    ENOTSOCK 88 "Socket operation on non-socket",
    EDESTADDRREQ 89 "Destination address required",
    EMSGSIZE 90 "Message too long",
    EPROTOTYPE 91 "Protocol wrong type for socket",
    ENOPROTOOPT 92 "Protocol not available",
    EPROTONOSUPPORT 93 "Protocol not supported",
    ESOCKTNOSUPPORT 94 "Socket type not supported",
    EOPNOTSUPP 95 "Operation not supported",
    EPFNOSUPPORT 96 "Protocol family not supported",
    EAFNOSUPPORT 97 "Address family not supported by protocol",
    EADDRINUSE 98 "Address already in use",
    EADDRNOTAVAIL 99 "Cannot assign requested address",
    ENETDOWN 100 "Network is down",
    ENETUNREACH 101 "Network is unreachable",
    ENETRESET 102 "Network dropped connection on reset",
    ECONNABORTED 103 "Software caused connection abort",
    ECONNRESET 104 "Connection reset by peer",
    ENOBUFS 105 "No buffer space available",
    EISCONN 106 "Transport endpoint is already connected",
    ENOTCONN 107 "Transport endpoint is not connected",
    ESHUTDOWN 108 "Cannot send after transport endpoint shutdown",
    ETOOMANYREFS 109 "Too many references: cannot splice",
    ETIMEDOUT 110 "Connection timed out",
    ECONNREFUSED 111 "Connection refused",
    EHOSTDOWN 112 "Host is down",
    EHOSTUNREACH 113 "No route to host",
    EALREADY 114 "Operation already in progress",
    EINPROGRESS 115 "Operation now in progress",
    ESTALE 116 "Stale file handle",
    EUCLEAN 117 "Structure needs cleaning",
    ENOTNAM 118 "Not a XENIX named type file",
    ENAVAIL 119 "No XENIX semaphores available",
    EISNAM 120 "Is a named type file",
    EREMOTEIO 121 "Remote I/O error",
    EDQUOT 122 "Disk quota exceeded",
    ENOMEDIUM 123 "No medium found",
    EMEDIUMTYPE 124 "Wrong medium type",
    ECANCELED 125 "Operation canceled",
    ENOKEY 126 "Required key not available",
    EKEYEXPIRED 127 "Key has expired",
    EKEYREVOKED 128 "Key has been revoked",
    EKEYREJECTED 129 "Key was rejected by service",
    EOWNERDEAD 130 "Owner died",
    ENOTRECOVERABLE 131 "State not recoverable",
    ERFKILL 132 "Operation not possible due to RF-kill",
}

impl std::fmt::Debug for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.name(), self.text()) {
            (Some(name), Some(text)) => write!(f, "{text} ({name})"),
            _ => write!(f, "errno {}", self.0),
        }
    }
}

impl std::error::Error for Errno {}

impl Field for Errno {
    fn write(&self, out: &mut Writer) {
        out.put(&self.0);
    }
    fn read(from: &mut Reader<'_>) -> Result<Errno, Damage> {
        from.take().map(Errno)
    }
}

/// What a program gets to see of a transport's error. The only table of this kind.
impl From<StreamError> for Errno {
    fn from(error: StreamError) -> Errno {
        match error {
            StreamError::Refused => Errno::ECONNREFUSED,
            StreamError::Reset => Errno::ECONNRESET,
            StreamError::BrokenPipe => Errno::EPIPE,
            StreamError::TimedOut => Errno::ETIMEDOUT,
            StreamError::NetUnreachable => Errno::ENETUNREACH,
            StreamError::HostUnreachable | StreamError::Prohibited => Errno::EHOSTUNREACH,
            StreamError::ProtocolUnreachable => Errno::ENOPROTOOPT,
            StreamError::MessageSize => Errno::EMSGSIZE,
            StreamError::AddressInUse => Errno::EADDRINUSE,
            StreamError::AddressNotAvailable => Errno::EADDRNOTAVAIL,
            StreamError::NoBuffers => Errno::ENOBUFS,
            StreamError::NotConnected => Errno::ENOTCONN,
            StreamError::Invalid => Errno::EINVAL,
            StreamError::NoEntry => Errno::ENOENT,
            StreamError::NetworkDown => Errno::ENETDOWN,
        }
    }
}

/// An ICMP error as datagram sockets report it: the number, and whether it is *hard* (reported to a connected socket that did not ask for
/// IP_RECVERR). Table: `icmp_err_convert` and `__udp4_lib_err` in linux/net/ipv4.
pub(crate) const fn of_icmp(kind: IcmpErrorKind) -> (Errno, bool) {
    match kind {
        IcmpErrorKind::NetUnreachable => (Errno::ENETUNREACH, false),
        IcmpErrorKind::HostUnreachable => (Errno::EHOSTUNREACH, false),
        IcmpErrorKind::ProtocolUnreachable => (Errno::ENOPROTOOPT, true),
        IcmpErrorKind::PortUnreachable => (Errno::ECONNREFUSED, true),
        IcmpErrorKind::TooBig { .. } => (Errno::EMSGSIZE, true),
        IcmpErrorKind::SourceRouteFailed => (Errno::EOPNOTSUPP, false),
        IcmpErrorKind::Prohibited => (Errno::EHOSTUNREACH, true),
        IcmpErrorKind::TtlExceeded | IcmpErrorKind::ReassemblyTimeout => (Errno::EHOSTUNREACH, false),
        IcmpErrorKind::ParameterProblem { .. } => (Errno::EPROTO, true),
        // Never told to sockets.
        IcmpErrorKind::Redirect { .. } => (Errno::EHOSTUNREACH, false),
    }
}

/// ICMPv4 type and code of an error, for `struct sock_extended_err`.
pub(crate) const fn icmp_type_and_code(kind: IcmpErrorKind) -> (u8, u8) {
    match kind {
        IcmpErrorKind::NetUnreachable => (3, 0),
        IcmpErrorKind::HostUnreachable => (3, 1),
        IcmpErrorKind::ProtocolUnreachable => (3, 2),
        IcmpErrorKind::PortUnreachable => (3, 3),
        IcmpErrorKind::TooBig { .. } => (3, 4),
        IcmpErrorKind::SourceRouteFailed => (3, 5),
        IcmpErrorKind::Prohibited => (3, 13),
        IcmpErrorKind::TtlExceeded => (11, 0),
        IcmpErrorKind::ReassemblyTimeout => (11, 1),
        IcmpErrorKind::ParameterProblem { .. } => (12, 0),
        IcmpErrorKind::Redirect { .. } => (5, 1),
    }
}

/// The same for ICMPv6 (`icmpv6_err_convert` in linux/net/ipv6/icmp.c).
pub(crate) const fn of_icmp6(kind: IcmpErrorKind) -> (Errno, bool) {
    match kind {
        IcmpErrorKind::NetUnreachable => (Errno::ENETUNREACH, false),
        IcmpErrorKind::HostUnreachable => (Errno::EHOSTUNREACH, false),
        IcmpErrorKind::PortUnreachable => (Errno::ECONNREFUSED, true),
        IcmpErrorKind::Prohibited => (Errno::EACCES, true),
        IcmpErrorKind::TooBig { .. } => (Errno::EMSGSIZE, false),
        IcmpErrorKind::TtlExceeded | IcmpErrorKind::ReassemblyTimeout | IcmpErrorKind::Redirect { .. } => (Errno::EHOSTUNREACH, false),
        IcmpErrorKind::ProtocolUnreachable | IcmpErrorKind::SourceRouteFailed | IcmpErrorKind::ParameterProblem { .. } => {
            (Errno::EPROTO, true)
        }
    }
}

/// ICMPv6 type and code of an error.
pub(crate) const fn icmp6_type_and_code(kind: IcmpErrorKind) -> (u8, u8) {
    match kind {
        IcmpErrorKind::NetUnreachable => (1, 0),
        IcmpErrorKind::Prohibited => (1, 1),
        IcmpErrorKind::HostUnreachable => (1, 3),
        IcmpErrorKind::PortUnreachable => (1, 4),
        IcmpErrorKind::TooBig { .. } => (2, 0),
        IcmpErrorKind::TtlExceeded => (3, 0),
        IcmpErrorKind::ReassemblyTimeout => (3, 1),
        IcmpErrorKind::ParameterProblem { .. } | IcmpErrorKind::SourceRouteFailed => (4, 0),
        IcmpErrorKind::ProtocolUnreachable => (4, 1),
        IcmpErrorKind::Redirect { .. } => (137, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_agree_with_the_host() {
        for number in 1..134 {
            let errno = Errno(number);
            let (Some(_), Some(text)) = (errno.name(), errno.text()) else { continue };
            assert!(std::io::Error::from_raw_os_error(number).to_string().starts_with(text), "{errno:?}");
        }
        assert_eq!(Errno::EAGAIN.0, libc::EAGAIN);
        assert_eq!(Errno(4000).to_string(), "errno 4000");
    }
}
