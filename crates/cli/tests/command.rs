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

/// Edges of the running graph, those that lead out of or into these blocks.
fn edges(place: &Place, blocks: &[&str]) -> Vec<String> {
    let (code, text, _) = place.said(&["show", "edges"]);
    assert_eq!(code, Some(0));
    let rows = text.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let named = rows.filter(|row| blocks.contains(&row[0]) || blocks.contains(&row[2]));
    named.map(|row| format!("{}:{} -> {}:{}", row[0], row[1], row[2], row[3])).collect()
}

#[test]
fn a_graph_is_rebuilt_as_people_say() {
    let place = Place::new("rebuilt");
    let (_daemon, _output) = Daemon::start(&place);
    let done = |words: &[&str]| {
        let (code, output, error) = place.said(words);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{words:?}");
        output
    };
    let refused = |words: &[&str]| {
        let (code, output, error) = place.said(words);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{words:?}");
        error
    };
    let before = edges(&place, &["interfaces", "ether"]);
    assert_eq!(done(&["add", "wan", "delay", "delay=20ms"]), "add wan delay");
    assert_eq!(
        done(&["insert", "wan", "ether:lower", "interfaces:upper"]),
        "insert wan ether:lower interfaces:upper: ether:lower -> wan:in, wan:out -> interfaces:upper"
    );
    assert_eq!(edges(&place, &["wan"]), ["ether:lower -> wan:in", "wan:out -> interfaces:upper"]);
    assert_eq!(done(&["get", "wan.delay"]), "wan.delay = 20ms");
    assert_eq!(done(&["replace", "wan", "counter", "--drop-state", "--json"]), r#"["replace wan counter"]"#);
    assert_eq!(done(&["exec", "wan", "reset"]), "");
    assert!(done(&["show", "blocks", "--json"]).contains(r#""name":"wan","kind":"counter""#));
    assert_eq!(done(&["extract", "wan"]), "extract wan: ether:lower -> interfaces:upper");
    assert_eq!(edges(&place, &["interfaces", "ether"]), before);
    assert_eq!(done(&["bind", "wan", "interfaces:upper"]), "bind wan:out interfaces:upper");
    assert_eq!(done(&["unbind", "wan:out"]), "unbind wan:out interfaces:upper");
    assert_eq!(done(&["delete", "wan"]), "delete wan");
    assert_eq!(done(&["exec", "ip4", "route_add", "destination=10.9.0.0/16", "interface=lo", "--json"]), r#"{"ip4":null}"#);
    assert!(done(&["show", "routes"]).contains("10.9.0.0/16"));
    // Errors name the word, the block and the port.
    assert!(refused(&["add", "wan", "dealy"]).starts_with("weft: there is no kind of block named 'dealy'; did you mean 'delay'? known: "));
    assert!(refused(&["add", "wan", "delay", "delay=20"]).starts_with("weft: wan.delay: '20' needs a unit"));
    assert!(refused(&["add", "wan", "delay", "20ms"]).starts_with("weft: add: '20ms' is no KEY=VALUE"));
    assert!(refused(&["add", "tcp", "tcp"]).starts_with("weft: a block named 'tcp' exists already"));
    assert!(refused(&["insert", "wan", "ether", "interfaces"]).starts_with("weft: there is no block named 'wan'"));
    assert!(refused(&["bind", "tcp:ip5", "ip4"]).starts_with("weft: block 'tcp' has no output port 'ip5'; it has: "));
    assert_eq!(refused(&["unbind", "tcp", "udp"]), "weft: there is no edge from tcp to udp");
    assert!(refused(&["delete", "tcp:ip4"]).starts_with("weft: delete: 'tcp:ip4' names a port"));
    assert!(refused(&["exec", "arp", "flsuh"]).starts_with("weft: block 'arp' has no procedure 'flsuh'; did you mean 'flush'? it has: "));
    assert!(refused(&["exec", "alice", "bash"]).ends_with("help: a program in a node of a world that runs: weft exec NODE -- PROGRAM"));
    assert!(refused(&["exec", "arp", "flush", "--", "sh"]).contains("both a procedure and a program"));
    assert_eq!(edges(&place, &["interfaces", "ether"]), before, "what was refused left nothing behind");
}

#[test]
fn a_running_graph_becomes_that_of_a_file() {
    let place = Place::new("apply");
    let (_daemon, _output) = Daemon::start(&place);
    let before = place.said(&["show", "edges"]).1;
    let wan = "[block.tcp]\nmss = 536\n[block.wan]\nkind = \"delay\"\ndelay = \"20ms\"\n[graph]\ninsert = [\"wan ether:lower interfaces:upper\"]\n";
    std::fs::write(place.0.join("wan.toml"), format!("{STACK}{wan}")).unwrap();
    let (code, planned, error) = place.said(&["apply", "wan.toml", "--dry-run"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let words = [
        "unbind ether:lower interfaces:upper",
        "add wan delay delay=20ms",
        "bind ether:lower wan:in",
        "bind wan:out interfaces:upper",
        "set tcp.mss 536",
    ];
    assert_eq!(planned.lines().collect::<Vec<_>>(), words);
    assert_eq!(place.said(&["show", "edges"]).1, before, "it only looked");
    assert_eq!(place.said(&["apply", "wan.toml"]).1.lines().last(), Some("set tcp.mss 536"));
    assert_eq!(edges(&place, &["wan"]), ["ether:lower -> wan:in", "wan:out -> interfaces:upper"]);
    assert_eq!(place.said(&["apply", "wan.toml"]).1, "(nothing to change)");
    let (_, json, _) = place.said(&["apply", "stack.toml", "--json"]);
    assert!(
        json.starts_with(
            r#"{"operations":["delete wan","bind ether:lower interfaces:upper","set tcp.mss 0"],"changes":["delete wan, which ends "#
        ),
        "{json}"
    );
    assert_eq!(place.said(&["show", "edges"]).1, before);
    std::fs::write(place.0.join("wrong.toml"), format!("{STACK}{}", wan.replace("20ms", "20"))).unwrap();
    let (code, _, error) = place.said(&["apply", "wrong.toml"]);
    assert!(code == Some(2) && error.starts_with("weft: wrong.toml:8: wan.delay: '20' needs a unit"), "{error}");
    assert!(place.said(&["apply", "nowhere.toml"]).2.contains("cannot read the stack file nowhere.toml"));
}

#[test]
fn a_file_whose_blocks_come_from_files_is_applied_with_them() {
    let place = Place::new("apply-loads");
    let (_daemon, _output) = Daemon::start(&place);
    let before = place.said(&["show", "edges"]).1;
    let done = |words: &[&str]| {
        let (code, output, error) = place.said(words);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{words:?}");
        output
    };
    std::fs::create_dir(place.0.join("stacks")).unwrap();
    let script = place.0.join("stacks/alternate.py");
    let ring = "[block.ring]\nkind = \"alternate-python\"\nleft_gateway = \"10.0.0.1\"\n\
                [graph]\nload = [\"alternate.py\"]\ninsert = [\"ring ip4:lower arp:upper\"]\n";
    std::fs::write(place.0.join("stacks/ring.toml"), format!("{STACK}{ring}")).unwrap();
    std::fs::write(&script, include_str!("../../../examples/ring/alternate.py")).unwrap();
    let load = format!("load {}", script.display());
    let planned = [
        &load,
        "unbind ip4:lower arp:upper",
        "add ring alternate-python left_gateway=10.0.0.1",
        "bind ip4:lower ring:in",
        "bind ring:out arp:upper",
    ];
    assert_eq!(
        done(&["apply", "stacks/ring.toml", "--dry-run"]).lines().collect::<Vec<_>>(),
        planned,
        "the file lies beside the stack file"
    );
    assert_eq!(place.said(&["show", "edges"]).1, before, "it only looked");
    assert!(place.said(&["add", "ring", "alternate-python"]).2.contains("there is no kind of block named 'alternate-python'"));
    assert!(done(&["apply", "stacks/ring.toml"]).starts_with("load alternate-python 1.0.0+"));
    assert_eq!(done(&["get", "ring.left_gateway"]), "ring.left_gateway = 10.0.0.1");
    assert_eq!(done(&["apply", "stacks/ring.toml"]), "(nothing to change)");
    // A parameter that may be set while it runs is set; another build takes over.
    std::fs::write(place.0.join("stacks/ring.toml"), format!("{STACK}{}", ring.replace("10.0.0.1", "10.0.0.2"))).unwrap();
    assert_eq!(done(&["apply", "stacks/ring.toml"]), "set ring.left_gateway \"10.0.0.2\"");
    std::fs::write(&script, std::fs::read_to_string(&script).unwrap().replace("version = \"1.0.0\"", "version = \"1.1.0\"")).unwrap();
    assert_eq!(done(&["apply", "stacks/ring.toml", "--dry-run"]), format!("{load}\nreplace ring alternate-python"));
    assert!(done(&["apply", "stacks/ring.toml"]).starts_with("load alternate-python 1.1.0+"));
    assert!(done(&["show", "blocks", "--json"]).contains(r#""kind":"alternate-python","version":"1.1.0+"#));
    assert_eq!(done(&["get", "ring.left_gateway"]), "ring.left_gateway = 10.0.0.2");
    // What the file leaves out goes; its kind stays for whoever wants it, and is not loaded again.
    done(&["apply", "stack.toml"]);
    assert_eq!(place.said(&["show", "edges"]).1, before);
    assert_eq!(done(&["apply", "stacks/ring.toml", "--dry-run"]).lines().next(), Some(planned[1]));
    std::fs::remove_file(&script).unwrap();
    let (code, _, error) = place.said(&["apply", "stacks/ring.toml"]);
    assert!(code == Some(2) && error.starts_with("weft: stacks/ring.toml:8: cannot load 'alternate.py': there is no such file"), "{error}");
}

#[test]
fn subscribers_hear_of_alerts_and_changes() {
    let place = Place::new("subscribe");
    let (mut daemon, _output) = Daemon::start(&place);
    let listen = |words: &[&str]| place.weft(words).stdout(Stdio::piped()).spawn().unwrap();
    let mut all = listen(&["subscribe", "--json"]);
    let mut one = listen(&["subscribe", "interfaces", "-c", "2"]);
    // Until both are heard: what is asked first is answered first.
    let mut lines = BufReader::new(all.stdout.take().unwrap());
    let mut first = String::new();
    let ready = std::thread::scope(|scope| {
        let asking = scope.spawn(|| lines.read_line(&mut first).unwrap());
        while !asking.is_finished() {
            assert_eq!(place.said(&["set", "tcp.mss", "536"]).0, Some(0));
        }
        asking.join().unwrap()
    });
    assert!(ready > 0 && first.contains(r#""told":"set tcp.mss 536","answer":["set tcp.mss 536"]}"#), "{first}");
    let flap = |up: &str| assert_eq!(place.said(&["exec", "interfaces", "set", "name=weft0", up]).0, Some(0));
    let mut out = BufReader::new(one.stdout.take().unwrap());
    let mut text = String::new();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| out.read_to_string(&mut text).unwrap());
        while !asking.is_finished() {
            flap("up=false");
            flap("up=true");
        }
    });
    assert!(one.wait().unwrap().success());
    assert!(text.contains(" exec interfaces set name=weft0 up=") && text.contains(" interfaces changed name=weft0 "), "{text}");
    assert!(!text.contains("tcp"), "it asked for one block: {text}");
    assert_eq!(place.said(&["pause"]).1, "pause");
    // The stack's own timers may send something meanwhile.
    let (_, unpaused, _) = place.said(&["unpause"]);
    assert!(unpaused.starts_with("unpause: ") && unpaused.ends_with(" frames go on"), "{unpaused}");
    assert_eq!(place.said(&["subscribe", "nobody"]).0, Some(2));
    assert_eq!(place.said(&["shutdown"]), (Some(0), String::new(), String::new()));
    assert!(daemon.0.wait().unwrap().success());
    let _ = (all.kill(), all.wait());
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
        assert!(error.contains("tap:NAME, tun:NAME, packet:INTERFACE, stream:PATH, passt:, fd:NUMBER, memory:NAME"), "{error}");
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
    assert_eq!(output, "Network is down\n");
}

#[test]
fn a_signal_that_ends_the_program_ends_the_stack_of_those_left_behind() {
    let place = Place::new("once");
    let script = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.closerange(0, 3)\n    time.sleep(3)\n    os._exit(0)\nprint('there', flush=True)\ntime.sleep(60)\n";
    for strict in [&[][..], &["--strict"]] {
        let mut command = place.weft(&[&["run", "--stack", "stack.toml"], strict, &["--", "python3", "-c", script]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "there\n");
        assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(notice(&mut child), "weft: python3 has left processes behind, whose stack ends with it (use weft up for servers)\n");
        assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    }
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
