//! Who has sent a packet, and what a receiver is told of that in its name (netlink_recvmsg).

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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_bit_for_the_first_groups_alone() {
        let bits = |group| Sender { number: 7, group, ..Sender::default() }.name()[8..].to_vec();
        assert_eq!([0, 1, 32, 33].map(bits), [0, 1, 1 << 31, 0].map(|bits: u32| bits.to_ne_bytes().to_vec()));
    }
}
