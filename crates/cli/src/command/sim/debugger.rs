//! `--gdb`: a program of the scenario under gdb, while virtual time stands still.
//!
//! The program has been loaded and has not made its first step. gdb attaches to it from outside, as to any process; the world goes on when gdb lets the
//! program go on, and stands still while it does not: nobody loses patience with a program that is looked at.

use anyhow::Context as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weft_sim::plan::Debugged;
use weft_sim::process::Held;
use weft_sim::{Plan, Scenario};

/// What gdb can ask for.
const HELPERS: &str = include_str!("../../../../../tools/gdb/program.py");
/// How often one looks whether gdb has the program.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// `e_type` of an ELF file: position-independent.
const ET_DYN: u16 = 3;

/// gdb and the file of commands that it was given.
#[derive(Debug, Default)]
struct Session {
    gdb: Option<Child>,
    script: Option<PathBuf>,
}

/// The debuggers of a run.
#[derive(Debug, Default, Clone)]
pub(super) struct Debugger(Arc<Mutex<Session>>);

impl Debugger {
    /// Waits until gdb has ended: the terminal is its own.
    pub(super) fn finish(&self) {
        let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut gdb) = session.gdb.take() {
            let _ = gdb.wait();
        }
        if let Some(script) = session.script.take() {
            let _ = std::fs::remove_file(script);
        }
    }
}

/// Puts the program that `--gdb NODE/PROGRAM` names under gdb. `script`: commands of gdb, after which it ends.
pub(super) fn watch(plan: &mut Plan, scenario: &Scenario, name: &str, script: Option<&Path>, json: bool) -> anyhow::Result<Debugger> {
    let found = name.split_once('/').and_then(|(node, program)| {
        let fits = |one: &weft_sim::plan::ProgramPlan| {
            scenario.plan.nodes[one.node].name == node && (one.name == program || one.name == format!("{program}@{node}"))
        };
        scenario.plan.programs.iter().position(fits)
    });
    let is_process = |number: &usize| matches!(scenario.plan.programs[*number].run, weft_sim::plan::Run::Process(_));
    let Some(program) = found.filter(is_process) else {
        let known: Vec<String> = (0..scenario.plan.programs.len())
            .filter(is_process)
            .map(|number| &scenario.plan.programs[number])
            .map(|one| format!("{}/{}", scenario.plan.nodes[one.node].name, one.name))
            .collect();
        let known = if known.is_empty() { "the scenario starts none".to_owned() } else { known.join(", ") };
        anyhow::bail!("--gdb: no unmodified program '{name}'\nhelp: name one as NODE/PROGRAM: {known}");
    };
    let script = script.map(|path| std::fs::canonicalize(path).with_context(|| format!("cannot read {}", path.display()))).transpose()?;
    let debugger = Debugger::default();
    let session = Arc::clone(&debugger.0);
    let attach = move |held: &Held| {
        if let Err(error) = start(&session, held, script.as_deref(), json) {
            tell!("weft: the program runs without gdb: {error:#}");
        }
    };
    plan.debugged = Some(Debugged { program, attach: Arc::new(attach) });
    Ok(debugger)
}

/// Starts gdb and waits until it holds the program.
fn start(session: &Mutex<Session>, held: &Held, script: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let commands = std::env::temp_dir().join(format!("weft-gdb-{}-{}", std::process::id(), held.pid));
    let mut file = std::fs::File::create(&commands).with_context(|| format!("cannot write {}", commands.display()))?;
    file.write_all(text(held)?.as_bytes())?;
    let mut gdb = Command::new("gdb");
    gdb.args(["-quiet", "-iex", "set auto-load safe-path /"]).env("WEFT_GDB_PROGRAM", &held.executable);
    if script.is_some() {
        gdb.arg("-batch");
    }
    gdb.arg("-x").arg(&commands);
    if let Some(script) = script {
        gdb.arg("-x").arg(script);
    }
    if json {
        // Standard output is the summary's.
        gdb.stdout(std::io::stderr());
    }
    let mut child = gdb.spawn().context("cannot start gdb: is it installed?")?;
    let holds = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", held.pid)).unwrap_or_default();
        status.lines().filter_map(|line| line.strip_prefix("TracerPid:")).any(|pid| pid.trim() != "0")
    };
    while !holds() {
        if let Some(status) = child.try_wait()? {
            let _ = std::fs::remove_file(&commands);
            anyhow::bail!("gdb ended before it had the program ({status}): may it attach to processes (kernel.yama.ptrace_scope)?");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    *session.lock().unwrap_or_else(PoisonError::into_inner) = Session { gdb: Some(child), script: Some(commands) };
    Ok(())
}

/// What gdb does first.
fn text(held: &Held) -> anyhow::Result<String> {
    let program = format!("/proc/{}/root{}", held.pid, held.executable.display());
    let head = std::fs::read(&program).with_context(|| format!("cannot read {program}"))?;
    let kind = head.get(16..18).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes);
    let place = if kind == Some(ET_DYN) { format!(" -o {:#x}", held.base) } else { String::new() };
    // Calls of the program are SIGSYS, the time stamp counter and bad addresses in calls SIGSEGV: both are the loader's.
    Ok(format!(
        "set confirm off\nset width 0\nhandle SIGSYS SIGSEGV nostop noprint pass\npython\n{HELPERS}\nend\nattach {}\nadd-symbol-file {program}{place}\nset confirm on\n",
        held.pid
    ))
}
