//! The calls of [`Kernel`], with pauses, and plain: for a host whose stack runs beside the program.
//!
//! On Linux, what one end of a loopback connection does has reached the other when the call returns. Through weft's notify adapter it is on
//! its way: data calls run natively on a stand-in, and the stack takes them up a moment later. A transcript compares what happens, not when,
//! so this host waits after every step that moves something, on both sides of the comparison alike.
//!
//! Plain, with pauses or without: data goes by send(2) and recv(2) where a step needs no more. The adapter leaves these to the stand-in, and answers sendmsg(2) and
//! recvmsg(2) itself, so most programs live with the former.
//!
//! A pause is not only time: it makes calls that the adapter has to answer, so that however loaded the machine is, the adapter had its turn.

use crate::kernel::Kernel;
use crate::language::{Done, Got, Host};
use std::time::Duration;
use weft_socket::{Poll, abi};

/// Turns that the adapter gets after a step, and in a `settle`.
const STEP_TURNS: u32 = 3;
const SETTLE_TURNS: u32 = 6;
/// Between two turns.
const TURN: Duration = Duration::from_millis(2);
/// An error of a datagram socket is shown to a program that waits for it (docs/compatibility.md, `datagram-error-read`): so long it may take the stack to
/// get a processor beside others.
const ERROR_SHOWN: Duration = Duration::from_millis(100);
/// The last close of a listener is noticed within 200 ms (docs/compatibility.md), once the stack gets a processor.
const LISTENER_CLOSED: Duration = Duration::from_millis(1000);

/// See the file's text.
#[derive(Default)]
pub struct Patient {
    kernel: Kernel,
    /// With pauses. Without them it is plain and no more.
    pauses: bool,
    /// send(2) and recv(2) instead of sendmsg(2) and recvmsg(2).
    plain: bool,
    /// A socket of its own, to make calls on.
    probe: Option<usize>,
    /// A listener was closed, and nothing has been done since.
    listener_closed: bool,
}

impl Patient {
    /// With pauses or not, plain or not.
    pub fn new(pauses: bool, plain: bool) -> Patient {
        Patient { pauses, plain, ..Patient::default() }
    }

    fn turns(&mut self, turns: u32) {
        if !self.pauses {
            return;
        }
        if self.probe.is_none() {
            self.probe = self.kernel.socket(2, 2, 0).ok();
        }
        for _ in 0..turns {
            if let Some(probe) = self.probe {
                let _ = self.kernel.get(probe, abi::SOL_SOCKET, abi::SO_TYPE, 4);
            }
            std::thread::sleep(TURN);
        }
    }

    /// The kernel, at a time when what was closed is closed.
    fn now(&mut self) -> &mut Kernel {
        if std::mem::take(&mut self.listener_closed) {
            std::thread::sleep(LISTENER_CLOSED);
            self.turns(STEP_TURNS);
        }
        &mut self.kernel
    }

    /// Is it a socket that has its errors queued?
    fn wants_errors(&mut self, s: usize) -> bool {
        let options = [(abi::SOL_IP, abi::IP_RECVERR), (abi::SOL_IPV6, abi::IPV6_RECVERR)];
        options.iter().any(|(level, name)| self.kernel.get(s, *level, *name, 4).is_ok_and(|value| value == 1i32.to_ne_bytes()))
    }

    /// The result of a step that has moved something.
    fn after<T>(&mut self, result: T) -> T {
        self.turns(STEP_TURNS);
        result
    }
}

impl Host for Patient {
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Done<usize> {
        self.now().socket(domain, kind, protocol)
    }
    fn bind(&mut self, s: usize, address: &[u8]) -> Done<()> {
        self.now().bind(s, address)
    }
    fn connect(&mut self, s: usize, address: &[u8]) -> Done<()> {
        let result = self.now().connect(s, address);
        self.after(result)
    }
    fn listen(&mut self, s: usize, backlog: i32) -> Done<()> {
        let result = self.now().listen(s, backlog);
        self.after(result)
    }
    fn accept(&mut self, s: usize) -> Done<(usize, Vec<u8>)> {
        let result = self.now().accept(s);
        self.after(result)
    }
    fn shutdown(&mut self, s: usize, how: i32) -> Done<()> {
        let result = self.now().shutdown(s, how);
        self.after(result)
    }
    fn local(&mut self, s: usize) -> Done<Vec<u8>> {
        self.now().local(s)
    }
    fn peer(&mut self, s: usize) -> Done<Vec<u8>> {
        self.now().peer(s)
    }
    fn get(&mut self, s: usize, level: i32, name: i32, length: usize) -> Done<Vec<u8>> {
        self.now().get(s, level, name, length)
    }
    fn set(&mut self, s: usize, level: i32, name: i32, value: &[u8]) -> Done<()> {
        let result = self.now().set(s, level, name, value);
        self.after(result)
    }
    fn send(&mut self, s: usize, data: &[u8], flags: i32, to: Option<&[u8]>, control: &[u8]) -> Done<usize> {
        let plain = self.plain && to.is_none() && control.is_empty();
        let kernel = self.now();
        let result = if plain { kernel.send_plain(s, data, flags) } else { kernel.send(s, data, flags, to, control) };
        self.after(result)
    }
    fn receive(&mut self, s: usize, length: usize, flags: i32) -> Done<Got> {
        let result = self.now().receive(s, length, flags);
        self.after(result)
    }
    fn receive_data(&mut self, s: usize, length: usize, flags: i32) -> Done<Got> {
        if !self.plain {
            return self.receive(s, length, flags);
        }
        let result = self.now().receive_plain(s, length, flags);
        self.after(result)
    }
    fn ioctl(&mut self, s: usize, request: u64) -> Done<i32> {
        self.now().ioctl(s, request)
    }
    fn poll(&mut self, s: usize) -> Poll {
        self.turns(STEP_TURNS);
        if self.pauses && self.wants_errors(s) {
            self.now().poll_for(s, 0, ERROR_SHOWN);
        }
        self.now().poll(s)
    }
    fn close(&mut self, s: usize) {
        let listening =
            self.pauses && self.kernel.get(s, abi::SOL_SOCKET, abi::SO_ACCEPTCONN, 4).is_ok_and(|value| value == 1i32.to_ne_bytes());
        self.kernel.close(s);
        self.listener_closed |= listening;
        self.turns(STEP_TURNS);
    }
    fn settle(&mut self) {
        if !self.pauses {
            return self.kernel.settle();
        }
        self.now();
        self.turns(SETTLE_TURNS);
    }
}
