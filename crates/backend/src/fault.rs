//! `fault:WHAT:URL`: a backend around another that spoils what passes, as bad wires and dying devices do. For tests.
//!
//! ```text
//! fault:loss=0.01,seed=7:tap:weft0
//! fault:corrupt=0.001,delay=20ms:packet:veth1
//! ```
//!
//! Everything is drawn from one seed: the same frames at the same calls meet the same faults. Faults hit frames of a wire: large ones are
//! cut and checksums completed before, so that a flipped bit is one that a receiver can find.
//!
//! | fault | what happens | counted as |
//! |---|---|---|
//! | `loss=P` | the frame is gone | lost by plan |
//! | `duplicate=P` | it comes twice | doubled by plan |
//! | `corrupt=P` | one bit of it is another | spoilt by plan |
//! | `delay=T` | it comes that much later (order is kept) | – |
//! | `refuse=P` | a call to transmit takes nothing, as a full device does; the caller tries again | refused by plan |
//! | `full=P` | the device has no room for this frame (ENOBUFS, ENOSPC) and loses it on the way out | no room by plan |
//! | `gone=N` | after N frames in either direction the device is gone (ENODEV), for ever | – |
//!
//! A frame that is delayed beyond [`DELAYED_FRAMES_MAX`] others is lost (too many delayed).

use crate::error::OpenError;
use crate::interface::{Backend, Features};
use crate::link_type::LinkType;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use weft_core::offload::{self, CutChecksums};
use weft_core::parameter::parse_duration;
use weft_core::{Completion, Frame, Instant, Rng};

/// Frames that are delayed at a time, in each direction.
pub const DELAYED_FRAMES_MAX: usize = 10_000;

/// Which faults. Probabilities are per frame, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FaultPlan {
    /// Of all that is drawn.
    pub seed: u64,
    /// A frame is lost, in either direction.
    pub loss: f64,
    /// A frame comes twice.
    pub duplicate: f64,
    /// One bit of a frame is flipped.
    pub corrupt: f64,
    /// Frames come later, in both directions.
    pub delay: Duration,
    /// A call to transmit takes nothing. Per call.
    pub refuse: f64,
    /// The device has no room for a frame that goes out.
    pub full: f64,
    /// The device is gone after so many frames.
    pub gone: Option<u64>,
}

impl FaultPlan {
    /// Reads `loss=0.01,seed=7`.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<FaultPlan, String> {
        let mut plan = FaultPlan::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').ok_or_else(|| format!("'{item}' has no '='"))?;
            let probability = || match value.parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
                _ => Err(format!("{name}: '{value}' is no probability from 0 to 1")),
            };
            let number = || value.parse::<u64>().map_err(|_| format!("{name}: '{value}' is no number"));
            match name {
                "seed" => plan.seed = number()?,
                "loss" => plan.loss = probability()?,
                "duplicate" => plan.duplicate = probability()?,
                "corrupt" => plan.corrupt = probability()?,
                "delay" => plan.delay = parse_duration(value).map_err(|why| format!("delay: {why}"))?,
                "refuse" => plan.refuse = probability()?,
                "full" => plan.full = probability()?,
                "gone" => plan.gone = Some(number()?),
                _ => return Err(format!("there is no fault '{name}': use seed, loss, duplicate, corrupt, delay, refuse, full, gone")),
            }
        }
        Ok(plan)
    }
}

/// Splits `WHAT:URL`.
pub(crate) fn split(rest: &str) -> Result<(FaultPlan, &str), OpenError> {
    let url = || format!("fault:{rest}");
    let help = "write it as fault:loss=0.01,seed=7:tap:weft0";
    let (plan, inner) = rest.split_once(':').ok_or_else(|| OpenError::new(&url(), "reading the URL", "it names no other backend", help))?;
    Ok((FaultPlan::parse(plan).map_err(|why| OpenError::new(&url(), "reading the faults", why, help))?, inner))
}

/// What it did, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    lost: u64,
    doubled: u64,
    spoilt: u64,
    refused: u64,
    no_room: u64,
    too_many_delayed: u64,
}

/// A backend with faults.
pub struct Fault<B> {
    inner: B,
    plan: FaultPlan,
    rng: Rng,
    counts: Counts,
    passed: u64,
    /// What came in, and when it may be seen.
    incoming: VecDeque<(Instant, Frame)>,
    /// What goes out, and when it may.
    outgoing: VecDeque<(Instant, Frame)>,
    /// Due, and not taken by the device yet.
    due: VecDeque<Frame>,
    received: Vec<Frame>,
}

impl<B: Backend> Fault<B> {
    /// Spoils what passes `inner`.
    pub fn new(inner: B, plan: FaultPlan) -> Fault<B> {
        let rng = Rng::for_name(plan.seed, "fault");
        let counts = Counts::default();
        Fault {
            inner,
            plan,
            rng,
            counts,
            passed: 0,
            incoming: VecDeque::new(),
            outgoing: VecDeque::new(),
            due: VecDeque::new(),
            received: Vec::new(),
        }
    }

    fn check_gone(&self) -> io::Result<()> {
        match self.plan.gone {
            Some(frames) if self.passed >= frames => Err(io::Error::from_raw_os_error(libc::ENODEV)),
            _ => Ok(()),
        }
    }

    /// What becomes of one frame: none, itself, or two.
    fn spoil(&mut self, mut frame: Frame, out: &mut Vec<Frame>) {
        self.passed += 1;
        if self.rng.chance(self.plan.loss) {
            self.counts.lost += 1;
            return;
        }
        if self.rng.chance(self.plan.corrupt) && !frame.is_empty() {
            let bit = self.rng.below(frame.len() as u64 * 8) as usize;
            let meta = frame.meta().clone();
            let mut bytes = frame.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            frame = Frame::ingress(&bytes);
            let position = frame.position();
            let raw = self.inner.features().link == LinkType::Ip;
            let to = frame.meta_mut();
            (to.interface, to.received, to.direction) = (meta.interface, meta.received, meta.direction);
            to.network_at = if raw { position } else { 0 };
            self.counts.spoilt += 1;
        }
        if self.rng.chance(self.plan.duplicate) {
            self.counts.doubled += 1;
            out.push(frame.clone());
        }
        out.push(frame);
    }

    /// Gives the device what is due.
    fn send_due(&mut self, now: Instant) -> io::Result<()> {
        while self.outgoing.front().is_some_and(|(at, _)| *at <= now) {
            self.due.extend(self.outgoing.pop_front().map(|(_, frame)| frame));
        }
        if !self.due.is_empty() {
            // Their completions were reported when they were taken here.
            self.inner.transmit(now, &mut self.due, &mut Vec::new())?;
        }
        Ok(())
    }
}

impl<B: Backend> Backend for Fault<B> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        self.check_gone()?;
        self.send_due(now)?;
        let mut received = std::mem::take(&mut self.received);
        self.inner.receive(now, &mut received, limit)?;
        let (mut cut, mut spoilt) = (Vec::new(), Vec::new());
        for frame in received.drain(..) {
            offload::cut(frame, CutChecksums::Complete, &mut cut);
        }
        self.received = received;
        for mut frame in cut {
            offload::complete_checksum(&mut frame);
            // The bytes are not what the device vouched for any more.
            frame.meta_mut().checksum = weft_core::Checksum::Unknown;
            self.spoil(frame, &mut spoilt);
        }
        for frame in spoilt {
            if self.incoming.len() >= DELAYED_FRAMES_MAX {
                self.counts.too_many_delayed += 1;
            } else {
                self.incoming.push_back((now + self.plan.delay, frame));
            }
        }
        let mut count = 0;
        while count < limit && self.incoming.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, mut frame)) = self.incoming.pop_front() else { break };
            frame.meta_mut().received = now;
            frames.push(frame);
            count += 1;
        }
        Ok(count)
    }

    fn transmit(&mut self, now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        self.check_gone()?;
        self.send_due(now)?;
        if !frames.is_empty() && self.rng.chance(self.plan.refuse) {
            self.counts.refused += 1;
            return Ok(0);
        }
        let (features, mut taken) = (self.features(), 0);
        let mut spoilt = Vec::new();
        while self.due.is_empty() {
            features.prepare_front(frames);
            let Some(mut frame) = frames.pop_front() else { break };
            taken += 1;
            done.extend(frame.take_completion());
            if self.rng.chance(self.plan.full) {
                self.passed += 1;
                self.counts.no_room += 1;
                continue;
            }
            self.spoil(frame, &mut spoilt);
            for frame in spoilt.drain(..) {
                if self.outgoing.len() >= DELAYED_FRAMES_MAX {
                    self.counts.too_many_delayed += 1;
                } else {
                    self.outgoing.push_back((now + self.plan.delay, frame));
                }
            }
            self.send_due(now)?;
        }
        Ok(taken)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn features(&self) -> Features {
        Features { gso_bytes_max: 0, gso_udp: false, checksum_offload: false, ..self.inner.features() }
    }

    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        let mut rows = self.inner.drops();
        rows.extend([
            ("lost by plan", self.counts.lost),
            ("doubled by plan", self.counts.doubled),
            ("spoilt by plan", self.counts.spoilt),
            ("refused by plan", self.counts.refused),
            ("no room by plan", self.counts.no_room),
            ("too many delayed", self.counts.too_many_delayed),
        ]);
        rows
    }

    fn next_timer(&self) -> Option<Instant> {
        let ours = [self.incoming.front(), self.outgoing.front()].into_iter().flatten().map(|(at, _)| *at);
        ours.chain(self.inner.next_timer()).min()
    }

    fn give_back_memory(&mut self) {
        self.inner.give_back_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::OpenOptions;
    use crate::memory;
    use etherparse::PacketBuilder;
    use weft_core::BlockId;

    const NOW: Instant = Instant::from_millis(1);

    fn frame(number: u16) -> Frame {
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 9).udp(number, 9);
        builder.write(&mut bytes, &[5; 100]).unwrap();
        let mut frame = Frame::ingress(&bytes);
        frame.meta_mut().completion = Some(Completion { block: BlockId(1), token: u64::from(number), bytes: 1 });
        frame
    }

    /// Sends 1000 frames through the faults; what arrives, how many completions came, and what was counted.
    fn sent(plan: &str) -> (Vec<Frame>, usize, Fault<memory::Memory>) {
        let (one, mut other) = memory::pair(&OpenOptions { queue_frames_max: 10_000, ..OpenOptions::default() });
        let mut one = Fault::new(one, FaultPlan::parse(plan).unwrap());
        let (mut queue, mut done, mut frames) = ((0..1000).map(frame).collect::<VecDeque<_>>(), Vec::new(), Vec::new());
        while !queue.is_empty() {
            one.transmit(NOW, &mut queue, &mut done).unwrap();
        }
        other.receive(NOW, &mut frames, 10_000).unwrap();
        (frames, done.len(), one)
    }

    fn count(fault: &mut Fault<memory::Memory>, name: &str) -> usize {
        fault.drops().into_iter().find(|(row, _)| *row == name).unwrap().1 as usize
    }

    #[test]
    fn each_fault_does_what_it_counts_and_repeats_with_its_seed() {
        let (frames, done, mut fault) = sent("loss=0.1,seed=4");
        let lost = count(&mut fault, "lost by plan");
        assert!((50..200).contains(&lost) && frames.len() == 1000 - lost && done == 1000, "{lost}");
        let bytes = |frames: &[Frame]| frames.iter().map(Frame::to_vec).collect::<Vec<_>>();
        assert_eq!(bytes(&sent("loss=0.1,seed=4").0), bytes(&frames));
        assert_ne!(bytes(&sent("loss=0.1,seed=5").0), bytes(&frames));

        let (frames, done, mut fault) = sent("duplicate=0.1");
        let doubled = count(&mut fault, "doubled by plan");
        assert!(doubled > 50 && frames.len() == 1000 + doubled && done == 1000);

        let (frames, _, mut fault) = sent("corrupt=0.2");
        let spoilt = count(&mut fault, "spoilt by plan");
        let different = frames.iter().enumerate().filter(|(number, got)| got.to_vec() != frame(*number as u16).to_vec()).count();
        assert!(spoilt > 100 && different == spoilt && frames.len() == 1000);

        let (frames, done, mut fault) = sent("full=0.3");
        let no_room = count(&mut fault, "no room by plan");
        assert!(no_room > 200 && frames.len() == 1000 - no_room && done == 1000);

        let (frames, done, mut fault) = sent("refuse=0.5,seed=2");
        assert!(count(&mut fault, "refused by plan") > 0 || frames.len() == 1000);
        assert_eq!((frames.len(), done), (1000, 1000));
    }

    #[test]
    fn a_call_that_is_refused_takes_nothing() {
        let (one, _other) = memory::pair(&OpenOptions::default());
        let mut one = Fault::new(one, FaultPlan::parse("refuse=1").unwrap());
        let mut queue = VecDeque::from([frame(1)]);
        assert_eq!((one.transmit(NOW, &mut queue, &mut Vec::new()).unwrap(), queue.len()), (0, 1));
        assert_eq!(count(&mut one, "refused by plan"), 1);
    }

    #[test]
    fn delayed_frames_pass_when_their_time_has_come_and_not_before() {
        let (one, mut other) = memory::pair(&OpenOptions::default());
        let mut one = Fault::new(one, FaultPlan::parse("delay=20ms").unwrap());
        let (mut frames, mut done) = (Vec::new(), Vec::new());
        one.transmit(NOW, &mut VecDeque::from([frame(1)]), &mut done).unwrap();
        assert_eq!((done.len(), one.next_timer()), (1, Some(Instant::from_millis(21))));
        one.receive(Instant::from_millis(20), &mut frames, 9).unwrap();
        assert_eq!(other.receive(NOW, &mut frames, 9).unwrap(), 0);
        one.receive(Instant::from_millis(21), &mut frames, 9).unwrap();
        assert_eq!((other.receive(NOW, &mut frames, 9).unwrap(), one.next_timer()), (1, None));
        other.transmit(NOW, &mut VecDeque::from([frame(2)]), &mut done).unwrap();
        let at = Instant::from_millis(30);
        assert_eq!(one.receive(at, &mut frames, 9).unwrap(), 0);
        assert_eq!(one.receive(Instant::from_millis(50), &mut frames, 9).unwrap(), 1);
    }

    #[test]
    fn what_is_delayed_is_bounded() {
        let (one, _other) = memory::pair(&OpenOptions::default());
        let mut one = Fault::new(one, FaultPlan::parse("delay=1h").unwrap());
        let mut queue: VecDeque<Frame> = std::iter::repeat_n(frame(1), DELAYED_FRAMES_MAX + 7).collect();
        one.transmit(NOW, &mut queue, &mut Vec::new()).unwrap();
        assert_eq!(count(&mut one, "too many delayed"), 7);
    }

    #[test]
    fn a_device_that_is_gone_stays_gone() {
        let (one, mut other) = memory::pair(&OpenOptions::default());
        let mut one = Fault::new(one, FaultPlan::parse("gone=3").unwrap());
        other.transmit(NOW, &mut (0..3).map(frame).collect(), &mut Vec::new()).unwrap();
        assert_eq!(one.receive(NOW, &mut Vec::new(), 9).unwrap(), 3);
        for _ in 0..2 {
            assert_eq!(one.receive(NOW, &mut Vec::new(), 9).unwrap_err().raw_os_error(), Some(libc::ENODEV));
            let mut queue = VecDeque::from([frame(1)]);
            one.transmit(NOW, &mut queue, &mut Vec::new()).unwrap_err();
            assert_eq!(queue.len(), 1);
        }
    }

    #[test]
    fn a_wrong_plan_is_told() {
        assert!(FaultPlan::parse("loss=2").unwrap_err().contains("no probability"));
        assert!(FaultPlan::parse("thunder=1").unwrap_err().contains("there is no fault 'thunder'"));
        assert!(split("loss=0.1").unwrap_err().to_string().contains("names no other backend"));
        assert_eq!(split("loss=0.5,gone=9:tap:x").unwrap(), (FaultPlan { loss: 0.5, gone: Some(9), ..FaultPlan::default() }, "tap:x"));
    }
}
