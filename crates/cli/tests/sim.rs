//! `weft sim` as a person uses it: what it says before a run, and of two.

mod support;

use support::Place;

/// What `--check` says of a scenario with node `a` and one program on it.
fn check(place: &Place, node: &str, command: &str) -> String {
    let text = format!("[nodes.a]\n{node}\n[programs.p]\nnode = \"a\"\ncommand = [\"{command}\"]\n");
    std::fs::write(place.0.join("s.toml"), text).unwrap();
    let (status, _, error) = place.said(&["sim", "s.toml", "--check"]);
    assert_eq!(status, Some(0), "{error}");
    error
}

#[test]
fn check_names_what_a_node_will_not_have() {
    let place = Place::new("check");
    // Whoever root starts programs as is nobody outside.
    let open = |folder: &str| {
        std::fs::create_dir_all(place.0.join(folder)).unwrap();
        std::fs::write(place.0.join(folder).join("program"), "#!/bin/sh\n").unwrap();
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
