//! What a debugger sees of the world (`tools/gdb/weft.py`): which node runs, what time it is, and what the nodes hold, without any knowledge of types.
//!
//! All of it is memory with a fixed layout at two statics, [`LANES`] and [`NODES`]. A debugger reads it and calls nothing: calls change the program that is looked at, and
//! need more of the processor's state than some debuggers know (gdb 13 and AMX). Every lane (thread) has a [`Lane`], which its machines fill in before each event.
//! Every node has a [`Row`], whose sockets are listed as text before each event, and only while somebody traces the process: what they were then is whole,
//! wherever the debugger stops.
//!
//! Rejected: names without mangling (`no_mangle` is unsafe, which this crate forbids); debuggers find `weft_sim::debug::LANES` by its last names.

use indexmap::IndexMap;
use std::fmt::Write as _;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use weft_core::Instant;

/// Threads that are told apart: "weft-lane-N" fills in `LANES[N]`.
const LANES_MAX: usize = 64;
/// Sockets of a node that are listed; of more there is only the number.
const SOCKETS_MAX: usize = 1024;

/// A text in memory. The debugger knows this layout, and those that follow.
#[repr(C)]
#[derive(Debug)]
struct Text {
    /// UTF-8.
    at: AtomicPtr<u8>,
    bytes: AtomicUsize,
}

impl Text {
    const fn new() -> Text {
        Text { at: AtomicPtr::new(ptr::null_mut()), bytes: AtomicUsize::new(0) }
    }

    /// `text` has to stay where it is until it is shown no longer.
    fn show(&self, text: &str) {
        self.at.store(text.as_ptr().cast_mut(), Ordering::Release);
        self.bytes.store(text.len(), Ordering::Release);
    }

    fn hide(&self) {
        self.bytes.store(0, Ordering::Release);
    }
}

/// Where a lane is.
#[repr(C, align(64))]
struct Lane {
    /// Name of the node.
    name: Text,
    /// Virtual time, in nanoseconds.
    time: AtomicU64,
}

impl Lane {
    const fn new() -> Lane {
        Lane { name: Text::new(), time: AtomicU64::new(0) }
    }
}

/// A node, in the table of the first world of the process.
#[repr(C)]
#[derive(Debug)]
struct Row {
    name: Text,
    /// Virtual time of the event that it is at, in nanoseconds, and how many it has had.
    time: AtomicU64,
    events: AtomicU64,
    /// A line each.
    sockets: Text,
}

/// Where the rows are.
#[repr(C)]
struct Rows {
    at: AtomicPtr<Row>,
    count: AtomicUsize,
}

// Nothing of ours reads them, so that only these words keep them in the program.
#[used]
static LANES: [Lane; LANES_MAX] = [const { Lane::new() }; LANES_MAX];
#[used]
static NODES: Rows = Rows { at: AtomicPtr::new(ptr::null_mut()), count: AtomicUsize::new(0) };

/// The rows, and what they show: sockets by the names of nodes.
type Shown = (Box<[Row]>, IndexMap<String, Mutex<String>>);

static TABLE: OnceLock<Shown> = OnceLock::new();
static LISTED: AtomicBool = AtomicBool::new(false);

/// Where a machine tells where it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Teller {
    lane: usize,
    row: Option<usize>,
}

impl Teller {
    pub fn new(lane: usize, name: &str) -> Teller {
        let row = TABLE.get().and_then(|(_, nodes)| nodes.get_index_of(name));
        Teller { lane: lane % LANES_MAX, row }
    }

    /// The machine's present becomes `at`.
    pub fn tell(&self, name: &str, at: Instant) {
        if let Some(lane) = LANES.get(self.lane) {
            lane.name.at.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
            lane.name.bytes.store(name.len(), Ordering::Relaxed);
            lane.time.store(at.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Does a debugger want to know its sockets?
    pub fn is_listed(&self) -> bool {
        self.row.is_some() && LISTED.load(Ordering::Relaxed)
    }

    /// What the debugger is shown until the next event.
    pub fn list(&self, at: Instant, events: u64, sockets: &[serde_json::Value]) {
        let Some((rows, nodes)) = TABLE.get() else { return };
        let Some((row, (_, text))) = self.row.and_then(|row| rows.get(row).zip(nodes.get_index(row))) else { return };
        row.time.store(at.as_nanos(), Ordering::Relaxed);
        row.events.store(events, Ordering::Relaxed);
        if let Ok(mut shown) = text.lock() {
            row.sockets.hide();
            *shown = lines(sockets);
            row.sockets.show(&shown);
        }
    }
}

/// A line for each socket.
fn lines(sockets: &[serde_json::Value]) -> String {
    let mut text = String::new();
    for socket in sockets.iter().take(SOCKETS_MAX) {
        let field =
            |name: &str| socket.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default();
        let _ = writeln!(
            text,
            "  {:6} {:12} {:>8} {:>8}  {:24} {}",
            field("proto"),
            field("state"),
            field("recv_q"),
            field("send_q"),
            field("local"),
            field("peer")
        );
    }
    if let Some(more) = sockets.len().checked_sub(SOCKETS_MAX).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more");
    }
    text
}

/// The nodes of the first world of this process get rows.
pub(crate) fn register<'a>(names: impl Iterator<Item = &'a str>) {
    let (rows, nodes) = TABLE.get_or_init(|| {
        let nodes: IndexMap<String, Mutex<String>> = names.map(|name| (name.to_owned(), Mutex::default())).collect();
        let row = |name: &String| {
            let row = Row { name: Text::new(), time: AtomicU64::new(0), events: AtomicU64::new(0), sockets: Text::new() };
            row.name.show(name);
            row
        };
        (nodes.keys().map(row).collect(), nodes)
    });
    NODES.at.store(rows.as_ptr().cast_mut(), Ordering::Release);
    NODES.count.store(nodes.len(), Ordering::Release);
}

/// From now on nodes are listed before each event: a debugger is there. It makes everything slower.
pub fn list_nodes() {
    LISTED.store(true, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_tells_where_it_is_and_what_it_has() {
        register(["one", "two"].into_iter());
        let teller = Teller::new(65, "two");
        teller.tell("two", Instant::from_nanos(77));
        assert_eq!((LANES[1].time.load(Ordering::Relaxed), LANES[1].name.bytes.load(Ordering::Relaxed)), (77, 3));
        teller.list(
            Instant::from_nanos(5),
            9,
            &[serde_json::json!({"proto": "tcp", "state": "LISTEN", "recv_q": 0, "local": "0.0.0.0:80"})],
        );
        let (rows, nodes) = TABLE.get().unwrap();
        assert_eq!((NODES.at.load(Ordering::Relaxed).cast_const(), NODES.count.load(Ordering::Relaxed)), (rows.as_ptr(), 2));
        assert_eq!((rows[1].events.load(Ordering::Relaxed), rows[1].time.load(Ordering::Relaxed)), (9, 5));
        let shown = nodes[1].lock().unwrap();
        assert!(shown.contains("tcp    LISTEN"));
        assert_eq!(
            (rows[1].sockets.at.load(Ordering::Relaxed).cast_const(), rows[1].sockets.bytes.load(Ordering::Relaxed)),
            (shown.as_ptr(), shown.len())
        );
        assert!(!Teller::new(0, "nobody").is_listed());
    }

    #[test]
    fn of_many_sockets_the_last_are_a_number() {
        let many = vec![serde_json::json!({"proto": "udp"}); SOCKETS_MAX + 3];
        assert_eq!(lines(&many).lines().count(), SOCKETS_MAX + 1);
        assert!(lines(&many).ends_with("  and 3 more\n"));
        assert_eq!(lines(&many[..SOCKETS_MAX]).lines().count(), SOCKETS_MAX);
    }
}
