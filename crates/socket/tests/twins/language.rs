//! The language of twin bodies: small steps, one a line, executed by a [`Host`]; the transcript is every line with what came of it.
//!
//! ```text
//! L = socket stream
//! bind L 127.0.0.1:0
//! listen L 5
//! C = socket stream
//! connect C 127.0.0.1:@L        # @L: the port of L
//! settle                        # let everything in flight arrive
//! A = accept L
//! send A "hello"
//! recv C 100 peek
//! ```
//! Sockets are `stream`, `dgram`, of IPv6 `stream6` and `dgram6`; addresses `127.0.0.1:80`, `[::1]:80`, `[fe80::1%2]:80`. Ports are written `p1` … `p9` (a number of the body's own), `@X` (the port of socket X) or plain. In transcripts ephemeral ports become
//! `e1`, `e2` … in the order in which they appear, so that hosts that choose differently give the same text. A port of IPv6 has another name than the same
//! number in IPv4: Linux chooses for each family by itself, and once in thousands of runs it chooses the same number twice.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use weft_socket::{Errno, Poll, abi, address, options};

/// A socket is full when it took nothing for so many times of settling: on Linux, longer than an acknowledgment is ever delayed (200 ms, TCP_DELACK_MAX;
/// 40 ms where all goes well).
const FULL_SETTLES: u32 = 50;

pub type Done<T> = Result<T, Errno>;

/// What a receive gave.
#[derive(Debug, Default)]
pub struct Got {
    pub count: usize,
    pub data: Vec<u8>,
    pub from: Vec<u8>,
    pub flags: i32,
    pub control: Vec<u8>,
}

/// Something with Linux's socket calls. No call blocks.
pub trait Host {
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Done<usize>;
    fn bind(&mut self, s: usize, address: &[u8]) -> Done<()>;
    fn connect(&mut self, s: usize, address: &[u8]) -> Done<()>;
    fn listen(&mut self, s: usize, backlog: i32) -> Done<()>;
    fn accept(&mut self, s: usize) -> Done<(usize, Vec<u8>)>;
    fn shutdown(&mut self, s: usize, how: i32) -> Done<()>;
    fn local(&mut self, s: usize) -> Done<Vec<u8>>;
    fn peer(&mut self, s: usize) -> Done<Vec<u8>>;
    fn get(&mut self, s: usize, level: i32, name: i32, length: usize) -> Done<Vec<u8>>;
    fn set(&mut self, s: usize, level: i32, name: i32, value: &[u8]) -> Done<()>;
    fn send(&mut self, s: usize, data: &[u8], flags: i32, to: Option<&[u8]>, control: &[u8]) -> Done<usize>;
    fn receive(&mut self, s: usize, length: usize, flags: i32) -> Done<Got>;
    /// The same where the step asks for nothing but data: a host may have a plainer call for that.
    fn receive_data(&mut self, s: usize, length: usize, flags: i32) -> Done<Got> {
        self.receive(s, length, flags)
    }
    fn ioctl(&mut self, s: usize, request: u64) -> Done<i32>;
    fn poll(&mut self, s: usize) -> Poll;
    fn close(&mut self, s: usize);
    /// Waits until what is in flight on the loopback has arrived.
    fn settle(&mut self);
}

/// A run of one body.
struct Run<'a> {
    host: &'a mut dyn Host,
    sockets: BTreeMap<String, usize>,
    /// First of the ten ports that belong to this body.
    base_port: u16,
    /// Whether it is one of IPv6 (and not mapped), and the port.
    ephemeral: Vec<(bool, u16)>,
    /// Sockets that read packets with their IPv4 header.
    raw: std::collections::BTreeSet<String>,
}

/// Executes a body and returns its transcript.
pub fn run(host: &mut dyn Host, body: &str, base_port: u16) -> String {
    let mut run = Run { host, sockets: BTreeMap::new(), base_port, ephemeral: Vec::new(), raw: Default::default() };
    let mut out = String::new();
    for line in body.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty()) {
        let result = match run.step(line) {
            Ok(text) => text,
            Err(errno) => format!("{errno:?}"),
        };
        let _ = writeln!(out, "{line} -> {result}");
    }
    for s in std::mem::take(&mut run.sockets).into_values() {
        run.host.close(s);
    }
    out
}

/// Splits a line into words; a quoted text is one word.
fn words(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = match rest.strip_prefix('"') {
            Some(quoted) => quoted.find('"').map_or(rest.len(), |at| at + 2),
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        out.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    out
}

fn flag(word: &str) -> i32 {
    match word {
        "oob" => abi::MSG_OOB,
        "peek" => abi::MSG_PEEK,
        "trunc" => abi::MSG_TRUNC,
        "dontwait" => abi::MSG_DONTWAIT,
        "waitall" => abi::MSG_WAITALL,
        "more" => abi::MSG_MORE,
        "errqueue" => abi::MSG_ERRQUEUE,
        "nosignal" => abi::MSG_NOSIGNAL,
        "fastopen" => abi::MSG_FASTOPEN,
        "confirm" => abi::MSG_CONFIRM,
        "eor" => abi::MSG_EOR,
        "zerocopy" => abi::MSG_ZEROCOPY,
        other => panic!("no flag named {other}"),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let text: String = text.chars().filter(|c| c.is_ascii_hexdigit()).collect();
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).expect("hexadecimal digits")).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An option by Linux's name (of the model's table), or `level/name` in numbers.
fn option(word: &str) -> (i32, i32) {
    if let Some((level, name)) = word.split_once('/') {
        return (level.parse().expect("a level"), name.parse().expect("a number"));
    }
    let row = options::rows().find(|row| row.label == word).unwrap_or_else(|| panic!("no option named {word}"));
    (row.level, row.name)
}

/// A value: `7` an int, `0x0102` bytes, `linger:1,0`, `timeval:1,500000`, `text:reno`, `empty`.
fn value(word: &str) -> Vec<u8> {
    let numbers = |text: &str| -> Vec<i64> { text.split(',').map(|part| part.parse().expect("a number")).collect() };
    if let Some(bytes) = word.strip_prefix("0x") {
        return hex(bytes);
    }
    match word.split_once(':') {
        Some(("linger", parts)) => numbers(parts).iter().flat_map(|part| (*part as i32).to_ne_bytes()).collect(),
        Some(("timeval", parts)) => numbers(parts).iter().flat_map(|part| part.to_ne_bytes()).collect(),
        Some(("group", parts)) => group_request(parts),
        Some(("filter", parts)) => group_filter(parts),
        Some(("bpf", steps)) => steps.split(';').flat_map(instruction).collect(),
        Some(("u64", part)) => part.parse::<u64>().expect("a number").to_ne_bytes().to_vec(),
        Some(("text", text)) => text.as_bytes().to_vec(),
        _ if word == "empty" => Vec::new(),
        _ => word.parse::<i32>().expect("a number").to_ne_bytes().to_vec(),
    }
}

/// `code,jt,jf,k`: a `struct sock_filter`. A host whose setsockopt wants a `struct sock_fprog` makes it of these.
fn instruction(text: &str) -> Vec<u8> {
    let numbers: Vec<u32> = text.split(',').map(|part| part.parse().expect("a number")).collect();
    let [code, jt, jf, k] = numbers[..] else { panic!("four numbers an instruction") };
    let mut out = (code as u16).to_ne_bytes().to_vec();
    out.extend([jt as u8, jf as u8]);
    out.extend(k.to_ne_bytes());
    out
}

/// A `struct sockaddr_storage` with this address.
fn storage(ip: &str) -> Vec<u8> {
    let mut bytes = address::to_bytes(std::net::SocketAddr::new(ip.parse().expect("an address"), 0));
    bytes.resize(128, 0);
    bytes
}

/// `interface,group` or `interface,group,source`: a `struct group_req` or `struct group_source_req`.
fn group_request(parts: &str) -> Vec<u8> {
    let (interface, addresses) = parts.split_once(',').expect("an interface and a group");
    let mut out = interface.parse::<u64>().expect("a number").to_ne_bytes().to_vec();
    out.extend(addresses.split(',').flat_map(storage));
    out
}

/// `interface,group,mode[,source…]`: a `struct group_filter`.
fn group_filter(parts: &str) -> Vec<u8> {
    let parts: Vec<&str> = parts.split(',').collect();
    let [interface, group, mode, sources @ ..] = parts.as_slice() else { panic!("an interface, a group and a mode") };
    let mut out = interface.parse::<u64>().expect("a number").to_ne_bytes().to_vec();
    out.extend(storage(group));
    out.extend(mode.parse::<u32>().expect("a number").to_ne_bytes());
    out.extend((sources.len() as u32).to_ne_bytes());
    out.extend(sources.iter().flat_map(|source| storage(source)));
    out
}

impl Run<'_> {
    fn s(&self, name: &str) -> usize {
        *self.sockets.get(name).unwrap_or_else(|| panic!("no socket named {name}"))
    }

    /// Gives a name to a socket; the one that had it is closed.
    fn name(&mut self, name: &str, s: usize) {
        if let Some(old) = self.sockets.insert(name.to_owned(), s) {
            self.host.close(old);
        }
    }

    fn port_of(&mut self, name: &str) -> u16 {
        let Some(s) = self.sockets.get(name).copied() else { return 9 };
        self.host.local(s).ok().and_then(|bytes| address::parse(&bytes)).map_or(0, |address| address.port())
    }

    /// The bytes of an address as a body writes it.
    fn address(&mut self, word: &str) -> Vec<u8> {
        if word == "unspec" {
            return vec![0; 16];
        }
        if let Some(bytes) = word.strip_prefix("raw:") {
            return hex(bytes);
        }
        let (ip, port) = word.rsplit_once(':').expect("address:port");
        let port = match (port.strip_prefix('@'), port.strip_prefix('p')) {
            (Some(name), _) => self.port_of(name),
            (_, Some(digit)) => self.base_port + digit.parse::<u16>().expect("p1 to p9"),
            _ => port.parse().expect("a port"),
        };
        let Some(v6) = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')) else {
            return address::to_bytes(std::net::SocketAddr::new(ip.parse().expect("an address"), port));
        };
        let (v6, scope) = v6.split_once('%').unwrap_or((v6, "0"));
        let (v6, scope) = (v6.parse().expect("an address"), scope.parse().expect("an interface's number"));
        address::to_bytes(std::net::SocketAddrV6::new(v6, port, 0, scope).into())
    }

    /// An address as a transcript shows it.
    fn show(&mut self, bytes: &[u8]) -> String {
        if bytes.is_empty() {
            return "-".to_owned();
        }
        let Some(address) = address::parse(bytes) else { return format!("raw:{}", to_hex(bytes)) };
        let port = match address.port() {
            port @ 0..1024 => port.to_string(),
            port if (self.base_port..self.base_port + 10).contains(&port) => format!("p{}", port - self.base_port),
            port => {
                let port = (address.ip().to_canonical().is_ipv6(), port);
                let at = self.ephemeral.iter().position(|seen| *seen == port).unwrap_or_else(|| {
                    self.ephemeral.push(port);
                    self.ephemeral.len() - 1
                });
                format!("e{}", at + 1)
            }
        };
        match address {
            std::net::SocketAddr::V4(v4) => format!("{}:{port}", v4.ip()),
            std::net::SocketAddr::V6(v6) => {
                let scope = if v6.scope_id() == 0 { String::new() } else { format!("%{}", v6.scope_id()) };
                let flow = if v6.flowinfo() == 0 { String::new() } else { format!(" flow {:#x}", v6.flowinfo()) };
                format!("[{}{scope}]:{port}{flow}", v6.ip())
            }
        }
    }

    /// An ephemeral port that nothing holds, no TIME-WAIT of an earlier body either: a socket like this one had it a moment ago.
    fn free_port(&mut self, like: usize) -> Done<u16> {
        let mut number = |name: i32| -> Done<i32> {
            Ok(i32::from_ne_bytes(self.host.get(like, abi::SOL_SOCKET, name, 4)?.try_into().unwrap_or_default()))
        };
        let (domain, kind) = (number(abi::SO_DOMAIN)?, number(abi::SO_TYPE)?);
        let s = self.host.socket(domain, kind, 0)?;
        let everywhere = if domain == 10 { "[::]:0" } else { "0.0.0.0:0" };
        self.host.bind(s, &address::to_bytes(everywhere.parse().expect("an address")))?;
        let port = self.host.local(s).ok().and_then(|bytes| address::parse(&bytes)).map_or(0, |address| address.port());
        self.host.close(s);
        Ok(port)
    }

    fn step(&mut self, line: &str) -> Done<String> {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ok = |(): ()| "ok".to_owned();
        match words.as_slice() {
            [name, "=", "socket", kind @ ..] => {
                let number = |at: usize, otherwise: i32| kind.get(at).map_or(otherwise, |word| word.parse().expect("a number"));
                let (domain, kind, protocol) = match kind {
                    ["stream"] => (2, 1, 0),
                    ["dgram"] => (2, 2, 0),
                    ["stream6"] => (10, 1, 0),
                    ["dgram6"] => (10, 2, 0),
                    _ => (number(0, 2), number(1, 1), number(2, 0)),
                };
                let s = self.host.socket(domain, kind, protocol)?;
                self.name(name, s);
                if (domain, kind) == (2, 3) {
                    self.raw.insert((*name).to_owned());
                }
                Ok("ok".to_owned())
            }
            [_, "=", "accept", listener] if !self.sockets.contains_key(*listener) => Ok("no such socket".to_owned()),
            [name, "=", "accept", listener] => {
                let s = self.s(listener);
                let (s, from) = self.host.accept(s)?;
                self.name(name, s);
                Ok(format!("ok from {}", self.show(&from)))
            }
            // A step about a socket that an earlier step failed to make is left out on every host.
            [step, name, ..] if *step != "settle" && !self.sockets.contains_key(*name) => Ok("no such socket".to_owned()),
            ["settle"] => {
                self.host.settle();
                Ok("ok".to_owned())
            }
            ["narrow", first, ..] => {
                let port = self.free_port(self.s(first))?;
                let range = [port.to_ne_bytes(), port.to_ne_bytes()].concat();
                for name in &words[1..] {
                    self.host.set(self.s(name), abi::SOL_IP, abi::IP_LOCAL_PORT_RANGE, &range)?;
                }
                Ok("ok".to_owned())
            }
            ["bind", name, to] => {
                let to = self.address(to);
                self.host.bind(self.s(name), &to).map(ok)
            }
            ["connect", name, to] => {
                let to = self.address(to);
                self.host.connect(self.s(name), &to).map(ok)
            }
            ["listen", name, backlog] => self.host.listen(self.s(name), backlog.parse().expect("a number")).map(ok),
            ["shutdown", name, how] => {
                let how = match *how {
                    "rd" => 0,
                    "wr" => 1,
                    "rdwr" => 2,
                    other => other.parse().expect("a number"),
                };
                self.host.shutdown(self.s(name), how).map(ok)
            }
            ["name", name] => {
                let bytes = self.host.local(self.s(name))?;
                Ok(self.show(&bytes))
            }
            ["peer", name] => {
                let bytes = self.host.peer(self.s(name))?;
                Ok(self.show(&bytes))
            }
            ["poll", name] => Ok(format!("{:?}", self.host.poll(self.s(name)))),
            ["ioctl", name, request] => {
                let request = match *request {
                    "FIONREAD" => abi::FIONREAD,
                    "SIOCOUTQ" => abi::SIOCOUTQ,
                    "SIOCOUTQNSD" => abi::SIOCOUTQNSD,
                    "SIOCATMARK" => abi::SIOCATMARK,
                    other => panic!("no request named {other}"),
                };
                self.host.ioctl(self.s(name), request).map(|number| number.to_string())
            }
            ["close", name] => {
                if let Some(s) = self.sockets.remove(*name) {
                    self.host.close(s);
                }
                Ok("ok".to_owned())
            }
            _ => self.transfer(&words),
        }
    }

    fn transfer(&mut self, words: &[&str]) -> Done<String> {
        let flags = |words: &[&str]| words.iter().map(|word| flag(word)).fold(0, |all, one| all | one);
        match words {
            ["get", name, label] => self.get(name, label, 4),
            ["get", name, label, length] => self.get(name, label, length.parse().expect("a length")),
            ["set", name, label, to] => {
                let (level, option) = option(label);
                self.host.set(self.s(name), level, option, &value(to)).map(|()| "ok".to_owned())
            }
            // How long a value is that differs from run to run.
            ["length", name, label, length] => {
                let (level, option) = option(label);
                let value = self.host.get(self.s(name), level, option, length.parse().expect("a length"))?;
                Ok(value.len().to_string())
            }
            // Sets each value and reads it back.
            ["try", name, label, values @ ..] => {
                let tried = values.iter().map(|to| {
                    let (level, option) = option(label);
                    let set = self.host.set(self.s(name), level, option, &value(to));
                    let set = set.map_or_else(|errno| format!("{errno:?}"), |()| "ok".to_owned());
                    let got = self.get(name, label, 4).unwrap_or_else(|errno| format!("{errno:?}"));
                    format!("{to}:{set},{got}")
                });
                Ok(tried.collect::<Vec<_>>().join(" "))
            }
            // Reads, or sets to a value, the options with these numbers.
            [step @ ("gets" | "sets"), name, level, argument, numbers @ ..] => {
                let done = numbers.iter().map(|number| {
                    let label = format!("{level}/{number}");
                    let result = match *step {
                        "gets" => self.get(name, &label, argument.parse().expect("a length")),
                        _ => {
                            let (level, option) = option(&label);
                            self.host.set(self.s(name), level, option, &value(argument)).map(|()| "ok".to_owned())
                        }
                    };
                    format!("{number}:{}", result.unwrap_or_else(|errno| format!("{errno:?}")))
                });
                Ok(done.collect::<Vec<_>>().join(" "))
            }
            ["send", name, what, rest @ ..] => {
                let data = payload(what);
                let sent = self.host.send(self.s(name), &data, flags(rest) | abi::MSG_NOSIGNAL, None, &[])?;
                Ok(if sent == data.len() { "all".to_owned() } else { "part".to_owned() })
            }
            ["sendto", name, what, to, rest @ ..] => {
                let to = self.address(to);
                let data = payload(what);
                let sent = self.host.send(self.s(name), &data, flags(rest) | abi::MSG_NOSIGNAL, Some(&to), &[])?;
                Ok(if sent == data.len() { "all".to_owned() } else { "part".to_owned() })
            }
            ["sendmsg", name, what, to, "cmsg", level, kind, data] => {
                let to = if *to == "-" { None } else { Some(self.address(to)) };
                let bytes = value(data);
                let mut control = Vec::new();
                control.extend((16 + bytes.len() as u64).to_ne_bytes());
                control.extend(level.parse::<i32>().expect("a level").to_ne_bytes());
                control.extend(kind.parse::<i32>().expect("a type").to_ne_bytes());
                control.extend(&bytes);
                control.resize(control.len().div_ceil(8) * 8, 0);
                self.host.send(self.s(name), &payload(what), abi::MSG_NOSIGNAL, to.as_deref(), &control).map(|sent| sent.to_string())
            }
            // Sends until nothing more is taken; how much that was is nobody's business.
            ["fill", name] => self.fill(name),
            // Receives until nothing more comes.
            ["drain", name] => {
                let s = self.s(name);
                for _ in 0..100_000 {
                    if self.host.receive_data(s, 65536, 0)?.count == 0 {
                        return Ok("end".to_owned());
                    }
                }
                Ok("never empty".to_owned())
            }
            ["recv", name, length, rest @ ..] => self.receive(name, length, flags(rest), false),
            ["recvmsg", name, length, rest @ ..] => self.receive(name, length, flags(rest), true),
            other => panic!("no such step: {other:?}"),
        }
    }

    /// Sends until nothing more goes in, nor does for a while: an acknowledgment that the receiver delays makes room once more.
    fn fill(&mut self, name: &str) -> Done<String> {
        let (s, piece, mut settled) = (self.s(name), vec![b'f'; 16384], 0);
        for _ in 0..4096 {
            match self.host.send(s, &piece, abi::MSG_NOSIGNAL, None, &[]) {
                Ok(_) => settled = 0,
                Err(errno) if settled == FULL_SETTLES => return Err(errno),
                Err(_) => {
                    self.host.settle();
                    settled += 1;
                }
            }
        }
        Ok("never full".to_owned())
    }

    fn get(&mut self, name: &str, label: &str, length: usize) -> Done<String> {
        let (level, option) = option(label);
        let bytes = self.host.get(self.s(name), level, option, length)?;
        Ok(match (<[u8; 4]>::try_from(bytes.as_slice()), label) {
            (Ok(int), "SO_ERROR") => match i32::from_ne_bytes(int) {
                0 => "0".to_owned(),
                errno => format!("{:?}", Errno(errno)),
            },
            (Ok(int), _) => i32::from_ne_bytes(int).to_string(),
            _ if bytes.is_empty() => "nothing".to_owned(),
            _ => format!("0x{}", to_hex(&bytes)),
        })
    }

    fn receive(&mut self, name: &str, length: &str, flags: i32, whole: bool) -> Done<String> {
        let (s, length) = (self.s(name), length.parse().expect("a length"));
        let got = if whole { self.host.receive(s, length, flags)? } else { self.host.receive_data(s, length, flags)? };
        let mut out = got.count.to_string();
        if !got.data.is_empty() {
            let same = got.data.iter().all(|byte| *byte == got.data[0]);
            let text = String::from_utf8_lossy(&got.data).into_owned();
            let plain = got.data.iter().all(|byte| (0x20..0x7f).contains(byte));
            let _ = if !plain {
                write!(out, " {}", show_bytes(&got.data, self.raw.contains(name)))
            } else if same && got.data.len() > 40 {
                write!(out, " {:?}*{}", text[..1].to_owned(), text.len())
            } else {
                write!(out, " {text:?}")
            };
        }
        for (bit, label) in [(abi::MSG_TRUNC, "TRUNC"), (abi::MSG_OOB, "OOB"), (abi::MSG_CTRUNC, "CTRUNC"), (abi::MSG_ERRQUEUE, "ERRQUEUE")]
        {
            if got.flags & bit != 0 {
                let _ = write!(out, " {label}");
            }
        }
        if whole {
            let from = self.show(&got.from);
            let _ = write!(out, " from {from}");
            self.show_control(&got.control, &mut out);
        }
        Ok(out)
    }

    fn show_control(&mut self, mut control: &[u8], out: &mut String) {
        while let Some((length, rest)) = control.first_chunk::<8>().map(|bytes| (u64::from_ne_bytes(*bytes) as usize, &control[8..])) {
            let int = |at: usize| i32::from_ne_bytes(rest[at..at + 4].try_into().expect("four bytes"));
            let (level, kind) = (int(0), int(4));
            let data = &control[16..length];
            // Times differ from run to run.
            let timed = level == abi::SOL_SOCKET && matches!(kind, 29 | 35 | 37 | 63 | 64 | 65);
            let text = if timed { format!("{} bytes of time", data.len()) } else { to_hex(data) };
            let _ = write!(out, " cmsg({level},{kind},{text})");
            control = &control[length.div_ceil(8).min(control.len().div_ceil(8)) * 8..];
        }
    }
}

/// Bytes in hexadecimal, long ones cut. Of an IPv4 header, identification and checksum differ from run to run: what matters is whether they
/// are there and right.
fn show_bytes(bytes: &[u8], with_header: bool) -> String {
    let rest = if bytes.len() > 80 { format!("…{}", bytes.len()) } else { String::new() };
    let shown = &bytes[..bytes.len().min(80)];
    if !with_header || shown.len() < 8 || shown[0] >> 4 != 4 {
        return to_hex(shown) + &rest;
    }
    let header = usize::from(shown[0] & 0xf) * 4;
    if shown.len() < header || header < 20 {
        return format!("{}(id){}{rest}", to_hex(&shown[..4]), to_hex(&shown[6..shown.len().min(10)]));
    }
    let sum: u32 = shown[..header].as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let verdict = if (sum & 0xffff) + (sum >> 16) == 0xffff { "good" } else { "bad" };
    format!("{}(id){}({verdict}){}{rest}", to_hex(&shown[..4]), to_hex(&shown[6..10]), to_hex(&shown[12..]))
}

/// `"text"`, `N*c` (N times the character c), `hex:0800…`, or several of them joined by `+`.
fn payload(word: &str) -> Vec<u8> {
    if let Some((first, rest)) = word.split_once('+').filter(|_| word.starts_with("hex:")) {
        return [payload(first), payload(rest)].concat();
    }
    if let Some(bytes) = word.strip_prefix("hex:") {
        return hex(bytes);
    }
    match (word.strip_prefix('"').and_then(|text| text.strip_suffix('"')), word.split_once('*')) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some((count, character))) => character.repeat(count.parse().expect("a count")).into_bytes(),
        _ => panic!("no payload: {word}"),
    }
}
