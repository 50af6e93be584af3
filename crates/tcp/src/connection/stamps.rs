//! What a connection does about what programs have marked (`marks.rs`): the moments of bytes.

use super::Connection;
use super::marks::Mark;
use crate::outbox::Env;
use crate::position::START;
use weft_core::stream::QUOTED_BYTES_MAX;
use weft_core::{Bytes, Frame, Moment, StreamEvent};

impl Connection {
    /// A frame with `length` bytes from `start` on goes down, for the first time or again: Linux tells of each time.
    pub(super) fn stamp_sent(&mut self, env: &mut Env<'_>, start: u64, length: u32) {
        if self.send.marks.stamps.is_empty() {
            return;
        }
        for index in self.send.marks.stamps_in(&(start..start + u64::from(length))) {
            let Some(mark) = self.send.marks.stamps.get_mut(index) else { continue };
            mark.from = start;
            let mark = *mark;
            for (asked, moment) in [(mark.stamps.scheduled, Moment::Scheduled), (mark.stamps.left, Moment::Left)] {
                if asked {
                    self.tell_moment(env, mark, moment);
                }
            }
        }
    }

    /// Everything before `una` is acknowledged (tcp_ack_tstamp). Before it leaves the send queue.
    pub(super) fn stamp_acknowledged(&mut self, env: &mut Env<'_>, una: u64) {
        if self.send.marks.is_empty() {
            return;
        }
        while let Some(mark) = self.send.marks.stamps.front().copied().filter(|mark| mark.at < una) {
            self.send.marks.stamps.pop_front();
            if mark.stamps.acknowledged {
                let hops = self.send.marks.hops;
                self.tell_moment(env, mark, Moment::Acknowledged { hops });
            }
        }
        self.send.marks.forget_before(una);
    }

    fn tell_moment(&mut self, env: &mut Env<'_>, mark: Mark, moment: Moment) {
        let bytes = if mark.stamps.quoted {
            let mut frame = Frame::egress();
            let length = (mark.at + 1).saturating_sub(mark.from).min(QUOTED_BYTES_MAX as u64) as u32;
            self.send.queue.append_to(&mut frame, mark.from, length);
            Bytes::from(frame.to_vec())
        } else {
            Bytes::new()
        };
        self.event(env, StreamEvent::Stamped { at: mark.at.saturating_sub(START + 1), moment, bytes });
    }
}
