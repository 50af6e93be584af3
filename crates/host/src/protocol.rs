//! What goes over the control socket: one JSON object a line, each request answered by one line with its serial number.
//!
//! `join` is accompanied by the program's seccomp listener (SCM_RIGHTS on the line's first byte). `trace` and `subscribe` are answered and then followed
//! by event lines without a serial until the client goes (or subscribes with `on` false).

use serde::{Deserialize, Serialize};
use weft_core::control::{ControlError, Op, Value};

/// Longest line, bytes; a longer one ends the connection.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Comes back in the answer.
    pub serial: u64,
    /// Which node is meant, where a world has many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What is asked.
    pub ask: Ask,
}

/// What can be asked of a daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Who are you? Answered with node, version, pid and resolv_conf (what programs find in /etc/resolv.conf).
    Hello,
    /// A control operation on the node.
    Node(Op),
    /// Bring the graph to a shape, and the interfaces to those of a file, in one step. Answered with `operations`, in words, and `changes`.
    Apply {
        /// Which.
        shape: weft_node::Shape,
        /// Which interfaces; none: those that are there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wiring: Option<weft_node::Wiring>,
        /// Only check it, and say what would be done.
        dry_run: bool,
    },
    /// The table of intercepted calls.
    Calls,
    /// The published ports and what passed them.
    Published,
    /// Take over a program; its listener is attached.
    Join {
        /// Its name, for messages.
        program: String,
    },
    /// Take over a program that the loader runs; its arena, control socket and bell are attached (`weft_process::Parts`).
    JoinStrict {
        /// Its name, for messages.
        program: String,
    },
    /// Answer for the files of a program's network; the descriptor of its file system is attached (fuse(4)).
    Files {
        /// Is it that for /sys/class/net? Else it is that for /proc/sys/net and /proc/net.
        devices: bool,
    },
    /// Send a line for every frame from now on.
    Trace,
    /// End. Answered with the number of programs that are still on it.
    Down,
}

/// One line from the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// To a request.
    Answer {
        /// The request's.
        serial: u64,
        /// What came of it.
        result: Result<Value, ControlError>,
    },
    /// Something that was subscribed to.
    Event(Value),
}
