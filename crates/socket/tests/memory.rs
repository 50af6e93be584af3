//! TCP's memory of a whole node (`mem_low`, `mem_pressure`, `mem_max`): many connections whose programs do not read, and others that go on.

use crate::graph;
use crate::language;
use crate::model;

use language::Host;
use model::Model;
use std::time::Duration;
use weft_core::{Message, Mode, Op, Selector, Show, Value};
use weft_socket::{Errno, Poll, abi, address};

const LOW: u64 = 300_000;
const PRESSURE: u64 = 400_000;
const MOST: u64 = 600_000;
/// What a connection may hold whatever the others do: a segment in an empty receive queue, a short send queue, and what was on its way.
const EACH: u64 = 65_483 + 4096;

fn to(text: &str) -> Vec<u8> {
    address::to_bytes(text.parse().expect("an address"))
}

fn ask(model: &mut Model, op: Op) -> Value {
    model.engine.control(weft_core::Instant::ZERO, &Message { serial: 1, op }).result.expect("an answer")
}

fn counter(model: &mut Model, block: &str, name: &str) -> u64 {
    let rows = ask(model, Op::Show(Show::Counters));
    let of = rows.as_array().and_then(|rows| rows.iter().find(|row| row["block"] == block)).expect("the block's row");
    of["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
}

fn held(model: &mut Model) -> u64 {
    let value = ask(model, Op::Get { target: Selector::parse("tcp"), name: Some("memory_bytes".to_owned()) });
    value["tcp"].as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// A node with little memory for TCP.
fn small(mode: Mode) -> Model {
    let mut model = graph::model(mode);
    for (name, value) in [("mem_low", LOW), ("mem_pressure", PRESSURE), ("mem_max", MOST)] {
        ask(&mut model, Op::Set { target: Selector::parse("tcp"), name: name.to_owned(), value: value.into() });
    }
    model
}

fn listener(model: &mut Model) -> usize {
    let listener = model.socket(2, 1, 0).expect("a socket");
    model.bind(listener, &to("127.0.0.1:5000")).expect("bind");
    model.listen(listener, 5).expect("listen");
    listener
}

fn pair(model: &mut Model, listener: usize) -> (usize, usize) {
    let client = model.socket(2, 1, 0).expect("a socket");
    assert_eq!(model.connect(client, &to("127.0.0.1:5000")), Err(Errno::EINPROGRESS));
    (client, model.accept(listener).expect("accept").0)
}

/// Sends until there is no more room; how much that was.
fn fill(model: &mut Model, client: usize, at: &mut usize, most: usize) -> usize {
    let before = *at;
    while *at - before < most {
        let piece: Vec<u8> = (*at..*at + 8192.min(before + most - *at)).map(|at| (at % 251) as u8).collect();
        match model.send(client, &piece, 0, None, &[]) {
            Ok(taken) => *at += taken,
            Err(error) => {
                assert_eq!(error, Errno::EAGAIN);
                break;
            }
        }
    }
    *at - before
}

/// Reads what is there and checks it.
fn drain(model: &mut Model, s: usize, at: &mut usize) -> usize {
    let before = *at;
    while let Ok(got) = model.receive(s, 1 << 20, 0) {
        assert!(got.count > 0, "an early end");
        for byte in got.data {
            assert_eq!(byte, (*at % 251) as u8);
            *at += 1;
        }
    }
    *at - before
}

#[test]
fn connections_that_nobody_reads_cannot_take_all_memory_and_the_others_go_on() {
    for mode in [Mode::Inline, Mode::Queued] {
        let mut model = small(mode);
        let listener = listener(&mut model);
        let mut stuck: Vec<_> = (0..60).map(|_| (pair(&mut model, listener), 0usize, 0usize)).collect();
        let (client, reader) = pair(&mut model, listener);
        for _ in 0..20 {
            for ((client, _), sent, _) in &mut stuck {
                fill(&mut model, *client, sent, 1 << 30);
            }
            model.pass(Duration::from_millis(100));
            assert!(held(&mut model) <= MOST + 61 * EACH, "{} bytes", held(&mut model));
        }
        assert!(held(&mut model) > MOST, "the bound was reached");
        assert_eq!(counter(&mut model, "tcp", "TCPMemoryPressures"), 1);
        assert!(counter(&mut model, "tcp", "TCPRcvQDrop") > 0 && counter(&mut model, "sockets", "stream_memory_short") > 0);
        // Without the bound each would hold what fits its two buffers.
        let whole: usize = stuck.iter().map(|(_, sent, _)| *sent).sum();
        assert!(whole < 60 * 60_000, "{whole} bytes were taken from programs");

        // Another connection goes on, and whoever is refused is told when there is room.
        let (mut sent, mut read) = (0, 0);
        for _ in 0..2000 {
            if model.poll(client).contains(Poll::OUT) {
                assert!(fill(&mut model, client, &mut sent, 50_000) > 0, "poll said that there is room");
            }
            model.pass(Duration::from_millis(10));
            drain(&mut model, reader, &mut read);
        }
        assert!(read > 300_000, "{read} bytes");

        // All that was taken arrives.
        for _ in 0..4000 {
            for ((_, accepted), _, read) in &mut stuck {
                drain(&mut model, *accepted, read);
            }
            drain(&mut model, reader, &mut read);
            model.pass(Duration::from_millis(50));
        }
        assert_eq!(read, sent);
        for (_, sent, read) in &stuck {
            assert_eq!(sent, read);
        }
        model.pass(Duration::from_secs(1));
        assert_eq!(held(&mut model), 0);
        assert!(counter(&mut model, "tcp", "TCPMemoryPressuresChrono") > 0);
        assert!(stuck.iter().all(|((client, _), ..)| model.poll(*client).contains(Poll::OUT)));
    }
}

#[test]
fn what_a_dead_connection_left_counts_until_it_is_read_or_closed() {
    let mut model = small(Mode::Inline);
    let listener = listener(&mut model);
    let pairs: Vec<_> = (0..4).map(|_| pair(&mut model, listener)).collect();
    for (client, _) in &pairs {
        assert_eq!(model.send(*client, &[7; 10_000], 0, None, &[]), Ok(10_000));
    }
    model.settle();
    assert_eq!(held(&mut model), 40_000);
    for (client, _) in &pairs {
        model.set(*client, abi::SOL_SOCKET, abi::SO_LINGER, &[1i32.to_ne_bytes(), [0; 4]].concat()).expect("SO_LINGER");
        model.close(*client);
    }
    model.settle();
    assert_eq!(held(&mut model), 40_000, "reset, and not read");
    assert_eq!(model.receive(pairs[0].1, 4000, 0).map(|got| got.count), Ok(4000));
    assert_eq!(held(&mut model), 36_000);
    model.close(pairs[0].1);
    assert_eq!(held(&mut model), 30_000);
    assert_eq!(model.receive(pairs[1].1, 20_000, 0).map(|got| got.count), Ok(10_000));
    assert_eq!(held(&mut model), 20_000);
    // connect(AF_UNSPEC) throws it away as well.
    assert_eq!(model.connect(pairs[2].1, &[0; 16]), Ok(()));
    assert_eq!(held(&mut model), 10_000);
    model.close(pairs[3].1);
    assert_eq!(held(&mut model), 0);
}

#[test]
fn a_closed_connection_is_reset_when_its_queue_costs_too_much() {
    let mut model = small(Mode::Inline);
    let listener = listener(&mut model);
    let mut pairs: Vec<_> = (0..40).map(|_| pair(&mut model, listener)).collect();
    while held(&mut model) <= MOST {
        for (client, _) in &mut pairs {
            fill(&mut model, *client, &mut 0, 1 << 30);
        }
        model.pass(Duration::from_millis(100));
    }
    let before = held(&mut model);
    for (client, _) in &pairs {
        model.close(*client);
    }
    assert!(counter(&mut model, "tcp", "TCPAbortOnMemory") > 0);
    assert!(held(&mut model) < before);
}
