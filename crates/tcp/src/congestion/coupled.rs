//! What the coupled controls share: slow start, losses and the end of recovery are Reno's; how the window grows in congestion avoidance, and by how much a
//! loss shrinks it, is each one's own and depends on the siblings ([`CongestionControl::learn_siblings`]).
//!
//! A connection without siblings, or without a measured round trip, goes on as Reno: that is what the controls' formulas come to then, but for OLIA's and
//! BALIA's rounding.

mod balia;
mod lia;
mod olia;

pub use balia::Balia;
pub use lia::Lia;
pub use olia::Olia;

use super::episode::Episode;
use super::{AckSample, CongestionControl, CongestionEvent, Window, initial_window_bytes};
use std::fmt::Debug;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Duration, Instant, Sibling};

/// Parts of a byte that growth is counted in.
const PARTS: f64 = 1024.0;

/// A connection, or one of its siblings, in the formulas' units.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// Window, bytes.
    pub cwnd: f64,
    /// Smoothed round trip, seconds; above 0.
    pub rtt: f64,
    /// Bytes between losses ([`Sibling::interval_bytes`]).
    pub interval: f64,
}

impl Member {
    fn new(cwnd_bytes: u32, rtt: Duration, interval_bytes: u64) -> Option<Member> {
        let rtt = rtt.as_secs_f64();
        (rtt > 0.0).then_some(Member { cwnd: f64::from(cwnd_bytes.max(1)), rtt, interval: interval_bytes as f64 })
    }

    /// Bytes a second.
    pub fn rate(&self) -> f64 {
        self.cwnd / self.rtt
    }
}

/// What makes a coupled control that one.
pub trait Policy: Debug + Default + Clone + Copy + Send + 'static {
    /// Its name.
    const NAME: &'static str;
    /// By how many bytes the window of the first of a group grows when so many of its bytes are acknowledged in congestion avoidance. Negative: it shrinks.
    fn growth(group: &[Member], acked: f64, mss: f64) -> f64;
    /// The part of its window that the first of a group keeps after a loss.
    fn kept(group: &[Member]) -> f64 {
        let _ = group;
        0.5
    }
}

/// A control that is coupled by a policy.
#[derive(Clone, Debug, Default)]
pub struct Coupled<P> {
    episode: Episode,
    /// Growth that has not become a segment, in 1024ths of a byte.
    grown: i64,
    /// Last smoothed round trip seen.
    srtt: Duration,
    siblings: Vec<Sibling>,
    /// Bytes acknowledged since the last loss, and between the last two.
    since_loss_bytes: u64,
    between_losses_bytes: u64,
    policy: std::marker::PhantomData<P>,
}

impl<P: Policy> Coupled<P> {
    /// A fresh instance.
    pub fn new() -> Coupled<P> {
        Coupled::default()
    }

    /// It and its siblings; none: nothing is known of it yet.
    fn group(&self, w: &Window) -> Option<Vec<Member>> {
        let own = Member::new(w.cwnd_bytes, self.srtt, self.loss_interval_bytes())?;
        let others = self.siblings.iter().filter_map(|sibling| Member::new(sibling.cwnd_bytes, sibling.rtt, sibling.interval_bytes));
        Some(std::iter::once(own).chain(others).collect())
    }

    fn avoid_congestion(&mut self, acked_bytes: u32, w: &mut Window) {
        let (acked, mss) = (f64::from(acked_bytes), f64::from(w.segment_bytes()));
        // RFC 5681's: a segment a window.
        let alone = acked * mss / f64::from(w.cwnd_bytes.max(1));
        let growth = match self.group(w) {
            // RFC 6356 §3: no subflow is to be more aggressive than TCP.
            Some(group) if group.len() > 1 => P::growth(&group, acked, mss).min(alone),
            _ => alone,
        };
        let parts = (growth * PARTS) as i64;
        let segment = i64::from(w.segment_bytes()) * PARTS as i64;
        self.grown = self.grown.saturating_add(parts).clamp(-64 * segment, 64 * segment);
        let segments = self.grown / segment;
        self.grown -= segments * segment;
        let cwnd = i64::from(w.cwnd_bytes) + segments * i64::from(w.segment_bytes());
        // None falls below two segments but by losses.
        w.set_cwnd(cwnd.max(i64::from(w.segment_bytes()) * 2) as u64);
    }

    /// What a loss leaves of its window.
    fn kept_bytes(&self, w: &Window) -> u64 {
        let kept = match self.group(w) {
            Some(group) if group.len() > 1 => P::kept(&group).clamp(0.0, 1.0),
            _ => 0.5,
        };
        (f64::from(w.cwnd_bytes) * kept) as u64
    }
}

impl<P: Policy> CongestionControl for Coupled<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn init(&mut self, w: &mut Window, _now: Instant) {
        *self = Coupled { siblings: std::mem::take(&mut self.siblings), ..Coupled::new() };
        w.ssthresh_bytes = u32::MAX;
        w.set_cwnd(u64::from(initial_window_bytes(w.mss, 0)));
    }

    fn on_ack(&mut self, ack: &AckSample, w: &mut Window) {
        self.since_loss_bytes += u64::from(ack.newly_delivered_bytes());
        if !ack.srtt.is_zero() {
            self.srtt = ack.srtt;
        }
        let acked_bytes = self.episode.grow(ack, w);
        if acked_bytes > 0 {
            self.avoid_congestion(acked_bytes, w);
        }
    }

    fn on_event(&mut self, _now: Instant, event: CongestionEvent, _in_flight_bytes: u32, w: &mut Window) {
        if event.is_congestion() {
            self.grown = 0;
        }
        if self.episode.on_event(event, self.kept_bytes(w), w) {
            self.between_losses_bytes = std::mem::take(&mut self.since_loss_bytes);
        }
    }

    fn pacing_rate_bytes_per_s(&self, _w: &Window, _srtt: Duration) -> Option<u64> {
        None
    }

    fn is_coupled(&self) -> bool {
        true
    }

    fn learn_siblings(&mut self, siblings: &[Sibling]) {
        self.siblings = siblings.to_vec();
    }

    fn loss_interval_bytes(&self) -> u64 {
        self.since_loss_bytes.max(self.between_losses_bytes)
    }

    fn info(&self) -> Vec<(&'static str, u64)> {
        vec![("siblings", self.siblings.len() as u64), ("loss_interval_bytes", self.loss_interval_bytes())]
    }

    fn export(&self, out: &mut Writer) {
        let Coupled { episode, grown, srtt, siblings, since_loss_bytes, between_losses_bytes, policy: _ } = self;
        episode.write(out);
        out.put(grown);
        out.put(srtt);
        out.put(siblings);
        out.put(since_loss_bytes);
        out.put(between_losses_bytes);
    }

    fn import(&mut self, from: &mut Reader<'_>) -> Result<(), Damage> {
        *self = Coupled {
            episode: from.take()?,
            grown: from.take()?,
            srtt: from.take()?,
            siblings: from.take()?,
            since_loss_bytes: from.take()?,
            between_losses_bytes: from.take()?,
            policy: std::marker::PhantomData,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
