//! The socket through which `weft exec` comes into a running world, and words of command to its nodes.
//!
//! One line of JSON with the three descriptors of the visitor goes in, `{"signal": N}` may follow; out come `{"started": N}` or `{"refused": "why"}`, and
//! `{"exited": N}` or `{"killed": N}`. A connection that closes without one of these: the world has ended. Who asks as one asks a stack
//! (`weft_host::protocol`) is answered like that, by the node that is named.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde_json::{Value, json};
use std::io::{self, BufRead as _, BufReader, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;
use weft_core::{ControlError, Op};
use weft_host::place::{Seat, listen};
use weft_host::protocol::{Ask, LINE_BYTES_MAX, Line, Request};
use weft_sim::Status;
use weft_sim::visit::{News, Telling, Visit, Visitor, Visits, Wish};

/// To who asks what only the stack of `weft run` can do.
const NO_STACK: &str = "this is the socket of a world that `weft sim` runs, and its nodes cannot do that\nhelp: they take the words of the console \
                        (weft set, show, insert … --node NAME), and programs: weft exec NODE -- ss -ti";
/// To who wants to be told of alerts.
const NO_NEWS: &str = "nobody can subscribe to a node of a running world\nhelp: ask again and again: weft get, weft show";
/// Longest request.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Visitors at a time.
const VISITORS_MAX: usize = 64;
/// How often a program that waits to write outside tries again.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Input that nobody reads must not keep the world busy.
const AFTER_INPUT: Duration = Duration::from_millis(2);

/// Opens the socket of a world with these nodes and serves it from a thread. Its file is there as long as what is returned.
pub(super) fn open(path: &Path, visits: &Arc<Visits>, nodes: Vec<String>) -> io::Result<Seat> {
    let (listener, seat) = listen(path)?;
    let (visits, nodes): (_, Arc<[String]>) = (Arc::clone(visits), nodes.into());
    std::thread::spawn(move || {
        let inside = Arc::new(());
        for stream in listener.incoming().flatten() {
            if Arc::strong_count(&inside) > VISITORS_MAX {
                let _ = tell(&stream, &json!({"refused": format!("{VISITORS_MAX} visitors are inside already")}));
                continue;
            }
            let (visits, nodes, inside) = (Arc::clone(&visits), Arc::clone(&nodes), Arc::clone(&inside));
            std::thread::spawn(move || {
                if let Err(why) = serve(&stream, &visits, &nodes) {
                    let _ = tell(&stream, &json!({"refused": why}));
                }
                drop(inside);
            });
        }
    });
    Ok(seat)
}

fn tell(mut stream: &UnixStream, value: &Value) -> io::Result<()> {
    stream.write_all(format!("{value}\n").as_bytes())
}

/// One visitor, from coming to going.
fn serve(stream: &UnixStream, visits: &Visits, nodes: &[String]) -> Result<(), String> {
    let (text, descriptors) = receive(stream)?;
    let request: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if request["serial"].is_u64() {
        return converse(stream, visits, nodes, text).map_err(|error| error.to_string());
    }
    let descriptors = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| "three descriptors come with a request")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let command: Vec<String> = request["command"].as_array().into_iter().flatten().filter_map(text).collect();
    let node = text(&request["node"]).ok_or("the request names no node")?;
    let environment = request["environment"].as_object().into_iter().flatten();
    let environment = environment.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect();
    let input = descriptors[0].try_clone().map_err(|error| error.to_string())?;
    let (news, told) = channel();
    if !visits.push(Visit::Start(Visitor { node, command, environment, descriptors: Some(descriptors), news })) {
        return Err("too many visitors wait".to_owned());
    }
    match told.recv() {
        Ok(News::Started(number)) => {
            tell(stream, &json!({"started": number})).map_err(|error| error.to_string())?;
            accompany(stream, visits, number, &input, &told);
            Ok(())
        }
        Ok(News::Refused(why)) => Err(why),
        Ok(News::NotExecuted(why, status)) => tell(stream, &json!({"refused": why, "status": status})).map_err(|error| error.to_string()),
        Ok(News::Ended(_)) | Err(_) => Err("the world has ended".to_owned()),
    }
}

/// Answers one who asks as one asks a stack, until he goes.
fn converse(stream: &UnixStream, visits: &Visits, nodes: &[String], first: Vec<u8>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = first;
    while line.ends_with(b"\n") {
        let (serial, result) = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => (request.serial, ask(visits, nodes, request)),
            Err(error) => (0, Err(ControlError::BadRequest { why: error.to_string() })),
        };
        tell(stream, &serde_json::to_value(Line::Answer { serial, result })?)?;
        line.clear();
        reader.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
    }
    Ok(())
}

fn ask(visits: &Visits, nodes: &[String], request: Request) -> Result<Value, ControlError> {
    let refused = |why: &str| ControlError::World { why: why.into() };
    let wish = match request.ask {
        Ask::Hello => {
            return Ok(json!({"node": request.node, "nodes": nodes, "version": env!("CARGO_PKG_VERSION"), "pid": std::process::id()}));
        }
        // Whatever the node: `weft subscribe` names none.
        Ask::Node(Op::Subscribe { .. }) => return Err(refused(NO_NEWS)),
        Ask::Node(op) => Wish::Op(op),
        Ask::Apply { shape, wiring, dry_run } => Wish::Apply { shape, wiring, dry_run },
        _ => return Err(refused(NO_STACK)),
    };
    let (answer, told) = channel();
    if !visits.push(Visit::Tell(Telling { node: request.node, wish, answer })) {
        return Err(refused("too many visitors wait"));
    }
    told.recv().unwrap_or_else(|_| Err(refused("the world has ended")))
}

/// While the program runs: signals go in, readiness is told, and its end goes out.
fn accompany(stream: &UnixStream, visits: &Visits, number: usize, input: &OwnedFd, told: &Receiver<News>) {
    let mut input = Some(input);
    let mut line = Vec::new();
    loop {
        match told.try_recv() {
            Ok(News::Ended(Status::Exited(status))) => return drop(tell(stream, &json!({"exited": status}))),
            Ok(News::Ended(Status::Killed(signal))) => return drop(tell(stream, &json!({"killed": signal}))),
            Ok(_) | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return,
        }
        let mut ready = vec![PollFd::new(stream, PollFlags::IN)];
        ready.extend(input.map(|input| PollFd::new(input, PollFlags::IN)));
        if poll(&mut ready, Some(&LOOK_EVERY)).is_err() {
            continue;
        }
        visits.push(Visit::Poke(number));
        let seen: Vec<PollFlags> = ready.iter().map(PollFd::revents).collect();
        if seen.get(1).is_some_and(|flags| !flags.is_empty()) {
            std::thread::sleep(AFTER_INPUT);
        }
        if seen.get(1).is_some_and(|flags| flags.contains(PollFlags::NVAL)) {
            input = None;
        }
        if seen.first().is_none_or(|flags| flags.is_empty()) {
            continue;
        }
        let mut bytes = [0; 256];
        let mut reader = stream;
        match reader.read(&mut bytes) {
            Ok(0) | Err(_) => {
                // Whoever started it has gone.
                visits.push(Visit::Signal(number, signal_hook::consts::SIGHUP));
                return;
            }
            Ok(count) => line.extend_from_slice(bytes.get(..count).unwrap_or_default()),
        }
        while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            let message: Vec<u8> = line.drain(..=end).collect();
            let signal = serde_json::from_slice::<Value>(&message).ok().and_then(|value| value["signal"].as_i64());
            if let Some(signal) = signal.and_then(|signal| i32::try_from(signal).ok()).filter(|signal| (1..32).contains(signal)) {
                visits.push(Visit::Signal(number, signal));
            }
        }
        if line.len() > REQUEST_BYTES_MAX {
            return;
        }
    }
}

/// A line, and standard input, output and error of whoever sends it.
fn receive(stream: &UnixStream) -> Result<(Vec<u8>, Vec<OwnedFd>), String> {
    let (mut text, mut descriptors) = (Vec::new(), Vec::new());
    while !text.ends_with(b"\n") {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
        let count = received.map_err(|errno| errno.to_string())?.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        text.extend_from_slice(bytes.get(..count).unwrap_or_default());
        if count == 0 || text.len() > REQUEST_BYTES_MAX {
            return Err("the request is no line of JSON".to_owned());
        }
    }
    Ok((text, descriptors))
}
