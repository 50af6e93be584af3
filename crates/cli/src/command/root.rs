//! `weft root`

use super::read_text;
use super::sim::interrupt::Interrupt;
use crate::output;
use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;
use weft_sim::root::{self, Root};

/// Folders that are / for the nodes of a scenario (root = "DIR"), the same on every machine
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Make such a folder as a file says, from Debian's packages or from a tar file of a container; `weft help root` tells what the file may hold
    Make {
        /// What is to be in it (TOML)
        file: PathBuf,
        /// The folder [default: beside the file, called as it without its .toml]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Read everything in such a folder, and compare it with what it was when it was made. Exit status 1: it is another
    Check {
        /// The folder
        dir: PathBuf,
    },
}

/// What a file may hold, for `weft help root`.
pub const HELP: &str = "\
A file for `weft root make` says, in TOML, what is to be in a folder that is / for nodes: root = \"DIR\" in a scenario.

suite = \"bookworm\"            # Debian packages, by mmdebstrap or else by debootstrap
packages = [\"python3\", \"iproute2\", \"curl\"]   # beside what the variant has
mirror = \"URL\"                # default: what apt of this machine uses
variant = \"minbase\"           # what is there besides (default); or apt, essential, standard …
# or:
tar = \"rootfs.tar\"            # what `docker export` or `podman export` writes, compressed or not; looked for beside the file
# and in both cases:
remove = [\"/usr/share/doc\", \"/usr/share/man\"]
date = 2026-01-01T00:00:00Z   # no file is newer, wherever and whenever it is made

Device nodes and set-ID bits of files are not in it: they have no power in a node, and would have it on this machine.

The digest of everything in it (names, kinds, modes, times and contents) stands in DIR.digest.json beside the folder, and in summary.json of each run that uses
it. `weft root check DIR` reads everything again.";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    suite: Option<String>,
    #[serde(default)]
    packages: Vec<String>,
    mirror: Option<String>,
    #[serde(default = "minbase")]
    variant: String,
    tar: Option<PathBuf>,
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default = "first_of_2026")]
    date: toml::value::Datetime,
}

fn minbase() -> String {
    "minbase".to_owned()
}

fn first_of_2026() -> toml::value::Datetime {
    toml::value::Datetime { date: Some(toml::value::Date { year: 2026, month: 1, day: 1 }), time: None, offset: None }
}

/// What programs that make a system leave there, and what differs from time to time.
const REMOVED: [&str; 9] =
    ["dev", "proc", "sys", "tmp", "run", "var/cache/ldconfig/aux-cache", "var/cache/apt", "var/lib/apt/lists", "var/log"];
/// Of those, the ones that are there, and empty.
const EMPTY: [&str; 7] = ["dev", "proc", "sys", "tmp", "run", "var/log", "var/cache"];

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Make { file, out } => {
            let out = out.clone().unwrap_or_else(|| file.with_extension(""));
            ensure!(out != *file, "there is no name for the folder\nhelp: say --out DIR, or call the file NAME.toml");
            let interrupt = Interrupt::catch(false)?;
            let made = match make(file, &out, &interrupt) {
                // What was made by then is away.
                Err(_) if interrupt.is_set() => return Ok(interrupted(&interrupt)),
                made => made?,
            };
            match args.json {
                true => output::json(&json!({"root": out, "files": made.files, "bytes": made.bytes, "digest": made.digest})),
                false => output::line(&format!("{}: {} files, {} MB, {}", out.display(), made.files, made.bytes / 1_000_000, made.digest)),
            }
            Ok(ExitCode::SUCCESS)
        }
        What::Check { dir } => {
            let said = root::said(dir)
                .with_context(|| format!("{} was not made by `weft root make`: there is no digest beside it", dir.display()))?;
            let found = root::digest(dir).with_context(|| format!("cannot read everything in {}", dir.display()))?;
            let same = said.digest == found.digest;
            if args.json {
                output::json(&json!({"root": dir, "same": same, "digest": found.digest, "said": said.digest}));
            } else if same {
                output::line(&format!("{}: {}, as it was made", dir.display(), found.digest));
            } else {
                tell!("weft: {} is not what it was made as: {} and not {}", dir.display(), found.digest, said.digest);
            }
            Ok(ExitCode::from(u8::from(!same)))
        }
    }
}

fn interrupted(interrupt: &Interrupt) -> ExitCode {
    tell!("weft: interrupted");
    interrupt.cut();
    interrupt.status().unwrap_or(ExitCode::FAILURE)
}

fn make(file: &Path, out: &Path, interrupt: &Interrupt) -> anyhow::Result<Root> {
    let text = read_text(file, "root")?;
    let plan: Plan = toml::from_str(&text).map_err(|error| {
        let (what, help) = weft_node::explain(error.message(), "root");
        weft_node::locate(&file.display().to_string(), &text, error.span().unwrap_or(0..0), &what, &help)
    })?;
    ensure!(
        plan.suite.is_some() != plan.tar.is_some(),
        "{}: it must have one of suite and tar\nhelp: `weft help root` shows an example",
        file.display()
    );
    ensure!(!out.exists(), "{} is there already\nhelp: take it away, or say --out DIR", out.display());
    let epoch =
        weft_sim::scenario::point_in_time(&plan.date).context("date is no point in time\nhelp: write it as 2026-01-01T00:00:00Z")?;
    // It gets its name when it is whole.
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stage = tempfile::Builder::new()
        .prefix(".weft-root-")
        .tempdir_in(parent)
        .with_context(|| format!("cannot write into {}", parent.display()))?;
    let folder = stage.path().join("root");
    std::fs::create_dir(&folder)?;
    match (&plan.suite, &plan.tar) {
        (Some(suite), _) => debian(&plan, suite, &folder, epoch.as_secs(), interrupt)?,
        (None, Some(tar)) => unpack(&file.parent().unwrap_or(Path::new("")).join(tar), &folder, interrupt)?,
        (None, None) => {}
    }
    clean(&folder, &plan.remove)?;
    root::disarm(&folder).context("cannot take away device nodes and set-ID bits")?;
    root::settle(&folder, epoch.as_secs()).context("cannot set the times of its files")?;
    let made = root::digest(&folder).context("cannot read what was made")?;
    ensure!(!interrupt.is_set(), "interrupted");
    std::fs::rename(&folder, out).with_context(|| format!("cannot give it its name, {}", out.display()))?;
    root::say(out, &made).context("cannot write its digest")?;
    Ok(made)
}

/// The first of these programs that is installed.
fn installed<'a>(programs: &[&'a str]) -> Option<&'a str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &&&str| {
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|folder| folder.join(program).is_file())
    };
    programs.iter().find(is_there).copied()
}

fn debian(plan: &Plan, suite: &str, folder: &Path, epoch: u64, interrupt: &Interrupt) -> anyhow::Result<()> {
    let Some(tool) = installed(&["mmdebstrap", "debootstrap"]) else {
        bail!(
            "neither mmdebstrap nor debootstrap is installed\nhelp: apt install mmdebstrap; or write tar = \"FILE\" for what `docker export` writes"
        );
    };
    let is_word = |word: &&String| !word.is_empty() && !word.starts_with('-') && !word.contains([',', ' ']);
    if let Some(wrong) = plan.packages.iter().find(|word| !is_word(word)) {
        bail!("'{wrong}' is no name of a package");
    }
    let mut command = Command::new(tool);
    command.env("SOURCE_DATE_EPOCH", epoch.to_string()).arg(format!("--variant={}", plan.variant));
    if !plan.packages.is_empty() {
        command.arg(format!("--include={}", plan.packages.join(",")));
    }
    // As a user mmdebstrap makes files that are the user's no more; what tar unpacks is. Root's debootstrap knows no tar.
    let tar = folder.with_extension("tar");
    let made = if tool == "mmdebstrap" { &tar } else { folder };
    command.arg(suite).arg(made).args(&plan.mirror);
    tell!("weft: {tool} makes {suite} with {} packages", plan.packages.len());
    // What it says is for people, and standard output is for what comes of it.
    let done = ended(command.stdout(std::io::stderr()), interrupt).with_context(|| format!("cannot run {tool}"))?;
    ensure!(
        done.success(),
        "{tool} failed: {done}\nhelp: what it said stands above; as a user mmdebstrap needs user namespaces, the package uidmap and lines in /etc/subuid and /etc/subgid"
    );
    if made == tar {
        unpack(&tar, folder, interrupt)?;
        std::fs::remove_file(&tar)?;
    }
    Ok(())
}

/// Runs a program to its end, or until somebody interrupts: then it is told to end, too.
fn ended(command: &mut Command, interrupt: &Interrupt) -> std::io::Result<ExitStatus> {
    const LOOK_AGAIN: Duration = Duration::from_millis(20);
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupt.is_set() && !std::mem::replace(&mut is_told, true) {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            pid.map_or(Ok(()), |pid| kill_process(pid, Signal::TERM))?;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn unpack(tar: &Path, folder: &Path, interrupt: &Interrupt) -> anyhow::Result<()> {
    ensure!(tar.is_file(), "there is no file {}", tar.display());
    let mut command = Command::new("tar");
    // A colon in the name is no other machine.
    command.args(["--extract", "--force-local", "--file"]).arg(tar).arg("--directory").arg(folder);
    command.args(["--no-same-owner", "--same-permissions", "--delay-directory-restore", "--exclude=dev/*", "--exclude=./dev/*"]);
    let done = ended(&mut command, interrupt).context("cannot run tar")?;
    ensure!(done.success(), "tar cannot unpack {}: {done}", tar.display());
    Ok(())
}

/// Takes away what is not wanted, and what is another every time.
fn clean(folder: &Path, remove: &[String]) -> anyhow::Result<()> {
    for path in remove.iter().map(|path| path.trim_start_matches('/')).chain(REMOVED) {
        let inside = !path.is_empty() && Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        ensure!(inside, "remove: '{path}' is no path in the folder");
        take_away(folder, Path::new(path)).with_context(|| format!("cannot remove {path}"))?;
    }
    for path in EMPTY {
        // A link of that name is the system's own.
        let Some(place) = inside(folder, Path::new(path)) else { continue };
        if place.symlink_metadata().is_err() && place.parent().is_some_and(|parent| parent.is_dir()) {
            std::fs::create_dir(&place)?;
        }
    }
    let machine = inside(folder, Path::new("etc/machine-id"));
    if let Some(machine) = machine.filter(|place| place.symlink_metadata().is_ok_and(|found| found.is_file())) {
        // Not written into: another name of it may be elsewhere.
        std::fs::remove_file(&machine)?;
        std::fs::write(machine, "")?;
    }
    Ok(())
}

/// The place of a path in the folder; none: a link on the way leads elsewhere, out of the folder as seen from here.
fn inside(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut place = folder.to_owned();
    for part in path {
        if place.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            return None;
        }
        place.push(part);
    }
    Some(place)
}

/// Without following a link on the way out of the folder.
fn take_away(folder: &Path, path: &Path) -> std::io::Result<()> {
    let Some(place) = inside(folder, path) else { return Ok(()) };
    match place.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(place),
        Ok(_) => std::fs::remove_file(place),
    }
}
