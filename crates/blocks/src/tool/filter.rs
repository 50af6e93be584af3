//! Lets through what an expression accepts ([`weft_core::expression`]), or a program of classic BPF, which `tcpdump -ddd` makes of one.
//!
//! The filter sees the frame as it is on the edge: on Ethernet edges from the link-layer header, on edges of IP packets from the IP header. Whoever
//! compiles a program must know which (`tcpdump -y EN10MB` or `-y RAW`).

use super::condition::{Condition, Groups};
use std::any::Any;
use weft_core::bpf::Program;
use weft_core::expression::{Expression, Framing};
use weft_core::*;

const ACCEPTED: OutPort = OutPort(0);
const REJECTED: OutPort = OutPort(1);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "filter",
    summary: "lets through what an expression or a packet filter (classic BPF) accepts",
    doc: "Asks about each frame as it is on this edge. Accepted frames leave through out; the others through rejected, and where that is \
          not bound they are dropped (reason filtered). Without expression and program everything is accepted. An expression is in the words of \
          pcap-filter(7), and of weft's own: `dscp ef`, and `group 7`, `iifgroup 7`, `oifgroup 7` for the group of the interface that a frame comes \
          in by or goes out by; a change of groups takes effect at once. A program is text as `tcpdump -ddd` prints it, with commas for line ends; \
          behind # may stand what it was made of. What an expression needs of libpcap beyond addresses, ports, protocols, lengths and bytes (vlan, \
          mpls, names of hosts) the weft command has tcpdump make a program of, for frames of `link`. Expression and program: to set one is to \
          clear the other. Large frames are judged whole, by their first segment.\n\
          Example: insert filter interfaces:upper ether:lower; set filter.expression 'not udp port 53'",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "those that are accepted"), Port::optional("rejected", Carries::Any, "the others")],
    parameters: &[
        Parameter {
            name: "program",
            value: ParameterType::Text,
            default: "\"\"",
            live: true,
            doc: "instructions, four numbers each, between commas: \"40 0 0 12,21 0 1 2048,6 0 0 65535,6 0 0 0\"; empty: accept everything",
        },
        Parameter {
            name: "expression",
            value: ParameterType::Text,
            default: "\"\"",
            live: true,
            doc: "such as \"udp port 53 and not dscp ef\", \"oifgroup 7\"; empty: accept everything",
        },
        Parameter {
            name: "link",
            value: ParameterType::Choice(&["ethernet", "ip"]),
            default: "\"ethernet\"",
            live: false,
            doc: "what frames begin with on this edge",
        },
    ],
    counters: &[Counter { name: "Accepted", text: "frames accepted" }, Counter { name: "Rejected", text: "frames rejected" }],
    asks: &[Table::Interfaces],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let (program, expression, link) = (config.text("program"), config.text("expression"), config.text("link"));
        let condition = match (program.is_empty(), expression.is_empty()) {
            (false, false) => return Err(config.bad("expression", "there is a program, too: give one of the two")),
            (false, true) => read_program(&program).map_err(|error| config.bad("program", error))?,
            (true, _) => read_expression(&expression, &link).map_err(|error| config.bad("expression", error))?,
        };
        Ok(Box::new(Filter { name: config.name.clone(), condition, program, link, groups: Groups::default(), counters: [0; 2] }))
    },
};

/// Instructions, and behind # a remark.
fn read_program(text: &str) -> Result<Option<Condition>, String> {
    let instructions = text.split_once('#').map_or(text, |(instructions, _)| instructions);
    if instructions.trim().is_empty() {
        return Ok(None);
    }
    Program::parse(instructions).map(|program| Some(Condition::Program(program))).map_err(|error| error.to_string())
}

fn read_expression(text: &str, link: &str) -> Result<Option<Condition>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    Expression::parse(text, Framing::named(link))
        .map(|expression| Some(Condition::Expression(expression)))
        .map_err(|error| error.to_string())
}

/// The block.
#[derive(Debug)]
pub struct Filter {
    name: String,
    condition: Option<Condition>,
    /// The program's text, as it was set.
    program: String,
    link: String,
    groups: Groups,
    counters: [u64; 2],
}

impl Block for Filter {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let otherwise = if cx.is_bound(REJECTED) { Verdict::Forward(REJECTED) } else { Verdict::Drop(Reason::Filtered) };
        vector.each(|frame| {
            let accepted = self.condition.as_ref().is_none_or(|condition| condition.accepts(frame, &mut self.groups, cx));
            self.counters[usize::from(!accepted)] += 1;
            if accepted { Verdict::Forward(ACCEPTED) } else { otherwise }
        });
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        self.groups.table_changed(table, cx);
    }

    fn row_changed(&mut self, table: Table, row: Row, cx: &mut Context<'_>) {
        self.groups.row_changed(table, row, cx);
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "program" => Some(self.program.clone().into()),
            "expression" => Some(self.condition.as_ref().map_or("", Condition::expression).into()),
            "link" => Some(self.link.clone().into()),
            _ => None,
        }
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let text = value.as_str().unwrap_or_default();
        let read = match name {
            "program" => read_program(text),
            "expression" => read_expression(text, &self.link),
            _ => Ok(None),
        };
        read.map(|_| ()).map_err(|why| ControlError::BadValue { block: self.name.clone(), parameter: name.to_owned(), why })
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        let text = value.as_str().unwrap_or_default().to_owned();
        // Neither can fail: they were checked.
        match name {
            "program" => {
                self.condition = read_program(&text).unwrap_or_default();
                self.program = text;
            }
            "expression" => {
                self.condition = read_expression(&text, &self.link).unwrap_or_default();
                self.program.clear();
            }
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{Bench, large_udp};

    #[test]
    fn frames_are_judged_and_programs_changed_while_it_runs() {
        let mut bench = Bench::new("filter", &[]);
        let frames = || (0..10u8).map(|n| Frame::ingress(&[n; 20]));
        bench.send(Instant::ZERO, frames());
        assert_eq!(bench.taken().len(), 10, "no program accepts everything");
        // The first byte is 5 or more.
        bench.set("program", "48 0 0 0,53 0 1 5,6 0 0 65535,6 0 0 0").unwrap();
        bench.send(Instant::ZERO, frames());
        assert_eq!(bench.taken().iter().map(|frame| frame.head()[0]).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
        assert_eq!((bench.counters(), bench.drops(Reason::Filtered)), (&[15, 5][..], 5));
        let refused = bench.set("program", "48 0 0 0").unwrap_err();
        assert!(refused.to_string().contains("must return"), "{refused}");
        assert_eq!(bench.get("program"), "48 0 0 0,53 0 1 5,6 0 0 65535,6 0 0 0");
    }

    #[test]
    fn expressions_need_nobody_and_clear_the_program() {
        let mut bench = Bench::new("filter", &[("link", "ip".into()), ("program", "6 0 0 0 # nothing".into())]);
        let frames = || [large_udp(1, 10), large_udp(1, 500)];
        bench.send(Instant::ZERO, frames());
        assert_eq!((bench.taken().len(), bench.get("program")), (0, "6 0 0 0 # nothing".into()));
        bench.set("expression", "udp dst port 2 and greater 500").unwrap();
        assert_eq!((bench.get("program"), bench.get("expression")), ("".into(), "udp dst port 2 and greater 500".into()));
        bench.send(Instant::ZERO, frames());
        assert_eq!(bench.taken().len(), 1);
        let refused = bench.set("expression", "udp prot 2").unwrap_err().to_string();
        assert!(refused.contains("tool") && refused.contains("'prot' (word 2)"), "{refused}");
        assert_eq!(bench.get("expression"), "udp dst port 2 and greater 500", "what was refused changes nothing");
        bench.set("program", "6 0 0 1").unwrap();
        assert_eq!(bench.get("expression"), "");
        bench.set("expression", "").unwrap();
        bench.send(Instant::ZERO, frames());
        assert_eq!(bench.taken().len(), 2, "without a condition everything is accepted");
    }
}
