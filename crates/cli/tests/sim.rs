//! `weft sim` as a person uses it: what it says before a run, and of two.

mod support;

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use support::Place;

/// `weft sim` of a world that lasts, when its socket is there; sockets of its own lie in `run/weft`.
fn world(place: &Place, more: &[&str]) -> Child {
    std::fs::write(place.0.join("w.toml"), "duration = \"1000s\"\n[nodes.a]\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(["sim", "w.toml", "--pace", "1.0"]).args(more).current_dir(&place.0).env("XDG_RUNTIME_DIR", place.0.join("run"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut first).unwrap();
    // What else it says is not read, and finds room.
    child.stderr = Some(errors.into_inner());
    assert!(first.starts_with("weft: ready control="), "{first}");
    child
}

#[test]
fn what_a_killed_world_left_is_in_nobodys_way_and_does_not_stay() {
    let place = Place::new("killed");
    std::fs::create_dir_all(place.0.join("run")).unwrap();
    let own = |place: &Place| {
        let mut names: Vec<String> = std::fs::read_dir(place.0.join("run/weft"))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let end = |mut child: Child, signal: &str| {
        let _ = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        child.wait().unwrap();
    };
    // With a path of the person's.
    let path = place.0.join("door");
    end(world(&place, &["--control", "door"]), "-KILL");
    assert!(path.exists(), "nobody was there to remove it");
    let second = world(&place, &["--control", "door"]);
    let (_, _, refused) = place.said(&["sim", "w.toml", "--control", "door"]);
    assert!(refused.contains("a weft is running already"), "one that lives is not replaced: {refused}");
    end(second, "-TERM");
    assert!(!path.exists());
    // In weft's own directory the next one sweeps.
    let killed = world(&place, &[]);
    let name = format!("sim-{}", killed.id());
    assert_eq!(own(&place), [name.as_str()]);
    end(killed, "-KILL");
    assert_eq!(own(&place), [name.as_str()]);
    let next = world(&place, &[]);
    assert_eq!(own(&place), [format!("sim-{}", next.id())]);
    end(next, "-TERM");
    assert!(!place.0.join("run/weft").exists(), "the last one takes the directory along");
}

/// What `--check` says of a scenario with node `a` and one program on it.
fn check(place: &Place, node: &str, command: &str) -> String {
    let text = format!("[nodes.a]\n{node}\n[programs.p]\nnode = \"a\"\ncommand = [\"{command}\"]\n");
    std::fs::write(place.0.join("s.toml"), text).unwrap();
    let (status, _, error) = place.said(&["sim", "s.toml", "--check"]);
    assert_eq!(status, Some(if error.is_empty() { 0 } else { 2 }), "{error}");
    error
}

#[test]
fn check_names_what_a_node_will_not_have() {
    let place = Place::new("check");
    // Whoever root starts programs as is nobody outside.
    let open = |folder: &str| {
        std::fs::create_dir_all(place.0.join(folder)).unwrap();
        let program = place.0.join(folder).join("program");
        // A root of its own has no interpreter.
        std::fs::write(&program, "\x7fELF").unwrap();
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    ["image/tmp", "image/opt", "outer", "inner"].into_iter().for_each(open);
    std::fs::create_dir_all(place.0.join("outer/inner")).unwrap();
    std::fs::remove_file(place.0.join("outer/program")).unwrap();
    assert_eq!(check(&place, "root = \"image\"", "/opt/program"), "");
    // /tmp is each node's own, whatever is its root.
    let said = check(&place, "root = \"image\"", "/tmp/program");
    assert!(said.contains("there is no '/tmp/program'"), "{said}");
    let mounts = "mounts = { \"/data\" = { from = \"outer\" }, \"/data/inner\" = { from = \"inner\" } }";
    assert_eq!(check(&place, mounts, "/data/inner/program"), "");
    let said = check(&place, mounts, "/data/program");
    assert!(said.contains("there is no '/data/program'"), "{said}");
    std::fs::write(place.0.join("image/opt/program"), "#!/bin/sh\n").unwrap();
    let said = check(&place, "root = \"image\"", "/opt/program");
    assert!(said.contains("'/opt/program' wants '/bin/sh', which is not there"), "{said}");
    std::fs::set_permissions(place.0.join("image/opt/program"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = check(&place, "root = \"image\"", "/opt/program");
    assert!(said.contains("'/opt/program' is not executable: chmod +x it"), "{said}");
    let said = check(&place, "", "no-such-program");
    assert!(said.contains("there is no 'no-such-program' in /usr/local/sbin:/usr/local/bin:/usr/sbin"), "{said}");
}

#[test]
fn diff_speaks_of_calls_where_a_program_is_the_first_to_differ() {
    let place = Place::new("diff");
    let of = |set: &str, out: &str| {
        // An interface with the name of something else.
        let text = "[nodes.a]\n[nodes.b]\n[wires.w]\nbetween = [\"a:program0\", \"b\"]\ndelay = \"1ms\"\n\
                    [programs.ping]\nnode = \"a\"\nbuiltin = \"ping\"\nto = \"b\"\ncount = 1\n\
                    [programs.echo]\nnode = \"b\"\ncommand = [\"echo\", \"one\"]\n";
        std::fs::write(place.0.join("s.toml"), text).unwrap();
        let (status, _, error) = place.said(&["sim", "s.toml", "--out", out, "--record", "full", "--set", set]);
        assert_eq!(status, Some(0), "{error}");
    };
    of("seed=1", "one");
    of("wires.w.delay=\"2ms\"", "two");
    of("programs.echo.command=[\"echo\", \"two\"]", "three");
    let (status, frames, _) = place.said(&["diff", "one", "two"]);
    assert!(status == Some(1) && frames.contains("interface program0") && !frames.contains("--calls"), "{frames}");
    let (status, words, _) = place.said(&["diff", "one", "three"]);
    assert!(status == Some(1) && words.contains("its programs") && words.contains("--calls"), "{words}");
}

/// Not in a process where another world has begun already: nodes that share their files are of the time of the first of them.
#[test]
fn a_fresh_file_of_the_hosts_has_its_own_time() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new("fresh");
    // Nodes see this folder of the host's.
    let path = std::path::PathBuf::from(format!("/var/tmp/weft-fresh-{}", std::process::id()));
    std::fs::write(&path, "fresh").unwrap();
    // Beyond the tick of the kernel's clock of file times.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let written = std::fs::metadata(&path).unwrap().mtime();
    let look = format!("stat -c '%X %Y' {}; touch /tmp/mine; stat -c '%X %Y' /tmp/mine", path.display());
    let text = format!("duration = \"1s\"\n[nodes.a]\n[programs.look]\nnode = \"a\"\ncommand = [\"sh\", \"-c\", \"{look}\"]\n");
    std::fs::write(place.0.join("w.toml"), text).unwrap();
    let (code, _, errors) = place.said(&["sim", "w.toml", "--out", "results"]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(code, Some(0), "{errors}");
    let said = std::fs::read_to_string(place.0.join("results/programs/look/stdout")).unwrap();
    let (fresh, mine) = said.trim_end().split_once('\n').unwrap();
    assert_eq!(fresh, format!("{written} {written}"), "in the second in which the world began as in any other");
    assert_ne!(mine, fresh, "what the node makes is of its own time");
}
