//! Building kernels from Debian's sources.
//!
//! The same sources, patches, configuration and compiler give the same binary to the byte, wherever it is built: its hash is part of the hash of the worlds that
//! it runs in. What a kernel is keyed by is all of these.

use crate::store::{self, Kernel};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Versions that there are patches for: as Debian names its sources.
pub const VERSIONS: [&str; 1] = ["6.12"];
/// Where Debian's packages put them.
const SOURCES: &str = "/usr/src";
const BASE: &str = include_str!("../../../kernel/config/base.config");
const INIT: &str = include_str!("../../../kernel/init/init.c");
/// Our changes to each version, in order; kernel/patches has the reason of each in front of it.
const PATCHES: [(&str, &[&str]); 1] = [(
    "6.12",
    &[
        include_str!("../../../kernel/patches/6.12/01-hz.patch"),
        include_str!("../../../kernel/patches/6.12/02-seed.patch"),
        include_str!("../../../kernel/patches/6.12/03-xstate.patch"),
        include_str!("../../../kernel/patches/6.12/04-call-cost.patch"),
        include_str!("../../../kernel/patches/6.12/05-relative.patch"),
    ],
)];
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
    /// Of [`VERSIONS`].
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
    #[error("there is no kernel {0} that weft can build\nhelp: there are: {known}", known = VERSIONS.join(", "))]
    Version(String),
    /// The configuration does not come out as it was written.
    #[error(
        "the configuration does not take {0}\nhelp: the option needs another, or this version does not have it (make ARCH=um menuconfig shows what it depends on)"
    )]
    Config(String),
    /// A step of the build failed.
    #[error("{step} failed:\n{words}")]
    Step {
        /// Which.
        step: String,
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
struct Work(PathBuf);

impl Drop for Work {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Builds a kernel, or finds it: the same was built before. `progress` is told what is done, a line each.
///
/// # Errors
/// What is missing or went wrong, and what to do.
pub fn build(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Kernel, BuildError> {
    let patches = PATCHES.iter().find(|(version, _)| *version == options.version).map(|(_, patches)| *patches);
    let patches = patches.ok_or_else(|| BuildError::Version(options.version.clone()))?;
    let source = Path::new(SOURCES).join(format!("linux-source-{}.tar.xz", options.version));
    installed(&source, &options.version)?;
    let config = configuration(options)?;
    progress("looks whether it was built before");
    let key = key(&source, &config, patches)?;
    let folder = store::folder().map_err(files("the user's cache"))?;
    let known = store::list().map_err(files("the kernels that there are"))?;
    if let Some(known) = known.into_iter().find(|known| known.key == key) {
        return Ok(known);
    }
    let work = Work(folder.join(format!(".build-{}", std::process::id())));
    std::fs::create_dir_all(&work.0).map_err(files(format!("cannot make {}", work.0.display())))?;
    progress(&format!("unpacks {}", source.display()));
    run(Command::new("tar").arg("-xJf").arg(&source).args(["--strip-components=1", "-C"]).arg(&work.0), "tar", &mut |_| ())?;
    let release = release(&work.0)?;
    for patch in patches {
        let file = work.0.join("weft.patch");
        std::fs::write(&file, patch).map_err(files("a patch"))?;
        let mut command = Command::new("patch");
        command.args(["-p1", "--forward", "--input", "weft.patch"]).current_dir(&work.0);
        run(&mut command, "patch", &mut |_| ())?;
    }
    configure(&work.0, &config)?;
    make_init(&work.0)?;
    compile(&work.0, progress)?;
    let binary = std::fs::read(work.0.join("linux")).map_err(files("the kernel"))?;
    let name = name(options);
    let hash = format!("{:032x}", xxh3_128(&binary));
    let to = folder.join(format!("{name}-{key}"));
    let kernel = Kernel { name, release, key, hash, folder: to.clone() };
    // A debugger wants the sources, and coverage what the compiler has noted beside them.
    if options.debug || options.coverage {
        std::fs::rename(&work.0, &to).map_err(files(format!("cannot make {}", to.display())))?;
    } else {
        std::fs::create_dir_all(&to).map_err(files(format!("cannot make {}", to.display())))?;
        std::fs::rename(work.0.join("linux"), kernel.binary()).map_err(files("the kernel"))?;
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
        texts.push("CONFIG_GCOV_KERNEL=y\nCONFIG_DEBUG_FS=y\n".to_owned());
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
        match io::Read::read(&mut file, &mut chunk).map_err(files(source.display().to_string()))? {
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

fn configure(tree: &Path, config: &str) -> Result<(), BuildError> {
    std::fs::write(tree.join("weft.config"), config).map_err(files("the configuration"))?;
    run(make(tree).env("KCONFIG_ALLCONFIG", "weft.config").arg("allnoconfig"), "make allnoconfig", &mut |_| ())?;
    let made = std::fs::read_to_string(tree.join(".config")).map_err(files("the configuration"))?;
    let lost: Vec<&str> = config.lines().filter(|line| !made.lines().any(|other| other == *line) && !line.ends_with("=n")).collect();
    if lost.is_empty() { Ok(()) } else { Err(BuildError::Config(lost.join(", "))) }
}

fn make_init(tree: &Path) -> Result<(), BuildError> {
    std::fs::write(tree.join("weft-init.c"), INIT).map_err(files("process 1"))?;
    std::fs::write(tree.join("weft.cpio_list"), INITRAMFS).map_err(files("process 1"))?;
    let mut command = Command::new("gcc");
    command.current_dir(tree).args(["-O2", "-static", "-Wl,--build-id=none", &prefix_map(tree), "-o", "weft-init", "weft-init.c"]);
    run(&mut command, "gcc (process 1; package libc6-dev)", &mut |_| ())?;
    run(Command::new("strip").current_dir(tree).arg("weft-init"), "strip", &mut |_| ())
}

fn compile(tree: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), BuildError> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut compiled = 0;
    run(make(tree).arg(format!("-j{jobs}")).arg("linux"), "make linux", &mut |line| {
        let mut words = line.split_whitespace();
        if words.next() == Some("CC") {
            compiled += 1;
            progress(&format!("compiles, {compiled} files so far: {}", words.next().unwrap_or("")));
        }
    })
}

/// Runs a step; `line` is told what it says.
fn run(command: &mut Command, step: &str, line: &mut dyn FnMut(&str)) -> Result<(), BuildError> {
    let (reader, writer) = io::pipe().map_err(files("a pipe"))?;
    let errors = writer.try_clone().map_err(files("a pipe"))?;
    let mut child = command.stdin(Stdio::null()).stdout(writer).stderr(errors).spawn().map_err(files(step))?;
    // Its own ends of the pipe: without them the end of what it says is never seen.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut last: VecDeque<String> = VecDeque::new();
    for text in BufReader::new(reader).split(b'\n') {
        let text = String::from_utf8_lossy(&text.map_err(files(step))?).into_owned();
        line(&text);
        if last.len() == LINES_TOLD {
            last.pop_front();
        }
        last.push_back(text);
    }
    if child.wait().map_err(files(step))?.success() {
        return Ok(());
    }
    let words = last.iter().fold(String::new(), |mut words, line| {
        let _ = writeln!(words, "  {line}");
        words
    });
    let program = command.get_program();
    Err(BuildError::Step {
        step: if step.is_empty() { program_name(program) } else { step.to_owned() },
        words: words.trim_end().to_owned(),
    })
}

fn program_name(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let error = build(&Options { version: "5.4".to_owned(), ..Options::default() }, &mut |_| ()).unwrap_err();
        assert_eq!(error.to_string(), "there is no kernel 5.4 that weft can build\nhelp: there are: 6.12");
    }

    #[test]
    fn every_patch_has_its_reason_before_it() {
        for patch in PATCHES.iter().flat_map(|(_, patches)| patches.iter()) {
            assert!(patch.find("--- a/").is_some_and(|at| patch[..at].trim().len() > 40), "{patch}");
        }
    }
}
