//! Stand-ins that listen: their tokens, and connections that no program got.

use super::state::Supervisor;
use super::turn::Turn;
use crate::standin::Body;
use crate::standin::stream::{Phase, Stream};
use crate::sys::{self, Errno};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use weft_intercept::face::{Poll, SocketId};

impl Supervisor {
    /// Makes a listening stand-in readable exactly while the model has a connection to accept, and tells of each that comes, as Linux wakes (EPOLLET).
    /// Taking tokens out needs the program's end, which is at hand in accept(2), where it becomes necessary.
    pub(crate) fn update_token(&mut self, key: usize, end: Option<BorrowedFd<'_>>, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        let Body::Stream(stream) = &mut one.body else { return };
        let Phase::Listening { name, tokens, returned } = &mut stream.phase else { return };
        let waiting = !returned.is_empty() || turn.stack.readiness(stream.socket).contains(Poll::IN);
        let came = turn.stack.take_wakes(stream.socket).contains(Poll::IN);
        if let Some(end) = end {
            // One stays while something waits.
            while (!waiting || *tokens > 1) && sys::poll_now(end, libc::POLLIN) & libc::POLLIN != 0 && sys::accept(end).is_ok() {
                *tokens = tokens.saturating_sub(1);
            }
            if !waiting {
                *tokens = 0;
            }
        }
        if waiting && (*tokens == 0 || came) {
            let knock = sys::unix_socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK).and_then(|knock| sys::connect(knock.as_fd(), name));
            match knock {
                // The token stays in the queue though its maker is closed.
                Ok(()) => *tokens += 1,
                // There are as many as the queue holds: nobody has taken one since.
                Err(Errno(libc::EAGAIN)) if *tokens > 0 => {}
                // It is gone, or was shut down.
                Err(Errno(libc::ECONNREFUSED)) => self.look_for_closed(turn),
                Err(_) => self.calls.out_of_descriptors += 1,
            }
        }
    }

    /// Puts a connection that no program got back into the queue, if there is still one.
    pub(crate) fn give_back(&mut self, listener: usize, child: SocketId, turn: &mut Turn<'_>) {
        match self.returned(listener) {
            Some(returned) => returned.push_front(child),
            None => turn.stack.close(child),
        }
        self.update_token(listener, None, turn);
    }

    /// Takes one that was put back.
    pub(crate) fn take_returned(&mut self, listener: usize) -> Option<SocketId> {
        self.returned(listener)?.pop_front()
    }

    fn returned(&mut self, listener: usize) -> Option<&mut VecDeque<SocketId>> {
        match &mut self.stand_ins.get_mut(listener)?.body {
            Body::Stream(Stream { phase: Phase::Listening { returned, .. }, .. }) => Some(returned),
            _ => None,
        }
    }
}
