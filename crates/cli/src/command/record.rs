//! `weft record`

use super::Target;
use anyhow::Context as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_host::control::Client;
use weft_sim::result::{Sample, of_samples};

/// So many connections are remembered at most: then every second time is forgotten, and the next are twice as far apart.
const ROWS_MAX: usize = 200_000;

/// Record Multipath TCP over time, until interrupted or until the stack is gone: the series and the picture that `weft sim` leaves.
///
/// DIR/series/subflows.csv has a line a subflow and time; DIR/pictures/mptcp.svg, mptcp.png and mptcp.pdf show what each subflow has carried and how far
/// each connection is, with the moments at which interfaces went down and came up. `weft sim` writes the same by itself, with `sample`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder for what is recorded
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How often the stack is asked
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = every)]
    every: Duration,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = every)]
    duration: Option<Duration>,
    #[command(flatten)]
    target: Target,
}

fn every(text: &str) -> Result<Duration, String> {
    let time = weft_core::parameter::parse_duration(text)?;
    if time < weft_core::Duration::from_millis(1) {
        return Err("shorter than 1ms, in which no stack has answered".to_owned());
    }
    Ok(Duration::from_nanos(time.as_nanos() as u64))
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut client = args.target.connect()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for an interrupt")?;
    }
    let mut recording = Recording { every: args.every, ..Recording::default() };
    // What cannot be asked at all is an error; later it only says that the stack is gone.
    recording.look(&mut client)?;
    let ends = args.duration.map(|time| recording.begin + time);
    while !stop.load(Ordering::Relaxed) && ends.is_none_or(|ends| Instant::now() < ends) {
        std::thread::sleep(recording.every);
        if recording.look(&mut client).is_err() {
            break;
        }
    }
    recording.write(&args.out, args.target.node.as_deref().unwrap_or(""))
}

#[derive(Debug)]
struct Recording {
    begin: Instant,
    every: Duration,
    /// Connections, and when they were so, in nanoseconds.
    rows: Vec<(u64, Value)>,
    /// Interfaces, and whether they are up.
    interfaces: BTreeMap<String, bool>,
    marks: Vec<(f64, String)>,
}

impl Default for Recording {
    fn default() -> Recording {
        Recording { begin: Instant::now(), every: Duration::ZERO, rows: Vec::new(), interfaces: BTreeMap::new(), marks: Vec::new() }
    }
}

impl Recording {
    fn look(&mut self, client: &mut Client) -> anyhow::Result<()> {
        let connections = client.node(weft_core::command::read(&["show", "mptcp"])?)?;
        let interfaces = client.node(weft_core::command::read(&["show", "interfaces"])?)?;
        self.note(self.begin.elapsed(), connections, &interfaces);
        Ok(())
    }

    fn note(&mut self, at: Duration, connections: Value, interfaces: &Value) {
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        if let Value::Array(rows) = connections {
            self.rows.extend(rows.into_iter().map(|row| (nanos, row)));
        }
        for row in interfaces.as_array().into_iter().flatten() {
            let (Some(name), Some(up)) = (row["name"].as_str(), row["up"].as_bool()) else { continue };
            let before = self.interfaces.insert(name.to_owned(), up);
            if before.is_some_and(|before| before != up) {
                self.marks.push((at.as_secs_f64(), format!("{name} {}", if up { "up" } else { "down" })));
            }
        }
        if self.rows.len() > ROWS_MAX {
            self.thin_out();
        }
    }

    /// Every second time is forgotten.
    fn thin_out(&mut self) {
        let (mut last, mut keeps) = (None, false);
        self.rows.retain(|(at, _)| {
            keeps = if last.replace(*at) == Some(*at) { keeps } else { !keeps };
            keeps
        });
        self.every *= 2;
    }

    fn write(&self, out: &Path, node: &str) -> anyhow::Result<ExitCode> {
        let sample = |(nanos, row)| Sample { at: weft_core::Instant::from_nanos(nanos), node, row };
        let samples: Vec<Sample<'_>> = self.rows.iter().map(|(nanos, row)| sample((*nanos, row))).collect();
        let Some((csv, figure)) = of_samples(&samples, &self.marks) else {
            anyhow::bail!(
                "no connection of Multipath TCP carried data in {:.1} s\nhelp: `weft show mptcp` lists those that there are; a stack has it by --mptcp",
                self.begin.elapsed().as_secs_f64()
            );
        };
        let (series, pictures) = (out.join("series"), out.join("pictures"));
        let write = || {
            [&series, &pictures].into_iter().try_for_each(std::fs::create_dir_all)?;
            std::fs::write(series.join("subflows.csv"), csv)?;
            figure.write(&pictures, "mptcp")
        };
        write().with_context(|| format!("{} and {} cannot be written", series.display(), pictures.display()))?;
        crate::output::line(&format!("{} and {}", out.join("series/subflows.csv").display(), out.join("pictures/mptcp.svg").display()));
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn connection(sent: u64) -> Value {
        let path = |local: &str| json!({"local": local, "remote": "10.0.0.2:80", "use": "active", "sent_bytes": sent, "received_bytes": 0});
        json!([{"token": 7, "sent_bytes": 2 * sent, "paths": [path("10.0.0.1:1"), path("10.1.0.1:2")]}])
    }

    #[test]
    fn it_has_a_line_a_subflow_and_time_and_marks_what_interfaces_do() {
        let mut recording = Recording::default();
        for at in 0..4 {
            let interfaces = json!([{"name": "wifi0", "up": at != 2}, {"name": "lte0", "up": true}]);
            recording.note(Duration::from_millis(50 * at), connection(at * 1_000_000), &interfaces);
        }
        let said: Vec<&str> = recording.marks.iter().map(|(_, what)| what.as_str()).collect();
        assert_eq!(said, ["wifi0 down", "wifi0 up"]);
        let folder = std::env::temp_dir().join(format!("weft-record-{}", std::process::id()));
        recording.write(&folder, "").unwrap();
        let csv = std::fs::read_to_string(folder.join("series/subflows.csv")).unwrap();
        let svg = std::fs::read_to_string(folder.join("pictures/mptcp.svg")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(csv.lines().count(), 1 + 4 * 2);
        assert!(svg.contains("wifi0 down") && svg.contains("10.1.0.1:2"), "{svg}");
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut recording = Recording { every: Duration::from_millis(50), ..Recording::default() };
        for at in 0..=ROWS_MAX as u64 {
            recording.note(Duration::from_millis(at), connection(at), &json!([]));
        }
        assert!(recording.rows.len() <= ROWS_MAX / 2 + 1 && recording.every == Duration::from_millis(100));
    }

    #[test]
    fn without_a_connection_it_says_so() {
        let why = Recording::default().write(Path::new("/nowhere"), "").unwrap_err().to_string();
        assert!(why.contains("no connection of Multipath TCP"), "{why}");
    }
}
