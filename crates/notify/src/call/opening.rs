//! Connections that begin: with connect(2), or with the first data (MSG_FASTOPEN).

use crate::supervisor::{Supervisor, Turn};
use crate::sys::Errno;
use weft_intercept::face::{SocketId, SocketState};

/// The model has begun to connect: from now on the stand-in carries data.
pub(super) fn open_for_data(s: &mut Supervisor, turn: &mut Turn<'_>, key: usize, socket: SocketId) -> Result<(), Errno> {
    if !s.is_fresh(key) || !is_opening(turn, socket) {
        return Ok(());
    }
    if let Err(errno) = s.open_door(key, turn) {
        s.calls.out_of_descriptors += 1;
        // Without a door no data could flow: take the attempt back (connect to AF_UNSPEC) and say that the system is full.
        let _ = turn.stack.connect(socket, &[0; 16]);
        return Err(if errno.0 == libc::EMFILE { Errno(libc::ENFILE) } else { errno });
    }
    s.pump(key, false, turn);
    Ok(())
}

pub(super) fn is_opening(turn: &mut Turn<'_>, socket: SocketId) -> bool {
    matches!(
        turn.stack.state(socket),
        Some(SocketState::Connecting | SocketState::Connected | SocketState::PeerClosed | SocketState::Failed)
    )
}
