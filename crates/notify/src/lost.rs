//! What programs see when the node's sockets are taken from under them, or weft ends.

use crate::caretaker::{answers, programs};
use crate::reactor::Reactor;
use crate::standin::Body;
use crate::standin::stream::Phase;
use crate::supervisor::{Supervisor, Turn};
use crate::sys;
use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use weft_intercept::face::Stack;

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
                    Phase::Listening { name, tokens: 0, .. } => {
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

    /// weft ends by its own will: every program learns that its sockets are gone, in the words of [`crate::caretaker`], which answers those that go on.
    /// Without a caretaker they find no supervisor (ENOSYS).
    pub fn end(&mut self) {
        let wanted: HashSet<u64> = self.by_inode.keys().copied().collect();
        if !wanted.is_empty() {
            programs::each_end(|inode| wanted.contains(&inode), |_, end| programs::lose(end));
        }
        self.refuse_all_parked();
        for (_, one) in std::mem::take(&mut self.stand_ins) {
            one.ours.into_iter().for_each(programs::part);
        }
        for held in self.held.take_all() {
            if let Some(listener) = self.trees.get(held.call.tree) {
                let _ = listener.refuse(held.call.id, held.at_end);
            }
        }
        for (_, listener) in &self.trees {
            match &self.held.ledger {
                // The caretaker's from now on, which has the same table of descriptors.
                Some(ledger) if sys::poll_now(listener.as_fd(), 0) & libc::POLLHUP == 0 => {
                    std::mem::forget(Arc::clone(listener));
                    ledger.end();
                }
                Some(_) => {}
                None => answers::those_that_wait(listener),
            }
        }
        self.trees.clear();
        self.by_inode.clear();
    }
}
