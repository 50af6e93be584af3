//! MP_FASTCLOSE and MP_TCPRST (§3.5, §3.6).

use super::*;

#[test]
fn a_fast_close_with_a_wrong_key_is_ignored() {
    for side in 0..2 {
        let mut pair = joining();
        add_once(&mut pair, side, 10, Option30::FastClose { receiver_key: 0x1234 });
        exchange(&mut pair);
        assert_eq!(counter(&mut pair.nodes[1 - side], Counter::BadOptions), 1);
        assert_eq!(counter(&mut pair.nodes[1 - side], Counter::MPFastcloseRx), 0);
    }
}

#[test]
fn a_fast_close_has_the_receivers_key_and_resets_all_subflows_of_the_peer() {
    let mut pair = joining();
    connect(&mut pair);
    pair.run_for(Duration::from_millis(500));
    pair.nodes[0].write(1, pattern(500_000));
    pair.run_for(Duration::from_millis(500));
    pair.nodes[0].call(1, StreamCall::Abort);
    pair.run_for(Duration::from_secs(1));
    let (_, server) = keys(&pair);
    let closes: Vec<u64> = said(&pair)
        .into_iter()
        .filter_map(|(_, _, message)| match message {
            Option30::FastClose { receiver_key } => Some(receiver_key),
            _ => None,
        })
        .collect();
    assert!(closes.len() == 2 && closes.iter().all(|key| *key == server.0), "{closes:?}");
    let child = pair.accepted().unwrap();
    let events = pair.nodes[1].events(child.0);
    assert!(events.contains(&"failed reset".to_owned()) && events.last() == Some(&"released".to_owned()), "{events:?}");
    assert_eq!(pair.nodes.each_mut().map(population), [0, 0]);
}

#[test]
fn a_reason_of_a_reset_on_anything_but_a_reset_is_ignored() {
    let mut pair = joining();
    add_once(&mut pair, 1, 10, Option30::Reset { flags: Default::default(), reason: 3 });
    exchange(&mut pair);
    let client = &mut pair.nodes[0];
    assert_eq!((counter(client, Counter::BadOptions), counter(client, Counter::MPRstRx)), (1, 0));
    assert!(share(&pair, 0) > 0.1);
}
