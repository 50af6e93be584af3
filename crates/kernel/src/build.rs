//! Building kernels from Debian's sources.
//!
//! The same sources, patches, configuration and compiler give the same binary to the byte, wherever it is built: its hash is part of the hash of the worlds that
//! it runs in. What a kernel is keyed by is all of these.

use crate::held::{Held, sweep};
use crate::store::{self, Kernel};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Where Debian's packages put them.
const SOURCES: &str = "/usr/src";
const BASE: &str = include_str!("../../../kernel/config/base.config");
const INIT: &str = include_str!("../../../kernel/init/init.c");
/// A version of Linux that there are patches for.
struct Version {
    /// As Debian names its sources.
    name: &'static str,
    /// Our changes, in order; kernel/patches has the reason of each in front of it.
    patches: &'static [&'static str],
}

macro_rules! patches {
    ($($file:literal),*) => { &[$(include_str!(concat!("../../../kernel/patches/", $file, ".patch"))),*] };
}

/// Those that there are. One version's patch that fits another is the other's, too.
const VERSIONS: [Version; 2] = [
    Version {
        name: "6.12",
        patches: patches!(
            "6.12/01-hz",
            "6.12/02-seed",
            "6.12/03-xstate",
            "6.12/04-call-cost",
            "6.12/05-relative",
            "6.12/06-owner",
            "6.12/07-exitkill",
            "6.12/08-counts",
            "6.12/09-shared-time",
            "6.12/10-registers"
        ),
    },
    Version {
        name: "6.1",
        patches: patches!(
            "6.12/01-hz",
            "6.12/02-seed",
            "6.12/03-xstate",
            "6.12/04-call-cost",
            "6.1/06-owner",
            "6.1/07-exitkill",
            "6.12/08-counts",
            "6.12/10-registers"
        ),
    },
];

fn version(name: &str) -> Result<&'static Version, BuildError> {
    VERSIONS.iter().find(|version| version.name == name).ok_or_else(|| BuildError::Version(name.to_owned()))
}

/// Versions that there are patches for: as Debian names its sources.
pub fn versions() -> Vec<&'static str> {
    VERSIONS.iter().map(|version| version.name).collect()
}

/// The folders of builds, with the number of the process behind it.
const WORK_PREFIX: &str = ".build-";
/// With less room than this whatever failed has probably failed for that.
const ROOM_LEFT_MIN: u64 = 16 << 20;
/// How often one looks whether a build was interrupted.
const LOOK_PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// What lies in the kernel's own memory when it boots.
const INITRAMFS: &str = "dir /dev 0755 0 0\nnod /dev/console 0600 0 0 c 5 1\nnod /dev/null 0666 0 0 c 1 3\nnod /dev/kmsg 0600 0 0 c 1 11\nfile /init weft-init 0755 0 0\n";
/// Programs that a build needs, and the Debian packages that have them.
const NEEDED: [(&str, &str); 7] =
    [("make", "make"), ("gcc", "gcc"), ("flex", "flex"), ("bison", "bison"), ("bc", "bc"), ("patch", "patch"), ("xz", "xz-utils")];
/// Lines of a failed step that are told.
const LINES_TOLD: usize = 25;

/// What to build.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Of [`versions`].
    pub version: String,
    /// Counts which lines were executed (gcov).
    pub coverage: bool,
    /// With what a debugger needs.
    pub debug: bool,
    /// Files of `CONFIG_…=…` lines over the usual configuration.
    pub fragments: Vec<PathBuf>,
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Something is not installed.
    #[error("a kernel cannot be built without {what}\nhelp: as root: apt-get install {packages}")]
    Missing {
        /// What.
        what: String,
        /// Debian's packages that have it.
        packages: String,
    },
    /// Nobody has patches for it.
    #[error("there is no kernel {0} that weft can build\nhelp: there are: {known}", known = versions().join(", "))]
    Version(String),
    /// The configuration does not come out as it was written.
    #[error(
        "the configuration does not take {0}\nhelp: the option needs another, or this version does not have it (make ARCH=um menuconfig shows what it depends on)"
    )]
    Config(String),
    /// It was interrupted.
    #[error("the build was interrupted: nothing of it is left")]
    Interrupted,
    /// A step of the build failed.
    #[error("{step} failed:\n{words}")]
    Step {
        /// Which.
        step: String,
        /// The end of what it said.
        words: String,
    },
    /// The disk is full.
    #[error("{step} failed, and {folder} has no room left: {words}\nhelp: a build needs about 2 GB there; WEFT_KERNELS=DIR keeps kernels in another folder", folder = folder.display())]
    Full {
        /// Which step.
        step: String,
        /// Where.
        folder: PathBuf,
        /// The end of what it said.
        words: String,
    },
    /// Files.
    #[error("{what}: {error}")]
    Files {
        /// What was to be done.
        what: String,
        /// Why it was not.
        error: io::Error,
    },
}

fn files(what: impl Into<String>) -> impl FnOnce(io::Error) -> BuildError {
    let what = what.into();
    |error| BuildError::Files { what, error }
}

/// The folder of a build, gone when it is not wanted any more.
struct Work(Held);

impl Work {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // A kernel that is kept with its sources has taken it over.
        if let Err(error) = std::fs::remove_dir_all(self.path())
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove {}: {error}", self.path().display());
        }
    }
}

/// Who follows a build.
pub trait Watch {
    /// What is done now, a line.
    fn progress(&mut self, line: &str);
    /// It is to end, and to leave nothing.
    fn is_interrupted(&self) -> bool;
}

/// Builds a kernel, or finds it: the same was built before.
///
/// # Errors
/// What is missing or went wrong, and what to do.
pub fn build(options: &Options, watch: &mut dyn Watch) -> Result<Kernel, BuildError> {
    let patches = version(&options.version)?.patches;
    let source = Path::new(SOURCES).join(format!("linux-source-{}.tar.xz", options.version));
    installed(&source, &options.version)?;
    let config = configuration(options)?;
    watch.progress("looks whether it was built before");
    let key = key(&source, &config, patches)?;
    let folder = store::folder().map_err(files("the user's cache"))?;
    let known = store::list().map_err(files("the kernels that there are"))?;
    if let Some(known) = known.into_iter().find(|known| known.key == key) {
        return Ok(known);
    }
    // Builds that were killed left their folders.
    sweep(&folder, WORK_PREFIX).map_err(files(format!("cannot remove what an earlier build left in {}", folder.display())))?;
    let held = std::fs::create_dir_all(&folder).and_then(|()| Held::new(&folder, WORK_PREFIX, 0o755));
    let work = Work(held.map_err(files(format!("cannot make a folder in {}", folder.display())))?);
    // While what it has made is still there.
    made(options, &source, &config, patches, (&work, &folder, key), watch).map_err(|error| full(error, &folder))
}

/// What failed for want of room says so.
fn full(error: BuildError, folder: &Path) -> BuildError {
    let room = rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    match error {
        BuildError::Step { step, words } if room < ROOM_LEFT_MIN => BuildError::Full { step, folder: folder.to_owned(), words },
        other => other,
    }
}

/// Unpacks, changes, compiles and keeps one.
fn made(
    options: &Options,
    source: &Path,
    config: &str,
    patches: &[&str],
    (work, folder, key): (&Work, &Path, String),
    watch: &mut dyn Watch,
) -> Result<Kernel, BuildError> {
    watch.progress(&format!("unpacks {}", source.display()));
    let mut command = Command::new("tar");
    run(command.arg("-xJf").arg(source).args(["--strip-components=1", "-C"]).arg(work.path()), "tar", watch, &mut |_| None)?;
    let release = release(work.path())?;
    for patch in patches {
        let file = work.path().join("weft.patch");
        std::fs::write(&file, patch).map_err(files("a patch"))?;
        let mut command = Command::new("patch");
        command.args(["-p1", "--forward", "--input", "weft.patch"]).current_dir(work.path());
        run(&mut command, "patch", watch, &mut |_| None)?;
    }
    configure(work.path(), config, watch)?;
    make_init(work.path(), watch)?;
    compile(work.path(), options.coverage, watch)?;
    let binary = std::fs::read(work.path().join("linux")).map_err(files("the kernel"))?;
    let name = name(options);
    let hash = format!("{:032x}", xxh3_128(&binary));
    let to = folder.join(format!("{name}-{key}"));
    let kernel = Kernel { name, release, key, hash, folder: to.clone() };
    // A debugger wants the sources, and coverage what the compiler has noted beside them.
    if options.debug || options.coverage {
        std::fs::rename(work.path(), &to).map_err(files(format!("cannot make {}", to.display())))?;
    } else {
        std::fs::create_dir_all(&to).map_err(files(format!("cannot make {}", to.display())))?;
        std::fs::rename(work.path().join("linux"), kernel.binary()).map_err(files("the kernel"))?;
    }
    kernel.save().map_err(files("the kernel's description"))?;
    Ok(kernel)
}

fn name(options: &Options) -> String {
    let mut name = options.version.clone();
    let more = [(options.debug, "+debug"), (options.coverage, "+coverage"), (!options.fragments.is_empty(), "+config")];
    more.into_iter().filter(|(is, _)| *is).for_each(|(_, word)| name.push_str(word));
    name
}

/// Everything that a build needs is there.
fn installed(source: &Path, version: &str) -> Result<(), BuildError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let missing: Vec<(&str, &str)> = NEEDED.into_iter().filter(|(program, _)| !is_there(program)).collect();
    let mut what: Vec<String> = missing.iter().map(|(program, _)| (*program).to_owned()).collect();
    let mut packages: Vec<String> = missing.iter().map(|(_, package)| (*package).to_owned()).collect();
    if !source.is_file() {
        what.push(format!("the sources, {}", source.display()));
        packages.push(format!("linux-source-{version}"));
    }
    if what.is_empty() { Ok(()) } else { Err(BuildError::Missing { what: what.join(", "), packages: packages.join(" ") }) }
}

/// The lines of the configuration: of one option the last counts.
fn configuration(options: &Options) -> Result<String, BuildError> {
    let mut texts = vec![BASE.to_owned()];
    if options.debug {
        texts.push("CONFIG_DEBUG_KERNEL=y\nCONFIG_DEBUG_INFO_DWARF5=y\nCONFIG_FRAME_POINTER=y\nCONFIG_GDB_SCRIPTS=y\n".to_owned());
    }
    if options.coverage {
        texts.push("CONFIG_GCOV=y\nCONFIG_DEBUG_KERNEL=y\nCONFIG_DEBUG_INFO_DWARF5=y\n".to_owned());
    }
    for fragment in &options.fragments {
        texts.push(std::fs::read_to_string(fragment).map_err(files(format!("cannot read {}", fragment.display())))?);
    }
    let mut lines: Vec<(String, String)> = Vec::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        let named = line
            .strip_prefix("# ")
            .and_then(|rest| rest.strip_suffix(" is not set"))
            .or_else(|| line.split_once('=').map(|(name, _)| name));
        let Some(option) = named.filter(|name| name.starts_with("CONFIG_")) else { continue };
        lines.retain(|(known, _)| known != option);
        lines.push((option.to_owned(), line.trim_end().to_owned()));
    }
    Ok(lines.into_iter().fold(String::new(), |text, (_, line)| text + &line + "\n"))
}

/// What the kernel is made of, as a number.
fn key(source: &Path, config: &str, patches: &[&str]) -> Result<String, BuildError> {
    let mut hasher = Xxh3::new();
    let mut file = std::fs::File::open(source).map_err(files(source.display().to_string()))?;
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk).map_err(files(source.display().to_string()))? {
            0 => break,
            some => hasher.update(&chunk[..some]),
        }
    }
    for part in [config, INIT, INITRAMFS].into_iter().chain(patches.iter().copied()) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let compiler = Command::new("gcc").arg("--version").output().map_err(files("gcc"))?;
    hasher.update(&compiler.stdout);
    Ok(format!("{:016x}", hasher.digest()))
}

fn release(tree: &Path) -> Result<String, BuildError> {
    let text = std::fs::read_to_string(tree.join("Makefile")).map_err(files("the sources' Makefile"))?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
        line.map_or_else(String::new, |value| value.trim().to_owned())
    };
    Ok(format!("{}.{}.{}", of("VERSION"), of("PATCHLEVEL"), of("SUBLEVEL")))
}

fn make(tree: &Path) -> Command {
    let mut command = Command::new("make");
    command.current_dir(tree).arg("ARCH=um");
    // Nothing of who builds it, where and when.
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env("LC_ALL", "C");
    command.env("KBUILD_BUILD_TIMESTAMP", "2000-01-01").env("KBUILD_BUILD_USER", "weft").env("KBUILD_BUILD_HOST", "weft");
    command.env("KBUILD_BUILD_VERSION", "1").env("KCFLAGS", prefix_map(tree));
    command
}

fn prefix_map(tree: &Path) -> String {
    format!("-ffile-prefix-map={}=.", tree.display())
}

fn configure(tree: &Path, config: &str, watch: &mut dyn Watch) -> Result<(), BuildError> {
    std::fs::write(tree.join("weft.config"), config).map_err(files("the configuration"))?;
    run(make(tree).env("KCONFIG_ALLCONFIG", "weft.config").arg("allnoconfig"), "make allnoconfig", watch, &mut |_| None)?;
    let made = std::fs::read_to_string(tree.join(".config")).map_err(files("the configuration"))?;
    let lost: Vec<&str> = config.lines().filter(|line| !made.lines().any(|other| other == *line) && !line.ends_with("=n")).collect();
    if lost.is_empty() { Ok(()) } else { Err(BuildError::Config(lost.join(", "))) }
}

fn make_init(tree: &Path, watch: &mut dyn Watch) -> Result<(), BuildError> {
    std::fs::write(tree.join("weft-init.c"), INIT).map_err(files("process 1"))?;
    std::fs::write(tree.join("weft.cpio_list"), INITRAMFS).map_err(files("process 1"))?;
    let mut command = Command::new("gcc");
    command.current_dir(tree).args(["-O2", "-static", "-Wl,--build-id=none", &prefix_map(tree), "-o", "weft-init", "weft-init.c"]);
    run(&mut command, "gcc (process 1; package libc6-dev)", watch, &mut |_| None)?;
    run(Command::new("strip").current_dir(tree).arg("weft-init"), "strip", watch, &mut |_| None)
}

fn compile(tree: &Path, coverage: bool, watch: &mut dyn Watch) -> Result<(), BuildError> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut compiled = 0;
    let mut make = make(tree);
    if coverage {
        // libgcov, which is linked in, has a function of this name too.
        make.env("KCFLAGS", format!("{} -Dmangle_path=kernel_mangle_path", prefix_map(tree)));
    }
    run(make.arg(format!("-j{jobs}")).arg("linux"), "make linux", watch, &mut |line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("CC")).then(|| {
            compiled += 1;
            format!("compiles, {compiled} files so far: {}", words.next().unwrap_or(""))
        })
    })
}

/// Runs a step, with all that it starts; of what it says, `told` makes what people are told.
fn run(command: &mut Command, step: &str, watch: &mut dyn Watch, told: &mut dyn FnMut(&str) -> Option<String>) -> Result<(), BuildError> {
    let (mut reader, writer) = io::pipe().map_err(files("a pipe"))?;
    let errors = writer.try_clone().map_err(files("a pipe"))?;
    let mut child = command.stdin(Stdio::null()).stdout(writer).stderr(errors).process_group(0).spawn().map_err(files(step))?;
    // Its own ends of the pipe: without them the end of what it says is never seen.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut last: VecDeque<String> = VecDeque::new();
    let (mut chunk, mut line) = (vec![0; 1 << 16], Vec::new());
    loop {
        if watch.is_interrupted() {
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process_group(Pid::from_child(&child), Signal::KILL);
            child.wait().map_err(files(step))?;
            return Err(BuildError::Interrupted);
        }
        match rustix::event::poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&LOOK_PERIOD)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            other => other.map_err(|errno| files(step)(errno.into()))?,
        };
        let some = reader.read(&mut chunk).map_err(files(step))?;
        if some == 0 {
            break;
        }
        for byte in &chunk[..some] {
            if *byte != b'\n' {
                line.push(*byte);
                continue;
            }
            let text = String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned();
            if let Some(told) = told(&text) {
                watch.progress(&told);
            }
            if last.len() == LINES_TOLD {
                last.pop_front();
            }
            last.push_back(text);
        }
    }
    if child.wait().map_err(files(step))?.success() {
        return Ok(());
    }
    let words = last.iter().fold(String::new(), |mut words, line| {
        let _ = writeln!(words, "  {line}");
        words
    });
    Err(BuildError::Step { step: step.to_owned(), words: words.trim_end().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody(bool);

    impl Watch for Nobody {
        fn progress(&mut self, _: &str) {}
        fn is_interrupted(&self) -> bool {
            self.0
        }
    }

    #[test]
    fn a_step_ends_with_all_that_it_started_when_it_is_interrupted() {
        let mut command = Command::new("sh");
        let ended = run(command.args(["-c", "sleep 1000 & sleep 1000"]), "sleep", &mut Nobody(true), &mut |_| None);
        assert!(matches!(ended, Err(BuildError::Interrupted)), "{ended:?}");
        let mut lines = Vec::new();
        run(Command::new("sh").args(["-c", "echo one; echo two >&2"]), "echo", &mut Nobody(false), &mut |line| {
            lines.push(line.to_owned());
            None
        })
        .unwrap();
        assert_eq!(lines, ["one", "two"]);
        let failed = run(Command::new("sh").args(["-c", "echo why; exit 3"]), "sh", &mut Nobody(false), &mut |_| None).unwrap_err();
        assert_eq!(failed.to_string(), "sh failed:\n  why");
    }

    #[test]
    fn of_one_option_the_last_line_counts() {
        let folder = std::env::temp_dir().join(format!("weft-fragment-{}", std::process::id()));
        std::fs::write(&folder, "CONFIG_HZ=250\n# CONFIG_IPV6 is not set\nsomething else\n").unwrap();
        let text = configuration(&Options { version: "6.12".to_owned(), fragments: vec![folder.clone()], ..Options::default() }).unwrap();
        std::fs::remove_file(folder).unwrap();
        let of = |name: &str| text.lines().filter(|line| line.contains(name)).collect::<Vec<_>>();
        assert_eq!(of("CONFIG_HZ="), ["CONFIG_HZ=250"]);
        assert_eq!(of("CONFIG_IPV6 "), ["# CONFIG_IPV6 is not set"]);
        assert_eq!(of("CONFIG_IPV6="), [""; 0]);
        assert_eq!(of("CONFIG_MPTCP="), ["CONFIG_MPTCP=y"]);
    }

    #[test]
    fn a_version_that_is_not_there_is_told_with_those_that_are() {
        let error = build(&Options { version: "5.4".to_owned(), ..Options::default() }, &mut Nobody(false)).unwrap_err();
        assert_eq!(error.to_string(), "there is no kernel 5.4 that weft can build\nhelp: there are: 6.12, 6.1");
    }

    #[test]
    fn every_patch_has_its_reason_before_it() {
        for patch in VERSIONS.iter().flat_map(|version| version.patches) {
            assert!(patch.find("--- a/").is_some_and(|at| patch[..at].trim().len() > 40), "{patch}");
        }
    }
}
