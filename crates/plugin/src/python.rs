//! Blocks in Python, for teaching: a process for each block, to which weft speaks over its standard input and output, a line of JSON for each call and each answer.
//!
//! weft waits for the answer of each call, so that a block does the same in virtual time whenever it is run, as long as its script does (its randomness and time
//! are the node's; PYTHONHASHSEED is 0). A process that ends, answers nonsense or does not answer within [`PATIENCE`] is killed, and the block has failed.
//! A call costs two switches of processes and a text for every byte: some 100 µs.

use crate::exchange::{self, EDITED_BYTES, EDITED_META, Record, Said};
use crate::guest::{Effects, Frames, Given, Guest, GuestBlock};
use crate::manifest::{self, BYTES_MAX, Manifest, Runs};
use crate::question::Raw;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_core::schedule::{Memory, Question, View};
use weft_core::{Frame, InPort, Loaded};

/// How long a call may take on the wall clock.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer, bytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// A frame may grow by so much.
const ROOM_BYTES: usize = 64;

const MODULE: &str = include_str!("../python/weft_block.py");
/// Makes the module from the first line, and lets it take over.
const BOOT: &str = "import sys, json, types\nbegin = json.loads(sys.stdin.readline())\nmodule = types.ModuleType('weft_block')\nsys.modules['weft_block'] = module\nexec(compile(begin['module'], 'weft_block.py', 'exec'), module.__dict__)\nmodule.serve(begin)\n";

/// A process with a block in it.
struct Python {
    child: Child,
    /// Its standard input and output. A socket and no pipes: what is not taken in time is an error and no wait without end.
    socket: UnixStream,
    /// What was read behind the last answer.
    input: Vec<u8>,
    patience: Duration,
    manifest: Option<Manifest>,
}

/// One answer.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    ok: Value,
    #[serde(default)]
    effects: Vec<Value>,
    error: Option<String>,
}

/// A choice in an answer.
#[derive(Deserialize)]
struct Chosen {
    place: i64,
    from: u64,
    bytes: u64,
    memory: [u64; 4],
}

/// A frame in an answer.
#[derive(Deserialize)]
struct Answered {
    bytes: String,
    interface: u32,
    mark: u32,
    ether_type: u16,
    src_port: u16,
    dst_port: u16,
    egress: bool,
    protocol: u8,
    ttl: u8,
    tos: u8,
    src_mac: String,
    dst_mac: String,
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    next_hop: Option<IpAddr>,
    verdict: Option<u32>,
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).map(char::from).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect::<Option<_>>().ok_or_else(|| "it answered bytes that are none".to_owned())
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    unhex(text)?.try_into().map_err(|_| format!("it answered '{text}', which is no MAC address of 12 digits"))
}

impl Python {
    /// Starts the process and has it read the script; also its manifest.
    fn start(path: &Path, script: &str, seed: u64, patience: Duration) -> Result<(Python, String), String> {
        let mut command = Command::new("python3");
        let no_socket = |error: std::io::Error| format!("its process gets no socket: {error}");
        let (socket, theirs) = UnixStream::pair().map_err(no_socket)?;
        socket.set_write_timeout(Some(patience)).map_err(no_socket)?;
        let output = theirs.try_clone().map_err(no_socket)?;
        command
            .args(["-s", "-c", BOOT])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(OwnedFd::from(output)))
            .current_dir("/");
        command
            .env_clear()
            .env("PYTHONHASHSEED", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        // SAFETY: prctl(2) is async-signal-safe. Threads of a virtual world have given up the time-stamp counter, which is inherited, and Python looks at the clock.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE, 0, 0, 0);
                Ok(())
            });
        }
        let child = command.spawn().map_err(|error| format!("python3 does not start: {error}"))?;
        // What the command holds of the socket would keep it open.
        drop(command);
        let mut python = Python { child, socket, input: Vec::new(), patience, manifest: None };
        let begin = json!({"module": MODULE, "script": script, "name": path.display().to_string(), "seed": seed});
        let text = python.ask(&begin)?.ok;
        let text = text.as_str().ok_or("it answered no manifest")?.to_owned();
        Ok((python, text))
    }

    /// Tells it the names of its parameters.
    fn know(&mut self, manifest: Manifest) -> Result<(), String> {
        self.manifest = Some(manifest);
        let names: Vec<&str> = manifest.kind.parameters.iter().map(|row| row.name).collect();
        self.say(&json!({"call": "names", "names": names}))
    }

    fn say(&mut self, message: &Value) -> Result<(), String> {
        let line = message.to_string() + "\n";
        self.socket.write_all(line.as_bytes()).map_err(|error| self.failed(&error))
    }

    fn ask(&mut self, message: &Value) -> Result<Answer, String> {
        self.say(message)?;
        let line = self.line()?;
        let answer: Answer = serde_json::from_slice(&line).map_err(|error| format!("its process answered what makes no sense: {error}"))?;
        match answer.error {
            Some(why) => Err(why),
            None => Ok(answer),
        }
    }

    /// Its process has ended: how.
    fn gone(&mut self) -> String {
        let _ = self.child.kill();
        self.child.wait().map_or_else(|_| "its process is gone".to_owned(), |status| format!("its process is gone ({status})"))
    }

    /// Nothing came, or nothing was taken.
    fn failed(&mut self, error: &std::io::Error) -> String {
        match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                let _ = self.child.kill();
                format!("its process gave no answer within {:?} of real time: does it loop for ever?", self.patience)
            }
            _ => self.gone(),
        }
    }

    fn line(&mut self) -> Result<Vec<u8>, String> {
        let until = Instant::now() + self.patience;
        let mut scanned = 0;
        loop {
            if let Some(at) = self.input[scanned..].iter().position(|byte| *byte == b'\n') {
                let rest = self.input.split_off(scanned + at + 1);
                return Ok(std::mem::replace(&mut self.input, rest));
            }
            scanned = self.input.len();
            if scanned > ANSWER_BYTES_MAX {
                let _ = self.child.kill();
                return Err(format!("it answered more than {ANSWER_BYTES_MAX} bytes"));
            }
            // Never zero, which would be for ever.
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
            self.socket.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
            let mut buffer = [0; 65_536];
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(self.gone()),
                Ok(bytes) => self.input.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    /// A call, and what the block wants besides.
    fn call(&mut self, mut message: Value, fx: &mut Effects) -> Result<Value, String> {
        message["now"] = fx.now.as_nanos().into();
        let answer = self.ask(&message)?;
        for effect in &answer.effects {
            self.effect(effect, fx)?;
        }
        Ok(answer.ok)
    }

    fn effect(&self, effect: &Value, fx: &mut Effects) -> Result<(), String> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let number = |at: usize| effect[at].as_u64().ok_or_else(|| format!("it wants {effect}, which makes no sense"));
        let index = |at: usize| number(at).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        let named = |result: Result<(), String>| result.map_err(|why| format!("it {why}"));
        match effect[0].as_str() {
            Some("timer") if effect[2].is_null() => named(fx.timer(number(1)?, None)),
            Some("timer") => named(fx.timer(number(1)?, Some(Duration::from_nanos(number(2)?)))),
            Some("count") => named(fx.count(manifest, index(1)?, number(2)?)),
            Some("emit") => {
                let said: Answered =
                    serde_json::from_value(effect[2].clone()).map_err(|error| format!("it made a frame that is none: {error}"))?;
                let (record, bytes) = said.record(None)?;
                named(fx.emit(manifest, index(1)?, record.made(&bytes)?))
            }
            Some("say") => {
                fx.say(effect[1].as_str().unwrap_or_default().as_bytes());
                Ok(())
            }
            _ => Err(format!("it wants {effect}, which makes no sense")),
        }
    }

    fn value(given: &Given) -> Value {
        let address = match given.address {
            (bytes, 4) => Some(IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]])),
            (bytes, 6) => Some(IpAddr::from(bytes)),
            _ => None,
        };
        json!({"text": given.text, "number": given.number, "real": given.real, "address": address})
    }
}

impl Answered {
    /// As a record, and bytes. `was`: what weft said of the frame; none for one that the block made.
    fn record(&self, was: Option<&(Record, Vec<u8>)>) -> Result<(Record, Vec<u8>), String> {
        let bytes = unhex(&self.bytes)?;
        if bytes.len() > BYTES_MAX as usize + ROOM_BYTES {
            return Err(format!("it answered a frame of {} bytes, at most {BYTES_MAX}", bytes.len()));
        }
        let (next_hop, next_hop_family) = self.next_hop.map_or(([0; 16], 0), exchange::address);
        let (src, family) = self.src.map_or(([0; 16], 0), exchange::address);
        let (dst, dst_family) = self.dst.map_or(([0; 16], 0), exchange::address);
        let family = if family == dst_family { family } else { 0 };
        let mut record = Record {
            length: bytes.len() as u32,
            room: bytes.len() as u32,
            total: bytes.len() as u32,
            verdict: self.verdict.unwrap_or(u32::MAX),
            interface: self.interface,
            mark: self.mark,
            ether_type: self.ether_type,
            src_port: self.src_port,
            dst_port: self.dst_port,
            egress: u8::from(self.egress),
            protocol: self.protocol,
            ttl: self.ttl,
            tos: self.tos,
            family,
            next_hop_family,
            src_mac: mac(&self.src_mac)?,
            dst_mac: mac(&self.dst_mac)?,
            src,
            dst,
            next_hop,
            ..Record::default()
        };
        if let Some((before, content)) = was {
            let meta = |of: &Record| (of.interface, of.mark, of.tos, of.dst_mac, of.next_hop_family, of.next_hop);
            record.edited |= if meta(before) == meta(&record) { 0 } else { EDITED_META };
            record.edited |= if *content == bytes { 0 } else { EDITED_BYTES };
        }
        Ok((record, bytes))
    }
}

fn shown(frame: &Frame, bytes_max: usize) -> (Record, Vec<u8>, Value) {
    let visible = exchange::visible(frame, bytes_max);
    let record = Record::of(frame, visible, visible + ROOM_BYTES);
    let mut bytes = vec![0; visible];
    exchange::copy_out(frame, &mut bytes);
    let meta = frame.meta();
    let known = |address: IpAddr| (record.family != 0).then_some(address);
    let fields = json!({
        "bytes": hex(&bytes), "total": record.total, "interface": record.interface, "mark": record.mark, "ether_type": record.ether_type,
        "src_port": record.src_port, "dst_port": record.dst_port, "egress": record.egress != 0, "protocol": record.protocol, "ttl": record.ttl,
        "tos": record.tos, "src_mac": hex(&record.src_mac), "dst_mac": hex(&record.dst_mac), "src": known(meta.src), "dst": known(meta.dst),
        "next_hop": meta.next_hop,
    });
    (record, bytes, fields)
}

/// Reads a script: its manifest, and how to make blocks of it.
///
/// # Errors
/// Why it is no block.
pub fn load(path: &Path, content: &[u8], build: &str) -> Result<Loaded, String> {
    let script: Arc<str> = std::str::from_utf8(content).map_err(|_| "it is no UTF-8".to_owned())?.into();
    let (_, text) = Python::start(path, &script, 0, PATIENCE)?;
    let manifest = manifest::read(&text, build, Runs::Process)?;
    let path = path.to_owned();
    let make = move |config: &mut weft_core::Config| {
        let failed = |why: String| weft_core::ControlError::World {
            why: format!("a block of kind '{}' does not start: {why}", manifest.kind.name).into(),
        };
        let (mut python, _) = Python::start(&path, &script, config.rng.u64(), PATIENCE).map_err(failed)?;
        python.know(manifest).map_err(failed)?;
        let block: Box<dyn weft_core::Block> = Box::new(GuestBlock::new(manifest, Box::new(python), config)?);
        Ok(block)
    };
    Ok(Loaded { kind: manifest.kind, make: Arc::new(make) })
}

impl Guest for Python {
    fn process(&mut self, port: InPort, frames: &mut Frames<'_>, said: &mut Vec<Said>, fx: &mut Effects) -> Result<(), String> {
        let Some(manifest) = self.manifest else { return Err("it has no manifest".to_owned()) };
        let shown: Vec<_> = frames.iter().map(|frame| shown(frame, manifest.bytes_max)).collect();
        let fields: Vec<&Value> = shown.iter().map(|(_, _, fields)| fields).collect();
        let answer = self.call(json!({"call": "process", "port": port.0, "frames": fields}), fx)?;
        let answer: Vec<Answered> = serde_json::from_value(answer).map_err(|error| format!("it answered frames that are none: {error}"))?;
        if answer.len() != frames.len() {
            return Err(format!("it answered {} frames of {}", answer.len(), frames.len()));
        }
        let mut edits = Vec::with_capacity(answer.len());
        for (index, (answer, (frame, (record, bytes, _)))) in answer.iter().zip(frames.iter().zip(shown)).enumerate() {
            let visible = bytes.len();
            let (record, bytes) = answer.record(Some(&(record, bytes)))?;
            match record.verdict(&manifest, visible, visible + ROOM_BYTES, frame.len()) {
                Ok(verdict) => said.push(verdict),
                Err(why) => {
                    said.clear();
                    return Err(format!("it {why} (frame {index} of {})", frames.len()));
                }
            }
            edits.push((record, bytes, visible));
        }
        for (frame, (record, bytes, visible)) in frames.iter_mut().zip(edits) {
            record.apply(frame, visible, Some(&bytes));
        }
        Ok(())
    }

    fn timer(&mut self, token: u64, fx: &mut Effects) -> Result<(), String> {
        self.call(json!({"call": "timer", "token": token}), fx).map(drop)
    }

    fn started(&mut self, fx: &mut Effects) -> Result<(), String> {
        self.call(json!({"call": "started"}), fx).map(drop)
    }

    fn check(&mut self, index: usize, value: &Given, fx: &mut Effects) -> Result<Result<(), String>, String> {
        let answer = self.call(json!({"call": "check", "parameter": index, "value": Python::value(value)}), fx)?;
        Ok(refusal(&answer))
    }

    fn set(&mut self, index: usize, value: &Given, fx: &mut Effects) -> Result<(), String> {
        self.call(json!({"call": "set", "parameter": index, "value": Python::value(value)}), fx).map(drop)
    }

    fn export(&mut self, fx: &mut Effects) -> Result<Vec<u8>, String> {
        let answer = self.call(json!({"call": "export"}), fx)?;
        let bytes = unhex(answer.as_str().unwrap_or("-"))?;
        match bytes.len() > crate::guest::STATE_BYTES_MAX {
            true => Err(format!("it exported {} bytes of state, at most {}", bytes.len(), crate::guest::STATE_BYTES_MAX)),
            false => Ok(bytes),
        }
    }

    fn import(&mut self, version: u32, bytes: &[u8], fx: &mut Effects) -> Result<Result<(), String>, String> {
        let answer = self.call(json!({"call": "import", "version": version, "bytes": hex(bytes)}), fx)?;
        Ok(refusal(&answer))
    }

    fn schedule(&mut self, question: &Question, fx: &mut Effects) -> Result<Raw, String> {
        let Question { subflows, una, next, end, edge, more, again, memory } = question;
        let subflows: Vec<Value> = subflows.iter().map(subflow).collect();
        let message = json!({
            "call": "schedule", "subflows": subflows, "una": una, "next": next, "end": end, "edge": edge, "more": more, "again": again,
            "memory": memory.0,
        });
        let answer = self.call(message, fx)?;
        let Chosen { place, from, bytes, memory } =
            serde_json::from_value(answer).map_err(|error| format!("it answered a choice that is none: {error}"))?;
        Ok(Raw { place, from, bytes, memory: Memory(memory) })
    }
}

fn subflow((index, view): &(usize, View)) -> Value {
    json!({
        "index": index, "rtt_ns": view.rtt.map(|rtt| rtt.as_nanos()), "rtt_variation_ns": view.rtt_variation.as_nanos(),
        "queued_bytes": view.queued_bytes, "credit_bytes": view.credit_bytes, "room_bytes": view.room_bytes(), "next": view.next,
        "sent_bytes": view.sent_bytes, "cwnd_bytes": view.cwnd_bytes, "free_bytes": view.free_bytes, "mss_bytes": view.mss_bytes,
        "mapping_bytes": view.mapping_bytes, "interface": view.interface, "backup": view.backup,
    })
}

/// An answer that is something says why not.
fn refusal(answer: &Value) -> Result<(), String> {
    match answer {
        Value::Null => Ok(()),
        Value::String(why) => Err(why.clone()),
        other => Err(format!("the block does not take it ({other})")),
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_or_does_not_take_what_it_is_told_is_killed() {
        let start = |body: &str| {
            let head = "import weft_block as weft, sys\nMANIFEST = ''\nclass P(weft.Block):\n  def started(self):\n";
            let (mut python, _) = Python::start(Path::new("p.py"), &format!("{head}    {body}\n"), 1, PATIENCE).unwrap();
            python.patience = Duration::from_millis(200);
            python
        };
        let mut endless = start("while True: pass");
        let why = endless.ask(&json!({"call": "started", "now": 0})).err().unwrap();
        assert_eq!(why, "its process gave no answer within 200ms of real time: does it loop for ever?");
        assert!(!endless.child.wait().unwrap().success());
        // It answers, and listens no more.
        let mut deaf = start("import threading; threading.Event().wait()");
        deaf.socket.set_write_timeout(Some(deaf.patience)).unwrap();
        let much = json!({"call": "started", "now": 0, "much": "x".repeat(4 << 20)});
        deaf.say(&json!({"call": "started", "now": 0})).unwrap();
        assert!(deaf.say(&much).unwrap_err().starts_with("its process gave no answer within "));
    }
}
