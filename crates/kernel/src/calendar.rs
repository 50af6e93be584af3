//! The clock of a kernel: it asks when it wants to run, and is told how far it may go.
//!
//! Messages of 16 bytes over a Unix socket (include/uapi/linux/um_timetravel.h), and since Linux 6.10 a page that both sides map, which spares most of them.
//! Times in both are nanoseconds since this kernel was started.

use crate::Broken;
use crate::memory::Shared;
use rustix::fs::MemfdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

/// `enum um_timetravel_ops`
const ACK: u32 = 0;
const START: u32 = 1;
const REQUEST: u32 = 2;
const WAIT: u32 = 3;
const GET: u32 = 4;
const UPDATE: u32 = 5;
const RUN: u32 = 6;
const FREE_UNTIL: u32 = 7;
const GET_TOD: u32 = 8;

/// No kernel waits for a time from here on: it would take it for the end of all (S64_MAX).
pub(crate) const NEVER: u64 = i64::MAX as u64;

/// `struct um_timetravel_schedshm`: a page, and 128 bytes for each who keeps time: weft, and the kernel.
const BYTES: u64 = 4096 + 2 * 128;
const VERSION: usize = 0;
const LENGTH: usize = 4;
const FREE_UNTIL_AT: usize = 8;
const CURRENT: usize = 16;
const RUNNING: usize = 24;
const CLIENTS_MAX: usize = 26;
const OURS: usize = 4096;
const THEIRS: usize = 4096 + 128;
const CAPABILITIES: usize = 0;
const FLAGS: usize = 4;
const WANTED: usize = 8;
/// UM_TIMETRAVEL_SCHEDSHM_VERSION
const SHARED_VERSION: u32 = 2;
/// UM_TIMETRAVEL_SCHEDSHM_CAP_TIME_SHARE
const TIME_SHARE: u32 = 1;
/// UM_TIMETRAVEL_SCHEDSHM_FLAGS_REQ_RUN
const REQUESTED: u32 = 1;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Message {
    op: u32,
    sequence: u32,
    time: u64,
}

/// A kernel's clock.
#[derive(Debug)]
pub(crate) struct Calendar {
    socket: UnixStream,
    page: Shared,
    file: OwnedFd,
    /// Does it use the page? Known once it has been started.
    shares: bool,
    /// What it asked for by message.
    asked: u64,
    /// How far it was told that it may go, by message.
    granted: u64,
    now: u64,
    sequence: u32,
    runs: bool,
    /// Seconds since 1970, in nanoseconds, at its time 0.
    start: u64,
}

/// What a message was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    /// Something about time, answered.
    Time,
    /// The kernel waits.
    Waits,
    /// It is gone.
    Gone,
}

impl Calendar {
    /// The clock of a kernel that has connected and not been answered yet. `start`: nanoseconds since 1970 at its time 0.
    pub fn new(mut socket: UnixStream, start: u64) -> Result<Calendar, Broken> {
        let file = rustix::fs::memfd_create(c"calendar", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, BYTES)?;
        let page = Shared::map(file.as_fd(), BYTES as usize)?;
        let hello = receive(&mut socket)?.ok_or_else(|| Broken::new("it ended while it began"))?;
        if hello.op != START {
            return Err(Broken::new(format!("it began with message {} of its clock", hello.op)));
        }
        let calendar =
            Calendar { socket, page, file, shares: false, asked: NEVER, granted: 0, now: 0, sequence: 1 << 16, runs: false, start };
        calendar.set_u32(VERSION, SHARED_VERSION);
        calendar.set_u32(LENGTH, BYTES as u32);
        if let Some(most) = calendar.page.u16(CLIENTS_MAX) {
            most.store(2, Ordering::Release);
        }
        calendar.set_u32(OURS + CAPABILITIES, TIME_SHARE);
        calendar.acknowledge_start(hello.sequence)?;
        Ok(Calendar { runs: true, ..calendar })
    }

    /// The page goes to the kernel with its first answer; one that does not know it loses it.
    fn acknowledge_start(&self, sequence: u32) -> Result<(), Broken> {
        let ours = Message { op: ACK, sequence, time: 1 };
        let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
        let files = [self.file.as_fd(), null.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        self.set_running(true);
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(&ours.to_bytes())], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn set_u32(&self, at: usize, value: u32) {
        if let Some(number) = self.page.u32(at) {
            number.store(value, Ordering::Release);
        }
    }
    fn u32(&self, at: usize) -> u32 {
        self.page.u32(at).map_or(0, |number| number.load(Ordering::Acquire))
    }
    fn set_u64(&self, at: usize, value: u64) {
        if let Some(number) = self.page.u64(at) {
            number.store(value, Ordering::Release);
        }
    }
    fn u64(&self, at: usize) -> u64 {
        self.page.u64(at).map_or(0, |number| number.load(Ordering::Acquire))
    }
    fn set_running(&self, kernel: bool) {
        if let Some(who) = self.page.u16(RUNNING) {
            who.store(u16::from(kernel), Ordering::Release);
        }
    }

    /// Does it run, and has not said that it waits?
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// Its present.
    pub fn now(&self) -> u64 {
        if self.shares { self.now.max(self.u64(CURRENT)) } else { self.now }
    }

    /// The present is another, and the kernel waits.
    pub fn set_now(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.set_u64(CURRENT, self.now);
    }

    /// When it wants to run.
    pub fn wanted(&self) -> u64 {
        let shared = self.u32(THEIRS + FLAGS) & REQUESTED != 0;
        if shared { self.asked.min(self.u64(THEIRS + WANTED)) } else { self.asked }
    }

    /// It runs from its present on, and may go on to before `limit` by itself.
    pub fn run(&mut self, limit: u64) -> Result<(), Broken> {
        self.asked = NEVER;
        self.shares = self.u32(THEIRS + CAPABILITIES) & TIME_SHARE != 0;
        self.set_u64(CURRENT, self.now);
        if self.shares {
            let flags = self.u32(THEIRS + FLAGS);
            self.set_u32(THEIRS + FLAGS, flags & !REQUESTED);
            self.set_u64(FREE_UNTIL_AT, limit);
            self.set_running(true);
            self.runs = true;
            self.sequence += 1;
            return self.send(Message { op: RUN, sequence: self.sequence, time: self.now });
        }
        self.granted = limit;
        self.tell(FREE_UNTIL, limit)?;
        self.tell(RUN, self.now)?;
        self.runs = true;
        Ok(())
    }

    /// While it runs: something happens earlier than it was told.
    pub fn shorten(&mut self, limit: u64) -> Result<(), Broken> {
        if self.shares {
            self.set_u64(FREE_UNTIL_AT, limit);
        } else if limit < self.granted && self.u32(THEIRS + CAPABILITIES) & TIME_SHARE == 0 {
            self.granted = limit;
            self.tell(FREE_UNTIL, limit)?;
        } else {
            self.set_u64(FREE_UNTIL_AT, limit);
        }
        Ok(())
    }

    fn send(&mut self, message: Message) -> Result<(), Broken> {
        self.socket.write_all(&message.to_bytes())?;
        Ok(())
    }

    /// Sends a message and waits until it was read; what the kernel says meanwhile is answered.
    fn tell(&mut self, op: u32, time: u64) -> Result<(), Broken> {
        self.sequence += 1;
        let sequence = self.sequence;
        self.send(Message { op, sequence, time })?;
        loop {
            let message = receive(&mut self.socket)?.ok_or_else(|| Broken::new("it ended"))?;
            if message.op == ACK && message.sequence == sequence {
                return Ok(());
            }
            self.answer(message)?;
        }
    }

    /// Reads a message and answers it.
    pub fn serve(&mut self) -> Result<Said, Broken> {
        match receive(&mut self.socket)? {
            None => Ok(Said::Gone),
            Some(message) => self.answer(message),
        }
    }

    fn answer(&mut self, message: Message) -> Result<Said, Broken> {
        let Message { op, sequence, time } = message;
        let ack = |time| Message { op: ACK, sequence, time };
        self.shares |= self.u32(THEIRS + CAPABILITIES) & TIME_SHARE != 0;
        self.now = self.now();
        match op {
            ACK => return Ok(Said::Time),
            REQUEST => self.asked = time,
            WAIT => {
                self.runs = false;
                self.set_running(false);
                if !self.shares {
                    self.send(ack(0))?;
                }
                return Ok(Said::Waits);
            }
            GET => {
                let now = self.now;
                return self.send(ack(now)).map(|()| Said::Time);
            }
            UPDATE if self.runs => {
                self.now = self.now.max(time);
                self.set_u64(CURRENT, self.now);
            }
            GET_TOD => {
                let time = self.start.saturating_add(self.now);
                return self.send(ack(time)).map(|()| Said::Time);
            }
            _ => {}
        }
        self.send(ack(0)).map(|()| Said::Time)
    }
}

impl Message {
    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.op.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.time.to_ne_bytes());
        bytes
    }
}

/// The next message; none: the other side is gone.
fn receive(socket: &mut UnixStream) -> Result<Option<Message>, Broken> {
    let mut bytes = [0; 16];
    match socket.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let [o0, o1, o2, o3, s0, s1, s2, s3, time @ ..] = bytes;
    let (op, sequence) = (u32::from_ne_bytes([o0, o1, o2, o3]), u32::from_ne_bytes([s0, s1, s2, s3]));
    Ok(Some(Message { op, sequence, time: u64::from_ne_bytes(time) }))
}
