//! The control socket's two sides: the daemon's listener with its connections, and the client that commands use.

use crate::place::{self, Seat};
use crate::protocol::{Ask, LINE_BYTES_MAX, Line, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{PidfdFlags, pidfd_open};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_core::Selector;
use weft_core::control::{ControlError, Op, Value};

/// Most clients at a time. When there are so many and another one comes, the one that has been idle for longest has to go: programs and
/// forgotten connections must not lock out the command line.
pub const CLIENTS_MAX: usize = 256;
/// Most bytes that may wait for a client that is sent yet another line: one that reads more slowly is cut off. A single answer may be longer:
/// a table of 100,000 sockets is. Who has not read an answer is not asked for its next request.
const OUT_BYTES_MAX: usize = 4 << 20;
/// Most bytes of news that may wait for a subscriber; what comes while there are more is lost to it, and counted.
const NEWS_BYTES_MAX: usize = 256 << 10;
/// Most bytes taken from one client before the others get their turn.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Most requests of one client that are answered before the others get their turn; the rest are answered in later turns.
pub const REQUESTS_MAX: usize = 64;

/// The daemon's listening socket. The file is removed when it is dropped, and with it weft's own directory when nothing else is in that.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    seat: Seat,
}

impl Listener {
    /// Creates the socket, with mode 0600; see [`place::prepare`] for what is in its place.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let (socket, seat) = place::listen(path)?;
        socket.set_nonblocking(true)?;
        Ok(Listener { socket, seat })
    }
    /// Where it is, from the root on.
    pub fn path(&self) -> &Path {
        self.seat.path()
    }
    /// Takes the next client, if one waits.
    pub fn accept(&self) -> Option<Connection> {
        let (socket, _) = self.socket.accept().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Connection {
            socket,
            input: Vec::new(),
            taken: 0,
            scanned: 0,
            descriptors: VecDeque::new(),
            output: Vec::new(),
            traces: false,
            subscription: None,
            ended: false,
            gone: false,
            waits: false,
            heard: 0,
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What a client wants to hear of.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// Of which blocks.
    pub target: Selector,
    /// Which alert; none: all.
    pub alert: Option<String>,
    /// News that were lost because the client reads more slowly than they come, and which it has not been told of yet.
    pub lost: u64,
}

/// One client of the daemon.
#[derive(Debug)]
pub struct Connection {
    socket: UnixStream,
    input: Vec<u8>,
    /// Bytes at the front of `input` that were requests.
    taken: usize,
    /// Bytes after those that hold no end of line.
    scanned: usize,
    descriptors: VecDeque<OwnedFd>,
    output: Vec<u8>,
    /// Wants a line a frame.
    pub traces: bool,
    /// Wants the alerts of these blocks, and changes.
    pub subscription: Option<Subscription>,
    /// The client sends nothing more.
    ended: bool,
    gone: bool,
    /// It waits for files that are being read.
    pub waits: bool,
    /// When it last asked something, or came: counted by the daemon, so that it is the order and not the time that decides.
    pub heard: u64,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Connection {
    /// The next complete line, as a request or as the text of what is wrong with it. Reads what is there when none is left over
    /// ([`Connection::has_requests`]).
    pub fn read(&mut self) -> Option<Result<Request, String>> {
        if !self.has_requests() {
            self.input.drain(..self.taken);
            self.taken = 0;
            self.fill();
        }
        let begin = self.taken;
        let Some(length) = self.input[begin + self.scanned..].iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.input.len() - begin;
            self.gone |= self.scanned > LINE_BYTES_MAX;
            return None;
        };
        let end = begin + self.scanned + length;
        (self.taken, self.scanned) = (end + 1, 0);
        Some(serde_json::from_slice(&self.input[begin..end]).map_err(|error| error.to_string()))
    }

    /// Is there (perhaps) another request, read already?
    pub fn has_requests(&self) -> bool {
        self.taken + self.scanned < self.input.len()
    }

    fn fill(&mut self) {
        let mut left = READ_BYTES_MAX;
        while left > 0 && !self.ended {
            let mut buffer = [0u8; 16 * 1024];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let received = net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    self.descriptors.extend(descriptors);
                }
            }
            self.descriptors.truncate(4);
            match received {
                Ok(received) if received.bytes > 0 => {
                    self.input.extend_from_slice(&buffer[..received.bytes]);
                    left = left.saturating_sub(received.bytes);
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                _ => self.ended = true,
            }
        }
    }

    /// The descriptor that came with the oldest `join`.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// Queues a line and sends what can be sent.
    pub fn send(&mut self, line: &Line) {
        if self.output.len() > OUT_BYTES_MAX {
            self.gone = true;
            self.output = Vec::new();
        }
        if self.gone {
            return;
        }
        if let Ok(bytes) = serde_json::to_vec(line) {
            self.output.extend_from_slice(&bytes);
            self.output.push(b'\n');
        }
        self.flush();
    }

    /// Queues news for a subscriber if there is room; if there is none, it is told later how many were lost.
    pub fn offer(&mut self, news: &Value) {
        self.flush();
        let has_room = self.output.len() <= NEWS_BYTES_MAX;
        let Some(subscription) = &mut self.subscription else { return };
        if !has_room {
            subscription.lost += 1;
            return;
        }
        if let lost @ 1.. = std::mem::take(&mut subscription.lost) {
            self.send(&Line::Event(serde_json::json!({"lost": lost})));
        }
        self.send(&Line::Event(news.clone()));
    }

    /// Does it get lines that it did not ask for one by one?
    pub fn is_stream(&self) -> bool {
        self.traces || self.subscription.is_some()
    }

    /// Sends what can be sent.
    pub fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.socket.write(&self.output) {
                Ok(0) => self.gone = true,
                Ok(sent) => {
                    self.output.drain(..sent);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.gone = true,
            }
            break;
        }
    }

    /// Does it wait for room to send?
    pub fn wants_write(&self) -> bool {
        !self.output.is_empty()
    }
    /// Is the client gone (or cut off)? One that only sends nothing more is not, until it has all its answers.
    pub fn is_gone(&self) -> bool {
        self.gone || (self.ended && !self.has_requests() && self.output.is_empty() && !self.waits)
    }
}

/// Why a request to a daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no weft answers at {path} ({why}); start one with `weft up`, or name its socket with --control")]
    NoDaemon {
        /// The socket's path.
        path: String,
        /// The system's reason.
        why: io::Error,
    },
    /// Somebody else's daemon.
    #[error(
        "{path}: permission denied: this control socket is {owner}; use it as that user, or name your own weft's socket with --control"
    )]
    Forbidden {
        /// The socket's path.
        path: String,
        /// Whose it is.
        owner: String,
    },
    /// The connection broke.
    #[error("the weft daemon went away: {0}")]
    Gone(io::Error),
    /// The daemon answered something else than expected.
    #[error("the daemon's answer makes no sense: {0}")]
    Nonsense(String),
    /// The daemon refused.
    #[error(transparent)]
    Refused(#[from] ControlError),
}

/// A command's connection to a daemon.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    path: PathBuf,
    input: Vec<u8>,
    serial: u64,
    /// Of which node of a world it asks.
    node: Option<String>,
}

impl Client {
    /// Connects, to a daemon of this user's or root's only: who runs it serves the programs that join, and /tmp is everybody's.
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let path = &place::resolve(path);
        let no_daemon = |why| ClientError::NoDaemon { path: path.display().to_string(), why };
        let forbidden = || ClientError::Forbidden { path: path.display().to_string(), owner: owner(path) };
        let socket = UnixStream::connect(path).map_err(|why| match why.kind() {
            io::ErrorKind::PermissionDenied => forbidden(),
            _ => no_daemon(why),
        })?;
        let peer = net::sockopt::socket_peercred(&socket).map_err(|errno| no_daemon(errno.into()))?;
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            return Err(forbidden());
        }
        Ok(Client { socket, path: std::path::absolute(path).unwrap_or_else(|_| path.clone()), input: Vec::new(), serial: 0, node: None })
    }
    /// Asks a node of a world from now on.
    pub fn of_node(self, node: Option<String>) -> Client {
        Client { node, ..self }
    }
    /// Where the daemon listens, from the root on.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks and waits for the answer.
    pub fn ask(&mut self, ask: Ask) -> Result<Value, ClientError> {
        self.ask_with(ask, &[])
    }
    /// A control operation.
    pub fn node(&mut self, op: Op) -> Result<Value, ClientError> {
        self.ask(Ask::Node(op))
    }

    /// Waits until whoever is at the other end has ended, `most` at most. Has it?
    pub fn outlives(&mut self, most: Duration) -> bool {
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        // The process, if it can be seen from here: it lets go of devices and files after the connection.
        let process = net::sockopt::socket_peercred(&self.socket).ok().map(|peer| peer.pid);
        let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let mut ends = match &process {
            Some(process) => [PollFd::new(process, PollFlags::IN)],
            None => [PollFd::new(&self.socket, PollFlags::RDHUP)],
        };
        poll(&mut ends, Some(&most)).is_ok_and(|ready| ready > 0)
    }

    /// Asks, with descriptors attached: three at most.
    pub fn ask_with(&mut self, ask: Ask, descriptors: &[BorrowedFd<'_>]) -> Result<Value, ClientError> {
        self.serial += 1;
        let request = Request { serial: self.serial, node: self.node.clone(), ask };
        let mut line = serde_json::to_vec(&request).map_err(|error| ClientError::Nonsense(error.to_string()))?;
        line.push(b'\n');
        let mut sent = 0;
        if !descriptors.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            sent = net::sendmsg(&self.socket, &[IoSlice::new(&line)], &mut ancillary, SendFlags::NOSIGNAL)
                .map_err(|error| ClientError::Gone(error.into()))?;
        }
        self.socket.write_all(&line[sent..]).map_err(ClientError::Gone)?;
        loop {
            if let Line::Answer { serial, result } = self.line()?
                && serial == self.serial
            {
                return Ok(result?);
            }
        }
    }

    /// The next line from the daemon; waits for it.
    pub fn line(&mut self) -> Result<Line, ClientError> {
        let mut scanned = 0;
        loop {
            if let Some(length) = self.input[scanned..].iter().position(|byte| *byte == b'\n') {
                let end = scanned + length;
                let line: Vec<u8> = self.input.drain(..=end).collect();
                return serde_json::from_slice(&line[..end]).map_err(|error| ClientError::Nonsense(error.to_string()));
            }
            scanned = self.input.len();
            let mut buffer = [0u8; 64 * 1024];
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => self.input.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ClientError::Gone(error)),
            }
        }
    }
}

/// Whose a socket is, or (where that may not be looked at) whose the directories above it are.
fn owner(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt as _;
    match path.ancestors().find_map(|path| std::fs::metadata(path).ok()).map(|facts| facts.uid()) {
        Some(0) => "root's".to_owned(),
        Some(uid) => format!("that of the user with number {uid}"),
        None => "somebody else's".to_owned(),
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixStream, Connection) {
        let dir = std::env::temp_dir().join(format!("weft-control-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::create_dir_all(&dir).unwrap();
        let listener = Listener::bind(&dir.join("control")).unwrap();
        let client = UnixStream::connect(dir.join("control")).unwrap();
        let connection = listener.accept().unwrap();
        drop(listener);
        let _ = std::fs::remove_dir(&dir);
        (client, connection)
    }

    const HELLO: &[u8] = b"{\"serial\":1,\"ask\":\"hello\"}\n";

    #[test]
    fn a_flood_of_lines_is_taken_in_portions_and_completely() {
        let (mut client, mut connection) = pair();
        client.set_nonblocking(true).unwrap();
        let (mut written, mut read, mut done) = (0, 0, false);
        while !done {
            match client.write(&[b'\n'; 4096]) {
                Ok(bytes) if written < 500_000 => written += bytes,
                Ok(bytes) => (written, done) = (written + bytes, true),
                Err(_) => {}
            }
            for _ in 0..REQUESTS_MAX {
                read += usize::from(connection.read().is_some_and(|request| request.is_err()));
            }
            assert!(connection.input.len() <= READ_BYTES_MAX + 16 * 1024);
        }
        while read < written {
            read += usize::from(connection.read().is_some_and(|request| request.is_err()));
        }
        assert_eq!(read, written);
        assert!(!connection.has_requests() && !connection.is_gone());
    }

    #[test]
    fn a_line_in_many_pieces_is_one_request_and_one_without_end_is_cut_off() {
        let (mut client, mut connection) = pair();
        for byte in HELLO {
            assert!(connection.read().is_none());
            client.write_all(&[*byte]).unwrap();
        }
        assert!(matches!(connection.read(), Some(Ok(Request { serial: 1, ask: crate::protocol::Ask::Hello, node: None }))));
        let mut written = 0;
        while !connection.is_gone() {
            assert!(written <= LINE_BYTES_MAX + READ_BYTES_MAX);
            client.write_all(&[b'x'; 16 * 1024]).unwrap();
            written += 16 * 1024;
            assert!(connection.read().is_none());
        }
        assert!(written > LINE_BYTES_MAX);
    }

    #[test]
    fn news_that_find_no_room_are_counted_and_told_of() {
        let (mut client, mut connection) = pair();
        connection.subscription = Some(Subscription { target: Selector::parse("*"), alert: None, lost: 0 });
        let news = serde_json::json!({"alert": "x".repeat(1000)});
        // Until the socket's own buffer is full, and the queue behind it.
        let mut offered = 0u64;
        while connection.subscription.as_ref().is_some_and(|subscription| subscription.lost < 100) {
            connection.offer(&news);
            offered += 1;
            assert!(connection.output.len() <= NEWS_BYTES_MAX + 2000 && offered < 100_000);
        }
        client.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        let mut said = Vec::new();
        let mut buffer = [0u8; 64 * 1024];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            said.extend_from_slice(&buffer[..read]);
            connection.flush();
        }
        assert_eq!(said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() as u64, offered - 100);
        connection.offer(&news);
        let read = client.read(&mut buffer).unwrap();
        assert!(String::from_utf8_lossy(&buffer[..read]).starts_with("{\"event\":{\"lost\":100}}\n"), "{:?}", &buffer[..40]);
        assert!(!connection.is_gone());
    }

    #[test]
    fn who_only_stops_sending_gets_all_answers() {
        let (mut client, mut connection) = pair();
        client.write_all(&HELLO.repeat(200)).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answered = 0;
        while !connection.is_gone() {
            if let Some(request) = connection.read() {
                connection.send(&Line::Answer { serial: request.unwrap().serial, result: Ok(Value::Null) });
                answered += 1;
            }
        }
        drop(connection);
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!((answered, text.lines().count()), (200, 200));
    }

    #[test]
    fn a_client_that_does_not_read_is_cut_off_and_costs_nothing_more() {
        let (_client, mut connection) = pair();
        let line = Line::Event(Value::String("x".repeat(10_000)));
        for _ in 0..2000 {
            connection.send(&line);
            assert!(connection.output.len() <= OUT_BYTES_MAX + 20_000);
        }
        assert!(connection.is_gone() && !connection.wants_write());
    }

    #[test]
    fn an_answer_may_be_longer_than_what_may_wait() {
        let (mut client, mut connection) = pair();
        let text = "x".repeat(3 * OUT_BYTES_MAX);
        connection.send(&Line::Answer { serial: 1, result: Ok(Value::String(text.clone())) });
        assert!(connection.output.len() > OUT_BYTES_MAX && !connection.is_gone());
        let reader = std::thread::spawn(move || {
            let mut got = String::new();
            client.read_to_string(&mut got).unwrap();
            got
        });
        while connection.wants_write() {
            connection.flush();
        }
        drop(connection);
        let got = reader.join().unwrap();
        assert_eq!(serde_json::from_str::<Line>(&got).unwrap(), Line::Answer { serial: 1, result: Ok(Value::String(text)) });
    }
}
