//! Explicit congestion notification (RFC 3168).

use super::Connection;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_wire::ipv4;
use weft_wire::tcp::{Flags, Segment};

impl Connection {
    /// RFC 3168 §6.1.3: "When TCP receives a CE data packet …, it sets the ECN-Echo flag in the TCP header of the subsequent ACK packet … until
    /// it receives a CWR packet".
    pub(super) fn ecn_received(&mut self, env: &mut Env<'_>, segment: &Segment, mark: ipv4::Ecn, pure_ack: bool) {
        if !self.opening.agreed.ecn {
            return;
        }
        if segment.flags.contains(Flags::CWR) && !pure_ack {
            self.receive.ecn_echo = false;
        }
        if pure_ack {
            return;
        }
        // tcp_data_ecn_check: "Funny extension: if ECT is not set on a segment, and we already seen ECT on a previous segment, it is probably a
        // retransmit."
        if mark == ipv4::Ecn::NotCapable && self.receive.ecn_seen {
            self.receive.enter_quick_ack(env.config);
        }
        self.receive.ecn_seen |= mark != ipv4::Ecn::NotCapable;
        if mark == ipv4::Ecn::CongestionExperienced {
            env.count(Counter::InCEPkts);
            if !self.receive.ecn_echo {
                self.receive.enter_quick_ack(env.config);
            }
            self.receive.ecn_echo = true;
        }
    }

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
