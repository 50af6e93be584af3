//! The worlds of this user that run, and let others in.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The sockets of all worlds of this user's that run.
pub fn all() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(weft_host::place::own_directory()).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_world(path)).collect();
    found.sort();
    found
}

/// The socket of the only world of this user's that runs.
pub fn only() -> anyhow::Result<PathBuf> {
    let folder = weft_host::place::own_directory();
    let mut found = all();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => anyhow::bail!(
            "no world of yours has its socket in {}\nhelp: name the socket of one that was started with --control: --control PATH; or start one with `weft sim FILE --pace 1.0`",
            folder.display()
        ),
        (Some(last), false) => {
            let names: Vec<String> =
                found.iter().chain([&last]).filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
            anyhow::bail!("several worlds run: {}\nhelp: choose one: --control {}", names.join(", "), names[0])
        }
    }
}

fn is_world(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(weft_host::place::WORLD_PREFIX));
    named && UnixStream::connect(path).is_ok()
}
