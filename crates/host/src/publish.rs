//! `--publish`: ports of the host that lead to ports of the node.
//!
//! weft listens on the host's socket itself and carries what comes to a socket of the node, in this process. That needs no privilege beyond the
//! port's own, works where the node's network is in a namespace that the host cannot route to, and changes nothing in the kernel. The
//! alternative, destination NAT by nftables, is faster for bulk, but needs root and a TAP, and does not reach connections from the host
//! itself to 127.0.0.1 without further settings.
//!
//! The node sees a connection from one of its own addresses, not the client's. It is opened after the client's has been accepted, so a port that
//! nobody listens on shows to the client as a reset, not as a refusal.
//!
//! # Limits
//! [`CONNECTIONS_MAX`] connections, each with at most [`CHUNK_BYTES`] under way in each direction; further clients wait in the listen queue
//! (counted). [`DATAGRAM_FLOWS_MAX`] senders of datagrams: beyond it the one that has been silent longest is forgotten (counted), as
//! is one that is silent for [`DATAGRAM_IDLE_MAX`].

mod datagram;
mod stream;

use crate::error::WorldError;
use crate::reactor::{Interest, Reactor};
use datagram::Datagrams;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::str::FromStr;
use std::time::Duration;
use stream::{Connection, End};
use weft_core::control::Value;
use weft_core::table::Family;
use weft_core::{Instant, Table};
use weft_intercept::{SocketId, Stack};

/// Most connections at a time.
pub const CONNECTIONS_MAX: usize = 4096;
/// Most bytes that wait in one direction of a connection, and the largest datagram.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Most senders of datagrams at a time.
pub const DATAGRAM_FLOWS_MAX: usize = 1024;
/// A sender of datagrams that is silent for so long is forgotten.
pub const DATAGRAM_IDLE_MAX: Duration = Duration::from_secs(60);

/// EPOLLERR and EPOLLHUP.
const FAILED: u32 = 0x08 | 0x10;
const BACKLOG: i32 = 128;
/// Most clients taken from one listener before others get their turn.
const ACCEPTS_MAX: usize = 64;

/// What was asked for with `--publish`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Publish {
    /// Where to listen on the host; none: everywhere.
    pub address: Option<IpAddr>,
    /// The host's port.
    pub host_port: u16,
    /// The node's port.
    pub port: u16,
    /// UDP; otherwise TCP.
    pub udp: bool,
}

impl FromStr for Publish {
    type Err = String;

    /// `[HOST_ADDRESS:]HOST_PORT:PORT[/tcp|/udp]`; an IPv6 address in brackets.
    fn from_str(text: &str) -> Result<Publish, String> {
        let bad =
            |why: &str| Err(format!("{why}: write it as [HOST_ADDRESS:]HOST_PORT:PORT[/udp], for example 8080:80 or [::1]:5353:53/udp"));
        let (rest, udp) = match text.rsplit_once('/') {
            None => (text, false),
            Some((rest, "tcp")) => (rest, false),
            Some((rest, "udp")) => (rest, true),
            Some((_, other)) => return bad(&format!("'{other}' is neither tcp nor udp")),
        };
        let Some((rest, port)) = rest.rsplit_once(':') else { return bad("two ports are needed") };
        let (address, host_port) = match rest.rsplit_once(':') {
            None => (None, rest),
            Some((address, port)) => {
                let bare = address.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
                let parsed = match bare {
                    Some(inner) => inner.parse::<Ipv6Addr>().map(IpAddr::V6).ok(),
                    None => address.parse::<Ipv4Addr>().map(IpAddr::V4).ok(),
                };
                let Some(address) = parsed else { return bad(&format!("'{address}' is no address")) };
                (Some(address), port)
            }
        };
        let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
        match (number(host_port), number(port)) {
            (Some(host_port), Some(port)) => Ok(Publish { address, host_port, port, udp }),
            (None, _) => bad(&format!("'{host_port}' is no port")),
            _ => bad(&format!("'{port}' is no port")),
        }
    }
}

impl std::fmt::Display for Publish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            None => write!(f, "{}", self.host_port)?,
            Some(address) => write!(f, "{}", SocketAddr::new(address, self.host_port))?,
        }
        write!(f, ":{}{}", self.port, if self.udp { "/udp" } else { "" })
    }
}

/// What happened at a published port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Connections or senders so far.
    pub opened: u64,
    /// Nobody listened in the node, or the node's connection failed.
    pub failed: u64,
    /// How often the table of connections was full: clients waited, or a silent sender was forgotten.
    pub full: u64,
    /// Bytes from the host to the node.
    pub to_node_bytes: u64,
    /// Bytes from the node to the host.
    pub to_host_bytes: u64,
}

/// One published port.
struct Rule {
    publish: Publish,
    counts: Counts,
}

enum Listening {
    Stream { socket: TcpListener, rule: usize, paused: bool },
    Datagrams { datagrams: Datagrams, rule: usize },
}

/// All published ports of a world.
pub struct Publisher {
    rules: Vec<Rule>,
    /// Tokens 0 and up.
    listening: Vec<Listening>,
    /// Tokens after those.
    connections: BTreeMap<u64, Connection>,
    by_socket: BTreeMap<SocketId, u64>,
    /// To be pumped again in the next turn.
    unfinished: Vec<u64>,
    /// [`CONNECTIONS_MAX`], but in tests.
    connections_max: usize,
    next: u64,
    token: u64,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").field("rules", &self.rules.len()).field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}

impl Publisher {
    /// Listens on every port that is to be published. Tokens of the reactor are `token | number`.
    ///
    /// # Errors
    /// A port is taken, or not allowed; the message says which.
    pub fn new(publish: &[Publish], reactor: &Reactor, token: u64) -> Result<Publisher, WorldError> {
        let rules = publish.iter().map(|publish| Rule { publish: *publish, counts: Counts::default() }).collect();
        let mut publisher = Publisher {
            rules,
            listening: Vec::new(),
            connections: BTreeMap::new(),
            by_socket: BTreeMap::new(),
            unfinished: Vec::new(),
            connections_max: CONNECTIONS_MAX,
            next: 0,
            token,
        };
        for (rule, publish) in publish.iter().enumerate() {
            let failed = |why: io::Error| WorldError::Option { option: format!("--publish {publish}"), why: explain(&why) };
            for socket in listen(publish).map_err(failed)? {
                let token = token | publisher.listening.len() as u64;
                reactor.add(&socket, token, Interest::READ).map_err(failed)?;
                publisher.listening.push(match publish.udp {
                    false => Listening::Stream { socket: TcpListener::from(socket), rule, paused: false },
                    true => Listening::Datagrams { datagrams: Datagrams::new(UdpSocket::from(socket)), rule },
                });
            }
        }
        publisher.next = publisher.listening.len() as u64;
        Ok(publisher)
    }

    /// A descriptor of ours is ready, with these flags of epoll.
    pub fn ready(&mut self, number: u64, flags: u32, now: Instant, stack: &mut dyn Stack, reactor: &Reactor) {
        match usize::try_from(number).ok().and_then(|index| self.listening.get_mut(index)) {
            Some(Listening::Datagrams { datagrams, rule }) => {
                let rule = &mut self.rules[*rule];
                datagrams.receive(now, rule.publish.port, &mut rule.counts, stack);
            }
            Some(Listening::Stream { .. }) => self.accept(number as usize, stack, reactor),
            None => {
                let failed = flags & FAILED != 0 && self.connections.get(&number).is_some_and(Connection::client_has_failed);
                match failed {
                    true => self.end(number, End::ClientReset, stack, reactor),
                    false => self.pump(number, stack, reactor),
                }
            }
        }
    }

    /// The node has run: these of its sockets changed, ours perhaps among them.
    pub fn changed(&mut self, now: Instant, sockets: &[SocketId], stack: &mut dyn Stack, reactor: &Reactor) {
        for socket in sockets {
            if let Some(number) = self.by_socket.get(socket) {
                self.pump(*number, stack, reactor);
                continue;
            }
            for listening in &mut self.listening {
                if let Listening::Datagrams { datagrams, rule } = listening
                    && datagrams.answer(now, *socket, &mut self.rules[*rule].counts, stack)
                {
                    break;
                }
            }
        }
    }

    /// Is there anything to be done without waiting ([`Publisher::go_on`])?
    pub fn is_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Goes on with connections that had to let others have their turn.
    pub fn go_on(&mut self, stack: &mut dyn Stack, reactor: &Reactor) {
        let mut numbers = std::mem::take(&mut self.unfinished);
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().for_each(|number| self.pump(number, stack, reactor));
    }

    /// Forgets senders of datagrams that are silent, and tries again to take in clients that found no room.
    pub fn sweep(&mut self, now: Instant, stack: &mut dyn Stack, reactor: &Reactor) {
        if self.connections.len() < self.connections_max {
            self.resume(reactor);
        }
        for listening in &mut self.listening {
            if let Listening::Datagrams { datagrams, .. } = listening {
                datagrams.sweep(now, stack);
            }
        }
    }

    /// Must [`Publisher::sweep`] be called from time to time?
    pub fn needs_sweep(&self) -> bool {
        self.listening.iter().any(|listening| match listening {
            Listening::Datagrams { datagrams, .. } => datagrams.flows() > 0,
            Listening::Stream { paused, .. } => *paused,
        })
    }

    /// The node's sockets are gone (its block was replaced): clients get a reset.
    pub fn sockets_lost(&mut self, reactor: &Reactor) {
        for (_, connection) in std::mem::take(&mut self.connections) {
            connection.reset_client(reactor);
        }
        self.by_socket.clear();
        for listening in &mut self.listening {
            if let Listening::Datagrams { datagrams, .. } = listening {
                datagrams.forget();
            }
        }
        self.resume(reactor);
    }

    /// The node ends with its process: clients get a reset.
    pub fn close(&self) {
        self.connections.values().for_each(Connection::end);
    }

    /// One row a published port.
    pub fn rows(&self) -> Value {
        let row = |(index, rule): (usize, &Rule)| {
            let open = match rule.publish.udp {
                false => self.connections.values().filter(|connection| connection.rule() == index).count(),
                true => self
                    .listening
                    .iter()
                    .map(|one| {
                        if let Listening::Datagrams { datagrams, rule } = one
                            && *rule == index
                        {
                            datagrams.flows()
                        } else {
                            0
                        }
                    })
                    .sum(),
            };
            let Counts { opened, failed, full, to_node_bytes, to_host_bytes } = rule.counts;
            serde_json::json!({
                "published": rule.publish.to_string(), "open": open, "opened": opened, "failed": failed, "full": full,
                "to_node_bytes": to_node_bytes, "to_host_bytes": to_host_bytes,
            })
        };
        self.rules.iter().enumerate().map(row).collect::<Vec<_>>().into()
    }

    fn accept(&mut self, index: usize, stack: &mut dyn Stack, reactor: &Reactor) {
        for _ in 0..ACCEPTS_MAX {
            let Some(Listening::Stream { socket, rule, paused }) = self.listening.get_mut(index) else { return };
            let rule = *rule;
            if self.connections.len() >= self.connections_max {
                // The others wait in the listen queue, and must not keep us awake.
                *paused = true;
                self.rules[rule].counts.full += 1;
                let _ = reactor.modify(&*socket, self.token | index as u64, Interest::default());
                return;
            }
            let (client, from) = match socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if no_descriptors(&error) => {
                    // No descriptors: as with a full table.
                    *paused = true;
                    self.rules[rule].counts.full += 1;
                    let _ = reactor.modify(&*socket, self.token | index as u64, Interest::default());
                    return;
                }
                // Nobody waits, or whoever did is gone.
                Err(_) => return,
            };
            self.rules[rule].counts.opened += 1;
            let port = self.rules[rule].publish.port;
            let targets = targets(port, from.ip().to_canonical(), stack);
            let number = self.next;
            let Some(connection) = Connection::open(client, rule, targets, stack) else {
                self.rules[rule].counts.failed += 1;
                continue;
            };
            if reactor.add(connection.client(), self.token | number, Interest::READ).is_err() {
                connection.close(stack);
                continue;
            }
            self.next += 1;
            self.by_socket.insert(connection.socket(), number);
            self.connections.insert(number, connection);
            self.pump(number, stack, reactor);
        }
    }

    fn pump(&mut self, number: u64, stack: &mut dyn Stack, reactor: &Reactor) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let (before, counts) = (connection.socket(), &mut self.rules[connection.rule()].counts);
        let end = connection.pump(counts, stack);
        if connection.socket() != before {
            // The next address was tried.
            self.by_socket.remove(&before);
            self.by_socket.insert(connection.socket(), number);
        }
        match end {
            None => {
                connection.watch(reactor, self.token | number);
                if connection.is_unfinished() {
                    self.unfinished.push(number);
                }
            }
            Some(end) => self.end(number, end, stack, reactor),
        }
    }

    fn end(&mut self, number: u64, end: End, stack: &mut dyn Stack, reactor: &Reactor) {
        let Some(connection) = self.connections.remove(&number) else { return };
        self.by_socket.remove(&connection.socket());
        self.rules[connection.rule()].counts.failed += u64::from(end == End::Failed);
        match end {
            End::Finished => connection.close_both(reactor, stack),
            End::Failed | End::NodeReset => {
                connection.close(stack);
                connection.reset_client(reactor);
            }
            End::ClientReset => {
                let _ = reactor.remove(connection.client());
                connection.reset_node(stack);
            }
        }
        self.resume(reactor);
    }

    /// There is room again for clients that wait.
    fn resume(&mut self, reactor: &Reactor) {
        for (index, listening) in self.listening.iter_mut().enumerate() {
            if let Listening::Stream { socket, paused, .. } = listening
                && *paused
                && reactor.modify(&*socket, self.token | index as u64, Interest::READ).is_ok()
            {
                *paused = false;
            }
        }
    }
}

/// Where in the node a client is led, in the order of trying: the node's own addresses, those of the client's family first, then its loopback
/// (a program may listen on it alone).
fn targets(port: u16, client: IpAddr, stack: &mut dyn Stack) -> Vec<SocketAddr> {
    let mut own: Vec<IpAddr> = Vec::new();
    for family in [Family::V4, Family::V6] {
        for row in stack.table(Table::Addresses(family)) {
            let Some(address) = row["address"].as_str().and_then(|text| text.parse::<IpAddr>().ok()) else { continue };
            let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
            let of_family = own.iter().any(|other| other.is_ipv4() == address.is_ipv4());
            if !address.is_loopback() && !link_local && !of_family {
                own.push(address);
            }
        }
    }
    own.extend([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    own.sort_by_key(|address| (address.is_loopback(), address.is_ipv4() != client.is_ipv4()));
    own.into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

/// The host's sockets for a published port: one for each family, unless an address was given.
fn listen(publish: &Publish) -> io::Result<Vec<OwnedFd>> {
    let everywhere = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let addresses = publish.address.map_or(everywhere.to_vec(), |address| vec![address]);
    let mut sockets = Vec::new();
    for address in addresses {
        match listen_on(SocketAddr::new(address, publish.host_port), publish.udp) {
            Ok(socket) => sockets.push(socket),
            // A host without IPv6.
            Err(rustix::io::Errno::AFNOSUPPORT | rustix::io::Errno::ADDRNOTAVAIL) if publish.address.is_none() && address.is_ipv6() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sockets)
}

fn listen_on(address: SocketAddr, udp: bool) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = if udp { SocketType::DGRAM } else { SocketType::STREAM };
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if !udp {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    net::bind(&socket, &address)?;
    if !udp {
        net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

fn no_descriptors(error: &io::Error) -> bool {
    matches!(rustix::io::Errno::from_io_error(error), Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is taken on the host: choose another, or end what listens there (ss -ltnup)".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "not allowed: ports below 1024 need root or CAP_NET_BIND_SERVICE (sysctl net.ipv4.ip_unprivileged_port_start)".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "the host has no such address: see `ip address`".to_owned(),
        _ => error.to_string(),
    }
}

/// Shared by both kinds: a socket of the node on its way to one address.
fn connect(socket: SocketId, to: SocketAddr, stack: &mut dyn Stack) -> bool {
    use weft_intercept::Errno;
    matches!(stack.connect(socket, &weft_socket::address::to_bytes(to)), Ok(()) | Err(Errno::EINPROGRESS))
}

fn domain(address: &SocketAddr) -> i32 {
    i32::from(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }.as_raw())
}

/// To hand a descriptor to the reactor.
trait Client {
    fn client(&self) -> rustix::fd::BorrowedFd<'_>;
}

impl Client for Connection {
    fn client(&self) -> rustix::fd::BorrowedFd<'_> {
        self.stream().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::programs::Lent;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use weft_node::Node;
    use weft_socket::abi;

    const STACK: &str =
        "[[interface]]\nname = \"weft0\"\nbackend = \"memory:x\"\n[[address]]\ninterface = \"weft0\"\naddress = \"10.77.0.2/24\"\n";

    pub(super) fn node() -> Node {
        Node::check(&weft_node::Stack::parse("test", STACK).unwrap()).unwrap()
    }

    /// A few turns of a world.
    fn turns(publisher: &mut Publisher, node: &mut Node, clock: &Clock, reactor: &mut Reactor) {
        for _ in 0..20 {
            let mut ready = Vec::new();
            reactor.wait(Some(Duration::from_millis(2)), &mut ready).unwrap();
            for (token, flags) in ready {
                publisher.ready(token, flags, clock.now(), &mut Lent { node, clock, others: None }, reactor);
            }
            node.run(clock.now());
            let mut lent = Lent { node, clock, others: None };
            let changed = lent.take_changed();
            publisher.changed(clock.now(), &changed, &mut lent, reactor);
        }
    }

    #[test]
    fn clients_beyond_the_bound_wait_until_another_goes() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (mut node, clock, mut reactor) = (node(), Clock::default(), Reactor::new().unwrap());
        let publish = format!("127.0.0.1:{port}:80").parse().unwrap();
        let mut publisher = Publisher::new(&[publish], &reactor, 0).unwrap();
        publisher.connections_max = 2;
        let mut lent = Lent { node: &mut node, clock: &clock, others: None };
        let server = lent.socket(2, abi::SOCK_STREAM, 0).unwrap();
        lent.bind(server, &weft_socket::address::to_bytes("0.0.0.0:80".parse().unwrap())).unwrap();
        lent.listen(server, 9).unwrap();
        let mut clients: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        turns(&mut publisher, &mut node, &clock, &mut reactor);
        let row = |publisher: &Publisher| publisher.rows()[0].clone();
        assert_eq!((&row(&publisher)["open"], &row(&publisher)["full"]), (&2.into(), &1.into()));
        clients[2].write_all(b"third").unwrap();
        let mut lent = Lent { node: &mut node, clock: &clock, others: None };
        let accepted: Vec<SocketId> = std::iter::from_fn(|| lent.accept(server).ok()).collect();
        assert_eq!(accepted.len(), 2);
        // The first goes, in order.
        clients.remove(0);
        lent.shutdown(accepted[0], abi::SHUT_WR).unwrap();
        turns(&mut publisher, &mut node, &clock, &mut reactor);
        let mut lent = Lent { node: &mut node, clock: &clock, others: None };
        let third = lent.accept(server).unwrap();
        assert_eq!(lent.receive(third, 99, abi::MSG_DONTWAIT).unwrap().data.concat(), b"third");
        // The node resets it: so does the host.
        lent.set_option(third, abi::SOL_SOCKET, abi::SO_LINGER, &[1i32.to_ne_bytes(), [0; 4]].concat()).unwrap();
        lent.close(third);
        turns(&mut publisher, &mut node, &clock, &mut reactor);
        assert_eq!(clients[1].read(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(row(&publisher)["open"], 1);
    }

    #[test]
    fn what_is_to_be_published_is_read_and_written() {
        for text in ["8080:80", "5353:53/udp", "127.0.0.1:8080:80", "[::1]:8080:80/udp"] {
            assert_eq!(text.parse::<Publish>().unwrap().to_string(), text);
        }
        let publish = Publish { address: Some(Ipv6Addr::LOCALHOST.into()), host_port: 8080, port: 80, udp: true };
        assert_eq!("[::1]:8080:80/udp".parse(), Ok(publish));
        assert_eq!("8080:80/tcp".parse::<Publish>().unwrap().to_string(), "8080:80");
        for (text, why) in [
            ("80", "two ports are needed"),
            ("a:80", "'a' is no port"),
            ("80:0", "'0' is no port"),
            ("80:70000", "'70000' is no port"),
            ("host:80:80", "'host' is no address"),
            ("::1:80:80", "'::1' is no address"),
            ("80:80/sctp", "'sctp' is neither"),
        ] {
            let error = text.parse::<Publish>().unwrap_err();
            assert!(error.starts_with(why) && error.contains("HOST_PORT:PORT"), "{text}: {error}");
        }
    }
}
