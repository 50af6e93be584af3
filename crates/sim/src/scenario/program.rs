//! Programs: what they do, on which nodes, and to whom.

use super::beside;
use super::draft::NodeDraft;
use super::files::collected;
use super::names::{in_order, matches};
use super::raw::{Program, ProgramExpect, Raw};
use super::source::Source;
use crate::builtin::Builtin;
use crate::plan::{Expect, NodeKind, OUTPUT_MAX_DEFAULT, Plan, ProcessPlan, ProgramPlan, Run};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weft_core::Instant;
use weft_node::Spanned;
use weft_node::StackError;

/// What `output_max` may be.
const OUTPUT_LEAST: u64 = 1 << 20;
const OUTPUT_MOST: u64 = 1 << 40;
const PING_COUNT: u64 = 4;
const PING_BYTES: u32 = 56;
const UDP_BYTES: u32 = 1470;
const UDP_BYTES_MAX: u32 = 65_507;

/// Every program; one for each node that `node` stands for.
pub(super) fn all(source: &Source<'_>, raw: &Raw, plan: &mut Plan, nodes: &[NodeDraft]) -> Result<(), StackError> {
    for (name, section) in in_order(&raw.programs) {
        source.check_name(name, "program")?;
        let program = section.get_ref();
        let pattern = program.node.get_ref();
        // A pattern stands for hosts; who names a switch is told that nothing runs there.
        let fits = |node: &NodeDraft| matches(pattern, &node.name) && (!pattern.contains('*') || !node.is_switch());
        let found: Vec<usize> = nodes.iter().enumerate().filter(|(_, node)| fits(node)).map(|(index, _)| index).collect();
        if found.is_empty() {
            source.find(&program.node, "node", nodes.iter().map(|node| node.name.as_str()))?;
        }
        if let Some(switch) = found.iter().filter_map(|node| nodes.get(*node)).find(|node| node.is_switch()) {
            let what = format!("'{}' is a switch, on which nothing runs", switch.name);
            return Err(source.error(program.node.span(), what, "let the program run on a host: node = \"NAME\""));
        }
        let several = program.node.get_ref().contains('*');
        for (number, node) in found.into_iter().enumerate() {
            let label = if several { format!("{}@{}", name.get_ref(), nodes[node].name) } else { name.get_ref().clone() };
            let reader = Reader { source, plan, nodes, name, program, node: &nodes[node].name, number: number + 1 };
            let run = reader.run()?;
            let start = start(source, program, number as u32, plan.end)?;
            if let (Some(first), Some(plan)) = (program.collect.first(), plan.nodes.get_mut(node)) {
                if !matches!((&run, &plan.kind), (Run::Process(_), NodeKind::Host(_))) {
                    let help = "write it of a program that has a command, on a host with weft's stack";
                    return Err(source.error(first.span(), "nothing can be taken from there", help));
                }
                plan.collect.extend(collected(source, &program.collect)?);
            }
            let server = matches!(&run, Run::Builtin(builtin) if builtin.is_server());
            let expect = expectation(source, program, server)?;
            plan.programs.push(ProgramPlan { name: label, node, run, start, expect });
        }
    }
    Ok(())
}

/// When a program starts on the node of this number (from 0), in a run that is over at `over`; none: when an event starts it.
fn start(source: &Source<'_>, program: &Program, number: u32, over: Instant) -> Result<Option<Instant>, StackError> {
    let stagger = program.stagger.as_ref().map_or(Ok(Duration::ZERO), |text| source.duration(text))?;
    let said = program.start.as_ref().map_or(Ok(Duration::ZERO), |text| source.duration(text))?;
    let at = Instant::ZERO + said + stagger * number;
    match program.start.as_ref().or(program.stagger.as_ref()) {
        None if program.waits == Some(true) => return Ok(None),
        Some(text) if at >= over => {
            let what = format!("at {at} the run is over: it lasts {over}");
            source.remark(text.span(), &what, "unless an event starts it before, the program never starts");
        }
        _ => {}
    }
    Ok(Some(at))
}

/// The programs that a name stands for: that one, all copies of one that runs on several nodes, or what a pattern fits.
pub(super) fn called(source: &Source<'_>, name: &Spanned<String>, plan: &Plan) -> Result<Vec<usize>, StackError> {
    let text = name.get_ref().as_str();
    let all = || plan.programs.iter().enumerate();
    if let Some((index, _)) = all().find(|(_, program)| program.name == text) {
        return Ok(vec![index]);
    }
    let copy = |of: &str| of.split_once('@').is_some_and(|(base, _)| base == text);
    let found: Vec<usize> = all()
        .filter(|(_, program)| copy(&program.name) || (text.contains('*') && matches(text, &program.name)))
        .map(|(index, _)| index)
        .collect();
    if found.is_empty() {
        source.find(name, "program", plan.programs.iter().map(|program| program.name.as_str()))?;
    }
    Ok(found)
}

fn expectation(source: &Source<'_>, program: &Program, server: bool) -> Result<Expect, StackError> {
    match program.expect.as_ref().map(|expect| (expect.get_ref(), expect.span())) {
        None if server => Ok(Expect::Running),
        None => Ok(Expect::Status(0)),
        Some((ProgramExpect::Status(status), _)) => Ok(Expect::Status(*status)),
        Some((ProgramExpect::Word(word), span)) => match word.as_str() {
            "running" => Ok(Expect::Running),
            "any" => Ok(Expect::Any),
            _ => {
                let help = "use an exit status, \"running\" (until the world ends) or \"any\" (whatever its end, and nobody waits for it)";
                Err(source.error(span, format!("nothing ends as '{word}'"), help))
            }
        },
    }
}

struct Reader<'a> {
    source: &'a Source<'a>,
    plan: &'a Plan,
    nodes: &'a [NodeDraft],
    name: &'a Spanned<String>,
    program: &'a Program,
    /// The node that it is for, which is of those that the program's `node` stands for the `number`th, from 1.
    node: &'a str,
    number: usize,
}

impl Reader<'_> {
    fn run(&self) -> Result<Run, StackError> {
        let of_commands =
            [("stdin", &self.program.stdin), ("directory", &self.program.directory), ("output_max", &self.program.output_max)];
        if let (None, Some((key, text))) =
            (&self.program.command, of_commands.iter().find_map(|(key, text)| Some((key, (*text).as_ref()?))))
        {
            return Err(self.source.error(
                text.span(),
                format!("{key} is for commands, and this program has none"),
                "write command = [\"cat\"]",
            ));
        }
        match (&self.program.builtin, &self.program.command) {
            (Some(builtin), None) => self.builtin(builtin).map(Run::Builtin),
            (None, Some(command)) if command.get_ref().is_empty() => {
                Err(self.source.error(command.span(), "the command is empty", "write command = [\"curl\", \"-s\", \"http://server/\"]"))
            }
            (None, Some(command)) => {
                let environment = self.program.environment.iter().map(|(name, value)| (name.clone(), self.expand(value))).collect();
                let input = self.program.stdin.as_ref().map(|text| text.get_ref().clone().into_bytes()).unwrap_or_default();
                let command: Vec<String> = command.get_ref().iter().map(|word| self.expand(word)).collect();
                let otherwise = || if beside::names_beside(self.source, &command) { beside::FOLDER } else { "/" }.to_owned();
                let directory = self.program.directory.as_ref().map_or_else(otherwise, |text| self.expand(text.get_ref()));
                if !directory.starts_with('/') {
                    let span = self.program.directory.as_ref().map(Spanned::span).unwrap_or_default();
                    return Err(self.source.error(span, format!("'{directory}' depends on where one stands"), "write it as \"/srv/www\""));
                }
                let range = OUTPUT_LEAST..=OUTPUT_MOST;
                let output_max = self.program.output_max.as_ref().map_or(Ok(OUTPUT_MAX_DEFAULT), |text| self.source.bytes(text, range))?;
                Ok(Run::Process(ProcessPlan { command, environment, input, directory: directory.into(), output_max }))
            }
            _ => {
                let what = format!("program '{}' must have one of builtin and command", self.name.get_ref());
                Err(self.source.error(self.name.span(), what, "write builtin = \"ping\", or command = [\"curl\", …]"))
            }
        }
    }

    fn builtin(&self, builtin: &Spanned<String>) -> Result<Builtin, StackError> {
        let program = self.program;
        match builtin.get_ref().as_str() {
            "ping" => Ok(Builtin::Ping {
                to: self.host(self.to()?)?,
                count: program.count.unwrap_or(PING_COUNT),
                interval: self.span(&program.interval, Duration::from_secs(1))?,
                bytes: self.size(PING_BYTES)?,
            }),
            "udp-cbr" => {
                let rate = program.rate.as_ref().ok_or_else(|| self.needs("rate", "rate = \"100mbit\""))?;
                let (rate, bytes) = (self.source.rate(rate)?, self.size(UDP_BYTES)?.max(16));
                let count = match (&program.duration, program.count) {
                    (_, Some(count)) => count,
                    (Some(duration), None) => {
                        let bits = u128::from(rate) * self.source.duration(duration)?.as_nanos() / 1_000_000_000;
                        u64::try_from(bits.div_ceil(u128::from(bytes) * 8)).unwrap_or(u64::MAX)
                    }
                    (None, None) => u64::MAX,
                };
                Ok(Builtin::UdpCbr { to: self.address()?, rate, bytes, count })
            }
            "udp-sink" => Ok(Builtin::UdpSink { port: self.port()? }),
            "tcp-send" => {
                let duration = program.duration.as_ref().map(|text| self.source.duration(text)).transpose()?;
                if program.bytes.is_none() && duration.is_none() {
                    return Err(self.needs("bytes or duration", "bytes = 1000000, or duration = \"10s\""));
                }
                Ok(Builtin::TcpSend { to: self.address()?, bytes: program.bytes, duration })
            }
            "tcp-sink" => Ok(Builtin::TcpSink { port: self.port()? }),
            "echo" => Ok(Builtin::Echo { port: self.port()? }),
            other => {
                let help = "use ping, udp-cbr, udp-sink, tcp-send, tcp-sink or echo";
                Err(self.source.error(builtin.span(), format!("there is no built-in program '{other}'"), help))
            }
        }
    }

    fn needs(&self, what: &str, example: &str) -> StackError {
        self.source.error(self.name.span(), format!("program '{}' needs {what}", self.name.get_ref()), format!("write {example}"))
    }

    fn span(&self, text: &Option<Spanned<String>>, otherwise: Duration) -> Result<Duration, StackError> {
        text.as_ref().map_or(Ok(otherwise), |text| self.source.duration(text))
    }

    fn size(&self, otherwise: u32) -> Result<u32, StackError> {
        match &self.program.size {
            None => Ok(otherwise),
            Some(size) if *size.get_ref() <= UDP_BYTES_MAX => Ok(*size.get_ref()),
            Some(size) => {
                let what = format!("{} bytes do not fit into a datagram", size.get_ref());
                Err(self.source.error(size.span(), what, format!("use at most {UDP_BYTES_MAX}")))
            }
        }
    }

    fn port(&self) -> Result<u16, StackError> {
        self.program.port.filter(|port| *port != 0).ok_or_else(|| self.needs("a port", "port = 5001"))
    }

    fn to(&self) -> Result<&Spanned<String>, StackError> {
        self.program.to.as_ref().ok_or_else(|| self.needs("to", "to = \"server\""))
    }

    /// `server:5001`, `10.0.0.1:5001`, `[fd77::1]:5001`, or `server` and `port`.
    fn address(&self) -> Result<SocketAddr, StackError> {
        let to = self.to()?;
        let text = self.expand(to.get_ref());
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if text.parse::<IpAddr>().is_err() => {
                let port = port
                    .parse()
                    .map_err(|_| self.source.error(to.span(), format!("'{port}' is no port"), "write it as to = \"server:5001\""))?;
                (host.to_owned(), port)
            }
            _ => (
                text.clone(),
                self.program
                    .port
                    .filter(|port| *port != 0)
                    .ok_or_else(|| self.needs("a port to send to", &format!("to = \"{text}:5001\"")))?,
            ),
        };
        Ok(SocketAddr::new(self.host(&Spanned::new(to.span(), host))?, port))
    }

    /// `{n}` counts the nodes that the program runs on, and `{node}` is the name of this one.
    fn expand(&self, text: &str) -> String {
        text.replace("{n}", &self.number.to_string()).replace("{node}", self.node)
    }

    /// An address, the name of a node, or `node.eth1`.
    fn host(&self, name: &Spanned<String>) -> Result<IpAddr, StackError> {
        let text = self.expand(name.get_ref());
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        if let Some(address) = self.plan.hosts.get(&text) {
            return Ok(*address);
        }
        let by_interface = text.split_once('.').and_then(|(node, interface)| {
            let node = self.nodes.iter().find(|known| known.name == node)?;
            let interface = node.interfaces.iter().find(|known| known.name == interface)?;
            interface.addresses.first().map(|(address, _)| *address)
        });
        let missing = Spanned::new(name.span(), text);
        match by_interface {
            Some(address) => Ok(address),
            None => {
                self.source.find(&missing, "node with an address", self.plan.hosts.keys().map(String::as_str))?;
                Err(self.source.error(name.span(), "the node has no address", "join it by a wire"))
            }
        }
    }
}
