//! What unmodified programs moved through their sockets, and what may be expected of it.

use crate::support;

use support::{figure, run};
use weft_sim::scenario::{Judged, judge};
use weft_sim::{Scenario, World};

/// 100 datagrams of 1000 bytes, one every 10 ms.
const SENDS: &str = "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    for n in range(100):\n    s.sendto(bytes(1000), ('b', 5000))\n    time.sleep(0.01)\n";

fn scenario(text: &str) -> Result<Scenario, String> {
    let wire = "duration = \"5s\"\n[nodes.a]\n[nodes.b]\n[wires.w]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n";
    let read = |_: &str| Err("no files here".to_owned());
    Scenario::parse("s.toml", &(wire.to_owned() + text), &[], &read).map_err(|error| error.to_string())
}

fn python(name: &str, node: &str, script: &str, rest: &str) -> String {
    format!("[programs.{name}]\nnode = \"{node}\"\ncommand = [\"python3\", \"-ISc\", {script:?}]\n{rest}\n")
}

fn judged(text: &str) -> (World, Vec<Judged>) {
    let scenario = scenario(text).unwrap_or_else(|error| panic!("{error}"));
    let (world, end) = run(scenario.plan.clone(), 1);
    let verdicts = judge(&world, &end, &scenario.expectations);
    (world, verdicts)
}

/// Why each `[[expect]]` does not hold, in their order.
fn failures(verdicts: &[Judged]) -> Vec<Option<&str>> {
    verdicts.iter().filter(|verdict| verdict.name.contains("(line ")).map(|verdict| verdict.failure.as_deref()).collect()
}

#[test]
fn what_a_program_and_its_children_receive_over_the_time_it_takes_is_their_goodput() {
    // The child takes every second one; who only looks at a datagram has not received it.
    let takes = "import os, socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 5000))\n\
        r, w = os.pipe()\nv, x = os.pipe()\n\
        if os.fork() == 0:\n    for n in range(50):\n        os.read(r, 1)\n        s.recv(2000)\n        os.write(x, b'.')\n    os._exit(0)\n\
        for n in range(50):\n    s.recv(2000, socket.MSG_PEEK)\n    s.recv(2000)\n    os.write(w, b'.')\n    os.read(v, 1)\n";
    let text = python("load", "a", SENDS, "start = \"100ms\"") + &python("sink", "b", takes, "expect = 0");
    let bounds = "[[expect]]\nprogram = \"sink\"\ngoodput_min = \"800kbit\"\ngoodput_max = \"812kbit\"\n\
        [[expect]]\nprogram = \"sink\"\ngoodput_min = \"812kbit\"\n[[expect]]\nprogram = \"sink\"\ngoodput_max = \"800kbit\"\n\
        [[expect]]\nprogram = \"load\"\ngoodput_min = \"1kbit\"\n\
        [[expect]]\nprogram = \"sink\"\nfigure = \"received_bytes\"\nmin = 100_000\nmax = 100_000\n";
    let (world, verdicts) = judged(&(text + bounds));
    assert!(verdicts.iter().take(2).all(|verdict| verdict.failure.is_none()), "{verdicts:?}");
    assert_eq!((figure(&world, 0, "sent_bytes"), figure(&world, 0, "received_bytes")), (100_000, 0));
    assert_eq!((figure(&world, 1, "sent_bytes"), figure(&world, 1, "received_bytes")), (0, 100_000));
    // 100 datagrams over 99 times 10 ms less the 2 ms that the first waits for ARP: 809,716 bit/s, less what the calls between cost.
    let goodput = figure(&world, 1, "goodput_bits_per_second");
    assert!((806_000..=809_716).contains(&goodput), "{goodput}");
    let is = format!("it is {goodput}");
    let sent = "it cannot be computed: the program received nothing (it sent 100000 bytes; goodput is that of who receives)";
    assert_eq!(failures(&verdicts), [None, Some(is.as_str()), Some(is.as_str()), Some(sent), None]);
}

#[test]
fn streams_count_what_was_read_and_written_and_whoever_outlives_the_program() {
    let serves = "import socket\nl = socket.create_server(('', 80))\nc, _ = l.accept()\ngot = 0\n\
        while got < 300000:\n    got += len(c.recv(65536))\nc.sendall(b'thanks')\n";
    // The program ends at once, and what it has started goes on.
    let sends = "import os, socket, time\nif os.fork():\n    os._exit(0)\nc = socket.create_connection(('b', 80))\n\
        c.sendall(bytes(100000))\ntime.sleep(1)\nc.sendall(bytes(200000))\nassert c.recv(100, socket.MSG_WAITALL) == b'thanks'\n";
    let text = python("load", "a", sends, "start = \"100ms\"") + &python("serve", "b", serves, "");
    let (world, verdicts) = judged(&(text + "[[expect]]\nprogram = \"serve\"\ngoodput_min = \"2mbit\"\ngoodput_max = \"2400kbit\"\n"));
    assert!(verdicts.iter().all(|verdict| verdict.failure.is_none()), "{verdicts:?}");
    assert_eq!((figure(&world, 0, "sent_bytes"), figure(&world, 0, "received_bytes")), (300_000, 6));
    assert_eq!((figure(&world, 1, "sent_bytes"), figure(&world, 1, "received_bytes")), (6, 300_000));
}

#[test]
fn a_goodput_that_cannot_be_computed_says_why_and_fails() {
    let one = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 5000))\ns.recv(2000)\n";
    let none = one.replace("5000", "5001");
    let text = python("load", "a", SENDS, "start = \"100ms\"")
        + &python("one", "b", one, "")
        + &python("none", "b", &none, "expect = \"running\"")
        + &python("other", "b", "pass", "")
        + &python("never", "b", "pass", "waits = true\nexpect = \"any\"")
        + "[programs.sink]\nnode = \"b\"\nbuiltin = \"tcp-sink\"\nport = 80\n";
    let programs = ["one", "none", "other", "never", "sink"];
    // A bound that nothing exceeds, neither does nothing.
    let bounds: String = programs.iter().map(|program| format!("[[expect]]\nprogram = \"{program}\"\ngoodput_max = \"1gbit\"\n")).collect();
    let (_, verdicts) = judged(&(text + &bounds));
    let why = [
        "all that the program received came at one instant, and a rate needs two",
        "the program received nothing (it sent 0 bytes; goodput is that of who receives)",
        "the program made no socket",
        "the program never started",
        "the program received nothing",
    ];
    let wanted: Vec<String> = why.iter().map(|why| format!("it cannot be computed: {why}")).collect();
    assert_eq!(failures(&verdicts), wanted.iter().map(|why| Some(why.as_str())).collect::<Vec<_>>());
}
