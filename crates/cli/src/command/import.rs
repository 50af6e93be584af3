//! `weft import`

use crate::output;
use anyhow::Context as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Largest file that is read, bytes: FINS' own have two thousand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Convert the configuration of another framework to a stack file
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(clap::Subcommand, Debug)]
enum From {
    Fins(FinsArgs),
}

/// Convert the two files of the FINS framework, modules with their links and interfaces with their addresses, to a stack file.
///
/// Its interfaces are attached to those of the host with the same names (packet:NAME). What of the files has no place in the stack file is told on standard
/// error, a line each with file and line; a file that contradicts itself is refused
#[derive(clap::Args, Debug)]
struct FinsArgs {
    /// Modules and links
    #[arg(value_name = "STACK.cfg")]
    stack: PathBuf,
    /// Interfaces, addresses and routes
    #[arg(value_name = "ENVI.cfg")]
    environment: PathBuf,
    /// Write the stack file here instead of to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let From::Fins(args) = args.from;
    let (stack, environment) = (read(&args.stack)?, read(&args.environment)?);
    let names = [&args.stack, &args.environment].map(|path| path.display().to_string());
    let help = "the two files are in this order: modules and links, interfaces and addresses";
    let imported = weft_node::fins::import((&names[0], &stack), (&names[1], &environment))
        .map_err(|error| anyhow::anyhow!("{error}\nhelp: {help}"))?;
    imported.notes.iter().for_each(|note| tell!("{note}"));
    match &args.out {
        Some(path) => std::fs::write(path, &imported.stack).with_context(|| format!("cannot write {}", path.display()))?,
        None => output::line(imported.stack.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(
        text.len() as u64 <= FILE_BYTES_MAX,
        "{}: larger than {FILE_BYTES_MAX} bytes, which is no file of FINS",
        path.display()
    );
    Ok(text)
}
