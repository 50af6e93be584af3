//! What programs are shown of their sockets, so that they can answer calls by themselves.

use super::arena::Arena;
use std::sync::atomic::Ordering::Relaxed;
use weft_core::Instant;
use weft_intercept::face::{SocketId, Stack};
use weft_loader::abi::{self, ADDRESS_BYTES, MIRROR_BYTES, MIRROR_MESSAGES, MIRRORS, Mirror};

/// Bytes of a stream that a mirror shows, at most: whoever reads larger pieces comes with one trip for more.
const STREAM_BYTES_SHOWN: usize = 4096;

/// A socket with a mirror.
#[derive(Debug)]
pub(super) struct Shown {
    pub inode: u64,
    pub socket: SocketId,
    /// Not as its mirror shows it.
    pub stale: bool,
    /// Longest datagram that was taken.
    pub longest: usize,
    /// A `sockaddr` to which a datagram was taken, and which is not this node's own.
    pub peer: Vec<u8>,
    /// The same of the peer that it is connected to, to which it sends, or from which it receives.
    pub elsewhere: bool,
    /// Whoever read it last had to wait: it is worth while to tell what is still to come.
    pub awaited: bool,
}

/// The sockets with mirrors.
#[derive(Debug, Default)]
pub(super) struct Shows {
    pub slots: [Option<Shown>; MIRRORS],
    /// Who gives way next.
    pub next: usize,
    /// The trace when the call that is made good was made.
    pub trace: Option<u64>,
    /// Where the poll set of the call that is made good lies in the log of its channel.
    pub entries: Option<usize>,
    /// Calls that were made good.
    pub calls: u64,
    /// As in the header, for the thread that runs: see [`abi::Header`].
    pub quiet: Instant,
    pub arrival: Instant,
    pub far: Instant,
    /// So far it may go by itself in any way.
    pub limit: Instant,
}

impl Shows {
    pub fn of(&mut self, inode: u64) -> Option<&mut Shown> {
        self.slots.iter_mut().flatten().find(|shown| shown.inode == inode)
    }
    /// The socket is not what it was.
    pub fn changed(&mut self, socket: SocketId) {
        self.slots.iter_mut().flatten().filter(|shown| shown.socket == socket).for_each(|shown| shown.stale = true);
    }
    /// The node is not what it was: who is elsewhere has to be asked anew.
    pub fn disturbed(&mut self) {
        for shown in self.slots.iter_mut().flatten() {
            (shown.stale, shown.longest, shown.elsewhere) = (true, 0, false);
            shown.peer.clear();
        }
    }
    /// The object is gone.
    pub fn forget(&mut self, inode: u64, arena: &Arena) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|shown| shown.inode == inode) {
                *slot = None;
                arena.header().mirrors[index].store(0, Relaxed);
            }
        }
    }
}

/// Appends to a mirror what will come to its stream. False: there is no room.
pub(super) fn put_coming(mirror: &Mirror, at: Instant, pieces: &mut dyn Iterator<Item = &[u8]>) -> bool {
    let index = mirror.coming_count.load(Relaxed) as usize;
    let Some(told) = mirror.coming.get(index) else { return false };
    let from =
        mirror.count.load(Relaxed) as usize + mirror.coming[..index].iter().map(|piece| piece.bytes.load(Relaxed) as usize).sum::<usize>();
    let mut bytes = 0;
    for piece in pieces {
        let put = mirror.data.put(from + bytes, piece);
        bytes += put;
        if put < piece.len() {
            return false;
        }
    }
    told.at.store(at.as_nanos(), Relaxed);
    told.bytes.store(bytes as u32, Relaxed);
    mirror.coming_count.store(index as u32 + 1, Relaxed);
    true
}

/// Writes into a mirror what its socket shows.
pub(super) fn publish(mirror: &Mirror, shown: &Shown, stack: &mut dyn Stack) {
    for word in [&mirror.flags, &mirror.count, &mirror.taken, &mirror.sends, &mirror.peer_bytes, &mirror.coming_count, &mirror.come] {
        word.store(0, Relaxed);
    }
    mirror.sent.store(0, Relaxed);
    stack.preview(shown.socket, &mut |preview| {
        let Some(preview) = preview else { return };
        let connected = preview.connected && shown.elsewhere;
        let mut flags = abi::MIRROR_SHOWS;
        let mut set = |is: bool, flag: u32| flags |= if is { flag } else { 0 };
        set(preview.stream, abi::MIRROR_STREAM);
        set(connected, abi::MIRROR_CONNECTED);
        set(preview.sends && (connected || !shown.peer.is_empty()), abi::MIRROR_SEND);
        // Reading opens the window of a peer: one on this node may send more, or its end, at once.
        if preview.receives && (!preview.stream || shown.elsewhere) {
            set(true, abi::MIRROR_RECEIVE);
            let whole = if preview.stream { put_bytes(mirror, &preview) } else { put_messages(mirror, &preview) };
            set(whole, abi::MIRROR_WHOLE);
        }
        mirror.readiness.store(preview.readiness.0, Relaxed);
        mirror.room.store(preview.room as u64, Relaxed);
        mirror.longest.store(shown.longest as u64, Relaxed);
        mirror.peer.put(0, &shown.peer);
        mirror.peer_bytes.store(shown.peer.len() as u32, Relaxed);
        mirror.flags.store(flags, Relaxed);
    });
}

/// The first bytes of a stream that nobody has read. True: those are all.
fn put_bytes(mirror: &Mirror, preview: &weft_socket::Preview<'_>) -> bool {
    let mut at = 0;
    for piece in preview.waiting.pieces() {
        let part = &piece[..piece.len().min(STREAM_BYTES_SHOWN - at)];
        at += mirror.data.put(at, part);
        if part.len() < piece.len() {
            mirror.count.store(at as u32, Relaxed);
            return false;
        }
    }
    mirror.count.store(at as u32, Relaxed);
    true
}

/// The datagrams that were received, as many as there is room for. True: those are all.
fn put_messages(mirror: &Mirror, preview: &weft_socket::Preview<'_>) -> bool {
    let (mut at, mut count) = (0, 0);
    for (from, data, bytes) in preview.waiting.iter() {
        let end = at + ADDRESS_BYTES + bytes.next_multiple_of(8);
        if count == MIRROR_MESSAGES || end > MIRROR_BYTES || from.len() > ADDRESS_BYTES {
            mirror.count.store(count as u32, Relaxed);
            return false;
        }
        mirror.data.put(at, &from);
        let mut into = at + ADDRESS_BYTES;
        for piece in data {
            into += mirror.data.put(into, piece);
        }
        let piece = &mirror.messages[count];
        piece.at.store(at as u32, Relaxed);
        piece.bytes.store(bytes as u32, Relaxed);
        piece.from_bytes.store(from.len() as u32, Relaxed);
        (at, count) = (end, count + 1);
    }
    mirror.count.store(count as u32, Relaxed);
    true
}
