//! Connections over several flows (Multipath TCP), as their owner tells of them: what `struct mptcp_info` and sock_diag(7) show.

use std::net::{IpAddr, SocketAddr};

/// What the owner does for connections of the node (`net.mptcp`, `ip mptcp limits`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MultipathNode {
    /// New connections try it.
    pub enabled: bool,
    /// They ask for checksums.
    pub checksum: bool,
    /// What a connection may have.
    pub limits: MultipathLimits,
    /// Addresses that connections may use, as somebody named them.
    pub endpoints: Vec<MultipathEndpoint>,
}

/// What a connection may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MultipathLimits {
    /// Subflows beside the first.
    pub subflows: u8,
    /// Addresses that the peer may announce.
    pub add_addr_accepted: u8,
    /// Addresses that the peer is told of.
    pub add_addr_signal: u8,
    /// Addresses that subflows are opened from.
    pub local_addresses: u8,
}

/// An address that connections may use (ip-mptcp(8)).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultipathEndpoint {
    /// Its identifier.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// Another port than the connection's; 0: none.
    pub port: u16,
    /// The interface to use, by name.
    pub dev: Option<String>,
    /// MPTCP_PM_ADDR_FLAG_*.
    pub flags: u32,
}

/// A connection, or a listener that takes such ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MultipathInfo {
    /// Its own state, as TCP's are numbered (linux/tcp_states.h).
    pub state: u8,
    /// It waits for connections: nothing else is said of it.
    pub listens: bool,
    /// It is plain TCP: what is left of it here is data that tcp had no room for.
    pub fallen_back: bool,
    /// The peer's key is known.
    pub remote_key_known: bool,
    /// The peer has heard all of the handshake.
    pub confirmed: bool,
    /// Data has checksums.
    pub checksum: bool,
    /// This side's token.
    pub token: u32,
    /// The peer's; 0: not known yet.
    pub remote_token: u32,
    /// Data sequence number of the next byte that the program writes.
    pub write_seq: u64,
    /// Of the next byte that leaves for the first time.
    pub snd_nxt: u64,
    /// Of the first that the peer has not acknowledged.
    pub snd_una: u64,
    /// Of the next that is to come.
    pub rcv_nxt: u64,
    /// Timeouts in a row without an acknowledgment of data.
    pub retransmits: u8,
    /// Bytes that left for the first time.
    pub bytes_sent: u64,
    /// Bytes that went by a second subflow, or again.
    pub bytes_retransmitted: u64,
    /// Bytes that the program has got or may get.
    pub bytes_received: u64,
    /// Bytes that the peer has acknowledged.
    pub bytes_acknowledged: u64,
    /// Addresses that the peer was told of.
    pub add_addr_signal: u8,
    /// The peer's addresses that are used.
    pub add_addr_accepted: u8,
    /// This side's addresses that subflows were opened from.
    pub local_addresses_used: u8,
    /// What it may have.
    pub limits: MultipathLimits,
    /// Its subflows, the first one first, also when it has ended, and others that have ended as long as their flows are there.
    pub subflows: Vec<SubflowInfo>,
}

impl MultipathInfo {
    /// Bytes that the program wrote and the peer has not acknowledged (SIOCOUTQ).
    pub fn unacknowledged_bytes(&self) -> u32 {
        within_int(self.write_seq.wrapping_sub(self.snd_una))
    }
    /// Bytes that have not left yet (SIOCOUTQNSD).
    pub fn unsent_bytes(&self) -> u32 {
        within_int(self.write_seq.wrapping_sub(self.snd_nxt))
    }
    /// Those that are the connection's (conn_list of mptcp_sock).
    pub fn listed(&self) -> impl Iterator<Item = &SubflowInfo> {
        self.subflows.iter().filter(|subflow| subflow.listed)
    }
    /// Does the subflow go on that began the connection (__mptcp_has_initial_subflow)?
    fn has_first(&self) -> bool {
        self.subflows.iter().any(|subflow| !subflow.joined && subflow.open)
    }
}

/// Bytes of `struct mptcp_info`.
pub const MPTCP_INFO_BYTES: usize = 96;
/// MPTCP_INFO_FLAG_FALLBACK and MPTCP_INFO_FLAG_REMOTE_KEY_RECEIVED.
const FLAG_FALLBACK: u32 = 1;
const FLAG_REMOTE_KEY: u32 = 2;

impl MultipathInfo {
    /// `struct mptcp_info` (linux/mptcp.h). `last_ms`: how long ago data was sent, data came, and an acknowledgment came.
    pub fn to_bytes(&self, last_ms: [u32; 3]) -> [u8; MPTCP_INFO_BYTES] {
        let limits = &self.limits;
        let further = u8::try_from(self.listed().filter(|subflow| subflow.joined).count()).unwrap_or(u8::MAX);
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let flags = flag(self.fallen_back, FLAG_FALLBACK) | flag(self.remote_key_known, FLAG_REMOTE_KEY);
        let mut out = Vec::with_capacity(MPTCP_INFO_BYTES);
        out.extend([further, self.add_addr_signal, self.add_addr_accepted]);
        out.extend([limits.subflows, limits.add_addr_signal, limits.add_addr_accepted, 0, 0]);
        out.extend([flags, self.token].iter().flat_map(|word| word.to_ne_bytes()));
        out.extend([self.write_seq, self.snd_una, self.rcv_nxt].iter().flat_map(|word| word.to_ne_bytes()));
        out.extend([self.local_addresses_used, limits.local_addresses, self.checksum.into(), 0]);
        out.extend(u32::from(self.retransmits).to_ne_bytes());
        let bytes = [self.bytes_retransmitted, self.bytes_sent, self.bytes_received, self.bytes_acknowledged];
        out.extend(bytes.iter().flat_map(|word| word.to_ne_bytes()));
        out.extend([further.saturating_add(self.has_first().into()), 0, 0, 0]);
        out.extend(last_ms.iter().flat_map(|word| word.to_ne_bytes()));
        let mut bytes = [0; MPTCP_INFO_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }
}

/// mptcp_ioctl_outq: "if (delta > INT_MAX) delta = INT_MAX;"
fn within_int(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).min(i32::MAX as u32)
}

/// A subflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubflowInfo {
    /// The number of its flow below (`FlowId`).
    pub flow: u64,
    /// Counts a connection's subflows from 1.
    pub id: u32,
    /// This end.
    pub local: SocketAddr,
    /// The other.
    pub remote: SocketAddr,
    /// Identifiers of the addresses.
    pub local_id: u8,
    /// The peer's.
    pub remote_id: u8,
    /// Programs that ask for subflows are told of it.
    pub listed: bool,
    /// Neither side has ended it.
    pub open: bool,
    /// Only TIME-WAIT is left of its flow.
    pub waits: bool,
    /// Nothing is.
    pub gone: bool,
    /// It joined the connection that another began.
    pub joined: bool,
    /// This side opened it.
    pub opened: bool,
    /// Its handshake has ended here.
    pub up: bool,
    /// The peer has heard so.
    pub confirmed: bool,
    /// This side wants it as a backup.
    pub backup: bool,
    /// The peer does.
    pub backup_by_peer: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_linux_has_them() {
        let limits = MultipathLimits { subflows: 4, add_addr_signal: 5, add_addr_accepted: 6, local_addresses: 8 };
        let info = MultipathInfo { token: 9, rcv_nxt: 10, retransmits: 11, bytes_acknowledged: 12, limits, ..MultipathInfo::default() };
        let bytes = info.to_bytes([13, 14, 15]);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((bytes[3], bytes[4], bytes[5], bytes[41]), (4, 5, 6, 8));
        assert_eq!((word(12), word(32), word(44), word(72), word(84), word(92)), (9, 10, 11, 12, 13, 15));
    }

    #[test]
    fn queues_are_what_lies_between_numbers_that_wrap() {
        let info = MultipathInfo { write_seq: 5, snd_nxt: u64::MAX, snd_una: u64::MAX - 9, ..MultipathInfo::default() };
        assert_eq!((info.unacknowledged_bytes(), info.unsent_bytes()), (15, 6));
        let far = MultipathInfo { write_seq: 1 << 40, ..MultipathInfo::default() };
        assert_eq!(far.unacknowledged_bytes(), i32::MAX as u32);
    }
}
