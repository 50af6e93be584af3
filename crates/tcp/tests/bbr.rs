//! BBR over a wire in virtual time: what it reaches where losses mean nothing, what it leaves in the queue, and its states on the way.

use crate::common;

use common::pair::{Pair, Wire};
use common::pattern;
use weft_core::*;
use weft_tcp::counters::Counter as Count;

/// 50 Mbit/s, 40 ms round trip: a product of 250 kB.
fn wire() -> Wire {
    Wire { delay: Duration::from_millis(20), rate: 50_000_000, queue: 500_000, ..Wire::default() }
}

/// A bulk transfer under a control; gives the pair after `time`, and the bytes that arrived in its second half, in kbit/s.
fn bulk(control: &str, wire: Wire, time: Duration) -> (Pair, u64) {
    let mut pair = Pair::new(5, wire, &[("congestion", control.into())]);
    pair.wires[1].loss = 0.0;
    pair.connect(StreamOptions::default());
    pair.app(1, |app, _| app.discards = true);
    let piece = pattern(1 << 20);
    pair.app(0, |app, _| (0..time.as_secs() * 8).for_each(|_| app.flow(FlowId(1)).unsent.push_back(piece.clone())));
    pair.run_for(time / 2);
    let half = pair.app(1, |app, _| app.discarded);
    pair.run_for(time / 2);
    let all = pair.app(1, |app, _| app.discarded);
    (pair, (all - half) * 8 / (time / 2).as_millis() as u64)
}

fn control(pair: &mut Pair) -> Value {
    let op =
        Op::Exec { target: Selector::Name("tcp".to_owned()), procedure: "control".to_owned(), arguments: serde_json::json!({"flow": 1}) };
    let now = pair.now;
    pair.nodes[0].engine.control(now, &Message { serial: 8, op }).result.unwrap()["tcp"].clone()
}

#[test]
fn one_percent_of_loss_costs_bbr_nothing_and_reno_nearly_everything() {
    let lossy = Wire { loss: 0.01, ..wire() };
    let (mut pair, bbr) = bulk("bbr", lossy.clone(), Duration::from_secs(20));
    let (_, reno) = bulk("reno", lossy, Duration::from_secs(20));
    // 1448 of 1500 bytes and the wire's 14 are payload, 99 % arrive at the first attempt: 47.3 Mbit/s are the most.
    assert!(bbr > 43_000, "bbr: {bbr} kbit/s");
    assert!(reno < 8_000, "reno: {reno} kbit/s");
    assert_eq!(pair.nodes[0].counter(Count::TCPTimeouts), 0);
    assert_eq!(control(&mut pair)["values"]["full"], 1);
}

#[test]
fn a_deep_queue_stays_shallow() {
    let deep = Wire { queue: 5_000_000, ..wire() };
    let (pair, bbr) = bulk("bbr", deep.clone(), Duration::from_secs(8));
    let (other, cubic) = bulk("cubic", deep, Duration::from_secs(8));
    assert!(bbr > 44_000 && cubic > 44_000, "{bbr} and {cubic} kbit/s");
    // The path has 40 ms; the rest of the round trip is queue.
    let (bbr, cubic) = (pair.nodes[0].info(1).rtt_us, other.nodes[0].info(1).rtt_us);
    assert!(bbr < 60_000, "bbr: {bbr} us");
    assert!(cubic > 300_000, "cubic: {cubic} us");
}

#[test]
fn it_measures_the_round_trip_every_ten_seconds_and_comes_back() {
    let mut pair = Pair::new(5, wire(), &[("congestion", "bbr".into())]);
    pair.connect(StreamOptions::default());
    pair.app(1, |app, _| app.discards = true);
    let piece = pattern(1 << 20);
    pair.app(0, |app, _| (0..200).for_each(|_| app.flow(FlowId(1)).unsent.push_back(piece.clone())));
    let mut narrow = Vec::new();
    for at in 0..2_500u64 {
        pair.run_for(Duration::from_millis(10));
        if control(&mut pair)["values"]["mode"] == 3 {
            narrow.push(at * 10);
            let cwnd = pair.nodes[0].info(1).snd_cwnd;
            assert!(cwnd <= 4, "{cwnd} segments while the round trip is measured");
        }
    }
    // Twice in 25 s, for 200 ms and a round trip or two each.
    let episodes = 1 + narrow.windows(2).filter(|pair| pair[1] - pair[0] > 1_000).count();
    assert_eq!(episodes, 2, "{narrow:?}");
    assert!((40..100).contains(&narrow.len()), "{} ms", narrow.len() * 10);
    let info = pair.nodes[0].info(1);
    assert!(info.min_rtt_us < 42_000 && info.snd_cwnd > 300, "{info:?}");
    assert_eq!(info.cc_info.len(), 5);
}

#[test]
fn a_policer_is_found_and_its_rate_kept() {
    // A queue of next to nothing drops whatever exceeds the rate, as a policer without burst does.
    let policed = Wire { queue: 6_000, rate: 10_000_000, delay: Duration::from_millis(20), ..Wire::default() };
    let (mut pair, kbit) = bulk("bbr", policed, Duration::from_secs(20));
    assert!(kbit > 7_500, "{kbit} kbit/s");
    let lost = pair.nodes[0].counter(Count::RetransSegs);
    let sent = pair.nodes[0].counter(Count::OutSegs);
    assert!(lost * 5 < sent, "{lost} of {sent} segments were sent again");
}

#[test]
fn two_flows_share_and_none_starves() {
    let mut pair = Pair::new(5, wire(), &[("congestion", "bbr".into())]);
    pair.nodes[1].listen(1, "10.0.0.2:80", 16, StreamOptions::default());
    let piece = pattern(1 << 20);
    for flow in 1..=2u64 {
        pair.nodes[0].connect(flow, &format!("10.0.0.1:{}", 1000 + flow), "10.0.0.2:80", StreamOptions::default());
        pair.app(0, |app, _| (0..300).for_each(|_| app.flow(FlowId(flow)).unsent.push_back(piece.clone())));
    }
    pair.app(1, |app, _| app.discards = true);
    pair.run_for(Duration::from_secs(30));
    let acked: Vec<u64> = (1..=2).map(|flow| pair.nodes[0].info(flow).bytes_acked).collect();
    let total: u64 = acked.iter().sum();
    assert!(total * 8 / 30 > 44_000_000, "{acked:?}");
    assert!(acked.iter().all(|bytes| bytes * 4 > total), "{acked:?}");
}

#[test]
fn a_socket_may_choose_it_while_the_transfer_runs() {
    let (mut pair, _) = bulk("cubic", Wire { loss: 0.01, ..wire() }, Duration::from_secs(4));
    let slow = pair.app(1, |app, _| app.discarded);
    pair.nodes[0].call(1, StreamCall::Set(StreamOption::Congestion(Some("bbr".to_owned()))));
    pair.run_for(Duration::from_secs(4));
    let fast = pair.app(1, |app, _| app.discarded) - slow;
    assert!(fast > 3 * slow, "{slow} bytes before, {fast} after");
}
