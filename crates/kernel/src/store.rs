//! Kernels that were built, in the user's cache, and those that a package has installed beside the command: a folder each, with the kernel and what it
//! was made of.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Where kernels are, in place of the user's cache.
pub const VARIABLE: &str = "WEFT_KERNELS";
/// What describes a kernel, in its folder.
const ABOUT: &str = "kernel.json";
/// The kernel, in its folder.
pub(crate) const BINARY: &str = "linux";

/// A kernel that was built.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kernel {
    /// As scenarios name it: the version of its sources, with `+debug`, `+coverage` or `+config` behind it if it is no usual one.
    pub name: String,
    /// Its whole version, `6.12.117`.
    pub release: String,
    /// Of its sources, configuration, patches and process 1.
    pub key: String,
    /// Of the binary, xxh3-128: part of the hash of the worlds that it runs in.
    pub hash: String,
    /// Its folder.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Kernel {
    /// The binary.
    pub fn binary(&self) -> PathBuf {
        self.folder.join(BINARY)
    }

    /// Counts which of its lines are executed.
    pub fn counts(&self) -> bool {
        self.name.split('+').skip(1).any(|word| word == "coverage")
    }

    pub(crate) fn save(&self) -> io::Result<()> {
        std::fs::write(self.folder.join(ABOUT), serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Where kernels are: `$WEFT_KERNELS`, else `weft/kernels` in the user's cache.
///
/// # Errors
/// There is neither that variable nor a home.
pub fn folder() -> io::Result<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache"))).map(|cache| cache.join("weft/kernels"));
    of(VARIABLE).or_else(cache).ok_or_else(|| io::Error::other(format!("neither {VARIABLE} nor HOME says where kernels are")))
}

/// Where packages install kernels: `lib/weft/kernels` beside the folder of the command. `/usr/bin/weft` finds those of a distribution, the command of a
/// Python environment those of that environment.
fn installed() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.parent()?.join("lib/weft/kernels"))
}

fn read(folder: &Path) -> Option<Kernel> {
    let kernel: Kernel = serde_json::from_str(&std::fs::read_to_string(folder.join(ABOUT)).ok()?).ok()?;
    let kernel = Kernel { folder: folder.to_owned(), ..kernel };
    kernel.binary().is_file().then_some(kernel)
}

/// All kernels, by name and release.
///
/// # Errors
/// A folder cannot be read; that there is none yet is no error.
pub fn list() -> io::Result<Vec<Kernel>> {
    // Where a variable says which kernels there are, there are no others.
    let packaged = if std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty()) { None } else { installed() };
    // A package's kernels serve those who have no home, too.
    let own = match (folder(), &packaged) {
        (Err(_), Some(_)) => None,
        (own, _) => Some(own?),
    };
    let mut kernels = Vec::new();
    for folder in own.iter().chain(&packaged) {
        kernels.extend(list_of(folder)?);
    }
    kernels.sort_by(|a, b| (&a.name, &a.release, &a.key).cmp(&(&b.name, &b.release, &b.key)));
    Ok(kernels)
}

fn list_of(folder: &Path) -> io::Result<Vec<Kernel>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    Ok(entries.filter_map(|entry| read(&entry.ok()?.path())).collect())
}

/// The kernel of a name; of several the newest.
///
/// # Errors
/// There is none, and how to make it.
pub fn find(name: &str) -> Result<Kernel, String> {
    let kernels = list().map_err(|error| format!("cannot look for kernels: {error}"))?;
    newest(&kernels, name).cloned().ok_or_else(|| {
        let known: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let there = if known.is_empty() { "there is none yet".to_owned() } else { format!("there are: {}", known.join(", ")) };
        let (version, more) = name.split_once('+').map_or((name, String::new()), |(version, more)| (version, format!(" --{more}")));
        match crate::build::versions().contains(&version) {
            true => format!(
                "no kernel '{name}' has been built ({there}): `weft kernel build --version {version}{more}` makes one in a few minutes"
            ),
            false => format!(
                "there is no kernel '{name}' ({there}), and none that weft can build: of versions it knows {}",
                crate::build::versions().join(", ")
            ),
        }
    })
}

/// Of those with this name or key the newest release; of one release the one that was built last: its process 1 is most probably this weft's.
fn newest<'k>(kernels: &'k [Kernel], name: &str) -> Option<&'k Kernel> {
    let built = |kernel: &Kernel| kernel.folder.join(ABOUT).metadata().and_then(|about| about.modified()).ok();
    let named = kernels.iter().filter(|kernel| kernel.name == name || kernel.key == name);
    named.max_by(|a, b| numbers(&a.release).cmp(&numbers(&b.release)).then_with(|| built(a).cmp(&built(b))))
}

fn numbers(release: &str) -> Vec<u64> {
    release.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Removes a kernel, by its name or key. Returns those that were removed.
///
/// # Errors
/// There is none, a package has brought it, or its folder cannot be removed.
pub fn remove(name: &str) -> io::Result<Vec<Kernel>> {
    let named = |kernel: &Kernel| kernel.name == name || kernel.key == name;
    let (packaged, found): (Vec<Kernel>, Vec<Kernel>) =
        list()?.into_iter().filter(named).partition(|kernel| installed().is_some_and(|folder| kernel.folder.starts_with(folder)));
    match (found.as_slice(), packaged.as_slice()) {
        ([], [kernel, ..]) => {
            let folder = kernel.folder.display();
            return Err(io::Error::other(format!("{folder} belongs to the package weft-kernel: remove that with apt, dnf or pip")));
        }
        ([], []) => {
            let what = format!("there is no kernel '{name}': `weft kernel list` shows what there is");
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        _ => {}
    }
    found.iter().try_for_each(|kernel| std::fs::remove_dir_all(&kernel.folder))?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_newest_release_is_taken_and_of_one_release_the_one_built_last() {
        let folder = std::env::temp_dir().join(format!("weft-kernels-{}", std::process::id()));
        let kernel = |key: &str, release: &str, built: u64| {
            let kernel = Kernel {
                name: "6.12".to_owned(),
                release: release.to_owned(),
                key: key.to_owned(),
                hash: String::new(),
                folder: folder.join(key),
            };
            std::fs::create_dir_all(&kernel.folder).unwrap();
            kernel.save().unwrap();
            let about = std::fs::File::options().write(true).open(kernel.folder.join(ABOUT)).unwrap();
            about.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(built)).unwrap();
            kernel
        };
        let kernels = [kernel("a", "6.12.9", 9000), kernel("b", "6.12.117", 2000), kernel("c", "6.12.117", 1000)];
        let found = |name: &str| newest(&kernels, name).map(|kernel| kernel.key.as_str());
        assert_eq!((found("6.12"), found("c"), found("6.1")), (Some("b"), Some("c"), None));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
