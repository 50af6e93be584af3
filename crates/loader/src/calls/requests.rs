//! Requests of ioctl(2) by what they are about (include/uapi/linux/sockios.h, wireless.h).

use core::ops::Range;

/// SIOCADDRT … SIOCPROTOPRIVATE: routes, ARP, `SIOC[GS]IF*`, SIOCETHTOOL, and SIOCOUTQNSD between them.
pub const INTERFACES: Range<u32> = 0x890b..0x8a00;
/// Wireless extensions: they too reach interfaces through any socket.
pub const WIRELESS: Range<u32> = 0x8b00..0x8c00;
/// SIOCOUTQNSD, which is about a socket, though its number lies among those about interfaces.
pub const SIOCOUTQNSD: u32 = 0x894b;

/// PPPIOCNEWUNIT: makes an interface of the host's.
pub const PPPIOCNEWUNIT: u32 = 0xc004_743e;
/// TUNSETNOCSUM … TUNSETCARRIER of linux/if_tun.h, whose upper halves are directions and sizes: interfaces of the host's.
pub const IOCTL_TUN: Range<u32> = 0x54c8..0x54e4;

/// Does a request read or change interfaces, routes or neighbours of the network namespace that its socket belongs to? Any socket may be used for
/// them, AF_UNIX too. Such a one is answered or refused, and never left to the kernel.
pub fn is_about_interfaces(request: u32) -> bool {
    (INTERFACES.contains(&request) || WIRELESS.contains(&request)) && request != SIOCOUTQNSD
}

/// Does a request make an interface, or change one that it has made?
pub fn makes_interfaces(request: u32) -> bool {
    request == PPPIOCNEWUNIT || IOCTL_TUN.contains(&(request & 0xffff))
}

/// FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP: to whom SIGIO goes, which is the file's affair, as by F_SETOWN (`sock_ioctl`).
pub fn is_about_owner(request: u32) -> bool {
    (0x8901..=0x8904).contains(&request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_interfaces_is_told_from_what_is_about_a_socket() {
        // SIOCADDRT, SIOCDELRT, SIOCGIFNAME, SIOCETHTOOL, SIOCDARP, SIOCBRADDBR, SIOCDEVPRIVATE, SIOCGIWNAME
        for request in [0x890b, 0x890c, 0x8910, 0x8946, 0x8953, 0x89a0, 0x89f0, 0x8b01] {
            assert!(is_about_interfaces(request), "{request:#x}");
        }
        // FIOSETOWN, SIOCATMARK, SIOCGSTAMP, SIOCOUTQNSD, FIONREAD
        for request in [0x8901, 0x8905, 0x8906, SIOCOUTQNSD, 0x541b, 0x8a00] {
            assert!(!is_about_interfaces(request), "{request:#x}");
            assert_eq!(is_about_owner(request), request == 0x8901, "{request:#x}");
        }
    }
}
