//! `weft new`

use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_plugin::template::{self, Language};

/// Begin something of your own: `weft new block mine`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Block(BlockArgs),
}

/// Write a project for a block: it builds, and its tests pass. The page "Blocks of your own" of the site describes what blocks can do, "A ring" makes one.
#[derive(clap::Args, Debug)]
struct BlockArgs {
    /// Its kind, which also names the folder
    name: String,
    /// The language: rust (as WebAssembly), or c (as WebAssembly, or as a native object where clang or lld are missing)
    #[arg(long, value_name = "LANGUAGE", default_value = "rust")]
    lang: Lang,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Lang {
    Rust,
    C,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let What::Block(BlockArgs { name, lang }) = args.what;
    let (language, then) = match lang {
        Lang::Rust => (Language::Rust, "cargo test && cargo build --release --target wasm32-unknown-unknown && weft sim world.toml"),
        Lang::C => (Language::C, "make test"),
    };
    if weft_node::block_table().get(&name).is_some() {
        anyhow::bail!(
            "'{name}' is the name of a built-in block, and no file can have its kind: choose another (`weft help blocks` lists them)"
        );
    }
    let mut files = template::project(&name, language).map_err(anyhow::Error::msg)?;
    // world.toml names it: editors know then what a scenario may hold.
    files.push(("scenario.schema.json".to_owned(), format!("{:#}\n", weft_sim::scenario::schema())));
    let folder = PathBuf::from(&name);
    std::fs::create_dir(&folder).with_context(|| format!("cannot make the folder {name}"))?;
    for (path, text) in files {
        let path = folder.join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        made.with_context(|| format!("cannot write {}", path.display()))?;
    }
    crate::output::line(&format!("{name}/ is a block: cd {name} && {then}"));
    Ok(ExitCode::SUCCESS)
}
