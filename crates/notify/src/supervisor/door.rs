//! Where fresh stand-ins are connected to us: a listening unix socket with an abstract name in our network namespace.
//!
//! Anybody there can connect to it, too, of whatever user. Nobody else's connection counts, and none may hold the supervisor up: a queue in which somebody
//! else's lies is left for one with another name, and no connect waits for room in one.

use crate::sys::{self, Errno};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Connections that wait at a door: one of ours, and those of strangers.
const QUEUE: i32 = 64;

/// The door.
#[derive(Debug)]
pub(super) struct Door {
    socket: OwnedFd,
    name: Vec<u8>,
}

impl Door {
    /// A door with a name that nobody knows yet.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn new() -> Result<Door, Errno> {
        let socket = sys::unix_socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        let name = sys::autobind(socket.as_fd())?;
        sys::listen(socket.as_fd(), QUEUE)?;
        Ok(Door { socket, name })
    }

    /// Connects a program's end to us; returns ours.
    ///
    /// # Errors
    /// When there is no descriptor left, before anything has begun.
    pub fn pass(&mut self, theirs: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        // What others left in the queue would be taken for ours; and without room for a descriptor nothing has begun yet.
        match sys::accept(self.socket.as_fd()) {
            Err(Errno(libc::EAGAIN)) => {}
            Err(errno) => return Err(errno),
            Ok(stranger) => {
                drop(stranger);
                *self = Door::new()?;
            }
        }
        if let Err(errno) = connect_at_once(theirs, &self.name) {
            if errno != Errno(libc::EAGAIN) {
                return Err(errno);
            }
            *self = Door::new()?;
            connect_at_once(theirs, &self.name)?;
        }
        loop {
            // At most as many as the queue has: ours is there.
            let ours = sys::accept(self.socket.as_fd())?;
            if sys::peer_process(ours.as_fd()) == i32::try_from(std::process::id()).ok() {
                return Ok(ours);
            }
        }
    }
}

/// connect(2), on a socket that may be a blocking one, which waits for room in the other's queue for a clock tick at most.
fn connect_at_once(end: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    const SHORTEST: [[u8; 8]; 2] = [0_i64.to_ne_bytes(), 1_i64.to_ne_bytes()];
    let (before, bytes) = sys::get_option(end, libc::SOL_SOCKET, libc::SO_SNDTIMEO)?;
    sys::set_option(end, libc::SOL_SOCKET, libc::SO_SNDTIMEO, SHORTEST.as_flattened())?;
    let connected = sys::connect(end, name);
    let _ = sys::set_option(end, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &before[..bytes.min(before.len())]);
    connected
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::{Duration, Instant};

    fn blocking() -> OwnedFd {
        sys::unix_socket(libc::SOCK_STREAM).unwrap()
    }

    #[test]
    fn who_floods_the_door_holds_nobody_up() {
        let mut door = Door::new().unwrap();
        let (name, stop) = (door.name.clone(), Arc::new(AtomicBool::new(false)));
        let flood = |_| {
            let (name, stop) = (name.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Relaxed) {
                    let stranger = sys::unix_socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK).unwrap();
                    let _ = sys::connect(stranger.as_fd(), &name);
                }
            })
        };
        let strangers: Vec<_> = (0..4).map(flood).collect();
        while sys::poll_now(door.socket.as_fd(), libc::POLLIN) == 0 {
            std::thread::yield_now();
        }
        let theirs = blocking();
        let ours = door.pass(theirs.as_fd()).unwrap();
        stop.store(true, Relaxed);
        sys::send_vectors(theirs.as_fd(), &[b"x"], 0).unwrap();
        assert_eq!(sys::readable_bytes(ours.as_fd()), 1);
        assert_ne!(door.name, name, "they know the old name");
        strangers.into_iter().for_each(|one| one.join().unwrap());
    }

    #[test]
    fn a_queue_without_room_is_not_waited_for() {
        let door = Door::new().unwrap();
        let knock = |_: &i32| sys::connect(sys::unix_socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK).unwrap().as_fd(), &door.name).is_ok();
        assert_eq!((0..2 * QUEUE).filter(knock).count(), QUEUE as usize + 1);
        let theirs = blocking();
        let limit = [[3_i64.to_ne_bytes(), 0_i64.to_ne_bytes()]].concat().concat();
        sys::set_option(theirs.as_fd(), libc::SOL_SOCKET, libc::SO_SNDTIMEO, &limit).unwrap();
        let began = Instant::now();
        assert_eq!(connect_at_once(theirs.as_fd(), &door.name), Err(Errno(libc::EAGAIN)));
        assert!(began.elapsed() < Duration::from_secs(2));
        assert_eq!(sys::timeout_option(theirs.as_fd(), libc::SO_SNDTIMEO), Some(Duration::from_secs(3)));
    }
}
