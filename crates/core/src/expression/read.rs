//! A text read as an expression.

use super::tree::{
    Addresses, Base, DEPTH_MAX, EXPRESSION_BYTES_MAX, Ends, ExpressionError, Framing, Operation, Ports, Prefix, Relation, Sum, Test, Way,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const RELATIONS: &[(&str, Relation)] = &[
    ("=", Relation::Equal),
    ("==", Relation::Equal),
    ("!=", Relation::NotEqual),
    (">", Relation::Greater),
    (">=", Relation::GreaterOrEqual),
    ("<", Relation::Less),
    ("<=", Relation::LessOrEqual),
];
/// Operators of arithmetic, those that bind least first.
const OPERATORS: [&[(&str, Operation)]; 5] = [
    &[("|", Operation::Or)],
    &[("&", Operation::And)],
    &[("<<", Operation::ShiftLeft), (">>", Operation::ShiftRight)],
    &[("+", Operation::Add), ("-", Operation::Subtract)],
    &[("*", Operation::Multiply), ("/", Operation::Divide)],
];
/// Protocols of IP: name, number, over IPv4, over IPv6. Those that libpcap knows.
const PROTOCOLS: &[(&str, u8, bool, bool)] = &[
    ("icmp", 1, true, false),
    ("igmp", 2, true, false),
    ("tcp", 6, true, true),
    ("udp", 17, true, true),
    ("esp", 50, true, true),
    ("ah", 51, true, true),
    ("icmp6", 58, false, true),
    ("pim", 103, true, true),
    ("sctp", 132, true, true),
];
const ETHER_TYPES: &[(&str, u16)] = &[("ip", 0x0800), ("ip6", 0x86dd), ("arp", 0x0806), ("rarp", 0x8035)];
/// Names of ports that need no file.
const PORTS: &[(&str, u16)] = &[("ftp", 21), ("ssh", 22), ("smtp", 25), ("domain", 53), ("http", 80), ("ntp", 123), ("https", 443)];
/// Names that pcap-filter(7) has for offsets and values.
const NUMBERS: &[(&str, u32)] = &[
    ("tcpflags", 13),
    ("tcp-fin", 1),
    ("tcp-syn", 2),
    ("tcp-rst", 4),
    ("tcp-push", 8),
    ("tcp-ack", 16),
    ("tcp-urg", 32),
    ("tcp-ece", 64),
    ("tcp-cwr", 128),
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
];

/// Reads all of a text.
pub(super) fn read(text: &str, framing: Framing) -> Result<Test, ExpressionError> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(ExpressionError::Length(text.len()));
    }
    let words = words(text);
    let mut reader = Reader { words: &words, at: 0, depth: 0, framing, last: None };
    let test = reader.expression()?;
    match reader.peek() {
        None => Ok(test),
        Some(_) => Err(reader.wrong("it has no place here; between two conditions stands 'and' or 'or'")),
    }
}

/// Words, numbers and addresses; signs of one or two letters. A colon belongs to addresses but for that in `[0:2]`.
fn words(text: &str) -> Vec<&str> {
    const TWO: [&str; 8] = ["<=", ">=", "!=", "==", "<<", ">>", "&&", "||"];
    let mut found = Vec::new();
    let (mut rest, mut brackets) = (text.trim_start(), 0_u32);
    while let Some(first) = rest.chars().next() {
        let part_of_word = |c: char| c.is_alphanumeric() || "._%".contains(c) || c == ':' && brackets == 0;
        let mut end = rest.find(|c: char| !part_of_word(c)).unwrap_or(rest.len());
        // `tcp-syn`, `icmp-echo` are words, `tcp[0]-1` is a difference; so is `192.0.2.0/24` one prefix and `len/2` a quotient.
        if let Some(name) =
            NUMBERS.iter().map(|(name, _)| *name).filter(|name| name.contains('-') && rest.starts_with(name)).max_by_key(|name| name.len())
        {
            end = name.len();
        }
        if end == 0 {
            end = if TWO.iter().any(|two| rest.starts_with(two)) { 2 } else { first.len_utf8() };
            match first {
                '[' => brackets += 1,
                ']' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
        }
        let (word, behind) = rest.split_at(end);
        found.push(word);
        rest = behind.trim_start();
    }
    found
}

/// What stands in front of a value.
#[derive(Clone, Copy)]
struct Qualifiers<'a> {
    protocol: Option<&'a str>,
    ends: Option<Ends>,
    kind: Option<&'a str>,
}

struct Reader<'a> {
    words: &'a [&'a str],
    at: usize,
    depth: usize,
    framing: Framing,
    /// `host a or b` is short for `host a or host b`.
    last: Option<Qualifiers<'a>>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn ahead(&self, words: usize) -> Option<&'a str> {
        self.words.get(self.at + words).copied()
    }

    fn take(&mut self, wanted: &[&str]) -> Option<&'a str> {
        let word = self.peek().filter(|word| wanted.contains(word))?;
        self.at += 1;
        Some(word)
    }

    /// About the next word.
    fn wrong(&self, wanted: impl Into<String>) -> ExpressionError {
        let wanted = wanted.into();
        match self.peek() {
            Some(word) => ExpressionError::Word { word: word.chars().take(40).collect(), at: self.at + 1, wanted },
            None => ExpressionError::End(wanted),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, ExpressionError>) -> Result<T, ExpressionError> {
        if self.depth >= DEPTH_MAX {
            return Err(ExpressionError::Depth);
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// pcap-filter(7): "Alternation and concatenation have equal precedence and associate left to right."
    fn expression(&mut self) -> Result<Test, ExpressionError> {
        let mut left = self.term(false)?;
        let mut terms = 1;
        while let Some(word) = self.take(&["and", "&&", "or", "||"]) {
            // The tree leans to the left; it is walked recursively.
            terms += 1;
            if terms > DEPTH_MAX * 4 {
                return Err(ExpressionError::Depth);
            }
            let right = self.term(true)?;
            let (left_box, right_box) = (Box::new(left), Box::new(right));
            left = if ["and", "&&"].contains(&word) { Test::And(left_box, right_box) } else { Test::Or(left_box, right_box) };
        }
        Ok(left)
    }

    fn term(&mut self, follows: bool) -> Result<Test, ExpressionError> {
        if self.take(&["not", "!"]).is_some() {
            return self.deeper(|reader| Ok(Test::Not(Box::new(reader.term(follows)?))));
        }
        if let Some(test) = self.comparison()? {
            return Ok(test);
        }
        if self.take(&["("]).is_some() {
            let test = self.deeper(Self::expression)?;
            self.close(")")?;
            return Ok(test);
        }
        self.primitive(follows)
    }

    fn close(&mut self, sign: &str) -> Result<(), ExpressionError> {
        match self.take(&[sign]) {
            Some(_) => Ok(()),
            None => Err(self.wrong(format!("here belongs '{sign}'"))),
        }
    }

    /// Arithmetic, a relation, arithmetic. None: this is something else, and nothing is read.
    fn comparison(&mut self) -> Result<Option<Test>, ExpressionError> {
        let start = self.at;
        let mut needs = Vec::new();
        let left = self.sum(0, &mut needs);
        let relation = self.peek().and_then(|word| RELATIONS.iter().find(|(name, _)| *name == word));
        let (left, how) = match (left, relation) {
            (Ok(left), Some((_, how))) => (left, *how),
            // Bytes of the frame are nothing but a side of a comparison.
            (Err(error), _) if self.words.get(start + 1) == Some(&"[") => return Err(error),
            _ => {
                self.at = start;
                return Ok(None);
            }
        };
        self.at += 1;
        let right = self.sum(0, &mut needs)?;
        Ok(Some(Test::Compare { needs, how, left, right }))
    }

    fn sum(&mut self, level: usize, needs: &mut Vec<Test>) -> Result<Sum, ExpressionError> {
        let Some(operators) = OPERATORS.get(level) else { return self.factor(needs) };
        let mut left = self.sum(level + 1, needs)?;
        let mut terms = 1;
        while let Some((_, operation)) = self.peek().and_then(|word| operators.iter().find(|(name, _)| *name == word)) {
            self.at += 1;
            terms += 1;
            if terms > DEPTH_MAX * 4 {
                return Err(ExpressionError::Depth);
            }
            left = Sum::Two(*operation, Box::new(left), Box::new(self.sum(level + 1, needs)?));
        }
        Ok(left)
    }

    fn factor(&mut self, needs: &mut Vec<Test>) -> Result<Sum, ExpressionError> {
        if self.take(&["-"]).is_some() {
            return self.deeper(|reader| Ok(Sum::Negative(Box::new(reader.factor(needs)?))));
        }
        if self.take(&["("]).is_some() {
            let sum = self.deeper(|reader| reader.sum(0, needs))?;
            self.close(")")?;
            return Ok(sum);
        }
        let wanted = "a number, len or PROTOCOL[OFFSET] belongs here";
        let Some(word) = self.peek() else { return Err(self.wrong(wanted)) };
        if self.ahead(1) == Some("[") {
            return self.deeper(|reader| reader.access(word, needs));
        }
        let named = NUMBERS.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
        let sum = match named.or_else(|| number(word)) {
            Some(number) => Sum::Number(number),
            None if word == "len" => Sum::Length,
            None => return Err(self.wrong(wanted)),
        };
        self.at += 1;
        Ok(sum)
    }

    /// `tcp[13]`, `ip[2:2]`.
    fn access(&mut self, name: &str, needs: &mut Vec<Test>) -> Result<Sum, ExpressionError> {
        let protocol = PROTOCOLS.iter().find(|(one, ..)| *one == name);
        let (base, tests) = match (name, protocol) {
            ("ether" | "link", _) => (Base::Frame, Vec::new()),
            (_, Some((_, number, _, true))) if name == "icmp6" => (Base::Transport6, vec![Test::EtherType(0x86dd), plain_v6(*number)]),
            // gen_load: "gen_and(gen_proto_abbrev(a->proto), b = gen_ipfrag(cstate))", of IPv4 only.
            (_, Some((_, number, ..))) => {
                (Base::Transport4, vec![Test::Protocol { v4: true, v6: false, number: *number }, first_fragment()])
            }
            _ => match ETHER_TYPES.iter().find(|(one, _)| *one == name) {
                Some((_, ether_type)) => (Base::Network, vec![self.ether_type(*ether_type)]),
                None => return Err(self.wrong("no protocol whose bytes can be looked at; try ether, ip, ip6, arp, tcp, udp or icmp")),
            },
        };
        if name == "ether" && self.framing == Framing::Ip {
            return Err(self.wrong("frames begin with an IP header on this edge (link = \"ip\")"));
        }
        self.at += 2;
        let at = self.sum(0, needs)?;
        let bytes = match self.take(&[":"]) {
            None => 1,
            Some(_) => match self.take(&["1", "2", "4"]) {
                Some("1") => 1,
                Some("2") => 2,
                Some(_) => 4,
                None => return Err(self.wrong("a size is 1, 2 or 4 bytes")),
            },
        };
        self.close("]")?;
        needs.extend(tests);
        Ok(Sum::Load { base, at: Box::new(at), bytes })
    }

    fn ether_type(&self, number: u16) -> Test {
        match (self.framing, number) {
            (Framing::Ethernet, _) | (_, 0x0800 | 0x86dd) => Test::EtherType(number),
            (Framing::Ip, _) => Test::Never,
        }
    }

    fn primitive(&mut self, follows: bool) -> Result<Test, ExpressionError> {
        const WANTED: &str = "a condition belongs here, such as 'udp port 53', 'host 192.0.2.1', 'dscp ef', 'group 7' or 'tcp[tcpflags] & tcp-syn != 0'; \
                              of pcap-filter(7), names of hosts and what libpcap has for other links are not known here";
        let Some(word) = self.peek() else { return Err(self.wrong(WANTED)) };
        match word {
            "less" | "greater" => {
                self.at += 1;
                let bytes = self.number(u32::MAX)?;
                return Ok(if word == "less" { Test::LengthAtMost(bytes) } else { Test::LengthAtLeast(bytes) });
            }
            "dscp" => {
                self.at += 1;
                return self.dscp();
            }
            "group" | "iifgroup" | "oifgroup" => {
                self.at += 1;
                let way = match word {
                    "group" => Way::Either,
                    "iifgroup" => Way::In,
                    _ => Way::Out,
                };
                return self.group().map(|number| Test::Group(way, number));
            }
            _ => {}
        }
        let qualifiers = self.qualifiers();
        let bare = qualifiers.protocol.is_none() && qualifiers.ends.is_none() && qualifiers.kind.is_none();
        if bare {
            return match self.last.filter(|_| follows && is_value(word)) {
                Some(last) => self.value(last),
                None => Err(self.wrong(WANTED)),
            };
        }
        if let (Some(protocol), None, None) = (qualifiers.protocol, qualifiers.ends, qualifiers.kind)
            && !self.peek().is_some_and(is_value)
        {
            return self.protocol_alone(protocol);
        }
        self.last = Some(qualifiers);
        self.value(qualifiers)
    }

    /// `tcp src port`, `src or dst host`, `ip6 proto`: as many of them as there are.
    fn qualifiers(&mut self) -> Qualifiers<'a> {
        let is_protocol =
            |word: &&str| *word == "ether" || PROTOCOLS.iter().any(|row| row.0 == *word) || ETHER_TYPES.iter().any(|row| row.0 == *word);
        let protocol = self.peek().filter(is_protocol);
        self.at += usize::from(protocol.is_some());
        let ends = match (self.peek(), self.ahead(1), self.ahead(2)) {
            (Some("src"), Some("or"), Some("dst")) | (Some("dst"), Some("or"), Some("src")) => Some((Ends::Either, 3)),
            (Some("src"), Some("and"), Some("dst")) | (Some("dst"), Some("and"), Some("src")) => Some((Ends::Both, 3)),
            (Some("src"), ..) => Some((Ends::Source, 1)),
            (Some("dst"), ..) => Some((Ends::Destination, 1)),
            _ => None,
        };
        self.at += ends.map_or(0, |(_, words)| words);
        let kind = self.take(&["host", "net", "port", "portrange", "proto"]);
        Qualifiers { protocol, ends: ends.map(|(ends, _)| ends), kind }
    }

    fn protocol_alone(&mut self, name: &str) -> Result<Test, ExpressionError> {
        if let Some((_, number, v4, v6)) = PROTOCOLS.iter().find(|row| row.0 == name) {
            return Ok(Test::Protocol { v4: *v4, v6: *v6, number: *number });
        }
        match ETHER_TYPES.iter().find(|row| row.0 == name) {
            Some((_, number)) => Ok(self.ether_type(*number)),
            None => Err(self.wrong("behind 'ether' stands host, src, dst or proto")),
        }
    }

    fn value(&mut self, of: Qualifiers<'a>) -> Result<Test, ExpressionError> {
        let ends = of.ends.unwrap_or(Ends::Either);
        match (of.kind, of.protocol) {
            (Some("port" | "portrange"), protocol) => {
                let protocols = match protocol {
                    None => Ports::All,
                    Some("tcp") => Ports::Of(6),
                    Some("udp") => Ports::Of(17),
                    Some("sctp") => Ports::Of(132),
                    Some(other) => {
                        self.at -= 1;
                        return Err(self.wrong(format!("'{other}' has no ports; tcp, udp and sctp have")));
                    }
                };
                let (low, high) = self.ports(of.kind == Some("portrange"))?;
                Ok(Test::Port { protocols, ends, low, high })
            }
            (Some("proto"), protocol) => self.proto(protocol),
            (_, Some("ether")) if self.framing == Framing::Ip => {
                Err(self.wrong("frames begin with an IP header on this edge (link = \"ip\"): there is no Ethernet address"))
            }
            (Some("host") | None, Some("ether")) => {
                let mac = self.hardware_address()?;
                Ok(Test::Mac(ends, mac))
            }
            (_, protocol) => self.address(protocol, ends, of.kind == Some("net")),
        }
    }

    fn proto(&mut self, protocol: Option<&str>) -> Result<Test, ExpressionError> {
        let named = self.peek().and_then(|word| PROTOCOLS.iter().find(|row| row.0 == word)).map(|row| row.1);
        // In pcap-filter(7) names that are keywords need a backslash: `ip proto \tcp`.
        let escaped = self.peek() == Some("\\");
        self.at += usize::from(escaped);
        let named = named.or_else(|| self.peek().and_then(|word| PROTOCOLS.iter().find(|row| row.0 == word)).map(|row| row.1));
        let ether = self.peek().and_then(|word| ETHER_TYPES.iter().find(|row| row.0 == word)).map(|row| row.1);
        if protocol == Some("ether") {
            let number = match ether {
                Some(number) => {
                    self.at += 1;
                    number
                }
                None => self.number(0xffff)? as u16,
            };
            return Ok(self.ether_type(number));
        }
        let (v4, v6) = match protocol {
            None => (true, true),
            Some("ip") => (true, false),
            Some("ip6") => (false, true),
            Some(other) => return Err(self.wrong(format!("'{other} proto' is nothing; ether, ip and ip6 have protocols"))),
        };
        let number = match named {
            Some(number) => {
                self.at += 1;
                number
            }
            None => self.number(0xff)? as u8,
        };
        Ok(Test::Protocol { v4, v6, number })
    }

    fn ports(&mut self, range: bool) -> Result<(u16, u16), ExpressionError> {
        let one = |reader: &mut Self| match reader.peek().and_then(|word| PORTS.iter().find(|row| row.0 == word)) {
            Some((_, port)) => {
                reader.at += 1;
                Ok(*port)
            }
            None => reader.number(0xffff).map(|port| port as u16),
        };
        let low = one(self)?;
        if !range {
            return Ok((low, low));
        }
        self.close("-")?;
        let high = one(self)?;
        // gen_portrange: "if (port1 > port2) { swap }"
        Ok((low.min(high), low.max(high)))
    }

    fn number(&mut self, max: u32) -> Result<u32, ExpressionError> {
        match self.peek().and_then(number).filter(|number| *number <= max) {
            Some(number) => {
                self.at += 1;
                Ok(number)
            }
            None => Err(self.wrong(format!("a number from 0 to {max} belongs here"))),
        }
    }

    fn dscp(&mut self) -> Result<Test, ExpressionError> {
        let word = self.peek().unwrap_or("");
        let point = match (word, word.strip_prefix("cs"), word.strip_prefix("af")) {
            ("ef", ..) => Some(46),
            ("va" | "voice-admit", ..) => Some(44),
            ("le", ..) => Some(1),
            ("be" | "df", ..) => Some(0),
            (_, Some(class), _) => class.parse::<u8>().ok().filter(|class| *class <= 7).map(|class| class * 8),
            // RFC 2597 §6: class 1 to 4, drop precedence 1 to 3.
            (_, _, Some(class)) => match class.as_bytes() {
                [class @ b'1'..=b'4', precedence @ b'1'..=b'3'] => Some((class - b'0') * 8 + (precedence - b'0') * 2),
                _ => None,
            },
            _ => number(word).filter(|number| *number <= 63).map(|number| number as u8),
        };
        let point = point.ok_or_else(|| self.wrong("a code point is 0 to 63, cs0 to cs7, af11 to af43, ef, va, le or be"))?;
        self.at += 1;
        Ok(Test::Dscp(point))
    }

    fn group(&mut self) -> Result<u32, ExpressionError> {
        if self.take(&["default"]).is_some() {
            return Ok(0);
        }
        let Some(number) = self.peek().and_then(number) else {
            return Err(self.wrong("a group of interfaces is a number here; the weft command knows the names in /etc/iproute2/group"));
        };
        self.at += 1;
        Ok(number)
    }

    fn hardware_address(&mut self) -> Result<[u8; 6], ExpressionError> {
        let word = self.peek().unwrap_or("");
        let mut mac = [0; 6];
        let mut octets = word.split(':');
        for octet in &mut mac {
            let read = octets.next().filter(|text| text.len() <= 2).and_then(|text| u8::from_str_radix(text, 16).ok());
            *octet = read.ok_or_else(|| self.wrong("an Ethernet address belongs here, such as 02:00:00:00:00:01"))?;
        }
        if octets.next().is_some() {
            return Err(self.wrong("an Ethernet address has six bytes"));
        }
        self.at += 1;
        Ok(mac)
    }

    fn address(&mut self, protocol: Option<&str>, ends: Ends, net: bool) -> Result<Test, ExpressionError> {
        let word = self.peek().unwrap_or("");
        let (address, own_bits) = match (word.parse::<Ipv6Addr>(), part_of_v4(word)) {
            (Ok(address), _) => (IpAddr::V6(address), 128),
            (_, Some((address, bits))) => (IpAddr::V4(address), bits),
            _ => return Err(self.wrong("an IP address belongs here; names of hosts are not looked up")),
        };
        let width = if address.is_ipv6() { 128 } else { 32 };
        self.at += 1;
        let mut mask = bits_to_mask(own_bits, width);
        if net && self.take(&["/"]).is_some() {
            mask = bits_to_mask(self.number(width)?, width);
        } else if net && self.take(&["mask"]).is_some() {
            let given = self.peek().and_then(|word| word.parse::<Ipv4Addr>().ok()).filter(|_| width == 32);
            mask = u128::from(u32::from(given.ok_or_else(|| self.wrong("a mask such as 255.255.255.0 belongs here"))?));
            self.at += 1;
        }
        let number = match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        if number & !mask != 0 {
            self.at -= 1;
            return Err(self.wrong("bits behind the prefix are set"));
        }
        let prefix = Prefix { address, mask };
        let addresses = match (protocol, address.is_ipv6()) {
            (None, _) => Addresses::All,
            (Some("ip"), false) | (Some("ip6"), true) => Addresses::Ip,
            (Some("arp"), false) => Addresses::Arp,
            (Some("rarp"), false) => Addresses::Rarp,
            (Some(protocol), _) => {
                self.at -= 1;
                return Err(self.wrong(format!("'{protocol}' has no such address; write 'and' between them")));
            }
        };
        Ok(Test::Address(addresses, ends, prefix))
    }
}

/// Could this be an address or a number?
fn is_value(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit()) || word.contains(':') || PORTS.iter().any(|row| row.0 == word)
}

/// Decimal, or hexadecimal behind 0x.
fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => word.parse().ok().filter(|_| word.starts_with(|first: char| first.is_ascii_digit())),
    }
}

/// `10`, `192.0`, `192.0.2`, `192.0.2.1` with the bits that are said.
fn part_of_v4(word: &str) -> Option<(Ipv4Addr, u32)> {
    let mut octets = [0; 4];
    let parts: Vec<&str> = word.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    for (octet, part) in octets.iter_mut().zip(&parts) {
        *octet = number(part).and_then(|number| u8::try_from(number).ok())?;
    }
    Some((octets.into(), 8 * parts.len() as u32))
}

fn bits_to_mask(bits: u32, width: u32) -> u128 {
    let all = if width == 128 { u128::MAX } else { u128::from(u32::MAX) };
    if bits == 0 { 0 } else { all & !(1_u128.checked_shl(width - bits).unwrap_or(0).wrapping_sub(1)) }
}

fn plain_v6(number: u8) -> Test {
    let load = Sum::Load { base: Base::Network, at: Box::new(Sum::Number(6)), bytes: 1 };
    Test::Compare { needs: Vec::new(), how: Relation::Equal, left: load, right: Sum::Number(number.into()) }
}

fn first_fragment() -> Test {
    let load = Sum::Load { base: Base::Network, at: Box::new(Sum::Number(6)), bytes: 2 };
    let offset = Sum::Two(Operation::And, Box::new(load), Box::new(Sum::Number(0x1fff)));
    Test::Compare { needs: Vec::new(), how: Relation::Equal, left: offset, right: Sum::Number(0) }
}
