//! A connection and its extension: what passes between it and whoever is above.

use super::Connection;
use super::deadlines::Timer;
use crate::Config;
use crate::extension::{self, ExtensionRow, Plain, Verdict};
use crate::outbox::Env;
use crate::position::START;
use weft_core::state::Damage;
use weft_core::{Advice, Bytes, DataFlags, Instant, Room, SIBLINGS_MAX, StreamError, StreamMessage};

impl Connection {
    /// Payload bytes that may be sent at once: what schedulers over several subflows ask for.
    pub fn free_cwnd(&self) -> u32 {
        self.send_room().min(self.send.window_room())
    }

    /// How it does, for a choice between several.
    pub fn room(&self, config: &Config) -> Room {
        Room {
            free_bytes: self.free_cwnd(),
            cwnd_bytes: self.control.window.cwnd_bytes,
            in_flight_bytes: self.send.in_flight(),
            lost_bytes: self.send.outstanding.lost.saturating_sub(self.send.outstanding.retransmitted),
            unsent_bytes: self.send.unsent(),
            acknowledged_bytes: self.send.una.saturating_sub(START + 1),
            receive_bytes: self.receive.clamp,
            receive_bytes_max: self.receive.most(config, &self.options),
            receive_rtt: self.receive.rtt,
            send_bytes_max: self.options.send_buffer.unwrap_or(config.send_buffer[2]).max(self.send.buffer),
            mss_bytes: self.send.mss,
            rtt: self.recovery.rtt.srtt(),
            rtt_variation: self.recovery.rtt.mean_deviation(),
            pacing_rate_bytes_per_s: self.rate().0,
            timeouts: self.recovery.timeouts,
            may_send: self.state.can_send() && !self.send.fin_wanted,
            coupled: self.control.algorithm.is_coupled(),
            interval_bytes: self.control.algorithm.loss_interval_bytes(),
        }
    }

    /// The same, if whoever is above wants to know. `told`: what it was told last.
    pub(crate) fn wanted_room(&self, config: &Config, told: Option<&Room>) -> Option<Room> {
        let mut room = self.extension.wants_room().then(|| self.room(config))?;
        // Acknowledgments change the rate (tcp_update_pacing_rate), and a pause, which makes the window small, does not.
        let same = |told: &&Room| told.rtt.is_some() && told.acknowledged_bytes == room.acknowledged_bytes && room.lost_bytes == 0;
        if let Some(told) = told.filter(same) {
            room.pacing_rate_bytes_per_s = told.pacing_rate_bytes_per_s;
        }
        Some(room)
    }

    /// Advice of whoever stands above.
    pub fn on_advice(&mut self, advice: &Advice) {
        match advice {
            Advice::ReceiveWindow(bytes) => self.receive.follow(*bytes),
            Advice::WriterWaits(waits) => self.send.writer_waits = *waits,
            Advice::Siblings(siblings) => self.control.algorithm.learn_siblings(&siblings[..siblings.len().min(SIBLINGS_MAX)]),
            Advice::Halve => self.control.halve(),
        }
    }

    /// What the extension has to say.
    pub(crate) fn pass_words_up(&mut self, env: &mut Env<'_>) {
        while let Some(bytes) = self.extension.take_word() {
            env.out.messages.push(StreamMessage::Word { flow: self.flow, bytes });
        }
    }

    /// A word for the extension.
    pub fn on_word(&mut self, env: &mut Env<'_>, word: &Bytes) {
        let says = self.extension.on_word(word);
        if self.state.is_synchronised() {
            self.receive.ack.now |= says;
            self.acknowledge_if_due(env);
        }
    }

    /// Data goes up with its mappings: in pieces, where it has several. What has none ends the connection, or makes it plain.
    pub(super) fn hand_up_mapped(&mut self, env: &mut Env<'_>, offset: u64, mut bytes: Bytes, flags: DataFlags) {
        let mut at = offset;
        while !bytes.is_empty() {
            let left = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let (held, mapping) = match self.extension.mapping(at, left) {
                Ok(mapped) => mapped,
                Err(Verdict::FallBack) => {
                    self.fall_back(env);
                    (left, 0)
                }
                Err(_) => return self.reset(env, StreamError::Reset),
            };
            let piece = bytes.split_to(held.clamp(1, left) as usize);
            at += piece.len() as u64;
            env.out.messages.push(StreamMessage::Data { flow: self.flow, bytes: piece, flags, mapping });
        }
    }

    /// Whoever gave it its extension is gone.
    pub fn make_plain(&mut self, env: &mut Env<'_>) {
        if !self.extension.is_plain() {
            self.fall_back(env);
        }
    }

    /// It is plain TCP from now on.
    pub(super) fn fall_back(&mut self, env: &mut Env<'_>) {
        self.extension.on_fallback();
        self.pass_words_up(env);
        self.extension = Box::new(Plain);
        self.update_mss(env);
    }

    /// Has data gone up that no word has answered?
    pub(super) fn is_unanswered(&self) -> bool {
        self.extension.answered() < self.receive.delivered && !self.read_closed && !self.orphan
    }

    /// Acknowledgments wait for the word that answers the data: not longer than a delayed one.
    pub(super) fn waits_for_word(&mut self, env: &Env<'_>) -> bool {
        let waits = self.is_unanswered();
        if waits {
            self.timers.set_earlier(Timer::DelayedAck, env.now + self.receive.ack_delay(env.config, &self.options));
        }
        waits
    }

    /// Its extension, which was read as state, becomes what it is.
    pub(crate) fn restore_extension(&mut self, rows: &[ExtensionRow], now: Instant) -> Result<(), Damage> {
        if !self.extension.is_plain() {
            self.extension = extension::restored(rows, &*self.extension, now)?;
        }
        Ok(())
    }
}
