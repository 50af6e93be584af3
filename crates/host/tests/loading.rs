//! A file with a kind of block that takes for ever to read, beside everything else that a stack does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_core::{Loaded, Loader};
use weft_host::world::{Control, Options, World};
use weft_node::Stack;

/// Says that it has begun, and goes on when it is told to.
#[derive(Debug)]
struct Slow {
    begun: Mutex<Sender<String>>,
    go_on: Mutex<Receiver<()>>,
}

impl Loader for Slow {
    fn load(&self, file: &str) -> Result<Loaded, String> {
        self.begun.lock().unwrap().send(file.to_owned()).unwrap();
        self.go_on.lock().unwrap().recv().map_err(|_| "nobody waits".to_owned())?;
        Err(format!("{file} was read to its end"))
    }
}

struct Client(BufReader<UnixStream>);

impl Client {
    fn of(path: &std::path::Path) -> Client {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Client(BufReader::new(socket))
    }
    fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    /// The next line, if it is there.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().map(|_| line)
    }
    fn wait(&mut self, world: &mut World) -> String {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for an answer");
            world.turn(Duration::from_millis(10)).unwrap();
            if let Some(line) = self.line() {
                return line;
            }
        }
    }
}

/// A world whose node loads its files with this, and where its control socket is.
fn world(name: &str, loader: impl Loader + 'static) -> (World, PathBuf) {
    let path = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
    let mut stack = Stack::parse("test", "[node]\nname = \"host\"\n").unwrap();
    stack.set_loader(Arc::new(loader));
    (World::new(stack, Options { control: Control::At(path.clone()), ..Options::default() }).unwrap(), path)
}

#[test]
fn while_a_file_is_read_everything_else_goes_on() {
    let (begun, has_begun) = channel();
    let (go_on, may_go_on) = channel();
    let (mut world, path) = world("loading", Slow { begun: Mutex::new(begun), go_on: Mutex::new(may_go_on) });
    let (mut loads, mut other) = (Client::of(&path), Client::of(&path));
    // In one line with other operations, as `weft exec` sends it; and what is asked behind waits for its answer.
    loads.send(r#"{"serial":1,"ask":{"node":{"all":[{"load":{"file":"slow.wasm"}},{"load":{"file":"slow.so"}}]}}}"#);
    loads.send(r#"{"serial":2,"ask":"hello"}"#);
    for serial in 1..4 {
        other.send(&format!(r#"{{"serial":{serial},"ask":"hello"}}"#));
        let answer = other.wait(&mut world);
        assert!(answer.contains(&format!(r#""serial":{serial}"#)), "{answer}");
        if serial == 1 {
            // The reading has begun, and does not end before it may.
            assert_eq!(has_begun.recv_timeout(Duration::from_secs(60)).unwrap(), "slow.wasm");
        }
    }
    assert_eq!(loads.line(), None, "answered before it was read");
    go_on.send(()).unwrap();
    go_on.send(()).unwrap();
    let answer = loads.wait(&mut world);
    assert!(answer.contains(r#""serial":1"#) && answer.contains("slow.wasm was read to its end"), "{answer}");
    assert!(loads.wait(&mut world).contains(r#""serial":2"#), "in the order in which they were asked");
    assert_eq!(has_begun.try_iter().collect::<Vec<_>>(), ["slow.so"], "each is read once");
}

#[test]
fn who_goes_away_meanwhile_is_forgotten_and_there_are_not_too_many() {
    let (begun, has_begun) = channel();
    let (go_on, may_go_on) = channel();
    let (mut world, path) = world("loading-many", Slow { begun: Mutex::new(begun), go_on: Mutex::new(may_go_on) });
    let load = r#"{"serial":7,"ask":{"node":{"load":{"file":"slow.wasm"}}}}"#;
    let mut waiting = Vec::new();
    let mut late = loop {
        assert!(waiting.len() < 100, "no end of readers");
        let mut client = Client::of(&path);
        client.send(load);
        client.send(r#"{"serial":8,"ask":"hello"}"#);
        let mut other = Client::of(&path);
        other.send(r#"{"serial":9,"ask":"hello"}"#);
        other.wait(&mut world);
        match client.line() {
            Some(line) => break (client, line),
            None => waiting.push(client),
        }
    };
    assert!(late.1.contains("requests whose files are being read"), "{}", late.1);
    assert!(late.0.wait(&mut world).contains(r#""serial":8"#));
    let count = waiting.len();
    waiting.clear();
    (0..count).for_each(|_| go_on.send(()).unwrap());
    (0..count).for_each(|_| drop(has_begun.recv_timeout(Duration::from_secs(60)).unwrap()));
    // Nothing came of it but room for others.
    let mut next = Client::of(&path);
    loop {
        next.send(load);
        go_on.send(()).unwrap();
        if next.wait(&mut world).contains("was read to its end") {
            break;
        }
    }
}

#[test]
fn who_has_asked_for_much_before_is_not_heard_before_its_file_is_read() {
    let (begun, has_begun) = channel();
    let (go_on, may_go_on) = channel();
    let (mut world, path) = world("loading-line", Slow { begun: Mutex::new(begun), go_on: Mutex::new(may_go_on) });
    // More than is read of a client at once, so that it is heard twice in a turn: as one who sends, and as one who was not heard to the end. Files are
    // asked for at many places, that either comes to one.
    let mut asked = Vec::new();
    let mut serials = 0;
    for load in 0..24 {
        let ask = |ask: &str| {
            serials += 1;
            asked.extend(format!("{{\"serial\":{serials},\"ask\":{ask}}}{}\n", " ".repeat(40)).into_bytes());
        };
        std::iter::repeat_n(r#""hello""#, 40 + 7 * load).chain([r#"{"node":{"load":{"file":"slow.wasm"}}}"#]).for_each(ask);
    }
    let (mut client, mut sent, mut line) = (Client::of(&path), 0, Vec::new());
    for serial in 1..=serials {
        let start = Instant::now();
        while client.0.read_until(b'\n', &mut line).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "no answer to {serial} of {serials}");
            sent += client.0.get_mut().write(&asked[sent..]).unwrap_or(0);
            // What lies behind a file is not answered meanwhile.
            world.turn(Duration::ZERO).unwrap();
            if has_begun.try_recv().is_ok() {
                go_on.send(()).unwrap();
            }
        }
        let answer = String::from_utf8(std::mem::take(&mut line)).unwrap();
        assert!(answer.contains(&format!(r#""serial":{serial},"#)), "'{answer}' is no answer to {serial} of {serials}");
    }
}

#[derive(Debug)]
struct Breaks;

impl Loader for Breaks {
    fn load(&self, file: &str) -> Result<Loaded, String> {
        panic!("planted, with {file}");
    }
}

#[test]
fn a_reader_that_panics_is_answered_for_and_makes_room() {
    let (mut world, path) = world("loading-breaks", Breaks);
    let mut client = Client::of(&path);
    for _ in 0..20 {
        client.send(r#"{"serial":1,"ask":{"node":{"load":{"file":"a.wasm"}}}}"#);
        let answer = client.wait(&mut world);
        assert!(answer.contains("reading it has failed in weft itself"), "{answer}");
    }
}
