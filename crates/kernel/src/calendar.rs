//! The clock of a kernel: it asks when it wants to run, and is told how far it may go.
//!
//! Messages of 16 bytes over a Unix socket (include/uapi/linux/um_timetravel.h), and since Linux 6.10 a page that both sides map, which spares most of them.
//! Times in both are nanoseconds since this kernel was started.

use crate::Broken;
use crate::memory::Shared;
use crate::patience::{Patience, Talk};
use crate::sockets;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

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

const MESSAGE_BYTES: usize = 16;

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
    /// What it asked for by message.
    asked: u64,
    /// How far it was told that it may go, by message.
    granted: u64,
    now: u64,
    sequence: u32,
    runs: bool,
    /// Nanoseconds since 1970 at its time 0.
    start: u64,
    /// Reading ends after [`HEARD_MAX`].
    hurries: bool,
    /// Does it use the page? None: it has not said anything since it got it.
    shares: Option<bool>,
    patience: Patience,
}

/// So long one waits for the kernel alone.
const HEARD_MAX: Duration = Duration::from_millis(20);

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
    pub fn new(socket: UnixStream, start: u64, patience: Patience) -> Result<Calendar, Broken> {
        let file = rustix::fs::memfd_create(c"calendar", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, BYTES)?;
        // Who looks at a page that its file no longer has gets a signal.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let page = Shared::map(file.as_fd(), BYTES as usize)?;
        let hello = receive(&socket)?.ok_or_else(|| Broken::new("it ended while it began"))?;
        if hello.op != START {
            return Err(Broken::new(format!("it began with message {} of its clock", hello.op)));
        }
        let calendar = Calendar {
            socket,
            page,
            file,
            asked: NEVER,
            granted: 0,
            now: 0,
            sequence: 1 << 16,
            runs: false,
            start,
            hurries: false,
            shares: None,
            patience,
        };
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

    /// Does it use the page? It says so there when it has got it, before it says anything else, and it counts no more what it writes there later.
    pub fn shares(&self) -> bool {
        self.shares == Some(true)
    }

    /// Does it run, and has not said that it waits?
    pub fn runs(&self) -> bool {
        self.runs
    }

    /// Its present.
    pub fn now(&self) -> u64 {
        if self.shares() && self.runs { self.now.max(self.u64(CURRENT)) } else { self.now }
    }

    /// The present is another, and the kernel waits.
    pub fn set_now(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.set_u64(CURRENT, self.now);
    }

    /// When it wants to run, as it was when it was looked at last: the world counts on it.
    pub fn wanted(&self) -> u64 {
        self.asked
    }

    /// Looks at what a kernel that waits has asked for in the page.
    pub fn look(&mut self) {
        if self.shares() && self.u32(THEIRS + FLAGS) & REQUESTED != 0 {
            self.asked = self.asked.min(self.u64(THEIRS + WANTED));
        }
    }

    /// There is something for it to do at a time, if it wants nothing earlier.
    pub fn ask(&mut self, at: u64) {
        self.asked = self.asked.min(at);
    }

    /// It runs from its present on, and may go on to before `limit` by itself.
    pub fn run(&mut self, limit: u64) -> Result<(), Broken> {
        self.asked = NEVER;
        self.set_u64(CURRENT, self.now);
        if self.shares() {
            let flags = self.u32(THEIRS + FLAGS);
            self.set_u32(THEIRS + FLAGS, flags & !REQUESTED);
            self.set_u64(FREE_UNTIL_AT, limit);
            self.set_running(true);
            self.runs = true;
            self.sequence = self.sequence.wrapping_add(1);
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
        if self.shares() {
            self.set_u64(FREE_UNTIL_AT, limit);
        } else if limit < self.granted {
            self.granted = limit;
            self.tell(FREE_UNTIL, limit)?;
        }
        Ok(())
    }

    fn send(&mut self, message: Message) -> Result<(), Broken> {
        sockets::say(&self.socket, &message.to_bytes())
    }

    /// Sends a message and waits until it was read; what the kernel says meanwhile is answered.
    fn tell(&mut self, op: u32, time: u64) -> Result<(), Broken> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        self.send(Message { op, sequence, time })?;
        let mut talk = Talk::default();
        while talk.again(&self.patience)? && self.patience.await_any(&[self.socket.as_fd()], &|| 0, &mut || Ok(false))?.is_some() {
            let message = receive(&self.socket)?.ok_or_else(|| Broken::new("it ended"))?;
            if message.op == ACK && message.sequence == sequence {
                return Ok(());
            }
            self.answer(message)?;
        }
        Err(Broken::new("it had not answered when the run was interrupted"))
    }

    /// [`Calendar::serve`] with one call into the host's kernel, when nobody else has anything to say; none: it says nothing for a while.
    pub fn hear(&mut self) -> Result<Option<Said>, Broken> {
        if !self.hurries {
            self.socket.set_read_timeout(Some(HEARD_MAX))?;
            self.hurries = true;
        }
        let mut bytes = [0; MESSAGE_BYTES];
        match sockets::hear_later(&self.socket, &mut bytes)? {
            None => Ok(None),
            Some(false) => Ok(Some(Said::Gone)),
            Some(true) => self.answer(Message::of_bytes(bytes)).map(Some),
        }
    }

    /// Reads a message that has come, and answers it.
    pub fn serve(&mut self) -> Result<Said, Broken> {
        match receive(&self.socket)? {
            None => Ok(Said::Gone),
            Some(message) => self.answer(message),
        }
    }

    fn answer(&mut self, message: Message) -> Result<Said, Broken> {
        let Message { op, sequence, time } = message;
        let ack = |time| Message { op: ACK, sequence, time };
        if self.shares.is_none() {
            self.shares = Some(self.u32(THEIRS + CAPABILITIES) & TIME_SHARE != 0);
        }
        self.now = self.now();
        match op {
            ACK => return Ok(Said::Time),
            REQUEST => self.asked = time,
            WAIT => {
                self.look();
                self.runs = false;
                self.set_running(false);
                if !self.shares() {
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
    fn to_bytes(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&self.op.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.time.to_ne_bytes());
        bytes
    }

    fn of_bytes(bytes: [u8; MESSAGE_BYTES]) -> Message {
        let [o0, o1, o2, o3, s0, s1, s2, s3, time @ ..] = bytes;
        let (op, sequence) = (u32::from_ne_bytes([o0, o1, o2, o3]), u32::from_ne_bytes([s0, s1, s2, s3]));
        Message { op, sequence, time: u64::from_ne_bytes(time) }
    }
}

/// A message that has come; none: the other side is gone.
fn receive(socket: &UnixStream) -> Result<Option<Message>, Broken> {
    let mut bytes = [0; MESSAGE_BYTES];
    Ok(sockets::hear(socket, &mut bytes)?.then(|| Message::of_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    use std::io::{IoSliceMut, Read as _, Write as _};

    const EPOCH: u64 = 1_000_000_000;

    /// The kernel's end.
    struct Kernel {
        socket: UnixStream,
        page: Option<Shared>,
    }

    impl Kernel {
        fn say(&mut self, op: u32, time: u64) {
            self.socket.write_all(&Message { op, sequence: 7, time }.to_bytes()).unwrap();
        }
        fn hear(&mut self) -> Message {
            let mut bytes = [0; MESSAGE_BYTES];
            self.socket.read_exact(&mut bytes).unwrap();
            Message::of_bytes(bytes)
        }
        fn page(&self) -> &Shared {
            self.page.as_ref().unwrap()
        }
    }

    /// A calendar and its kernel, one that maps the page or one that does not know it.
    fn pair(shares: bool) -> (Calendar, Kernel) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut kernel = Kernel { socket: theirs, page: None };
        kernel.say(START, 0);
        let calendar = Calendar::new(ours, EPOCH, Patience::default()).unwrap();
        let (mut bytes, mut files) = ([0; 16], Vec::new());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        rustix::net::recvmsg(&kernel.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                files.extend(some);
            }
        }
        assert_eq!(files.len(), 2);
        if shares {
            let page = Shared::map(files[0].as_fd(), BYTES as usize).unwrap();
            page.u32(THEIRS + CAPABILITIES).unwrap().store(TIME_SHARE, Ordering::Release);
            kernel.page = Some(page);
        }
        (calendar, kernel)
    }

    #[test]
    fn a_kernel_with_the_page_asks_and_goes_on_there() {
        let (mut calendar, mut kernel) = pair(true);
        assert!(calendar.runs());
        assert_eq!(calendar.wanted(), NEVER);
        // It wants to run at 500, and waits.
        kernel.page().u64(THEIRS + WANTED).unwrap().store(500, Ordering::Release);
        kernel.page().u32(THEIRS + FLAGS).unwrap().store(REQUESTED, Ordering::Release);
        kernel.say(WAIT, 0);
        assert_eq!(calendar.serve().unwrap(), Said::Waits);
        assert!(!calendar.runs());
        assert_eq!((calendar.wanted(), calendar.now()), (500, 0));
        calendar.set_now(500);
        calendar.run(900).unwrap();
        assert_eq!(kernel.hear(), Message { op: RUN, sequence: (1 << 16) + 1, time: 500 });
        assert_eq!((calendar.wanted(), calendar.runs()), (NEVER, true));
        assert_eq!(kernel.page().u64(FREE_UNTIL_AT).unwrap().load(Ordering::Acquire), 900);
        calendar.shorten(800).unwrap();
        assert_eq!(kernel.page().u64(FREE_UNTIL_AT).unwrap().load(Ordering::Acquire), 800);
        // It has gone on by itself.
        kernel.page().u64(CURRENT).unwrap().store(650, Ordering::Release);
        assert_eq!(calendar.now(), 650);
        kernel.say(GET_TOD, 0);
        assert_eq!(calendar.serve().unwrap(), Said::Time);
        assert_eq!(kernel.hear(), Message { op: ACK, sequence: 7, time: EPOCH + 650 });
    }

    #[test]
    fn a_kernel_is_asked_to_run_for_what_has_come() {
        let (mut calendar, mut kernel) = pair(true);
        kernel.page().u64(THEIRS + WANTED).unwrap().store(500, Ordering::Release);
        kernel.page().u32(THEIRS + FLAGS).unwrap().store(REQUESTED, Ordering::Release);
        // It computes, and then it waits.
        assert_eq!(calendar.hear().unwrap(), None);
        kernel.say(WAIT, 0);
        assert_eq!(calendar.hear().unwrap(), Some(Said::Waits));
        for (at, wanted) in [(700, 500), (300, 300), (400, 300)] {
            calendar.ask(at);
            assert_eq!(calendar.wanted(), wanted);
        }
        calendar.run(900).unwrap();
        kernel.page().u32(THEIRS + FLAGS).unwrap().store(0, Ordering::Release);
        assert_eq!(calendar.wanted(), NEVER);
        drop(kernel);
        assert_eq!(calendar.hear().unwrap(), Some(Said::Gone));
    }

    #[test]
    fn a_kernel_without_the_page_is_told_by_messages() {
        let (mut calendar, mut kernel) = pair(false);
        kernel.say(REQUEST, 500);
        assert_eq!(calendar.serve().unwrap(), Said::Time);
        kernel.say(WAIT, 0);
        assert_eq!(calendar.serve().unwrap(), Said::Waits);
        assert_eq!((kernel.hear().op, kernel.hear().op), (ACK, ACK));
        assert_eq!(calendar.wanted(), 500);
        calendar.set_now(500);
        // It reads what it is told, and answers; in between it asks for the time.
        let told = std::thread::spawn(move || {
            let until = kernel.hear();
            kernel.say(GET, 0);
            assert_eq!(kernel.hear(), Message { op: ACK, sequence: 7, time: 500 });
            kernel.socket.write_all(&Message { op: ACK, ..until }.to_bytes()).unwrap();
            let run = kernel.hear();
            kernel.socket.write_all(&Message { op: ACK, ..run }.to_bytes()).unwrap();
            let shorter = kernel.hear();
            kernel.socket.write_all(&Message { op: ACK, ..shorter }.to_bytes()).unwrap();
            kernel.say(UPDATE, 700);
            assert_eq!(kernel.hear().op, ACK);
            ([until, run, shorter].map(|message| (message.op, message.time)), kernel)
        });
        calendar.run(900).unwrap();
        calendar.shorten(800).unwrap();
        // Nothing that it does not know already.
        calendar.shorten(850).unwrap();
        Patience::default().await_any(&[calendar.socket()], &|| 0, &mut || Ok(false)).unwrap();
        assert_eq!(calendar.serve().unwrap(), Said::Time);
        let (told, kernel) = told.join().unwrap();
        assert_eq!(told, [(FREE_UNTIL, 900), (RUN, 500), (FREE_UNTIL, 800)]);
        assert_eq!(calendar.now(), 700);
        drop(kernel);
        assert_eq!(calendar.serve().unwrap(), Said::Gone);
        assert!(calendar.run(1000).is_err());
    }

    #[test]
    fn who_does_not_begin_is_refused() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&Message { op: WAIT, sequence: 1, time: 0 }.to_bytes()).unwrap();
        assert!(Calendar::new(ours, 0, Patience::default()).unwrap_err().0.contains("began with message 3"));
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(Calendar::new(ours, 0, Patience::default()).unwrap_err().0.contains("ended while it began"));
    }
}
