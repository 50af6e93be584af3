//! Packet filter expressions (pcap-filter(7)) that a node does not understand itself, to programs, by tcpdump: it is installed where people look at
//! packets, and asks libpcap.

use crate::control::{Client, ClientError};
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use weft_core::control::{ControlError, Op, Value};
use weft_core::expression::{EXPRESSION_BYTES_MAX, Expression, Framing};
use weft_node::Compiled;

/// What a block gets that asks for an expression about frames that begin with an Ethernet header (`link` "ethernet") or an IP header ("ip"): the
/// expression, if blocks understand it ([`weft_core::expression`]); otherwise what tcpdump makes of it.
///
/// # Errors
/// What is wrong with the expression, in weft's words and in libpcap's; or that tcpdump is missing.
pub fn compile(expression: &str, link: &str) -> Result<Compiled, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("an expression of {} bytes is too long: at most {EXPRESSION_BYTES_MAX}", expression.len()));
    }
    match Expression::parse(expression, Framing::named(link)) {
        Ok(_) => Ok(Compiled::Expression(expression.to_owned())),
        Err(own) => by_tcpdump(expression, link).map(Compiled::Program).map_err(|why| format!("{own} (tcpdump: {why})")),
    }
}

/// The text of a program.
fn by_tcpdump(expression: &str, link: &str) -> Result<String, String> {
    let framing = if link == "ip" { "RAW" } else { "EN10MB" };
    // "-d" and an expression alone: tcpdump opens no device and needs no rights.
    let run = Command::new("tcpdump").args(["-y", framing, "-ddd", "--", expression]).stdin(Stdio::null()).output();
    let output = run.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "not installed; it compiles what weft does not understand (Debian: apt install tcpdump); or give program = \"…\" instead"
                .to_owned()
        }
        _ => format!("cannot be started: {error}"),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed").trim();
        return Err(why.strip_prefix("tcpdump: ").unwrap_or(why).to_owned());
    }
    let program = weft_core::bpf::Program::parse(&String::from_utf8_lossy(&output.stdout)).map_err(|error| error.to_string())?;
    Ok(program.to_text())
}

/// Is this a parameter of filter or classify that takes an expression?
fn takes_expression(name: &str) -> bool {
    name == "expression" || name.strip_prefix("class").is_some_and(|number| number.parse::<u8>().is_ok())
}

/// Gives each expression in a change that the node does not understand itself its program. What the frames of a filter begin with, the daemon is
/// asked.
///
/// # Errors
/// What is wrong with an expression, or that the filters of a pattern have different frames.
pub fn in_changes(op: Op, client: &mut Client) -> Result<Op, ClientError> {
    let bad = |block: &str, parameter: &str, why: String| ControlError::BadValue {
        block: block.to_owned(),
        parameter: parameter.to_owned(),
        why,
    };
    match op {
        Op::Set { target, name, value: Value::String(expression) } if takes_expression(&name) => {
            let block = target.to_string();
            let unchanged = |target| Op::Set { target, name: name.clone(), value: expression.clone().into() };
            // Whoever has no such parameter says so itself.
            let Ok(answer) = client.node(Op::Get { target: target.clone(), name: Some("link".to_owned()) }) else {
                return Ok(unchanged(target));
            };
            let links: BTreeSet<&str> = answer.as_object().into_iter().flatten().filter_map(|(_, link)| link.as_str()).collect();
            let understood = |link: &&str| Expression::parse(&expression, Framing::named(link)).is_ok();
            let is_program = weft_core::bpf::Program::parse(&expression).is_ok();
            if expression.trim().is_empty() || is_program || links.iter().all(understood) {
                return Ok(unchanged(target));
            }
            let [link] = links.into_iter().collect::<Vec<_>>()[..] else {
                return Err(bad(&block, &name, "these are filters of different links: set them one by one".to_owned()).into());
            };
            match compile(&expression, link).map_err(|why| bad(&block, &name, why))? {
                Compiled::Expression(_) => Ok(unchanged(target)),
                Compiled::Program(program) if name == "expression" => {
                    Ok(Op::Set { target, name: "program".to_owned(), value: remarked(&program, &expression).into() })
                }
                Compiled::Program(program) => Ok(Op::Set { target, name, value: program.into() }),
            }
        }
        Op::Add { name, kind, mut parameters } if kind == "filter" => {
            let link = parameters.get("link").and_then(Value::as_str).unwrap_or("ethernet").to_owned();
            in_parameters(&mut parameters, &link).map_err(|why| bad(&name, "expression", why))?;
            Ok(Op::Add { name, kind, parameters })
        }
        Op::Replace { name, kind, mut parameters, drop_state } if kind == "filter" => {
            let link = match parameters.get("link").and_then(Value::as_str) {
                Some(link) => link.to_owned(),
                None => {
                    let answer = client.node(Op::Get { target: weft_core::Selector::Name(name.clone()), name: None })?;
                    answer[&name]["link"].as_str().unwrap_or("ethernet").to_owned()
                }
            };
            in_parameters(&mut parameters, &link).map_err(|why| bad(&name, "expression", why))?;
            Ok(Op::Replace { name, kind, parameters, drop_state })
        }
        Op::All(ops) => ops.into_iter().map(|op| in_changes(op, client)).collect::<Result<_, _>>().map(Op::All),
        other => Ok(other),
    }
}

/// A program, and what it was made of.
fn remarked(program: &str, expression: &str) -> String {
    format!("{program} # {expression}")
}

/// Exchanges an expression that needs tcpdump for its program.
fn in_parameters(parameters: &mut IndexMap<String, Value>, link: &str) -> Result<(), String> {
    let Some(expression) = parameters.get("expression").and_then(Value::as_str).map(str::to_owned) else { return Ok(()) };
    if expression.trim().is_empty() || parameters.contains_key("program") {
        return Ok(());
    }
    if let Compiled::Program(program) = compile(&expression, link)? {
        parameters.shift_remove("expression");
        parameters.insert("program".to_owned(), remarked(&program, &expression).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::{Frame, Rng};

    #[test]
    fn what_nodes_understand_is_left_to_them_and_the_rest_to_tcpdump() {
        assert_eq!(compile("tcp port 80", "ethernet"), Ok(Compiled::Expression("tcp port 80".to_owned())));
        assert!(matches!(compile("tcp port 80 and group 7", "ip"), Ok(Compiled::Expression(_))));
        let Ok(Compiled::Program(program)) = compile("vlan 5 and tcp", "ethernet") else { panic!("vlan is left to tcpdump") };
        assert!(weft_core::bpf::Program::parse(&program).is_ok());
        let wrong = compile("tcp prot 80", "ethernet").unwrap_err();
        assert!(wrong.contains("'prot' (word 2)") && wrong.contains("tcpdump: "), "{wrong}");
        assert!(compile("-w /tmp/file", "ip").is_err(), "an expression is never an option");
        assert!(compile(&"x".repeat(5000), "ip").unwrap_err().contains("too long"));
        let mut parameters = IndexMap::from([("expression".to_owned(), Value::from("vlan 5"))]);
        in_parameters(&mut parameters, "ethernet").unwrap();
        assert!(parameters["program"].as_str().is_some_and(|text| text.ends_with(" # vlan 5")) && parameters.len() == 1, "{parameters:?}");
    }

    /// Packets that tell expressions apart: of both families, with options, fragments and extension headers, ARP.
    fn packets(link: &str, rng: &mut Rng) -> Vec<Vec<u8>> {
        let one = |rng: &mut Rng| {
            let pick = |rng: &mut Rng, of: &[u8]| of[rng.below(of.len() as u64) as usize];
            let protocol = pick(rng, &[1, 2, 6, 17, 50, 58, 132]);
            let ports = |rng: &mut Rng| [0, pick(rng, &[22, 53, 80, 90]), 0, pick(rng, &[22, 53, 80, 90])];
            let mut bytes = vec![0; 110 + rng.below(40) as usize];
            rng.fill(&mut bytes);
            let at = if link == "ip" { 0 } else { 14 };
            let kind = rng.below(if at == 0 { 2 } else { 4 });
            if at > 0 {
                let ether_type: u16 = [0x0800, 0x86dd, 0x0806, 0x8035][kind as usize];
                bytes[12..14].copy_from_slice(&ether_type.to_be_bytes());
                bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, pick(rng, &[1, 2])]);
                bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, pick(rng, &[1, 2])]);
            }
            let packet = &mut bytes[at..];
            if kind == 1 {
                (packet[0], packet[6]) = (0x60, pick(rng, &[protocol, 44]));
                packet[8..40].fill(0);
                (packet[8], packet[9], packet[23], packet[24], packet[25], packet[39]) =
                    (0x20, 1, pick(rng, &[1, 2]), 0x20, 1, pick(rng, &[1, 2]));
                let ports = ports(rng);
                packet[40..44].copy_from_slice(&ports);
                packet[40] = if packet[6] == 44 { protocol } else { 0 };
                return bytes;
            }
            let header = if kind == 0 { pick(rng, &[5, 7]) } else { 5 };
            let address = |rng: &mut Rng| [192, 0, 2, pick(rng, &[1, 2, 9])];
            if kind == 0 {
                (packet[0], packet[9]) = (0x40 | header, protocol);
                let fragment = [0_u8, 0, 0, 0x20, 0x01][rng.below(5) as usize];
                (packet[6], packet[7]) = (fragment, 0);
                let (source, destination) = (address(rng), address(rng));
                packet[12..16].copy_from_slice(&source);
                packet[16..20].copy_from_slice(&destination);
            } else {
                let (source, destination) = (address(rng), address(rng));
                packet[14..18].copy_from_slice(&source);
                packet[24..28].copy_from_slice(&destination);
            }
            let (ports, at) = (ports(rng), 4 * usize::from(header));
            if kind == 0 {
                packet[at..at + 4].copy_from_slice(&ports);
            }
            bytes
        };
        (0..400).map(|_| one(rng)).collect()
    }

    /// libpcap is the judge of what it knows, too.
    #[test]
    fn expressions_mean_what_libpcap_makes_of_them() {
        const OF_BOTH: [&str; 46] = [
            "ip",
            "ip6",
            "tcp",
            "udp",
            "icmp",
            "icmp6",
            "igmp",
            "sctp",
            "esp",
            "tcp or udp",
            "not ip",
            "host 192.0.2.1",
            "src host 192.0.2.1",
            "dst 192.0.2.2",
            "src and dst host 192.0.2.1",
            "src or dst host 192.0.2.9",
            "ip host 192.0.2.1",
            "net 192.0.2.0/30",
            "src net 192.0.2",
            "net 192",
            "net 192.0.2.8 mask 255.255.255.248",
            "host 2001::1 or host 2001::2",
            "src net 2001::/127",
            "ip6 dst host 2001::2",
            "port 53",
            "udp port 53",
            "tcp src port 80 and dst port 22",
            "portrange 50-80",
            "udp portrange 80-53",
            "port 53 or 80",
            "src or dst port 90",
            "ip proto 17",
            "ip6 proto 6",
            "proto 6",
            "ip proto \\tcp",
            "less 120",
            "greater 130",
            "len > 125",
            "ip[0] & 0xf != 5",
            "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
            "udp[0:2] + 1 > udp[2:2]",
            "icmp[icmptype] < 128 or icmp6[0] > 128",
            "ip6[6] == 44",
            "ip[8] / 2 >= 64 and not ip[1] << 1 = 6",
            "tcp port ssh or udp and not host 192.0.2.1",
            "(tcp and port 80) or (udp and (port 53 or 90))",
        ];
        const OF_ETHERNET: [&str; 9] = [
            "arp",
            "rarp",
            "arp host 192.0.2.1",
            "arp src host 192.0.2.9",
            "ether host 02:00:00:00:00:01",
            "ether src 2:0:0:0:0:2",
            "ether proto 0x86dd",
            "ether proto \\arp",
            "ether[5] = 1 or arp[7] > 128",
        ];
        let mut rng = Rng::for_name(7, "expressions");
        for link in ["ethernet", "ip"] {
            let more: &[&str] = if link == "ethernet" { &OF_ETHERNET } else { &[] };
            let packets = packets(link, &mut rng);
            for text in OF_BOTH.iter().chain(more) {
                let own = Expression::parse(text, Framing::named(link)).unwrap_or_else(|error| panic!("{text}: {error}"));
                let program = by_tcpdump(text, link).unwrap_or_else(|error| panic!("{text}: {error}"));
                let program = weft_core::bpf::Program::parse(&program).unwrap();
                for bytes in &packets {
                    let frame = Frame::ingress(bytes);
                    let (accepted, wanted) = (own.accepts(&frame, &mut |_| None), program.run(&frame) > 0);
                    assert_eq!(accepted, wanted, "'{text}' on {link}: {bytes:02x?}");
                }
            }
        }
    }
}
