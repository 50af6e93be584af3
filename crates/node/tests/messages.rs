//! What a person reads who has made a mistake in a stack file: the line that is to blame, what is wrong in words, what to do.

use weft_node::{Node, Stack};

const INTERFACE: &str = "[[interface]]\nname = \"weft0\"\nbackend = \"memory:x\"\n";

/// Checks a file of an interface (three lines) and `rest`; the error's line counts from the first line of `rest`.
fn error(rest: &str) -> (usize, String, String) {
    let text = format!("{INTERFACE}{rest}");
    let checked = Stack::parse("a.toml", &text).and_then(|stack| Node::check(&stack).map(|_| ()));
    let error = checked.expect_err("the file is wrong");
    (error.line.saturating_sub(3), error.what, error.help)
}

fn expect(rest: &str, line: usize, what: &str, help: &str) {
    let (got_line, got_what, got_help) = error(rest);
    assert_eq!((got_line, got_what.as_str()), (line, what), "{rest}");
    assert!(got_help.contains(help), "{rest}: {got_help}");
}

#[test]
fn addresses_and_routes_are_blamed_by_their_value_in_plain_words() {
    let address = |text: &str| format!("[[address]]\ninterface = \"weft0\"\naddress = \"{text}\"\n");
    expect(&address("10.77.0.2/99"), 3, "'10.77.0.2/99' is no IPv4 prefix such as \"192.0.2.0/24\"", "10.77.0.2/24");
    expect(&address("224.0.0.1/24"), 3, "224.0.0.1 cannot be a host's address", "10.77.0.2/24");
    expect(&address("fd00::1/129"), 3, "'fd00::1/129' is no IPv6 prefix such as \"2001:db8::/64\"", "fd77::2/64");
    expect(&address("ff02::1/64"), 3, "ff02::1 cannot be a host's address", "fd77::2/64");
    expect(&address("10.77.0.2"), 3, "'10.77.0.2' has no prefix length", "\"10.77.0.2/24\"; \"10.77.0.2/32\" if it has no neighbours");
    expect(&address("fd77::2"), 3, "'fd77::2' has no prefix length", "\"fd77::2/64\"");
    let detected = format!("{}dad = true\n", address("10.77.0.2/24"));
    expect(&detected, 4, "'10.77.0.2/24': duplicates are detected of IPv6 addresses only", "take dad = true away");
    let twice = format!("{}{}", address("10.77.0.2/24"), address("10.77.0.2/24"));
    expect(&twice, 6, "the interface has 10.77.0.2 already", "");
    let route = |text: &str| format!("{}[[route]]\n{text}", address("10.77.0.2/24"));
    expect(
        &route("destination = \"default\"\ngateway = \"10.78.0.1\"\n"),
        6,
        "the gateway 10.78.0.1 is on no network of an interface",
        "gateway on a connected network",
    );
    expect(&route("destination = \"default\"\ngateway = \"10.77\"\n"), 6, "'10.77' is no IPv4 address such as \"192.0.2.1\"", "");
    let far = "the gateway fd78::1 is on no network of an interface";
    expect(&route("destination = \"default\"\ngateway = \"fd78::1\"\n"), 6, far, "gateway on a connected network");
    let link = "the gateway fe80::1 is link-local: say on which interface it is";
    expect(&route("destination = \"2001:db8::/32\"\ngateway = \"fe80::1\"\n"), 6, link, "");
    let bits = "fd88::1/64 has bits set behind its prefix; fd88:: is the network";
    expect(&route("destination = \"fd88::1/64\"\ninterface = \"weft0\"\n"), 5, bits, "");
}

#[test]
fn a_bare_number_is_no_time_span_and_no_rate() {
    let number = "20 needs a unit: ";
    expect(
        "[block.tcp]\nrto_min = 20\n",
        2,
        &format!("tcp.rto_min: {number}ns, us, ms, s, m or h, for example \"20ms\""),
        "weft help block tcp",
    );
    let wire = "[block.wire]\nkind = \"rate\"\nrate = 20\n[graph]\ninsert = [\"wire ether:lower interfaces:upper\"]\n";
    expect(wire, 3, &format!("wire.rate: {number}bit, kbit, mbit or gbit, for example \"20mbit\""), "weft help block rate");
    let mut stack = Stack::default_stack();
    stack.set("tcp.rto_min=20").unwrap();
    assert!(Node::check(&stack).unwrap_err().to_string().contains("tcp.rto_min: 20 needs a unit"));
    stack.set("tcp.rto_min=20ms").unwrap();
    Node::check(&stack).unwrap();
}

#[test]
fn the_graph_section_tells_how_to_mend_it() {
    let alone = "wan:out must be bound (those that are not lost)";
    expect("[block.wan]\nkind = \"loss\"\n", 1, alone, "put it into an edge: [graph] insert = [\"wan ether:lower interfaces:upper\"]");
    let mut names: Vec<&str> = weft_node::BLOCKS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    expect(
        "[graph]\ninsert = [\"wan ether:lower interfaces:upper\"]\n",
        2,
        &format!("there is no block named 'wan'; the graph has: {}", names.join(", ")),
        "[block.wan] with kind = ",
    );
    let two = "[block.wan]\nkind = \"loss\"\n[block.far]\nkind = \"loss\"\n[graph]\ninsert = [\n\"wan ether:lower interfaces:upper\",\n\"far ether:lower interfaces:upper\"]\n";
    expect(
        two,
        8,
        "there is no edge from ether:lower to interfaces:upper",
        "'wan' stands in that edge already: write \"far ether:lower wan\" (before it) or \"far wan interfaces:upper\" (after it)",
    );
    let mended = format!("{INTERFACE}{}", two.replace("far ether:lower interfaces:upper", "far wan interfaces:upper"));
    Node::check(&Stack::parse("a.toml", &mended).unwrap()).unwrap();
    let before = format!("{INTERFACE}{}", two.replace("far ether:lower interfaces:upper", "far ether:lower wan"));
    Node::check(&Stack::parse("a.toml", &before).unwrap()).unwrap();
}
