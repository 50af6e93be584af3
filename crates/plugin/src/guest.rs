//! The block around somebody else's code: what every way of running it has in common. It carries out what the code wants, and isolates it when it
//! fails: from then on nothing of it runs, and its path is bypassed or closed.

use crate::exchange::Said;
use crate::manifest::{Manifest, Meaning, ON_FAILURE};
use crate::question::Raw;
use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weft_core::schedule::{Question, Scheduled, Scheduler};
use weft_core::vector::VECTOR_FRAMES_MAX;
use weft_core::{
    Answer, Block, Change, Config, Context, ControlError, Duration, Frame, InPort, Instant, Kind, OutPort, Query, Reason, Rng, State,
    StateError, Table, Value, Vector, Verdict,
};

/// Most frames that a block makes in one call.
pub const EMITTED_MAX: usize = 256;
/// Most timers that a block has set.
pub const TIMERS_MAX: usize = 1024;
/// Most alerts of one call.
pub const SAID_MAX: usize = 16;
/// Longest text of an alert, bytes.
pub const SAID_BYTES_MAX: usize = 1024;
/// Most bytes of exported state.
pub const STATE_BYTES_MAX: usize = 128 * 1024;

/// The frames of a vector, lent.
pub type Frames<'a> = ArrayVec<&'a mut Frame, VECTOR_FRAMES_MAX>;

/// What code sees of the node, and what it wants of it. Carried out after a call that succeeded.
#[derive(Debug)]
pub struct Effects {
    /// The node's time.
    pub now: Instant,
    /// The block's own random stream.
    pub rng: Rng,
    /// Timers to set (after so long) or to cancel.
    pub timers: Vec<(u64, Option<Duration>)>,
    /// What to add to which of its counters.
    pub counts: Vec<(usize, u64)>,
    /// Frames that it made.
    pub emitted: Vec<(OutPort, Frame)>,
    /// What it has to say.
    pub said: Vec<String>,
}

impl Effects {
    /// For code whose random numbers come from this stream.
    pub fn of(rng: Rng) -> Effects {
        Effects { now: Instant::ZERO, rng, timers: Vec::new(), counts: Vec::new(), emitted: Vec::new(), said: Vec::new() }
    }
    /// For the time between calls.
    pub fn none() -> Effects {
        Effects::of(Rng::for_name(0, "none"))
    }
    fn clear(&mut self) {
        self.timers.clear();
        self.counts.clear();
        self.emitted.clear();
        self.said.clear();
    }
    /// Sets or cancels a timer.
    ///
    /// # Errors
    /// It asks for too many in one call.
    pub fn timer(&mut self, token: u64, after: Option<Duration>) -> Result<(), String> {
        if self.timers.len() >= TIMERS_MAX {
            return Err(format!("set more than {TIMERS_MAX} timers in one call"));
        }
        self.timers.push((token, after));
        Ok(())
    }
    /// Counts.
    ///
    /// # Errors
    /// There is no such counter.
    pub fn count(&mut self, manifest: &Manifest, index: u32, by: u64) -> Result<(), String> {
        let index = index as usize;
        if index >= manifest.counters {
            return Err(format!("counted in counter {index}, and it has {}", manifest.counters));
        }
        match self.counts.iter_mut().find(|(at, _)| *at == index) {
            Some((_, sum)) => *sum = sum.wrapping_add(by),
            None => self.counts.push((index, by)),
        }
        Ok(())
    }
    /// Gives out a frame.
    ///
    /// # Errors
    /// There is no such port, or these are too many.
    pub fn emit(&mut self, manifest: &Manifest, port: u32, frame: Frame) -> Result<(), String> {
        if port as usize >= manifest.kind.outputs.len() {
            return Err(format!("gave a frame out through port {port}, and it has {} outputs", manifest.kind.outputs.len()));
        }
        if self.emitted.len() >= EMITTED_MAX {
            return Err(format!("made more than {EMITTED_MAX} frames in one call"));
        }
        self.emitted.push((OutPort(port as u8), frame));
        Ok(())
    }
    /// Says something; too much of it in one call is cut.
    pub fn say(&mut self, text: &[u8]) {
        if self.said.len() < SAID_MAX {
            self.said.push(String::from_utf8_lossy(&text[..text.len().min(SAID_BYTES_MAX)]).into_owned());
        }
    }
}

/// A parameter's value, in the forms that code can use without reading texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// As text.
    pub text: String,
    /// true is 1; a duration is nanoseconds, a rate bits per second, a choice the word's place, an interface its number (0: there is none).
    pub number: u64,
    /// The number with fractions.
    pub real: f64,
    /// An address, and its family: 4, 6, or 0 for none.
    pub address: ([u8; 16], u32),
}

/// Code that runs somewhere. An error is the end of it: it is not called again.
pub trait Guest: Send {
    /// Takes frames, edits them in place, and says what becomes of each. On an error, what was said of the first frames holds.
    fn process(&mut self, port: InPort, frames: &mut Frames<'_>, said: &mut Vec<Said>, fx: &mut Effects) -> Result<(), String>;
    /// A timer is due.
    fn timer(&mut self, token: u64, fx: &mut Effects) -> Result<(), String>;
    /// It stands in the graph now.
    fn started(&mut self, fx: &mut Effects) -> Result<(), String>;
    /// Would it take this value? Inner error: why not.
    fn check(&mut self, index: usize, value: &Given, fx: &mut Effects) -> Result<Result<(), String>, String>;
    /// A parameter has this value from now on.
    fn set(&mut self, index: usize, value: &Given, fx: &mut Effects) -> Result<(), String>;
    /// Its state.
    fn export(&mut self, fx: &mut Effects) -> Result<Vec<u8>, String>;
    /// Takes over state of this version. Inner error: why it does not.
    fn import(&mut self, version: u32, bytes: &[u8], fx: &mut Effects) -> Result<Result<(), String>, String>;
    /// Which subflow gets the next data: an answer that nobody has looked at yet.
    fn schedule(&mut self, question: &Question, fx: &mut Effects) -> Result<Raw, String>;
    /// A parameter that weft has added for this way of running code.
    fn limit(&mut self, name: &str, value: u64) {
        let _ = (name, value);
    }
}

/// State as it is handed over.
#[derive(Serialize, Deserialize)]
struct Exported {
    counters: Vec<u64>,
    /// Token and nanoseconds that remain.
    timers: Vec<(u64, u64)>,
    bytes: Vec<u8>,
}

struct Running {
    guest: Box<dyn Guest>,
    fx: Effects,
}

/// A loadable block in a graph.
pub struct GuestBlock {
    name: String,
    manifest: Manifest,
    /// Also called where the engine only looks.
    running: RefCell<Running>,
    failure: OnceCell<String>,
    /// The subscribers know.
    told: bool,
    bypass: bool,
    parameters: Vec<Value>,
    /// Numbers of interfaces as the code knows them.
    interfaces: BTreeMap<usize, u64>,
    counters: Vec<u64>,
    timers: BTreeMap<u64, Instant>,
    /// Timers that were taken over have to be set.
    adopted: bool,
    said: Vec<Said>,
}

impl std::fmt::Debug for GuestBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuestBlock").field("name", &self.name).field("kind", &self.manifest.kind.name).finish_non_exhaustive()
    }
}

impl GuestBlock {
    /// A block of code that was just made: it gets its parameters.
    ///
    /// # Errors
    /// It does not take one of them, or it fails already.
    pub fn new(manifest: Manifest, guest: Box<dyn Guest>, config: &mut Config) -> Result<GuestBlock, ControlError> {
        let parameters: Vec<Value> = manifest.kind.parameters.iter().map(|row| config.value(row.name)).collect();
        let block = GuestBlock {
            name: config.name.clone(),
            manifest,
            running: RefCell::new(Running { guest, fx: Effects::of(config.rng.clone()) }),
            failure: OnceCell::new(),
            told: false,
            bypass: config.value(ON_FAILURE) == "bypass",
            parameters,
            interfaces: BTreeMap::new(),
            counters: vec![0; manifest.kind.counters.len()],
            timers: BTreeMap::new(),
            adopted: false,
            said: Vec::new(),
        };
        for (index, row) in manifest.kind.parameters.iter().enumerate() {
            let value = config.value(row.name);
            match index < manifest.meanings.len() {
                true => {
                    block.check(row.name, &value)?;
                    block.give(index, &value, 0);
                }
                false => block.limit(row.name, &value),
            }
        }
        match block.failure.get() {
            Some(why) => {
                Err(ControlError::World { why: format!("a block of kind '{}' fails before it begins: {why}", manifest.kind.name).into() })
            }
            None => Ok(block),
        }
    }

    fn limit(&self, name: &str, value: &Value) {
        if let Some(number) = value.as_u64() {
            self.running.borrow_mut().guest.limit(name, number);
        }
    }

    /// Calls the code unless it has failed before.
    fn run<R>(&self, now: Option<Instant>, call: impl FnOnce(&mut dyn Guest, &mut Effects) -> Result<R, String>) -> Option<R> {
        if self.failure.get().is_some() {
            return None;
        }
        let Running { guest, fx } = &mut *self.running.borrow_mut();
        fx.now = now.unwrap_or(fx.now).max(fx.now);
        match call(&mut **guest, fx) {
            Ok(result) => Some(result),
            Err(why) => {
                fx.clear();
                tracing::warn!("block {} ({} {}) has failed: {why}", self.name, self.manifest.kind.name, self.manifest.kind.version);
                let _ = self.failure.set(why);
                None
            }
        }
    }

    /// Carries out what the code wanted; tells of a failure.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let fx = &mut self.running.get_mut().fx;
        for (token, after) in fx.timers.drain(..) {
            match after {
                Some(after) if self.timers.len() < TIMERS_MAX || self.timers.contains_key(&token) => {
                    let at = cx.now + after;
                    self.timers.insert(token, at);
                    cx.set_timer(token, at);
                }
                Some(_) => {
                    let _ = self.failure.set(format!("set more than {TIMERS_MAX} timers"));
                }
                None => {
                    self.timers.remove(&token);
                    cx.cancel_timer(token);
                }
            }
        }
        for (index, by) in fx.counts.drain(..) {
            self.counters[index] = self.counters[index].wrapping_add(by);
        }
        for (port, frame) in fx.emitted.drain(..) {
            cx.emit(port, frame);
        }
        for text in fx.said.drain(..) {
            cx.alert("said", serde_json::json!({"text": text}));
        }
        if let (Some(why), false) = (self.failure.get(), self.told) {
            self.told = true;
            if let Some(failures) = self.counters.last_mut() {
                *failures += 1;
            }
            let kind = self.manifest.kind;
            cx.alert("failed", serde_json::json!({"block": self.name, "kind": kind.name, "version": kind.version, "why": why}));
            for token in std::mem::take(&mut self.timers).into_keys() {
                cx.cancel_timer(token);
            }
        }
    }

    /// A value in all its forms.
    fn given(&self, index: usize, value: &Value, interface: u64) -> Given {
        let kind = self.manifest.kind;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut given = Given {
            number: value.as_u64().or_else(|| value.as_bool().map(u64::from)).unwrap_or(0),
            real: value.as_f64().unwrap_or(0.0),
            ..Given::default()
        };
        if let weft_core::ParameterType::Choice(words) = kind.parameters[index].value {
            given.number = words.iter().position(|word| *word == text).unwrap_or(0) as u64;
        }
        match self.manifest.meanings[index] {
            Meaning::Plain => {}
            Meaning::Interface => given.number = interface,
            Meaning::Address => {
                if let Ok(address) = text.parse::<IpAddr>() {
                    let (bytes, family) = crate::exchange::address(address);
                    given.address = (bytes, family.into());
                }
            }
        }
        Given { text, ..given }
    }

    fn give(&self, index: usize, value: &Value, interface: u64) {
        let given = self.given(index, value, interface);
        self.run(None, |guest, fx| guest.set(index, &given, fx));
    }

    /// Tells the code the numbers of the interfaces that its parameters name, where they have become others.
    fn find_interfaces(&mut self, cx: &Context<'_>) {
        let interfaces = self.manifest.meanings.iter().enumerate().filter(|(_, meaning)| **meaning == Meaning::Interface);
        for (index, _) in interfaces {
            let name = self.parameters[index].as_str().unwrap_or_default();
            let number = match cx.ask(Table::Interfaces, &Query::InterfaceNamed(name.to_owned())) {
                Answer::Interface(interface) => u64::from(interface.index.0),
                _ => 0,
            };
            if self.interfaces.get(&index).copied().unwrap_or(0) != number {
                self.interfaces.insert(index, number);
                self.give(index, &self.parameters[index], number);
            }
        }
    }

    /// Which subflow gets the next data. The code sees the question, and what it was told by parameters: it has no way to anything else, and the same
    /// random numbers in each call, so that the same question has the same answer.
    fn schedule(&self, question: &Question, now: Instant) -> Result<Scheduled, String> {
        let answer = self.run(Some(now), |guest, fx| {
            let mut alone = Effects { now: fx.now, ..Effects::none() };
            let raw = guest.schedule(question, &mut alone)?;
            let choice = question.choice(raw.place, raw.from, raw.bytes).map_err(|why| format!("it {why}"))?;
            Ok((choice, raw.memory))
        });
        answer.ok_or_else(|| self.failure.get().cloned().unwrap_or_default())
    }

    fn scheduler(&self) -> Option<Result<Scheduler, String>> {
        let how = self.manifest.scheduler?;
        let scheduler = Scheduler { block: self.name.clone(), repeats: how.repeats, lends: how.lends };
        Some(self.failure.get().cloned().map_or(Ok(scheduler), Err))
    }

    /// What becomes of frames that the code has not decided about.
    fn unattended(&self, port: InPort) -> Verdict {
        if !self.bypass {
            return Verdict::Drop(Reason::BlockFailed);
        }
        let kind = self.manifest.kind;
        let input = kind.inputs.get(usize::from(port.0)).map(|port| port.carries);
        match kind.outputs.iter().position(|output| Some(output.carries) == input) {
            Some(output) => Verdict::Forward(OutPort(output as u8)),
            None => Verdict::Drop(Reason::BlockFailed),
        }
    }
}

impl Block for GuestBlock {
    fn kind(&self) -> &'static Kind {
        self.manifest.kind
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let unattended = self.unattended(port);
        let mut said = std::mem::take(&mut self.said);
        said.clear();
        let mut frames: Frames<'_> = vector.iter_mut().map(|(_, frame)| frame).take(VECTOR_FRAMES_MAX).collect();
        self.run(Some(cx.now), |guest, fx| guest.process(port, &mut frames, &mut said, fx));
        drop(frames);
        vector.set_all(unattended);
        let reasons = self.manifest.counters;
        match said.first() {
            Some(first) if said.len() == vector.len() && said.iter().all(|other| other == first) => vector.set_all(first.verdict()),
            // Nothing was taken out of the vector: places and numbers are the same.
            _ => said.iter().enumerate().for_each(|(index, said)| vector.set(index, said.verdict())),
        }
        for said in &said {
            if let Said::Drop(reason) = said {
                self.counters[reasons + reason] += 1;
            }
        }
        self.said = said;
        self.settle(cx);
    }

    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        self.timers.remove(&token);
        self.run(Some(cx.now), |guest, fx| guest.timer(token, fx));
        self.settle(cx);
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.adopted) {
            self.timers.iter().for_each(|(token, at)| cx.set_timer(*token, (*at).max(cx.now)));
        }
        self.find_interfaces(cx);
        self.run(Some(cx.now), |guest, fx| guest.started(fx));
        self.settle(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces && self.manifest.kind.asks.contains(&table) {
            self.find_interfaces(cx);
            self.settle(cx);
        }
    }

    fn change(&mut self, _table: Table, change: Change, cx: &mut Context<'_>) {
        if change == Change::TellFailure {
            self.settle(cx);
        }
    }

    fn query(&self, query: &Query, now: Instant) -> Answer {
        match query {
            Query::Scheduler => self.scheduler().map_or(Answer::None, |scheduler| Answer::Scheduler(Box::new(scheduler))),
            Query::Schedule(question) => Answer::Schedule(Box::new(self.schedule(question, now))),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        let at = self.manifest.kind.parameters.iter().position(|row| row.name == name)?;
        self.parameters.get(at).cloned()
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let bad = |why: String| ControlError::BadValue { block: self.name.clone(), parameter: name.to_owned(), why };
        let Some(index) = self.manifest.kind.parameters.iter().position(|row| row.name == name) else { return Ok(()) };
        match self.manifest.meanings.get(index) {
            None => return Ok(()),
            Some(Meaning::Address) if value.as_str().is_some_and(|text| !text.is_empty() && text.parse::<IpAddr>().is_err()) => {
                return Err(bad(format!("{value} is no IP address such as \"10.0.0.1\"")));
            }
            Some(_) => {}
        }
        let given = self.given(index, value, self.interfaces.get(&index).copied().unwrap_or(0));
        self.run(None, |guest, fx| guest.check(index, &given, fx)).unwrap_or(Ok(())).map_err(bad)
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        let Some(index) = self.manifest.kind.parameters.iter().position(|row| row.name == name) else { return };
        self.parameters[index] = value;
        match self.manifest.meanings.get(index) {
            Some(Meaning::Interface) => {
                self.interfaces.remove(&index);
                self.give(index, &self.parameters[index], 0);
                self.find_interfaces(cx);
            }
            Some(_) => self.give(index, &self.parameters[index], 0),
            None if name == ON_FAILURE => self.bypass = self.parameters[index] == "bypass",
            None => self.limit(name, &self.parameters[index]),
        }
        self.settle(cx);
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        let kind = self.manifest.kind;
        if kind.state_version == 0 {
            return Ok(State::none(kind.name));
        }
        let not_now = |why: &str| StateError::NotNow { kind: kind.name.to_owned(), why: why.to_owned() };
        if let Some(why) = self.failure.get() {
            return Err(not_now(&format!("the block has failed ({why}); --drop-state replaces it all the same")));
        }
        let bytes = self.run(Some(now), |guest, fx| guest.export(fx));
        let bytes = bytes.ok_or_else(|| not_now(self.failure.get().map_or("it fails", String::as_str)))?;
        let left = |at: &Instant| at.since(now).as_nanos() as u64;
        let timers = self.timers.iter().map(|(token, at)| (*token, left(at))).collect();
        State::write(kind.name, kind.state_version, &Exported { counters: self.counters.clone(), timers, bytes })
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let kind = self.manifest.kind;
        if state.version == 0 {
            return Ok(());
        }
        if kind.state_version == 0 {
            return Err(StateError::WrongKind { found: state.kind.clone(), expected: kind.name.to_owned() });
        }
        // The version is the code's own: it may know older ones.
        let found: Exported = state.read(kind.name, state.version)?;
        let wrong = || StateError::WrongVersion { kind: kind.name.to_owned(), found: state.version, expected: kind.state_version };
        let damaged = |why: String| StateError::Damaged { kind: kind.name.to_owned(), why };
        match self.run(Some(now), |guest, fx| guest.import(state.version, &found.bytes, fx)) {
            Some(Ok(())) => {}
            Some(Err(_)) if state.version != kind.state_version => return Err(wrong()),
            Some(Err(why)) => return Err(damaged(why)),
            None => return Err(damaged(self.failure.get().cloned().unwrap_or_default())),
        }
        // What is of the block that was replaced comes first in both lists; its failures stay its own.
        let own = self.manifest.counters.min(found.counters.len().saturating_sub(1));
        self.counters[..own].copy_from_slice(&found.counters[..own]);
        self.timers = found.timers.iter().take(TIMERS_MAX).map(|(token, left)| (*token, now + Duration::from_nanos(*left))).collect();
        self.adopted = true;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
