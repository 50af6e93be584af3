//! The `weft` command as a person uses it, on stacks whose interface leads nowhere: needs no privilege and no device.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use support::{Place, STACK};

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
    assert_eq!(place.said(&["set", "tcp.mss=537"]).1, "set tcp.mss 537");
    assert_eq!(
        place.said(&["set", "tcp.mss"]).2,
        "weft: give a value, too: weft set tcp.mss VALUE (`weft get tcp.mss` tells the present one)"
    );
    assert!(place.said(&["set", "tcp.msss", "1"]).2.starts_with("weft: block 'tcp' has no parameter 'msss'; did you mean 'mss'? it has: "));
    assert!(place.said(&["get", "tpc"]).2.starts_with("weft: there is no block named 'tpc'; did you mean 'tcp'? the graph has: "));
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
    assert!(
        place
            .said(&["help", "block", "dealy"])
            .2
            .starts_with("weft: there is no kind of block named 'dealy'; did you mean 'delay'? known: ")
    );
    assert_eq!(place.said(&["generate"]).0, Some(2), "it asks for the folder");
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

#[test]
fn what_is_the_users_stays_where_a_control_socket_was_asked_for() {
    let place = Place::new("place");
    std::fs::write(place.0.join("notes.txt"), "mine").unwrap();
    let up = |control: &str| {
        let (code, output, error) = place.said(&["up", "--stack", "stack.toml", "--control", control]);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{error}");
        error
    };
    assert_eq!(up("notes.txt"), "weft: control socket notes.txt: exists and is no socket: name another place with --control");
    assert_eq!(std::fs::read_to_string(place.0.join("notes.txt")).unwrap(), "mine");
    assert!(up("missing/control").contains("missing: make it, or name another place with --control"));
    assert!(!place.0.join("missing").exists());
}

#[test]
fn wefts_own_directory_comes_and_goes_and_is_nobody_elses() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new("own");
    let own = place.0.join("weft");
    let (mut daemon, _output) = Daemon::start(&place);
    assert_eq!(std::fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(place.said(&["down"]), (Some(0), String::new(), String::new()));
    assert!(daemon.0.wait().unwrap().success());
    assert!(!own.exists());
    std::fs::create_dir(&own).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, _, error) = place.said(&["up", "--stack", "stack.toml"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("may be written to by others (mode 777): remove it or mend its owner and mode (0700)"), "{error}");
}

#[test]
fn a_mistyped_option_is_no_program() {
    let place = Place::new("mistyped");
    let (code, _, error) = place.said(&["run", "--stakc", "stack.toml", "--", "true"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("unexpected argument '--stakc'") && error.contains("'--stack'"), "{error}");
    let (code, _, error) = place.said(&["run", "--stack", "stack.toml", "--", "-no-such-program"]);
    assert_eq!((code, error.as_str()), (Some(127), "weft: cannot execute -no-such-program: No such file or directory (os error 2)"));
    assert_eq!(place.said(&["run", "--stack", "stack.toml", "echo", "--stakc"]).1, "--stakc");
}

#[test]
fn a_stack_of_its_own_can_be_looked_at_from_inside_and_outside() {
    let place = Place::new("inside");
    let script = r#"name=$(basename "$WEFT_CONTROL"); cd /; "$0" show interfaces; "$0" show interfaces --control "$name"; echo "$name""#;
    let weft = env!("CARGO_BIN_EXE_weft");
    let (code, output, error) = place.said(&["run", "--stack", "stack.toml", "--", "sh", "-c", script, weft]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert_eq!(output.matches("weft0").count(), 2, "{output}");
    assert!(output.lines().last().unwrap().starts_with("run-"), "{output}");
    assert!(!place.0.join("weft").exists(), "it takes its socket along");
}

#[test]
fn a_stack_inside_a_stack_is_refused() {
    let place = Place::new("nested");
    let weft = env!("CARGO_BIN_EXE_weft");
    let (code, _, error) = place.said(&["run", "--stack", "stack.toml", "--", weft, "run", "--stack", "stack.toml", "--", "true"]);
    assert_eq!((code, error.as_str()), (Some(2), "weft: already under weft: a stack inside a stack is not possible"));
    // Only the variable, as a person sets it to name a daemon: that is no stack.
    let run = place.weft(&["run", "--stack", "stack.toml", "--", "true"]).env("WEFT_CONTROL", place.0.join("nowhere")).output().unwrap();
    assert!(run.status.success(), "{run:?}");
}

#[test]
fn who_runs_a_program_learns_that_its_stack_has_ended() {
    let place = Place::new("ended");
    // Once its first call is answered it has joined.
    let script = "import socket, sys\ns = socket.socket()\nprint(\"up\", flush=True)\nsys.stdin.read()\nsys.exit(5)";
    for end in ["killed", "down"] {
        let (mut daemon, _output) = Daemon::start(&place);
        let mut run = place.weft(&["run", "python3", "-c", script]);
        let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
        match end {
            "killed" => daemon.0.kill().unwrap(),
            _ => assert_eq!(place.said(&["down"]).1, "one program is still on it: its sockets are dead"),
        }
        let mut errors = BufReader::new(run.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert_eq!(line, "weft: the stack has ended: sockets of python3 are dead\n");
        drop(run.stdin.take());
        assert_eq!(run.wait().unwrap().code(), Some(5));
        let mut rest = String::new();
        errors.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        daemon.0.wait().unwrap();
    }
}

#[test]
fn check_says_what_would_come_up() {
    let place = Place::new("check");
    std::fs::write(place.0.join("delay.toml"), "[block.wan]\nkind = \"delay\"\n[graph]\ninsert = [\"wan ether:lower interfaces:upper\"]\n")
        .unwrap();
    let (code, output, _) = place.said(&["check", "delay.toml"]);
    assert_eq!(code, Some(0));
    assert!(output.contains("\n  weft0 (tap:weft0): addresses 10.77.0.2/24,fd77::2/64\n"), "{output}");
    assert!(output.ends_with("are the default stack's (interfaces = \"none\" under [node]: only the loopback)"), "{output}");
    assert!(place.said(&["check", "delay.toml", "--json"]).1.contains(r#""addresses":["10.77.0.2/24","fd77::2/64"]"#));
    std::fs::write(place.0.join("none.toml"), "[node]\ninterfaces = \"none\"\n").unwrap();
    assert!(place.said(&["check", "none.toml"]).1.ends_with("\n  no interfaces: only the loopback"));
    assert!(place.said(&["check", "stack.toml"]).1.ends_with("\n  weft0 (memory:nowhere): addresses none"));
}

#[test]
fn the_examples_are_sound_and_so_is_the_one_in_the_help() {
    let place = Place::new("examples");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // The others are scenarios.
    files.retain(|file| std::fs::read_to_string(file).unwrap().contains("--stack docs/examples/"));
    assert!(files.len() >= 2, "{files:?}");
    let help = place.said(&["help", "stack"]).1;
    let start = help.find("[block.there]").unwrap();
    let example = &help[start..help.find("All that a file may hold").unwrap()];
    std::fs::write(place.0.join("help.toml"), example).unwrap();
    files.push(place.0.join("help.toml"));
    for file in files {
        let (code, output, error) = place.said(&["check", file.to_str().unwrap()]);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{}: {output}", file.display());
    }
}
