//! A frame is what it is, whichever was read before it: every kind after every other, from every kind of device and through every wrapper.

use super::*;
use crate::coalesce::Coalesce;
use crate::device::Device;
use crate::fault::{Fault, FaultPlan};
use crate::interface::{Backend, Features};
use crate::link_type::LinkType;
use crate::samples::{self, Sample};
use crate::trace::Trace;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::{AsFd, OwnedFd};
use weft_core::offload::{self, CutChecksums};
use weft_core::{Completion, Instant, InterfaceIndex};

/// A device whose frames we write. A socket of datagrams keeps boundaries as a device does.
fn device(link: LinkType, source: Source) -> (Device, OwnedFd) {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::NONBLOCK, None).unwrap();
    let features = Features { link, ..Features::default() };
    (Device::new(ours, source, "test0", InterfaceIndex(7), features), theirs)
}

fn write(to: &OwnedFd, sample: &Sample) {
    let message = [&sample.header, sample.bytes.as_slice()].concat();
    assert_eq!(rustix::io::write(to, &message).unwrap(), message.len());
}

fn read(backend: &mut impl Backend) -> Frame {
    let mut frames = Vec::new();
    assert_eq!(backend.receive(Instant::ZERO, &mut frames, 1).unwrap(), 1);
    frames.remove(0)
}

struct Bare(Device);

impl Backend for Bare {
    fn name(&self) -> &str {
        &self.0.name
    }
    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        self.0.receive(now, frames, limit)
    }
    fn transmit(&mut self, _now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        self.0.transmit(frames, done)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.fd.as_fd())
    }
    fn features(&self) -> Features {
        self.0.features
    }
}

/// Every frame after every kind of frame that leaves a guess behind.
fn every_pair(link: LinkType, source: Source) {
    let (device, theirs) = device(link, source);
    let mut backend = Bare(device);
    let all = samples::all(link);
    let before = samples::predecessors(&all);
    assert!(all.len() > 900 && before.len() > 30, "{} frames after {}", all.len(), before.len());
    for (number, first) in before.iter().enumerate() {
        // What is large is read as what is small, and costs more: after a few only.
        for second in all.iter().filter(|second| second.bytes.len() < 4000 || number.is_multiple_of(8)) {
            write(&theirs, first);
            write(&theirs, second);
            first.assert_is(&read(&mut backend), "any other");
            let frame = read(&mut backend);
            assert_eq!(frame.meta().interface, InterfaceIndex(7));
            second.assert_is(&frame, &first.name);
        }
    }
}

#[test]
fn any_frame_of_a_tap_after_any_other() {
    every_pair(LinkType::Ethernet, Source::Tap);
}

#[test]
fn any_frame_of_a_tun_after_any_other() {
    every_pair(LinkType::Ip, Source::Tap);
}

#[test]
fn any_frame_of_a_packet_socket_after_any_other() {
    // Nothing is guessed there, so one order will do.
    for link in [LinkType::Ethernet, LinkType::Ip] {
        let (device, theirs) = device(link, Source::Packet);
        let mut backend = Bare(device);
        let all = samples::all(link);
        for (first, second) in all.iter().zip(all.iter().skip(1)) {
            write(&theirs, second);
            second.assert_is(&read(&mut backend), &first.name);
        }
    }
}

/// Frames in an order in which each kind follows another one at every turn.
fn shuffled(all: &[Sample]) -> impl Iterator<Item = &Sample> {
    (0..all.len()).map(|place| &all[place * 617 % all.len()])
}

#[test]
fn traces_and_joining_leave_frames_what_they_are() {
    for link in [LinkType::Ethernet, LinkType::Ip] {
        let (device, theirs) = device(link, Source::Tap);
        let mut backend = Coalesce::new(Trace::new(Bare(device), Box::new(|_| {})));
        for sample in shuffled(&samples::all(link)) {
            write(&theirs, sample);
            sample.assert_is(&read(&mut backend), "another");
        }
    }
}

/// The wire's frames of a device's frame that lies in one piece: the same ones come through a wire, whatever came before.
#[test]
fn a_wire_without_faults_carries_what_one_piece_would_be_cut_to() {
    for link in [LinkType::Ethernet, LinkType::Ip] {
        let (device, theirs) = device(link, Source::Tap);
        let mut backend = Fault::new(Bare(device), FaultPlan::default());
        for sample in shuffled(&samples::all(link)) {
            let mut whole = Frame::ingress_parts(&sample.bytes, Bytes::new());
            vnet::decode(&sample.header, 0, &mut whole);
            if link == LinkType::Ip {
                whole.meta_mut().network_at = whole.position();
            }
            let mut wanted = Vec::new();
            offload::cut(whole, CutChecksums::Complete, &mut wanted);
            wanted.iter_mut().for_each(offload::complete_checksum);
            write(&theirs, sample);
            let mut got = Vec::new();
            backend.receive(Instant::ZERO, &mut got, 100).unwrap();
            let bytes = |frames: &[Frame]| frames.iter().map(Frame::to_vec).collect::<Vec<_>>();
            assert!(bytes(&got) == bytes(&wanted), "{}: {} frames, {} wanted", sample.name, got.len(), wanted.len());
        }
    }
}

#[test]
fn checksums_that_a_device_left_to_us_come_right() {
    for link in [LinkType::Ethernet, LinkType::Ip] {
        let (device, theirs) = device(link, Source::Tap);
        let mut backend = Bare(device);
        let mut completed = 0;
        for sample in shuffled(&samples::all(link)).filter(|sample| sample.bytes.len() < 4000) {
            write(&theirs, sample);
            let mut frame = read(&mut backend);
            if matches!(frame.meta().checksum, weft_core::Checksum::Partial { .. }) {
                offload::complete_checksum(&mut frame);
                assert!(offload::verify(&frame), "{}", sample.name);
                completed += 1;
            }
        }
        assert!(completed > 100, "{completed} checksums were completed");
    }
}
