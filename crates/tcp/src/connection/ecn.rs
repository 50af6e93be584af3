//! Explicit congestion notification (RFC 3168).

use super::Connection;
use weft_wire::ipv4;
use weft_wire::tcp::Flags;

impl Connection {
    /// Flags for a segment, and whether it may be marked: RFC 3168 §6.1.5: "a host MUST NOT set ECT in retransmitted packets", §6.1.4: nor in
    /// pure acknowledgments, §6.1.6: nor in window probes.
    pub(super) fn ecn_flags(&mut self, new_data: bool) -> (Flags, u8) {
        let mut flags = Flags::empty();
        if !self.opening.agreed.ecn {
            return (flags, 0);
        }
        if self.receive.ecn_echo {
            flags |= Flags::ECE;
        }
        if !new_data {
            return (flags, 0);
        }
        // RFC 3168 §6.1.2: "sets the CWR flag in the TCP header of the first new data packet sent after the window reduction".
        if self.control.cwr_due {
            self.control.cwr_due = false;
            flags |= Flags::CWR;
        }
        (flags, ipv4::Ecn::Capable0.bits())
    }
}
