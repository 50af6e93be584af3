//! Sockets of programs in virtual time and with `--strict`: [`weft_intercept::socket_calls`] over the socket model. Each call takes effect at the
//! caller's own time; one that would block is tried again when its socket changes.

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::link::Link;
use super::netlink::PostedLink;
use super::object::Body;
use super::outcome::{Asked, Outcome};
use super::outside::Outside;
use super::pending;
use super::state::Wait;
use super::tree::Tree;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_intercept::face::abi::{MSG_NOT_LAST, MSG_UNREADABLE, MSG_WAITS};
use weft_intercept::face::{Poll, SocketId, SocketState};
use weft_intercept::memory::Memory;
use weft_intercept::socket_calls::{self, Carrier, Kind, Limit, Message, Taken, interface};
use weft_intercept::sys::{self, Errno};
use weft_loader::calls;

/// Most bytes of a stream moved by one call.
const STREAM_BYTES_MAX: usize = 256 * 1024;

impl Tree {
    /// All calls on sockets but those that make them.
    pub(super) fn socket_call(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let number = posted.number as i64;
        if let Some(Body::Setting { of, position, reads }) = self.objects.body(posted.inode()) {
            if !reads && matches!(number, libc::SYS_read | libc::SYS_pread64) {
                return Err(Errno(libc::EBADF));
            }
            let (of, position) = (of.clone(), *position);
            return self.setting_call(thread, &of, position, posted, caller, outside);
        }
        if matches!(number, libc::SYS_lseek | libc::SYS_pread64 | libc::SYS_pwrite64) {
            // fs/read_write.c, ksys_lseek: "if (whence <= SEEK_MAX)", or else EINVAL.
            let unknown = number == libc::SYS_lseek && !(libc::SEEK_SET..=libc::SEEK_HOLE).contains(&posted.int(2));
            return Err(Errno(if unknown { libc::EINVAL } else { libc::ESPIPE }));
        }
        let words = calls::words_of(posted.arguments);
        match self.objects.body(posted.inode()) {
            Some(Body::Link(_)) => {
                let again = self.tasks.threads.get(&thread).is_some_and(|one| one.held);
                let mut link = PostedLink { tree: self, outside, thread, posted, caller, full: None, again };
                socket_calls::answer(&mut link, number, &words)
            }
            Some(Body::Socket(s)) => {
                let s = *s;
                let mut socket = PostedSocket { tree: self, outside, thread, s, posted, caller };
                socket_calls::answer(&mut socket, number, &words)
            }
            _ if matches!(number, libc::SYS_read | libc::SYS_readv) => self.read_object(thread, posted, caller),
            _ => self.socket_of(posted).and(Err(Errno(libc::ENOTSOCK))),
        }
    }

    /// socket(2)
    pub(super) fn socket(&mut self, asked: &Asked<'_>, call: calls::Socket, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        let thread = asked.thread;
        let wanted = Kind::asked(call)?;
        let Kind { domain, kind, protocol, flags } = wanted;
        let made = match domain {
            libc::AF_INET | libc::AF_INET6 => {
                let made = outside.stack().socket(domain, kind, protocol);
                // inet_create, behind what is wrong with it: "if (sock->type == SOCK_RAW && !kern && !ns_capable(net->user_ns, CAP_NET_RAW)) goto
                // out_rcu_unlock;", which is EPERM.
                if kind == libc::SOCK_RAW
                    && self.real.is_none()
                    && !self.sends_raw(thread)
                    && let Ok(socket) = made
                {
                    outside.stack().close(socket);
                    return Err(Errno(libc::EPERM));
                }
                made
            }
            // packet_create: "if (!ns_capable(net->user_ns, CAP_NET_RAW)) return -EPERM;"
            libc::AF_PACKET if self.real.is_some() || self.sends_raw(thread) => outside.stack().socket(domain, kind, protocol),
            libc::AF_PACKET => return Err(Errno(libc::EPERM)),
            libc::AF_NETLINK => {
                let link = Link::new(kind, protocol, &self.objects.link_ports, outside.stack())?;
                let (nonblocking, close_on_exec) = (flags & libc::SOCK_NONBLOCK != 0, flags & libc::SOCK_CLOEXEC != 0);
                return self.new_object(thread, Body::Link(link), nonblocking, close_on_exec);
            }
            _ => Err(wanted.no_such_family()),
        };
        let socket = made.inspect_err(|errno| {
            self.calls.unsupported(format!("socket(family {domain}, type {}, protocol {protocol})", kind), *errno);
        })?;
        self.hand_socket(thread, socket, flags, outside)
    }

    fn hand_socket(&mut self, thread: ThreadId, socket: SocketId, flags: i32, outside: &mut dyn Outside) -> Result<Outcome, Errno> {
        let (nonblocking, close_on_exec) = (flags & libc::SOCK_NONBLOCK != 0, flags & libc::SOCK_CLOEXEC != 0);
        // What it has made before and asked no descriptor for is nobody's.
        self.drop_made(thread, outside);
        let made = self.new_object(thread, Body::Socket(socket), nonblocking, close_on_exec);
        match made.is_err() {
            true => outside.stack().close(socket),
            false => self.count_traffic(thread),
        }
        made
    }

    /// SIOCGIF* and so on, through whatever it is.
    pub(super) fn interface_ioctl(
        &mut self,
        thread: ThreadId,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        self.about_interfaces(thread, posted.arguments[1] as u32, posted.arguments[2], caller, None, outside).map(|()| Outcome::Done(0))
    }

    /// Answers a request about interfaces, through a socket of the node or another.
    pub(super) fn about_interfaces(
        &mut self,
        thread: ThreadId,
        request: u32,
        pointer: u64,
        caller: &Caller<'_>,
        socket: Option<SocketId>,
        outside: &mut dyn Outside,
    ) -> Result<(), Errno> {
        // In real time whoever runs programs on a stack of his own manages it.
        let manages = self.real.is_some() || self.manages_network(thread);
        let asker = interface::Asker { manages, socket };
        interface::answer(caller, outside.stack(), request, pointer, asker).inspect_err(|errno| {
            // The others are Linux's own.
            if matches!(errno.0, libc::EPERM | libc::EOPNOTSUPP) {
                self.calls.unsupported(format!("ioctl {request:#x}"), *errno);
            }
        })
    }
}

/// A socket of the model, while a posted call on it is answered.
struct PostedSocket<'a> {
    tree: &'a mut Tree,
    outside: &'a mut dyn Outside,
    thread: ThreadId,
    s: SocketId,
    posted: &'a Posted,
    caller: &'a Caller<'a>,
}

impl PostedSocket<'_> {
    /// Has another thread made connect(AF_UNSPEC) while this one waited?
    fn is_dissolved(&self) -> bool {
        self.tree.tasks.threads.get(&self.thread).is_some_and(|one| one.dissolved)
    }
    /// SO_ERROR, which is told once.
    fn take_error(&mut self) -> Option<Errno> {
        let told = self.outside.stack().get_option(self.s, libc::SOL_SOCKET, libc::SO_ERROR, 4).ok()?;
        let errno = i32::from_ne_bytes(told.get(..4)?.try_into().ok()?);
        (errno != 0).then_some(Errno(errno))
    }
    fn expired(&self) -> bool {
        self.tree.tasks.threads.get(&self.thread).is_some_and(|one| one.expired)
    }
}

impl Carrier for PostedSocket<'_> {
    type Outcome = Outcome;

    fn memory(&self) -> &impl Memory {
        self.caller
    }
    fn told(&self, value: i64) -> Outcome {
        Outcome::Done(value)
    }
    fn done(&self, value: i64) -> Outcome {
        Outcome::Done(value)
    }
    fn wait(&mut self, limit: Limit, flags: i32, otherwise: i32) -> Result<Outcome, Errno> {
        let at_once = self.posted.nonblocking() || flags & libc::MSG_DONTWAIT != 0;
        if at_once || self.expired() {
            return Err(Errno(otherwise));
        }
        // The limit is that of the call's beginning: sock_rcvtimeo, sock_sndtimeo.
        let deadline = if self.has_waited() {
            self.tree.tasks.threads.get(&self.thread).and_then(|one| one.deadline)
        } else {
            let (receive, send) = self.outside.stack().timeouts(self.s);
            match if limit == Limit::Send { send } else { receive } {
                Some(time) if time.is_zero() => return Err(Errno(otherwise)),
                time => time.map(|time| self.tree.after(time)),
            }
        };
        let sent = self.tree.tasks.sent(self.thread, self.posted.number);
        let interrupted = match deadline {
            _ if sent > 0 => sent,
            // sock_intr_errno: "timeo == MAX_SCHEDULE_TIMEOUT ? -ERESTARTSYS : -EINTR".
            None => weft_loader::abi::RESTART,
            Some(_) => -i64::from(libc::EINTR),
        };
        Ok(Outcome::Wait(Wait { sockets: vec![self.s], deadline, interrupted, ..Wait::default() }))
    }
    fn has_waited(&self) -> bool {
        self.tree.tasks.threads.get(&self.thread).is_some_and(|one| one.held)
    }

    fn bind(&mut self, address: &[u8]) -> Result<(), Errno> {
        self.outside.stack().bind(self.s, address)
    }
    fn listen(&mut self, backlog: i32) -> Result<(), Errno> {
        self.outside.stack().listen(self.s, backlog)
    }
    fn shutdown(&mut self, how: i32) -> Result<(), Errno> {
        self.outside.stack().shutdown(self.s, how)
    }
    fn local_address(&mut self) -> Result<Vec<u8>, Errno> {
        self.outside.stack().local_address(self.s)
    }
    fn peer_address(&mut self) -> Result<Vec<u8>, Errno> {
        self.outside.stack().peer_address(self.s)
    }
    fn connect(&mut self, address: &[u8]) -> Result<(), Errno> {
        if address.starts_with(&(libc::AF_UNSPEC as u16).to_ne_bytes()) {
            self.tree.tasks.dissolved(self.s);
        }
        if self.has_waited() {
            // __inet_stream_connect, behind inet_wait_for_connect: "if (dis != sk->sk_disconnects) { err = -EPIPE; goto out; }"
            if self.is_dissolved() {
                return Err(Errno(libc::EPIPE));
            }
            // "Connection was closed by RST, timeout, ICMP error or another process disconnected us."
            if matches!(self.outside.stack().state(self.s), Some(SocketState::Fresh | SocketState::Bound)) {
                return Err(self.take_error().unwrap_or(Errno(libc::ECONNABORTED)));
            }
        }
        self.outside.stack().connect(self.s, address)
    }

    fn accept(&mut self) -> Result<SocketId, Errno> {
        self.outside.stack().accept(self.s)
    }
    fn accepted_address(&mut self, child: SocketId) -> Result<Vec<u8>, Errno> {
        self.outside.stack().accepted_address(child)
    }
    fn give_up(&mut self, child: SocketId) {
        self.outside.stack().close(child);
    }
    fn hand_over(&mut self, child: SocketId, flags: i32) -> Result<Outcome, Errno> {
        self.tree.hand_socket(self.thread, child, flags, self.outside)
    }

    fn get_option(&mut self, level: i32, name: i32, asked: &[u8], length: i32) -> Result<Option<Vec<u8>>, Errno> {
        self.outside.stack().get_option_asked(self.s, level, name, asked, length).map(Some)
    }
    fn option_bytes(&mut self, level: i32, name: i32, length: usize) -> usize {
        self.outside.stack().option_bytes(self.s, level, name, length)
    }
    fn set_option(&mut self, level: i32, name: i32, value: &[u8]) -> Result<bool, Errno> {
        self.outside.stack().set_option(self.s, level, name, value)?;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_REUSEPORT)
            && let Some(user) = self.tree.file_user(self.thread)
        {
            self.outside.stack().set_owner(self.s, user);
        }
        // A close that waits has both words of `struct linger`.
        let is_word = |at: usize| value.get(at..at + 4).is_some_and(|word| word != [0; 4]);
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) && is_word(0) && is_word(4) {
            self.tree.arena.header().lingers.store(1, Relaxed);
        }
        Ok(true)
    }
    fn ioctl(&mut self, request: u32) -> Result<Option<Vec<u8>>, Errno> {
        let mut value = self.outside.stack().ioctl(self.s, u64::from(request), &[]);
        if let (Ok(time), Some(unit), true) = (&mut value, unit_of_stamp(request), self.tree.has_dates_of_its_own()) {
            self.tree.date_time(time, unit);
        }
        value.map(Some).inspect_err(|errno| {
            if errno.0 == libc::ENOTTY {
                self.tree.calls.unsupported(format!("ioctl {request:#x}"), *errno);
            }
        })
    }
    fn about_interfaces(&mut self, request: u32, pointer: u64) -> Result<(), Errno> {
        self.tree.about_interfaces(self.thread, request, pointer, self.caller, Some(self.s), self.outside)
    }

    fn send(&mut self, message: &Message, name: Option<&[u8]>, control: &[u8], flags: i32) -> Result<usize, Errno> {
        // A blocking caller that waited for a connection which this call began sends what it has now.
        let flags = if self.has_waited() { flags & !libc::MSG_FASTOPEN } else { flags } & !(MSG_NOT_LAST | MSG_UNREADABLE | MSG_WAITS);
        let waits = if self.posted.nonblocking() || flags & libc::MSG_DONTWAIT != 0 { 0 } else { MSG_WAITS };
        let sends_all = self.sends_all(flags);
        let goes_on = self.moved_before() > 0 && self.is_stream();
        let stack = self.outside.stack();
        // tcp_sendmsg_locked: "do_error: … if (copied) goto out;": the error is the next call's.
        if let (true, Some(errno)) = (goes_on, stack.pending_error(self.s)) {
            return Err(errno);
        }
        let stream_room = stack.is_stream(self.s).then(|| match stack.send_room(self.s) {
            // What a SYN carries is decided when it is made.
            _ if flags & libc::MSG_FASTOPEN != 0 => STREAM_BYTES_MAX,
            room if message.total <= room as u64 => room.max(1),
            _ => stack.write_room(self.s).clamp(1, STREAM_BYTES_MAX),
        });
        let (data, readable) = socket_calls::data::gather(self.caller, message, stream_room)?;
        let flags = flags | readable;
        let flags = if stream_room.is_some() && (data.len() as u64) < message.total {
            socket_calls::data::flags_of_piece(flags, sends_all)
        } else {
            flags
        };
        let sent = stack.send(self.s, data, flags | libc::MSG_DONTWAIT | waits, name, control)?;
        self.tree.count_sent(self.thread, sent);
        Ok(sent)
    }
    fn take(&mut self, bytes: u64, flags: i32) -> Result<Taken, Errno> {
        if self.has_waited() && self.is_stream() {
            // tcp_recvmsg_locked: "err = sk_wait_data(sk, &timeo, last); if (err < 0) { err = copied ? : err; goto out; }", which is EPIPE there.
            if self.is_dissolved() {
                return Err(Errno(libc::EPIPE));
            }
            // tcp_data_ready wakes nobody below SO_RCVLOWAT, whatever the call began with.
            let shown = self.outside.stack().readiness(self.s);
            if shown.0 & (Poll::IN.0 | Poll::RDHUP.0 | Poll::HUP.0 | Poll::ERR.0) == 0 {
                return Err(Errno(libc::EAGAIN));
            }
        }
        let mut taken = socket_calls::data::take(self.outside.stack(), self.s, bytes, STREAM_BYTES_MAX, flags);
        if let (Ok(taken), true) = (&mut taken, self.tree.has_dates_of_its_own()) {
            self.tree.date_control(&mut taken.control);
        }
        let waits = flags & (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE) == 0 && !self.posted.nonblocking();
        if matches!(taken, Err(Errno(libc::EAGAIN))) && waits && !self.is_stream() {
            // __skb_wait_for_more_packets: "Socket shut down? if (sk->sk_shutdown & RCV_SHUTDOWN) goto out_noerr;"
            let shut = self.outside.stack().readiness(self.s).contains(Poll::RDHUP);
            return if shut { Ok(Taken::default()) } else { taken };
        }
        taken
    }
    fn is_stream(&mut self) -> bool {
        self.outside.stack().is_stream(self.s)
    }
    fn sends_all(&mut self, flags: i32) -> bool {
        !self.posted.nonblocking() && flags & libc::MSG_DONTWAIT == 0 && self.is_stream()
    }
    fn moved_before(&self) -> u64 {
        self.tree.tasks.threads.get(&self.thread).map_or(0, |one| one.moved)
    }
    fn has_moved(&mut self, bytes: u64) {
        if let Some(one) = self.tree.tasks.threads.get_mut(&self.thread) {
            one.moved = bytes;
        }
    }
    fn receives_at_least(&mut self, room: u64, flags: i32) -> u64 {
        const NOT: i32 = libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_ERRQUEUE | libc::MSG_OOB;
        if self.posted.nonblocking() || flags & NOT != 0 {
            return 0;
        }
        match self.outside.stack().receive_low_water(self.s) {
            low_water @ 1.. if flags & libc::MSG_WAITALL == 0 => low_water.min(room),
            1.. => room,
            0 => 0,
        }
    }
    fn ends_here(&mut self) -> bool {
        const SIOCATMARK: u64 = 0x8905;
        let stack = self.outside.stack();
        let at_mark = stack.ioctl(self.s, SIOCATMARK, &[]).is_ok_and(|mark| mark.iter().any(|byte| *byte != 0));
        let over = stack.readiness(self.s).0 & (Poll::RDHUP.0 | Poll::HUP.0 | Poll::ERR.0) != 0;
        at_mark || over && stack.receive_ready(self.s) == 0
    }
    fn has_received(&mut self, taken: &Taken, flags: i32) {
        self.tree.count_received(self.thread, taken, flags);
    }
    fn broken_pipe(&mut self) {
        self.tree.signal_thread(self.thread, libc::SIGPIPE, pending::info_from_kernel(libc::SIGPIPE));
    }

    fn waits_between(&self) -> bool {
        true
    }
    fn waited(&self) -> Duration {
        self.tree.waited(self.thread)
    }
    fn messages_done(&self) -> u64 {
        self.tree.tasks.messages_done(self.thread)
    }
    fn message_is_done(&mut self, index: u64) -> Result<(), Result<i64, Errno>> {
        self.tree.tasks.message_is_done(self.thread, index);
        Ok(())
    }
    fn error_waits(&mut self) -> bool {
        // A stream tells what is there first, and its error with the next call.
        !self.is_stream() && self.outside.stack().pending_error(self.s).is_some()
    }

    fn unsupported(&mut self, request: String, errno: Errno) {
        // Options that have a name here are missed. Others are probed for, by programs that do without.
        let told = request.starts_with("setsockopt ") && !request.contains(" level ");
        if self.tree.calls.unsupported(request.clone(), errno) && told {
            tracing::warn!(node = %self.tree.config.name, "a program asked for {request}, which is not supported: {errno:?}");
        }
    }
}

/// What the second word of the time counts in, in nanoseconds, that a request for it is answered with: SIOCGSTAMP and SIOCGSTAMPNS, old and new.
fn unit_of_stamp(request: u32) -> Option<u64> {
    match request {
        0x8906 | 0x8010_8906 => Some(1000),
        0x8907 | 0x8010_8907 => Some(1),
        _ => None,
    }
}

impl Tree {
    /// The user whose files a thread makes (`current_fsuid()`): whoever makes a socket owns it.
    fn file_user(&self, thread: ThreadId) -> Option<u32> {
        const FILE: usize = 3;
        let process = self.tasks.process_of(thread).ok()?;
        match &self.real {
            Some(_) => sys::file_user_of(self.tasks.processes.get(&process)?.outer),
            None => Some(self.arena.process(process).users[FILE].load(Relaxed)),
        }
    }
}
