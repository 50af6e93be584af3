use super::*;

fn outcome(text: &str, sets: &[&str]) -> VariantResult {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let scenario = Scenario::parse("w.toml", text, &sets, &|name| Err(format!("there is no {name}"))).unwrap();
    run(&scenario, None).unwrap()
}

const TRANSFER: &str = r#"
sample = "50ms"
[nodes.a]
[nodes.b]
[wires.ab]
between = ["a", "b"]
rate = "10mbit"
delay = "10ms"
[programs.send]
node = "a"
builtin = "tcp-send"
to = "b:5001"
bytes = 1_000_000
[programs.sink]
node = "b"
builtin = "tcp-sink"
port = 5001
"#;
const EXACT: Tolerance = Tolerance { time: Duration::ZERO, windows: true };

#[test]
fn what_is_the_same_has_no_difference() {
    let (one, other) = (outcome(TRANSFER, &[]), outcome(TRANSFER, &["seed=2"]));
    assert_eq!(one.first_difference(&outcome(TRANSFER, &[]), EXACT), None);
    assert_eq!(one.left_out(), 0);
    // Another seed draws other ports, other first numbers, and another phase of the clock of timestamps.
    assert_ne!(one.hash, other.hash);
    assert_eq!(one.first_difference(&other, Tolerance { time: Duration::from_millis(1), windows: true }), None);
}

#[test]
fn a_planted_loss_is_found_at_its_frame() {
    let one = outcome(TRANSFER, &[]);
    // Frames from a to b are counted from 1: neighbour discovery and the handshake are among the first of them.
    let planted = outcome(TRANSFER, &["wires.ab.lose=[40]"]);
    let difference = one.first_difference(&planted, EXACT).unwrap();
    // The sender does not know yet: it is the receiver who does not get what it should.
    assert_eq!((difference.node.as_str(), difference.interface.as_str()), ("b", "eth0"));
    let [Some((at, expected)), Some((later, got))] = &difference.next else { panic!("{difference:?}") };
    assert!(at < later, "{difference:?}");
    let seq = |line: &str| line.split("seq ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok()).unwrap();
    assert_eq!(seq(got), seq(expected) + 1448, "{difference:?}");
    assert!(expected.starts_with("in TCP ") && expected.contains("conversation 1 10.0.0.1:* > 10.0.0.2:5001"), "{expected}");
    // And one that is only later than it was.
    let late = outcome(TRANSFER, &["wires.ab.delay=10001us"]);
    let difference = one.first_difference(&late, EXACT).unwrap();
    // The neighbour's answer comes later, and so the SYN leaves later.
    assert_eq!((difference.node.as_str(), difference.equal_before), ("a", 0));
    assert_eq!(one.first_difference(&late, Tolerance { time: Duration::from_millis(50), windows: true }), None);
}

#[test]
fn flows_are_those_of_the_programs() {
    let lossy = outcome(TRANSFER, &["wires.ab.lose=[40, 80, 81]"]);
    let names: Vec<String> = lossy.flows.keys().map(Name::short).collect();
    assert_eq!(names, ["a>b:5001"]);
    let flow = lossy.flows.values().next().unwrap();
    assert_eq!((flow.acked_bytes, flow.retransmitted_segments), (1_000_000, 3));
    let goodput = flow.goodput_bits_per_second().unwrap();
    assert!((5e6..10e6).contains(&goodput), "{goodput}");
    assert!(flow.rtt.iter().all(|(_, ms)| *ms >= 20.0) && !flow.cwnd.is_empty());
    let points = super::goodput(flow);
    let bits: f64 = points.iter().map(|(_, rate)| rate * (points[1].0 - points[0].0)).sum::<f64>();
    assert!((bits - 8e6).abs() < 1.0, "{bits}");
    assert_eq!(lossy.wires[0].0, "a:eth0>b:eth0");
    assert_eq!(lossy.wires[0].1[2], 3);
    let svg = picture(&[("one".to_owned(), lossy)]).unwrap().svg;
    assert!(svg.contains("one: a&gt;b:5001") && svg.contains("goodput, Mbit/s") && svg.contains("round-trip time, ms"), "{svg}");
}
