//! Blocks of nodes are replaced many times while unmodified programs use them: they notice nothing, and the wire carries as many frames and bytes, of which as many
//! are lost. That each frame is the same is compared in crates/node, without programs.

use crate::support;

use std::time::Duration;
use support::{gigabit, output, pair, process, run};
use weft_core::{Instant, Op, Selector};
use weft_sim::plan::{Action, DirectionPlan, EventPlan, Expect, Loss, Plan};
use weft_sim::{Reason, Status};

/// Sends back what it gets, to several clients at once, and datagrams too.
const SERVER: &str = r#"
import select, socket
listener = socket.create_server(("10.0.0.2", 7000), backlog=8)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("10.0.0.2", 7001))
waiting, poll = {}, select.epoll()
for known in (listener, datagrams):
    poll.register(known, select.EPOLLIN)
streams = {}
while True:
    for number, events in poll.poll():
        if number == listener.fileno():
            stream, _ = listener.accept()
            stream.setblocking(False)
            streams[stream.fileno()], waiting[stream.fileno()] = stream, b""
            poll.register(stream, select.EPOLLIN)
        elif number == datagrams.fileno():
            data, peer = datagrams.recvfrom(2000)
            datagrams.sendto(data[::-1], peer)
        else:
            stream = streams[number]
            if events & select.EPOLLIN:
                data = stream.recv(20000)
                if not data:
                    stream.setblocking(True)
                    stream.sendall(waiting[number])
                    poll.unregister(stream)
                    stream.close()
                    del streams[number]
                    continue
                waiting[number] += data
            try:
                waiting[number] = waiting[number][stream.send(waiting[number]):]
            except BlockingIOError:
                pass
            poll.modify(stream, select.EPOLLIN | (select.EPOLLOUT if waiting[number] else 0))
"#;

/// Says the digests of what it sent and of what came back, and how many datagrams were answered.
const CLIENT: &str = r#"
import hashlib, socket, threading
sent = hashlib.sha256(str(0).encode()).digest() * 20000
stream = socket.create_connection(("10.0.0.2", 7000))
def write():
    for at in range(0, len(sent), 7001):
        stream.sendall(sent[at:at + 7001])
    stream.shutdown(socket.SHUT_WR)
writer = threading.Thread(target=write)
writer.start()
received = b""
while data := stream.recv(30000):
    received += data
writer.join()
print(hashlib.sha256(sent).hexdigest() == hashlib.sha256(received).hexdigest(), len(received))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.settimeout(0.2)
answered = 0
for n in range(100):
    datagrams.sendto(bytes([n, 1, 2]), ("10.0.0.2", 7001))
    try:
        answered += datagrams.recv(100) == bytes([2, 1, n])
    except TimeoutError:
        pass
print(answered > 50)
"#;

fn plan(blocks: &[&str]) -> Plan {
    let direction = DirectionPlan { rate: Some(50_000_000), loss: Loss::Bernoulli(0.01), ..gigabit(Duration::from_millis(5)) };
    let programs = vec![
        process("server", 1, 0, &["python3", "-ISc", SERVER], Expect::Running),
        process("one", 0, 500, &["python3", "-ISc", CLIENT], Expect::Status(0)),
        process("two", 0, 507, &["python3", "-ISc", CLIENT], Expect::Status(0)),
    ];
    let mut plan = pair(direction, programs, 120_000);
    let times = (0..1500).map(|turn| Instant::from_millis(400 + 7 * turn));
    plan.events = times
        .enumerate()
        .map(|(turn, at)| {
            // Without blocks nothing is changed at the same times.
            let op = match blocks.get(turn % blocks.len().max(1)).map(|name| (*name).to_owned()) {
                Some(name) => Op::Replace { name: name.clone(), kind: name, parameters: Default::default(), drop_state: false },
                None => Op::Get { target: Selector::Name("tcp".to_owned()), name: None },
            };
            EventPlan { at, action: Action::Control { node: turn / 3 % 2, op } }
        })
        .collect();
    plan
}

#[test]
fn programs_notice_nothing_and_the_wire_carries_the_same() {
    let (expected, end) = run(plan(&[]), 1);
    assert_eq!(end.reason, Reason::Programs, "{:?}\n{}\n{}", expected.waits(), output(&expected, 0), output(&expected, 1));
    for client in [1, 2] {
        assert_eq!(output(&expected, client), "True 640000\nTrue\n");
    }
    for (threads, blocks) in [(1, ["tcp", "sockets"]), (2, ["sockets", "tcp"])] {
        let (replaced, end) = run(plan(&blocks), threads);
        assert!(end.failures.is_empty() && end.reason == Reason::Programs, "{:?}", end.failures);
        for program in 0..3 {
            assert_eq!(output(&replaced, program), output(&expected, program));
            let ended = |world: &weft_sim::World| world.program(program).and_then(|state| state.ended);
            assert_eq!(ended(&replaced), ended(&expected), "to the nanosecond");
        }
        assert_eq!(format!("{:?}", replaced.wire(0)), format!("{:?}", expected.wire(0)));
    }
}

#[test]
fn any_block_is_replaced_under_programs() {
    let all = ["tcp", "ip4", "sockets", "arp", "ether", "udp", "tcp", "icmp4", "igmp", "loopback"];
    let (world, end) = run(plan(&all), 1);
    assert!(end.failures.is_empty() && end.reason == Reason::Programs, "{:?}", end.failures);
    for client in [1, 2] {
        assert_eq!(output(&world, client), "True 640000\nTrue\n");
        assert_eq!(world.program(client).and_then(|state| state.ended).map(|(_, status)| status), Some(Status::Exited(0)));
    }
}
