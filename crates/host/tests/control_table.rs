//! More control connections than the daemon has room for.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use weft_host::control::CLIENTS_MAX;
use weft_host::world::{Control, Options, World};
use weft_node::Stack;

const HELLO: &[u8] = b"{\"serial\":1,\"ask\":\"hello\"}\n";

/// Runs the world until something holds.
fn until(world: &mut World, what: &str, mut holds: impl FnMut(&World) -> bool) {
    let start = Instant::now();
    while !holds(world) {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        world.turn(Duration::from_millis(10)).unwrap();
    }
}

/// Asks and waits for the answer; false when the connection was closed instead.
fn is_answered(world: &mut World, client: &mut UnixStream) -> bool {
    client.set_nonblocking(true).unwrap();
    if client.write_all(HELLO).is_err() {
        return false;
    }
    let mut answer = Vec::new();
    let mut ended = false;
    until(world, "an answer", |_| {
        let mut buffer = [0; 4096];
        match client.read(&mut buffer) {
            Ok(0) => ended = true,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
            Err(error) => ended = error.kind() != std::io::ErrorKind::WouldBlock,
        }
        ended || answer.ends_with(b"\n")
    });
    !ended
}

#[test]
fn idle_connections_give_way_to_new_ones_and_those_that_are_used_stay() {
    let path = std::env::temp_dir().join(format!("weft-control-table-{}", std::process::id()));
    let stack = Stack::parse("test", "[node]\nname = \"host\"\n").unwrap();
    let mut world = World::new(stack, Options { control: Control::At(path.clone()), ..Options::default() }).unwrap();
    let mut used = UnixStream::connect(&path).unwrap();
    let mut tracer = UnixStream::connect(&path).unwrap();
    tracer.write_all(b"{\"serial\":1,\"ask\":\"trace\"}\n").unwrap();
    assert!(is_answered(&mut world, &mut used));
    let mut idle = Vec::new();
    for number in 0..2 * CLIENTS_MAX {
        idle.push(UnixStream::connect(&path).unwrap());
        if number % 50 == 0 {
            assert!(is_answered(&mut world, &mut used), "a client that asks now and then, beside {number} that do not");
        }
    }
    // All but the two and as many as there is room for.
    let dismissed = (CLIENTS_MAX + 2) as u64;
    until(&mut world, "idle connections closed", |world| world.clients_dismissed() == dismissed);
    let mut late = UnixStream::connect(&path).unwrap();
    assert!(is_answered(&mut world, &mut late), "the command line");
    assert!(is_answered(&mut world, &mut used) && is_answered(&mut world, &mut tracer));
    assert!(!is_answered(&mut world, &mut idle[0]), "the idlest one");
    assert!(is_answered(&mut world, idle.last_mut().unwrap()), "the last one that came");
    assert_eq!(world.clients_dismissed(), dismissed + 1);
}
