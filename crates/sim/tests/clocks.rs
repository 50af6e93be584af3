//! Clocks of nodes that are wrong.

use crate::support;

use std::time::Duration;
use support::run;
use weft_core::Instant;
use weft_sim::Scenario;
use weft_sim::plan::ClockPlan;

const ONE: i128 = 1 << 60;

fn scenario(text: &str) -> Result<Scenario, String> {
    Scenario::parse("clocks.toml", text, &[], &|_| Err("no files here".to_owned())).map_err(|error| error.to_string())
}

fn clock_of(clock: &str) -> Result<ClockPlan, String> {
    Ok(scenario(&format!("[nodes.a]\nclock = {clock}\n"))?.plan.nodes[0].clock)
}

/// The parts of a rate, rounded up.
fn parts(trillionths: i128) -> i64 {
    -(-trillionths * ONE).div_euclid(1_000_000_000_000) as i64
}

#[test]
fn offsets_and_drifts_are_read_with_their_signs() {
    for (text, offset_ns, drift) in [
        ("{}", 0, 0),
        ("{ offset = \"250ms\", drift = \"40ppm\" }", 250_000_000, parts(40_000_000)),
        ("{ offset = \"-1.5s\", drift = \"-40ppm\" }", -1_500_000_000, parts(-40_000_000)),
        ("{ offset = \"+3ns\", drift = \"+.5ppm\" }", 3, parts(500_000)),
        ("{ offset = \"-87600h\", drift = \"5 ppb\" }", -315_360_000_000_000_000, parts(5_000)),
        ("{ drift = \"100000ppm\" }", 0, parts(100_000_000_000)),
        ("{ drift = \"-100000.000000000ppm\" }", 0, parts(-100_000_000_000)),
        ("{ drift = \"0.000001ppm\" }", 0, parts(1)),
    ] {
        assert_eq!(clock_of(text), Ok(ClockPlan { offset_ns, drift }), "{text}");
    }
}

#[test]
fn what_is_no_clock_is_told_with_its_place() {
    for (text, says) in [
        ("{ offset = \"soon\" }", "clocks.toml:2:20"),
        ("{ offset = \"--1s\" }", "is no time span"),
        ("{ offset = \"-+1s\" }", "is no time span"),
        ("{ offset = \"5\" }", "needs a unit"),
        ("{ offset = 5 }", "write it as offset = \"250ms\""),
        ("{ offset = \"87601h\" }", "no clock is wrong by 87601h"),
        ("{ drift = \"40\" }", "'40' is no drift"),
        ("{ drift = 40 }", "write it as drift = \"40ppm\""),
        ("{ drift = \"ppm\" }", "'ppm' is no drift"),
        ("{ drift = \".ppm\" }", "'.ppm' is no drift"),
        ("{ drift = \"1e3ppm\" }", "'1e3ppm' is no drift"),
        ("{ drift = \"--1ppm\" }", "is no drift"),
        ("{ drift = \"1.0000000001ppm\" }", "is no drift"),
        ("{ drift = \"99999999999999999999999999ppm\" }", "is no drift"),
        ("{ drift = \"100000.1ppm\" }", "no crystal is wrong by 100000.1ppm"),
        ("{ drift = \"-100001ppm\" }", "no crystal is wrong by -100001ppm"),
        ("{ rate = \"1ppm\" }", "rate"),
        ("\"40ppm\"", "clock = { offset = \"250ms\", drift = \"40ppm\" }"),
    ] {
        let said = clock_of(text).expect_err(text);
        assert!(said.contains(says) && said.contains("clocks.toml:2:"), "{text}: {said}");
    }
}

#[test]
fn the_top_is_for_all_and_a_node_goes_before_it_key_by_key() {
    let text = "clock = { offset = \"1s\", drift = \"7ppm\" }\n[nodes.a]\n[nodes.b]\nclock = { offset = \"2s\" }\n[nodes.c]\nclock = { drift = \"0ppm\" }\n";
    let clocks: Vec<ClockPlan> = scenario(text).expect("a scenario").plan.nodes.iter().map(|node| node.clock).collect();
    let seven = parts(7_000_000);
    let all = [(1_000_000_000, seven), (2_000_000_000, seven), (1_000_000_000, 0)];
    assert_eq!(clocks, all.map(|(offset_ns, drift)| ClockPlan { offset_ns, drift }));
    let error = |text: &str| scenario(text).expect_err(text);
    assert!(error("clock = { drift = \"1s\" }\n[nodes.s]\nkind = \"switch\"\n").contains("is no drift"));
    assert!(error("[nodes.l]\nkind = \"linux\"\nclock = { drift = \"1ppm\" }\n").contains("takes no clock"));
    assert!(error("start = 1985-01-01T00:00:00Z\n[nodes.a]\nclock = { offset = \"-80000h\" }\n").contains("before 1980"));
}

#[test]
fn a_battery_keeps_the_clock_of_a_machine_that_is_off() {
    let clock = ClockPlan { offset_ns: -5, drift: parts(1_000_000_000) };
    let start = Duration::from_secs(1000);
    assert_eq!(clock.epoch_ns(start, Instant::ZERO), 999_999_999_995);
    assert_eq!(clock.epoch_ns(start, Instant::ZERO + Duration::from_secs(60)), 1_000_059_999_995);
    let extreme = ClockPlan { offset_ns: i64::MIN, drift: i64::MIN };
    assert_eq!(extreme.epoch_ns(Duration::MAX, Instant::FAR_FUTURE), i64::MAX as u64);
    assert_eq!(extreme.epoch_ns(Duration::ZERO, Instant::FAR_FUTURE), 0);
}

/// What two nodes say of their clocks when 1000 s are over.
#[test]
fn clocks_show_what_was_planted() {
    let mut text = "[nodes.a]\n[nodes.b]\nclock = { offset = \"-3s\", drift = \"2500ppm\" }\n".to_owned();
    for node in ["a", "b"] {
        text += &format!("[programs.{node}]\nnode = \"{node}\"\nstart = \"1000s\"\ncommand = [\"date\", \"+%s\"]\n");
    }
    let (world, end) = run(scenario(&text).expect("a scenario").plan, 1);
    assert_eq!(end.failures, Vec::<String>::new());
    let said: Vec<String> = (0..2).map(|number| support::output(&world, number)).collect();
    assert_eq!(said, ["1893457000\n", "1893456999\n"]);
}
