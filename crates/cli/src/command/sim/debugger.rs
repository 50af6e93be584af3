//! `--gdb`: a program of the scenario, or the kernel of a node, under gdb, while virtual time stands still.
//!
//! The program has been loaded and has not made its first step. gdb attaches to it from outside, as to any process; the world goes on when gdb lets the
//! program go on, and stands still while it does not: nobody loses patience with a program that is looked at.

use anyhow::Context as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weft_sim::Plan;
use weft_sim::plan::{Debugged, NodeKind, ProgramPlan, Run, Watched};
use weft_sim::process::Held;

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

/// Puts the program that `--gdb NODE/PROGRAM` names under gdb, or the kernel of a node (`--gdb NODE`). `script`: commands of gdb, after which it ends.
pub(super) fn watch(plan: &mut Plan, name: &str, script: Option<&Path>, json: bool) -> anyhow::Result<Debugger> {
    let what = watched(plan, name)?;
    let script = script.map(|path| std::fs::canonicalize(path).with_context(|| format!("cannot read {}", path.display()))).transpose()?;
    let debugger = Debugger::default();
    let session = Arc::clone(&debugger.0);
    let attach = move |held: &Held| {
        let commands = match what {
            Watched::Program(_) => of_program(held),
            Watched::Kernel(_) => Ok(of_kernel(held)),
        };
        if let Err(error) = commands.and_then(|commands| start(&session, held, &commands, script.as_deref(), json)) {
            tell!("weft: it runs without gdb: {error:#}");
        }
    };
    plan.debugged = Some(Debugged { what, attach: Arc::new(attach) });
    Ok(debugger)
}

/// What `NODE/PROGRAM` or `NODE` names.
fn watched(plan: &Plan, name: &str) -> anyhow::Result<Watched> {
    let node_of = |program: &ProgramPlan| plan.nodes[program.node].name.as_str();
    let is_process =
        |program: &ProgramPlan| matches!(program.run, Run::Process(_)) && matches!(plan.nodes[program.node].kind, NodeKind::Host(_));
    if let Some((node, word)) = name.split_once('/') {
        let fits = |one: &ProgramPlan| node_of(one) == node && (one.name == word || one.name == format!("{word}@{node}"));
        if let Some(program) = plan.programs.iter().position(|one| is_process(one) && fits(one)) {
            return Ok(Watched::Program(program));
        }
    } else if let Some(place) = plan.nodes.iter().position(|node| node.name == name && matches!(node.kind, NodeKind::Guest(_))) {
        if let NodeKind::Guest(guest) = &plan.nodes[place].kind
            && !guest.kernel.contains("+debug")
        {
            let version = guest.kernel.split('+').next().unwrap_or_default();
            tell!(
                "weft: kernel {} has functions, but no lines and variables: `weft kernel build --version {version} --debug` makes one that has, kernel = \"{version}+debug\"",
                guest.kernel
            );
        }
        return Ok(Watched::Kernel(place));
    }
    let programs = plan.programs.iter().filter(|one| is_process(one)).map(|one| format!("{}/{}", node_of(one), one.name));
    let kernels = plan.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Guest(_))).map(|node| node.name.clone());
    let known: Vec<String> = programs.chain(kernels).collect();
    let known = if known.is_empty() { "the scenario starts none".to_owned() } else { known.join(", ") };
    anyhow::bail!(
        "--gdb: no unmodified program and no kernel '{name}'\nhelp: name one as NODE/PROGRAM, or the NODE of a Linux kernel: {known}"
    );
}

/// Starts gdb and waits until it holds the program.
fn start(session: &Mutex<Session>, held: &Held, text: &str, script: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let commands = std::env::temp_dir().join(format!("weft-gdb-{}-{}", std::process::id(), held.pid));
    let mut file = std::fs::File::create(&commands).with_context(|| format!("cannot write {}", commands.display()))?;
    file.write_all(text.as_bytes())?;
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
            anyhow::bail!("gdb ended before it had the process ({status}): may it attach to processes (kernel.yama.ptrace_scope)?");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    *session.lock().unwrap_or_else(PoisonError::into_inner) = Session { gdb: Some(child), script: Some(commands) };
    Ok(())
}

/// What gdb does first with a kernel: a process that has its pages, its clock and its interrupts by signals, and that traces those of its programs.
fn of_kernel(held: &Held) -> String {
    let binary = held.executable.display();
    let folder = held.executable.parent().unwrap_or(Path::new("/")).display();
    format!(
        "set confirm off\nset width 0\nset sysroot /\nfile {binary}\ndirectory {folder}\nhandle SIGSEGV SIGUSR1 SIGUSR2 SIGALRM SIGIO SIGCHLD SIGWINCH SIGPROF SIGVTALRM nostop noprint pass\nattach {}\nset confirm on\n",
        held.pid
    )
}

/// What gdb does first with a program.
fn of_program(held: &Held) -> anyhow::Result<String> {
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
