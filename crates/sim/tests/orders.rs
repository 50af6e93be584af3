//! Operations that blocks order, in virtual time: they take effect at their frame, and are part of the hash.

use crate::support;

use support::figure;
use weft_sim::World;
use weft_sim::scenario::Scenario;

/// Ten pings through a trigger behind which the third and fourth request find a longer wire. `orders`: what it orders, at every second frame.
fn world(orders: &str, threads: usize) -> (World, u128) {
    let stack = format!(
        "[[interface]]\nname = \"eth0\"\nbackend = \"wire:x\"\n[[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.1/24\"\n\
         [block.t]\nkind = \"trigger\"\nframes = 2\norders = \"{orders}\"\n[graph]\ninsert = [\"t arp:lower ether:upper\"]\n"
    );
    let text = "seed = 3\n[nodes.a]\nstack = \"a.toml\"\n[nodes.b]\naddresses = { eth0 = \"10.0.0.2/24\" }\n[nodes.c]\n[nodes.d]\n[wires.ab]\n\
                between = [\"a:eth0\", \"b:eth0\"]\ndelay = \"1ms\"\n[wires.cd]\nbetween = [\"c\", \"d\"]\ndelay = \"1ms\"\n[programs.p]\nnode = \"a\"\nbuiltin = \"ping\"\n\
                to = \"10.0.0.2\"\ncount = 10\n[programs.q]\nnode = \"c\"\nbuiltin = \"ping\"\nto = \"d\"\ncount = 10\n";
    let read = |name: &str| match name {
        "a.toml" => Ok(stack.clone().into_bytes()),
        _ => Err("no such file".to_owned()),
    };
    let scenario = Scenario::parse("s.toml", text, &[], &read).unwrap_or_else(|error| panic!("{error}"));
    let mut world = World::new(scenario.plan, threads).unwrap();
    world.run(&mut |_| true);
    let hash = world.hash();
    (world, hash)
}

#[test]
fn an_order_takes_effect_at_its_frame_and_is_part_of_the_hash() {
    // Frames of arp:lower are an ARP request, then a request for each ping.
    let orders = "add far delay delay=5ms; insert far t ether:upper; extract far; delete far";
    let (one, hash) = world(orders, 1);
    // The request that was in it when it was taken out has no way on.
    assert_eq!((figure(&one, 0, "rtt_max_ns"), figure(&one, 0, "replies")), (7_000_000, 9));
    assert_eq!(world(orders, 2).1, hash, "on two threads");
    let (_, others) = world("add far delay delay=5ms", 1);
    assert_ne!(hash, others);
    let (_, nothing) = world("get t.frames", 1);
    let (_, refused) = world("get t.frames; set nobody.delay 1ms", 1);
    assert_ne!(nothing, refused, "what was refused was ordered all the same");
    assert_eq!(world("get t.again", 1).1, nothing, "who only asks leaves the hash alone");
}
