//! DSS: numbers, acknowledgments, windows, ends and backups of data (§3.3).

use super::*;

#[test]
fn a_byte_of_a_subflow_has_one_mapping_for_ever() {
    for seed in 0..4 {
        let bad = |wire: Wire| Wire { loss: 0.03, reorder: 0.05, late: Duration::from_millis(5), ..wire };
        let mut pair = two(seed, wires().map(bad), &["10.0.1.1 subflow"], &[]);
        exchange(&mut pair);
        let mut known: BTreeMap<(usize, u16, u16, u32), u64> = BTreeMap::new();
        let mut again = 0;
        for (from, on_wire, mapping, _) in mappings(&pair).into_iter().filter(|(_, _, mapping, _)| mapping.subflow_seq > 0) {
            for at in (0..u32::from(mapping.len)).step_by(100) {
                let flow = (from, on_wire.src.port(), on_wire.dst.port(), mapping.subflow_seq + at);
                let number = full(mapping.seq).wrapping_add(at.into());
                again += usize::from(known.contains_key(&flow));
                assert_eq!(*known.entry(flow).or_insert(number), number);
            }
        }
        assert!(again > 0);
    }
}

#[test]
fn acknowledgments_of_data_never_go_back() {
    let bad = |wire: Wire| Wire { loss: 0.02, reorder: 0.05, late: Duration::from_millis(5), ..wire };
    let mut pair = two(3, wires().map(bad), &["10.0.1.1 subflow"], &[]);
    exchange(&mut pair);
    let mut last: BTreeMap<(usize, u16, u16), u32> = BTreeMap::new();
    for (from, on_wire, message) in said(&pair) {
        if let Option30::Dss(Dss { ack: Some(ack), .. }) = message {
            let low = match ack {
                DataSeq::Short(low) => low,
                DataSeq::Long(long) => long as u32,
            };
            let known = last.entry((from, on_wire.src.port(), on_wire.dst.port())).or_insert(low);
            assert!(low.wrapping_sub(*known) as i32 >= 0);
            *known = low;
        }
    }
    assert_eq!(last.len(), 4);
}

#[test]
fn numbers_of_both_lengths_are_taken() {
    for side in 0..2 {
        let mut pair = joining();
        alter(&mut pair, side, |_, message| match message {
            Option30::Dss(dss) => {
                let mapping = dss.mapping.map(|mapping| Mapping { seq: DataSeq::Short(full(mapping.seq) as u32), ..mapping });
                Some(Option30::Dss(Dss { mapping, ..dss }))
            }
            other => Some(other),
        });
        exchange(&mut pair);
        no_errors(&mut pair);
        // Whoever gets short numbers answers in kind, and whoever gets long ones in long ones.
        let long = |from: usize| {
            let acks = said(&pair).into_iter().filter_map(move |(side, _, message)| match message {
                Option30::Dss(Dss { ack: Some(ack), .. }) if side == from => Some(matches!(ack, DataSeq::Long(_))),
                _ => None,
            });
            acks.filter(|long| *long).count()
        };
        assert_eq!(long(1 - side), 0);
        assert!(long(side) > 50);
    }
}

#[test]
fn no_data_goes_beyond_the_window_of_the_connection() {
    let mut pair = two(5, wires(), &["10.0.1.1 subflow"], &[]);
    connect(&mut pair);
    pair.nodes[1].app(|app, _| app.holds = true);
    pair.nodes[0].write(1, pattern(2_000_000));
    pair.run_for(Duration::from_secs(60));
    let (client, _) = keys(&pair);
    let scale =
        pair.log.iter().flatten().find(|(_, from, on_wire)| *from == 1 && is_syn(on_wire)).unwrap().2.segment.options.window_scale.unwrap();
    let (mut edge, mut farthest) = (65_535_u64, 0);
    for (from, on_wire, message) in said(&pair) {
        match message {
            Option30::Dss(Dss { ack: Some(ack), .. }) if from == 1 => {
                let low = match ack {
                    DataSeq::Short(low) => low,
                    DataSeq::Long(long) => long as u32,
                };
                let at = u64::from(low.wrapping_sub(client.first() as u32));
                edge = edge.max(at + (u64::from(on_wire.segment.window) << scale));
            }
            Option30::Dss(Dss { mapping: Some(mapping), .. }) if from == 0 => {
                let end = full(mapping.seq).wrapping_sub(client.first()) + u64::from(mapping.len);
                assert!(end <= edge, "{end} {edge}");
                farthest = farthest.max(end);
            }
            _ => {}
        }
    }
    // It was the window that stopped it.
    assert!(farthest < 2_000_000 && farthest + 20_000 > edge, "{farthest} {edge}");
    assert!(share(&pair, 0) > 0.05);
}

#[test]
fn until_the_first_acknowledgment_of_data_the_window_is_that_of_the_syn() {
    const WINDOW: u16 = 3_000;
    let mut pair = one();
    // What ends the handshake announces more, as Linux does by rounding up; less than this is what it takes.
    pair.alter = Some(Box::new(|from, on_wire| {
        if from == 0 && is_syn(on_wire) {
            on_wire.segment.window = WINDOW;
        }
    }));
    connect(&mut pair);
    pair.nodes[1].app(|app, _| app.reply = Some(pattern(BYTES)));
    pair.run_for(Duration::from_secs(60));
    let (_, server) = keys(&pair);
    let (mut farthest, mut heard) = (0, false);
    for (from, _, message) in said(&pair) {
        let Option30::Dss(dss) = message else { continue };
        heard |= from == 0 && dss.ack.is_some();
        if let Some(mapping) = dss.mapping.filter(|_| from == 1 && !heard) {
            farthest = farthest.max(full(mapping.seq).wrapping_sub(server.first()) + u64::from(mapping.len));
        }
    }
    assert_eq!(farthest, u64::from(WINDOW));
    let received = pair.app(0, |app, _| app.flow(FLOW).received.len());
    assert_eq!(received, BYTES);
}

#[test]
fn data_before_the_first_and_far_behind_the_window_is_dropped() {
    // Mappings that lie: the subflow has the data, the connection does not take it, and the sender says it again elsewhere.
    for by in [1_u64 << 40, (1_u64 << 40).wrapping_neg()] {
        let mut pair = joining();
        let mut chosen = None;
        alter(&mut pair, 0, move |on_wire, message| match message {
            Option30::Dss(Dss { ack, mapping: Some(mapping), fin }) if !on_wire.payload.is_empty() && is_second(on_wire) => {
                if mapping.subflow_seq > 5000 {
                    chosen.get_or_insert(mapping.subflow_seq);
                }
                let lies = chosen == Some(mapping.subflow_seq);
                let seq = if lies { DataSeq::Long(full(mapping.seq).wrapping_add(by)) } else { mapping.seq };
                Some(Option30::Dss(Dss { ack, mapping: Some(Mapping { seq, ..mapping }), fin }))
            }
            other => Some(other),
        });
        exchange(&mut pair);
        assert!(counter(&mut pair.nodes[1], Counter::NoDSSInWindow) > 0, "{:?}", counters(&mut pair.nodes[1]));
        let again = [Counter::MPTCPRetrans, Counter::OpportunisticTx].map(|one| counter(&mut pair.nodes[0], one));
        assert!(again.iter().sum::<u64>() > 0);
    }
}

/// Is this data a good deal behind that which was last said to lie?
fn lies(farthest: &mut Option<u64>, seq: u64) -> bool {
    let behind = farthest.map_or(0, |farthest| seq.wrapping_sub(farthest) as i64);
    if farthest.is_some() && behind < 10_000 {
        return false;
    }
    *farthest = Some(seq);
    true
}

#[test]
fn what_the_peer_has_thrown_away_in_many_places_is_repaired_by_one_wait() {
    for mut pair in [one(), joining()] {
        // New data lies, and what goes again does not.
        let mut farthest: Option<u64> = None;
        alter(&mut pair, 0, move |on_wire, message| match message {
            Option30::Dss(Dss { ack, mapping: Some(mapping), fin })
                if !on_wire.payload.is_empty() && lies(&mut farthest, full(mapping.seq)) =>
            {
                let seq = DataSeq::Long(full(mapping.seq).wrapping_add(1 << 40));
                Some(Option30::Dss(Dss { ack, mapping: Some(Mapping { seq, ..mapping }), fin }))
            }
            other => Some(other),
        });
        exchange(&mut pair);
        assert!(counter(&mut pair.nodes[1], Counter::NoDSSInWindow) > 10, "{:?}", counters(&mut pair.nodes[1]));
        let data = pair.log.iter().flatten().filter(|(_, from, on_wire)| *from == 0 && !on_wire.payload.is_empty());
        let times: Vec<Instant> = data.map(|(at, ..)| *at).collect();
        let waits = times.windows(2).filter(|two| two[1] - two[0] > Duration::from_millis(500)).count();
        assert!(waits <= 1, "{waits} waits");
    }
}

#[test]
fn the_end_is_told_without_data_by_number_0_and_length_1() {
    let mut pair = one();
    exchange(&mut pair);
    for (side, key) in [(0, keys(&pair).0), (1, keys(&pair).1)] {
        let ends: Vec<Mapping> = mappings(&pair).into_iter().filter(|(from, _, _, fin)| *from == side && *fin).map(|one| one.2).collect();
        assert!(!ends.is_empty());
        assert!(ends.iter().all(|end| (end.subflow_seq, end.len, full(end.seq)) == (0, 1, key.first().wrapping_add(BYTES as u64))));
        let acknowledged = said(&pair).into_iter().any(|(from, _, message)| {
            let low = key.first().wrapping_add(BYTES as u64 + 1) as u32;
            from != side && matches!(message, Option30::Dss(Dss { ack: Some(DataSeq::Short(ack)), .. }) if ack == low)
                || matches!(message, Option30::Dss(Dss { ack: Some(DataSeq::Long(ack)), .. }) if ack as u32 == low)
        });
        assert!(acknowledged);
    }
}

#[test]
fn the_end_is_said_again_until_it_is_acknowledged_and_subflows_end_after_that() {
    let mut pair = joining();
    let mut lost = 0;
    pair.filter = Some(Box::new(move |_, on_wire| {
        let end = options(on_wire).iter().any(|message| matches!(message, Option30::Dss(Dss { fin: true, .. })));
        lost += usize::from(end);
        !end || lost > 4
    }));
    exchange(&mut pair);
    no_errors(&mut pair);
    for side in 0..2 {
        let log: Vec<_> = pair.log.iter().flatten().filter(|(_, from, _)| *from == side).collect();
        let end = |on_wire: &OnWire| options(on_wire).iter().any(|message| matches!(message, Option30::Dss(Dss { fin: true, .. })));
        let last_end = log.iter().rposition(|(_, _, on_wire)| end(on_wire)).unwrap();
        let first_fin = log.iter().position(|(_, _, on_wire)| on_wire.segment.flags.contains(Flags::FIN)).unwrap();
        assert!(last_end < first_fin);
    }
    assert!(mappings(&pair).iter().filter(|(_, _, _, fin)| *fin).count() > 4);
}

#[test]
fn an_end_that_comes_with_the_last_data_is_taken() {
    // weft says it alone; others put it on their last data.
    for checksum in [false, true] {
        let mut pair = one();
        pair.nodes[0].tell("mptcp", "checksum", checksum.into()).unwrap();
        let first = Rc::new(RefCell::new(0));
        alter(&mut pair, 0, move |on_wire, message| {
            if let Option30::Capable(Capable { keys: Keys::Both { sender, .. }, .. }) = message {
                *first.borrow_mut() = Key(sender).first();
            }
            match message {
                Option30::Dss(Dss { ack, mapping: Some(mapping), fin: false }) if !on_wire.payload.is_empty() => {
                    let end = full(mapping.seq).wrapping_add(mapping.len.into()).wrapping_sub(*first.borrow());
                    let is_last = end == BYTES as u64;
                    let len = mapping.len + u16::from(is_last);
                    // One more in what is summed.
                    let sum = mapping.checksum.map(|sum| if is_last { ones_less(sum) } else { sum });
                    Some(Option30::Dss(Dss { ack, mapping: Some(Mapping { len, checksum: sum, ..mapping }), fin: is_last }))
                }
                Option30::Dss(Dss { ack, fin: true, .. }) => Some(Option30::Dss(Dss { ack, mapping: None, fin: false })),
                other => Some(other),
            }
        });
        exchange(&mut pair);
        no_errors(&mut pair);
    }
}

/// A checksum whose sum has become one more.
fn ones_less(sum: u16) -> u16 {
    if sum == 0 { 0xfffe } else { sum - 1 }
}

#[test]
fn a_reset_of_one_subflow_does_not_end_the_connection() {
    let mut pair = joining();
    let mut number = 0;
    pair.alter = Some(Box::new(move |_, on_wire| {
        number += usize::from(is_second(on_wire) && !is_syn(on_wire));
        if number == 20 && is_second(on_wire) {
            number += 1;
            on_wire.segment.flags = Flags::RST | Flags::ACK;
            on_wire.segment.options.others = Default::default();
            on_wire.payload.clear();
        }
    }));
    exchange(&mut pair);
}

#[test]
fn a_subflow_that_the_peer_wants_as_a_backup_gets_no_more_data() {
    for says in [true, false] {
        let mut pair = joining();
        let told = Rc::new(RefCell::new(0));
        let count = told.clone();
        // The server says so on the second wire.
        pair.alter = Some(Box::new(move |from, on_wire| {
            if from == 1 && is_second(on_wire) && !is_syn(on_wire) && on_wire.payload.is_empty() {
                *count.borrow_mut() += 1;
                if *count.borrow() == 3 && says {
                    on_wire.segment.options.others = Default::default();
                    on_wire.segment.options.push_mptcp(&Option30::Prio { backup: true }).unwrap();
                }
            }
        }));
        let mut at = None;
        exchange_and(&mut pair, |pair| {
            if *told.borrow() >= 3 {
                at.get_or_insert(pair.now);
            }
        });
        assert_eq!(counter(&mut pair.nodes[0], Counter::MPPrioRx), u64::from(says));
        // What its tcp has already goes, and the last of it takes its time.
        let late = at.unwrap() + Duration::from_millis(200);
        let data =
            |(at, from, on_wire): &&(Instant, usize, OnWire)| *at > late && *from == 0 && is_second(on_wire) && !on_wire.payload.is_empty();
        let after = pair.log.iter().flatten().filter(data).count();
        assert_eq!(after < 3, says, "{after}");
    }
}
