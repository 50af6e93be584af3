//! The `weft` command as a person uses it, on stacks whose interface leads nowhere: needs no privilege and no device.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

const STACK: &str = "[[interface]]\nname = \"weft0\"\nbackend = \"memory:nowhere\"\n";

/// A directory that goes away with its test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("weft-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("stack.toml"), STACK).unwrap();
        Place(path)
    }
    fn weft(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(arguments).current_dir(&self.0).env("XDG_RUNTIME_DIR", &self.0).stdin(Stdio::null());
        command
    }
    /// Runs it to its end: exit status, output, errors.
    fn said(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.weft(arguments).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap().trim_end().to_owned(), String::from_utf8(stderr).unwrap().trim_end().to_owned())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A daemon, up.
struct Daemon(Child);

impl Daemon {
    fn start(place: &Place) -> (Daemon, BufReader<ChildStdout>) {
        let mut child = place.weft(&["up", "--stack", "stack.toml"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("ready control="), "{line}");
        (Daemon(child), output)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn parameters_are_set_and_read_as_people_write_them() {
    let place = Place::new("parameters");
    let (_daemon, _output) = Daemon::start(&place);
    let refused = |value: &str, name: &str| {
        let (code, _, error) = place.said(&["set", name, value]);
        assert_eq!(code, Some(2), "{name} {value}");
        error
    };
    assert_eq!(refused("-1", "tcp.mss"), "weft: tcp.mss: -1 is out of range: 0 to 65535");
    assert_eq!(refused("20", "tcp.rto_min"), "weft: tcp.rto_min: '20' needs a unit: ns, us, ms, s, m or h");
    assert_eq!(refused("-20ms", "tcp.rto_min"), "weft: tcp.rto_min: '-20ms' is out of range");
    assert_eq!(place.said(&["set", "tcp.mss", "536"]).1, "set tcp.mss 536");
    assert_eq!(place.said(&["get", "tcp.mss", "--json"]).1, r#"{"tcp":{"mss":536}}"#);
    assert_eq!(place.said(&["get", "tcp.mss"]).1, "tcp.mss = 536");
    assert!(place.said(&["get", "tcp", "--json"]).1.contains(r#""mss":536"#));
    assert_eq!(place.said(&["set", "tcp.sack", "off"]).1, "set tcp.sack false");
}

#[test]
fn wrong_files_are_refused_with_what_to_do() {
    let place = Place::new("files");
    let (code, _, error) = place.said(&["check", "nowhere.toml"]);
    assert_eq!(code, Some(2));
    assert!(error.starts_with("weft: cannot read the stack file nowhere.toml: No such file") && error.contains("\nhelp: "), "{error}");
    std::fs::write(place.0.join("wrong.toml"), STACK.replace("memory:", "pigeon:")).unwrap();
    for command in [&["check", "wrong.toml"][..], &["up", "--stack", "wrong.toml"]] {
        let (code, _, error) = place.said(command);
        assert_eq!(code, Some(2));
        assert!(error.starts_with("weft: wrong.toml:3: there is no kind of backend named 'pigeon'"), "{error}");
        assert!(error.contains("tap:NAME, tun:NAME, packet:INTERFACE, memory:NAME"), "{error}");
    }
    assert_eq!(place.said(&["check", "stack.toml"]).0, Some(0));
    let (_, _, error) = place.said(&["up", "--tap", "waytoolongforatap"]);
    assert!(error.contains("1 to 15 bytes"), "{error}");
}

#[test]
fn help_tells_commands_and_blocks() {
    let place = Place::new("help");
    assert!(place.said(&["help", "show"]).1.contains("Usage: weft show "));
    let (code, blocks, _) = place.said(&["help", "block"]);
    assert_eq!((code, blocks), (Some(0), place.said(&["help", "blocks"]).1));
    assert!(place.said(&["help", "block", "tcp"]).1.contains("0 to 65535, default"));
}

/// Starts a program whose first process ends with status 3 and leaves another behind, which goes on once the stack has been said to stay.
fn leave_behind(place: &Place, rest: &str) -> Child {
    let script = format!("import os, socket, time\nif os.fork(): os._exit(3)\n{rest}\n");
    let mut command = place.weft(&["run", "--stack", "stack.toml", "--", "python3", "-c", &script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn notice(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    line
}

const NOTICE: &str = "weft: python3 has left processes behind; the stack stays until they end (use weft up for servers)\n";

/// Waits for the file that tells it to go on.
fn waits_for(go: &Path) -> String {
    format!("while not os.path.exists({go:?}): time.sleep(0.02)\n")
}

#[test]
fn a_stack_lives_on_for_the_processes_that_its_program_left_behind() {
    let place = Place::new("behind");
    let go = place.0.join("go");
    let serve = "s = socket.create_server((\"127.0.0.1\", 0))\nc = socket.create_connection(s.getsockname())\n\
                 a, _ = s.accept()\na.sendall(b\"served\")\nprint(c.recv(10).decode())";
    let mut child = leave_behind(&place, &format!("{}{serve}", waits_for(&go)));
    assert_eq!(notice(&mut child), NOTICE);
    std::fs::write(go, "").unwrap();
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!(output, "served\n");
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_signal_ends_a_stack_that_only_lives_on_for_those_left_behind() {
    let place = Place::new("signal");
    let go = place.0.join("go");
    let refused = "try: print(socket.socket())\nexcept OSError as error: print(error.strerror)";
    let mut child = leave_behind(&place, &format!("{}{refused}", waits_for(&go)));
    assert_eq!(notice(&mut child), NOTICE);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    std::fs::write(go, "").unwrap();
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!(output, "Function not implemented\n");
}
