//! A connection as it is told to sockets and sock_diag(7).

use super::{Connection, Path, Stage};
use crate::key::Key;
use weft_core::multipath::MultipathLimits;
use weft_core::{MultipathInfo, SubflowInfo};

/// linux/tcp_states.h
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const FIN_WAIT_1: u8 = 4;
const FIN_WAIT_2: u8 = 5;
const CLOSE: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;

impl Connection {
    /// What `struct mptcp_info` has of it, and its subflows. Numbers of data are those on the wire.
    pub(crate) fn info(&self, limits: MultipathLimits) -> MultipathInfo {
        let local = self.early.first(self.local);
        let remote = self.remote.map_or(0_u64, |remote| self.early.remote_first(remote));
        let end_said = u64::from(self.send.end_said);
        let short = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
        let announced = || short(self.said.iter().filter(|said| said.times > 0).count());
        let used = || short(self.endpoints_used.len());
        MultipathInfo {
            state: self.state(),
            listens: false,
            fallen_back: self.fallen_back,
            remote_key_known: self.remote.is_some(),
            confirmed: self.confirmed,
            checksum: self.checksum,
            token: self.local.token(),
            remote_token: self.remote.map_or(0, Key::token),
            write_seq: local.wrapping_add(self.send.end + end_said),
            snd_nxt: local.wrapping_add(self.send.next + end_said),
            snd_una: local.wrapping_add(self.send.una + u64::from(self.send.end_heard)),
            rcv_nxt: if self.remote.is_some() { remote.wrapping_add(self.receive.acknowledges()) } else { 0 },
            retransmits: u8::try_from(self.send.stalls).unwrap_or(u8::MAX),
            bytes_sent: self.send.next,
            bytes_retransmitted: self.again,
            bytes_received: self.receive.next,
            bytes_acknowledged: self.send.una,
            add_addr_signal: self.manager.as_ref().map_or_else(announced, |manager| manager.announced),
            add_addr_accepted: short(self.known.len()),
            local_addresses_used: self.manager.as_ref().map_or_else(used, |manager| manager.used),
            limits,
            subflows: self.paths.iter().map(|path| self.subflow(path)).collect(),
        }
    }

    /// As mptcp_close_state and mptcp_check_data_fin have it.
    fn state(&self) -> u8 {
        match (self.stage, self.send.end_wanted, self.receive.ended) {
            (Stage::Opening, ..) => SYN_SENT,
            (Stage::Ending | Stage::Failed, ..) => CLOSE,
            (Stage::Open, false, false) => ESTABLISHED,
            (Stage::Open, true, false) if self.send.end_heard => FIN_WAIT_2,
            (Stage::Open, true, false) => FIN_WAIT_1,
            (Stage::Open, false, true) => CLOSE_WAIT,
            (Stage::Open, true, true) => LAST_ACK,
        }
    }

    fn opened_here(&self, path: &Path) -> bool {
        if path.joined { path.opened } else { self.opens }
    }

    fn subflow(&self, path: &Path) -> SubflowInfo {
        SubflowInfo {
            flow: path.flow.0,
            id: path.number,
            local: path.local,
            remote: path.remote,
            local_id: path.local_id,
            remote_id: path.remote_id,
            // __mptcp_close_ssk: one that ends while the connection goes on is its no more, but the first ("dispose_it").
            listed: !path.joined || !path.released && (!path.closed || self.stage != Stage::Open),
            open: !path.closed && !path.half_closed && !path.released,
            waits: path.time_wait && !path.released,
            gone: path.released,
            joined: path.joined,
            opened: self.opened_here(path),
            up: path.up,
            confirmed: if path.joined { path.confirmed } else { self.confirmed },
            backup: path.backup,
            backup_by_peer: path.backup_by_peer,
        }
    }
}
