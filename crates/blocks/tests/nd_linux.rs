//! The kernel is the oracle for neighbour discovery: what Linux answered to the frames of `linux/nd.py`, and what it believed afterwards of its
//! neighbours, routes and addresses, weft answers and believes too; and the reports of groups are Linux's, byte for byte.

use std::net::IpAddr;
use std::time::Duration;
use weft_core::control::End;
use weft_core::table::{Address, AddressState, Family};
use weft_core::*;

const ETH0: InterfaceIndex = InterfaceIndex(2);
const BLOCKS: &[&str] = &["interfaces", "ether", "arp", "ip4", "igmp", "nd", "ip6", "icmp6", "mld"];
const EDGES: &[&str] = &[
    "interfaces:upper ether:lower",
    "ether:lower interfaces:upper",
    "ether:ip4 ip4:lower",
    "ether:arp arp:lower",
    "arp:lower ether:upper",
    "ip4:lower arp:upper",
    "ip4:igmp igmp:lower",
    "igmp:lower arp:upper",
    "ether:ip6 ip6:lower",
    "ip6:lower nd:upper",
    "nd:lower ether:upper",
    "nd:failed icmp6:error",
    "ip6:icmp icmp6:lower",
    "icmp6:lower ip6:upper",
    "icmp6:nd nd:icmp",
    "icmp6:mld mld:lower",
    "mld:lower nd:upper",
];

/// Where weft deliberately does not do as Linux does, and why.
const DIFFERENT: &[(&str, &str)] = &[(
    "our own address solicits",
    "a solicitation from an address of ours is a mistake or an attack; Linux asks the link who has that address",
)];

/// A frame without what is drawn at random: the flow label, which Linux puts into answers to pings.
fn normalised(frame: &[u8]) -> Value {
    let mut frame = frame.to_vec();
    if frame[12..14] == [0x86, 0xdd] {
        frame[15] &= 0xf0;
        frame[16..18].fill(0);
    }
    hex(&frame).into()
}

fn golden() -> Value {
    serde_json::from_str(include_str!("linux/nd.json")).unwrap()
}

fn bytes(hex: &Value) -> Vec<u8> {
    let digits = hex.as_str().unwrap().as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Node {
    engine: Engine,
    now: Instant,
}

impl Node {
    /// As the script configures the kernel: fd77::1/64 and 10.0.0.1/24, no router solicitations, a detected link-local address.
    fn new() -> Node {
        let mut node = Node::bare();
        node.exec("interfaces", "add", serde_json::json!({"name": "eth0", "mac": "02:00:00:00:00:01"}));
        node.exec("ip6", "address_add", serde_json::json!({"interface": "eth0", "address": "fd77::1/64"}));
        node.exec("ip4", "address_add", serde_json::json!({"interface": "eth0", "address": "10.0.0.1/24"}));
        node.advance(Duration::from_secs(5));
        node
    }

    fn bare() -> Node {
        let engine = Engine::new(Mode::Inline, BlockTable::new(weft_blocks::table::rows()), Rng::for_name(3, "linux"));
        let mut node = Node { engine, now: Instant::from_millis(1000) };
        let parameters = |name: &str| match name {
            "nd" => [("router_solicitations".to_owned(), 0.into())].into_iter().collect(),
            _ => Default::default(),
        };
        let add = |name: &&str| Op::Add { name: (*name).to_owned(), kind: (*name).to_owned(), parameters: parameters(name) };
        let bind = |edge: &&str| {
            let (from, to) = edge.split_once(' ').unwrap();
            Op::Bind { from: End::parse(from), to: End::parse(to) }
        };
        node.control(Op::All(BLOCKS.iter().map(add).chain(EDGES.iter().map(bind)).collect()));
        node
    }

    fn control(&mut self, op: Op) -> Value {
        self.engine.control(self.now, &Message { serial: 1, op }).result.unwrap()
    }

    fn exec(&mut self, block: &str, procedure: &str, arguments: Value) {
        self.control(Op::Exec { target: Selector::parse(block), procedure: procedure.to_owned(), arguments });
    }

    fn id(&self, block: &str) -> BlockId {
        self.engine.graph().find(block).unwrap()
    }

    fn receive(&mut self, bytes: &[u8]) {
        let mut frame = Frame::ingress(bytes);
        frame.meta_mut().interface = ETH0;
        let id = self.id("interfaces");
        self.engine.inject(self.now, id, InPort(0), [frame]);
    }

    fn advance(&mut self, by: Duration) -> Vec<Vec<u8>> {
        let end = self.now + by;
        while let Some(at) = self.engine.next_timer().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.engine.run(self.now);
        }
        self.now = end;
        let whole = |mut frame: Frame| {
            offload::complete_checksum(&mut frame);
            frame.to_vec()
        };
        self.engine.take_outgoing().into_iter().map(|outgoing| whole(outgoing.frame)).collect()
    }

    fn neighbour(&mut self, peer: &Value) -> Value {
        let rows = self.control(Op::List(Table::Neighbours(Family::V6)));
        let row = rows.as_array().unwrap().iter().find(|row| row["address"] == *peer);
        row.map_or(Value::Null, |row| serde_json::json!([row["mac"], row["state"], row["router"] == true]))
    }

    fn addresses(&mut self) -> Vec<Address> {
        let id = self.id("ip6");
        match self.engine.graph().block(id).unwrap().query(&Query::Addresses, self.now) {
            Answer::Addresses(list) => list,
            other => panic!("{other:?}"),
        }
    }

    /// Routes on eth0 as the script has them: the preference is the metric here.
    fn routes(&mut self) -> Vec<Value> {
        let rows = self.control(Op::List(Table::Routes(Family::V6)));
        let on_eth0 = rows.as_array().unwrap().iter().filter(|row| row["table"] == "main" && row["interface"] == 2);
        let mut rows: Vec<Value> = on_eth0
            .map(|row| {
                let (metric, preference) = match row["metric"].as_u64().unwrap() {
                    1023 => (1024, "high"),
                    1025 => (1024, "low"),
                    metric => (metric, "medium"),
                };
                serde_json::json!([row["destination"], row["gateway"], metric, preference])
            })
            .collect();
        rows.sort_by_key(Value::to_string);
        rows
    }
}

#[test]
fn an_interface_comes_up_as_in_linux() {
    // Without the nonce of a detection, and the checksum over it.
    let normalised = |frame: &[u8]| {
        let mut frame = frame.to_vec();
        if frame[54] == 135 {
            frame[56..58].fill(0);
            frame[80..86].fill(0);
        }
        hex(&frame)
    };
    let golden = golden();
    let mut linux: Vec<String> = golden["start"].as_array().unwrap().iter().map(|frame| normalised(&bytes(frame))).collect();
    let mut node = Node::bare();
    node.exec("interfaces", "add", serde_json::json!({"name": "eth0", "mac": "02:00:00:00:00:01"}));
    let mut ours: Vec<String> = node.advance(Duration::from_secs(5)).iter().map(|frame| normalised(frame)).collect();
    // What is sent, and how often; the order depends on random delays.
    linux.sort();
    ours.sort();
    assert_eq!(ours, linux);
}

#[test]
fn neighbours_are_answered_and_believed_as_linux_does() {
    let golden = golden();
    let rows = golden["neighbours"].as_array().unwrap();
    assert!(rows.len() > 90);
    let (mut answered, mut wrong) = (0, Vec::new());
    for row in rows {
        let mut node = Node::new();
        for step in row["steps"].as_array().unwrap() {
            node.receive(&bytes(&step["sent"]));
            let ours: Vec<Value> = node.advance(Duration::from_millis(30)).iter().map(|frame| normalised(frame)).collect();
            let linux: Vec<Value> = step["replies"].as_array().unwrap().iter().map(|reply| normalised(&bytes(reply))).collect();
            answered += linux.len();
            let different = DIFFERENT.iter().find(|(name, _)| row["name"] == *name);
            if let Some((name, why)) = different {
                assert_ne!(ours, linux, "{name} is no difference any more: {why}");
            } else if ours != linux {
                wrong.push(format!("{}: weft answers {ours:?}, Linux {linux:?}", row["name"]));
            }
        }
        let entry = node.neighbour(&row["peer"]);
        if entry != row["entry"] {
            wrong.push(format!("{}: weft believes {entry}, Linux {}", row["name"], row["entry"]));
        }
    }
    assert!(answered > 100, "Linux answered {answered}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn routers_are_believed_as_linux_does() {
    let golden = golden();
    let rows = golden["routers"].as_array().unwrap();
    assert!(rows.len() > 15);
    let mut node = Node::new();
    for row in rows {
        node.receive(&bytes(&row["sent"]));
        // As long as the script waits for the detection of new addresses.
        let detects = row["name"].as_str().unwrap().contains("prefix for") || row["name"] == "both, for ever";
        node.advance(if detects { Duration::from_millis(2500) } else { Duration::from_millis(200) });
        let mut linux = row["routes"].as_array().unwrap().clone();
        linux.sort_by_key(Value::to_string);
        assert_eq!(node.routes(), linux, "{}", row["name"]);
        let mut ours: Vec<Address> = node.addresses().into_iter().filter(|address| address.dynamic && address.prefix_bits == 64).collect();
        ours.retain(|address| matches!(address.address, IpAddr::V6(ip) if ip.segments()[0] != 0xfe80));
        ours.sort_by_key(|address| address.address);
        let theirs = row["addresses"].as_array().unwrap();
        assert_eq!(ours.len(), theirs.len(), "{}", row["name"]);
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_eq!(theirs[0].as_str().unwrap().parse(), Ok(ours.address), "{}", row["name"]);
            assert_eq!(theirs[1], ours.state == AddressState::Deprecated, "{}: {:?}", row["name"], ours.state);
            for (until, seconds) in [(ours.valid_until, &theirs[2]), (ours.preferred_until, &theirs[3])] {
                let left = until.map_or(u64::from(u32::MAX), |until| until.since(node.now).as_secs());
                // The script needs a while to ask.
                assert!(left.abs_diff(seconds.as_u64().unwrap()) <= 3, "{}: {left} s here, {seconds} s in Linux", row["name"]);
            }
        }
    }
}

#[test]
fn groups_are_reported_as_linux_does() {
    let golden = golden();
    let rows = golden["groups"].as_array().unwrap();
    let mut node = Node::new();
    let id = node.id("interfaces");
    for row in rows {
        let group: IpAddr = row["group"].as_str().unwrap().parse().unwrap();
        let filter = row["wish"].as_array().map(|wish| {
            let sources = wish[1].as_array().unwrap().iter().map(|source| source.as_str().unwrap().parse().unwrap()).collect();
            if wish[0] == "include" { SourceFilter::Include(sources) } else { SourceFilter::Exclude(sources) }
        });
        let change = Change::Group { interface: ETH0, group, holder: 1, filter };
        node.engine.with(node.now, id, |_, cx| cx.tell(Table::Groups(Family::of(group)), change)).unwrap();
        let ours: Vec<Value> = node.advance(Duration::from_millis(2300)).iter().map(|frame| hex(frame).into()).collect();
        assert_eq!(ours, *row["reports"].as_array().unwrap(), "{} {}", row["name"], row["group"]);
    }
}

#[test]
fn a_prefix_stays_on_the_link_when_the_address_made_of_it_goes() {
    let mut node = Node::new();
    let golden = golden();
    let both = golden["routers"].as_array().unwrap().iter().find(|row| row["name"] == "both, for ever").unwrap();
    node.receive(&bytes(&both["sent"]));
    node.advance(Duration::from_secs(3));
    let on_link = serde_json::json!(["2001:db8:3::/64", null, 256, "medium"]);
    let made = node.addresses().into_iter().find(|address| address.address.to_string().starts_with("2001:db8:3:")).unwrap();
    assert!(made.state == AddressState::Preferred && node.routes().contains(&on_link));
    node.exec("ip6", "address_delete", serde_json::json!({"interface": "eth0", "address": made.address.to_string()}));
    assert!(node.routes().contains(&on_link));
}
