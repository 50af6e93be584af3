//! `weft kernel`

use super::sim::interrupt::Interrupt;
use crate::output::{self, Wide};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_kernel::build::{BuildError, Options, Watch, build};
use weft_kernel::coverage::{self, Part, Reached};
use weft_kernel::store::{self, Kernel};

/// Linux kernels as nodes of virtual worlds (kind = "linux"): build them from Debian's sources, list them, remove them.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Build(BuildArgs),
    /// List the kernels that were built.
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Coverage(CoverageArgs),
    /// Remove a kernel.
    Remove {
        /// Its name or key, as `weft kernel list` shows it
        name: String,
    },
}

/// Build a kernel: a few minutes, about 2 GB of disk while it builds, and 10 MB then. One that was built before is found.
#[derive(clap::Args, Debug)]
struct BuildArgs {
    /// Version, of Debian's package linux-source-VERSION
    #[arg(long, value_name = "VERSION", default_value = "6.12")]
    version: String,
    /// Count which lines are executed (gcov)
    #[arg(long)]
    coverage: bool,
    /// With what a debugger needs
    #[arg(long)]
    debug: bool,
    /// A file with lines CONFIG_…=… over the usual configuration; may be given several times
    #[arg(long, value_name = "FRAGMENT")]
    config: Vec<PathBuf>,
}

/// What of a kernel's sources runs have reached, a line each file. Its nodes run a kernel that counts: `weft kernel build --coverage`, kernel = "6.12+coverage".
#[derive(clap::Args, Debug)]
struct CoverageArgs {
    /// A folder or file of the kernel's sources: net/mptcp
    path: String,
    /// Folders of results (weft sim SCENARIO --out DIR), added up
    #[arg(required = true, value_name = "DIR")]
    results: Vec<PathBuf>,
    /// Which kernel they ran, as `weft kernel list` shows it
    #[arg(long, value_name = "NAME", default_value = "6.12+coverage")]
    kernel: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wide: Wide,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Build(args) => {
            let options = Options { version: args.version, coverage: args.coverage, debug: args.debug, fragments: args.config };
            let interrupt = Interrupt::catch(false)?;
            let built = build(&options, &mut Follower { interrupt: &interrupt, terminal: output::is_lively(), files: 0 });
            if output::is_lively() {
                output::progress("");
            }
            if let Err(BuildError::Interrupted) = &built {
                interrupt.cut();
                tell!("weft: {}", BuildError::Interrupted);
                return Ok(interrupt.status().unwrap_or(ExitCode::from(1)));
            }
            let kernel = built?;
            output::line(&format!("{} (Linux {}, hash {})", kernel.binary().display(), kernel.release, kernel.hash));
        }
        What::List { json } => {
            let kernels = store::list()?;
            if json {
                let row = |kernel: &Kernel| json!({"name": kernel.name, "release": kernel.release, "key": kernel.key, "hash": kernel.hash, "path": kernel.binary()});
                output::json(&kernels.iter().map(row).collect::<Vec<_>>().into());
            } else if kernels.is_empty() {
                output::line("(none yet: `weft kernel build` makes one)");
            } else {
                kernels.iter().for_each(|kernel| {
                    output::line(&format!("{:<16} {:<10} {} {}", kernel.name, kernel.release, kernel.key, kernel.binary().display()));
                });
            }
        }
        What::Coverage(args) => show_coverage(&args)?,
        What::Remove { name } => {
            store::remove(&name)?.iter().for_each(|kernel| output::line(&format!("removed {}", kernel.folder.display())));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show_coverage(args: &CoverageArgs) -> anyhow::Result<()> {
    let kernel = store::find(&args.kernel).map_err(anyhow::Error::msg)?;
    let found = coverage::reached(&kernel, &args.path, &args.results)?;
    let mut all = Reached::default();
    found.values().for_each(|of_file| all += *of_file);
    if args.json {
        let part = |part: Part| json!({"reached": part.reached, "all": part.all});
        let row = |name: &str, of: &Reached| json!({"file": name, "lines": part(of.lines), "functions": part(of.functions), "branches": part(of.branches)});
        let rows: Vec<Value> = found.iter().map(|(name, of)| row(name, of)).collect();
        output::json(&json!({"kernel": kernel.name, "files": rows, "all": row("", &all)}));
        return Ok(());
    }
    let percent = |part: Part| match part.all {
        0 => "–".to_owned(),
        all => format!("{:.1} %", 100.0 * part.reached as f64 / all as f64),
    };
    let row = |name: &str, of: &Reached| {
        json!({"file": name, "lines": of.lines.all, "lines reached": percent(of.lines), "functions": of.functions.all,
               "functions reached": percent(of.functions), "branches reached": percent(of.branches)})
    };
    let rows: Vec<Value> = found.iter().map(|(name, of)| row(name, of)).chain([row("all", &all)]).collect();
    output::table(&rows, args.wide);
    Ok(())
}

/// Shows progress: one line that changes on a terminal; otherwise its steps, and every hundredth file.
struct Follower<'a> {
    interrupt: &'a Interrupt,
    terminal: bool,
    files: u32,
}

impl Watch for Follower<'_> {
    fn progress(&mut self, line: &str) {
        let is_file = line.starts_with("compiles");
        self.files += u32::from(is_file);
        match self.terminal {
            true => output::progress(line),
            false if !is_file || self.files.is_multiple_of(100) => tell!("{line}"),
            false => {}
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }
}
