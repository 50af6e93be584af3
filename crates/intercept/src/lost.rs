//! What programs see when the node's sockets are taken from under them.

use crate::face::Stack;
use crate::reactor::Reactor;
use crate::standin::Body;
use crate::standin::stream::Phase;
use crate::supervisor::{Supervisor, Turn};
use crate::sys;
use std::os::fd::AsFd;

impl Supervisor {
    /// The node has other sockets than before, or none: whoever held one of the old ones learns that it is gone.
    pub fn sockets_lost(&mut self, stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        let turn = &mut Turn { stack, reactor };
        let keys: Vec<usize> = self.stand_ins.iter().filter(|(_, one)| one.socket().is_some()).map(|(key, _)| key).collect();
        for key in keys {
            match self.stand_ins.get(key).map(|one| &one.body) {
                Some(Body::Stream(stream)) => match &stream.phase {
                    Phase::Connecting { .. } | Phase::Connected => self.reset(key, turn),
                    // Wakes who waits for a connection, so that the call comes and is refused.
                    Phase::Listening { name, token: false, .. } => {
                        let _ =
                            sys::unix_socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK).and_then(|knock| sys::connect(knock.as_fd(), name));
                        self.die(key, turn);
                    }
                    _ => self.die(key, turn),
                },
                _ => self.die(key, turn),
            }
            self.retry(key, turn);
        }
        self.arm();
    }
}
