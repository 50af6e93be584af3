//! The types of a node's tables, and the questions that blocks ask of their owners.
//!
//! Each table has one owner block (`Kind::owns`); everyone else asks it with a [`Query`] through `Context::ask`.

use crate::frame::InterfaceIndex;
use crate::multipath::{MultipathInfo, MultipathNode};
use crate::schedule::{Question, Scheduled, Scheduler};
use crate::stream::{FlowId, StreamInfo};
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use weft_wire::ethernet::Mac;

/// Address family of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub const fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }
}

/// The tables of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Table {
    /// Network devices.
    Interfaces,
    /// Addresses of interfaces.
    Addresses(Family),
    /// Routes.
    Routes(Family),
    /// Link-layer addresses of neighbours.
    Neighbours(Family),
    /// Multicast groups that interfaces listen to.
    Groups(Family),
    /// Sockets, as programs see them.
    Sockets,
    /// Connections of the stream transport.
    Flows,
    /// Connections over several of those (Multipath TCP).
    Multipath,
    /// The scheduler of those that a loadable block is.
    Schedulers,
}

impl Table {
    /// All of them.
    pub const ALL: &'static [Table] = &[
        Table::Interfaces,
        Table::Addresses(Family::V4),
        Table::Addresses(Family::V6),
        Table::Routes(Family::V4),
        Table::Routes(Family::V6),
        Table::Neighbours(Family::V4),
        Table::Neighbours(Family::V6),
        Table::Groups(Family::V4),
        Table::Groups(Family::V6),
        Table::Sockets,
        Table::Flows,
        Table::Multipath,
        Table::Schedulers,
    ];
}

/// The row of a table that has changed: came, went, or is another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    /// Of [`Table::Interfaces`].
    Interface(InterfaceIndex),
    /// Of [`Table::Addresses`].
    Address(InterfaceIndex, IpAddr),
}

/// A network device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// Its number.
    pub index: InterfaceIndex,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Link-layer address.
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Something answers at the other end (netif_carrier_ok); without it nothing is sent. One that is down has none, but for those that lead nowhere.
    pub carrier: bool,
    /// Ethernet framing; otherwise raw IP, or loopback.
    pub link: LinkType,
    /// Interface group (u32, 0 by default).
    pub group: u32,
    /// Largest GSO frame that the backend takes, bytes of payload; 0: none.
    pub gso_max_bytes: u32,
    /// The backend completes transport checksums.
    pub checksum_offload: bool,
    /// Backend URL, as in the stack file.
    pub backend: String,
}

/// Framing below IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkType {
    /// The node's own loopback.
    Loopback,
    /// Ethernet II.
    Ethernet,
    /// IP packets without a link-layer header.
    Raw,
}

impl Interface {
    /// The link-layer address as the wire's type.
    pub fn mac(&self) -> Mac {
        Mac(self.mac)
    }
    /// Up, and with a carrier (IFF_RUNNING).
    pub fn is_running(&self) -> bool {
        self.up && self.carrier
    }
}

/// What programs set of an interface and nothing but they look at (rtnetlink IFLA_*, IFF_*).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterfaceSettings {
    /// IFLA_TXQLEN: packets; kept, and used by nobody.
    pub tx_queue_packets: u32,
    /// IFLA_IFALIAS.
    pub alias: String,
    /// No IFF_NOARP.
    pub arp: bool,
    /// IFF_MULTICAST; none: as the framing has it.
    pub multicast: Option<bool>,
    /// IFF_PROMISC.
    pub promiscuous: bool,
    /// IFF_ALLMULTI.
    pub all_multicast: bool,
    /// IFF_DYNAMIC.
    pub dynamic: bool,
}

impl Default for InterfaceSettings {
    fn default() -> InterfaceSettings {
        let flags = (false, false, false);
        InterfaceSettings {
            // DEFAULT_TX_QUEUE_LEN
            tx_queue_packets: 1000,
            alias: String::new(),
            arp: true,
            multicast: None,
            promiscuous: flags.0,
            all_multicast: flags.1,
            dynamic: flags.2,
        }
    }
}

/// What an interface has carried.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct InterfaceCounts {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received, with link-layer header.
    pub rx_bytes: u64,
    /// Frames received that were damaged.
    pub rx_errors: u64,
    /// Frames received and dropped.
    pub rx_dropped: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent, with link-layer header.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames to send that were dropped.
    pub tx_dropped: u64,
    /// How often a carrier came (IFLA_CARRIER_UP_COUNT).
    pub carrier_ups: u32,
    /// How often it went (IFLA_CARRIER_DOWN_COUNT).
    pub carrier_downs: u32,
}

/// A row of the table of interfaces.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterfaceRow {
    /// What the stack needs of it.
    pub interface: Interface,
    /// What programs set.
    pub settings: InterfaceSettings,
    /// What it has carried.
    pub counts: InterfaceCounts,
}

/// Which interfaces are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// Every one, by index.
    All,
    /// One by index.
    Index(InterfaceIndex),
    /// One by name.
    Named(String),
    /// The members of a group, by index.
    Group(u32),
}

/// A label of an address (IFA_LABEL): at most 15 bytes; all zero: the interface's name.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Label([u8; 16]);

impl Label {
    /// From a text of at most 15 bytes without zeros.
    pub fn new(text: &str) -> Option<Label> {
        let mut bytes = [0; 16];
        let fits = text.len() < bytes.len() && !text.contains('\0');
        bytes.get_mut(..text.len()).filter(|_| fits)?.copy_from_slice(text.as_bytes());
        Some(Label(bytes))
    }
    /// The text; none: as the interface is called.
    pub fn text(&self) -> Option<&str> {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).ok().filter(|text| !text.is_empty())
    }
}

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Address {
    /// Which interface.
    pub interface: InterfaceIndex,
    /// The address.
    pub address: IpAddr,
    /// Bits of the on-link prefix.
    pub prefix_bits: u8,
    /// What it may be used for.
    #[serde(default)]
    pub state: AddressState,
    /// The node made it itself (SLAAC, link-local), nobody set it (rtnetlink: no IFA_F_PERMANENT).
    #[serde(default)]
    pub dynamic: bool,
    /// When it stops being preferred; none: never.
    #[serde(default)]
    pub preferred_until: Option<Instant>,
    /// When it is removed; none: never.
    #[serde(default)]
    pub valid_until: Option<Instant>,
    /// The other end, whose prefix it then is (IFA_ADDRESS where it differs from IFA_LOCAL).
    #[serde(default)]
    pub peer: Option<IpAddr>,
    /// Broadcast address, as somebody said it (IPv4).
    #[serde(default)]
    pub broadcast: Option<Ipv4Addr>,
    /// rtnetlink RT_SCOPE_*.
    #[serde(default)]
    pub scope: u8,
    /// Its name for people (IPv4).
    #[serde(default)]
    pub label: Label,
    /// rtnetlink IFA_F_* that somebody asked for; those of states follow from [`Address::state`] and [`Address::dynamic`].
    #[serde(default)]
    pub flags: u32,
    /// Metric of the route to its network; 0: the usual one.
    #[serde(default)]
    pub metric: u32,
}

/// IFA_F_NOPREFIXROUTE: an address brings no route to its network.
pub const NO_PREFIX_ROUTE: u32 = 0x200;
/// RT_SCOPE_LINK: valid on the link only.
pub const SCOPE_LINK: u8 = 253;
/// RT_SCOPE_HOST: valid on this node only.
pub const SCOPE_HOST: u8 = 254;
/// RT_TABLE_LOCAL: what follows from addresses.
pub const TABLE_LOCAL: u32 = 255;
/// RT_TABLE_MAIN.
pub const TABLE_MAIN: u32 = 254;
/// RT_TABLE_DEFAULT, which IPv4 looks at last.
pub const TABLE_DEFAULT: u32 = 253;
/// RTPROT_KERNEL: follows from an address.
pub const PROTOCOL_KERNEL: u8 = 2;
/// RTPROT_STATIC: an administrator's.
pub const PROTOCOL_STATIC: u8 = 4;
/// RTPROT_RA: a router told.
pub const PROTOCOL_RA: u8 = 9;

impl Address {
    /// An address that somebody set, usable for ever.
    pub const fn permanent(interface: InterfaceIndex, address: IpAddr, prefix_bits: u8) -> Address {
        Address {
            interface,
            address,
            prefix_bits,
            state: AddressState::Preferred,
            dynamic: false,
            preferred_until: None,
            valid_until: None,
            peer: None,
            broadcast: None,
            scope: if interface.0 == InterfaceIndex::LOOPBACK.0 { SCOPE_HOST } else { 0 },
            label: Label([0; 16]),
            flags: 0,
            metric: 0,
        }
    }

    /// The address whose prefix is on the link: its own, or its peer's.
    pub fn on_link(&self) -> IpAddr {
        self.peer.unwrap_or(self.address)
    }
}

/// What an address may be used for (RFC 4862 §2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressState {
    /// Everything.
    #[default]
    Preferred,
    /// Everything, but new connections take another source if there is one.
    Deprecated,
    /// Nothing yet: duplicate address detection is under way.
    Tentative,
    /// Nothing: somebody else has it (IFA_F_DADFAILED).
    Duplicated,
}

/// A route.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Route {
    /// Destination prefix.
    pub destination: IpAddr,
    /// Its length in bits.
    pub prefix_bits: u8,
    /// Next hop; none: on the link.
    pub gateway: Option<IpAddr>,
    /// Where it leaves.
    pub interface: InterfaceIndex,
    /// Source address to prefer.
    pub source: Option<IpAddr>,
    /// Among equal prefixes the lowest wins.
    pub metric: u32,
    /// Path MTU that the route fixes, bytes.
    pub mtu: Option<u32>,
    /// What the route does.
    pub kind: RouteKind,
    /// rtnetlink RTPROT_*: whose it is.
    pub protocol: u8,
    /// rtnetlink RT_SCOPE_*.
    pub scope: u8,
    /// The gateway is on the link, whatever the addresses say (RTNH_F_ONLINK).
    pub onlink: bool,
    /// rtnetlink RT_TABLE_*: which rules lead to it.
    pub table: u32,
}

impl Route {
    /// A static unicast route of the main table to everywhere, which leads nowhere yet: for the fields that one does not name.
    pub const PLAIN: Route = Route {
        destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        prefix_bits: 0,
        gateway: None,
        interface: InterfaceIndex::NONE,
        source: None,
        metric: 0,
        mtu: None,
        kind: RouteKind::Unicast,
        protocol: PROTOCOL_STATIC,
        scope: 0,
        onlink: false,
        table: TABLE_MAIN,
    };
}

/// What a route does with a packet (rtnetlink RTN_*).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteKind {
    /// Sends it on.
    Unicast,
    /// Delivers it here.
    Local,
    /// Sends it to every host of the link.
    Broadcast,
    /// Sends it to a multicast group.
    Multicast,
    /// Drops it without a word.
    Blackhole,
    /// Drops it and says host unreachable.
    Unreachable,
    /// Drops it and says prohibited.
    Prohibit,
    /// Ends the look-up in its table: the next rule is asked.
    Throw,
}

/// One of several next hops of a route (rtnetlink `struct rtnexthop`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hop {
    /// The route as it were with this next hop alone. Those of an IPv4 route differ in gateway, interface and onlink; those of an IPv6 route are routes
    /// of their own (Linux: siblings).
    pub route: Route,
    /// How many of the flows take it, 1 to 256, of the sum of all.
    pub weight: u16,
    /// Its interface was put down, or lost its last IPv4 address (RTNH_F_DEAD): no flow takes it.
    pub dead: bool,
}

/// A route with all its next hops.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouteRow {
    /// The route; with several next hops, as it were with the first alone.
    pub route: Route,
    /// The next hops, if there are several.
    pub hops: Box<[Hop]>,
}

impl From<Route> for RouteRow {
    fn from(route: Route) -> RouteRow {
        RouteRow { route, hops: Box::default() }
    }
}

impl RouteRow {
    /// A route with these next hops; one with a single hop has nothing to choose. None: no hops.
    pub fn with(hops: Vec<Hop>) -> Option<RouteRow> {
        let route = hops.first()?.route;
        Some(RouteRow { route, hops: if hops.len() > 1 { hops.into() } else { Box::default() } })
    }

    /// Each way that it leads.
    pub fn each(&self) -> impl Iterator<Item = &Route> {
        let alone = self.hops.is_empty().then_some(&self.route);
        alone.into_iter().chain(self.hops.iter().map(|hop| &hop.route))
    }

    /// Its next hops, also if it is one.
    pub fn all_hops(&self) -> Vec<Hop> {
        match &*self.hops {
            [] => vec![Hop { route: self.route, weight: 1, dead: false }],
            several => several.to_vec(),
        }
    }
}

/// A neighbour and what is known of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Neighbour {
    /// Which interface.
    pub interface: InterfaceIndex,
    /// Its IP address.
    pub address: IpAddr,
    /// Its link-layer address, when known.
    pub mac: Option<[u8; 6]>,
    /// NUD state, with Linux's names: INCOMPLETE, REACHABLE, STALE, DELAY, PROBE, FAILED, PERMANENT.
    pub state: String,
}

/// A policy rule: which table is looked at for which packets (rtnetlink RTM_*RULE).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// Lower is asked first, of equals the one that was there first.
    pub priority: u32,
    /// It is for the packets that do not fit (FIB_RULE_INVERT).
    pub not: bool,
    /// Source prefix; bits behind it are kept and not looked at. Packets whose source is yet to be chosen do not fit.
    pub source: Option<(IpAddr, u8)>,
    /// Destination prefix, likewise.
    pub destination: Option<(IpAddr, u8)>,
    /// The interface that packets come in through; `lo` for those of this node.
    pub input: Option<String>,
    /// The interface that their sender is bound to.
    pub output: Option<String>,
    /// Firewall mark (SO_MARK), as far as `mask` goes.
    pub mark: u32,
    /// 0: any mark.
    pub mask: u32,
    /// Type of service without the bits of ECN; 0: any.
    pub tos: u8,
    /// Protocol above IP; 0: any.
    pub transport: u8,
    /// First and last port of the source.
    pub source_ports: Option<(u16, u16)>,
    /// First and last port of the destination.
    pub destination_ports: Option<(u16, u16)>,
    /// What to do with the packets.
    pub action: RuleAction,
    /// Routes with at most so many bits of prefix do not count (suppress_prefixlength).
    pub suppress_prefix_bits: Option<u32>,
    /// Routes that leave through an interface of this group do not count (suppress_ifgroup).
    pub suppress_group: Option<u32>,
    /// rtnetlink RTPROT_*: whose it is.
    pub protocol: u8,
}

impl Rule {
    /// A rule for every packet.
    pub const fn all(priority: u32, action: RuleAction) -> Rule {
        Rule {
            priority,
            not: false,
            source: None,
            destination: None,
            input: None,
            output: None,
            mark: 0,
            mask: 0,
            tos: 0,
            transport: 0,
            source_ports: None,
            destination_ports: None,
            action,
            suppress_prefix_bits: None,
            suppress_group: None,
            protocol: 0,
        }
    }
}

/// What a rule does with the packets that fit (rtnetlink FR_ACT_*).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    /// Looks at a table; goes on when that has no route.
    Table(u32),
    /// Goes on with the first rule of a higher priority, if there is one.
    Goto(u32),
    /// Goes on.
    Nop,
    /// Drops them without a word.
    Blackhole,
    /// Says that there is no route.
    Unreachable,
    /// Says prohibited.
    Prohibit,
}

/// A rule, and what of it is not there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RuleRow {
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// There is no interface of the name [`Rule::input`] (FIB_RULE_IIF_DETACHED).
    pub input_absent: bool,
    /// There is none of the name [`Rule::output`] (FIB_RULE_OIF_DETACHED).
    pub output_absent: bool,
    /// There is no rule to go on with (FIB_RULE_UNRESOLVED).
    pub unresolved: bool,
}

/// What rules look at of a packet beside its addresses and the interface that its sender is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Where it came in; [`InterfaceIndex::NONE`]: this node sends it.
    pub input: InterfaceIndex,
    /// SO_MARK.
    pub mark: u32,
    /// Type of service.
    pub tos: u8,
    /// The protocol above IP.
    pub protocol: u8,
    /// Source and destination port; 0 where the protocol has none, or nobody knows.
    pub ports: (u16, u16),
    /// Flow label, of a packet that came in (IPv6).
    pub label: u32,
    /// Of an ICMP error, what the packet is that it is about: it takes the way that answers to that one take.
    pub about: Option<Flow>,
}

/// By what a packet's flow is told from others where addresses alone decide (Linux ip_multipath_l3_keys).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// From where.
    pub source: IpAddr,
    /// Where to.
    pub destination: IpAddr,
    /// Flow label (IPv6).
    pub label: u32,
    /// The protocol above IP.
    pub protocol: u8,
}

/// A node-wide setting with Linux's name, such as `net.ipv4.tcp_congestion_control`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sysctl {
    /// Dotted name.
    pub name: String,
    /// Value as /proc/sys shows it.
    pub value: String,
}

/// The timer of a flow that is shown: the first of those that run, as inet_sk_diag_fill looks for them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FlowTimer {
    /// idiag_timer: 0 none, 1 retransmission, 2 keepalive, 3 TIME-WAIT, 4 zero window probe.
    pub kind: u8,
    /// Retransmissions or probes so far.
    pub retransmits: u8,
    /// Until it fires.
    pub expires_ms: u32,
}

/// A question to the owner of a table. Answers do not change the owner.
#[derive(Clone, Debug)]
pub enum Query {
    /// How to reach a destination (owner of `Routes`).
    Route {
        /// Where to.
        destination: IpAddr,
        /// Source address, if bound to one.
        source: Option<IpAddr>,
        /// Interface, if bound to one (SO_BINDTODEVICE).
        interface: Option<InterfaceIndex>,
        /// What else rules may look at. With [`Traffic::input`] the packet is another's, and its source need not be of this node.
        traffic: Traffic,
    },
    /// Does somebody want a copy of each frame ([`crate::Change::WantFrames`])? (owner of `Interfaces`)
    FramesWanted,
    /// The route that a packet follows which is not for this node itself, as a list of one or none; of several next hops the row's own route has the
    /// one that the packet takes (owner of `Routes`).
    RouteFollowed {
        /// Where to.
        destination: IpAddr,
        /// Source address, if it is known.
        source: Option<IpAddr>,
        /// Interface, if bound to one.
        interface: Option<InterfaceIndex>,
        /// What else rules may look at.
        traffic: Traffic,
    },
    /// The rules, in their order (owner of `Routes`).
    Rules,
    /// What an address is to this node (owner of `Addresses`).
    AddressKind(IpAddr),
    /// Every address with its state and lifetimes (owner of `Addresses`); [`Query::List`] has them for people.
    Addresses,
    /// Are packets for others that come in here sent on (owner of `Routes`)?
    Forwards(InterfaceIndex),
    /// One address of an interface, as a list of one or none (owner of `Addresses`).
    Address(InterfaceIndex, IpAddr),
    /// The addresses of an interface (owner of `Addresses`).
    AddressesOf(InterfaceIndex),
    /// One interface (owner of `Interfaces`).
    Interface(InterfaceIndex),
    /// One interface by name (owner of `Interfaces`).
    InterfaceNamed(String),
    /// Interfaces with everything that is known of them (owner of `Interfaces`).
    Interfaces(Which),
    /// Every route of every table, as they were set (owner of `Routes`); [`Query::List`] has them for people.
    Routes,
    /// Is there a routing table of this number, be it empty (owner of `Routes`)?
    HasTable(u32),
    /// Are routes through interfaces without carrier passed over (owner of `Routes`)?
    IgnoresLinkdown,
    /// Has IPv6 begun on an interface, which it does with the first carrier (Linux IF_READY; owner of `Routes` of IPv6)?
    IsReady(InterfaceIndex),
    /// Does an interface want packets of a group from a source (owner of `Groups`)?
    Wanted {
        /// Where they come in.
        interface: InterfaceIndex,
        /// To which group.
        group: IpAddr,
        /// From whom.
        source: IpAddr,
    },
    /// TCP_INFO and friends of a flow (owner of `Flows`).
    FlowInfo(FlowId),
    /// The timer of a flow that sock_diag(7) shows (owner of `Flows`).
    FlowTimer(FlowId),
    /// What is done for connections over several flows (owner of `Multipath`).
    Multipath,
    /// The connection, or the listener, that sockets know by this flow, if it is one over several flows (owner of `Multipath`).
    Connection(FlowId),
    /// Which block schedules, and how it is to be asked (owner of `Schedulers`).
    Scheduler,
    /// Which subflow gets the next data (owner of `Schedulers`).
    Schedule(Box<Question>),
    /// The rows of [`Query::List`] with what only sock_diag(7) shows: buffers, type of service, what is shut down (owner of `Sockets`).
    SocketDetails,
    /// How many bytes could go with a SYN (RFC 7413; owner of `Flows`)?
    FastOpen {
        /// Own address.
        local: IpAddr,
        /// The server.
        remote: IpAddr,
        /// The program wants no cookie (TCP_FASTOPEN_NO_COOKIE).
        no_cookie: bool,
        /// Largest IP packet on the path, bytes.
        mtu: u32,
    },
    /// The names of the congestion controls that are built in (owner of `Flows`).
    CongestionControls,
    /// Who is a connection's or socket's owner, and so on: rows of a table for people (owner of that table).
    List(Table),
}

/// The owner's answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To [`Query::Route`].
    Route(RouteAnswer),
    /// To [`Query::AddressKind`].
    AddressKind(AddressKind),
    /// To [`Query::Forwards`].
    Forwards(bool),
    /// To [`Query::Addresses`], [`Query::Address`] and [`Query::AddressesOf`], in the order in which they were added.
    Addresses(Vec<Address>),
    /// To [`Query::Interface`] and [`Query::InterfaceNamed`].
    Interface(Box<Interface>),
    /// To [`Query::Interfaces`].
    Interfaces(Vec<InterfaceRow>),
    /// To [`Query::Routes`], by table, destination, length and metric; to [`Query::RouteFollowed`].
    Routes(Vec<RouteRow>),
    /// To [`Query::HasTable`].
    HasTable(bool),
    /// To [`Query::Rules`].
    Rules(Vec<RuleRow>),
    /// To [`Query::Wanted`], [`Query::FramesWanted`], [`Query::IgnoresLinkdown`] and [`Query::IsReady`].
    Wanted(bool),
    /// To [`Query::FlowInfo`].
    FlowInfo(Box<StreamInfo>),
    /// To [`Query::FlowTimer`].
    FlowTimer(FlowTimer),
    /// To [`Query::Multipath`].
    Multipath(Box<MultipathNode>),
    /// To [`Query::Connection`].
    Connection(Box<MultipathInfo>),
    /// To [`Query::Scheduler`]; an error: it has failed, why.
    Scheduler(Box<Result<Scheduler, String>>),
    /// To [`Query::Schedule`]; an error: it has failed, why. It is not asked again.
    Schedule(Box<Result<Scheduled, String>>),
    /// To [`Query::FastOpen`]: bytes; 0 when there is no cookie yet, so that the SYN can only ask for one; `None`: clients may not.
    FastOpen(Option<u32>),
    /// To [`Query::CongestionControls`]: name of each, the node's default first.
    CongestionControls(Vec<String>),
    /// To [`Query::List`] and [`Query::SocketDetails`]: one JSON object a row.
    List(Vec<serde_json::Value>),
    /// There is no such thing.
    None,
}

/// How to reach a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteAnswer {
    /// What the route does.
    pub kind: RouteKind,
    /// Where it leaves.
    pub interface: InterfaceIndex,
    /// Source address to use.
    pub source: IpAddr,
    /// The neighbour to hand it to.
    pub next_hop: IpAddr,
    /// Largest IP packet on the path, as far as known, bytes.
    pub mtu: u32,
    /// Largest GSO payload that may be handed down, bytes; 0: cut to the MTU.
    pub gso_max_bytes: u32,
    /// The route has several next hops, of which this flow takes one: packets to the same address may take another.
    pub several: bool,
    /// Changes whenever the owner's tables change: a cached answer with another number is stale.
    pub generation: u64,
}

/// What an address is to this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressKind {
    /// 0.0.0.0 or ::
    Unspecified,
    /// One of this node's own (127.0.0.0/8 too).
    Local(InterfaceIndex),
    /// A broadcast address of one of its networks, or 255.255.255.255.
    Broadcast,
    /// A multicast group.
    Multicast,
    /// Somebody else's.
    Other,
}
