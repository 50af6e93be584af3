//! Socket options that change while the connection lives, segment size, and the timestamp clock.

use super::bounds::{MSS_DEFAULT_V4, MSS_DEFAULT_V6, TIMESTAMPS_BYTES, rto_bounds};
use super::deadlines::Timer;
use super::{Connection, State};
use crate::outbox::Env;
use weft_core::{InterfaceIndex, StreamError, StreamOption};

impl Connection {
    /// Changes one option.
    ///
    /// # Errors
    /// [`StreamError::NoEntry`]: no such congestion control.
    pub fn set_option(&mut self, env: &mut Env<'_>, option: StreamOption) -> Result<(), StreamError> {
        if let StreamOption::Congestion(Some(name)) = &option {
            self.change_control(env, name)?;
        }
        if matches!(option, StreamOption::MssMax(_)) {
            // do_tcp_setsockopt: "Values greater than interface MTU won't take effect. However at the point when this call is done we typically don't
            // yet know which interface is going to be used": user_mss is looked at when a connection opens, and not again.
            return Ok(());
        }
        self.options.apply(option.clone());
        match option {
            StreamOption::Nodelay(true) => {
                // __tcp_sock_set_nodelay: "tp->nonagle |= TCP_NAGLE_OFF|TCP_NAGLE_PUSH; tcp_push_pending_frames(sk);": a cork holds what comes later.
                let corked = std::mem::replace(&mut self.options.cork, false);
                self.transmit(env);
                self.options.cork = corked;
            }
            StreamOption::Cork(false) => self.transmit(env),
            StreamOption::Quickack(Some(true)) => {
                self.receive.ack.interactive = false;
                if self.receive.ack.wanted {
                    self.send_ack(env);
                }
            }
            StreamOption::Quickack(_) => self.receive.ack.interactive = true,
            StreamOption::Keepalive(_) | StreamOption::KeepaliveIdle(_) | StreamOption::KeepaliveInterval(_) => self.arm_keepalive(env),
            StreamOption::SendBuffer(_) => self.apply_send_buffer(env),
            StreamOption::ReceiveBuffer(_) => self.receive.apply_buffer(&self.options),
            StreamOption::ReceiveLowWater(_) => self.receive.apply_low_water(&self.options, env.config),
            StreamOption::WindowClamp(_) => self.receive.apply_clamp(&self.options),
            StreamOption::UnsentLowWater(_) => self.return_credit(env),
            StreamOption::IpOptions(_) => self.update_mss(env),
            // sk_dst_reset: the way is asked for again.
            StreamOption::Interface(index) => (self.path.interface, self.path.epoch) = (InterfaceIndex(index), 0),
            StreamOption::Mark(_) | StreamOption::Tos(_) => self.path.epoch = 0,
            StreamOption::Attached(_) => {
                // Whether large frames may leave whole is asked for again.
                self.path.epoch = 0;
                self.update_mss(env);
            }
            StreamOption::RtoMax(_) | StreamOption::RtoMin(_) => self.recovery.rtt.set_bounds(rto_bounds(env.config, &self.options)),
            StreamOption::UserTimeout(_) if !self.send.outstanding.is_empty() => {
                self.timers.set_earlier(Timer::Retransmit, env.now + self.recovery.rtt.rto())
            }
            _ => {}
        }
        Ok(())
    }

    /// RFC 9293 §3.7.1, Eff.snd.MSS: "min(SendMSS + 20, MMS_S) - TCPhdrsize - IPoptionsize", with the node's and the socket's limits, and
    /// with the options that every segment carries taken off.
    pub(super) fn update_mss(&mut self, env: &mut Env<'_>) {
        let config = env.config;
        let default = if self.remote.is_ipv4() { MSS_DEFAULT_V4 } else { MSS_DEFAULT_V6 };
        let peer = if self.send.peer_mss == 0 { default } else { self.send.peer_mss };
        let mtu = self.path_mtu.usable(self.path.mtu);
        let mut mss = peer.min(mtu.saturating_sub(self.header_bytes()));
        for limit in [config.mss, self.options.mss_max] {
            if limit > 0 {
                mss = mss.min(limit);
            }
        }
        mss = mss.max(config.mss_min);
        if self.opening.agreed.timestamps {
            mss -= TIMESTAMPS_BYTES;
        }
        mss = mss.saturating_sub(self.extension.option_bytes()).max(8);
        // RFC 1122's remark on tiny windows: segments of at most half of the largest window the peer ever had (tcp_bound_to_half_wnd).
        let largest = self.send.window_max;
        let bound = if largest > 536 { largest / 2 } else { largest };
        if largest > 0 && mss > bound {
            mss = bound.max(68 - 40);
        }
        if mss == self.send.mss {
            return;
        }
        let unused = self.send.delivery.bytes == 0 && self.send.outstanding.is_empty();
        self.control.set_mss(self.send.mss, mss, self.state.is_synchronised() && unused);
        self.send.mss = mss;
    }

    /// The segment size that was announced, without what timestamps take of each (advmss).
    pub(super) fn advertised_mss(&self) -> u32 {
        self.receive.announced_mss.saturating_sub(if self.opening.agreed.timestamps { TIMESTAMPS_BYTES } else { 0 })
    }

    /// The node's settings have changed.
    pub fn on_config(&mut self, env: &mut Env<'_>) {
        if self.state != State::Closed {
            self.update_mss(env);
            self.recovery.rtt.set_bounds(rto_bounds(env.config, &self.options));
        }
    }
}
