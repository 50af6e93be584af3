//! Every bound, with its counter; what a blocking caller sees; the table's rows. On a small loopback of the tests' own.

use crate::language;
use crate::model;
use crate::small;

use bytes::Bytes;
use language::Host;
use model::Model;
use weft_core::{Message, Op, Show, Table, Value};
use weft_socket::{Errno, Poll, SocketId, SocketState, abi, address};

fn counter(model: &mut Model, name: &str) -> u64 {
    let reply = model.engine.control(weft_core::Instant::ZERO, &Message { serial: 1, op: Op::Show(Show::Counters) });
    let rows = reply.result.expect("counters");
    let sockets = rows.as_array().and_then(|rows| rows.iter().find(|row| row["block"] == "sockets")).expect("the block's row").clone();
    sockets["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
}

fn rows(model: &mut Model) -> Vec<Value> {
    let reply = model.engine.control(weft_core::Instant::ZERO, &Message { serial: 1, op: Op::List(Table::Sockets) });
    reply.result.expect("rows").as_array().expect("a list").clone()
}

fn to(text: &str) -> Vec<u8> {
    address::to_bytes(text.parse().expect("an address"))
}

/// A listener on port 5000, a client, and the accepted end.
fn pair(model: &mut Model) -> (usize, usize, usize) {
    let listener = model.socket(2, 1, 0).expect("a socket");
    model.bind(listener, &to("127.0.0.1:5000")).expect("bind");
    model.listen(listener, 5).expect("listen");
    let client = model.socket(2, 1, 0).expect("a socket");
    assert_eq!(model.connect(client, &to("127.0.0.1:5000")), Err(Errno::EINPROGRESS));
    let (accepted, _) = model.accept(listener).expect("accept");
    (listener, client, accepted)
}

#[test]
fn there_are_no_more_sockets_than_allowed() {
    let mut model = small::model(&[("sockets_max", 3)]);
    let sockets: Vec<usize> = (0..3).map(|_| model.socket(2, 2, 0).expect("a socket")).collect();
    assert_eq!(model.socket(2, 1, 0), Err(Errno::ENFILE));
    assert_eq!(counter(&mut model, "sockets_full"), 1);
    model.close(sockets[1]);
    model.socket(2, 1, 0).expect("there is room again");
}

#[test]
fn a_connection_for_which_there_is_no_socket_is_reset() {
    let mut model = small::model(&[("sockets_max", 2)]);
    let listener = model.socket(2, 1, 0).expect("a socket");
    model.listen(listener, 5).expect("listen");
    let client = model.socket(2, 1, 0).expect("a socket");
    let name = model.local(listener).expect("a name");
    assert_eq!(model.connect(client, &name), Err(Errno::EINPROGRESS));
    assert_eq!(model.accept(listener), Err(Errno::EAGAIN));
    assert_eq!(counter(&mut model, "sockets_full"), 1);
    assert_eq!(model.receive(client, 1, 0).map(|got| got.count), Err(Errno::ECONNRESET));
}

#[test]
fn the_backlog_is_bounded_by_the_parameter() {
    let mut model = small::model(&[("backlog_max", 2)]);
    let listener = model.socket(2, 1, 0).expect("a socket");
    model.listen(listener, 1000).expect("listen");
    let name = model.local(listener).expect("a name");
    let clients: Vec<usize> = (0..5).map(|_| model.socket(2, 1, 0).expect("a socket")).collect();
    for client in &clients {
        assert_eq!(model.connect(*client, &name), Err(Errno::EINPROGRESS));
    }
    // listen(2)'s bound and one more, as sk_acceptq_is_full counts.
    let connected = clients.iter().filter(|client| model.poll(**client).contains(Poll::OUT)).count();
    assert_eq!(connected, 3);
    assert_eq!(counter(&mut model, "passive_opens"), 3);
}

#[test]
fn a_full_receive_buffer_drops_datagrams_and_counts_them() {
    let mut model = small::model(&[]);
    let receiver = model.socket(2, 2, 0).expect("a socket");
    model.bind(receiver, &to("127.0.0.1:5000")).expect("bind");
    model.set(receiver, abi::SOL_SOCKET, abi::SO_RCVBUF, &5000i32.to_ne_bytes()).expect("SO_RCVBUF");
    model.set(receiver, abi::SOL_SOCKET, abi::SO_RXQ_OVFL, &1i32.to_ne_bytes()).expect("SO_RXQ_OVFL");
    let sender = model.socket(2, 2, 0).expect("a socket");
    for _ in 0..100 {
        model.send(sender, b"0123456789", 0, Some(&to("127.0.0.1:5000")), &[]).expect("send");
    }
    let mut got = 0;
    while let Ok(datagram) = model.receive(receiver, 100, 0) {
        assert_eq!(datagram.data, b"0123456789");
        assert!(datagram.control.is_empty(), "nothing was lost before it came");
        got += 1;
    }
    // 10000 bytes of buffer, 768 for each.
    assert_eq!(got, 13);
    assert_eq!(counter(&mut model, "RcvbufErrors"), 87);
    model.send(sender, b"0123456789", 0, Some(&to("127.0.0.1:5000")), &[]).expect("send");
    let datagram = model.receive(receiver, 100, 0).expect("the last");
    assert_eq!(datagram.control.get(16..20), Some(&87u32.to_ne_bytes()[..]), "SO_RXQ_OVFL: what was lost before it");
}

#[test]
fn all_receive_queues_together_are_bounded() {
    let mut model = small::model(&[("datagram_bytes_max", 10_000)]);
    let receivers: Vec<usize> = (0..4u16).map(|_| model.socket(2, 2, 0).expect("a socket")).collect();
    for (at, receiver) in receivers.iter().enumerate() {
        model.bind(*receiver, &to(&format!("127.0.0.1:{}", 5000 + at))).expect("bind");
    }
    let sender = model.socket(2, 2, 0).expect("a socket");
    let send = |model: &mut model::Model, at: usize| {
        model.send(sender, b"0123456789", 0, Some(&to(&format!("127.0.0.1:{}", 5000 + at))), &[]).expect("send");
    };
    for at in 0..40 {
        send(&mut model, at % 4);
    }
    // 768 bytes for each.
    assert_eq!(counter(&mut model, "MemErrors"), 40 - 13);
    // What is read, and what goes with its socket, makes room.
    assert!(model.receive(receivers[0], 100, 0).is_ok());
    send(&mut model, 1);
    assert_eq!(counter(&mut model, "MemErrors"), 40 - 13);
    model.close(receivers[1]);
    for _ in 0..3 {
        send(&mut model, 2);
    }
    assert_eq!(counter(&mut model, "MemErrors"), 40 - 13);
}

#[test]
fn the_error_queue_is_bounded_whatever_its_buffer() {
    let mut model = small::model(&[]);
    let s = model.socket(2, 2, 0).expect("a socket");
    model.set(s, abi::SOL_IP, abi::IP_RECVERR, &1i32.to_ne_bytes()).expect("IP_RECVERR");
    model.set(s, abi::SOL_SOCKET, abi::SO_RCVBUF, &(1i32 << 22).to_ne_bytes()).expect("SO_RCVBUF");
    for _ in 0..2200 {
        // Every second send only fetches the pending error.
        let _ = model.send(s, b"x", 0, Some(&to("127.0.0.1:9")), &[]);
    }
    let entries = (0..2200).take_while(|_| model.receive(s, 10, abi::MSG_ERRQUEUE).is_ok()).count();
    assert_eq!(entries, 1024);
    assert_eq!(counter(&mut model, "NoPorts"), 1100);
}

#[test]
fn ephemeral_ports_run_out_and_come_back() {
    let mut model = small::model(&[("ephemeral_first", 40000), ("ephemeral_last", 40003)]);
    let sockets: Vec<usize> = (0..5).map(|_| model.socket(2, 2, 0).expect("a socket")).collect();
    for s in &sockets[..4] {
        model.bind(*s, &to("127.0.0.1:0")).expect("a port");
    }
    assert_eq!(model.bind(sockets[4], &to("127.0.0.1:0")), Err(Errno::EADDRINUSE));
    assert_eq!(model.send(sockets[4], b"x", 0, Some(&to("127.0.0.1:9")), &[]), Err(Errno::EAGAIN));
    model.bind(sockets[4], &to("127.0.0.2:0")).expect("another address has ports of its own");
    model.close(sockets[0]);
    let again = model.socket(2, 2, 0).expect("a socket");
    model.bind(again, &to("127.0.0.1:0")).expect("the port came back");
    let streams: Vec<usize> = (0..5).map(|_| model.socket(2, 1, 0).expect("a socket")).collect();
    for s in &streams[..4] {
        model.bind(*s, &to("127.0.0.1:0")).expect("a port");
    }
    assert_eq!(model.connect(streams[4], &to("127.0.0.1:9")), Err(Errno::EADDRNOTAVAIL));
}

#[test]
fn time_wait_holds_the_port_until_it_is_over() {
    let mut model = small::model(&[]);
    let (listener, client, accepted) = pair(&mut model);
    model.close(accepted);
    model.close(client);
    model.close(listener);
    let again = model.socket(2, 1, 0).expect("a socket");
    assert_eq!(model.bind(again, &to("127.0.0.1:5000")), Err(Errno::EADDRINUSE));
    assert!(rows(&mut model).iter().any(|row| row["state"] == "TIME-WAIT" && row["local"] == "127.0.0.1:5000"));
    model.pass(std::time::Duration::from_secs(61));
    model.bind(again, &to("127.0.0.1:5000")).expect("TIME-WAIT is over");
    assert_eq!(rows(&mut model).len(), 1);
}

#[test]
fn nothing_is_left_when_all_is_closed() {
    let mut model = small::model(&[]);
    for round in 0..50 {
        let (listener, client, accepted) = pair(&mut model);
        model.send(client, b"data", 0, None, &[]).expect("send");
        for s in if round % 2 == 0 { [listener, client, accepted] } else { [accepted, client, listener] } {
            model.close(s);
        }
        model.pass(std::time::Duration::from_secs(61));
    }
    let value = |model: &mut Model, name: &str| {
        let target = weft_core::Selector::parse("sockets");
        let reply =
            model.engine.control(weft_core::Instant::ZERO, &Message { serial: 1, op: Op::Get { target, name: Some(name.to_owned()) } });
        reply.result.expect("a value")["sockets"].as_u64()
    };
    assert_eq!((value(&mut model, "sockets"), value(&mut model, "flows"), value(&mut model, "ports")), (Some(0), Some(0), Some(0)));
    assert_eq!(counter(&mut model, "sockets_opened") + counter(&mut model, "passive_opens"), counter(&mut model, "sockets_closed"));
}

#[test]
fn a_caller_that_waits_gets_its_low_water_mark_or_the_end() {
    let mut model = small::model(&[]);
    let (_, client, accepted) = pair(&mut model);
    let id = model.id(accepted);
    let receive = |model: &mut Model, length: usize, flags: i32| {
        model.face(|sockets, cx| sockets.receive(id, length, flags, cx)).map(|got| got.data.concat())
    };
    model.send(client, b"abc", 0, None, &[]).expect("send");
    assert_eq!(receive(&mut model, 5, abi::MSG_WAITALL), Err(Errno::EAGAIN));
    assert_eq!(receive(&mut model, 3, abi::MSG_WAITALL | abi::MSG_PEEK), Ok(b"abc".to_vec()));
    model.set(accepted, abi::SOL_SOCKET, abi::SO_RCVLOWAT, &4i32.to_ne_bytes()).expect("SO_RCVLOWAT");
    assert_eq!(receive(&mut model, 100, 0), Err(Errno::EAGAIN));
    assert_eq!(receive(&mut model, 2, 0), Ok(b"ab".to_vec()), "less was asked for than the mark");
    model.send(client, b"def", 0, None, &[]).expect("send");
    assert_eq!(receive(&mut model, 100, 0), Ok(b"cdef".to_vec()));
    model.send(client, b"end", 0, None, &[]).expect("send");
    model.shutdown(client, abi::SHUT_WR).expect("shutdown");
    assert_eq!(receive(&mut model, 100, abi::MSG_WAITALL), Ok(b"end".to_vec()));
    assert_eq!(receive(&mut model, 100, abi::MSG_WAITALL), Ok(Vec::new()));
}

#[test]
fn a_waiting_receiver_of_datagrams_sees_its_own_shutdown() {
    let mut model = small::model(&[]);
    let s = model.socket(2, 2, 0).expect("a socket");
    model.bind(s, &to("127.0.0.1:5000")).expect("bind");
    assert_eq!(model.shutdown(s, abi::SHUT_RD), Err(Errno::ENOTCONN));
    let id = model.id(s);
    let waits = model.face(|sockets, cx| sockets.receive(id, 10, 0, cx)).map(|got| got.len());
    assert_eq!(waits, Ok(0));
    assert_eq!(model.receive(s, 10, abi::MSG_DONTWAIT).map(|got| got.count), Err(Errno::EAGAIN));
}

#[test]
fn changes_name_each_socket_once_and_no_dead_one() {
    let mut model = small::model(&[]);
    let (listener, client, accepted) = pair(&mut model);
    let [listener, client, accepted]: [SocketId; 3] = [listener, client, accepted].map(|s| model.id(s));
    model.face(|sockets, _| sockets.take_changed());
    let data = Bytes::from_static(b"x");
    model.face(|sockets, cx| sockets.send(client, data.clone(), 0, None, &[], cx)).expect("send");
    model.face(|sockets, cx| sockets.send(client, data, 0, None, &[], cx)).expect("send");
    assert_eq!(model.face(|sockets, _| sockets.take_changed()), [accepted]);
    assert_eq!(model.face(|sockets, _| sockets.take_changed()), []);
    model.face(|sockets, cx| sockets.close(client, cx));
    model.face(|sockets, cx| sockets.close(listener, cx));
    assert_eq!(model.face(|sockets, _| sockets.take_changed()), [accepted]);
    assert_eq!(model.face(|sockets, _| sockets.state(accepted)), Some(SocketState::PeerClosed));
    assert_eq!(model.face(|sockets, _| sockets.state(client)), None);
    assert_eq!(model.face(|sockets, cx| sockets.shutdown(client, 2, cx)), Err(Errno::EBADF));
}

#[test]
fn the_send_buffer_bounds_what_is_taken_and_room_comes_back() {
    let mut model = small::model(&[]);
    let (_, client, accepted) = pair(&mut model);
    let id = model.id(client);
    let room = model.face(|sockets, _| sockets.send_room(id));
    let mut sent = 0;
    while let Ok(taken) = model.send(client, &[7; 100_000], 0, None, &[]) {
        sent += taken;
    }
    assert!(sent >= room && !model.poll(client).contains(Poll::OUT));
    assert_eq!(model.face(|sockets, _| sockets.send_room(id)), 0);
    let mut received = 0;
    while let Ok(got) = model.receive(accepted, 1 << 20, 0) {
        assert!(got.data.iter().all(|byte| *byte == 7));
        received += got.count;
    }
    assert_eq!(received, sent);
    assert!(model.poll(client).contains(Poll::OUT));
}

#[test]
fn rows_say_what_ss_says() {
    let mut model = small::model(&[]);
    let (_, client, _) = pair(&mut model);
    model.send(client, b"four", 0, None, &[]).expect("send");
    model.set(client, abi::SOL_TCP, abi::TCP_NODELAY, &1i32.to_ne_bytes()).expect("TCP_NODELAY");
    let rows = rows(&mut model);
    let of = |state: &str, local: &str| {
        rows.iter().find(|row| row["state"] == state && row["local"].as_str().is_some_and(|l| l.ends_with(local)))
    };
    let listener = of("LISTEN", ":5000").expect("the listener");
    assert_eq!((&listener["recv_q"], &listener["send_q"]), (&Value::from(0), &Value::from(5)));
    let accepted = of("ESTAB", ":5000").expect("the accepted end");
    assert_eq!(accepted["recv_q"], 4);
    let client = rows.iter().find(|row| row["peer"] == "127.0.0.1:5000").expect("the client");
    assert_eq!(client["options"][0], "TCP_NODELAY");
    assert_eq!(rows.len(), 3);
}
