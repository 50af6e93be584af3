//! Lets through what a packet filter accepts: classic BPF, which `tcpdump -ddd` makes of an expression.
//!
//! The filter sees the frame as it is on the edge: on Ethernet edges from the link-layer header, on edges of IP packets from the IP header. Whoever
//! compiles an expression must know which (`tcpdump -y EN10MB` or `-y RAW`).

use std::any::Any;
use weft_core::bpf::Program;
use weft_core::*;

const ACCEPTED: OutPort = OutPort(0);
const REJECTED: OutPort = OutPort(1);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "filter",
    summary: "lets through what a packet filter (classic BPF) accepts",
    doc: "Runs the program over each frame as it is on this edge. Accepted frames leave through out; the others through rejected, and where that is \
          not bound they are dropped (reason filtered). Without a program everything is accepted. The program is text as `tcpdump -ddd` prints \
          it, with commas for line ends; `weft set filter.expression 'tcp port 80'`, and expression in a stack file, have tcpdump make one, \
          for frames of `link`. Large frames are judged whole, by their first segment.\n\
          Example: insert filter interfaces:upper ether:lower; set filter.expression 'not udp port 53'",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[
        Port::required("out", Carries::Any, "those that the program accepts"),
        Port::optional("rejected", Carries::Any, "the others"),
    ],
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
            doc: "what the program was made of (pcap-filter(7)); to set it is to set the program, through tcpdump",
        },
        Parameter {
            name: "link",
            value: ParameterType::Choice(&["ethernet", "ip"]),
            default: "\"ethernet\"",
            live: false,
            doc: "what frames begin with on this edge, for expressions",
        },
    ],
    counters: &[Counter { name: "Accepted", text: "frames accepted" }, Counter { name: "Rejected", text: "frames rejected" }],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let text = config.text("program");
        let expression = config.text("expression");
        if text.is_empty() && !expression.is_empty() {
            return Err(config.bad("expression", "was not compiled: only the weft command does that; give program instead"));
        }
        let program = read(&text).map_err(|error| config.bad("program", error.to_string()))?;
        Ok(Box::new(Filter { program, text, expression, link: config.text("link"), counters: [0; 2] }))
    },
};

fn read(text: &str) -> Result<Option<Program>, weft_core::bpf::BpfError> {
    if text.trim().is_empty() { Ok(None) } else { Program::parse(text).map(Some) }
}

/// The block.
#[derive(Debug)]
pub struct Filter {
    program: Option<Program>,
    text: String,
    expression: String,
    link: String,
    counters: [u64; 2],
}

impl Block for Filter {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let otherwise = if cx.is_bound(REJECTED) { Verdict::Forward(REJECTED) } else { Verdict::Drop(Reason::Filtered) };
        vector.each(|frame| {
            let accepted = self.program.as_ref().is_none_or(|program| program.run(frame) > 0);
            self.counters[usize::from(!accepted)] += 1;
            if accepted { Verdict::Forward(ACCEPTED) } else { otherwise }
        });
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "program" => Some(self.text.clone().into()),
            "expression" => Some(self.expression.clone().into()),
            "link" => Some(self.link.clone().into()),
            _ => None,
        }
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let bad = |why: String| Err(ControlError::BadValue { block: KIND.name.to_owned(), parameter: name.to_owned(), why });
        match name {
            "program" => read(value.as_str().unwrap_or_default()).map(|_| ()).or_else(|error| bad(error.to_string())),
            _ => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        let text = value.as_str().unwrap_or_default().to_owned();
        match name {
            "program" => {
                // Cannot fail: it was checked.
                self.program = read(&text).unwrap_or_default();
                self.text = text;
                self.expression.clear();
            }
            "expression" => self.expression = text,
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
    use crate::tool::testing::Bench;

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
}
