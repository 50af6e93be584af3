use super::memory::tests::Mapped;
use super::*;
use crate::abi::*;
use crate::link_seen::LinkSeen;
use std::sync::Mutex;
use weft_core::Frame;

const MS: u64 = 1_000_000;

fn link() -> LinkSeen {
    LinkSeen {
        protocol: 0x88b5,
        interface: 2,
        hardware: 1,
        kind: 0,
        source: Some([2, 0, 0, 0, 0, 1]),
        whole_bytes: 60,
        network_at: 14,
        status: TP_STATUS_USER,
        tag: None,
        offload: None,
    }
}

fn clock(ms: u64) -> Clock {
    Clock { now: Instant::from_nanos(ms * MS), boot_nanos: 5_000_000_000 }
}

fn request(version: Version, blocks: u32) -> Request {
    let frames = blocks * if version == Version::V3 { 1 } else { 2 };
    Request { block_bytes: 4096, blocks, frame_bytes: 4096 * blocks / frames, frames, retire_ms: 10, ..Request::default() }
}

/// Rings of this version with a receive ring of some blocks, mapped.
fn ring(version: Version, blocks: u32) -> (Rings, Arc<Mapped>) {
    let mut rings = Rings { version, ..Rings::default() };
    rings.set(false, &request(version, blocks), false, clock(0)).unwrap();
    let memory = Arc::new(Mapped(Mutex::new(vec![0; rings.bytes() as usize]), false));
    let shared: Arc<dyn RingMemory> = memory.clone();
    rings.map(&mut |_| Ok(Arc::clone(&shared)), clock(0)).unwrap();
    (rings, memory)
}

fn put(rings: &mut Rings, bytes: usize, ms: u64, losing: bool) -> Option<Put> {
    let frame = Frame::ingress(&vec![7; bytes]);
    let link = LinkSeen { whole_bytes: bytes as u32, ..link() };
    let arrival = Arrival {
        frame: &frame,
        link: &link,
        kept: bytes as u32,
        cooked: false,
        reserve: 0,
        offload_bytes: 0,
        losing,
        received: clock(ms).now,
        clock: clock(ms),
    };
    rings.put(&arrival, true)
}

fn word(memory: &Mapped, at: usize) -> u32 {
    u32::from_ne_bytes(memory.0.lock().unwrap()[at..at + 4].try_into().unwrap())
}

fn set(memory: &Mapped, at: usize, word: u32) {
    memory.0.lock().unwrap()[at..at + 4].copy_from_slice(&word.to_ne_bytes());
}

#[test]
fn a_frame_lies_where_linux_puts_it() {
    let (mut rings, memory) = ring(Version::V2, 2);
    assert_eq!(put(&mut rings, 60, 3, false), Some(Put::Kept { wakes: true, copied: false }));
    assert_eq!([0, 4, 8, 16, 20].map(|at| word(&memory, at)), [TP_STATUS_USER, 60, 60, 5, 3_000_000]);
    assert_eq!(word(&memory, 12), 66 | 80 << 16);
    assert_eq!(word(&memory, 32), 17 | 0xb588 << 16);
    assert_eq!(memory.0.lock().unwrap()[65..67], [0, 7]);
    assert_eq!(rings.readiness(), Poll::READABLE);
}

#[test]
fn a_full_ring_loses_and_says_so() {
    let (mut rings, memory) = ring(Version::V2, 2);
    for _ in 0..4 {
        assert!(matches!(put(&mut rings, 60, 0, false), Some(Put::Kept { .. })));
    }
    assert_eq!(put(&mut rings, 60, 0, false), Some(Put::Lost { wakes: false }));
    set(&memory, 2048, 0);
    assert_eq!(put(&mut rings, 60, 0, true), Some(Put::Lost { wakes: true }));
    set(&memory, 0, 0);
    assert_eq!(put(&mut rings, 60, 0, true), Some(Put::Kept { wakes: true, copied: false }));
    assert_eq!(word(&memory, 0), TP_STATUS_USER | TP_STATUS_LOSING);
}

#[test]
fn what_is_too_long_is_cut_or_copied() {
    let (mut rings, memory) = ring(Version::V1, 1);
    assert_eq!(put(&mut rings, 3000, 0, false), Some(Put::Kept { wakes: true, copied: false }));
    assert_eq!([8, 12].map(|at| word(&memory, at)), [3000, 2048 - 66]);
    rings.copy_threshold = 1;
    assert_eq!(put(&mut rings, 3000, 0, false), Some(Put::Kept { wakes: true, copied: true }));
    assert_eq!(word(&memory, 2048), TP_STATUS_USER | TP_STATUS_COPY);
}

#[test]
fn blocks_are_given_when_they_are_full_or_their_time_is_over() {
    let (mut rings, memory) = ring(Version::V3, 2);
    assert_eq!([0, 4, 8, 12, 16, 20, 24].map(|at| word(&memory, at)), [2, 48, 0, 0, 48, 48, 1]);
    assert_eq!(rings.timer(clock(0).now), None);
    assert_eq!(put(&mut rings, 1000, 12, false), Some(Put::Kept { wakes: false, copied: false }));
    // The timer has gone off at 10 ms, and found nothing.
    assert_eq!(rings.timer(clock(12).now), Some(Some(clock(20).now)));
    assert_eq!((word(&memory, 12), rings.readiness()), (1, Poll::NONE));
    assert!(rings.expire(false, clock(20)));
    assert_eq!((word(&memory, 8), rings.readiness()), (TP_STATUS_USER | TP_STATUS_BLK_TMO, Poll::READABLE));
    assert_eq!((word(&memory, 48), word(&memory, 40), word(&memory, 44)), (0, 5, 12_000_000));
    for _ in 0..3 {
        assert_eq!(put(&mut rings, 1000, 21, false), Some(Put::Kept { wakes: false, copied: false }));
    }
    // The program still has the first block.
    assert_eq!(put(&mut rings, 1000, 21, false), Some(Put::Lost { wakes: true }));
    assert_eq!((word(&memory, 4096 + 8), rings.take_freezes(), rings.take_freezes()), (TP_STATUS_USER, 1, 0));
    assert_eq!(put(&mut rings, 1000, 21, true), Some(Put::Lost { wakes: false }));
    set(&memory, 8, 0);
    assert_eq!(put(&mut rings, 1000, 22, true), Some(Put::Kept { wakes: false, copied: false }));
    assert_eq!([12, 24].map(|at| word(&memory, at)), [1, 3]);
}

#[test]
fn a_frozen_ring_goes_on_by_its_timer() {
    let (mut rings, memory) = ring(Version::V3, 1);
    for _ in 0..3 {
        put(&mut rings, 1000, 1, false);
    }
    assert_eq!(put(&mut rings, 1000, 1, false), Some(Put::Lost { wakes: true }));
    assert_eq!(rings.timer(clock(1).now), Some(Some(clock(10).now)));
    assert!(!rings.expire(true, clock(10)));
    assert_eq!(rings.timer(clock(10).now), Some(Some(clock(20).now)));
    set(&memory, 8, 0);
    assert!(!rings.expire(true, clock(20)));
    assert_eq!((word(&memory, 24), rings.timer(clock(20).now)), (2, None));
}

#[test]
fn a_ring_that_is_mapped_stays() {
    let (mut rings, _memory) = ring(Version::V2, 1);
    assert_eq!(rings.set(false, &Request::default(), false, clock(0)), Err(Errno::EBUSY));
    assert_eq!(rings.set(true, &request(Version::V2, 1), false, clock(0)), Err(Errno::EBUSY));
    assert_eq!(rings.check_unset(), Err(Errno::EBUSY));
}

#[test]
fn marked_frames_are_sent() {
    let mut rings = Rings { version: Version::V2, ..Rings::default() };
    rings.set(true, &request(Version::V2, 1), false, clock(0)).unwrap();
    let memory = Arc::new(Mapped(Mutex::new(vec![0; 4096]), false));
    let shared: Arc<dyn RingMemory> = memory.clone();
    rings.map(&mut |_| Ok(Arc::clone(&shared)), clock(0)).unwrap();
    assert_eq!(rings.readiness(), Poll::WRITABLE);
    let ring = rings.transmit().unwrap();
    assert!(matches!(ring.next(1518, false, false), Next::None));
    set(&memory, 4, 20);
    set(&memory, 32, 0x0403_0201);
    set(&memory, 0, TP_STATUS_SEND_REQUEST);
    match ring.next(1518, false, false) {
        Next::Frame(data) => assert_eq!((data.len(), &data[..4]), (20, &[1, 2, 3, 4][..])),
        other => panic!("{other:?}"),
    }
    assert!(matches!(ring.next(19, false, false), Next::Bad(Errno::EMSGSIZE)));
    assert!(matches!(ring.next(1518, false, true), Next::Bad(Errno::EINVAL)));
    assert_eq!(ring.refuse(false), Refusal::Told);
    assert_eq!(word(&memory, 0), TP_STATUS_WRONG_FORMAT);
    set(&memory, 0, TP_STATUS_SEND_REQUEST);
    ring.taken();
    assert_eq!(word(&memory, 0), TP_STATUS_AVAILABLE);
    set(&memory, 2048 + 4, u32::MAX);
    set(&memory, 2048, TP_STATUS_SEND_REQUEST);
    assert!(matches!(ring.next(1518, false, false), Next::Bad(Errno::EINVAL)));
}
