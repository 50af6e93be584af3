//! What process 1 of a kernel is to do, in the words that it reads.

use crate::home::Home;
use crate::machine::Program;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use weft_core::Instant;
use weft_sim::ProgramId;
use weft_sim::plan::{Action, GuestPlan, Plan, ProcessPlan, Run};

const SIGTERM: i32 = 15;

/// The plan of its process 1 (kernel/init/init.c has the format).
#[derive(Debug, Default)]
pub(crate) struct Words(pub Vec<u8>);

impl Words {
    pub fn record<'w>(&mut self, fields: impl IntoIterator<Item = &'w str>) {
        let fields: Vec<&str> = fields.into_iter().collect();
        self.0.extend_from_slice(fields.len().to_string().as_bytes());
        self.0.push(0);
        for field in fields {
            self.0.extend(field.bytes().filter(|byte| *byte != 0));
            self.0.push(0);
        }
    }

    pub fn network(&mut self, guest: &GuestPlan) {
        for (path, value) in &guest.sysctls {
            self.record(["sysctl", &format!("/proc/sys/{path}"), value]);
        }
        for interface in &guest.interfaces {
            self.record(["interface", &interface.mac.to_string(), &interface.name, &interface.mtu.to_string()]);
        }
        for interface in &guest.interfaces {
            self.record(["up", &interface.name]);
            for (address, bits) in &interface.addresses {
                self.record(["address", &interface.name, &address.to_string(), &bits.to_string()]);
            }
        }
        for route in &guest.routes {
            let gateway = route.gateway.map_or_else(|| "-".to_owned(), |gateway| gateway.to_string());
            let (network, bits) = (route.destination.0.to_string(), route.destination.1.to_string());
            let interface = route.interface.as_deref().unwrap_or("-");
            match route.metric {
                0 => self.record(["route", &network, &bits, &gateway, interface]),
                metric => self.record(["second-route", &network, &bits, &gateway, interface, &metric.to_string()]),
            }
        }
    }

    /// When its process 1 is to look at TCP connections: where the scenario samples, at the times of the other nodes.
    pub fn samples(&mut self, plan: &Plan, booted: Instant) {
        let Some(period) = plan.sample.map(|period| period.max(Duration::from_micros(1)).as_nanos() as u64) else { return };
        let first = booted.as_nanos().next_multiple_of(period) - booted.as_nanos();
        self.record(["sample", &first.to_string(), &period.to_string()]);
    }

    /// Programs, and all that happens to them from outside after `booted`.
    pub fn programs(&mut self, plan: &Plan, node: usize, booted: Instant, home: &Home) -> io::Result<BTreeMap<ProgramId, Program>> {
        let mut programs = BTreeMap::new();
        // What happens, in the order of the plan within each instant.
        let mut actions: Vec<(Instant, usize, Option<i32>)> = Vec::new();
        for (number, program) in plan.programs.iter().enumerate().filter(|(_, program)| program.node == node) {
            let Run::Process(process) = &program.run else { continue };
            self.program(number, process);
            if !process.input.is_empty() {
                std::fs::write(home.of_node(&format!("input.{number}")), &process.input)?;
            }
            actions.extend(program.start.map(|at| (at.max(booted), number, None)));
            programs.insert(ProgramId(number as u32), Program::new(&program.name, process.output_max));
        }
        for event in plan.events.iter().filter(|event| event.at >= booted) {
            match event.action {
                Action::Start { program } => actions.push((event.at, program, None)),
                Action::Stop { program } => actions.push((event.at, program, Some(SIGTERM))),
                Action::Signal { program, signal } => actions.push((event.at, program, Some(signal))),
                _ => {}
            }
        }
        actions.retain(|(_, program, _)| programs.contains_key(&ProgramId(*program as u32)));
        actions.sort_by_key(|(at, ..)| *at);
        for (at, program, signal) in actions {
            let (at, program) = ((at.as_nanos() - booted.as_nanos()).to_string(), program.to_string());
            match signal {
                None => self.record(["start", &at, &program]),
                Some(signal) => self.record(["signal", &at, &program, &signal.to_string()]),
            }
        }
        Ok(programs)
    }

    fn program(&mut self, number: usize, process: &ProcessPlan) {
        let number = number.to_string();
        let environment = weft_sim::environment_of(process);
        let (count, input) = (environment.len().to_string(), if process.input.is_empty() { "0" } else { "1" });
        let directory = process.directory.display().to_string();
        let head = ["program", &number, &directory, input, &count];
        self.record(head.into_iter().chain(environment.iter().map(String::as_str)).chain(process.command.iter().map(String::as_str)));
    }
}
