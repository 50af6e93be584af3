//! What a debugger sees of the world (`tools/gdb/weft.py`): which node runs and what time it is, without any knowledge of types.
//!
//! Every lane (thread) has a [`Lane`] with a fixed layout, which its machines fill in before each event; all nodes have a row in a table that
//! [`nodes`] and [`sockets`], called by the debugger, print. Sockets are listed before each event, and only while somebody traces the process: what they were
//! then is whole, wherever the debugger stops.

use indexmap::IndexMap;
use std::fmt::Write as _;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use weft_core::Instant;

/// Threads that are told apart: "weft-lane-N" fills in `LANES[N]`.
const LANES_MAX: usize = 64;

/// Where a lane is. The debugger knows this layout.
#[repr(C, align(64))]
struct Lane {
    /// UTF-8 name of the node, and its length.
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
    /// Virtual time, in nanoseconds.
    time: AtomicU64,
}

impl Lane {
    const fn new() -> Lane {
        Lane { name: AtomicPtr::new(ptr::null_mut()), name_bytes: AtomicUsize::new(0), time: AtomicU64::new(0) }
    }
}

static LANES: [Lane; LANES_MAX] = [const { Lane::new() }; LANES_MAX];
/// What the debugger may call: `weft nodes`, `weft sockets`.
static CALLS: [fn(); 2] = [nodes, sockets];
static NODES: OnceLock<IndexMap<String, Row>> = OnceLock::new();
static LISTED: AtomicBool = AtomicBool::new(false);

/// A node, in the table of the first world of the process.
struct Row {
    time: AtomicU64,
    events: AtomicU64,
    sockets: Mutex<String>,
}

/// Where a machine tells where it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Teller {
    lane: usize,
    row: Option<usize>,
}

impl Teller {
    pub fn new(lane: usize, name: &str) -> Teller {
        let row = NODES.get().and_then(|nodes| nodes.get_index_of(name));
        Teller { lane: lane % LANES_MAX, row }
    }

    /// The machine's present becomes `at`.
    pub fn tell(&self, name: &str, at: Instant) {
        if let Some(lane) = LANES.get(self.lane) {
            lane.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
            lane.name_bytes.store(name.len(), Ordering::Relaxed);
            lane.time.store(at.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Does a debugger want to know its sockets?
    pub fn is_listed(&self) -> bool {
        self.row.is_some() && LISTED.load(Ordering::Relaxed)
    }

    /// What the debugger is shown until the next event.
    pub fn list(&self, at: Instant, events: u64, rows: &[serde_json::Value]) {
        let Some((_, row)) = self.row.and_then(|row| NODES.get()?.get_index(row)) else { return };
        row.time.store(at.as_nanos(), Ordering::Relaxed);
        row.events.store(events, Ordering::Relaxed);
        let mut text = String::new();
        for socket in rows {
            let field = |name: &str| {
                socket.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default()
            };
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
        if let Ok(mut sockets) = row.sockets.lock() {
            *sockets = text;
        }
    }
}

/// The nodes of the first world of this process get rows.
pub(crate) fn register<'a>(names: impl Iterator<Item = &'a str>) {
    NODES.get_or_init(|| {
        names.map(|name| (name.to_owned(), Row { time: AtomicU64::new(0), events: AtomicU64::new(0), sockets: Mutex::default() })).collect()
    });
    // So that they are there for the debugger.
    std::hint::black_box((&LANES, &CALLS));
}

/// From now on nodes are listed before each event: a debugger is there. It makes everything slower.
pub fn list_nodes() {
    LISTED.store(true, Ordering::Relaxed);
}

fn seconds(nanos: u64) -> String {
    Instant::from_nanos(nanos).seconds().to_string()
}

/// Prints all nodes. For debuggers.
fn nodes() {
    for (name, row) in NODES.get().into_iter().flatten() {
        let (time, events) = (row.time.load(Ordering::Relaxed), row.events.load(Ordering::Relaxed));
        eprintln!("{name:24} {:>20} s {events:>10} events", seconds(time));
    }
}

/// Prints the sockets of all nodes, as they were before the event that each was at. For debuggers.
fn sockets() {
    for (name, row) in NODES.get().into_iter().flatten() {
        let Ok(sockets) = row.sockets.try_lock() else { continue };
        if !sockets.is_empty() {
            eprintln!("{name} at {} s:\n{}", seconds(row.time.load(Ordering::Relaxed)), sockets.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_tells_where_it_is_and_what_it_has() {
        register(["one", "two"].into_iter());
        let teller = Teller::new(65, "two");
        teller.tell("two", Instant::from_nanos(77));
        assert_eq!((LANES[1].time.load(Ordering::Relaxed), LANES[1].name_bytes.load(Ordering::Relaxed)), (77, 3));
        teller.list(
            Instant::from_nanos(5),
            9,
            &[serde_json::json!({"proto": "tcp", "state": "LISTEN", "recv_q": 0, "local": "0.0.0.0:80"})],
        );
        let row = &NODES.get().unwrap()[1];
        assert_eq!(row.events.load(Ordering::Relaxed), 9);
        assert!(row.sockets.lock().unwrap().contains("tcp    LISTEN"));
        assert!(!Teller::new(0, "nobody").is_listed());
    }
}
