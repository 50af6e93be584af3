use super::*;
use crate::{Node, Stack};

const STACK: &str = r#"# a stack of four protocols
version = "1.0";
stack: {
  modules = (
    { id = 0; lib = "switch"; name = "switch_1"; flows = []; params = {}; admin = 1; },
    { id = 1; lib = "interface"; name = "if_1"; flows = [1, 2]; params = {}; },
    { id = 2; lib = "ipv4"; name = "ip_1"; flows = [3, 0, 5, 4]; params = {}; },
    { id = 3; lib = "arp"; name = "arp_1"; flows = [6]; params = {}; },
    { id = 4; lib = "udp"; name = "udp_1"; flows = [7, 0, 0]; params = {}; },
    { id = 8; lib = "tcp"; name = "tcp_1"; flows = [8, 0, 0]; params = { mss = 1400; fast_enabled = 1; }; },
    { id = 5; lib = "logger"; name = "log_1"; flows = []; params = { interval = 500; }; },
    { id = 6; lib = "logger"; name = "log_2"; flows = []; params = {}; },
    { id = 9; lib = "logger"; name = "log_3"; flows = []; params = {}; },
    { id = 7; lib = "rtm"; name = "rtm_1"; flows = []; params = {}; admin = 1; },
    { id = 10; lib = "sonar"; name = "sonar_1"; flows = []; params = {}; }
  );
  links = (
    { id = 1; src = 1; dsts = [2, 5, 6]; },
    { id = 2; src = 1; dsts = [3]; },
    { id = 3; src = 2; dsts = [1]; },
    { id = 4; src = 2; dsts = [1]; },
    { id = 5; src = 2; dsts = [8]; },
    { id = 6; src = 3; dsts = [1]; },
    { id = 7; src = 4; dsts = [2]; },
    { id = 8; src = 8; dsts = [2]; }
  );
};
"#;

const ENVIRONMENT: &str = r#"version = "1.0";
environment: {
  interfaces = (
    { index = 0; name = ""; mac = 0x0L; type = 0; status = 0; mtu = 0; flags = 0x0; },
    { index = 1; name = "lo"; mac = 0x0L; type = 1; status = 1; mtu = 16436; flags = 0x49; },
    { index = 2; name = "eth0"; mac = 0x020000000001L; type = 1; status = 1; mtu = 1500; flags = 0x1003; },
    { index = 3; name = "wlan0"; mac = 0x020000000002L; type = 2; status = 1; mtu = 1500; flags = 0x1042; }
  );
  main_interface = 2;
  addresses = (
    { if_index = 1; family = 2; ip = [127,0,0,1]; mask = [255,0,0,0]; gw = [127,0,0,1]; bdc = [127,255,255,255]; dst = [127,0,0,1]; },
    { if_index = 2; family = 2; ip = [192,0,2,3]; mask = [255,255,255,0]; gw = [192,0,2,1]; bdc = [192,0,2,255]; dst = [0,0,0,0]; },
    { if_index = 2; family = 10; ip = [0,0,0,0]; mask = [0,0,0,0]; gw = [0,0,0,0]; bdc = [0,0,0,0]; dst = [0,0,0,0]; }
  );
  routes = (
    { if_index = 2; family = 2; dst = [0,0,0,0]; mask = [0,0,0,0]; gw = [192,0,2,1]; metric = 10; timeout = 0; },
    { if_index = 2; family = 2; dst = [192,0,2,0]; mask = [255,255,255,0]; gw = [0,0,0,0]; metric = 1; timeout = 0; },
    { if_index = 1; family = 2; dst = [127,0,0,0]; mask = [255,0,0,0]; gw = [127,0,0,1]; metric = 1; timeout = 0; },
    { if_index = 2; family = 2; dst = [198,51,100,0]; mask = [255,255,255,0]; gw = [192,0,2,7]; metric = 3; timeout = 60; }
  );
};
"#;

fn imported(stack: &str, environment: &str) -> Result<Imported, ImportError> {
    import(("stack.cfg", stack), ("envi.cfg", environment))
}

#[test]
fn both_files_become_a_stack_that_is_built() {
    let Imported { stack, notes } = imported(STACK, ENVIRONMENT).unwrap();
    let node = Node::check(&Stack::parse("fins.toml", &stack).unwrap()).unwrap_or_else(|error| panic!("{error}\n{stack}"));
    let graph = node.engine().graph();
    let edges: Vec<String> = graph
        .edges()
        .filter(|(from, _, to, _)| graph.kind(*from).is_some_and(|kind| kind.name == "logger") || graph.name(*to).starts_with("log_"))
        .map(|(from, _, to, _)| format!("{} {}", graph.name(from), graph.name(to)))
        .collect();
    assert_eq!(edges, ["ether log_1", "log_1 log_2", "log_2 ip4"]);
    assert!(stack.contains("mac = \"02:00:00:00:00:01\"\nmtu = 1500\n") && !stack.contains("wlan0"), "{stack}");
    assert!(
        stack.contains("[block.log_1]\nkind = \"logger\"\ninterval_ms = 500\n") && stack.contains("[block.tcp]\nmss = 1400\n"),
        "{stack}"
    );
    assert!(stack.contains("destination = \"default\"\ninterface = \"eth0\"\nmetric = 10\ngateway = \"192.0.2.1\"\n"), "{stack}");
    assert_eq!(stack.matches("[[route]]").count(), 2, "the network's own route follows from the address");
    assert_eq!(
        notes,
        [
            "stack.cfg:15: weft has no block that does what the module 'sonar' does: 'sonar_1' and its links are left out",
            "stack.cfg:21: flow 3 of 'ip_1' leads to 'if_1': in weft it leads to udp",
            "stack.cfg:10: weft has no parameter for 'fast_enabled' of 'tcp_1': left out",
            "stack.cfg:13: no link leads to 'log_3' and to another module: no frame comes to it, and it is left out",
            "stack.cfg:1: there is no module icmp, daemon: weft's stack has them all the same, and IPv6",
            "envi.cfg:7: interface 'wlan0' is down: left out, with its addresses and routes",
            "envi.cfg:13: family 10: only IPv4 (2) is converted",
            "envi.cfg:19: a route does not time out in weft",
        ]
    );
}

#[test]
fn contradictions_are_refused_with_their_lines() {
    let of_stack = |from: &str, to: &str| imported(&STACK.replacen(from, to, 1), ENVIRONMENT).unwrap_err().to_string();
    assert_eq!(of_stack("flows = [6];", "flows = [60];"), "stack.cfg:8: flow 0 of 'arp_1' is link 60, which does not exist");
    assert_eq!(of_stack("flows = [6];", "flows = [7];"), "stack.cfg:24: link 7 is a flow of 'arp_1', and begins at module 4");
    assert_eq!(of_stack("dsts = [3]", "dsts = [33]"), "stack.cfg:19: link 2 is about module 33, which does not exist");
    assert_eq!(of_stack("{ id = 1; src", "{ id = 0; src"), "stack.cfg:18: link 0: that number says that a flow has no link");
    assert_eq!(of_stack("id = 3; lib", "id = 2; lib"), "stack.cfg:8: module 2 a second time");
    assert_eq!(of_stack("lib = \"switch\"", "lib = \"tcp\""), "stack.cfg:5: module 0 is 'tcp': id 0 is the switch's, and only its");
    assert_eq!(
        of_stack("name = \"arp_1\"", "name = \"a b\""),
        "stack.cfg:8: 'a b' is no name for a block: use letters, digits, '-', '_' and '.', at most 64"
    );
    assert_eq!(of_stack("name = \"arp_1\"; ", ""), "stack.cfg:8: name is missing");
    assert_eq!(of_stack("stack: {", "pile: {"), "stack.cfg:1: stack is missing: this is no stack.cfg");
    let of_environment = |from: &str, to: &str| imported(STACK, &ENVIRONMENT.replacen(from, to, 1)).unwrap_err().to_string();
    assert_eq!(
        of_environment("main_interface = 2", "main_interface = 9"),
        "envi.cfg:9: main_interface is 9, and there is no interface of that number"
    );
    assert_eq!(of_environment("[192,0,2,3]", "[192,0,2,300]"), "envi.cfg:12: ip is not four numbers from 0 to 255");
}
