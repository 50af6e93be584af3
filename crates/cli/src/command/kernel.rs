//! `weft kernel`

use crate::output;
use serde_json::json;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_kernel::build::{Options, build};
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

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Build(args) => {
            let kernel =
                build(&Options { version: args.version, coverage: args.coverage, debug: args.debug, fragments: args.config }, &mut tell())?;
            if std::io::stderr().is_terminal() {
                eprint!("\r\x1b[K");
            }
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
        What::Remove { name } => {
            store::remove(&name)?.iter().for_each(|kernel| output::line(&format!("removed {}", kernel.folder.display())));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Progress: one line that changes on a terminal; otherwise its steps, and every hundredth file.
fn tell() -> impl FnMut(&str) {
    let terminal = std::io::stderr().is_terminal();
    let mut files = 0_u32;
    move |line: &str| {
        let is_file = line.starts_with("compiles");
        files += u32::from(is_file);
        let mut error = std::io::stderr();
        // Nobody reads it: the build goes on.
        let _ = match terminal {
            true => write!(error, "\r\x1b[K{line:.100}").and_then(|()| error.flush()),
            false if !is_file || files.is_multiple_of(100) => writeln!(error, "{line}"),
            false => Ok(()),
        };
    }
}
