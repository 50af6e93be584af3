//! What the block declares.

use crate::counters;
use crate::endpoint::Endpoint;
use crate::policy::{self, Preference, Quota, Standby};
use crate::scheduler::{self, Chosen};
use weft_core::table::Family;
use weft_core::{Carries, Duration, InPort, Kind, Named, OutPort, Parameter, ParameterType, Port, Table};

/// Inputs and outputs.
pub(crate) const FROM_ABOVE: InPort = InPort(0);
pub(crate) const UP: OutPort = OutPort(0);
pub(crate) const DOWN: OutPort = OutPort(1);

/// Congestion controls of subflows: tcp's own choice, or one of tcp's.
const CONGESTION: &[&str] = &{
    let mut names = ["tcp"; weft_tcp::congestion::NAMES.len() + 1];
    let mut at = 1;
    while at < names.len() {
        names[at] = weft_tcp::congestion::NAMES[at - 1];
        at += 1;
    }
    names
};

const fn parameter(name: &'static str, value: ParameterType, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value, default, live: true, doc }
}

/// The alert of what happens to connections.
pub(crate) const ALERT: &str = "multipath";
/// The alert of a scheduler that cannot be used.
pub(crate) const SCHEDULER_ALERT: &str = "scheduler";

/// What the block declares.
pub static KIND: Kind = Kind {
    name: "mptcp",
    summary: "Multipath TCP: one connection over several paths",
    doc: "Multipath TCP version 1 (RFC 8684). Stands between sockets and tcp; programs know nothing of it. Connections whose peer does not speak it, or \
          that a box on the way does not let speak it, are plain TCP. Inserted under connections that run, it leaves them as they are. Extracted, it \
          lets those that it has go on until they end.\nExample: insert mptcp sockets:tcp tcp:upper; set mptcp.checksum true",
    inputs: &[
        Port::required("upper", Carries::Stream, "what sockets ask, and data to send"),
        Port::required("lower", Carries::Stream, "what the transport tells of subflows"),
    ],
    outputs: &[
        Port::required("upper", Carries::Stream, "what sockets hear of connections"),
        Port::required("lower", Carries::Stream, "subflows, and what connections without Multipath TCP say"),
    ],
    parameters: &[
        parameter("enabled", ParameterType::Bool, "true", "new connections try Multipath TCP (net.mptcp.enabled)"),
        parameter("checksum", ParameterType::Bool, "false", "ask for checksums of data (net.mptcp.checksum_enabled)"),
        parameter(
            "allow_join_initial_address",
            ParameterType::Bool,
            "true",
            "peers may open subflows to the address of a connection's first; false: MP_CAPABLE says that they are not to, and those that \
             come are taken (net.mptcp.allow_join_initial_addr_port)",
        ),
        parameter(
            "path_manager",
            ParameterType::Choice(&["all", "kernel", "ndiffports", "userspace"]),
            "\"all\"",
            "all: without endpoints every address of the node is used; kernel: endpoints only, as Linux does; ndiffports: no \
             endpoints, more subflows between the two addresses of the first, from other ports; userspace: of new connections a program \
             opens and announces (mptcpd; net.mptcp.pm_type = 1)",
        ),
        parameter(
            "ndiffports",
            ParameterType::Unsigned { min: 1, max: 9 },
            "2",
            "subflows of a connection that this node opens, with the first (path_manager = ndiffports)",
        ),
        parameter(
            "endpoints",
            ParameterType::List,
            "[]",
            "addresses to use, as `ip mptcp endpoint add` takes them: \"10.0.0.1 subflow backup dev eth1\"",
        ),
        parameter(
            "subflows",
            ParameterType::Unsigned { min: 0, max: 8 },
            "8",
            "subflows of a connection beside the first (ip mptcp limits)",
        ),
        parameter(
            "add_addr_accepted",
            ParameterType::Unsigned { min: 0, max: 8 },
            "8",
            "addresses that a peer may announce to a connection (ip mptcp limits)",
        ),
        parameter(
            "add_addr_timeout",
            ParameterType::Duration,
            "\"120s\"",
            "how long after it an announced address is announced again that no peer has confirmed; 0: never (net.mptcp.add_addr_timeout)",
        ),
        parameter(
            "scheduler",
            ParameterType::Scheduler(scheduler::NAMES),
            "\"default\"",
            "which subflow gets the next data (net.mptcp.scheduler); block:NAME: a loadable block with [scheduler] in its manifest",
        ),
        parameter(
            "stale_timeouts",
            ParameterType::Unsigned { min: 0, max: u32::MAX as u64 },
            "1",
            "retransmission timeouts in a row after which a subflow is left while others are there; 0: it is not (net.mptcp.stale_loss_cnt)",
        ),
        parameter(
            "congestion",
            ParameterType::Choice(CONGESTION),
            "\"tcp\"",
            "congestion control of subflows whose program chose none; tcp: as the block tcp has it",
        ),
        parameter(
            "opportunistic",
            ParameterType::Bool,
            "true",
            "when the peer's window is used up, data that holds it up goes by a faster subflow too, and the slow one's window is halved",
        ),
        parameter(
            "prefer",
            ParameterType::List,
            "[]",
            "interfaces in order of preference, as names, beginnings (wlan*) or groups (group:7): subflows of others are backups",
        ),
        parameter(
            "standby",
            ParameterType::Choice(policy::STANDBY),
            "\"always\"",
            "when interfaces that are not the best have subflows: always; active: while data flows; never: when no better one works",
        ),
        parameter(
            "idle_after",
            ParameterType::Duration,
            "\"10s\"",
            "how long a connection has no data until it counts as idle (standby = active)",
        ),
        parameter(
            "quota",
            ParameterType::List,
            "[]",
            "data that may go over interfaces, both ways: \"wwan0 100MiB\"; then they are left. Setting it begins to count anew",
        ),
        parameter(
            "connections_max",
            ParameterType::Unsigned { min: 0, max: 1 << 20 },
            "65536",
            "connections at a time; more of them are plain TCP",
        ),
        parameter(
            "close_timeout",
            ParameterType::Duration,
            "\"60s\"",
            "how long a closed connection waits for its peer, and one without a subflow for another (net.mptcp.close_timeout)",
        ),
    ],
    procedures: &[
        Named {
            name: "endpoint_add",
            doc: "`address`, and `id`, `port`, `dev`, `signal`, `subflow`, `backup`, `fullmesh`: one more of `endpoints`, as `ip mptcp endpoint add`; gives `id`",
        },
        Named { name: "endpoint_delete", doc: "`id`: it goes, and the subflows that joined from its address" },
        Named { name: "endpoint_change", doc: "`id`, `backup`, `fullmesh`: what it is from now on; peers hear of `backup`" },
        Named { name: "endpoints_flush", doc: "all of them go" },
        Named {
            name: "path_addresses",
            doc: "`token`: the addresses of a connection that a program manages (path_manager = userspace), as of all that follow",
        },
        Named {
            name: "path_announce",
            doc: "`token`, `address`, `id`, `port`, `flags` (MPTCP_PM_ADDR_FLAG_*), `interface`: its peer hears of this address",
        },
        Named { name: "path_remove", doc: "`token`, `id`: its peer hears that the address is no more" },
        Named {
            name: "path_create",
            doc: "as path_announce, and `remote` (address and port), `remote_id`: a subflow from this address to that one",
        },
        Named { name: "path_destroy", doc: "`token`, `local`, `remote`: the subflow between these ends, in order" },
        Named { name: "path_change", doc: "`token`, `local`, `remote` (port 0: any), `backup`: its peer hears what it is used for" },
        Named { name: "limits_set", doc: "`subflows`, `add_addr_accepted`: the parameters of these names" },
    ],
    alerts: &[
        Named {
            name: ALERT,
            doc: "`event` (created, established, closed, announced, removed, subflow-established, subflow-closed, subflow-priority, listener-created, \
              listener-closed), `token`, `local`, `remote`, `local_id`, `remote_id`, `backup`, `error`, `server`, `deny_join_id0`, `interface`, `reset_reason`, \
              `transient`: as `ip mptcp monitor` shows it",
        },
        Named {
            name: SCHEDULER_ALERT,
            doc: "`scheduler`, `instead`, `why`: a block that schedules cannot be used any more, and who is used instead",
        },
    ],
    counters: counters::ROWS,
    owns: &[Table::Multipath],
    asks: &[
        Table::Addresses(Family::V4),
        Table::Addresses(Family::V6),
        Table::Routes(Family::V4),
        Table::Routes(Family::V6),
        Table::Interfaces,
        Table::Schedulers,
    ],
    state_version: 7,
    ..Kind::EMPTY
};

/// The parameters' values.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Settings {
    pub enabled: bool,
    pub checksum: bool,
    pub allow_join_initial_address: bool,
    /// 0: never.
    pub stale_timeouts: u32,
    pub connections_max: usize,
    pub close_timeout: Duration,
    /// Every address is an endpoint, if nobody names one.
    pub every: bool,
    /// No endpoint is used: further subflows are between the addresses of the first.
    pub same_addresses: bool,
    /// A program manages the paths of new connections.
    pub by_program: bool,
    /// So many of them, with the first.
    pub ndiffports: usize,
    pub endpoints: Vec<Endpoint>,
    pub subflows: usize,
    pub add_addr_accepted: usize,
    pub add_addr_timeout: Duration,
    pub scheduler: Chosen,
    /// None: tcp's own choice.
    pub congestion: Option<String>,
    pub opportunistic: bool,
    pub prefer: Preference,
    /// The same, as it was written.
    pub preferred: Vec<String>,
    pub standby: Standby,
    pub idle_after: Duration,
    pub quotas: Vec<Quota>,
}
