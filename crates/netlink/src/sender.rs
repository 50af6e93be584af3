//! Who has sent a packet, and what a receiver is told of that beside the packet (netlink_recvmsg, scm_recv) and in its name.

const SOL_SOCKET: i32 = 1;
const SOL_NETLINK: i32 = 270;
const NETLINK_PKTINFO: i32 = 3;
const SCM_CREDENTIALS: i32 = 2;
/// Bytes of `struct cmsghdr`, and of what its data is aligned to.
const CMSGHDR_BYTES: usize = 16;
const ALIGNMENT: usize = 8;
/// Groups that a name has a bit for.
const NAMED_GROUPS: u32 = 32;

pub(crate) const AF_NETLINK: u8 = 16;
/// `struct sockaddr_nl` of the kernel: AF_NETLINK, port 0, no groups.
pub(crate) const KERNEL_NAME: [u8; 12] = [AF_NETLINK, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The `struct sockaddr_nl` of a number (0: the kernel) and groups.
pub fn named(port: u32, groups: u32) -> Vec<u8> {
    let mut name = KERNEL_NAME.to_vec();
    name[4..8].copy_from_slice(&port.to_ne_bytes());
    name[8..12].copy_from_slice(&groups.to_ne_bytes());
    name
}

/// Who has sent a packet; the kernel is 0 in all of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sender {
    /// nl_pid.
    pub number: u32,
    /// The group that it was sent to (RTNLGRP_*), and a number, too, perhaps. 0: none.
    pub group: u32,
    /// `struct ucred`: process, user, group.
    pub credentials: [u32; 3],
}

impl Sender {
    /// The kernel, which tells a group.
    pub fn kernel_to(group: u32) -> Sender {
        Sender { group, ..Sender::default() }
    }

    /// netlink_recvmsg: "addr->nl_pid = NETLINK_CB(skb).portid; addr->nl_groups = netlink_group_mask(NETLINK_CB(skb).dst_group);"
    pub fn name(&self) -> Vec<u8> {
        named(self.number, if (1..=NAMED_GROUPS).contains(&self.group) { 1 << (self.group - 1) } else { 0 })
    }

    /// Control messages: "if (nlk_test_bit(RECV_PKTINFO, sk)) netlink_cmsg_recv_pktinfo(msg, skb);", then scm_recv.
    pub(crate) fn control(&self, tells_group: bool, tells_credentials: bool) -> Vec<u8> {
        let mut out = Vec::new();
        if tells_group {
            put(&mut out, SOL_NETLINK, NETLINK_PKTINFO, &self.group.to_ne_bytes());
        }
        if tells_credentials {
            put(&mut out, SOL_SOCKET, SCM_CREDENTIALS, &self.credentials.map(u32::to_ne_bytes).concat());
        }
        out
    }
}

/// One control message, with what aligns the next.
fn put(out: &mut Vec<u8>, level: i32, kind: i32, data: &[u8]) {
    out.extend((CMSGHDR_BYTES + data.len()).to_ne_bytes());
    out.extend(level.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(data);
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_bit_for_the_first_groups_alone() {
        let bits = |group| Sender { number: 7, group, ..Sender::default() }.name()[8..].to_vec();
        assert_eq!([0, 1, 32, 33].map(bits), [0, 1, 1 << 31, 0].map(|bits: u32| bits.to_ne_bytes().to_vec()));
    }

    #[test]
    fn what_was_not_asked_for_is_not_told() {
        let sender = Sender { number: 7, group: 5, credentials: [9, 1000, 1001] };
        assert_eq!(sender.control(false, false), Vec::<u8>::new());
        let both = sender.control(true, true);
        assert_eq!((both.len(), both[16], both[40]), (56, 5, 9));
        assert_eq!(sender.control(false, true), both[24..]);
    }
}
